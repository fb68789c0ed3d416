"""A GEMM of quantised matrices, C = (A @ B.T) * row scales * column scales: int8 × int8 -> int32 -> float16.

    python examples/gemm_int8.py [--target auto|cpu|cuda|sim:CHIP|reference] [--m M] [--n N] [--k K]

Each row of A (a token) and each row of B (an output channel) has a scale of its own, so the scales leave the
sum, which is exact: tensor cores add it up in int32.
"""

import harness
import numpy as np
import tilelang
import tilelang.language as T

TILES = {
    "cpu": (128, 128, 512, 1),
    "gpu": (128, 256, 64, 256),
    "small_gpu": (128, 128, 64, 256),
    "reference": (64, 64, 64, 1),
}
SMALL = {"m": 100, "n": 70, "k": 200}


@tilelang.jit(out_idx=[-1])
def gemm_int8(M, N, K, block_M, block_N, block_K, threads):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), "int8"),
        B: T.Tensor((N, K), "int8"),
        A_scale: T.Tensor((M,), "float32"),
        B_scale: T.Tensor((N,), "float32"),
        C: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_tile = T.alloc_shared((block_M, block_K), "int8")
            B_tile = T.alloc_shared((block_N, block_K), "int8")
            sums = T.alloc_fragment((block_M, block_N), "int32")
            scaled = T.alloc_fragment((block_M, block_N), "float16")
            T.clear(sums)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[by * block_M, k * block_K], A_tile)
                T.copy(B[bx * block_N, k * block_K], B_tile)
                T.gemm(A_tile, B_tile, sums, transpose_B=True)
            for i, j in T.Parallel(block_M, block_N):
                scaled[i, j] = sums[i, j] * A_scale[by * block_M + i] * B_scale[bx * block_N + j]
            T.copy(scaled, C[by * block_M, bx * block_N])

    return main


def quantise(x):
    """Whole numbers from -127 to 127 and, for each row, what they are to be multiplied with."""
    scale = np.abs(x).max(1) / 127
    return np.rint(x / scale[:, None]).astype(np.int8), scale.astype(np.float32)


def cases(kind, m=500, n=390, k=1000):
    rng = np.random.default_rng(0)
    (a, a_scale), (b, b_scale) = (quantise(rng.standard_normal((rows, k))) for rows in (m, n))
    sums = a.astype(np.float64) @ b.astype(np.float64).T
    yield harness.Case(
        name=f"{m} x {n} x {k}",
        kernel=gemm_int8.get_tir(m, n, k, *TILES[kind]),
        arguments=[a, b, a_scale, b_scale, harness.blank((m, n), "float16")],
        expected={4: sums * a_scale[:, None] * b_scale},
        bound=3e-4,
    )


if __name__ == "__main__":
    harness.main(__doc__, cases, TILES)
