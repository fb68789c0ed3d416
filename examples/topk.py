"""The k greatest elements of each row of a matrix, in falling order, and where they stand.

    python examples/topk.py [--target auto|cpu|cuda|sim:CHIP|reference] [--rows M] [--columns N] [--k K]

For the choice of a few of some hundred experts: a block holds whole rows in registers and, k times, takes the
greatest element out.  Of equal elements the first is taken first.
"""

import harness
import numpy as np
import tilelang
import tilelang.language as T

BLOCK_ROWS = {"cpu": 4, "gpu": 8, "reference": 64}
SMALL = {"rows": 13, "columns": 100, "k": 3}


@tilelang.jit(out_idx=[-2, -1])
def topk(M, N, k, block_M, threads=128, dtype="float32"):
    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), values: T.Tensor((M, k), dtype), places: T.Tensor((M, k), "int32")):
        with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bx:
            x = T.alloc_fragment((block_M, N), dtype)
            place = T.alloc_fragment((block_M, N), "int32")
            largest = T.alloc_fragment((block_M,), dtype)
            first = T.alloc_fragment((block_M,), "int32")
            T.copy(X[bx * block_M, 0], x)
            for rank in T.serial(k):
                T.reduce_max(x, largest, dim=1)
                for i, j in T.Parallel(block_M, N):
                    place[i, j] = T.if_then_else(x[i, j] == largest[i], j, N)
                T.reduce_min(place, first, dim=1)
                for i, j in T.Parallel(block_M, N):
                    x[i, j] = T.if_then_else(j == first[i], -T.infinity(dtype), x[i, j])
                for i in T.Parallel(block_M):
                    values[bx * block_M + i, rank] = largest[i]
                    places[bx * block_M + i, rank] = first[i]

    return main


def cases(kind, rows=1000, columns=257, k=8):
    x = np.random.default_rng(0).integers(-99, 99, (rows, columns)).astype(np.float32)  # many are equal
    places = np.argsort(-x, 1, kind="stable")[:, :k]
    yield harness.Case(
        name=f"{k} of {rows} x {columns}",
        kernel=topk.get_tir(rows, columns, k, BLOCK_ROWS[kind]),
        arguments=[x, harness.blank((rows, k)), harness.blank((rows, k), "int32")],
        expected={1: np.take_along_axis(x, places, 1), 2: places},
        bound=0,
    )


if __name__ == "__main__":
    harness.main(__doc__, cases)
