"""Programs for functions of values: scalar functions, IEEE operations, bits, pairs, conversions; and for what
has no row of its own: operators and casts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from trial import PACKED, Trial, by_threads, elementwise, generator
from values import EXACT, Bound, is_float, numpy_type, pairs_of_edges, random_bits, values, within

N = 65536
FLOATS = ("f32", "f64", "f16", "bf16")
INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")

# The greatest errors by the CUDA manual, in units of the last place of f32 and of f64; 0: correctly rounded.
ULPS = {
    "exp": (2, 1), "exp2": (2, 1), "log": (1, 1), "log2": (1, 1), "log10": (2, 1), "sqrt": (0, 0),
    "rsqrt": (2, 1), "sin": (2, 2), "cos": (2, 2), "tanh": (2, 2), "sigmoid": (4, 4), "erf": (2, 2),
    "abs": (0, 0), "floor": (0, 0), "ceil": (0, 0), "round": (0, 0), "trunc": (0, 0), "round_away": (0, 0),
    "exp10": (2, 1), "expm1": (1, 1), "log1p": (1, 1), "tan": (4, 2), "asin": (2, 2), "acos": (2, 2),
    "atan": (2, 2), "sinh": (3, 2), "cosh": (2, 1), "asinh": (3, 3), "acosh": (4, 3), "atanh": (3, 2),
    "atan2": (3, 2), "hypot": (3, 2), "copysign": (0, 0), "fmod": (0, 0), "pow": (4, 2), "fma": (0, 0),
    "isnan": (0, 0), "isinf": (0, 0), "isfinite": (0, 0),
}  # fmt: skip

# Of the quick ones in f32: between which numbers, ulps (of x), absolutely where that is more.
FAST = {
    "fast_exp": (-80, 80, lambda x: 2 + np.floor(abs(1.173 * x)), 0),
    "fast_exp10": (-35, 35, lambda x: 2 + np.floor(abs(2.97 * x)), 0),
    "fast_log": (2.0**-120, 2.0**120, lambda x: 3, 2.0**-21.41),
    "fast_log2": (2.0**-120, 2.0**120, lambda x: 2, 2.0**-22),
    "fast_log10": (2.0**-120, 2.0**120, lambda x: 3, 2.0**-24),
    "fast_sin": (-math.pi, math.pi, lambda x: 0, 2.0**-21.41),
    "fast_cos": (-math.pi, math.pi, lambda x: 0, 2.0**-21.19),
    "fast_tan": (-1, 1, lambda x: 0, 2.0**-19),
    "fast_rcp": (2.0**-100, 2.0**100, lambda x: 1, 0),
}

SAME_IN_NUMPY = ("exp", "exp2", "log", "log2", "log10", "sqrt", "sin", "cos", "tanh", "floor", "ceil",
                 "trunc", "expm1", "log1p", "tan", "sinh", "cosh", "hypot", "copysign", "fmod", "isnan",
                 "isinf", "isfinite")  # fmt: skip
NUMPY = {name: getattr(np, name) for name in SAME_IN_NUMPY} | {
    "abs": np.abs, "round": np.rint, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "atan2": np.arctan2, "pow": np.power,
    "rsqrt": lambda x: 1 / np.sqrt(x), "exp10": lambda x: np.power(10.0, x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "fast_rcp": np.reciprocal,
}  # fmt: skip


def _closed(name: str, kind: str):
    """By NumPy in f64, where it has the function; rounded to the type it is within 1 ulp."""
    function = NUMPY.get(name) or NUMPY.get(name.removeprefix("fast_"))
    if function is None or kind == "f64":
        return None

    def exact(Y, **given):
        with np.errstate(all="ignore"):
            return {
                "Y": np.asarray(function(*[a.astype(np.float64) for a in given.values()])).astype(Y.dtype)
            }

    return exact


def scalar(row: dict) -> Iterator[Trial]:
    name, arity = row["name"], row["arity"]
    boolean, arguments = name.startswith("is"), ", ".join(f"{{{x}}}" for x in "ABC"[:arity])
    for kind in ("f32", "f64") if name in FAST else FLOATS:
        rng = generator(name, kind)
        given = (
            [values(rng, kind, N)]
            if arity == 1
            else [*pairs_of_edges(rng, kind, N), values(rng, kind, N)][:arity]
        )
        single, double = ULPS.get(name) or ULPS[name.removeprefix("fast_").replace("rcp", "exp")]
        # The double against which a double is held may be off by one itself; of 16 bits the result in f32 is
        # rounded.
        ulps = {"f32": single, "f64": double + 1 if double else 0}.get(
            kind, 1 if single or name == "fma" else 0
        )
        absolute = 2.0**-126 if name == "sigmoid" else 0  # 1 / (1 + inf)
        if name in FAST and kind == "f32":
            low, high, allowed, absolute = FAST[name]
            if low == -high or name.startswith("fast_log"):
                given = [within(given[0], low, high)]
            else:
                given = [
                    within(np.abs(given[0]), low, high)
                    * np.where(np.signbit(given[0]), -1, 1).astype(np.float32)
                ]
            ulps = np.broadcast_to(allowed(given[0].astype(np.float64)), N)
        bound = EXACT
        if np.any(ulps) or absolute:
            most = f"{np.max(ulps):.0f} ulp" if np.any(ulps) else ""
            bound = Bound(
                ulps, absolute, " or ".join(filter(None, [most, f"{absolute:.1e}" if absolute else ""]))
            )
        yield elementwise(
            f"{name}({arguments})",
            [(kind, a) for a in given],
            "bool" if boolean else kind,
            bound=bound,
            exact=_closed(name, kind),
            calls=f"{name}(",
            note=kind,
        )
    for kind in INTEGERS if name == "abs" else ("i32", "i64", "u32", "u64") if name == "fma" else ():
        given = [values(generator(name, kind, x), kind, N) for x in range(arity)]
        yield elementwise(
            f"{name}({arguments})", [(kind, a) for a in given], kind, calls=f"{name}(", note=kind
        )


# ── exact functions ───────────────────────────────────────────────────────────────────────────────────
SAME_WIDTH = [("f32", "i32"), ("i32", "f32"), ("f32", "u32"), ("u32", "i32"), ("f64", "i64"), ("u64", "f64"),
              ("f16", "u16"), ("i16", "f16"), ("bf16", "i16"), ("u16", "bf16"), ("i8", "u8")]  # fmt: skip


def _without_nan(a: np.ndarray) -> np.ndarray:
    """Which NaN it is may change where a float is computed with."""
    if a.dtype.kind in "iu":
        return a
    with np.errstate(invalid="ignore"):
        return np.where(np.isnan(a.astype(np.float64)), np.ones_like(a), a)


def exact(row: dict) -> Iterator[Trial]:
    name, arity = row["name"], row["arity"]
    rng, arguments = generator(name), ", ".join(f"{{{x}}}" for x in "ABC"[:arity])
    if name == "reinterpret":
        for kind, to in SAME_WIDTH:
            a = _without_nan(values(rng, kind, N))
            yield elementwise(
                f"reinterpret<{to}>({{A}})",
                [(kind, a)],
                to,
                calls="reinterpret<",
                note=f"{kind} as {to}",
                exact=lambda A, Y, **_: {"Y": A.view(Y.dtype)},
            )
    elif name in ("popcount", "clz"):
        for kind in INTEGERS:
            to = "i32" if name == "clz" else kind
            yield elementwise(
                f"{name}({{A}})", [(kind, values(rng, kind, N))], to, calls=f"{name}(", note=kind
            )
    elif row["takes"] in ("floats", "singles"):
        for kind in ("f32", "f64") if row["takes"] == "floats" else ("f32",):
            given = pairs_of_edges(rng, kind, N) + [values(rng, kind, N)]
            yield elementwise(
                f"{name}({arguments})", [(kind, a) for a in given[:arity]], kind, calls=f"{name}(", note=kind
            )
    elif row["takes"] in ("reals", "scaled"):
        for kind in FLOATS:
            a, b = pairs_of_edges(rng, kind, N)
            scaled = row["takes"] == "scaled"
            given = [(kind, a), ("i32", rng.integers(-320, 320, N, np.int32)) if scaled else (kind, b)]
            yield elementwise(f"{name}({arguments})", given, kind, calls=f"{name}(", note=kind)
    elif row["takes"] == "integers":  # two 16-bit floats in a word
        half = name.rpartition("_")[2]
        x, y = pairs_of_edges(rng, half, 2 * N)
        given = [a.view(np.uint32) for a in (x, y, values(rng, half, 2 * N))][:arity]
        yield elementwise(
            f"{name}({arguments})", [("u32", a) for a in given], "u32", numpy_type(half), calls=f"{name}("
        )
    else:  # counters; two of these are resolved by the compiler
        given = [("u64", random_bits(rng, np.uint64, N)) for _ in range(arity)]
        value = "select(elected(77), {A}, 1:u64)" if name == "elected" else f"{name}({arguments})"
        yield elementwise(
            value, given, "u32" if name == "philox" else "u64", calls="philox(" if arity > 1 else ""
        )


# ── conversions ───────────────────────────────────────────────────────────────────────────────────────
HOLDS = {"f16": "float16", "bf16": "bfloat16", "tf32": "float32", "e4m3": "float8_e4m3fn",
         "e5m2": "float8_e5m2", "e8m0": "float8_e8m0fnu"}  # fmt: skip
ROUNDINGS = ("nearest even", "toward zero", "down", "up", "nearest away")


def _view(kind: str) -> object:
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, HOLDS[kind], HOLDS[kind])) if kind in HOLDS else None


def narrow(row: dict) -> Iterator[Trial]:
    name, rng = row["name"], generator(row["name"])
    direction, _, kind = name.partition("_")
    if name == "to_odd":
        yield elementwise("to_odd<f32>({A})", [("f64", values(rng, "f64", N))], "f32", calls="to_odd")
    elif direction == "dp4a":
        given = [("i32", random_bits(rng, np.int32, N)) for _ in range(3)]
        yield elementwise(f"{name}({{A}}, {{B}}, {{C}})", given, "i32", calls=f"{name}(")
    elif direction == "from":
        codes = np.resize(np.arange(16 if kind == "e2m1" else 256), 1024).astype(np.uint8)
        yield elementwise(f"{name}<f32>({{A}})", [("u8", codes)], "f32", calls=name)
    else:
        to = {"tf32": "u32", "f16": "u16", "bf16": "u16"}.get(kind, "u8")
        for rounding in range(len(ROUNDINGS)):
            for saturate in (0, 1):
                a = values(rng, "f32", N)
                a[::3] = (
                    rng.standard_normal(len(a[::3])) * np.exp2(rng.integers(-18, 18, len(a[::3])))
                ).astype(np.float32)
                yield elementwise(
                    f"{name}<{to}>({{A}}, {rounding}:i32, {saturate}:i32)",
                    [("f32", a)],
                    to,
                    _view(kind),
                    calls=name,
                    note=ROUNDINGS[rounding],
                )


def lane(row: dict) -> Iterator[Trial]:
    """By the types of four bits, which are taken apart and put together, two or eight at once."""
    for kind in PACKED:
        for count in (2, 8):
            rng, wide = generator(row["name"], kind, count), "f32" if kind == "e2m1" else "i8"
            codes, a = random_bits(rng, np.uint8, N // 2).view(numpy_type(kind)), values(rng, wide, N)
            at, names = (
                f"(b*128 + tx)*{count} + v",
                (kind, wide) if row["name"] == "interleave" else (wide, kind),
            )
            given = (codes, np.zeros_like(a)) if names[0] == kind else (a, np.zeros_like(codes))
            yield by_threads(
                f"for v in vectorized({count}):\n  Y[{at}] = cast<{names[1]}>(A[{at}])",
                f"A: {names[0]}[{N}], Y: {names[1]}[{N}]",
                {"A": given[0], "Y": given[1]},
                ["Y"],
                128,
                N // 128 // count,
                calls=row["name"],
                note=f"{names[0]} to {names[1]}",
            )


# ── what has no row ───────────────────────────────────────────────────────────────────────────────────
OPERATORS = {
    "{A} + {B}": "fi", "{A} - {B}": "fi", "{A} * {B}": "fi", "{A} / {B}": "f", "min({A}, {B})": "fi",
    "max({A}, {B})": "fi", "{A} // {B}": "d", "{A} % {B}": "d", "truncdiv({A}, {B})": "d",
    "truncmod({A}, {B})": "d", "{A} & {B}": "i", "{A} | {B}": "i", "{A} ^ {B}": "i", "{A} << {B}": "s",
    "{A} >> {B}": "s", "{A} == {B}": "c", "{A} != {B}": "c", "{A} < {B}": "c", "{A} <= {B}": "c",
    "{A} > {B}": "c", "{A} >= {B}": "c",
}  # fmt: skip


def operators() -> Iterator[tuple[str, Trial]]:
    """Each binary operator on each type that has it: f floats, i integers, d a divisor, s a shift, c to a
    bool.
    """
    for text, takes in OPERATORS.items():
        kinds = (FLOATS if set(takes) & set("fc") else ()) + (INTEGERS if set(takes) & set("idsc") else ())
        for kind in kinds:
            a, b = pairs_of_edges(generator(text, kind), kind, N)
            if takes == "d":
                b = np.where((b == 0) | (b.astype(np.int64) == -1), b * 0 + 3, b).astype(b.dtype)
            if takes == "s":
                b = (b.view(f"u{b.itemsize}") % (8 * b.itemsize)).astype(b.dtype)
            to = "bool" if takes == "c" else kind
            yield text.format(A="a", B="b"), elementwise(text, [(kind, a), (kind, b)], to, note=kind)


CASTS = ("f64", "f32", "f16", "bf16", *INTEGERS, "bool", "tf32", "e4m3", "e5m2", "e8m0")


def casts() -> Iterator[tuple[str, Trial]]:
    for kind in CASTS:
        for to in CASTS:
            if kind == to:
                continue
            a = values(generator(kind, to), kind, 1024 if numpy_type(kind).itemsize == 1 else N // 4)
            if is_float(kind) and to in INTEGERS:  # what lies outside has no meaning
                info = np.iinfo(numpy_type(to))
                a = within(
                    a,
                    float(info.min),
                    float(np.nextafter(np.float64(info.max), 0)) if info.bits == 64 else info.max,
                )
            yield f"{kind} to", elementwise(f"cast<{to}>({{A}})", [(kind, a)], to, note=to)
