"""The scalar functions of the language: arithmetic, mathematics, casts.

Arguments are values of the kernel or Python numbers; on Python numbers alone `ceildiv`, `floordiv`,
`floormod`, `max` and `min` answer at once with a Python number, so that they serve to compute tile sizes and
grids too.  The result has the dtype of the arguments, unless its function says another.

Operations on bits, of integers (x of 32 bits where a width is named):

| operation | what to write |
|---|---|
| and, or, exclusive or, complement | `x & y`, `T.bitwise_or(x, y)`, `x ^ y`, `~x` |
| shifts, in the dtype where both meet; 0 <= n < bits | `x << n`, `x >> n` (which copies the sign) |
| how many bits are 1, how many upper ones are 0 | `T.popcount(x)`, `T.clz(x)` |
| the bits as another dtype | `T.reinterpret(x, dtype)` |
| a field of an integer | `T.unpack_uint(bits, x, place, dtype)`, `T.unpack_int` |
| the place of the lowest 1, from 1 on; of the n-th one from a bit on | `T.__ffs(x)`, `T.__fns(x, bit, n)` |
| a rotation: there is none | `(x << n) + (x >> (32 - n))` of a uint32, 0 < n < 32 |
| the upper half of a product: there is none | `T.cast(x, 'int64') * y >> 32`; unsigned: uint64 |
| reversed bits (brev): there is none | swap neighbours, pairs, and so on up to halves, by masks and shifts |
"""

from __future__ import annotations

from typing import Any

from .._core import Buffer, Expr, Region, scalar_functions
from ..front.arithmetic import cast, power
from ..front.dtypes import DataType, as_dtype, limits
from ..front.errors import WrongType
from ..front.offered import named
from ..front.trace import builder, fail
from ..front.values import (
    DEVICE,
    PYTHON,
    SIGNS,
    SLICES,
    VECTORS,
    Element,
    Lanewise,
    as_condition,
    as_value,
    each,
    is_value,
    unary,
)
from ..front.values import binary as _binary
from ..front.vectors import Vector, as_vector, is_vector, lane_by_lane, same_bits


def _call(row: str, *args: Any) -> Expr:
    if any(is_vector(x) for x in args):
        return lane_by_lane(lambda *lanes: _call(row, *lanes), *args)
    if any(x.__class__ is Lanewise for x in args):
        return each(lambda *lanes: _call(row, *lanes), *args)
    return builder().call(row, tuple([as_value(x) for x in args]))


def _ieee_call(row: str, *args: Any) -> Expr:
    *args, mode = args
    mode = _one_of(f"T.{row}", mode, _OF_CASTS)
    args = [as_value(x) for x in args]
    types = {x.dtype for x in args if x.__class__ is Expr}
    narrow = types.pop() if len(types) == 1 else None
    if narrow not in _HALVES:
        return _call(f"{row}_{mode}", *args)
    if row == "ieee_fmaf" and mode == "rn":
        return _call("fma", *args)
    # float32 has more than twice as many bits: to round its result once more, the same way, changes nothing
    wide = _call(f"{row}_{mode}", *[cast(x, "float32") for x in args])
    return cast(wide, narrow, _OF_CASTS[mode])


_OF_CASTS = {"rn": "rn", "rz": "rz", "ru": "rp", "rd": "rm"}  # rounding modes of operations, and of T.cast
_HALVES = ("float16", "bfloat16")

# A function of a row, by its parameters: errors and help name them.
_FORMS = {
    ("x",): lambda row: lambda x, span=None: _call(row, x),
    ("x1", "x2"): lambda row: lambda x1, x2, span=None: _call(row, x1, x2),
    ("x", "y"): lambda row: lambda x, y, span=None: _call(row, x, y),
    ("x", "y", "z"): lambda row: lambda x, y, z, span=None: _call(row, x, y, z),
}
_IEEE_FORMS = {
    1: lambda row: lambda x, rounding_mode="rn": _ieee_call(row, x, rounding_mode),
    2: lambda row: lambda x, y, rounding_mode="rn": _ieee_call(row, x, y, rounding_mode),
    3: lambda row: lambda x, y, z, rounding_mode="rn": _ieee_call(row, x, y, z, rounding_mode),
}
_IEEE = (
    ("add", 2, "x + y of float32, float64, float16 or bfloat16, rounded as asked and never fused"),
    ("sub", 2, "x - y of float32, float64, float16 or bfloat16, rounded as asked and never fused"),
    ("mul", 2, "x * y of float32, float64, float16 or bfloat16, rounded as asked and never fused"),
    ("fdiv", 2, "x / y of float32, float64, float16 or bfloat16, rounded as asked"),
    ("fmaf", 3, "x * y + z of float32, float64, float16 or bfloat16, rounded once, as asked"),
    ("frcp", 1, "1 / x of float32, float64, float16 or bfloat16, rounded as asked"),
    ("fsqrt", 1, "The square root of float32, float64, float16 or bfloat16, rounded as asked"),
)

# What the compiler lists (src/ir/intrinsic.cpp): names, parameters, help and rows are its own.
FUNCTIONS = {
    name: named(
        _FORMS[parameters](row),
        name,
        doc
        if len(parameters) == 1 or "integer" in doc
        else f"{doc}\n\nAll of one dtype (a Python number takes the others').",
    )
    for name, row, parameters, doc, _ in scalar_functions()
}
FUNCTIONS |= {
    f"ieee_{name}": named(
        _IEEE_FORMS[count](f"ieee_{name}"),
        f"ieee_{name}",
        f"{doc}: rn to nearest, rz towards zero, ru up, rd down.",
    )
    for name, count, doc in _IEEE
}


def pow(x: Any, y: Any, span: Any = None) -> Expr:
    """x to the power of y; both of one dtype (a Python number takes the other's).

    Of integers y is a constant, from 0 to 64: the product is written out, and wraps as products do."""
    return power(as_value(x), as_value(y))


def _arithmetic(name: str, a: Any, b: Any, python: Any) -> Any:
    if isinstance(a, DEVICE) or isinstance(b, DEVICE):
        return _binary(name, a, b)
    if name.startswith(("floor", "ceil", "trunc")) and b == 0:
        raise fail(f"{name}({a}, 0): division by zero")
    return python(as_value(a), as_value(b))


def _of_two(name: str, doc: str, python: Any) -> Any:
    def function(a: Any, b: Any, span: Any = None) -> Any:
        return _arithmetic(name, a, b, python)

    return named(function, name, doc)


max = _of_two(
    "max", "The greater of two values; of a NaN and a number, the number.", lambda x, y: x if x > y else y
)
min = _of_two(
    "min", "The lesser of two values; of a NaN and a number, the number.", lambda x, y: x if x < y else y
)
floordiv = _of_two(
    "floordiv",
    "The quotient of two integers, rounded towards minus infinity (Python's //).",
    lambda x, y: x // y,
)
floormod = _of_two(
    "floormod", "The remainder of floordiv; it has the sign of b (Python's %).", lambda x, y: x % y
)
truncdiv = _of_two(
    "truncdiv",
    "The quotient of two integers, rounded towards zero (C's /).",
    lambda x, y: x // y if (x < 0) == (y < 0) else -(-x // y),
)
truncmod = _of_two(
    "truncmod",
    "The remainder of truncdiv; it has the sign of a (C's %).",
    lambda x, y: x - y * truncdiv(x, y),
)


def ceildiv(lhs: Any, rhs: Any, span: Any = None) -> Any:
    """The quotient of two integers, rounded up: how many tiles of size rhs cover lhs elements."""
    return _arithmetic("ceildiv", lhs, rhs, lambda x, y: -(-x // y))


def _bitwise(name: str, doc: str) -> Any:
    def bitwise(x: Any, y: Any, span: Any = None) -> Any:
        if isinstance(x, DEVICE) or isinstance(y, DEVICE):
            return _binary(name, x, y)
        for operand in (x, y):
            if not hasattr(operand, "__index__"):
                raise fail(f"`{SIGNS[name]}` takes integer operands, not {operand!r}")
        if name.startswith("sh") and y < 0:
            raise fail(f"a shift by {y}: the amount must not be negative")
        return PYTHON[name](x, y)

    bitwise.__doc__ = doc
    return bitwise


bitwise_and = _bitwise("and", "x & y of two integers.")
bitwise_or = _bitwise("or", "x | y of two integers.")
bitwise_xor = _bitwise("xor", "x ^ y of two integers.")
shift_left = _bitwise("shl", "x << y of two integers, in the dtype where they meet; 0 <= y < bits.")
shift_right = _bitwise(
    "shr", "x >> y of two integers, in the dtype where they meet; 0 <= y < bits; copies the sign bit of it."
)


def if_then_else(cond: Any, t: Any, f: Any, span: Any = None) -> Any:
    """t where the condition holds, else f; only the side taken reads memory.

    The two values meet in one dtype, as the operands of `+` do (a Python number takes the other's).  A
    condition that is known decides at once.  Both are arguments, so that what they do besides giving a value,
    an atomic update, happens either way; in `t if cond else f` only that of the side taken does."""
    if any(is_vector(x) for x in (cond, t, f)):
        return lane_by_lane(if_then_else, cond, t, f)
    if SLICES & {cond.__class__, t.__class__, f.__class__}:
        return each(if_then_else, cond, t, f)
    cond = as_condition(cond)
    if cond.__class__ is not Expr:
        return _known_choice(*((t, f) if cond else (f, t)))
    return builder().select(cond, as_value(t), as_value(f))


def _known_choice(chosen: Any, other: Any) -> Any:
    """The chosen value, in the dtype in which the two meet; the other is not read."""
    numbers = isinstance(other, DEVICE) and is_value(other) and is_value(chosen)
    if not numbers or getattr(chosen, "dtype", None) == other.dtype:
        return chosen
    return builder().select(True, as_value(chosen), cast(0, other.dtype))


def Select(condition: Any, true_value: Any, false_value: Any, span: Any = None) -> Any:
    """The same as if_then_else."""
    return if_then_else(condition, true_value, false_value)


def Cast(dtype: Any, value: Any, annotations: Any = None, span: Any = None) -> Expr:
    """`value` as `dtype`."""
    return cast(value, dtype)


def dp4a(A: Any, B: Any, C: Any) -> None:
    """C += A[0]*B[0] + A[1]*B[1] + A[2]*B[2] + A[3]*B[3], by one instruction where the chip has it.

    A, B: four int8 or four uint8 elements: a buffer, a slice, or the first of four along its last dimension;
    or four values, as T.reinterpret(word, "int8x4") gives them.
    C: an element of an int32 buffer, or such a buffer, of which the first element is meant."""
    a, b = (
        as_vector(x) if is_vector(x) or x.__class__ in SLICES else _place(x, name)
        for x, name in ((A, "A"), (B, "B"))
    )
    kinds = [_dtype_of_four(x) for x in (a, b)]
    if kinds[0] != kinds[1] or kinds[0] not in ("int8", "uint8"):
        raise fail(
            f"T.dp4a: A is {kinds[0]} and B is {kinds[1]}; both must be int8, or both uint8", WrongType
        )
    c = _place(C, "C")
    if c.dtype.name != "i32":
        raise fail(f"T.dp4a: C is {c.dtype}; four products of bytes are summed in int32", WrongType)
    words = [same_bits(x, as_dtype("int32")) if isinstance(x, Vector) else _word(x) for x in (a, b)]
    c.store(builder().call(f"dp4a_{'s8' if kinds[0] == 'int8' else 'u8'}", (c.load(), *words)))


def _dtype_of_four(x: Any) -> str:
    if isinstance(x, Vector):
        kinds = {str(lane.dtype) for lane in x}
        return kinds.pop() if len(x) == 4 and len(kinds) == 1 else f"{len(x)} of {', '.join(sorted(kinds))}"
    return str(x.dtype)


def _place(value: Any, what: str) -> Element:
    if isinstance(value, Buffer):
        return Element(value, (0,) * len(value.shape))
    if isinstance(value, Element):
        return value
    raise fail(f"T.dp4a: {what} must be a buffer or an element of one, not {type(value).__name__}")


def _word(first: Element) -> Expr:
    """Four bytes, the first one lowest."""
    word = None
    *rest, last = first.index
    for i in range(4):
        element = Element(first.buffer, (*rest, last + i if i else last))
        byte = cast(cast(element.load(), "uint8"), "uint32")
        word = byte if word is None else word | byte << 8 * i
    return builder().call("reinterpret", (word,), as_dtype("int32"))


def infinity(dtype: Any, span: Any = None) -> Expr:
    """Plus infinity as a constant of a float dtype."""
    dtype = as_dtype(dtype)
    if not dtype.is_float or dtype.bits < 16 and dtype != "float8_e5m2":
        raise fail(f"T.infinity: {dtype} has no infinity; use T.max_value({dtype!r})")
    if dtype.bits == 8:  # as which a constant would saturate
        return cast(builder().const(float("inf"), as_dtype("float32")), dtype, sat=False)
    return builder().const(float("inf"), dtype)


def max_value(dtype: Any, span: Any = None) -> Expr:
    """The greatest finite value of a dtype, as a constant."""
    dtype = as_dtype(dtype)
    return builder().const(limits(dtype)[1], dtype)


def min_value(dtype: Any, span: Any = None) -> Expr:
    """The least finite value of a dtype, as a constant."""
    dtype = as_dtype(dtype)
    return builder().const(limits(dtype)[0], dtype)


def index_to_coordinates(index: Any, shape: Any) -> list:
    """The coordinates of the element with that number in a row-major array of that shape.

    index: an integer or a value, in [0, product of the extents); shape: extents.  One coordinate per extent.
    """
    rest, coordinates = index, []
    for extent in reversed(list(shape)[1:]):
        coordinates.append(rest % extent)
        rest = rest // extent
    return [rest, *reversed(coordinates)]


_ROUNDINGS = {"ties-to-even": "round", "rn": "round", "rz": "trunc", "ru": "ceil", "rd": "floor",
              "ra": "round_away", "ties-away-from-zero": "round_away"}  # fmt: skip


def round(x: Any, rounding_mode: str = "ties-to-even", span: Any = None) -> Expr:
    """x rounded to a whole number, as a float.

    rounding_mode: "ties-to-even" or "rn" to nearest, halves to the even one; "ties-away-from-zero" or "ra" to
    nearest, halves away from zero; "rz" towards zero; "ru" up; "rd" down."""
    return _call(_ROUNDINGS[_one_of("T.round", rounding_mode, _ROUNDINGS)], x)


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
        return unary("invert", x)
    if not hasattr(x, "__index__"):
        raise fail(f"`~` takes an integer operand, not {x!r}")
    return ~x


def reinterpret(value: Any, dtype: Any, span: Any = None) -> Any:
    """The bits of `value` as another dtype of the same width.

    value: a value of the kernel; or several of one dtype, the first of which stands in the lowest bits: a
    vector that T.fma2, T.ldg128 or a cast gave, a slice of a buffer, a tuple.
    dtype: of one value; or of several, "float16x2", "int8x4": a vector, `p[0]`, `p[1]` and so on.

    Also accepts the dtype first, as reinterpret(dtype, value)."""
    several = (Region, tuple, list, *VECTORS)
    if not isinstance(value, (*DEVICE, *several)) and isinstance(dtype, (*DEVICE, *several)):
        value, dtype = dtype, value
    if dtype == "handle":  # the token that older kernels give to T.attr
        return as_value(value)
    to = DataType(dtype)
    if to.lanes > 1 or isinstance(value, several):
        return same_bits(value, to)
    value = as_value(value)
    if value.__class__ is not Expr:
        raise fail("T.reinterpret takes a value of the kernel; give a number a dtype first: T.float32(1.0)")
    return builder().call("reinterpret", (value,), as_dtype(dtype))


# ── IEEE operations ───────────────────────────────────────────────────────────────────────────────────
def ieee_frsqrt(x: Any) -> Expr:
    """1 / sqrt(x) of float32, float16 or bfloat16, rounded to nearest."""
    x = as_value(x)
    if x.__class__ is Expr and x.dtype in _HALVES:
        return cast(builder().call("ieee_frsqrt_rn", (cast(x, "float32"),)), x.dtype)
    return builder().call("ieee_frsqrt_rn", (x,))


globals().update(FUNCTIONS)

__all__ = ["align_up", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "cast", "Cast", "ceildiv",
           "dp4a", "floordiv", "floormod", "ieee_frsqrt", "if_then_else", "index_to_coordinates", "infinity",
           "max", "max_value", "min", "min_value", "pow", "reinterpret", "round", "Select", "shift_left",
           "shift_right", "truncdiv", "truncmod"] + list(FUNCTIONS)  # fmt: skip
