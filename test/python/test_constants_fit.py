"""A finite constant that its float type would make infinite is an error where it is written; infinity itself
is not.
"""

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
def test_a_finite_number_beyond_the_type_is_refused(body, dtype):
    for number in (LARGEST[dtype] * 1.01, -LARGEST[dtype] * 1.01):
        with pytest.raises(tilelang.CompileError) as caught:
            one(dtype, lambda X, Y, s: body(X, Y, s, number))  # noqa: B023
        text = str(caught.value)
        assert f"does not fit in {dtype}" in text
        assert f'{"-" if number < 0 else ""}T.infinity("{dtype}")' in text
        assert "internal" not in text


def test_an_integer_beyond_float16_is_refused():
    for number in (65520, 70000, -70000, 2**40, 2**63):
        with pytest.raises(tilelang.CompileError, match="in float16, whose largest number is 65504"):
            one("float16", lambda X, Y, s: added(X, Y, s, number))  # noqa: B023


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
