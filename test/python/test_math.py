"""Scalar functions on the CPU, in the reference and in the simulator against float64; vectors of the CPU;
bits; IEEE operations with a rounding mode; pairs."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import failure


def unary(n, dtype, out_dtype, fn):
    @T.prim_func
    def main(A: T.Tensor((n,), dtype), B: T.Tensor((n,), out_dtype)):
        with T.Kernel(T.ceildiv(n, 256), threads=64) as bx:
            for i in T.Parallel(256):
                if bx * 256 + i < n:
                    B[bx * 256 + i] = fn(A[bx * 256 + i])

    return main


def binary(n, dtype, fn):
    @T.prim_func
    def main(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, 128), threads=64) as bx:
            for i in T.Parallel(128):
                if bx * 128 + i < n:
                    C[bx * 128 + i] = fn(A[bx * 128 + i], B[bx * 128 + i])

    return main


def apply(fn, target, *args, out=None):
    n = len(args[0])
    out_dtype = np.dtype(out or args[0].dtype)
    result = np.zeros(n, out_dtype)
    result.view(np.uint8)[:] = 0xFF
    if len(args) == 1:
        kernel = tilelang.compile(unary(n, args[0].dtype.name, out_dtype.name, fn), target=target)
    else:
        kernel = tilelang.compile(binary(n, args[0].dtype.name, fn), target=target)
    kernel(*args, result)
    return result


def ulps(got, exact):
    """How far `got` (f32) is from `exact` (float64), in units of the last place of exact as f32."""
    exact = np.asarray(exact, np.float64)
    with np.errstate(over="ignore"):
        near = np.minimum(np.abs(exact), np.finfo(np.float32).max).astype(np.float32)
    return np.abs(got.astype(np.float64) - exact) / np.spacing(near).astype(np.float64)


RANGES = {  # function: (low, high) of its arguments, NumPy's or math's function
    "log1p": (-0.9, 50, np.log1p), "expm1": (-5, 10, np.expm1), "exp10": (-4, 4, lambda x: 10.0**x),
    "log10": (1e-3, 1e4, np.log10), "tan": (-1.5, 1.5, np.tan), "atan": (-50, 50, np.arctan),
    "asin": (-1, 1, np.arcsin), "acos": (-1, 1, np.arccos), "sinh": (-10, 10, np.sinh),
    "cosh": (-10, 10, np.cosh), "asinh": (-100, 100, np.arcsinh), "acosh": (1, 100, np.arccosh),
    "atanh": (-0.99, 0.99, np.arctanh), "nearbyint": (-9, 9, np.rint), "round": (-9, 9, np.rint),
    "__exp": (-5, 5, np.exp), "__exp10": (-4, 4, lambda x: 10.0**x), "__log": (0.1, 50, np.log),
    "__log2": (0.1, 50, np.log2), "__log10": (0.1, 50, np.log10), "__sin": (-3, 3, np.sin),
    "__cos": (-3, 3, np.cos), "__tan": (-1.4, 1.4, np.tan), "fast_rcp": (0.1, 50, np.reciprocal),
    "sigmoid": (-20, 20, lambda x: 1 / (1 + np.exp(-x))),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(RANGES))
def test_functions(name, target):
    low, high, exact = RANGES[name]
    rng = np.random.default_rng(1)
    for dtype, tolerance in (("float32", 1e-6), ("float64", 1e-13), ("float16", 1e-3), ("bfloat16", 8e-3)):
        a = rng.uniform(low, high, 300).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
        if name == "acosh":
            a = np.maximum(a, np.ones_like(a))
        got = apply(getattr(T, name), target, a).astype(np.float64)
        want = exact(a.astype(np.float64))
        error = np.abs(got - want) / np.maximum(np.abs(want), 1e-3)
        assert error.max() <= tolerance, (name, dtype)


def test_functions_of_two(target):
    rng = np.random.default_rng(2)
    a, b = rng.uniform(-9, 9, 200).astype(np.float32), rng.uniform(-9, 9, 200).astype(np.float32)
    pairs = ((T.atan2, np.arctan2), (T.hypot, np.hypot), (T.copysign, np.copysign), (T.fmod, np.fmod))
    for fn, exact in pairs:
        want = exact(a.astype(np.float64), b.astype(np.float64))
        assert np.allclose(apply(fn, target, a, b), want, rtol=1e-6, atol=1e-6)


def test_halves_are_rounded_once(target):
    """Computed in f32 and rounded once: what NumPy gives in float32, cast."""
    bits = np.arange(0x3000, 0x4800, 7, dtype=np.uint16)
    for kind in (np.float16, ml_dtypes.bfloat16):
        a = bits.view(kind)
        wide = a.astype(np.float64)
        got = apply(T.sigmoid, target, a)
        with np.errstate(over="ignore"):
            want = (1 / (1 + np.exp(-wide))).astype(np.float32).astype(kind)
        assert np.mean(got.view(np.uint16) == want.view(np.uint16)) > 0.999
        step = np.abs(got.view(np.uint16).astype(int) - want.view(np.uint16).astype(int))
        assert step.max() <= 1


def test_rounding_modes_of_round(target):
    a = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.4, -2.6, 3.0], np.float32)
    away = np.trunc(a + np.copysign(np.float32(0.5), a))
    for mode, want in (
        ("rn", np.rint(a)),
        ("rz", np.trunc(a)),
        ("ru", np.ceil(a)),
        ("rd", np.floor(a)),
        ("ra", away),
    ):
        assert np.array_equal(apply(lambda x, mode=mode: T.round(x, mode), target, a), want)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_bits(dtype, target):
    info = np.iinfo(dtype)
    rng = np.random.default_rng(3)
    a = rng.integers(info.min, info.max, 100, dtype, endpoint=True)
    a[:4] = (0, 1, info.max, info.min)
    mask = (1 << info.bits) - 1
    patterns = [int(x) & mask for x in a]
    assert apply(T.popcount, target, a).tolist() == [bin(x).count("1") for x in patterns]
    want = [info.bits - x.bit_length() for x in patterns]
    assert apply(T.clz, target, a, out="int32").tolist() == want
    assert np.array_equal(apply(T.bitwise_not, target, a), ~a)
    with np.errstate(over="ignore"):
        assert np.array_equal(apply(T.abs, target, a), np.abs(a))
    assert np.array_equal(apply(lambda x: T.shift_right(x, 3), target, a), a >> np.array(3, dtype))
    assert np.array_equal(apply(lambda x: T.shift_left(x, 3), target, a), a << np.array(3, dtype))


def test_reinterpret(target):
    a = np.random.default_rng(4).integers(0, 1 << 32, 100, np.uint64).astype(np.uint32)
    a[(a & 0x7F800000) == 0x7F800000] = 7

    def check(values, dtype, want):
        got = apply(lambda x: T.reinterpret(x, dtype), target, values, out=dtype)
        assert np.array_equal(got, want)

    check(a, "float32", a.view("f4"))
    check(a.view("f4"), "int32", a.view("i4"))
    h = a.view(np.uint16)
    h = h[(h & 0x7C00) != 0x7C00].copy()
    check(h, "float16", h.view("f2"))
    check(h.view("f2"), "uint16", h)


def test_refusals(tmp_path):
    signature = "A: T.Tensor((64,), 'float32'), B: T.Tensor((64,), 'int32')"

    def words(body):
        return failure(tmp_path, body, signature=signature).args[0]

    assert "popcount takes an integer, not float32" in words("x = T.popcount(A[0])")
    assert "32 bits, but float16 has 16" in words("x = T.reinterpret(A[0], 'float16')")
    assert "no rounding mode 'up'" in words("x = T.ieee_add(A[0], A[1], 'up')")
    assert "ieee_add_rn takes float32 or float64, not int32" in words("x = T.ieee_add(B[0], B[1])")
    assert "slices of two elements" in words("x = T.add2(A[0:3], A[3:6])")


def test_python_numbers():
    assert T.align_up(13, 8) == 16 and T.bitwise_not(5) == ~5 and T.shift_left(1, 4) == 16
    assert T.index_to_coordinates(17, (4, 3, 2)) == [2, 2, 1]


# ── the CPU's vectors ─────────────────────────────────────────────────────────────────────────────────
def wanted(name, x):
    table = {
        "exp": math.exp,
        "exp2": lambda v: 2.0**v,
        "log": math.log,
        "log2": math.log2,
        "tanh": math.tanh,
        "erf": math.erf,
        "sin": math.sin,
        "cos": math.cos,
        "log10": math.log10,
        "sigmoid": lambda v: 1 / (1 + math.exp(-v)) if v > -700 else 0.0,
    }
    return np.array([table[name](float(v)) for v in x])


SCANS = {
    "exp": (-103.5, 88.5, 2), "exp2": (-149, 127.9, 2), "tanh": (-10, 10, 2), "erf": (-5, 5, 2),
    "log": (1e-3, 1e3, 2), "log2": (1e-3, 1e3, 2), "log10": (1e-3, 1e3, 2), "sin": (-1e4, 1e4, 2),
    "cos": (-1e4, 1e4, 2), "sigmoid": (-80, 80, 3),
}  # fmt: skip


@pytest.mark.parametrize("chip", ["", " -mcpu=haswell", " -mcpu=x86-64"])
@pytest.mark.parametrize("name", sorted(SCANS))
def test_vectors(name, chip):
    low, high, limit = SCANS[name]
    rng = np.random.default_rng(5)
    parts = [np.linspace(low, high, 20011), rng.uniform(max(low, -1), min(high, 1), 8000)]
    parts.append(np.exp(rng.uniform(-80, 0, 4000)) * (1 if low >= 0 else rng.choice([-1, 1], 4000)))
    if name.startswith("log"):
        parts.append(np.exp(rng.uniform(-102, 88, 4000)))
        parts[1] = 1 + rng.uniform(-0.3, 0.4, 4000)
    x = np.concatenate(parts).astype(np.float32)
    got = apply(getattr(T, name), "cpu" + chip, x)
    want = wanted(name, x)
    if name in ("log", "log2", "log10"):
        want = np.where(x == 0, -np.inf, want) if (x == 0).any() else want
    error = ulps(got, want)
    assert error.max() <= limit, (x[error.argmax()], got[error.argmax()], want[error.argmax()], error.max())


@pytest.mark.parametrize("name", ["exp", "exp2", "log", "log2", "tanh", "erf", "sin", "cos", "sigmoid"])
def test_no_call_per_lane(name):
    """A T.Parallel loop is vectors of arithmetic, 4, 8 and 16 lanes wide; sines far out ask the C library."""
    for chip, lanes in (("x86-64", 4), ("haswell", 8), ("skylake-avx512", 16)):
        try:
            prim = unary(1024, "float32", "float32", getattr(T, name))
            kernel = tilelang.compile(prim, target=f"cpu -mcpu={chip}")
        except Exception as error:
            pytest.skip(f"{chip}: {error}")
        source = kernel.get_kernel_source()
        assert f"<{lanes} x float>" in source
        if name not in ("sin", "cos"):
            assert f"@{name}f" not in source


def test_ends_of_vectors():
    inf, nan = np.inf, np.nan
    x = np.array([0.0, -0.0, inf, -inf, nan, 1.0, 1e-45, 3e38, -3e38, -1.0], np.float32)
    want = {
        "exp": [1, 1, inf, 0, nan], "exp2": [1, 1, inf, 0, nan], "tanh": [0, -0.0, 1, -1, nan],
        "erf": [0, -0.0, 1, -1, nan], "log": [-inf, -inf, inf, nan, nan, 0], "sin": [0, -0.0, nan, nan, nan],
        "log2": [-inf, -inf, inf, nan, nan, 0, -149], "cos": [1, 1, nan, nan, nan],
        "log10": [-inf, -inf, inf, nan], "sigmoid": [0.5, 0.5, 1, 0, nan],
    }  # fmt: skip
    for name, values in want.items():
        got = apply(getattr(T, name), "cpu", x)[: len(values)]
        assert np.array_equal(got, np.array(values, np.float32), equal_nan=True), (name, got)
        assert np.array_equal(np.signbit(got[:2]), np.signbit(np.array(values[:2], np.float32))), name
    far = np.array([1e9, -3e20, 1e38, 5.0, 2.5e8, 12345.678, 0.1, 1e10], np.float32)
    for name in ("sin", "cos"):
        assert ulps(apply(getattr(T, name), "cpu", far), wanted(name, far)).max() <= 2


# ── IEEE operations ───────────────────────────────────────────────────────────────────────────────────
def exact_round(value, mode, bits):
    """A Fraction as the float of 24 or 53 bits that the mode wants; not 0."""
    digits, least = (24, -149) if bits == 32 else (53, -1074)
    sign, magnitude = (-1, -value) if value < 0 else (1, value)
    exponent = math.floor(math.log2(magnitude)) if magnitude < Fraction(2) ** 1000 else 1000
    while Fraction(2) ** (exponent + 1) <= magnitude:
        exponent += 1
    while Fraction(2) ** exponent > magnitude:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - digits + 1, least)
    whole, rest = divmod(magnitude, unit)
    up = {"rz": False, "ru": sign > 0, "rd": sign < 0}.get(mode)
    if up is None:
        up = rest * 2 > unit or (rest * 2 == unit and whole % 2 == 1)
    whole += bool(up and rest)
    return sign * whole * unit


def operands(dtype, count=240):
    rng = np.random.default_rng(6)
    x = (rng.standard_normal((3, count)) * np.exp2(rng.integers(-20, 20, (3, count)))).astype(dtype)
    x[:, :40] = rng.integers(-8, 8, (3, 40)) + 0.5  # ties and exact results
    x[1, 40:60] = -x[0, 40:60]
    return x


MODES = ("rn", "rz", "ru", "rd")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ieee(dtype, mode, target):
    if target == "cpu" and dtype == "float64" and mode != "rn":
        with pytest.raises(tilelang.CompileError, match="rounds float64 to nearest only"):
            apply(lambda x, y: T.ieee_add(x, y, mode), target, *operands(dtype)[:2])
        return
    a, b, c = operands(dtype)
    bits = np.dtype(dtype).itemsize * 8
    fractions = [[Fraction(float(v)) for v in x] for x in (a, b, c)]
    cases = {
        "add": (lambda x, y: T.ieee_add(x, y, mode), lambda x, y: x + y),
        "sub": (lambda x, y: T.ieee_sub(x, y, mode), lambda x, y: x - y),
        "mul": (lambda x, y: T.ieee_mul(x, y, mode), lambda x, y: x * y),
        "fdiv": (lambda x, y: T.ieee_fdiv(x, y, mode), lambda x, y: x / y),
        "fmaf": (lambda x, y: T.ieee_fmaf(x, y, x, mode), lambda x, y: x * y + x),
    }
    for name, (fn, exact) in cases.items():
        got = apply(fn, target, a, b)
        for x, y, g in zip(fractions[0], fractions[1], got, strict=True):
            value = exact(x, y)
            if value == 0:
                assert g == 0 and np.signbit(g) == (mode == "rd" or (name == "mul" and np.signbit(g)))
            else:
                assert Fraction(float(g)) == exact_round(value, mode, bits), (name, mode, float(x), float(y))
    for g, x in zip(apply(lambda x: T.ieee_frcp(x, mode), target, a), fractions[0], strict=True):
        assert Fraction(float(g)) == exact_round(1 / x, mode, bits)
    root = apply(lambda x: T.ieee_fsqrt(x, mode), target, np.abs(a))
    for g, x in zip(root, np.abs(a), strict=True):  # the neighbour that the mode wants, by squares
        x, g = Fraction(float(x)), np.array(g, dtype)
        low, high = (Fraction(float(np.nextafter(g, np.array(to, dtype)))) for to in (0, np.inf))
        g = Fraction(float(g))
        if mode in ("rz", "rd"):
            assert g * g <= x < high * high
        elif mode == "ru":
            assert low * low < x <= g * g
        else:
            assert ((low + g) / 2) ** 2 <= x <= ((g + high) / 2) ** 2


def test_frsqrt(target):
    a = np.abs(operands("float32")[0])
    got = apply(T.ieee_frsqrt, target, a)
    assert np.array_equal(got, (1 / np.sqrt(a.astype(np.longdouble))).astype(np.float32))


def test_directed_ends(target):
    big, small = np.float32(3e38), np.float32(1e-30)
    a = np.array([big, -big, small, -small, 0.0, -0.0, np.inf, np.nan], np.float32)
    up = apply(lambda x, y: T.ieee_mul(x, y, "ru"), target, a, np.abs(a))
    down = apply(lambda x, y: T.ieee_mul(x, y, "rd"), target, a, np.abs(a))
    most, least = np.finfo(np.float32).max, np.float32(1e-45)
    want_up = np.array([np.inf, -most, least, -0.0, 0, -0.0, np.inf, np.nan], np.float32)
    want_down = np.array([most, -np.inf, 0, -least, 0, -0.0, np.inf, np.nan], np.float32)
    assert np.array_equal(up, want_up, equal_nan=True)
    assert np.array_equal(down, want_down, equal_nan=True)


# ── pairs ─────────────────────────────────────────────────────────────────────────────────────────────
def pairs(n, dtype):
    @T.prim_func
    def main(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((8, n), dtype)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n // 2):
                a, b = A[2 * i : 2 * i + 2], B[2 * i : 2 * i + 2]
                C[0, 2 * i : 2 * i + 2] = T.add2(a, b)
                C[1, 2 * i : 2 * i + 2] = T.sub2(a, b)
                C[2, 2 * i : 2 * i + 2] = T.mul2(a, b)
                C[3, 2 * i : 2 * i + 2] = T.fma2(a, b, a)
                C[4, 2 * i : 2 * i + 2] = T.max2(a, b)
                C[5, 2 * i : 2 * i + 2] = T.min2(a, b)
                C[6, 2 * i : 2 * i + 2] = T.abs2(a)
                C[7, 2 * i] = T.extract_lane(T.add2(a, a), 1)
                C[7, 2 * i + 1] = T.extract_lane(b, 0)

    return main


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_pairs(dtype, target):
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    rng = np.random.default_rng(7)
    a, b = rng.standard_normal(64).astype(kind), rng.standard_normal(64).astype(kind)
    c = np.full((8, 64), np.nan, kind)
    tilelang.compile(pairs(64, dtype), target=target)(a, b, c)
    x, y = a.astype(np.float64), b.astype(np.float64)
    wants = (x + y, x - y, x * y, x * y + x, np.maximum(x, y), np.minimum(x, y), np.abs(x))
    for row, want in enumerate(wants):
        assert np.array_equal(c[row], want.astype(kind) if dtype != "float32" else want.astype("f4")), row
    assert np.array_equal(c[7, 0::2], (2 * x[1::2]).astype(kind)) and np.array_equal(c[7, 1::2], b[0::2])


def test_a_fused_sum_of_pairs_is_rounded_once(target):
    """A product halfway between two bfloat16, and a summand that no double of that size can hold."""

    @T.prim_func
    def main(A: T.Tensor((6,), "bfloat16"), B: T.Tensor((2,), "bfloat16")):
        with T.Kernel(1, threads=1):
            B[0:2] = T.fma2(A[0:2], A[2:4], A[4:6])

    a = np.array([1.0625, 1.0625, 1.0625, 1.0625, 2.0**-80, -(2.0**-80)], ml_dtypes.bfloat16)
    b = np.zeros(2, ml_dtypes.bfloat16)
    tilelang.compile(main, target=target)(a, b)
    exact = Fraction(1.0625) ** 2  # 1 + 2^-3 + 2^-8: halfway, so that the summand decides
    assert [Fraction(float(x)) for x in b] == [exact + Fraction(1, 256), exact - Fraction(1, 256)]


def test_integers_beyond_a_double(target):
    a = np.array([2**62 + 1, -(2**62) - 1, -(2**63), 7], np.int64)
    assert apply(T.abs, target, a).tolist() == [2**62 + 1, 2**62 + 1, -(2**63), 7]
    b = a.view(np.uint64)
    assert apply(T.abs, target, b).tolist() == b.tolist()
    x = np.array([9.21e18, -9.21e18, 0.5], np.float32)
    assert apply(lambda v: T.cast(v, "int64"), target, x, out="int64").tolist() == x.astype(np.int64).tolist()


# ── CUDA text ─────────────────────────────────────────────────────────────────────────────────────────
def everything(a):
    total = a
    for name in sorted(RANGES):
        total = total + getattr(T, name)(a)
    for fn in (T.atan2, T.hypot, T.copysign, T.fmod):
        total = total + fn(a, a)
    return total


def all_ieee(a):
    total = a
    for mode in MODES:
        total = total + T.ieee_add(a, a, mode) + T.ieee_sub(a, a, mode) + T.ieee_mul(a, a, mode)
        total = total + T.ieee_fdiv(a, a, mode) + T.ieee_fmaf(a, a, a, mode) + T.ieee_frcp(a, mode)
        total = total + T.ieee_fsqrt(a, mode)
    return total


@pytest.mark.parametrize("chip", ["sm_80", "sm_90"])
def test_cuda_text(chip):
    target = f"cuda -arch={chip}"
    for dtype in ("float32", "float64", "float16", "bfloat16"):
        tilelang.compile(unary(512, dtype, dtype, everything), target=target)
    for dtype in ("float32", "float64"):
        tilelang.compile(unary(512, dtype, dtype, all_ieee), target=target)
    prim = unary(512, "float32", "float32", lambda x: T.__exp(x) + T.ieee_add(x, x, "rz"))
    source = tilelang.compile(prim, target=target)
    assert "__expf(" in source.get_kernel_source() and "__fadd_rz(" in source.get_kernel_source()
    tilelang.compile(unary(512, "float32", "float32", T.ieee_frsqrt), target=target)
    for dtype in ("int8", "uint16", "int32", "int64"):
        counts = unary(512, dtype, "int32", lambda x: T.clz(x) + T.cast(T.popcount(x), "int32"))
        tilelang.compile(counts, target=target)
    tilelang.compile(unary(512, "float16", "uint16", lambda x: T.reinterpret(x, "uint16")), target=target)
    tilelang.compile(unary(512, "int64", "float64", lambda x: T.reinterpret(x, "float64")), target=target)
    for dtype, word in (("float16", "add.rn.f16x2"), ("bfloat16", "fma.rn.bf16x2"), ("float32", " + ")):
        assert word in tilelang.compile(pairs(64, dtype), target=target).get_kernel_source()
