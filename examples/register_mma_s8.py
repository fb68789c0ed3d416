"""A matrix instruction that the compiler does not know, told to T.gemm: int8 × int8 -> int32, exact.

    python examples/register_mma_s8.py [--target auto|cuda|sim:sm_80|cpu|reference]
"""

import argparse

import numpy as np
import tilelang
import tilelang.language as T

# Lane 4g + q holds the rows (of B, the column) g and g + 8, and along k the four bytes from 4q.
name = tilelang.register_matrix((16, 8, 16), ("int8", "int8", "int32"),
                                a=T.Fragment((16, 16), lambda i, k: (i % 8 * 4 + k // 4, k % 4 + i // 8 * 4)),
                                b=T.Fragment((16, 8), lambda k, j: (j * 4 + k // 4, k % 4)),
                                c=T.Fragment((16, 8), lambda i, j: (i % 8 * 4 + j // 2, j % 2 + i // 8 * 2)),
                                ptx="mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32",
                                eval=lambda A, B, C: A.astype(np.int32) @ B.astype(np.int32) + C)


@T.prim_func
def gemm_s8(A: T.Tensor((256, 192), "int8"), B: T.Tensor((320, 192), "int8"),
            C: T.Tensor((256, 320), "int32")):
    with T.Kernel(320 // 64, 256 // 64, threads=128) as (bx, by):
        A_s, B_s = T.alloc_shared((64, 64), "int8"), T.alloc_shared((64, 64), "int8")
        C_l = T.alloc_fragment((64, 64), "int32")
        T.clear(C_l)
        for k in T.Pipelined(192 // 64):
            T.copy(A[by * 64, k * 64], A_s)
            T.copy(B[bx * 64, k * 64], B_s)
            T.gemm(A_s, B_s, C_l, transpose_B=True)
        T.copy(C_l, C[by * 64, bx * 64])


parser = argparse.ArgumentParser()
parser.add_argument("--target", default="auto")
kernel = tilelang.compile(gemm_s8, out_idx=[-1], target=parser.parse_args().target)
A, B = (np.random.default_rng(0).integers(-128, 128, (n, 192), dtype=np.int8) for n in (256, 320))
if kernel.device_type == "cuda":
    import torch

    C = kernel(torch.from_numpy(A).cuda(), torch.from_numpy(B).cuda()).cpu().numpy()
else:
    C = kernel(A, B)
assert (A.astype(np.int32) @ B.astype(np.int32).T == C).all()
print(f"{kernel.target}: exact; registered {name}")
