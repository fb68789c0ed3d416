"""A float that is cast to an integer which cannot hold it: found where what is made of it is used."""

import re

import numpy as np
import pytest
import tilelang
import tilelang.language as T

SIM = "sim:sm_90"  # of the fixture `target`

EXECUTORS = ["sim:sm_90", "reference"]


def failure(program, target, *arrays):
    with pytest.raises(tilelang.CompileError) as caught:
        tilelang.compile(program, target=target)(*arrays)
    return str(caught.value)


def says(text, words):
    """Findings of the simulator name dtypes as the text IR does."""
    return words in text or words.replace("uint", "u").replace("int", "i") in text


def stored(source, dtype):
    @T.prim_func
    def main(X: T.Tensor((64,), source), Q: T.Tensor((64,), dtype)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                Q[i] = T.cast(X[i], dtype)

    return main


def through_tiles(dtype, clamped):
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Q: T.Tensor((64,), dtype)):
        with T.Kernel(1, threads=64):
            x, q = T.alloc_fragment((64,), "float32"), T.alloc_shared((64,), dtype)
            T.copy(X, x)
            if clamped:
                T.clamp(x, -100.0, 100.0)
            T.copy(x, q)
            T.copy(q, Q)

    return main


@pytest.mark.parametrize("target", EXECUTORS)
@pytest.mark.parametrize(
    "source, dtype, value, told",
    [
        ("float32", "int8", 300, "300 does not fit int8, which holds -128 to 127"),
        ("float32", "int8", -129, "-129 does not fit int8"),
        ("float32", "uint8", -1, "-1 does not fit uint8, which holds 0 to 255"),
        ("float64", "int32", 3e10, "30000000000 does not fit int32, which holds -2147483648 to 2147483647"),
        ("float16", "int16", 40000, "40000 does not fit int16"),
        ("float64", "int64", 2.0**63, "does not fit int64"),
        ("float64", "uint64", 2.0**64, "does not fit uint64, which holds 0 to 18446744073709551615"),
        ("float32", "int32", np.nan, "nan does not fit int32"),
        ("float32", "int64", np.inf, "inf does not fit int64"),
    ],
)
def test_what_does_not_fit(source, dtype, value, told, target):
    x = np.zeros(64, source)
    x[5] = value
    text = failure(stored(source, dtype), target, x, np.zeros(64, dtype))
    assert says(text, told) and "Q[i] = T.cast(X[i], dtype)" in text and "T.clamp" in text


@pytest.mark.parametrize("target", EXECUTORS)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
def test_what_fits(dtype, target):
    info = np.iinfo(dtype)
    x = np.linspace(-0.9 if info.min == 0 else max(info.min, -(2.0**62)), min(info.max + 0.9, 2.0**62), 64)
    q = np.zeros(64, dtype)
    tilelang.compile(stored("float64", dtype), target=target)(x, q)
    assert np.array_equal(q, np.trunc(x).astype(dtype))


@pytest.mark.parametrize("target", EXECUTORS)
def test_through_tiles(target):
    x, q = np.full(64, 200, "f4"), np.zeros(64, "i1")
    text = failure(through_tiles("int8", False), target, x, q)
    assert says(text, "200 does not fit int8") and "T.copy(x, q)" in text
    tilelang.compile(through_tiles("int8", True), target=target)(x, q)
    assert (q == 100).all()


def test_what_nobody_uses_may_be_anything(target):
    """The end of a row, a choice, a guard, a tile's part that is not copied."""

    @T.prim_func
    def main(X: T.Tensor((40,), "float32"), Q: T.Tensor((40,), "int8"), P: T.Tensor((64,), "int8")):
        with T.Kernel(1, threads=64):
            x, q = T.alloc_fragment((64,), "float32"), T.alloc_fragment((64,), "int8")
            T.copy(X[0:64], x)
            for i in T.Parallel(64):
                q[i] = T.cast(x[i] / x[i], "int8")  # 0 / 0 beyond the end
            T.copy(q, Q[0:64])
            for i in T.Parallel(64):
                if i < 12:
                    P[i] = T.cast(x[i] + i * 10, "int8")

    q, p = np.zeros(40, "i1"), np.zeros(64, "i1")
    tilelang.compile(main, target=target)(np.ones(40, "f4"), q, p)
    assert (q == 1).all()
    assert np.array_equal(p[:13], [*range(1, 121, 10), 0])


@pytest.mark.parametrize("target", EXECUTORS)
@pytest.mark.parametrize(
    "use, told",
    [
        ("Q[T.cast(X[tx], 'int32')] = 1", "is an index|decides what runs"),
        ("if T.cast(X[tx], 'int32') > 3:\n    Q[tx] = 1", "decides"),
        ("T.atomic_add(Q[tx], T.cast(X[tx], 'int32'))", "is used here"),
    ],
)
def test_how_it_is_used(use, told, target, tmp_path):
    lines = "\n".join("            " + line for line in use.split("\n"))
    file = tmp_path / "kernel.py"
    file.write_text(
        "import tilelang.language as T\n@T.prim_func\n"
        "def main(X: T.Tensor((64,), 'float32'), Q: T.Tensor((64,), 'int32')):\n"
        "    with T.Kernel(1, threads=64):\n        for tx in T.Parallel(64):\n" + lines + "\n"
    )
    scope: dict = {}
    exec(compile(file.read_text(), str(file), "exec"), scope)
    text = failure(scope["main"], target, np.full(64, 1e10, "f4"), np.zeros(64, "i4"))
    assert re.search(told, text) and says(text, "10000000000 does not fit int32")
