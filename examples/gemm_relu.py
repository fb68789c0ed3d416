"""C = max(A @ B, 0) in float16 with float32 accumulation; on NVIDIA GPUs by tensor cores.

Usage:
    python examples/gemm_relu.py [--target auto|cpu|cuda|sim:CHIP|reference] [--m M] [--n N] [--k K]
"""

import harness
import numpy as np
import tilelang
import tilelang.language as T

SMALL = {"m": 100, "n": 70, "k": 90}


@tilelang.jit(out_idx=[-1])
def gemm_relu(M, N, K, block_M=64, block_N=64, block_K=32):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_tile = T.alloc_shared((block_M, block_K), "float16")
            B_tile = T.alloc_shared((block_K, block_N), "float16")
            C_tile = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_tile)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_tile)
                T.copy(B[k * block_K, bx * block_N], B_tile)
                T.gemm(A_tile, B_tile, C_tile)
            for i, j in T.Parallel(block_M, block_N):
                C_tile[i, j] = T.max(C_tile[i, j], 0)
            T.copy(C_tile, C[by * block_M, bx * block_N])

    return main


def cases(kind, m=200, n=300, k=100):
    rng = np.random.default_rng(0)
    for M, N, K in ((1, 1, 1), (m, n, k)):
        a, b = (np.abs(rng.standard_normal(shape)).astype(np.float16) for shape in ((M, K), (K, N)))
        b[:, ::3] *= -1  # columns that ReLU sets to zero
        expected = np.maximum(a.astype(np.float64) @ b.astype(np.float64), 0)
        arguments = [a, b, harness.blank((M, N), "float16")]
        yield harness.Case(f"{M} x {N} x {K}", gemm_relu.get_tir(M, N, K), arguments, {2: expected}, 5e-4)


if __name__ == "__main__":
    harness.main(__doc__, cases)
