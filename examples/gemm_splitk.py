"""C = A @ B where K is long and C small: several blocks share one tile of C, each a part of K.

    python examples/gemm_splitk.py [--target auto|cpu|cuda|sim:CHIP|reference] [--m M] [--n N] [--k K]
                                   [--parts P]

Their sums meet in one of two ways.  `atomic`: each block adds to C, which the caller has cleared; the order
of the additions, and so the last bits, may change from call to call.  `two_kernels`: each block writes its
sums for a second kernel to add up, always in the same order.
"""

import harness
import numpy as np
import tilelang
import tilelang.language as T

TILES = {"cpu": (64, 64, 256, 1), "gpu": (128, 128, 32, 128), "reference": (64, 64, 64, 1)}
SMALL = {"m": 30, "n": 70, "k": 300, "parts": 2}


@tilelang.jit
def gemm_splitk(M, N, K, parts, how, block_M, block_N, block_K, threads, dtype="float16"):
    steps = T.ceildiv(T.ceildiv(K, block_K), parts)  # of each block; those beyond K read zeros
    grid = T.ceildiv(N, block_N), T.ceildiv(M, block_M), parts

    @T.macro
    def multiply(A, B, C_tile, row, column, first):
        A_tile = T.alloc_shared((block_M, block_K), dtype)
        B_tile = T.alloc_shared((block_K, block_N), dtype)
        T.clear(C_tile)
        for k in T.Pipelined(steps, num_stages=4):
            T.copy(A[row, first + k * block_K], A_tile)
            T.copy(B[first + k * block_K, column], B_tile)
            T.gemm(A_tile, B_tile, C_tile)

    @T.prim_func
    def atomic(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")):
        with T.Kernel(*grid, threads=threads) as (bx, by, part):
            C_tile = T.alloc_fragment((block_M, block_N), "float32")
            multiply(A, B, C_tile, by * block_M, bx * block_N, part * steps * block_K)
            T.atomic_add(C[by * block_M, bx * block_N], C_tile)

    @T.prim_func
    def two_kernels(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")):
        sums = T.alloc_global((parts, M, N), "float32")
        with T.Kernel(*grid, threads=threads) as (bx, by, part):
            C_tile = T.alloc_fragment((block_M, block_N), "float32")
            multiply(A, B, C_tile, by * block_M, bx * block_N, part * steps * block_K)
            T.copy(C_tile, sums[part, by * block_M, bx * block_N])
        with T.Kernel(*grid[:2], threads=threads) as (bx, by):
            total = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(total)
            for part in T.serial(parts):
                for i, j in T.Parallel(block_M, block_N):
                    total[i, j] += sums[part, by * block_M + i, bx * block_N + j]
            T.copy(total, C[by * block_M, bx * block_N])

    return atomic if how == "atomic" else two_kernels


def cases(kind, m=100, n=130, k=5000, parts=4):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n)))
    expected = a.astype(np.float64) @ b.astype(np.float64)
    for how, c in (("atomic", np.zeros((m, n), np.float32)), ("two_kernels", harness.blank((m, n)))):
        kernel = gemm_splitk.get_tir(m, n, k, parts, how, *TILES[kind])
        yield harness.Case(f"{how} {m} x {n} x {k} in {parts}", kernel, [a, b, c], {2: expected}, 1e-5)


if __name__ == "__main__":
    harness.main(__doc__, cases)
