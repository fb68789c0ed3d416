"""Macros: parameters by reference, annotations of tiles, classes of helpers."""

import warnings

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import failure, load_text


@T.macro
def bump(x: T.Ref, by):
    x = x + by
    x += 1


@T.macro
def swap(x: T.Ref, y: T.Ref):
    t = x.load()
    x = y
    y.store(t)


@T.macro
def twice(x: T.Ref):
    bump(x, 10)
    bump(x, 100)


def test_references(target):
    @tilelang.jit(target=target)
    def f(A: T.Tensor((4,), T.int32)):
        with T.Kernel(1, threads=1):
            v = T.alloc_var(T.int32, 5)
            bump(v, 2)
            A[0] = v
            i = T.alloc_var(T.int32, 1)
            bump(A[i], 3)
            i = 2
            swap(A[2], A[i + 1])
            twice(v)
            A[1] = A[1] + v

    a = np.array([0, 10, 20, 30], np.int32)
    f(a)
    assert list(a) == [8, 14 + 120, 30, 20]


def test_a_reference_is_evaluated_once():
    @T.macro
    def moved(x: T.Ref, i: T.Ref):
        i = 3  # noqa: F841
        x = 7  # noqa: F841

    @tilelang.jit(target="reference")
    def f(A: T.Tensor((4,), T.int32)):
        with T.Kernel(1, threads=1):
            i = T.alloc_var(T.int32, 1)
            moved(A[i], i)
            A[0] = i

    a = np.zeros(4, np.int32)
    f(a)
    assert list(a) == [3, 7, 0, 0]


def test_what_is_no_reference(tmp_path):
    before = "import tilelang.language as T\n@T.macro\ndef set(x: T.Ref):\n    x = 1\n"
    error = failure(tmp_path, "set(3)", before=before)
    assert "x is a T.Ref: it takes an element" in error.text


def test_tiles_as_parameters(target):
    @T.macro
    def rescale(acc: T.FragmentBuffer((32, 32), T.float32), by: T.float32, S: T.SharedBuffer):
        for i, j in T.Parallel(32, 32):
            acc[i, j] *= by
        T.copy(acc, S)

    @tilelang.jit(target=target)
    def f(A):
        A: T.Tensor((32, 32), T.float32)
        B = T.empty((32, 32), T.float32)
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((32, 32), T.float32)
            S = T.alloc_shared((32, 32), T.float32)
            T.copy(A, x)
            rescale(x, 2.0, S)
            T.copy(S, B)
        return B

    a = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(f(a), a * 2)


def test_the_wrong_scope_warns():
    @T.macro
    def clear(x: T.SharedBuffer):
        T.clear(x)

    with pytest.warns(tilelang.TilelangWarning, match="x is annotated as a shared buffer, but F is"):

        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(1, threads=32):
                F = T.alloc_fragment((4,), "float32")
                clear(F)
                T.copy(F, A)


@T.meta_class
class Walk:
    """Visits tiles, one after another."""

    def __init__(self, first, step):
        self.step = step
        self.at = T.alloc_var(T.int32, first)
        self.names = ["unused"]

    @T.inline
    def next(self):
        self.at += self.step
        return self.at

    @T.inline
    def reset(self, to):
        self.at = to


def test_meta_class(target):
    @tilelang.jit(target=target)
    def f(A):
        A: T.Tensor((16,), T.int32)
        with T.Kernel(1, threads=1):
            walk = Walk(0, 3)
            for _ in T.serial(4):
                A[walk.at] = 1
                walk.next()
            walk.reset(1)
            A[walk.at] = 7
            x = walk.next()
            walk.next()
            A[x] = 9

    a = np.zeros(16, np.int32)
    f(a)
    assert [i for i in range(16) if a[i]] == [0, 1, 3, 4, 6, 9] and a[1] == 7 and a[4] == 9


def test_a_plain_attribute_does_not_change_in_a_device_loop(tmp_path):
    text = """\
        import tilelang
        import tilelang.language as T

        @T.meta_class
        class Count:
            def __init__(self):
                self.n = 0

            @T.inline
            def more(self):
                self.n = self.n + 1

        @tilelang.jit(target="reference")
        def f(A, device: bool = False):
            A: T.Tensor((4,), T.int32)
            with T.Kernel(1, threads=1):
                count = Count()
                count.more()
                for _ in (T.serial(3) if device else [1, 2, 3]):
                    count.more()
                A[0] = count.n
        """
    f = load_text(tmp_path, text).f
    a = np.zeros(4, np.int32)
    f(a)
    assert a[0] == 4
    with pytest.raises(tilelang.CompileError, match="the attribute n changes in a loop or branch") as caught:
        f(a, device=True)
    assert caught.value.line == 11


def test_macros_return_at_their_end():
    @T.macro
    def pair(a, b=3):
        return a + b, a - b

    @T.macro
    def nested(a):
        low, high = pair(a, b=4)
        return low * high

    @tilelang.jit(target="reference")
    def f(A):
        A: T.Tensor((4,), T.int32)
        with T.Kernel(1, threads=1):
            x, y = pair(A[0])
            A[1], A[2] = y, x
            A[3] = nested(A[0])

    a = np.array([7, 0, 0, 0], np.int32)
    f(a)
    assert list(a) == [7, 4, 10, 33]


ENDLESS = """\
import tilelang
import tilelang.language as T

@T.macro
def first(x, n):
    if x[n] > 0:
        {called}(x, n)  # here

@T.macro
def second(x, n):
    first(x, n)

@tilelang.jit(target="reference")
def f(A):
    A: T.Tensor((4,), T.int32)
    with T.Kernel(1):
        first(A, 0)
"""


@pytest.mark.parametrize("called", ["first", "second"])
def test_a_macro_that_calls_itself_without_end(tmp_path, called):
    module = load_text(tmp_path, ENDLESS.format(called=called))
    with pytest.raises(tilelang.CompileError, match="macros call one another 100 deep here") as caught:
        module.f(np.zeros(4, np.int32))
    assert caught.value.line in (7, 11) and "`while` loop" in caught.value.text


def test_a_macro_that_calls_itself_until_python_ends_it():
    @T.macro
    def fill(x, n):
        if n > 0:
            x[n - 1] = n
            fill(x, n - 1)

    @tilelang.jit(target="reference")
    def f(A):
        A: T.Tensor((64,), T.int32)
        with T.Kernel(1):
            fill(A, 64)

    a = np.zeros(64, np.int32)
    f(a)
    assert list(a) == list(range(1, 65))
