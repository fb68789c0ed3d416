"""Layer normalisation and RMS normalisation of the rows of a matrix, with weights.

    python examples/layernorm.py [--target auto|cpu|cuda|sim:CHIP|reference] [--rows M] [--columns N]

    layernorm: Y = (X - mean) / sqrt(variance + eps) * W + B        rmsnorm: Y = X / sqrt(mean(X²) + eps) * W
"""

import harness
import numpy as np
import tilelang
import tilelang.language as T

BLOCK_ROWS = {"cpu": 4, "cuda": 4, "sim": 4, "reference": 64}
EPS = 1e-5


@tilelang.jit(out_idx=[-1])
def layernorm(M, N, block_M, threads=128, dtype="float32"):
    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), W: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype),
             Y: T.Tensor((M, N), dtype)):
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


def main():
    options = harness.options(__doc__, rows=1000, columns=1003)
    M, N = options.rows, options.columns
    block = BLOCK_ROWS[tilelang.resolve_target(options.target).split()[0].split(":")[0]]
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((M, N)) * 3 + 1).astype(np.float32)
    w, b = (rng.standard_normal(N).astype(np.float32) for _ in range(2))
    wide = x.astype(np.float64)

    kernel = tilelang.compile(layernorm.get_tir(M, N, block), out_idx=[-1], target=options.target)
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + EPS) * w + b
    harness.check(f"{kernel.target}: layernorm {M} x {N}", harness.call(kernel, x, w, b), expected, 1e-6)

    kernel = tilelang.compile(rmsnorm.get_tir(M, N, block), out_idx=[-1], target=options.target)
    expected = wide / np.sqrt((wide * wide).mean(1, keepdims=True) + EPS) * w
    harness.check(f"{kernel.target}: rmsnorm {M} x {N}", harness.call(kernel, x, w), expected, 1e-6)
    harness.finish()


if __name__ == "__main__":
    main()
