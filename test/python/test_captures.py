"""What a kernel reads from around itself is part of its key."""

import types

import numpy as np
import pytest
import tilelang
import tilelang.language as T

FACTOR = 2.0
SHAPE = (4, 2)
KIND = T.float32
NAMES = {"offset": 1.0}
CONFIG = types.SimpleNamespace(scale=3.0, unused=0, nested=types.SimpleNamespace(deep=1.0))
SETTINGS = types.ModuleType("settings")
SETTINGS.bias = 5.0
OPERATIONS = []


def helper(x):
    return x * FACTOR


@T.macro
def store_scaled(B, i, x):
    B[i] = inner(x) + NAMES["offset"]


@T.macro
def inner(x):
    y = helper(x)
    return y


def run(kernel, n=8):
    return kernel(np.ones(n, np.float32))


def eager(body):
    """A kernel B[i] = body(A[i]), on the reference."""

    @tilelang.jit(target="reference")
    def f(A):
        n = T.const("n")
        A: T.Tensor((n,), T.float32)
        B = T.empty((n,), T.float32)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = body(A[i])
        return B

    return f


def kernels(f):
    return sum(f.counts())


@pytest.fixture
def names(monkeypatch):
    """Sets a global of this module, back to what it was after the test."""
    return lambda name, value: monkeypatch.setitem(globals(), name, value)


def test_globals_by_value(names):
    f = eager(lambda x: x * FACTOR)
    assert run(f)[0] == 2 and run(f)[0] == 2 and kernels(f) == 1
    names("FACTOR", 3.0)
    assert run(f)[0] == 3
    names("FACTOR", 2.0)
    assert run(f)[0] == 2 and kernels(f) == 2
    names("FACTOR", 2)  # an int is not a float
    assert run(f)[0] == 2 and kernels(f) == 3


def test_closures_by_value():
    factor = 2.0

    @tilelang.jit(target="reference")
    def f(A):
        n = T.const("n")
        A: T.Tensor((n,), T.float32)
        B = T.empty((n,), T.float32)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] * factor
        return B

    assert run(f)[0] == 2
    factor = 7.0
    assert run(f)[0] == 7
    factor = 2.0
    assert run(f)[0] == 2 and kernels(f) == 2


def test_in_annotations_and_tuples(names):
    @tilelang.jit(target="reference")
    def f(A):
        A: T.Tensor((SHAPE[0] * SHAPE[1],), KIND)
        B = T.empty((8,), KIND)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i] = A[i] + SHAPE[1]
        return B

    assert run(f)[0] == 3
    names("SHAPE", (2, 4))
    assert run(f)[0] == 5
    names("SHAPE", (4, 2))
    assert run(f)[0] == 3 and kernels(f) == 2
    names("KIND", T.int32)
    assert f(np.ones(8, np.int32)).dtype == np.int32


def test_through_macros_helpers_and_containers(names):
    @tilelang.jit(target="reference")
    def f(A):
        n = T.const("n")
        A: T.Tensor((n,), T.float32)
        B = T.empty((n,), T.float32)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                store_scaled(B, i, A[i])
        return B

    assert run(f)[0] == 3
    names("FACTOR", 10.0)
    assert run(f)[0] == 11
    names("NAMES", {"offset": 2.0})
    assert run(f)[0] == 12
    NAMES["offset"] = 4.0  # changed in place
    assert run(f)[0] == 14
    names("helper", lambda x: x - 1.0)
    assert run(f)[0] == 4
    assert run(f)[0] == 4 and kernels(f) == 1  # what it calls has changed: the old kernels are gone


def test_attributes(names):
    f = eager(lambda x: x * CONFIG.scale + CONFIG.nested.deep + SETTINGS.bias)
    assert run(f)[0] == 9
    CONFIG.unused = 1
    assert run(f)[0] == 9 and kernels(f) == 1
    CONFIG.scale = 4.0
    try:
        assert run(f)[0] == 10
        CONFIG.nested.deep = 2.0
        assert run(f)[0] == 11
        SETTINGS.bias = 0.0
        assert run(f)[0] == 6 and kernels(f) == 4
    finally:
        CONFIG.scale, CONFIG.nested.deep, SETTINGS.bias = 3.0, 1.0, 5.0


class Wrapper:
    def __init__(self, value):
        self.value = value

    def __call__(self, x):
        return x * self.value


def test_objects_by_identity(names):
    names("OPERATIONS", Wrapper(2.0))
    f = eager(lambda x: OPERATIONS(x))
    assert run(f)[0] == 2 and run(f)[0] == 2 and kernels(f) == 1
    for value in range(3, 30):  # an identity in a key must stay its own: these would reuse the address
        names("OPERATIONS", Wrapper(float(value)))
        assert run(f)[0] == value


def test_methods_do_not_compile_each_call(names):
    names("OPERATIONS", Wrapper(2.0))
    f = eager(lambda x: OPERATIONS.__call__(x))
    assert run(f)[0] == 2 and run(f)[0] == 2 and kernels(f) == 1


def test_keywords_by_value():
    @tilelang.jit(target="reference")
    def f(A, pair=(1, 2), kind="float32", flag=False, sizes=None):
        n = T.const("n")
        A: T.Tensor((n,), T.float32)
        B = T.empty((n,), kind)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] * pair[1] + (10 if flag else 0) + (sizes["x"] if sizes else 0)
        return B

    a = np.ones(4, np.float32)
    assert f(a)[0] == 2 and f(a, (1, 2))[0] == 2 and f(a, pair=(1, 2))[0] == 2 and kernels(f) == 1
    assert f(a, [1, 3])[0] == 3 and f(a, (1, 5))[0] == 5
    assert f(a, kind="int32").dtype == np.int32 and f(a, kind=T.int32).dtype == np.int32
    assert f(a, flag=True)[0] == 12
    assert f(a, sizes={"x": 3})[0] == 5 and f(a, sizes={"x": 4})[0] == 6
    assert f(a, pair=np.array([1, 2]).tolist())[0] == 2


def test_dtype_of_a_bare_tensor_is_in_the_key():
    @tilelang.jit(target="reference")
    def double(A: T.Tensor):
        B = T.empty(A.shape, A.dtype)
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(*A.shape):
                B[i, j] = A[i, j] * 2
        return B

    for dtype in ("float32", "float16", "int32", "float32"):
        for shape in ((2, 3), (3, 2)):
            a = np.arange(6).reshape(shape).astype(dtype)
            assert double(a).dtype == a.dtype
            np.testing.assert_array_equal(double(a), a * 2)
    assert kernels(double) == 6


def test_factories_see_the_same(names):
    @tilelang.jit(out_idx=-1, target="reference")
    def factory(n):
        @T.prim_func
        def main(A: T.Tensor((n,), KIND), B: T.Tensor((n,), KIND)):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(n):
                    store_scaled(B, i, A[i] * CONFIG.scale)

        return main

    a = np.ones(8, np.float32)
    first = factory(8)
    assert first(a)[0] == 7 and factory(8) is first
    names("FACTOR", 1.0)
    assert factory(8)(a)[0] == 4
    CONFIG.scale = 4.0
    try:
        assert factory(8)(a)[0] == 5
    finally:
        CONFIG.scale = 3.0
