"""A tile operator of the user's own: a copy that unpacks int4 weights, two to a byte, to scaled float16.

Usage:
    python examples/tile_op_dequant.py [--target auto|cuda|sim:sm_80|cpu|reference]
"""

import harness
import numpy as np
import tilelang
import tilelang.language as T

SMALL = {"m": 100, "n": 70, "k": 192}


def unpack(packed, scale):  # what it means: target="reference" runs this
    nibbles = np.stack([packed & 15, packed >> 4], -1).reshape(packed.shape[0], -1)
    return (nibbles.astype(np.float32) - 8) * scale


@T.tile_op(eval=unpack)
def dequant(packed: T.read, out: T.write, scale: T.value):
    for i, j in T.Parallel(*out.shape):
        out[i, j] = (T.float32(packed[i, j // 2] >> T.uint8(j % 2 * 4) & T.uint8(15)) - 8) * scale


@tilelang.jit(out_idx=[-1])
def gemm(M, N, K):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        W: T.Tensor((N, K // 2), "uint8"),
        scale: T.float32,
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
            A_s, W_s = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.clear(C_l)
            for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
                T.copy(A[by * 64, k * 64], A_s)
                dequant(W[bx * 64 : bx * 64 + 64, k * 32 : k * 32 + 32], W_s, scale)
                T.gemm(A_s, W_s, C_l, transpose_B=True)
            T.copy(C_l, C[by * 64, bx * 64])

    return main


def cases(kind, m=128, n=192, k=256):
    rng = np.random.default_rng(0)
    a, w = rng.integers(-4, 5, (m, k)).astype(np.float16), rng.integers(0, 256, (n, k // 2), dtype=np.uint8)
    arguments = [a, w, 0.5, harness.blank((m, n))]
    expected = a.astype(np.float32) @ unpack(w, 0.5).T  # whole and half numbers: exact
    yield harness.Case(f"{m} x {n} x {k}", gemm.get_tir(m, n, k), arguments, {3: expected}, 0)


if __name__ == "__main__":
    harness.main(__doc__, cases)
