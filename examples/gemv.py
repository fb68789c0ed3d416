"""A matrix times a vector, y = A @ x: bound by the bandwidth with which A is read, once.

    python examples/gemv.py [--target auto|cpu|cuda|sim:CHIP|reference] [--rows M] [--columns K]

A block takes a few rows; its threads share each row's products, whose sums meet in one reduction at the end.
"""

import harness
import numpy as np
import tilelang
import tilelang.language as T

TILES = {"cpu": (8, 1024, 1), "gpu": (4, 2048, 256), "reference": (64, 1024, 1)}
SMALL = {"rows": 7, "columns": 1100}


@tilelang.jit(out_idx=[-1])
def gemv(M, K, block_M, block_K, threads, dtype="float16"):
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), x: T.Tensor((K,), dtype), y: T.Tensor((M,), "float32")):
        with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bx:
            A_part = T.alloc_fragment((block_M, block_K), dtype)
            x_part = T.alloc_fragment((block_K,), dtype)
            products = T.alloc_fragment((block_M, block_K), "float32")
            sums = T.alloc_fragment((block_M,), "float32")
            T.clear(products)
            for k in T.serial(T.ceildiv(K, block_K)):
                T.copy(A[bx * block_M, k * block_K], A_part)
                T.copy(x[k * block_K], x_part)
                for i, j in T.Parallel(block_M, block_K):
                    products[i, j] += T.float32(A_part[i, j]) * T.float32(x_part[j])
            T.reduce_sum(products, sums, dim=1)
            T.copy(sums, y[bx * block_M])

    return main


def cases(kind, rows=1000, columns=4100):
    rng = np.random.default_rng(0)
    for dtype in ("float16", "float32"):
        kernel = gemv.get_tir(rows, columns, *TILES[kind], dtype)
        a, x = rng.standard_normal((rows, columns)).astype(dtype), rng.standard_normal(columns).astype(dtype)
        expected = a.astype(np.float64) @ x.astype(np.float64)
        name = f"{dtype} {rows} x {columns}"
        yield harness.Case(name, kernel, [a, x, harness.blank(rows)], {2: expected}, 1e-6)


if __name__ == "__main__":
    harness.main(__doc__, cases)
