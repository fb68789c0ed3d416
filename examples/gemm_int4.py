"""A GEMM of 4-bit integers, C = A @ B.T: int4 × int4 -> int32, exact; two numbers to a byte in memory.

    python examples/gemm_int4.py [--target auto|cpu|cuda|sim:CHIP|reference] [--m M] [--n N] [--k K]

A tensor of int4 with K columns is passed as bytes with K / 2: the even element in the lower half.
"""

import harness
import numpy as np
import tilelang
import tilelang.language as T

TILES = {"cpu": (128, 128, 512, 1), "gpu": (128, 128, 64, 128), "reference": (64, 64, 64, 1)}
SMALL = {"m": 101, "n": 70, "k": 200}


@tilelang.jit(out_idx=[-1])
def gemm_int4(M, N, K, block_M, block_N, block_K, threads):
    @T.prim_func
    def main(A: T.Tensor((M, K), "int4"), B: T.Tensor((N, K), "int4"), C: T.Tensor((M, N), "int32")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_tile = T.alloc_shared((block_M, block_K), "int4")
            B_tile = T.alloc_shared((block_N, block_K), "int4")
            sums = T.alloc_fragment((block_M, block_N), "int32")
            T.clear(sums)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[by * block_M, k * block_K], A_tile)
                T.copy(B[bx * block_N, k * block_K], B_tile)
                T.gemm(A_tile, B_tile, sums, transpose_B=True)
            T.copy(sums, C[by * block_M, bx * block_N])

    return main


def cases(kind, m=501, n=390, k=1000):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-8, 8, (rows, k), dtype=np.int8) for rows in (m, n))
    packed = [(x[:, ::2] & 15 | x[:, 1::2] << 4).astype(np.uint8) for x in (a, b)]
    kernel = gemm_int4.get_tir(m, n, k, *TILES[kind])
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    arguments = [*packed, harness.blank((m, n), "int32")]
    yield harness.Case(f"{m} x {n} x {k}", kernel, arguments, {2: expected}, 0)


if __name__ == "__main__":
    harness.main(__doc__, cases)
