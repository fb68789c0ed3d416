"""Kernels that add whole tiles to a tensor, by the tensor memory accelerator where it can."""

import numpy as np
import tilelang.language as T

BLOCKS = 5


def added(dtype="float32", shape=(64, 64), source="shared", rows=100, columns=72, given="float32"):
    """Each block adds its own number, once for each element, to all tiles of Y."""
    tile_rows, tile_columns = shape

    @T.prim_func
    def main(X: T.Tensor((BLOCKS, *shape), given), Y: T.Tensor((rows, columns), dtype)):
        with T.Kernel(BLOCKS, threads=64) as b:
            S = {"shared": T.alloc_shared, "fragment": T.alloc_fragment}[source](shape, given)
            T.copy(X[b, :, :], S)
            for i in T.serial(T.ceildiv(rows, tile_rows)):
                for j in T.serial(T.ceildiv(columns, tile_columns)):
                    T.atomic_add(Y[i * tile_rows, j * tile_columns], S, use_tma=True)
                    for y, x in T.Parallel(*shape):
                        S[y, x] = S[y, x] + 1

    return main


def operands(dtype="float32", shape=(64, 64), rows=100, columns=72, given="float32"):
    """The arguments, and what Y is after the call: small whole numbers, exact in every type."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 8, (BLOCKS, *shape)).astype(given)
    y = rng.integers(0, 8, (rows, columns)).astype(dtype)
    wanted, turn = y.astype(np.float64), 0
    for i in range(0, rows, shape[0]):
        for j in range(0, columns, shape[1]):
            part = wanted[i : i + shape[0], j : j + shape[1]]
            part += (x.astype(np.float64) + turn).sum(0)[: part.shape[0], : part.shape[1]]
            turn += 1
    return x, y, wanted


CASES = [
    {},
    {"dtype": "float16", "given": "float16"},
    {"dtype": "int32", "given": "int32"},
    {"source": "fragment"},
    {"dtype": "float16", "given": "float32"},
    {"shape": (16, 128), "columns": 200},
]


def of(case):
    return operands(**{k: v for k, v in case.items() if k != "source"})
