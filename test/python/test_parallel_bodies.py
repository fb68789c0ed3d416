"""Bodies of T.Parallel with names and conditions: vectors on the CPU, the same numbers everywhere."""

import mmap

import numpy as np
import pytest
import tilelang
import tilelang.language as T

TARGETS = ["cpu", "cpu -mcpu=haswell", "cpu -mcpu=x86-64", "reference", "sim:sm_80"]
SHAPES = [(3, 64), (5, 1000), (2, 37)]


def named(M, N):
    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(M, threads=32) as bx:
            x = T.alloc_fragment((1, N), "float32")
            T.copy(X[bx, 0], x)
            for i, j in T.Parallel(1, N):
                double = x[i, j] * 2
                square = double * double + 1
                x[i, j] = square / (2 + double)
            T.copy(x, Y[bx, 0])

    return main, lambda x: (4 * x * x + 1) / (2 + 2 * x)


def two_arms(M, N):
    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(M, threads=32) as bx:
            x = T.alloc_fragment((1, N), "float32")
            T.copy(X[bx, 0], x)
            for i, j in T.Parallel(1, N):
                if x[i, j] > 0.5:
                    x[i, j] = x[i, j] - 0.5
                else:
                    x[i, j] = x[i, j] + 0.5
            T.copy(x, Y[bx, 0])

    return main, lambda x: np.where(x > 0.5, x - 0.5, x + 0.5)


def changed_condition(M, N):
    """The second statement stands under the condition as it was before the first."""

    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(M, threads=32) as bx:
            x = T.alloc_fragment((1, N), "float32")
            y = T.alloc_fragment((1, N), "float32")
            T.copy(X[bx, 0], x)
            T.fill(y, 7.0)
            for i, j in T.Parallel(1, N):
                if x[i, j] > 0.5:
                    x[i, j] = 0.0
                    y[i, j] = x[i, j] + 1.0
            T.copy(y, Y[bx, 0])

    return main, lambda x: np.where(x > 0.5, 1.0, 7.0)


def looked_up(M, N):
    """A name of a loaded index, and a load at it, under a condition that keeps it in place."""

    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(M, threads=32) as bx:
            for j in T.Parallel(N):
                at = T.cast(X[bx, j] * 2 * N, "int32") - N // 2
                if at >= 0:
                    if at < N:
                        value = X[bx, at]
                        Y[bx, j] = value * value
                    else:
                        Y[bx, j] = -1.0
                else:
                    Y[bx, j] = -2.0

    def expected(x):
        at = (x * np.float32(2) * np.float32(N)).astype(np.int32) - N // 2
        value = np.take_along_axis(x, np.clip(at, 0, N - 1), 1)
        return np.where(at < 0, -2.0, np.where(at < N, value * value, -1.0))

    return main, expected


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("make", [named, two_arms, changed_condition, looked_up])
def test_numbers(make, target):
    for M, N in SHAPES:
        prim, expected = make(M, N)
        kernel = tilelang.compile(prim, target=target)
        x = np.random.default_rng(1).random((M, N), np.float32)
        y = np.full_like(x, np.nan)
        kernel(x, y)
        want = expected(x)
        assert np.linalg.norm(y - want) <= 1e-6 * np.linalg.norm(want), (M, N)


@pytest.mark.parametrize("make", [named, two_arms, changed_condition, looked_up])
def test_the_cpu_loop_is_vectors(make):
    prim, _ = make(4, 1024)
    report = tilelang.compile(prim, target="cpu -mcpu=haswell").report
    assert not [n for n in report.notes if "scalar" in n.text], [n.text for n in report.notes]
    assert not [loop for loop in report.loops if "scalar" in str(loop)]


def test_names_of_indices_leave_an_access_whole():
    @T.prim_func
    def add(A: T.Tensor((100, 130), "float32"), B: T.Tensor((100, 130), "float32")):
        with T.Kernel(T.ceildiv(130, 64), T.ceildiv(100, 32), threads=128) as (bx, by):
            for i, j in T.Parallel(32, 64):
                y, x = by * 32 + i, bx * 64 + j
                B[y, x] = A[y, x] + 1.0

    kernel = tilelang.compile(add, target="cpu -mcpu=haswell")
    assert "<8 x float>" in kernel.get_kernel_source()
    a = np.random.default_rng(0).random((100, 130), np.float32)
    b = np.full_like(a, np.nan)
    kernel(a, b)
    assert np.array_equal(b, a + np.float32(1))


def test_a_guarded_load_stays_in_its_tensor():
    """The tensor ends where the memory does: a lane that the condition leaves out reads nothing."""
    N = 100

    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, 64), threads=32) as bx:
            for j in T.Parallel(64):
                if bx * 64 + j < N:
                    shifted = A[bx * 64 + j] + 1.0
                    B[bx * 64 + j] = shifted + A[bx * 64 + j]

    page = mmap.PAGESIZE
    libc = __import__("ctypes").CDLL(None, use_errno=True)
    memory = mmap.mmap(-1, 2 * page)
    whole = np.frombuffer(memory, np.uint8)
    address = whole.ctypes.data + page
    assert libc.mprotect(__import__("ctypes").c_void_p(address), page, 0) == 0
    try:
        a = whole[page - 4 * N : page].view(np.float32)
        a[:] = np.arange(N)
        b = np.full(N, np.nan, np.float32)
        for target in ("cpu", "cpu -mcpu=haswell", "cpu -mcpu=x86-64"):
            b[:] = np.nan
            tilelang.compile(main, target=target)(a, b)
            assert np.array_equal(b, 2 * a + 1), target
    finally:
        libc.mprotect(__import__("ctypes").c_void_p(address), page, 3)


@pytest.mark.parametrize("threads", [32, 64, 128])
@pytest.mark.parametrize("shape", [(16, 24), (12, 24), (16, 12), (7, 40), (16, 32), (5, 6)])
def test_a_condition_on_a_row_is_asked_where_the_row_is(shape, threads):
    """Threads that hold no element of a loop hold none of the fragment that its condition reads either."""
    n, m = shape

    @T.prim_func
    def main(X: T.Tensor((n,), "int32"), O: T.Tensor(shape, "int32"), P: T.Tensor(shape, "int32")):
        with T.Kernel(1, threads=threads):
            row = T.alloc_fragment((n,), "int32")
            T.copy(X, row)
            for i, j in T.Parallel(n, m):
                if row[i] > 3:
                    O[i, j] += row[i]
                else:
                    P[i, j] = j
            for i, j in T.Parallel(n, m):
                if j < m - 1:  # noqa: SIM102  (each is an If of its own)
                    if row[i] > 5:
                        P[i, j] += 2 * row[i]

    x = np.arange(n, dtype=np.int32)
    rows, columns = np.broadcast_to(x[:, None], shape), np.broadcast_to(np.arange(m), shape)
    more = np.where((rows > 5) & (columns < m - 1), 2 * rows, 0)
    for target in ("cpu", "reference", "sim:sm_80", "sim:sm_90a"):
        o, p = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        tilelang.compile(main, target=target)(x, o, p)
        np.testing.assert_array_equal(o, np.where(rows > 3, rows, 0), err_msg=target)
        np.testing.assert_array_equal(p, np.where(rows > 3, 0, columns) + more, err_msg=target)
