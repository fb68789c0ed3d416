"""Constant indices less than 0 count from the end, as Python's and the published language's do."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from tilelang import CompileError

SIM = "sim:sm_90"  # of the fixture `target`


def test_elements_slices_and_bases(target):
    @T.prim_func
    def main(A: T.Tensor((16, 8), "float32"), B: T.Tensor((4, 8), "float32"), C: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((4, 8), "float32")
            T.copy(A[-4:, :], tile)
            for j in T.Parallel(8):
                tile[-1, j] = tile[-1, j] + A[-16, -1]
            T.copy(tile, B)
            for i in T.Parallel(4):
                C[i] = A[i - 0, -2]
            C[-1] = A[-5, 0]

    a = np.random.rand(16, 8).astype(np.float32)
    b, c = np.full((4, 8), np.nan, np.float32), np.full(4, np.nan, np.float32)
    tilelang.compile(main, target=target)(a, b, c)
    want = a[-4:].copy()
    want[-1] += a[0, -1]
    np.testing.assert_array_equal(b, want)
    np.testing.assert_array_equal(c, [*a[:3, -2], a[-5, 0]])


@pytest.mark.parametrize("rows", [3, 9])
def test_of_extents_that_only_the_call_knows(target, rows):
    m = T.dynamic("m")

    @T.prim_func
    def main(A: T.Tensor((m, 4), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                B[i] = A[-1, i] - A[-2, i]

    a, b = np.random.rand(rows, 4).astype(np.float32), np.full(4, np.nan, np.float32)
    tilelang.compile(main, target=target)(a, b)
    np.testing.assert_array_equal(b, a[-1] - a[-2])


def test_before_the_first():
    with pytest.raises(CompileError, match="index -17 of A is outside: it counts from the end of 16"):

        @T.prim_func
        def main(A: T.Tensor((16,), "float32")):
            with T.Kernel(1):
                A[-17] = 0.0
