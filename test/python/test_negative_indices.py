"""Indices that are certainly below 0 count from the end, as Python's and the published language's do."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import load_text
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


COUNTS = "is below 0 wherever it is reached, it counts from the end of 16 elements"


@pytest.mark.parametrize("slice_of_a, message", [
    ("b * 4 - 8 : b * 4", f"it ends at b*4 and begins at b*4 + 8 (as b*4 - 8 {COUNTS})"),
    ("-8:4", "it ends at 4 and begins at 8 (as -8 is below 0"),
    ("b - 2 : b", f"it ends at b and begins at b + 14 (as b - 2 {COUNTS})"),
    ("b * 4 + 4 : b * 4 - 8", None),
    ("b * 4 + 12 : b * 4 - 8", f"it ends at b*4 + 8 (as b*4 - 8 {COUNTS}) and begins at b*4 + 12"),
    ("b * 4 + 8 : b * 4", "it ends at b*4 and begins at b*4 + 8"),
])  # fmt: skip
def test_a_slice_that_is_empty_as_an_end_counts_from_the_end(tmp_path, slice_of_a, message):
    text = f"""
import tilelang.language as T

@T.prim_func
def main(A: T.Tensor((16, 8), "float32"), B: T.Tensor((16, 8), "float32")):
    with T.Kernel(2, threads=32) as b:
        T.copy(A[{slice_of_a}, :], B[{slice_of_a}, :])
"""
    if message is None:
        load_text(tmp_path, text)
        return
    with pytest.raises(CompileError) as error:
        load_text(tmp_path, text)
    assert message in str(error.value), error.value


def run(program, target, *arrays):
    tilelang.compile(program, target=target)(*arrays)


@pytest.mark.parametrize("scope", ["shared", "fragment"])
def test_backwards_through_a_tile(target, scope):
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 8), "float32")):
        with T.Kernel(1, threads=32):
            tile, other = T.alloc_shared((4, 8), "float32"), T.alloc_shared((4, 8), "float32")
            T.copy(A, tile)
            for i, j in T.Parallel(4, 8):
                other[-1 - i, j] = tile[i, -1 - j]
            T.copy(other, B)

    a, b = np.random.rand(4, 8).astype(np.float32), np.full((4, 8), np.nan, np.float32)
    run(main, target, a, b)
    np.testing.assert_array_equal(b, a[::-1, ::-1])


def test_stores_and_atomic_updates(target):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32"), C: T.Tensor((2,), "float32")):
        with T.Kernel(2, threads=32) as bx:
            for i in T.Parallel(4):
                B[-1 - (bx * 4 + i)] = A[bx * 4 + i]
                T.atomic_add(C[-1 - bx], A[bx * 4 + i])

    a, b, c = np.random.rand(8).astype(np.float32), np.full(8, np.nan, np.float32), np.zeros(2, np.float32)
    run(main, target, a, b, c)
    np.testing.assert_array_equal(b, a[::-1])
    np.testing.assert_allclose(c, [a[4:].sum(), a[:4].sum()], rtol=1e-6)


def test_both_ends_of_a_slice(target):
    @T.prim_func
    def main(A: T.Tensor((16,), "float32"), B: T.Tensor((3, 4), "float32"), C: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            for k in T.serial(3):
                T.copy(A[-4 * (k + 1) : 16 - 4 * k], B[k, :])
            for k in T.serial(-8, -4, 4):
                T.copy(A[k : k + 4], C)

    a, b, c = (
        np.random.rand(16).astype(np.float32),
        np.full((3, 4), np.nan, np.float32),
        np.zeros(4, np.float32),
    )
    run(main, target, a, b, c)
    np.testing.assert_array_equal(b, [a[-4:], a[-8:-4], a[-12:-8]])
    np.testing.assert_array_equal(c, a[-8:-4])


def test_of_the_part_that_an_operator_is_given(target):
    @T.tile_op
    def turn(src: T.read, dst: T.write):
        for i in T.Parallel(4):
            dst[-1 - i] = src[i]

    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            a, b = T.alloc_shared((8,), "float32"), T.alloc_shared((8,), "float32")
            T.copy(A, a)
            for k in T.serial(2):
                turn(a[4 * k : 4 * k + 4], b[4 * k : 4 * k + 4])
            T.copy(b, B)

    a, b = np.random.rand(8).astype(np.float32), np.full(8, np.nan, np.float32)
    run(main, target, a, b)
    np.testing.assert_array_equal(b, [*a[3::-1], *a[:3:-1]])


@pytest.mark.parametrize("blocks", [1, 2])
def test_padding_in_front_of_a_tensor_stays(target, blocks):
    n = 4 * blocks

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), C: T.Tensor((blocks,), "float32")):
        with T.Kernel(blocks, threads=32) as bx:
            for i in T.Parallel(4):
                B[bx * 4 + i] = A[bx * 4 + i - 1]
            C[bx] = A[bx * 4 - 1]

    a, b, c = (
        np.random.rand(n).astype(np.float32),
        np.full(n, np.nan, np.float32),
        np.zeros(blocks, np.float32),
    )
    run(main, target, a, b, c)
    np.testing.assert_array_equal(b, [0, *a[:-1]])
    np.testing.assert_array_equal(c, [0, *a[3:-1:4]])


def test_a_condition_says_that_it_is_below_0(target):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((6,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(6):
                if i < 3:
                    B[i] = A[i - 3]
                else:
                    B[i] = A[i - 3] + 10

    a, b = np.random.rand(8).astype(np.float32), np.full(6, np.nan, np.float32)
    run(main, target, a, b)
    np.testing.assert_array_equal(b, np.float32([*a[-3:], *(a[:3] + np.float32(10))]))


def test_in_a_tile_some_iterations_may_not_be_below_0():
    with pytest.raises(
        CompileError, match="the index i - 1 of dimension 0 of tile becomes -1, but indices begin"
    ):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
            with T.Kernel(1, threads=32):
                tile = T.alloc_shared((8,), "float32")
                T.copy(A, tile)
                for i in T.Parallel(8):
                    B[i] = tile[i - 1]
