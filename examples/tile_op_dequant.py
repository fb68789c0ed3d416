"""A tile operator of the user's own: a copy that unpacks int4 weights, two to a byte, to scaled float16.

    python examples/tile_op_dequant.py [--target auto|cuda|sim:sm_80|cpu|reference]
"""

import argparse

import numpy as np
import tilelang
import tilelang.language as T


def unpack(packed, scale):  # what it means: target="reference" runs this
    nibbles = np.stack([packed & 15, packed >> 4], -1).reshape(packed.shape[0], -1)
    return (nibbles.astype(np.float32) - 8) * scale


@T.tile_op(eval=unpack)
def dequant(packed: T.read, out: T.write, scale: T.value):
    for i, j in T.Parallel(*out.shape):
        out[i, j] = (T.float32(packed[i, j // 2] >> T.uint8(j % 2 * 4) & T.uint8(15)) - 8) * scale


@T.prim_func
def main(A: T.Tensor((128, 256), "float16"), W: T.Tensor((192, 128), "uint8"), scale: T.float32,
         C: T.Tensor((128, 192), "float32")):
    with T.Kernel(192 // 64, 128 // 64, threads=128) as (bx, by):
        A_s, W_s = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
        C_l = T.alloc_fragment((64, 64), "float32")
        T.clear(C_l)
        for k in T.Pipelined(256 // 64):
            T.copy(A[by * 64, k * 64], A_s)
            dequant(W[bx * 64 : bx * 64 + 64, k * 32 : k * 32 + 32], W_s, scale)
            T.gemm(A_s, W_s, C_l, transpose_B=True)
        T.copy(C_l, C[by * 64, bx * 64])


parser = argparse.ArgumentParser()
parser.add_argument("--target", default="auto")
kernel = tilelang.compile(main, out_idx=[-1], target=parser.parse_args().target)
rng = np.random.default_rng(0)
A, W = rng.integers(-4, 5, (128, 256)).astype(np.float16), rng.integers(0, 256, (192, 128), dtype=np.uint8)
if kernel.device_type == "cuda":
    import torch

    C = kernel(torch.from_numpy(A).cuda(), torch.from_numpy(W).cuda(), 0.5).cpu().numpy()
else:
    C = kernel(A, W, 0.5)
assert (A.astype(np.float32) @ unpack(W, 0.5).T == C).all()
print(f"{kernel.target}: exact")
