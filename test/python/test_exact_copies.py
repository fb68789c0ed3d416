"""Casts give the documented bits, and what is only moved keeps its bits, in every executor.

The model of a cast is written here from docs/numerics.md: numbers are long doubles, which hold every value of
every type, and each result is rounded once."""

import functools

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import in_turn, load_text

TARGETS = ["reference", "sim:sm_80", "cpu", "cpu -mcpu=haswell"]
BLOCK = 512
# How a float type spends its bits: exponent, mantissa, bias, the code of the largest finite number, whether
# an infinity follows it, the code of the usual NaN.
FLOATS = {
    "float64": (11, 52, 1023, 0x7FEFFFFFFFFFFFFF, True, 0x7FF8000000000000),
    "float32": (8, 23, 127, 0x7F7FFFFF, True, 0x7FC00000),
    "tfloat32": (8, 10, 127, 0x3FBFF, True, 0x3FE00),
    "float16": (5, 10, 15, 0x7BFF, True, 0x7E00),
    "bfloat16": (8, 7, 127, 0x7F7F, True, 0x7FC0),
    "float8_e4m3fn": (4, 3, 7, 0x7E, False, 0x7F),
    "float8_e5m2": (5, 2, 15, 0x7B, True, 0x7E),
    "float4_e2m1fn": (2, 1, 1, 7, False, 7),
}
E8M0 = "float8_e8m0fnu"
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "int4", "uint4", "bool"]
TYPES = [*FLOATS, E8M0, *INTEGERS]
pytestmark = pytest.mark.filterwarnings("ignore:invalid value", "ignore:overflow")


def bits_of(dtype):
    return 8 if dtype == "bool" else T.dtypes.as_dtype(dtype).bits


def is_float(dtype):
    return dtype in FLOATS or dtype == E8M0


# ── the model ──
def values_of(codes, dtype):
    """The numbers that these codes, of type uint64, stand for."""
    bits = bits_of(dtype)
    if dtype == "bool":
        return (codes != 0).astype(np.longdouble)
    if dtype == E8M0:
        powers = np.ldexp(np.longdouble(1), codes.astype(int) - 127)
        return np.where(codes == 255, np.longdouble(np.nan), powers)
    if not is_float(dtype):
        value = codes.astype(np.longdouble)
        wraps = (not dtype.startswith("u")) & (codes >> np.uint64(bits - 1) != 0)
        return np.where(wraps, value - np.ldexp(np.longdouble(1), bits), value)
    exponents, mantissa, bias, top, infinite, _ = FLOATS["float32" if dtype == "tfloat32" else dtype]
    size = codes & np.uint64((1 << (exponents + mantissa)) - 1)
    exponent, rest = (size >> np.uint64(mantissa)).astype(int), size & np.uint64((1 << mantissa) - 1)
    value = np.where(exponent > 0, rest + np.uint64(1 << mantissa), rest).astype(np.longdouble)
    value = np.ldexp(value, np.maximum(exponent, 1) - bias - mantissa)
    value = np.where(size > top, np.longdouble(np.nan), value)
    if infinite:
        value = np.where(size == top + 1, np.longdouble(np.inf), value)
    return np.where(codes >> np.uint64(bits - 1) != 0, -value, value)


def rounded(values, dtype):
    """The codes of these numbers in a float type: a plain cast."""
    nan = np.isnan(values)
    size = np.where(nan, 1, np.abs(values))
    if dtype == E8M0:
        fraction, exponent = np.frexp(np.where(np.isinf(size) | (size == 0), 1, size))
        code = np.clip(exponent + 126 + (fraction >= 0.75), 0, 254)
        code = np.where(np.isinf(size), 254, np.where(size == 0, 0, code))
        return np.where(nan | (values < 0), 255, code).astype(np.uint64)
    exponents, mantissa, bias, top, infinite, usual_nan = FLOATS[dtype]
    finite = np.where(np.isinf(size) | (size == 0), 1, size)
    exponent = np.maximum(np.frexp(finite)[1] - 1, 1 - bias)
    scaled = np.ldexp(finite, mantissa - exponent)
    scaled = np.floor(scaled + np.longdouble(0.5)) if dtype == "tfloat32" else np.rint(scaled)
    code = ((exponent + bias - 1).astype(np.int64) << mantissa).astype(np.uint64) + scaled.astype(np.uint64)
    code = np.where(size == 0, np.uint64(0), code)
    over = np.isinf(size) | (code > top)
    code = np.where(over, np.uint64(top + (infinite and bits_of(dtype) > 8)), code)
    code = np.where(np.signbit(values), code | np.uint64(1 << (exponents + mantissa)), code)
    code = np.where(nan, np.uint64(usual_nan), code)
    return code << np.uint64(13) if dtype == "tfloat32" else code


def cast(codes, source, dest):
    """The codes after a cast, and where they are said: which NaN it is of 16 bits and more is not."""
    said = np.ones(codes.shape, bool)
    if source == dest:
        return codes, said
    values = values_of(codes, source)
    if is_float(dest):
        return rounded(values, dest), said
    if dest == "bool":
        return (values != 0).astype(np.uint64), said
    bits = bits_of(dest)
    if not is_float(source):
        wide = codes
        if not source.startswith("u") and source != "bool" and bits_of(source) < 64:
            wide = values.astype(np.int64).view(np.uint64)
        return wide & np.uint64(2**bits - 1), said
    whole = np.trunc(values)
    low = 0 if dest.startswith("u") else -np.ldexp(np.longdouble(1), bits - 1)
    high = np.ldexp(np.longdouble(1), bits if dest.startswith("u") else bits - 1)
    said = (whole >= low) & (whole < high)  # False of NaN
    whole = np.where(said, whole, 0)
    size = np.abs(whole)
    wide = np.where(whole < 0, (-size).astype(np.int64).view(np.uint64), size.astype(np.uint64))
    return wide & np.uint64(2**bits - 1), said


# ── codes and arrays ──
def array_of(codes, dtype):
    if bits_of(dtype) == 4:
        codes = codes.astype(np.uint8)
        return codes[0::2] | codes[1::2] << 4
    plain = codes.astype(f"uint{bits_of(dtype)}")
    return plain.view(T.dtypes.as_dtype(dtype).as_numpy())


def codes_in(array, dtype):
    bits = bits_of(dtype)
    if bits == 4:
        array = array.view(np.uint8)
        return np.stack([array & 15, array >> 4], -1).reshape(-1).astype(np.uint64)
    return array.view(f"uint{bits}").astype(np.uint64)


def padded(codes):
    return np.concatenate([codes, np.zeros(-len(codes) % BLOCK, np.uint64)])


def borders(dtype, rng):
    """Numbers where a cast to a narrower type changes its answer: its own, those halfway, those beyond."""
    bits, exact = bits_of(dtype), []
    for narrow in FLOATS:
        if bits_of(narrow) >= bits or narrow == dtype:
            continue
        at = np.arange(2 ** min(bits_of(narrow), 16), dtype=np.uint64)
        if bits_of(narrow) == 32:
            at = rng.integers(0, 2**32, 600, np.uint64)
        numbers = np.unique(values_of(at, narrow))
        numbers = numbers[np.isfinite(numbers)]
        keep = rng.permutation(len(numbers))[:300]
        chosen = np.concatenate([numbers[keep], numbers[:3], numbers[-3:]])
        following = numbers[np.minimum(np.searchsorted(numbers, chosen) + 1, len(numbers) - 1)]
        step = numbers[-1] - numbers[-2]
        beyond = numbers[-1] + step * np.array([0.25, 0.5, 0.75, 1, 2, 8], np.longdouble)
        exact += [chosen, (chosen + following) / 2, beyond, -beyond]
    return exact


@functools.cache
def inputs(dtype):
    """All codes of a narrow type; of a wide one random codes, and every place where a cast may go wrong."""
    bits = bits_of(dtype)
    if dtype == "bool":
        return padded(np.arange(2, dtype=np.uint64))
    if bits <= 16:
        return padded(np.arange(2**bits, dtype=np.uint64))
    rng = np.random.default_rng(len(dtype) + bits)
    random = rng.integers(0, 2**64, 2000, np.uint64) & np.uint64(2**bits - 1)
    if not is_float(dtype):
        powers = np.array([1 << k for k in range(bits)], np.uint64)
        near = np.concatenate([powers + np.uint64(d % 2**64) for d in (-2, -1, 0, 1, 2, 3)])
        ties = (powers | powers >> np.uint64(11)) | powers >> np.uint64(24)
        half = 3 * powers - np.uint64(1)
        small = random >> np.uint64(bits // 2)
        codes = np.concatenate([random, small, near, 0 - near, ties, ties + np.uint64(1), half])
        return padded(codes & np.uint64(2**bits - 1))
    form = "float32" if dtype == "tfloat32" else dtype
    exact = borders(dtype, rng)
    powers = np.ldexp(np.longdouble(1), np.arange(-140, 65))
    codes = rounded(np.concatenate([*exact, powers, powers * 1.5, powers * 0.75, -powers]), form)
    exponents, mantissa, _, top, _, _ = FLOATS[form]
    quiet = 1 << (mantissa - 1)
    special = [0, 1, 2, quiet, 2 * quiet - 1, 2 * quiet, top, top + 1, top + 2]
    special += [top + 1 + quiet, top + 2 + quiet, top + quiet, top + 2 * quiet]
    special = np.array(special, np.uint64)
    next_to = [codes + np.uint64(1), codes - np.uint64(1)]
    negative = special | np.uint64(1 << (bits - 1))
    codes = np.concatenate([codes, *next_to, special, negative, random])
    return padded(codes & np.uint64(2**bits - 1))


def same(got, wanted, said, dest):
    """Bit for bit; of a NaN of 16 bits or more, that it is one."""
    equal = got == wanted
    if equal.all():
        return equal
    if is_float(dest) and bits_of(dest) > 8:
        equal |= np.isnan(values_of(got, dest)) & np.isnan(values_of(wanted, dest))
    return equal | ~said


# ── casts ──
WAYS = {
    "tensors": "T.copy(A[b * {block}:(b + 1) * {block}], {out}[b * {block}:(b + 1) * {block}])",
    "tiles": """
x{n} = T.alloc_fragment(({block},), {source!r})
y{n} = T.alloc_{scope}(({block},), {dest!r})
T.copy(A[b * {block}], x{n})
T.copy(x{n}, y{n})
T.copy(y{n}, {out}[b * {block}])""",
    "elements": """
for i in T.Parallel({block}):
    {out}[b * {block} + i] = T.cast(A[b * {block} + i], {dest!r})""",
    "stores": """
for i in T.Parallel({block}):
    {out}[b * {block} + i] = A[b * {block} + i]""",
    "serial": """
s{n} = T.alloc_shared(({block},), {source!r})
T.copy(A[b * {block}], s{n})
t{n} = T.alloc_shared(({block},), {dest!r})
for i in T.Parallel({block}):
    t{n}[i] = T.cast(s{n}[i], {dest!r})
T.copy(t{n}, {out}[b * {block}])""",
}


def casts(folder, source, dests, way, n):
    """A kernel with one output of each of these types."""
    names = [f"B{i}" for i in range(len(dests))]
    params = ", ".join(
        [
            f"A: T.Tensor(({n},), {source!r})",
            *(f"{o}: T.Tensor(({n},), {d!r})" for o, d in zip(names, dests, strict=True)),
        ]
    )
    body = "".join(
        WAYS[way].format(
            block=BLOCK, source=source, dest=d, out=o, n=i, scope="shared" if i % 2 else "fragment"
        )
        + "\n"
        for i, (o, d) in enumerate(zip(names, dests, strict=True))
    )
    indented = "".join(f"        {line}\n" for line in body.splitlines())
    return load_text(
        folder,
        f"import tilelang.language as T\n@T.prim_func\ndef main({params}):\n"
        f"    with T.Kernel({n // BLOCK}, threads=128) as b:\n{indented}",
    ).main


@pytest.mark.parametrize("source", TYPES)
def test_casts(source, tmp_path):
    every = inputs(source)
    some = every[:: max(1, len(every) // (8 * BLOCK))]
    some = some[: len(some) // BLOCK * BLOCK]
    for number, way in enumerate(WAYS):
        codes = some if way == "serial" else every
        turn = TYPES.index(source) + number  # each source sees each target in some way
        held = [dest for dest in TYPES if cast(codes, source, dest)[1].all()]
        check_casts(tmp_path, source, held, way, codes, turn)
        # A number that an integer type does not hold is an error, so such a type gets those that it holds.
        rest = [dest for dest in TYPES if dest not in held]
        for dest in in_turn(rest, turn) if rest else []:
            said = cast(codes, source, dest)[1]
            check_casts(tmp_path, source, [dest], way, np.where(said, codes, np.uint64(0)), turn)


def check_casts(folder, source, dests, way, codes, turn):
    kernel, given = casts(folder, source, dests, way, len(codes)), array_of(codes, source)
    for target in in_turn(TARGETS, turn):
        out = [array_of(np.zeros(len(codes), np.uint64), d) for d in dests]
        tilelang.compile(kernel, target=target)(given, *out)
        for dest, array in zip(dests, out, strict=True):
            got, (wanted, said) = codes_in(array, dest), cast(codes, source, dest)
            wrong = np.flatnonzero(~same(got, wanted, said, dest))
            first = [(hex(codes[i]), hex(got[i]), hex(wanted[i])) for i in wrong[:5]]
            assert len(wrong) == 0, (way, target, dest, first, len(wrong))


# ── moves ──
MOVED = [t for t in TYPES if t != "bool"]  # of a bool in memory 0 and 1 mean something


def random_bits(dtype, n, seed=0):
    """Any codes; of floats the first half has all bits of the exponent, so that most are NaN."""
    codes = np.random.default_rng(seed).integers(0, 2**64, n, np.uint64) & np.uint64(2 ** bits_of(dtype) - 1)
    if dtype in FLOATS:
        _, mantissa, _, top, infinite, _ = FLOATS["float32" if dtype == "tfloat32" else dtype]
        codes[: n // 2] |= np.uint64(top + infinite)
        codes[:4] = [(top + 1 & 2**mantissa * -1) + k for k in (1, 2, 2**mantissa // 2, 2**mantissa - 1)]
    return codes


MOVES = {
    "every memory": """
s = T.alloc_shared((16, 64), dtype)
f = T.alloc_fragment((16, 64), dtype)
t = T.alloc_shared((16, 64), dtype)
T.copy(A[b * 16, 0], s)
T.copy(s, f)
T.copy(f, t)
T.copy(t, B[b * 16, 0])""",
    "tensors": "T.copy(A[b * 16:b * 16 + 16, 0:64], B[b * 16:b * 16 + 16, 0:64])",
    "elements": """
for i, j in T.Parallel(16, 64):
    B[b * 16 + i, j] = A[b * 16 + i, j]""",
    "named": """
f = T.alloc_fragment((16, 64), dtype)
T.copy(A[b * 16, 0], f)
for i, j in T.Parallel(16, 64):
    v = f[i, j]
    B[b * 16 + i, j] = v""",
    "selected": """
for i, j in T.Parallel(16, 64):
    B[b * 16 + i, j] = T.if_then_else((i + j // 2) % 2 == 0, A[b * 16 + i, j], C[b * 16 + i, j])""",
    "conditions": """
f = T.alloc_fragment((16, 64), dtype)
T.copy(C[b * 16, 0], f)
for i, j in T.Parallel(16, 64):
    if (i + j // 2) % 2 == 0:
        f[i, j] = A[b * 16 + i, j]
T.copy(f, B[b * 16, 0])""",
    "vectorized": """
for i in T.Parallel(16):
    for j in T.vectorized(64):
        B[b * 16 + i, j] = A[b * 16 + i, j]""",
    "reshaped": """
s = T.alloc_shared((16, 64), dtype)
r = T.reshape(s, (32, 32))
T.copy(A[b * 16, 0], s)
u = T.alloc_fragment((32, 32), dtype)
T.copy(r, u)
w = T.alloc_shared((16, 64), dtype)
T.copy(u, T.reshape(w, (32, 32)))
T.copy(w, B[b * 16, 0])""",
    "viewed": """
s = T.alloc_shared((16, 64), dtype)
f = T.alloc_fragment((16, 64), as_integer)
T.copy(A[b * 16, 0], s)
T.copy(T.view(s, dtype=as_integer), f)
w = T.alloc_shared((16, 64), dtype)
T.copy(f, T.view(w, dtype=as_integer))
T.copy(w, B[b * 16, 0])""",
    "turned twice": """
s = T.alloc_shared((16, 64), dtype)
t = T.alloc_shared((64, 16), dtype)
T.copy(A[b * 16, 0], s)
T.transpose(s, t)
u = T.alloc_shared((16, 64), dtype)
T.transpose(t, u)
T.copy(u, B[b * 16, 0])""",
}


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("dtype", MOVED)
def test_what_is_moved_keeps_its_bits(dtype, move, tmp_path):
    if bits_of(dtype) == 4 and move in ("turned twice", "conditions", "vectorized"):
        pytest.skip("single elements of four bits are not stored")
    body = "".join(f"        {line}\n" for line in MOVES[move].strip().splitlines())
    params = ", ".join(f"{name}: T.Tensor((32, 64), dtype)" for name in "ACB")
    integer = f"uint{bits_of(dtype)}"
    head = f"import tilelang.language as T\ndtype, as_integer = {dtype!r}, {integer!r}\n"
    kernel = load_text(
        tmp_path, f"{head}@T.prim_func\ndef main({params}):\n    with T.Kernel(2, threads=64) as b:\n{body}"
    ).main
    a, c = random_bits(dtype, 2048), random_bits(dtype, 2048, 1)
    i, j = np.divmod(np.arange(2048), 64)
    wanted = np.where((i % 16 + j // 2) % 2 == 0, a, c) if move in ("selected", "conditions") else a
    columns = 64 * bits_of(dtype) // max(8, bits_of(dtype))
    for target in TARGETS:
        out = array_of(np.zeros(2048, np.uint64), dtype).reshape(32, columns)
        tilelang.compile(kernel, target=target)(
            array_of(a, dtype).reshape(32, columns), array_of(c, dtype).reshape(32, columns), out
        )
        got = codes_in(out.reshape(-1), dtype)
        wrong = np.flatnonzero(got != wanted)
        assert len(wrong) == 0, (target, [(hex(wanted[k]), hex(got[k])) for k in wrong[:5]])


# ── constants ──
CONSTANTS = {
    "too large": 1e6,
    "too small": -1e6,
    "infinite": float("inf"),
    "minus infinite": float("-inf"),
    "not a number": float("nan"),
    "zero": 0.0,
    "a tie": 2.0**-7 + 2.0**-11,
    "above the largest": 464.0,
}


@pytest.mark.parametrize("value", CONSTANTS)
@pytest.mark.parametrize("dtype", [*FLOATS, E8M0])
def test_constants(dtype, value):
    """T.fill, a stored number, a scalar argument, and what is read outside of a tensor."""
    number = given = CONSTANTS[value]
    if dtype == "float16" and 65504 < abs(number) < np.inf:  # as a constant an error: test_constants_fit.py
        number = float(np.copysign(np.inf, number))

    @T.prim_func
    def main(x: T.float32, A: T.Tensor((2,), dtype), B: T.Tensor((4, 64), dtype)):
        with T.Kernel(1, threads=64):
            f = T.alloc_fragment((64,), dtype)
            T.fill(f, number)
            T.copy(f, B[0, 0:64])
            T.fill(f, x)
            T.copy(f, B[1, 0:64])
            for i in T.Parallel(64):
                B[2, i] = T.cast(number, dtype)
            T.annotate_safe_value({A: number})
            s = T.alloc_shared((64,), dtype)
            T.copy(A[2:66], s)
            T.copy(s, B[3, 0:64])

    wanted = rounded(np.array([number], np.longdouble), dtype)
    columns = 64 * bits_of(dtype) // max(8, bits_of(dtype))
    for target in TARGETS:
        out = array_of(np.zeros(256, np.uint64), dtype).reshape(4, columns)
        tilelang.compile(main, target=target)(given, array_of(np.zeros(2, np.uint64), dtype), out)
        got = codes_in(out.reshape(-1), dtype).reshape(4, 64)
        assert same(got, np.broadcast_to(wanted, got.shape), True, dtype).all(), (target, got[:, 0], wanted)


@pytest.mark.parametrize("dtype", [*FLOATS, E8M0, "int4", "uint4", "int8", "uint32"])
def test_clamp(dtype):
    """The bounds are of the tile's own type; a NaN becomes the lower one."""
    low, high = (1, 5) if not is_float(dtype) else (0.3, float("inf") if dtype == "float16" else 1e6)

    @T.prim_func
    def main(A: T.Tensor((256,), dtype)):
        with T.Kernel(1, threads=32):
            f = T.alloc_fragment((256,), dtype)
            T.copy(A, f)
            T.clamp(f, low, high)
            T.copy(f, A)

    every = np.arange(256, dtype=np.uint64) % np.uint64(2 ** min(8, bits_of(dtype)))
    codes = inputs(dtype)[-256:] if bits_of(dtype) > 8 else every
    if is_float(dtype):
        edges = values_of(rounded(np.array([low, high], np.longdouble), dtype), dtype)
        wanted = rounded(np.fmin(np.fmax(values_of(codes, dtype), edges[0]), edges[1]), dtype)
    else:
        wanted = np.clip(values_of(codes, dtype), low, high).astype(np.uint64)
    for target in TARGETS:
        array = array_of(codes, dtype)
        tilelang.compile(main, target=target)(array)
        got = codes_in(array, dtype)
        wrong = got != wanted
        assert not wrong.any(), (target, codes[wrong][:5], got[wrong][:5], wanted[wrong][:5])
