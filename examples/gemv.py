"""A matrix times a vector, y = A @ x: bound by the bandwidth with which A is read, once.

    python examples/gemv.py [--target auto|cpu|cuda|sim:CHIP|reference] [--rows M] [--columns K]

A block takes a few rows; its threads share each row's products, whose sums meet in one reduction at the end.
"""

import harness
import numpy as np
import tilelang
import tilelang.language as T

TILES = {"cpu": (8, 1024, 1), "cuda": (4, 1024, 128), "sim": (4, 1024, 128), "reference": (64, 1024, 1)}


@tilelang.jit(out_idx=[-1])
def gemv(M, K, block_M, block_K, threads, dtype="float16"):
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), x: T.Tensor((K,), dtype), y: T.Tensor((M,), "float32")):
        with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bx:
            products = T.alloc_fragment((block_M, block_K), "float32")
            sums = T.alloc_fragment((block_M,), "float32")
            T.clear(products)
            for k in T.serial(T.ceildiv(K, block_K)):
                for i, j in T.Parallel(block_M, block_K):
                    at = k * block_K + j
                    products[i, j] += T.float32(A[bx * block_M + i, at]) * T.float32(x[at])
            T.reduce_sum(products, sums, dim=1)
            T.copy(sums, y[bx * block_M])

    return main


def main():
    options = harness.options(__doc__, rows=1000, columns=4100)
    M, K = options.rows, options.columns
    tiles = TILES[tilelang.resolve_target(options.target).split()[0].split(":")[0]]
    rng = np.random.default_rng(0)
    for dtype in ("float16", "float32"):
        kernel = tilelang.compile(gemv.get_tir(M, K, *tiles, dtype), out_idx=[-1], target=options.target)
        a, x = rng.standard_normal((M, K)).astype(dtype), rng.standard_normal(K).astype(dtype)
        expected = a.astype(np.float64) @ x.astype(np.float64)
        harness.check(f"{kernel.target}: {dtype} {M} x {K}", harness.call(kernel, a, x), expected, 1e-6)
    harness.finish()


if __name__ == "__main__":
    main()
