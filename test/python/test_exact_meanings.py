"""What numerics.md promises of values whose computation folds away, or that a library of the target bends."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import failure, kernel

TARGETS = ("reference", "cpu", "cpu -mcpu=haswell", "sim:sm_80", "sim:sm_90a")


@pytest.mark.parametrize("wide", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("target", TARGETS)
def test_infinity_is_a_number_after_a_cast_to_e5m2(target, wide):
    @T.prim_func
    def main(
        A: T.Tensor((4,), "float8_e5m2"), B: T.Tensor((4,), "float32"), C: T.Tensor((4,), "float8_e5m2")
    ):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                B[i] = T.cast(T.cast(T.cast(A[i], wide), "float8_e5m2"), "float32")
                C[i] = T.cast(A[i], wide)

    a = np.array([np.inf, -np.inf, np.nan, 1], ml_dtypes.float8_e5m2)
    b, c = np.zeros(4, np.float32), np.zeros(4, a.dtype)
    tilelang.compile(main, target=target)(a, b, c)
    np.testing.assert_array_equal(b, [57344, -57344, np.nan, 1])
    np.testing.assert_array_equal(c.astype(np.float32), [57344, -57344, np.nan, 1])


@pytest.mark.parametrize("target", TARGETS)
def test_the_larger_of_nan_and_a_number(target):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), C: T.Tensor((64,), "int32"), B: T.Tensor((6, 64), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                c = T.cast(C[i], "float32")
                B[0, i] = T.abs(T.max(T.abs(A[i]), c))
                B[1, i] = T.copysign(T.max(A[i] * A[i], c), 1.0)
                B[2, i] = T.max(c, A[i])
                B[3, i] = T.min(A[i], c)
                B[4, i] = T.max(A[i], 3.0)
                B[5, i] = T.min(-2.0, A[i])

    a, c = np.full(64, np.nan, np.float32), np.full(64, -100, np.int32)
    a[1::2], b = np.arange(-16, 16), np.zeros((6, 64), np.float32)
    tilelang.compile(main, target=target)(a, c, b)
    numbers = c.astype(np.float32)
    squares = np.where(np.isnan(a), numbers, a * a)
    wanted = [
        np.where(np.isnan(a), 100, np.abs(a)), np.abs(squares), np.fmax(numbers, a), np.fmin(a, numbers),
        np.fmax(a, 3), np.fmin(a, -2),
    ]  # fmt: skip
    np.testing.assert_array_equal(b, wanted)


def test_sigmoid_of_large_negative_numbers(target):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i] = T.sigmoid(A[i])

    a, b = np.array([-80, -87, -88, -88.5, -89, -90, -95, -100], np.float32), np.zeros(8, np.float32)
    tilelang.compile(main, target=target)(a, b)
    ulps = np.abs(
        b.view(np.int32) - (1 / (1 + np.exp(-a.astype(np.float64)))).astype(np.float32).view(np.int32)
    )
    assert ulps.max() <= 3


SIGNATURE = (
    "X: T.Tensor((1,), 'int32'), U: T.Tensor((1,), 'uint32'), S: T.Tensor((1,), 'int8'), one: T.int32, "
    "B: T.Tensor((3,), 'int32')"
)


@pytest.mark.parametrize("condition", ["True", "T.cast(1, 'int32') > 0", "one > 0"])
def test_two_values_meet_whatever_is_known_of_the_condition(tmp_path, condition):
    body = (
        f"B[0] = T.if_then_else(T.if_then_else({condition}, X[0], U[0]) > 0, 1, 0)\n"
        f"B[1] = T.if_then_else({condition}, S[0], X[0]) << 4\n"
        f"B[2] = T.if_then_else({condition}, S[0], X[0]) + S[0]"
    )
    main = kernel(tmp_path, body, SIGNATURE, launch="T.Kernel(1, threads=1)")
    for target in ("reference", "cpu", "sim:sm_80"):
        b = np.zeros(3, np.int32)
        arrays = np.array([-5], np.int32), np.array([7], np.uint32), np.array([100], np.int8)
        tilelang.compile(main, target=target)(*arrays, 1, b)
        assert list(b) == [1, 1600, 200], target


@pytest.mark.parametrize("amount", [0, 1, 3, 29])
def test_truth_values_are_shifted_as_numbers(tmp_path, amount):
    signature = "A: T.Tensor((2,), 'bool'), B: T.Tensor((2,), 'int32')"
    body = f"for i in T.Parallel(2):\n    B[i] = A[i] << {amount}"
    main = kernel(tmp_path, body, signature, launch="T.Kernel(1, threads=32)")
    b = np.zeros(2, np.int32)
    tilelang.compile(main, target="cpu")(np.array([True, False]), b)
    assert list(b) == [1 << amount, 0]


@pytest.mark.parametrize("use", ["T.copy(A[bx - 70, 0], s)", "A[bx - 70, 0] = 1", "x = A[bx - 70, 0]"])
def test_an_index_that_is_outside_counted_from_the_end_as_well(tmp_path, use):
    error = failure(tmp_path, f"s = T.alloc_shared((1, 8), 'float32')\n{use}")
    assert (
        "index bx - 70 of A is outside: it counts from the end of 64 elements, and is below -64" in error.text
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_fma_of_16_bits_rounds_once(dtype):
    """A product that lies between two neighbours, and a term that decides: f32 in between would lose it."""

    @T.prim_func
    def main(X: T.Tensor((256,), dtype), Z: T.Tensor((256,), dtype), B: T.Tensor((2, 256), dtype)):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(256):
                B[0, i] = T.fma(X[i], X[i], Z[i])
                B[1, i] = T.ieee_fmaf(X[i], X[i], Z[i])

    numpy = np.float16 if dtype == "float16" else ml_dtypes.bfloat16
    with np.errstate(invalid="ignore"):
        every = np.arange(1 << 16, dtype=np.uint16).view(numpy).astype(np.float64)
    every = every[np.isfinite(every) & (abs(every) > 0.01) & (abs(every) < 100)]
    squares, ulp = every * every, 2.0 ** -(10 if dtype == "float16" else 7)
    between = squares / 2.0 ** np.floor(np.log2(squares)) / ulp % 1 == 0.5
    x = np.resize(every[between], 256)
    z = np.resize([6e-8, -6e-8, 1e-3, 0, 3.0], 256).astype(numpy)
    wanted = [[once(Fraction(a) ** 2 + Fraction(float(b)), ulp) for a, b in zip(x, z, strict=True)]] * 2
    for target in TARGETS:
        b = np.full((2, 256), np.nan, numpy)
        tilelang.compile(main, target=target)(x.astype(numpy), z, b)
        np.testing.assert_array_equal(b.astype(np.float64), wanted, err_msg=target)
    for chip in ("sm_75", "sm_80", "sm_90a"):
        assert "fmaf(" not in tilelang.compile(main, target=f"cuda -arch={chip}").get_kernel_source()


def once(exact, ulp):
    """The nearest number with so many bits, the even one of two."""
    unit = Fraction(2) ** math.floor(math.log2(abs(exact))) * Fraction(ulp)
    return float(round(exact / unit) * unit)


def of_a_term(dtype, term):
    """C - term and C + term, where the term is computed by itself, too."""

    @T.prim_func
    def main(
        A: T.Tensor((64,), dtype),
        E: T.Tensor((64,), "int32"),
        C: T.Tensor((64,), dtype),
        less: T.Tensor((64,), dtype),
        more: T.Tensor((64,), dtype),
        alone: T.Tensor((64,), dtype),
    ):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                less[i] = C[i] - term(A[i], E[i])
                more[i] = term(A[i], E[i]) + C[i]
                alone[i] = term(A[i], E[i])

    return main


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("term", ["ldexp", "exp", "exp2", "ieee_mul"])
def test_a_rounded_term_of_a_sum_stays_rounded(dtype, term):
    """Only a * b + c of the program becomes one operation, not the product in which a function ends."""
    rng = np.random.default_rng(5)
    top, low = np.finfo(dtype).maxexp, np.finfo(dtype).minexp - np.finfo(dtype).nmant
    A = rng.uniform(1, 2, 64).astype(dtype)
    E = rng.choice([top - 1, top, low, low + 1, low + 5, 3], 64).astype(np.int32)
    edge = rng.choice([top - 0.1, top + 0.1, low + 3.0, 2.0], 64)  # of a power of 2
    C = rng.choice([0.9 * np.finfo(dtype).max, np.inf, -np.ldexp(1.0, low), 1.0], 64).astype(dtype)
    terms = {
        "ldexp": lambda a, e: T.ldexp(a, e),
        "exp": lambda a, e: T.exp(a),
        "exp2": lambda a, e: T.exp2(a),
        "ieee_mul": lambda a, e: T.ieee_mul(a, a),
    }
    if term != "ldexp":
        A = (edge if term == "exp2" else edge * np.log(2) if term == "exp" else 2 ** (edge / 2)).astype(dtype)
    for target in ("cpu", "reference", "sim:sm_80"):
        less, more, alone = (np.zeros(64, dtype) for _ in "lma")
        tilelang.compile(of_a_term(dtype, terms[term]), target=target)(A, E, C, less, more, alone)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(less, C - alone, err_msg=target)
            np.testing.assert_array_equal(more, alone + C, err_msg=target)
            if term == "ldexp":
                np.testing.assert_array_equal(alone, np.ldexp(A, E), err_msg=target)
