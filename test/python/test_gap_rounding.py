"""Rounding by name: the published names of T.round, IEEE operations on 16-bit floats, infinity of 8 bits."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import failure

HALF = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
MODES = ("rn", "rz", "ru", "rd")
N = 192


def test_names_of_round(target):
    @T.prim_func
    def main(A: T.Tensor((16,), "float32"), E: T.Tensor((16,), "float32"), W: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                E[i] = T.round(A[i], "ties-to-even")
                W[i] = T.round(A[i], "ties-away-from-zero")

    a = (np.arange(-8, 8) / 2).astype(np.float32)
    even, away = np.full(16, np.nan, np.float32), np.full(16, np.nan, np.float32)
    tilelang.compile(main, target=target)(a, even, away)
    assert np.array_equal(even, np.rint(a))
    assert np.array_equal(away, np.sign(a) * np.floor(abs(a) + 0.5))


def test_unknown_name_of_round(tmp_path):
    error = str(failure(tmp_path, "for i in T.Parallel(64):\n    A[i, 0] = T.round(A[i, 0], 'nearest')"))
    assert (
        "T.round: there is no rounding mode 'nearest'; it must be one of ties-to-even, rn, rz, ru, rd, ra, "
        "ties-away-from-zero" in error
    )


OPERATIONS = {
    "add": (lambda x, y, z: x + y, 2),
    "sub": (lambda x, y, z: x - y, 2),
    "mul": (lambda x, y, z: x * y, 2),
    "fdiv": (lambda x, y, z: x / y, 2),
    "fmaf": (lambda x, y, z: x * y + z, 3),
    "frcp": (lambda x, y, z: 1 / x, 1),
}


def rounded(exact, dtype, mode):
    """A fraction in a 16-bit float, by the neighbours that the type has."""
    kind = HALF[dtype]
    near = kind(float(exact))
    bits = np.array(near).view(np.uint16)
    size = int(bits & 0x7FFF)
    candidates = {}
    for other in (size - 1, size, size + 1):
        for sign in (0, 0x8000):
            if 0 <= other <= 0x7FFF:
                x = float(np.array(other | sign, np.uint16).view(kind))
                if np.isfinite(x):
                    candidates[Fraction(x)] = x
    below = max(c for c in candidates if c <= exact)
    above = min(c for c in candidates if c >= exact)
    if mode == "rn":
        if exact - below != above - exact:
            return candidates[below if exact - below < above - exact else above]
        even = lambda x: int(np.array(kind(candidates[x])).view(np.uint16)) % 2 == 0
        return candidates[below if even(below) else above]
    pick = {"rd": below, "ru": above, "rz": below if exact > 0 else above}[mode]
    return candidates[pick]


@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("dtype", HALF)
def test_ieee_operations_of_16_bits(dtype, op, target):
    compute, count = OPERATIONS[op]
    function = getattr(T, f"ieee_{op}")

    @T.prim_func
    def main(
        X: T.Tensor((N,), dtype),
        Y: T.Tensor((N,), dtype),
        Z: T.Tensor((N,), dtype),
        O: T.Tensor((4, N), dtype),
    ):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(N):
                for m in [*range(4)]:
                    O[m, i] = function(*[A[i] for A in (X, Y, Z)[:count]], MODES[m])

    rng = np.random.default_rng(3)
    x, y, z = (
        (rng.choice([-1, 1], N) * rng.uniform(1, 2, N) * 2.0 ** rng.integers(-7, 7, N)).astype(HALF[dtype])
        for _ in range(3)
    )
    out = np.full((4, N), np.nan, HALF[dtype])
    tilelang.compile(main, target=target)(x, y, z, out)
    for m, mode in enumerate(MODES):
        want = [
            rounded(compute(*[Fraction(float(v)) for v in values]), dtype, mode)
            for values in zip(x, y, z, strict=True)
        ]
        assert np.array_equal(out[m].astype(float), np.array(want)), mode
    assert (out[2].astype(float) > out[3].astype(float)).mean() > 0.3  # the modes differ


@pytest.mark.parametrize("dtype", HALF)
def test_roots_of_16_bits(dtype, target):
    """Of every positive number; to round float32's result once more changes none."""
    top = {"float16": 0x7C00, "bfloat16": 0x7F80}[dtype]
    x = np.arange(1, top, dtype=np.uint16).view(HALF[dtype])

    @T.prim_func
    def main(X: T.Tensor((top - 1,), dtype), R: T.Tensor((top - 1,), dtype), S: T.Tensor((top - 1,), dtype)):
        with T.Kernel(T.ceildiv(top - 1, 256), threads=256) as b:
            for i in T.Parallel(256):
                if b * 256 + i < top - 1:
                    R[b * 256 + i] = T.ieee_frsqrt(X[b * 256 + i])
                    S[b * 256 + i] = T.ieee_fsqrt(X[b * 256 + i])

    r, s = (np.full(top - 1, np.nan, HALF[dtype]) for _ in range(2))
    tilelang.compile(main, target=target)(x, r, s)
    roots = np.sqrt(x.astype(np.float64))
    for got, want in ((r, 1 / roots), (s, roots)):
        assert np.array_equal(got.view(np.uint16), want.astype(HALF[dtype]).view(np.uint16))


def test_ieee_text():
    @T.prim_func
    def main(X: T.Tensor((N,), "float16")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(N):
                X[i] = T.ieee_fsqrt(T.ieee_add(X[i], 1.0, "ru"), "rd")

    source = tilelang.compile(main, target="cuda -arch=sm_80").get_kernel_source()
    assert "__fadd_ru" in source and "__fsqrt_rd" in source


def test_infinity_of_e5m2(target):
    @T.prim_func
    def main(E: T.Tensor((2,), "float8_e5m2"), F: T.Tensor((2,), "float32")):
        with T.Kernel(1, threads=32):
            E[0] = T.infinity("float8_e5m2")
            E[1] = T.cast(-T.infinity("float32"), "float8_e5m2", sat=False)
            F[0] = T.cast(E[0], "float32")
            F[1] = T.cast(E[1], "float32")

    e, f = np.zeros(2, ml_dtypes.float8_e5m2), np.zeros(2, np.float32)
    tilelang.compile(main, target=target)(e, f)
    assert e.view(np.uint8).tolist() == [0x7C, 0xFC] and f.tolist() == [np.inf, -np.inf]
