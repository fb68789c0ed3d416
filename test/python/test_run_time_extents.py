"""Extents that only a call knows: of shared tiles, and of the parts that tile operators are given."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import failure, kernel
from tilelang import CompileError

SIM = "sim:sm_90a"  # of the fixture `target`


def run(program, target, *arrays):
    return tilelang.compile(program, target=target)(*arrays)


def noise(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


# ── parts ─────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("n", [1, 24, 37, 64])
def test_parts_of_tiles(target, n):
    m = T.dynamic("m")

    @T.prim_func
    def main(A: T.Tensor((m,), "float32"), B: T.Tensor((4, 64), "float32")):
        with T.Kernel(1, threads=64):
            s, t, u = (T.alloc_shared((64,), "float32") for _ in range(3))
            f = T.alloc_fragment((64,), "float32")
            T.fill(s, 7.0)
            T.copy(A[0:m], s[0:m])
            T.copy(s, B[0, :])
            T.clear(s[m // 2 : m])
            T.copy(s, B[1, :])
            T.fill(t, -1.0)
            T.copy(s[0:m], t[64 - m : 64])
            T.copy(t, B[2, :])
            T.fill(f, 2.0)
            T.fill(f[0:m], 3.0)
            T.fill(u, 1.0)
            T.copy(f[0:m], u[0:m])
            T.copy(u[:m], B[3, :m])

    a, b = noise(n), np.full((4, 64), np.nan, np.float32)
    run(main, target, a, b)
    want = np.full((4, 64), 7.0, np.float32)
    want[0, :n] = want[1, :n] = a
    want[1, n // 2 : n] = 0
    want[2], want[2, 64 - n :] = -1, want[1, :n]
    want[3], want[3, :n] = np.nan, 3
    np.testing.assert_array_equal(b, want)


@pytest.mark.parametrize("rows, columns", [(3, 5), (16, 24), (1, 24)])
def test_parts_of_two_dimensions_and_updates(target, rows, columns):
    m, n = T.dynamic("m"), T.dynamic("n")

    @T.prim_func
    def main(
        A: T.Tensor((m, n), "float32"), B: T.Tensor((16, 24), "float32"), C: T.Tensor((m, n), "float32")
    ):
        with T.Kernel(2, threads=64) as bx:
            s, half = T.alloc_shared((16, 24), "float32"), T.alloc_shared((16, 24), "float16")
            T.clear(s)
            T.copy(A[0:m, 0:n], s[0:m, 0:n])
            T.clamp(s[0:m, :n], -0.5, 0.5)
            T.copy(s[0:m, 0:n], half[0:m, 0:n])
            T.atomic_add(C[0:m, 0:n], s[0:m, 0:n])
            T.copy(half[0:m, 0:n], s[0:m, 0:n])
            if bx == 0:
                T.copy(s, B)

    a, b = noise(rows, columns), np.full((16, 24), np.nan, np.float32)
    c = np.zeros((rows, columns), np.float32)
    run(main, target, a, b, c)
    want = np.zeros((16, 24), np.float32)
    want[:rows, :columns] = np.clip(a, -0.5, 0.5).astype(np.float16)
    np.testing.assert_array_equal(b, want)
    np.testing.assert_array_equal(c, 2 * np.clip(a, -0.5, 0.5))


@pytest.mark.parametrize("lengths", [(0, 5, 8, 3), (8, 8, 0, 1)])
def test_lengths_that_a_tensor_has(target, lengths):
    """The last part of each sequence is shorter than the tile."""

    @T.prim_func
    def main(L: T.Tensor((4,), "int32"), A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 8), "float32")):
        with T.Kernel(4, threads=32) as bx:
            tile = T.alloc_shared((8,), "float32")
            n = L[bx]
            T.fill(tile, -1.0)
            T.copy(A[bx, 0:n], tile[0:n])
            T.fill(tile[n // 2 : n], 9.0)
            T.copy(tile, B[bx, :])

    a, b = noise(4, 8), np.full((4, 8), np.nan, np.float32)
    run(main, target, np.array(lengths, np.int32), a, b)
    want = np.full((4, 8), -1, np.float32)
    for row, n in enumerate(lengths):
        want[row, :n] = a[row, :n]
        want[row, n // 2 : n] = 9
    np.testing.assert_array_equal(b, want)


def test_parts_beyond_their_tile_are_clipped(target):
    """What lies outside of it is not moved."""
    m = T.dynamic("m")

    @T.prim_func
    def main(A: T.Tensor((m,), "float32"), B: T.Tensor((2, 16), "float32"), C: T.Tensor((m,), "float32")):
        with T.Kernel(1, threads=32):
            s, guard = T.alloc_shared((16,), "float32"), T.alloc_shared((16,), "float32")
            T.fill(s, 1.0)
            T.fill(guard, 2.0)
            T.copy(A[0:m], s[16 - m : 16])
            T.copy(s[0:m], C)
            T.copy(s, B[0, :])
            T.copy(guard, B[1, :])

    a, b, c = noise(20), np.full((2, 16), np.nan, np.float32), np.full(20, np.nan, np.float32)
    run(main, target, a, b, c)
    np.testing.assert_array_equal(b, [a[4:], np.full(16, 2, np.float32)])
    np.testing.assert_array_equal(c, [*a[4:], *np.full(4, np.nan, np.float32)])


# ── tiles ─────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("n", [1, 37, 256])
def test_tiles_of_an_extent_that_the_call_brings(target, n):
    m = T.dynamic("m")

    @T.prim_func
    def main(A: T.Tensor((m, 8), "float32"), B: T.Tensor((m, 8), "float32"), C: T.Tensor((m,), "float32")):
        T.assume(m <= 256)
        with T.Kernel(1, threads=64):
            s, row = T.alloc_shared((m, 8), "float32"), T.alloc_shared((m,), "float32")
            T.copy(A, s)
            T.clear(row)
            for i in T.Parallel(m):
                for j in T.serial(8):
                    row[i] += s[m - 1 - i, j]
            for i in T.Parallel(m):
                row[i] = row[i] + s[-1, 0]
            T.copy(row, C)
            T.fill(s[0 : m // 2, :], 3.0)
            T.copy(s, B)

    a = noise(n, 8)
    b, c = np.full((n, 8), np.nan, np.float32), np.full(n, np.nan, np.float32)
    run(main, target, a, b, c)
    want = a.copy()
    want[: n // 2] = 3
    np.testing.assert_array_equal(b, want)
    wide = a.astype(np.float64)
    sums = wide[::-1].sum(1) + wide[-1, 0]
    assert np.linalg.norm(c - sums) / np.linalg.norm(sums) < 1e-6


def test_a_call_with_more_than_there_is_room_for(target):
    m = T.dynamic("m")

    @T.prim_func
    def main(A: T.Tensor((m,), "float32"), B: T.Tensor((m,), "float32")):
        T.assume(m <= 16)
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((2 * m,), "float32")
            T.copy(A, s[0:m])
            T.copy(A, s[m : 2 * m])
            T.copy(s[m // 2 : m // 2 + m], B)

    kernel = tilelang.compile(main, target=target)
    a, b = noise(16), np.full(16, np.nan, np.float32)
    kernel(a, b)
    np.testing.assert_array_equal(b, np.roll(a, -8))
    with pytest.raises(Exception, match=r"s has room for 32 elements along dimension 0, 2\*m <= 32"):
        kernel(noise(17), np.zeros(17, np.float32))


@pytest.mark.parametrize("body, words", [
    ("s = T.alloc_shared((m, m), 'float32')",
     "s: extent 0 is m, which is known only when the kernel is called, and nothing says how much it is "
     r"at most: T\.assume\(m <= 1024\) above it"),
    ("s = T.alloc_fragment((m,), 'float32')", "extent 0 of s is m, which is known only when the kernel is"),
    ("s = T.alloc_shared((bx + 1,), 'float32')", "shape of a shared buffer must be constant, but it has bx"),
    ("s = T.alloc_shared((8,), 'float32')\nT.copy(A[0:m], s[0 : m - 1])",
     r"copy: one part is \[m\] of A and the other \[m - 1\] of s; their extents must be the same"),
])  # fmt: skip
def test_what_is_refused(tmp_path, body, words):
    from helpers import kernel

    with pytest.raises(CompileError, match=words):
        kernel(
            tmp_path,
            body,
            signature="A: T.Tensor((m,), 'float32')",
            before="import tilelang.language as T\nm = T.dynamic('m')\n",
        )


# ── loops ─────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("n", [5, 16, 40])
def test_loops_that_go_beyond_a_tile_where_a_condition_keeps_it_inside(target, n):
    """Iterations beyond the tile do something, so the loop does not end with it."""
    m = T.dynamic("m")

    @T.prim_func
    def main(A: T.Tensor((16,), "float32"), B: T.Tensor((4, m), "float32")):
        with T.Kernel(1, threads=32):
            s, f = T.alloc_shared((16,), "float32"), T.alloc_fragment((16,), "float32")
            T.copy(A, s)
            T.clear(f)
            for i in T.Parallel(m):
                B[0, i] = T.if_then_else(i < 16, s[i], -1.0)
            for i in T.Parallel(m):
                B[1, i] = 2.0
                if i < 16:
                    B[1, i] = s[i]
            for i in T.Parallel(m):
                B[2, i] = T.Cast("float32", (i < 16) and s[i] > 0)
            for i in T.Parallel(m):
                if i < 16:
                    f[i] = s[i] + 1
            for i in T.Parallel(m):
                x = B[0, i]
                if x > 0:
                    B[3, i] = x

    a, b = noise(16), np.full((4, n), np.nan, np.float32)
    run(main, target, a, b)
    first = np.array([*a, *np.full(24, -1, np.float32)])[:n]
    np.testing.assert_array_equal(b[0], first)
    np.testing.assert_array_equal(b[1], np.where(np.arange(n) < 16, first, 2))
    np.testing.assert_array_equal(b[2], first > 0)
    np.testing.assert_array_equal(b[3], np.where(first > 0, first, np.nan))


def test_a_condition_joined_by_a_bit_keeps_an_index_inside(target):
    """Of heads fewer than the block has rows, whatever the order of the two conditions."""

    @T.prim_func
    def main(A: T.Tensor((5,), "float32"), B: T.Tensor((3, 8), "float32")):
        with T.Kernel(1, threads=32):
            heads, more = T.alloc_shared((5,), "float32"), T.alloc_shared((5,), "float32")
            T.copy(A, heads)
            for i in T.Parallel(5):
                more[i] = heads[i] + 1
            for i in T.Parallel(8):
                B[0, i] = T.if_then_else((i < 5) & (heads[i] > 0), heads[i], -1.0)
                B[1, i] = T.if_then_else((heads[i] > 0) & (more[i] < 2) & (i < 5), heads[i], -2.0)
                if (heads[i] > 0) & (i < 5):
                    B[2, i] = heads[i]
                else:
                    B[2, i] = 0

    a, b = noise(5), np.full((3, 8), np.nan, np.float32)
    run(main, target, a, b)
    whole = np.array([*a, 0, 0, 0], np.float32)
    np.testing.assert_array_equal(b[0], np.where(whole > 0, whole, -1))
    np.testing.assert_array_equal(b[1], np.where((whole > 0) & (whole + np.float32(1) < 2), whole, -2))
    np.testing.assert_array_equal(b[2], np.maximum(whole, 0))


@pytest.mark.parametrize("body", [
    "T.clear(A)", "T.fill(A, 1.0)", "T.copy(A, B)", "T.copy(A[0:0, :], B[0, 0])", "T.atomic_add(A, B)",
    "T.copy(A[0, 0], B)",
])  # fmt: skip
def test_nothing_is_done_to_a_tensor_without_elements(target, tmp_path, body):
    signature = "A: T.Tensor((0, 8), 'float32'), B: T.Tensor((0, 8), 'float32'), C: T.Tensor((4,), 'float32')"
    program = kernel(
        tmp_path, body + "\nT.fill(C, 2.0)", signature=signature, launch="T.Kernel(1, threads=32)"
    )
    empty, c = np.zeros((0, 8), np.float32), np.zeros(4, np.float32)
    tilelang.compile(program, target=target)(empty, empty.copy(), c)
    np.testing.assert_array_equal(c, 2)


@pytest.mark.parametrize("body, wanted", [
    ("T.copy(A, B)", "copy: one part is [0, 8] of A and the other [4, 8] of B"),
    ("T.copy(B[2:2, :], B[0:0, :])", "the slice of dimension 0 of B is empty: it ends at 2 and begins at 2"),
])  # fmt: skip
def test_a_part_without_elements_is_refused(tmp_path, body, wanted):
    signature = "A: T.Tensor((0, 8), 'float32'), B: T.Tensor((4, 8), 'float32')"
    assert wanted in str(failure(tmp_path, body, signature=signature))


def test_what_is_filled_from_a_tensor_without_elements(target):
    """A tile that begins past the end of a tensor is 0; and an output without elements may stay unwritten."""

    @tilelang.jit(target=target)
    def f(A, B):
        A: T.Tensor((0, 8), T.float32)
        B: T.Tensor((4, 8), T.float32)
        C = T.empty((0, 8), T.float32)
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((4, 8), "float32")
            T.copy(A[0, 0], S)
            T.copy(S, B)
            T.copy(A, C)
        return C

    b = np.full((4, 8), np.nan, np.float32)
    assert f(np.zeros((0, 8), np.float32), b).shape == (0, 8)
    np.testing.assert_array_equal(b, 0)


def test_tiles_whose_extent_nothing_bounds(target):
    """They have what is left of the memory that every chip gives a block."""
    m = T.dynamic("m")

    @T.prim_func
    def main(A: T.Tensor((m,), "float32"), B: T.Tensor((m,), "float32")):
        with T.Kernel(1, threads=32):
            t = T.alloc_shared((64,), "float32")
            s = T.alloc_shared((m, 2), "float32")
            T.clear(t)
            for i in T.Parallel(m):
                s[i, 1] = A[i]
            for i in T.Parallel(m):
                B[i] = s[m - 1 - i, 1]

    kernel = tilelang.compile(main, target=target)
    for n in (1, 7, 6112):  # 48 KB without 256 bytes, by 8
        a, b = noise(n), np.full(n, np.nan, np.float32)
        kernel(a, b)
        np.testing.assert_array_equal(b, a[::-1])
    words = (
        r"s has room for 6112 elements along dimension 0, m <= 6112 \(nothing says how large it is: T.assume"
    )
    with pytest.raises(Exception, match=words):
        kernel(noise(6113), np.zeros(6113, np.float32))


PARTS = {"odd": "T.fill(S[0:8, 0:n], 3)", "even": "T.fill(S[0:8, 0:2 * n], 3)"}


def test_parts_of_packed_tiles(tmp_path):
    """Two elements lie in a byte, so that the part that is written has an even number of them in a row."""
    made = {"signature": "n: T.int32, B: T.Tensor((8, 16), 'int4')", "launch": "T.Kernel(1, threads=32)"}
    body = "S = T.alloc_shared((8, 16), 'int4')\nT.clear(S)\n{}\nT.copy(S, B)"
    error = failure(tmp_path, body.format(PARTS["odd"]), **made)
    assert "has n elements in its last dimension, which may be odd: write an even number, 2 * n" in error.text
    for target in ("cpu", "reference", "sim:sm_80"):
        b = np.full((8, 8), 99, np.int8)
        run(kernel(tmp_path, body.format(PARTS["even"]), **made), target, 3, b)
        np.testing.assert_array_equal(b, [[0x33] * 3 + [0] * 5] * 8)


@pytest.mark.parametrize("rows, columns", [(16, 16), (16, 8), (4, 1), (1, 4)])
def test_parts_of_tiles_as_long_as_they_are_wide(target, rows, columns):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), n: T.int32, B: T.Tensor((2, 16, 16), "float32")):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((rows, columns), "float32")
            T.clear(s)
            T.copy(A[0:rows, 0:n], s[:, 0:n])
            T.copy(s, B[0, 0:rows, 0:columns])
            T.fill(s[0:n, 0:columns], 3)
            T.copy(s, B[1, 0:rows, 0:columns])

    a, n = noise(64, 64), min(rows, columns, 3)
    b, want = np.full((2, 16, 16), np.nan, np.float32), np.full((2, 16, 16), np.nan, np.float32)
    run(main, target, a, n, b)
    want[:, :rows, :columns] = 0
    want[:, :rows, :n] = a[:rows, :n]
    want[1, :n, :columns] = 3
    np.testing.assert_array_equal(b, want)
