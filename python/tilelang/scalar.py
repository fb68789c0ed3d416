"""The scalar functions of the language: arithmetic, mathematics, casts.

Arguments are values of the kernel or Python numbers; on Python numbers alone `ceildiv`, `floordiv`,
`floormod`, `max` and `min` answer at once with a Python number, so that they serve to compute tile sizes and
grids too.
"""

from __future__ import annotations

from typing import Any

from ._core import DType, Expr
from .dtypes import as_dtype, limits
from .trace import builder, fail
from .values import DEVICE, as_condition, as_value
from .values import binary as _binary

_FUNCTIONS = {
    "exp": "e to the power of x.",
    "exp2": "2 to the power of x.",
    "log": "The natural logarithm of x.",
    "log2": "The logarithm of x to base 2.",
    "log10": "The logarithm of x to base 10.",
    "sqrt": "The square root of x.",
    "rsqrt": "1 / sqrt(x).",
    "sin": "The sine of x (radians).",
    "cos": "The cosine of x (radians).",
    "tanh": "The hyperbolic tangent of x.",
    "sigmoid": "1 / (1 + exp(-x)).",
    "erf": "The error function of x.",
    "abs": "The absolute value of x.",
    "floor": "The greatest whole number <= x, as a float.",
    "ceil": "The least whole number >= x, as a float.",
    "trunc": "x without its fraction, as a float.",
    "isnan": "Whether x is not a number; a bool.",
    "isinf": "Whether x is infinite; a bool.",
    "isfinite": "Whether x is neither infinite nor NaN; a bool.",
}


def _function(name: str, doc: str) -> Any:
    def scalar_function(x: Any) -> Expr:
        return builder().call(name, (as_value(x),))

    scalar_function.__name__ = scalar_function.__qualname__ = name
    scalar_function.__doc__ = f"{doc}\n\n    x: a value or a number; the result has its dtype unless noted."
    return scalar_function


FUNCTIONS = {name: _function(name, doc) for name, doc in _FUNCTIONS.items()}


def pow(x: Any, y: Any) -> Expr:
    """x to the power of y; both of one dtype (a Python number takes the other's)."""
    return builder().call("pow", (as_value(x), as_value(y)))


def fma(a: Any, b: Any, c: Any) -> Expr:
    """a * b + c, rounded once."""
    return builder().call("fma", (as_value(a), as_value(b), as_value(c)))


def _arithmetic(name: str, a: Any, b: Any, python: Any) -> Any:
    if isinstance(a, DEVICE) or isinstance(b, DEVICE):
        return _binary(name, a, b)
    if name.startswith(("floor", "ceil", "trunc")) and b == 0:
        raise fail(f"{name}({a}, 0): division by zero")
    return python(as_value(a), as_value(b))


def max(a: Any, b: Any) -> Any:
    """The greater of two values; of a NaN and a number, the number."""
    return _arithmetic("max", a, b, lambda x, y: x if x > y else y)


def min(a: Any, b: Any) -> Any:
    """The lesser of two values; of a NaN and a number, the number."""
    return _arithmetic("min", a, b, lambda x, y: x if x < y else y)


def floordiv(a: Any, b: Any) -> Any:
    """The quotient of two integers, rounded towards minus infinity (Python's //)."""
    return _arithmetic("floordiv", a, b, lambda x, y: x // y)


def floormod(a: Any, b: Any) -> Any:
    """The remainder of floordiv; it has the sign of b (Python's %)."""
    return _arithmetic("floormod", a, b, lambda x, y: x % y)


def truncdiv(a: Any, b: Any) -> Any:
    """The quotient of two integers, rounded towards zero (C's /)."""
    return _arithmetic("truncdiv", a, b, lambda x, y: x // y if (x < 0) == (y < 0) else -(-x // y))


def truncmod(a: Any, b: Any) -> Any:
    """The remainder of truncdiv; it has the sign of a (C's %)."""
    return _arithmetic("truncmod", a, b, lambda x, y: x - y * truncdiv(x, y))


def ceildiv(a: Any, b: Any) -> Any:
    """The quotient of two integers, rounded up: how many tiles of size b cover a elements."""
    if not (isinstance(a, DEVICE) or isinstance(b, DEVICE)):
        return _arithmetic("ceildiv", a, b, lambda x, y: -(-x // y))
    a, b = as_value(a), as_value(b)
    up = b - 1 if b.__class__ is int else _binary("sub", b, 1)
    return _binary("floordiv", _binary("add", a, up), b)


def _bitwise(name: str, doc: str) -> Any:
    def bitwise(a: Any, b: Any) -> Any:
        from .values import PYTHON

        return _binary(name, a, b) if isinstance(a, DEVICE) or isinstance(b, DEVICE) else PYTHON[name](a, b)

    bitwise.__doc__ = doc
    return bitwise


bitwise_and = _bitwise("and", "a & b of two integers.")
bitwise_or = _bitwise("or", "a | b of two integers.")
bitwise_xor = _bitwise("xor", "a ^ b of two integers.")
shift_left = _bitwise("shl", "a << b of two integers; 0 <= b < bits.")
shift_right = _bitwise("shr", "a >> b of two integers; 0 <= b < bits; copies the sign bit of signed a.")


def if_then_else(condition: Any, a: Any, b: Any) -> Any:
    """a where the condition holds, else b; only the side taken reads memory.

    The two values must have one dtype (a Python number takes the other's).  A Python condition decides at
    once.
    """
    condition = as_condition(condition)
    if condition.__class__ is not Expr:
        return a if condition else b
    return builder().select(condition, as_value(a), as_value(b))


def Select(condition: Any, true_value: Any, false_value: Any) -> Any:
    """The same as if_then_else."""
    return if_then_else(condition, true_value, false_value)


def cast(value: Any, dtype: Any, round: str = "", sat: bool = True, rbits: Any = None) -> Expr:
    """`value` as `dtype`: float to int truncates, int to a narrower int wraps, to a float rounds to nearest.

    A Python number becomes a constant of that dtype.
    """
    if round not in ("", "rn") or rbits is not None or not sat:
        raise fail("T.cast: rounding modes and sat=False are not in this version yet; a cast rounds to "
                   "nearest even")
    dtype = as_dtype(dtype)
    value = as_value(value)
    if value.__class__ is Expr:
        return builder().cast(dtype, value)
    if not dtype.is_float and value.__class__ is float:
        value = _whole(value, dtype)
    return builder().const(value, dtype)


def _whole(value: float, dtype: DType) -> int | bool:
    if value != value or value in (float("inf"), -float("inf")):
        raise fail(f"{value} has no value of dtype {dtype}")
    return bool(value) if dtype.name == "bool" else int(value)


def Cast(dtype: Any, value: Any) -> Expr:
    """`value` as `dtype`."""
    return cast(value, dtype)


def infinity(dtype: Any) -> Expr:
    """Plus infinity as a constant of a float dtype."""
    dtype = as_dtype(dtype)
    if not dtype.is_float:
        raise fail(f"T.infinity: {dtype} has no infinity; use T.max_value({dtype!r})")
    return builder().const(float("inf"), dtype)


def max_value(dtype: Any) -> Expr:
    """The greatest finite value of a dtype, as a constant."""
    dtype = as_dtype(dtype)
    return builder().const(limits(dtype)[1], dtype)


def min_value(dtype: Any) -> Expr:
    """The least finite value of a dtype, as a constant."""
    dtype = as_dtype(dtype)
    return builder().const(limits(dtype)[0], dtype)

globals().update(FUNCTIONS)

__all__ = [
    "Cast", "Select", "bitwise_and", "bitwise_or", "bitwise_xor", "cast", "ceildiv", "floordiv", "floormod",
    "fma", "if_then_else", "infinity", "max", "max_value", "min", "min_value", "pow", "shift_left",
    "shift_right", "truncdiv", "truncmod",
] + list(FUNCTIONS)  # fmt: skip
