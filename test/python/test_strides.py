"""Tensors of any strides, and written ones that overlap themselves."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import load_text
from tilelang import _core


def strided_add(dtype="float32"):
    M, N, s, t, u = T.dynamic("M, N, s, t, u")

    @T.prim_func
    def main(
        X: T.StridedTensor((M, N), (s, 1), dtype),
        Y: T.StridedTensor((M, N), (t, u), dtype),
        Z: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, 32), T.ceildiv(M, 8), threads=32) as (bx, by):
            for i, j in T.Parallel(8, 32):
                Z[by * 8 + i, bx * 32 + j] = X[by * 8 + i, bx * 32 + j] + Y[by * 8 + i, bx * 32 + j]

    return main


def test_views_of_any_strides(target):
    kernel = tilelang.compile(strided_add(), target=target)
    rng = np.random.default_rng(0)
    for m, n in [(1, 1), (0, 5), (7, 0), (16, 64), (13, 41), (24, 96)]:
        wide = rng.standard_normal((m, n + 16), np.float32)
        tall = rng.standard_normal((2 * n, 3 * m), np.float32)
        for x in (wide[:, :n], wide[::-1, 3 : n + 3], np.broadcast_to(wide[:1, :n], (m, n))):
            for y in (wide[:, 8 : n + 8], tall[::2, ::3].T, np.broadcast_to(np.float32(7), (m, n))):
                z = np.full((m, n), np.nan, np.float32)
                kernel(x, y, z)
                assert (z == x + y).all(), (m, n, x.strides, y.strides)


def test_constant_strides(target):
    n = T.dynamic("n")

    @T.prim_func
    def main(X: T.StridedTensor((n, 6), (8, 1), "float32"), Y: T.StridedTensor((n, 6), (1, 100), "float32")):
        with T.Kernel(T.ceildiv(n, 16), threads=32) as bx:
            for i, j in T.Parallel(16, 6):
                Y[bx * 16 + i, j] = X[bx * 16 + i, j] + 1

    kernel = tilelang.compile(main, target=target)
    for rows in (0, 1, 16, 37):
        x = np.arange(rows * 8, dtype=np.float32).reshape(rows, 8)[:, :6]
        store = np.full((6, 100), np.nan, np.float32)
        y = store.T[:rows]
        kernel(x, y)
        assert (y == x + 1).all() and np.isnan(store[:, rows:]).all()


def strided_fill():
    M, N, s, t = T.dynamic("M, N, s, t")

    @T.prim_func
    def main(Y: T.StridedTensor((M, N), (s, t), "float32")):
        with T.Kernel(M, threads=32) as bx:
            for j in T.Parallel(N):
                Y[bx, j] = 1.0

    return main


def test_a_written_tensor_may_not_overlap_itself(target):
    kernel = tilelang.compile(strided_fill(), target=target)
    store = np.zeros(64, np.float32)
    view = np.lib.stride_tricks.as_strided
    for shape, strides in [((4, 8), (0, 1)), ((4, 8), (4, 1)), ((3, 3), (2, 2)), ((3, 4), (3, 2))]:
        y = view(store, shape, [4 * s for s in strides])
        message = rf"argument 0 'Y' is written, but .* strides \({strides[0]}, {strides[1]}\)"
        with pytest.raises(_core.ArgumentError, match=message):
            kernel(y)
    assert not store.any()
    for shape, strides in [((4, 8), (8, 1)), ((3, 2), (2, 3)), ((1, 8), (0, 1)), ((2, 2), (3, 1))]:
        store[:] = 0
        kernel(view(store, shape, [4 * s for s in strides]))
        assert store.sum() == shape[0] * shape[1]


@pytest.mark.parametrize(
    "strides, given, cure",
    [
        ((1, 4), (6, 1), "pass a copy in column-major order: np.asfortranarray"),
        ((6, 1), (1, 4), "pass a contiguous copy"),
        ((8, 1), (6, 1), "pass a view that has them, or declare the parameter"),
    ],
)
def test_wrong_strides_name_what_would_do(strides, given, cure):
    @T.prim_func
    def main(X: T.StridedTensor((4, 6), strides, "float32"), Y: T.Tensor((4, 6), "float32")):
        with T.Kernel(1, threads=32):
            T.copy(X, Y)

    kernel = tilelang.compile(main, target="cpu")
    plain = np.arange(24, dtype=np.float32).reshape(4, 6)
    x, y = plain if given == (6, 1) else np.asfortranarray(plain), np.zeros((4, 6), np.float32)
    with pytest.raises(_core.ArgumentError) as caught:
        kernel(x, y)
    wanted = f"'X' has strides {given} but {strides} was expected; {cure}"
    assert wanted in str(caught.value)
    if strides == (1, 4):
        kernel(np.asfortranarray(plain), y)  # the cure
        assert (y == plain).all()


@pytest.mark.parametrize("target", ["reference", "cpu", "sim:sm_80", "sim:sm_90a"])
@pytest.mark.parametrize("order", ["C[i, j] = A[j, i]", "C[j, i] = A[i, j]"])
def test_vectors_across_rows(order, target, tmp_path):
    """A T.vectorized loop alone in a T.Parallel one, along a stride that is not 1."""
    rows, columns = ("8", "16") if order.startswith("C[i") else ("16", "8")
    text = f"""
import tilelang.language as T

@T.prim_func
def main(
    A: T.Tensor(({columns}, {rows}), "float32"), C: T.Tensor(({rows}, {columns}), "float32"), n: T.int32
):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8):
            for j in T.vectorized(16):
                {order}
        for i in T.Parallel(8):
            for j in T.vectorized(16):
                if i + j < n:
                    {order} + 1
"""
    main = load_text(tmp_path, text).main
    a = np.random.default_rng(0).random((int(columns), int(rows)), np.float32)
    c = np.zeros(a.T.shape, np.float32)
    tilelang.compile(main, target=target)(a, c, 9)
    i, j = np.indices(c.shape)
    np.testing.assert_array_equal(c, a.T + (i + j < 9))


def off_by(offset, n, dtype):
    """Zeros whose address is `offset` elements behind a multiple of 32 bytes."""
    size = np.dtype(dtype).itemsize
    raw = np.zeros(n * size + 64, np.uint8)
    begin = -raw.ctypes.data % 32 + offset * size
    return raw[begin : begin + n * size].view(dtype)


def vectors(A, C):
    for i in T.vectorized(4):
        C[i] = A[i] + 1
    for i in T.vectorized(4):
        C[4 + i] = A[4 + i] + 1


def unrolled(A, C):
    for k in T.unroll(2):
        for i in T.vectorized(4):
            C[k * 4 + i] = A[k * 4 + i] + 1


def slices(A, C):
    C[0:4] = A[0:4] + 1
    C[4:8] = A[4:8] + 1


@pytest.mark.parametrize("target", ["sim:sm_80", "sim:sm_90a"])
@pytest.mark.parametrize("form", [vectors, unrolled, slices])
@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_a_constant_place_of_a_tensor_that_is_not_aligned(form, dtype, target):
    """Nothing but the tensor's address says that one access of several elements is impossible."""
    body = T.macro(form)

    @T.prim_func
    def main(A: T.Tensor((8,), dtype), C: T.Tensor((8,), dtype)):
        with T.Kernel(1, threads=1):
            body(A, C)

    kernel = tilelang.compile(main, target=target)
    for of_A, of_C in [(0, 0), (0, 1), (1, 0), (3, 1)]:
        a, c = off_by(of_A, 8, dtype), off_by(of_C, 8, dtype)
        a[:] = np.arange(8)
        kernel(a, c)
        np.testing.assert_array_equal(c, a + 1)


@pytest.mark.parametrize("target", ["sim:sm_80", "sim:sm_90a"])
def test_a_row_of_a_thread_in_a_tensor_that_is_not_aligned(target):
    @T.prim_func
    def main(A: T.Tensor((8,), "int16"), C: T.Tensor((8,), "int16")):
        with T.Kernel(1, threads=32):
            t = T.alloc_fragment((8,), "int16")
            T.annotate_layout({t: T.Fragment((8,), lambda i: (i // 8, i % 8))})
            T.copy(A, t)
            T.copy(t, C)

    a, c = off_by(1, 8, np.int16), off_by(3, 8, np.int16)
    a[:] = np.arange(8)
    tilelang.compile(main, target=target)(a, c)
    np.testing.assert_array_equal(c, a)
