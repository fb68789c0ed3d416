"""The scalar functions of the language: arithmetic, mathematics, casts.

Arguments are values of the kernel or Python numbers; on Python numbers alone `ceildiv`, `floordiv`,
`floormod`, `max` and `min` answer at once with a Python number, so that they serve to compute tile sizes and
grids too.  The result has the dtype of the arguments, unless its function says another.
"""

from __future__ import annotations

from typing import Any

from .._core import Buffer, Expr, scalar_functions
from ..front.arithmetic import cast, power
from ..front.dtypes import as_dtype, limits
from ..front.trace import builder, fail
from ..front.values import DEVICE, PYTHON, SIGNS, Element, as_condition, as_value
from ..front.values import binary as _binary


def _make(row: str, params: tuple[str, ...]) -> Any:
    """The function of a row of the compiler's table, with these parameters."""
    def call(*args: Any) -> Expr:
        return builder().call(row, tuple([as_value(x) for x in args]))

    if params == ("x",):
        return lambda x, span=None: call(x)
    if params == ("x1", "x2"):
        return lambda x1, x2: call(x1, x2)
    if params == ("x", "y"):
        return lambda x, y: call(x, y)
    return lambda x, y, z: call(x, y, z)


FUNCTIONS: dict[str, Any] = {}
for _name, _row, _params, _help, _ in scalar_functions():
    _made = FUNCTIONS[_name] = _make(_row, _params)
    _made.__name__ = _made.__qualname__ = _name
    _made.__doc__ = _help if len(_params) == 1 or "integer" in _help else \
        f"{_help}\n\n    All of one dtype (a Python number takes the others')."
globals().update(FUNCTIONS)


def pow(x: Any, y: Any, span: Any = None) -> Expr:
    """x to the power of y; both of one dtype (a Python number takes the other's).

    Of integers y is a constant, from 0 to 64: the product is written out, and wraps as products do.
    """
    return power(as_value(x), as_value(y))


def _arithmetic(name: str, a: Any, b: Any, python: Any) -> Any:
    if isinstance(a, DEVICE) or isinstance(b, DEVICE):
        return _binary(name, a, b)
    if name.startswith(("floor", "ceil", "trunc")) and b == 0:
        raise fail(f"{name}({a}, 0): division by zero")
    return python(as_value(a), as_value(b))


def max(a: Any, b: Any, span: Any = None) -> Any:
    """The greater of two values; of a NaN and a number, the number."""
    return _arithmetic("max", a, b, lambda x, y: x if x > y else y)


def min(a: Any, b: Any, span: Any = None) -> Any:
    """The lesser of two values; of a NaN and a number, the number."""
    return _arithmetic("min", a, b, lambda x, y: x if x < y else y)


def floordiv(a: Any, b: Any, span: Any = None) -> Any:
    """The quotient of two integers, rounded towards minus infinity (Python's //)."""
    return _arithmetic("floordiv", a, b, lambda x, y: x // y)


def floormod(a: Any, b: Any, span: Any = None) -> Any:
    """The remainder of floordiv; it has the sign of b (Python's %)."""
    return _arithmetic("floormod", a, b, lambda x, y: x % y)


def truncdiv(a: Any, b: Any, span: Any = None) -> Any:
    """The quotient of two integers, rounded towards zero (C's /)."""
    return _arithmetic("truncdiv", a, b, lambda x, y: x // y if (x < 0) == (y < 0) else -(-x // y))


def truncmod(a: Any, b: Any, span: Any = None) -> Any:
    """The remainder of truncdiv; it has the sign of a (C's %)."""
    return _arithmetic("truncmod", a, b, lambda x, y: x - y * truncdiv(x, y))


def ceildiv(lhs: Any, rhs: Any, span: Any = None) -> Any:
    """The quotient of two integers, rounded up: how many tiles of size rhs cover lhs elements."""
    if not (isinstance(lhs, DEVICE) or isinstance(rhs, DEVICE)):
        return _arithmetic("ceildiv", lhs, rhs, lambda x, y: -(-x // y))
    up = _binary("sub", rhs, 1) if isinstance(rhs, DEVICE) else as_value(rhs) - 1
    return _binary("floordiv", _binary("add", lhs, up), rhs)


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
shift_left = _bitwise("shl", "x << y of two integers, in the dtype of x; 0 <= y < bits.")
shift_right = _bitwise(
    "shr", "x >> y of two integers, in the dtype of x; 0 <= y < bits; copies the sign bit of signed x.")


def if_then_else(cond: Any, t: Any, f: Any, span: Any = None) -> Any:
    """t where the condition holds, else f; only the side taken reads memory.

    The two values meet in one dtype, as the operands of `+` do (a Python number takes the other's).  A Python
    condition decides at once.
    """
    cond = as_condition(cond)
    if cond.__class__ is not Expr:
        return t if cond else f
    return builder().select(cond, as_value(t), as_value(f))


def Select(condition: Any, true_value: Any, false_value: Any, span: Any = None) -> Any:
    """The same as if_then_else."""
    return if_then_else(condition, true_value, false_value)


def Cast(dtype: Any, value: Any, annotations: Any = None, span: Any = None) -> Expr:
    """`value` as `dtype`."""
    return cast(value, dtype)


def dp4a(A: Any, B: Any, C: Any) -> None:
    """C += A[0]*B[0] + A[1]*B[1] + A[2]*B[2] + A[3]*B[3], by one instruction where the chip has it.

    A, B: four int8 or four uint8 elements: a buffer, or the first of four along its last dimension;
    C: an element of an int32 buffer, or such a buffer, of which the first element is meant.
    """
    a, b, c = (_place(x, name) for x, name in ((A, "A"), (B, "B"), (C, "C")))
    if a.dtype != b.dtype or a.dtype.name not in ("i8", "u8"):
        raise fail(f"T.dp4a: A is {a.dtype} and B is {b.dtype}; both must be int8, or both uint8")
    if c.dtype.name != "i32":
        raise fail(f"T.dp4a: C is {c.dtype}; four products of bytes are summed in int32")
    words = [_word(a), _word(b)]
    c.store(builder().call(f"dp4a_{'s8' if a.dtype.name == 'i8' else 'u8'}", (c.load(), *words)))


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
    if not dtype.is_float or dtype.bits < 16:
        raise fail(f"T.infinity: {dtype} has no infinity; use T.max_value({dtype!r})")
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


__all__ = [
    "Cast", "Select", "index_to_coordinates",
    "bitwise_and", "bitwise_or", "bitwise_xor", "cast", "ceildiv", "dp4a", "floordiv",
    "floormod", "if_then_else", "infinity", "max", "max_value", "min", "min_value", "pow",
    "shift_left", "shift_right", "truncdiv", "truncmod",
] + list(FUNCTIONS)  # fmt: skip
