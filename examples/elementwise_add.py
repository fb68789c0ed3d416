"""C = A + B on tiles of a matrix whose size the tiles do not divide.

Usage:
    python examples/elementwise_add.py [--target auto|cpu|cuda|sim:CHIP|reference] [--rows M] [--columns N]
"""

import harness
import numpy as np
import tilelang
import tilelang.language as T

SMALL = {"rows": 50, "columns": 100}


@tilelang.jit(out_idx=[-1])
def add(M, N, block_M=32, block_N=64, dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            for i, j in T.Parallel(block_M, block_N):
                y, x = by * block_M + i, bx * block_N + j
                C[y, x] = A[y, x] + B[y, x]

    return main


def cases(kind, rows=1000, columns=257):
    rng = np.random.default_rng(0)
    for shape in ((1, 1), (rows, 1), (rows, columns)):
        a, b = (rng.standard_normal(shape, np.float32) for _ in range(2))
        name = f"{shape[0]} x {shape[1]}"
        yield harness.Case(name, add.get_tir(*shape), [a, b, harness.blank(shape)], {2: a + b}, 0)


if __name__ == "__main__":
    harness.main(__doc__, cases)
