"""Which parameters a kernel writes: a read-only array may be passed for the others, and only those that are
written can be returned.
"""

import numpy as np
import pytest
import tilelang
import tilelang.language as T

SIM = "sim:sm_90"  # of the fixture `target`


def written(function, target):
    return tilelang.compile(function, target=target)._kernel.written


ELEMENTS = {
    "add": lambda H, X, i: T.atomic_add(H[X[i]], 1),
    "max": lambda H, X, i: T.atomic_max(H[X[i]], i),
    "min": lambda H, X, i: T.atomic_min(H[X[i]], i),
    "or": lambda H, X, i: T.atomic_or(H[X[i]], 1),
    "store": lambda H, X, i: T.atomic_store(H[X[i]], 1),
}


@pytest.mark.parametrize("name", ELEMENTS)
def test_the_index_of_an_atomic_access_is_only_read(target, name):
    update = ELEMENTS[name]

    @T.prim_func
    def main(X: T.Tensor((16,), "int32"), H: T.Tensor((18,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                update(H, X, i)

    assert written(main, target) == [False, True]
    x, h = (np.arange(16) % 8).astype("i4"), np.zeros(18, "i4")
    x.flags.writeable = False
    tilelang.compile(main, target=target)(x, h)


@pytest.mark.parametrize("width", [2, 4])
def test_the_index_of_a_vector_is_only_read(target, width):
    @T.prim_func
    def main(X: T.Tensor((16,), "int32"), V: T.Tensor((64,), "float32"), H: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                getattr(T, f"atomic_addx{width}")(H[X[i] * width], V[i * width])

    assert written(main, target) == [False, False, True]


def test_what_an_atomic_load_reads_is_only_read(target):
    @T.prim_func
    def main(X: T.Tensor((16,), "int32"), H: T.Tensor((16,), "int32"), Y: T.Tensor((16,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                Y[i] = T.atomic_load(H[X[i]])

    assert written(main, target) == [False, False, True]


@pytest.mark.parametrize("update", ["add", "max", "min"])
def test_a_tile_is_added_where_a_table_says(target, update):
    @T.prim_func
    def main(P: T.Tensor((2,), "int32"), X: T.Tensor((16,), "int32"), H: T.Tensor((64,), "int32")):
        with T.Kernel(2, threads=32) as b:
            s = T.alloc_shared((16,), "int32")
            T.copy(X, s)
            getattr(T, f"atomic_{update}")(H[P[b]], s)

    assert written(main, target) == [False, False, True]


def test_a_view_writes_to_its_tensor(target):
    @T.prim_func
    def main(X: T.Tensor((16,), "int32"), Y: T.Tensor((16,), "int32")):
        with T.Kernel(1, threads=32):
            v = T.view(Y, (4, 4))
            for i, j in T.Parallel(4, 4):
                v[i, j] = X[i * 4 + j]

    assert written(main, target) == [False, True]
    y = np.zeros(16, "i4")
    y.flags.writeable = False
    with pytest.raises(tilelang.ArgumentError, match="read-only"):
        tilelang.compile(main, target=target)(np.arange(16, dtype="i4"), y)


def test_only_what_is_written_can_be_returned(target):
    @T.prim_func
    def main(X: T.Tensor((8,), "float32"), Y: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            T.copy(X, Y)

    for out in (0, [0], [-1, 0]):
        with pytest.raises(tilelang.CompileError, match=r"parameter 0 \(X\) is never written.*1 \(Y\)"):
            tilelang.compile(main, out_idx=out, target=target)
    x = np.arange(8, dtype="f4")
    assert np.array_equal(tilelang.compile(main, out_idx=[1], target=target)(x), x)


def test_what_is_made_and_returned_must_be_written():
    @tilelang.jit(target="cpu")
    def twice(X):
        X: T.Tensor((8,), T.float32)
        Y, Z = T.empty((8,), T.float32), T.empty((8,), T.float32)
        with T.Kernel(1, threads=32):
            T.copy(X, Y)
        return Y, Z

    with pytest.raises(tilelang.CompileError, match="returns Z, which T.empty has made and no kernel writes"):
        twice(np.zeros(8, "f4"))


def test_a_prim_func_returns_its_parameter():
    @T.prim_func
    def main(X: T.Tensor((8,), "float32"), Y: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            T.copy(X, Y)
        return Y

    x, y = np.arange(8, dtype="f4"), np.zeros(8, "f4")
    assert tilelang.compile(main, target="cpu")(x, y) is y
    assert np.array_equal(x, y)
    with pytest.raises(tilelang.CompileError, match="leave out_idx out, or the `return`"):
        tilelang.compile(main, out_idx=[1], target="cpu")
