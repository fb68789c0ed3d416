"""A GEMM of float8_e4m3 matrices with a scale for each block of elements, C = A @ B.T.

    python examples/gemm_fp8.py [--target auto|cpu|cuda|sim:CHIP|reference] [--m M] [--n N] [--k K]

A has a scale for each row and 128 elements along K, B for each 128 x 128 elements.  The sum over 128 elements
is multiplied by its two scales when it joins the total, in float32.  Chips without fp8 tensor cores multiply
the same numbers as float16, which holds them exactly.
"""

import harness
import ml_dtypes
import numpy as np
import tilelang
import tilelang.language as T

TILES = {"cpu": (128, 128, 1), "gpu": (128, 128, 256), "small_gpu": (64, 128, 256), "reference": (64, 64, 1)}
SMALL = {"m": 100, "n": 136, "k": 400}
GROUP = 128  # elements along K, and rows of B, that share a scale


@tilelang.jit(out_idx=[-1])
def gemm_fp8(M, N, K, block_M, block_N, threads, dtype="float8_e4m3fn"):
    groups = T.ceildiv(K, GROUP)

    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((N, K), dtype),
        A_scale: T.Tensor((M, groups), "float32"),
        B_scale: T.Tensor((T.ceildiv(N, GROUP), groups), "float32"),
        C: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_tile = T.alloc_shared((block_M, GROUP), dtype)
            B_tile = T.alloc_shared((block_N, GROUP), dtype)
            part = T.alloc_fragment((block_M, block_N), "float32")
            total = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(total)
            for k in T.Pipelined(groups, num_stages=3):
                T.copy(A[by * block_M, k * GROUP], A_tile)
                T.copy(B[bx * block_N, k * GROUP], B_tile)
                T.gemm(A_tile, B_tile, part, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(block_M, block_N):
                    row, block = by * block_M + i, bx * block_N // GROUP
                    total[i, j] += part[i, j] * A_scale[row, k] * B_scale[block, k]
            T.copy(total, C[by * block_M, bx * block_N])

    return main


def quantise(x, rows):
    """x in e4m3, whose greatest number is 448, with a float32 scale for each (rows x GROUP) elements."""
    spread = lambda scale: np.repeat(np.repeat(scale, rows, 0), GROUP, 1)[: x.shape[0], : x.shape[1]]
    padded = np.pad(np.abs(x), [(0, -x.shape[0] % rows), (0, -x.shape[1] % GROUP)])
    blocks = padded.reshape(padded.shape[0] // rows, rows, padded.shape[1] // GROUP, GROUP)
    scale = (blocks.max((1, 3)) / 448).astype(np.float32)
    codes = (x / spread(scale)).astype(ml_dtypes.float8_e4m3fn)
    return codes, scale, codes.astype(np.float64) * spread(scale)


def cases(kind, m=500, n=390, k=1040):
    rng = np.random.default_rng(0)
    a, a_scale, a_wide = quantise(rng.standard_normal((m, k)), 1)
    b, b_scale, b_wide = quantise(rng.standard_normal((n, k)), GROUP)
    yield harness.Case(
        name=f"{m} x {n} x {k}",
        kernel=gemm_fp8.get_tir(m, n, k, *TILES[kind]),
        arguments=[a, b, a_scale, b_scale, harness.blank((m, n), "float16")],
        expected={4: a_wide @ b_wide.T},
        bound=5e-4,
    )


if __name__ == "__main__":
    harness.main(__doc__, cases, TILES)
