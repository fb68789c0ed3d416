"""Layer normalisation and RMS normalisation of the rows of a matrix, with weights.

Usage:
    python examples/layernorm.py [--target auto|cpu|cuda|sim:CHIP|reference] [--rows M] [--columns N]

layernorm: Y = (X - mean) / sqrt(variance + eps) * W + B        rmsnorm: Y = X / sqrt(mean(X²) + eps) * W
"""

import harness
import numpy as np
import tilelang
import tilelang.language as T

BLOCK_ROWS = {"cpu": 4, "gpu": 4, "reference": 64}
SMALL = {"rows": 7, "columns": 203}
EPS = 1e-5


@tilelang.jit(out_idx=[-1])
def layernorm(M, N, block_M, threads=128, dtype="float32"):
    @T.prim_func
    def main(
        X: T.Tensor((M, N), dtype),
        W: T.Tensor((N,), dtype),
        B: T.Tensor((N,), dtype),
        Y: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bx:
            x = T.alloc_fragment((block_M, N), "float32")
            squares = T.alloc_fragment((block_M, N), "float32")
            mean = T.alloc_fragment((block_M,), "float32")
            variance = T.alloc_fragment((block_M,), "float32")
            T.copy(X[bx * block_M, 0], x)
            T.reduce_sum(x, mean, dim=1)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = x[i, j] - mean[i] / N
                squares[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(squares, variance, dim=1)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = x[i, j] * T.rsqrt(variance[i] / N + EPS) * W[j] + B[j]
            T.copy(x, Y[bx * block_M, 0])

    return main


@tilelang.jit(out_idx=[-1])
def rmsnorm(M, N, block_M, threads=128, dtype="float32"):
    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), W: T.Tensor((N,), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bx:
            x = T.alloc_fragment((block_M, N), "float32")
            squares = T.alloc_fragment((block_M, N), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            T.copy(X[bx * block_M, 0], x)
            for i, j in T.Parallel(block_M, N):
                squares[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(squares, total, dim=1)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = x[i, j] * T.rsqrt(total[i] / N + EPS) * W[j]
            T.copy(x, Y[bx * block_M, 0])

    return main


def cases(kind, rows=1000, columns=1003):
    rng, block = np.random.default_rng(0), BLOCK_ROWS[kind]
    x = (rng.standard_normal((rows, columns)) * 3 + 1).astype(np.float32)
    w, b = (rng.standard_normal(columns).astype(np.float32) for _ in range(2))
    wide, y = x.astype(np.float64), harness.blank(x.shape)

    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + EPS) * w + b
    kernel = layernorm.get_tir(rows, columns, block)
    yield harness.Case(f"layernorm {rows} x {columns}", kernel, [x, w, b, y], {3: expected}, 1e-6)

    expected = wide / np.sqrt((wide * wide).mean(1, keepdims=True) + EPS) * w
    kernel = rmsnorm.get_tir(rows, columns, block)
    yield harness.Case(f"rmsnorm {rows} x {columns}", kernel, [x, w, y], {2: expected}, 1e-6)


if __name__ == "__main__":
    harness.main(__doc__, cases)
