"""T.reduce of several tiles at once: argmax, and whatever else travels together."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import compiles_for_gpus

INFINITY = float("inf")


def larger(a, b):
    """The greater value, of equal ones the first."""
    first = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] <= b[1]))
    return T.if_then_else(first, a[0], b[0]), T.if_then_else(first, a[1], b[1])


def argmax(m, n, dim, dtype, clear=True, index="int32"):
    k = n if dim == 0 else m

    @T.prim_func
    def main(
        X: T.Tensor((m, n), dtype),
        old: T.Tensor((k,), dtype),
        best: T.Tensor((k,), dtype),
        where: T.Tensor((k,), index),
    ):
        with T.Kernel(1, threads=64):
            x, i = T.alloc_fragment((m, n), dtype), T.alloc_fragment((m, n), index)
            v, w = T.alloc_fragment((k,), dtype), T.alloc_fragment((k,), index)
            T.copy(X, x)
            for r, c in T.Parallel(m, n):
                i[r, c] = r if dim == 0 else c
            T.copy(old, v)
            T.fill(w, 1000)
            T.reduce((x, i), (v, w), dim, combine=larger, identity=(-INFINITY, 0), clear=clear)
            T.copy(v, best)
            T.copy(w, where)

    return main


@pytest.mark.parametrize(
    "m,n,dim,dtype,index",
    [
        (16, 48, 1, "float32", "int32"),
        (33, 7, 0, "float32", "int32"),
        (8, 130, 1, "float16", "int16"),
        (5, 64, 1, "bfloat16", "int32"),
    ],
)
def test_argmax(target, m, n, dim, dtype, index):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    x = np.random.default_rng(m).integers(-20, 20, (m, n)).astype(kind)  # with ties
    best = np.full(n if dim == 0 else m, 99).astype(kind)
    where = np.full(best.shape, -5, index)
    tilelang.compile(argmax(m, n, dim, dtype, index=index), target=target)(x, best.copy(), best, where)
    wide = x.astype(np.float64)
    assert np.array_equal(best.astype(np.float64), wide.max(dim))
    assert np.array_equal(where, wide.argmax(dim))


def test_old_elements_count_without_clear(target):
    x = np.random.default_rng(0).standard_normal((6, 40)).astype(np.float32)
    old = np.array([5, -9, 5, -9, 5, -9], np.float32)
    best, where = np.full(6, np.nan, np.float32), np.full(6, -1, np.int32)
    tilelang.compile(argmax(6, 40, 1, "float32", clear=False), target=target)(x, old, best, where)
    top, at = x.max(1), x.argmax(1)
    assert np.array_equal(best, np.where(np.arange(6) % 2, top, 5))
    assert np.array_equal(where, np.where(np.arange(6) % 2, at, 1000))


def test_a_slice_and_three_values(target):
    """Smallest and largest, and how many: of part of a shared tile."""

    def join(a, b):
        return T.min(a[0], b[0]), T.max(a[1], b[1]), a[2] + b[2]

    @T.prim_func
    def main(X: T.Tensor((4, 32), "int16"), out: T.Tensor((4, 3), "int16")):
        with T.Kernel(1, threads=32):
            x, ones = T.alloc_shared((4, 32), "int16"), T.alloc_fragment((4, 16), "int16")
            low, high, count = (T.alloc_fragment((4,), "int16") for _ in range(3))
            T.copy(X, x)
            T.fill(ones, 1)
            part = x[0:4, 8:24]
            T.reduce((part, part, ones), (low, high, count), 1, combine=join, identity=(32767, -32768, 0))
            for i in T.Parallel(4):
                out[i, 0] = low[i]
                out[i, 1] = high[i]
                out[i, 2] = count[i]

    x = np.random.default_rng(1).integers(-30000, 30000, (4, 32)).astype(np.int16)
    out = np.zeros((4, 3), np.int16)
    tilelang.compile(main, target=target)(x, out)
    part = x[:, 8:24]
    assert np.array_equal(out, np.stack([part.min(1), part.max(1), np.full(4, 16)], 1))


def test_cuda_text_compiles():
    compiles_for_gpus(argmax(32, 64, 1, "float32"))


def test_mistakes():
    def build(body):
        with pytest.raises(tilelang.CompileError) as error:

            @T.prim_func
            def main(A: T.Tensor((64,), "float32")):
                with T.Kernel(1, threads=64):
                    x, i = T.alloc_fragment((4, 8), "float32"), T.alloc_fragment((4, 8), "int32")
                    v, w = T.alloc_fragment((4,), "float32"), T.alloc_fragment((4,), "int32")
                    d, narrow = T.alloc_fragment((4,), "float64"), T.alloc_fragment((4, 7), "int32")
                    body(x, i, v, w, d, narrow)

        return str(error.value)

    fold = {"combine": larger, "identity": (-INFINITY, 0)}
    assert "what is folded together has one shape" in build(
        lambda x, i, v, w, d, narrow: T.reduce((x, narrow), (v, w), 1, **fold)
    )
    assert "is one tile, but the others are several" in build(
        lambda x, i, v, w, d, narrow: T.reduce((x, i), v, 1, **fold)
    )
    assert "float64 cannot be folded with others" in build(
        lambda x, i, v, w, d, narrow: T.reduce((x, i), (d, w), 1, **fold)
    )
    assert "with 1 identities; all must be as many" in build(
        lambda x, i, v, w, d, narrow: T.reduce((x, i), (v, w), 1, combine=larger, identity=0)
    )
    assert "combine must give a tuple of 2 values" in build(
        lambda x, i, v, w, d, narrow: T.reduce((x, i), (v, w), 1, combine=lambda a, b: a[0], identity=(0, 0))
    )
    assert "the identity 0.5 is no int32" in build(
        lambda x, i, v, w, d, narrow: T.reduce((x, i), (v, w), 1, combine=larger, identity=(0, 0.5))
    )
