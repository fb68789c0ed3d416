"""A finite constant that its float type makes infinite is infinity, with a warning where it is written;
infinity itself needs none."""

import warnings

import numpy as np
import pytest
import tilelang
import tilelang.language as T

SIM = "sim:sm_90"  # of the fixture `target`

N = 8
LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38}


def one(dtype, body):
    @T.prim_func
    def main(X: T.Tensor((N,), dtype), Y: T.Tensor((N,), dtype)):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((N,), dtype)
            T.copy(X, s)
            body(X, Y, s)

    return main


@T.macro
def filled(X, Y, s, number):
    T.fill(s, number)
    T.copy(s, Y)


@T.macro
def stored(X, Y, s, number):
    for i in T.Parallel(N):
        Y[i] = number


@T.macro
def added(X, Y, s, number):
    for i in T.Parallel(N):
        Y[i] = X[i] + number


@T.macro
def multiplied(X, Y, s, number):
    for i in T.Parallel(N):
        Y[i] = number * X[i]


@T.macro
def compared(X, Y, s, number):
    for i in T.Parallel(N):
        Y[i] = T.if_then_else(X[i] > number, X[i], 0.0)


@T.macro
def chosen(X, Y, s, number):
    for i in T.Parallel(N):
        Y[i] = T.if_then_else(X[i] > 0, X[i], number)


@T.macro
def greatest(X, Y, s, number):
    for i in T.Parallel(N):
        Y[i] = T.max(X[i], number)


@T.macro
def assigned(X, Y, s, number):
    v = T.alloc_var(X.dtype, number)
    for i in T.Parallel(N):
        Y[i] = v


@T.macro
def clamped(X, Y, s, number):
    T.clamp(s, -1.0, number)
    T.copy(s, Y)


@T.macro
def safe(X, Y, s, number):
    T.annotate_safe_value({X: number})
    for i in T.Parallel(N):
        Y[i] = X[i + 1]


@T.macro
def converted(X, Y, s, number):
    for i in T.Parallel(N):
        Y[i] = T.cast(number, X.dtype)


BODIES = [filled, stored, added, multiplied, compared, chosen, greatest, assigned, clamped, safe, converted]


@pytest.mark.parametrize("dtype", LARGEST)
@pytest.mark.parametrize("body", BODIES, ids=lambda m: m.__name__)
def test_a_finite_number_beyond_the_type_is_infinite(body, dtype):
    for number in (LARGEST[dtype] * 1.01, -LARGEST[dtype] * 1.01):
        with pytest.warns(tilelang.TilelangWarning) as said:
            beyond = one(dtype, lambda X, Y, s: body(X, Y, s, number))  # noqa: B023
        (text,) = {str(w.message) for w in said}
        sign = "-" if number < 0 else ""
        assert f"does not fit in {dtype}, whose largest number is {LARGEST[dtype]:.6g}, and becomes " in text
        assert f'{sign}T.infinity("{dtype}")' in text and said[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            infinite = one(dtype, lambda X, Y, s: body(X, Y, s, float(f"{sign}inf")))  # noqa: B023
        assert beyond.text == infinite.text


def test_an_integer_beyond_float16_is_infinite(target):
    for number in (65520, 70000, -70000, 2**40, 2**63):
        with pytest.warns(tilelang.TilelangWarning, match="in float16, whose largest number is 65504"):
            main = one("float16", lambda X, Y, s: added(X, Y, s, number))  # noqa: B023
        y = np.zeros(N, np.float16)
        kernel = tilelang.compile(main, target=target)
        kernel(np.ones(N, np.float16), y)
        assert (y == np.float16(np.inf if number > 0 else -np.inf)).all()
        assert target == "reference" or "whose largest number is 65504" in str(kernel.explain())
        if target != "reference":
            with pytest.raises(tilelang.CompileError, match="does not fit in float16"):
                tilelang.compile(main, target=target, strict=True)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_what_rounds_to_a_number_and_infinity_itself_are_taken(target, dtype):
    rounds = 65519.0 if dtype == "float16" else 3.4028235e38
    for number in (LARGEST[dtype], rounds, -rounds, float("inf"), float("-inf")):
        x, y = np.zeros(N, dtype), np.ones(N, dtype)
        main = one(dtype, lambda X, Y, s: filled(X, Y, s, number))  # noqa: B023
        tilelang.compile(main, target=target)(x, y)
        assert (y == np.array(number).astype(dtype)).all()

    least = one(dtype, lambda X, Y, s: filled(X, Y, s, -T.infinity(dtype)))
    y = np.ones(N, dtype)
    tilelang.compile(least, target=target)(np.zeros(N, dtype), y)
    assert np.isneginf(y).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_an_argument_beyond_its_type_is_refused(target, dtype):
    @T.prim_func
    def main(k: getattr(T, dtype), Y: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                Y[i] = T.cast(k, "float32")

    kernel, y = tilelang.compile(main, target=target), np.zeros(N, "f4")
    for number in (LARGEST[dtype] * 1.01, -LARGEST[dtype] * 1.01):
        with pytest.raises(tilelang.ArgumentError, match=f"{dtype} cannot hold.*float\\('-?inf'\\)"):
            kernel(number, y)
    for number in (LARGEST[dtype], float("-inf")):
        kernel(number, y)
        assert (y == np.float32(number)).all()
