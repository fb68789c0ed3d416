"""Mathematics beyond scalar.py: IEEE operations with a rounding mode, fast forms, packed pairs, bits.

Arguments are values of the kernel or Python numbers.  The result has the dtype of the arguments, unless its
function says another.

Operations on bits, of integers (x of 32 bits where a width is named):

| operation | what to write |
|---|---|
| and, or, exclusive or, complement | `x & y`, `T.bitwise_or(x, y)`, `x ^ y`, `~x` |
| shifts, in the dtype of x; 0 <= n < bits | `x << n`, `x >> n` (which copies the sign of a signed x) |
| how many bits are 1, how many upper ones are 0 | `T.popcount(x)`, `T.clz(x)` |
| the bits as another dtype | `T.reinterpret(x, dtype)` |
| a field of an integer | `T.unpack_uint(bits, x, place, dtype)`, `T.unpack_int` |
| the place of the lowest 1: there is none | `T.popcount((x & -x) - 1)`; ffs is one more, of x != 0 |
| a rotation: there is none | `(x << n) + (x >> (32 - n))` of a uint32, 0 < n < 32 |
| the upper half of a product: there is none | `T.cast(x, 'int64') * y >> 32`; unsigned: uint64 |
| reversed bits (brev): there is none | swap neighbours, pairs, and so on up to halves, by masks and shifts |
"""

from __future__ import annotations

from typing import Any

from .._core import Buffer, Expr, Region
from ..front.dtypes import as_dtype
from ..front.indexing import places_of_pair
from ..front.trace import builder, fail
from ..front.values import DEVICE, as_value
from .scalar import ceildiv

_ROUNDINGS = {"ties-to-even": "round", "rn": "round", "rz": "trunc", "ru": "ceil", "rd": "floor",
              "ra": "round_away"}  # fmt: skip


def round(x: Any, rounding_mode: str = "ties-to-even", span: Any = None) -> Expr:
    """x rounded to a whole number, as a float.

    rounding_mode: "ties-to-even" or "rn" to nearest, halves to the even one; "rz" towards zero; "ru" up; "rd"
    down; "ra" to nearest, halves away from zero.
    """
    return builder().call(_ROUNDINGS[_one_of("T.round", rounding_mode, _ROUNDINGS)], (as_value(x),))


def _one_of(what: str, mode: Any, known: Any) -> str:
    mode = getattr(mode, "value", mode)
    if mode not in known:
        raise fail(f"{what}: there is no rounding mode {mode!r}; it must be one of {', '.join(known)}")
    return mode


def align_up(x: Any, y: Any) -> Any:
    """The least multiple of y that is >= x; of two Python numbers a Python number."""
    if not (isinstance(x, DEVICE) or isinstance(y, DEVICE)):
        return ceildiv(x, y) * y
    return builder().binary("mul", ceildiv(x, y), as_value(y))


def bitwise_not(x: Any, span: Any = None) -> Any:
    """~x of an integer."""
    if isinstance(x, DEVICE):
        return builder().unary("invert", as_value(x))
    if not hasattr(x, "__index__"):
        raise fail(f"`~` takes an integer operand, not {x!r}")
    return ~x


def reinterpret(value: Any, dtype: Any, span: Any = None) -> Expr:
    """The bits of `value` as another dtype of the same width.

    Also accepts the dtype first, as reinterpret(dtype, value).
    """
    if not isinstance(value, DEVICE) and isinstance(dtype, DEVICE):
        value, dtype = dtype, value
    value = as_value(value)
    if dtype == "handle":  # the token that older kernels give to T.attr
        return value
    if value.__class__ is not Expr:
        raise fail("T.reinterpret takes a value of the kernel; give a number a dtype first: T.float32(1.0)")
    return builder().call("reinterpret", (value,), as_dtype(dtype))


# ── IEEE operations ───────────────────────────────────────────────────────────────────────────────────


def _ieee(name: str, rounding_mode: str, *args: Any) -> Expr:
    mode = _one_of(f"T.ieee_{name}", rounding_mode, ("rn", "rz", "ru", "rd"))
    return builder().call(f"ieee_{name}_{mode}", tuple([as_value(a) for a in args]))


def ieee_add(x: Any, y: Any, rounding_mode: str = "rn") -> Expr:
    """x + y of float32 or float64, rounded as asked and never fused: rn, rz, ru, rd."""
    return _ieee("add", rounding_mode, x, y)


def ieee_sub(x: Any, y: Any, rounding_mode: str = "rn") -> Expr:
    """x - y of float32 or float64, rounded as asked and never fused: rn, rz, ru, rd."""
    return _ieee("sub", rounding_mode, x, y)


def ieee_mul(x: Any, y: Any, rounding_mode: str = "rn") -> Expr:
    """x * y of float32 or float64, rounded as asked and never fused: rn, rz, ru, rd."""
    return _ieee("mul", rounding_mode, x, y)


def ieee_fdiv(x: Any, y: Any, rounding_mode: str = "rn") -> Expr:
    """x / y of float32 or float64, rounded as asked: rn, rz, ru, rd."""
    return _ieee("fdiv", rounding_mode, x, y)


def ieee_fmaf(x: Any, y: Any, z: Any, rounding_mode: str = "rn") -> Expr:
    """x * y + z of float32 or float64, rounded once, as asked: rn, rz, ru, rd."""
    return _ieee("fmaf", rounding_mode, x, y, z)


def ieee_frcp(x: Any, rounding_mode: str = "rn") -> Expr:
    """1 / x of float32 or float64, rounded as asked: rn, rz, ru, rd."""
    return _ieee("frcp", rounding_mode, x)


def ieee_fsqrt(x: Any, rounding_mode: str = "rn") -> Expr:
    """The square root of float32 or float64, rounded as asked: rn, rz, ru, rd."""
    return _ieee("fsqrt", rounding_mode, x)


def ieee_frsqrt(x: Any) -> Expr:
    """1 / sqrt(x) of float32, rounded to nearest."""
    return builder().call("ieee_frsqrt_rn", (as_value(x),))


# ── pairs ─────────────────────────────────────────────────────────────────────────────────────────────


class Lanes:
    """Several values that belong together, such as neighbouring elements; T.extract_lane takes one."""

    __slots__ = ("lanes",)

    def __init__(self, lanes: tuple) -> None:
        self.lanes = lanes

    def __getitem__(self, lane: int) -> Any:
        return extract_lane(self, lane)

    def __iter__(self) -> Any:
        return iter(self.lanes)

    def __len__(self) -> int:
        return len(self.lanes)


class Pair(Lanes):
    """Two values that are computed on together: what add2 and its like return.

    Store it to a slice of two elements, `C[i : i + 2] = T.add2(…)`, or take its lanes apart: `p[0]`, `p[1]`.
    """

    __slots__ = ()


def as_pair(x: Any, what: str) -> tuple[Any, Any]:
    """The two lanes of a Pair, of a slice of two elements, of a tuple; of a single value twice that value."""
    if isinstance(x, Pair):
        return x.lanes
    if isinstance(x, (tuple, list)):
        if len(x) != 2:
            raise fail(f"{what} takes pairs, not {len(x)} values")
        return as_value(x[0]), as_value(x[1])
    if isinstance(x, Region):
        return _slice_of_two(x, what)
    if isinstance(x, Buffer) and x.scope != "var":
        raise fail(f"{what} takes a slice of two elements, {x.name}[…, i : i + 2], not the whole buffer")
    value = as_value(x)
    return value, value


def _slice_of_two(region: Region, what: str) -> tuple[Any, Any]:
    places = places_of_pair(region, what)
    b = builder()
    return b.load(region.buffer, places[0]), b.load(region.buffer, places[1])


_PACKED = ("float16", "bfloat16")


def _lanewise(name: str, compute: Any, *operands: Any) -> Pair:
    pairs = [as_pair(x, f"T.{name}") for x in operands]
    types = {lane.dtype for pair in pairs for lane in pair if isinstance(lane, Expr)}
    if len(types) == 1 and (dtype := types.pop()) in (as_dtype(packed) for packed in _PACKED):
        b = builder()
        words = [_word(b, [lane if isinstance(lane, Expr) else b.const(lane, dtype) for lane in pair])
                 for pair in pairs]
        word = b.let("pair", b.call(f"{name}_{dtype.name}", words))
        return Pair((_half(b, word, dtype), _half(b, b.binary("shr", word, 16), dtype)))
    return Pair((compute(*[p[0] for p in pairs]), compute(*[p[1] for p in pairs])))


def _word(b: Any, lanes: list) -> Expr:
    """The bits of two 16-bit floats, the first in the lower half."""
    wide, bits = as_dtype("uint32"), as_dtype("uint16")
    low, high = (b.cast(wide, b.call("reinterpret", (lane,), bits)) for lane in lanes)
    return b.binary("or", low, b.binary("shl", high, 16))


def _half(b: Any, word: Expr, dtype: Any) -> Expr:
    return b.call("reinterpret", (b.cast(as_dtype("uint16"), word),), dtype)


def add2(x: Any, y: Any) -> Pair:
    """x + y of two pairs; each lane is rounded once, in its dtype."""
    return _lanewise("add2", lambda a, b: builder().binary("add", a, b), x, y)


def sub2(x: Any, y: Any) -> Pair:
    """x - y of two pairs."""
    return _lanewise("sub2", lambda a, b: builder().binary("sub", a, b), x, y)


def mul2(x: Any, y: Any) -> Pair:
    """x * y of two pairs."""
    return _lanewise("mul2", lambda a, b: builder().binary("mul", a, b), x, y)


def fma2(x: Any, y: Any, z: Any) -> Pair:
    """x * y + z of three pairs; each lane is rounded once."""
    return _lanewise("fma2", lambda a, b, c: builder().call("fma", (a, b, c)), x, y, z)


def max2(x: Any, y: Any) -> Pair:
    """The greater of each lane; of a NaN and a number, the number."""
    return _lanewise("max2", lambda a, b: builder().binary("max", a, b), x, y)


def min2(x: Any, y: Any) -> Pair:
    """The lesser of each lane; of a NaN and a number, the number."""
    return _lanewise("min2", lambda a, b: builder().binary("min", a, b), x, y)


def abs2(x: Any) -> Pair:
    """The magnitude of each lane."""
    return _lanewise("abs2", lambda a: builder().call("abs", (a,)), x)


def extract_lane(vector: Any, lane: int, span: Any = None) -> Any:
    """A lane of several values: of what add2 and its like, or an atomic_addx4, return; of a slice of two
    elements.
    """
    if isinstance(vector, Lanes):
        if lane.__class__ is not int or not 0 <= lane < len(vector):
            raise fail(f"T.extract_lane: {len(vector)} values have the lanes 0 to {len(vector) - 1}, not "
                       f"{lane}")
        return vector.lanes[lane]
    if lane not in (0, 1):
        raise fail(f"T.extract_lane: a pair has the lanes 0 and 1, not {lane}")
    return as_pair(vector, "T.extract_lane")[lane]


__all__ = [
    "abs2", "add2", "align_up", "bitwise_not", "extract_lane", "fma2", "ieee_add", "ieee_fdiv",
    "ieee_fmaf", "ieee_frcp", "ieee_frsqrt", "ieee_fsqrt", "ieee_mul", "ieee_sub", "max2", "min2", "mul2",
    "reinterpret", "round", "sub2",
]  # fmt: skip
