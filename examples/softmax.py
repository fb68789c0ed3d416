"""Softmax over the rows of a matrix, Y = exp(X - max) / sum(exp(X - max)).

    python examples/softmax.py [--target auto|cpu|cuda|sim:CHIP|reference] [--rows M] [--columns N]

A block holds whole rows in registers: the data is read once and written once.
"""

import harness
import numpy as np
import tilelang
import tilelang.language as T

BLOCK_ROWS = {"cpu": 4, "gpu": 4, "reference": 64}
SMALL = {"rows": 7, "columns": 203}


@tilelang.jit(out_idx=[-1])
def softmax(M, N, block_M, threads=128, dtype="float32"):
    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bx:
            x = T.alloc_fragment((block_M, N), "float32")
            largest = T.alloc_fragment((block_M,), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            T.copy(X[bx * block_M, 0], x)
            T.reduce_max(x, largest, dim=1)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = T.exp(x[i, j] - largest[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, Y[bx * block_M, 0])

    return main


def cases(kind, rows=1000, columns=1003):
    rng = np.random.default_rng(0)
    for dtype, bound in (("float32", 1e-6), ("float16", 5e-4)):
        x = (4 * rng.standard_normal((rows, columns))).astype(dtype)
        e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
        yield harness.Case(
            name=f"{dtype} {rows} x {columns}",
            kernel=softmax.get_tir(rows, columns, BLOCK_ROWS[kind], dtype=dtype),
            arguments=[x, harness.blank(x.shape, dtype)],
            expected={1: e / e.sum(1, keepdims=True)},
            bound=bound,
        )


if __name__ == "__main__":
    harness.main(__doc__, cases)
