"""Casts, and powers of integers: what Python's own syntax asks for as well, `x ** 3`, `float(x)`,
`T.float16(x)`, `x: T.int32 = 1`."""

from __future__ import annotations

import itertools
from typing import Any

from .._core import Expr, Region
from .dtypes import DType, element_of
from .symbols import Const
from .trace import builder, current, fail
from .values import DEVICE, OPERATORS, SLICES, VECTORS, Dynamic, as_value, each
from .values import binary as _binary

_MOST_FACTORS = 64


def power(x: Any, y: Any) -> Any:
    """The same of values and numbers; also Python's `x ** y`."""
    y = y.value if y.__class__ is Expr and y.is_const else y
    whole = all(v.__class__ in (int, bool) or (v.__class__ is Expr and not v.dtype.is_float) for v in (x, y))
    if not whole:
        return builder().call("pow", (x, y))
    if y.__class__ is Expr or not 0 <= y <= _MOST_FACTORS:
        shift = "; a power of two is 1 << y" if x.__class__ is int and x == 2 else ""
        raise fail(
            f"a power of integers has a constant exponent, from 0 to {_MOST_FACTORS}, and becomes "
            f"products; others are computed in floats: T.pow(T.cast(x, 'float32'), y){shift}"
        )
    if x.__class__ is not Expr:
        return x**y
    return cast(1, x.dtype) if y == 0 else _product(_named(x) if y > 1 else x, y)


def _product(x: Any, count: int) -> Any:
    """x * x * …, by squares."""
    if count == 1:
        return x
    half = _product(x, count // 2)
    half = half if half is x else _named(half)
    square = _binary("mul", half, half)
    return _binary("mul", square, x) if count % 2 else square


def _named(x: Any) -> Any:
    """The value by a name, so that it is computed once."""
    trace = current()
    return x if trace is None or trace.kernel is None else trace.builder.let("power", x)


_ROUNDINGS = {"rn": 0, "rz": 1, "rm": 2, "rp": 3, "rna": 4}
_TO_WHOLE = {"rn": "round", "rz": "trunc", "rm": "floor", "rp": "ceil", "rna": "round_away"}


def _cast_rounded(value: Any, dtype: DType, round: str, sat: bool) -> Expr:
    if round and round not in _ROUNDINGS:
        raise fail(f"T.cast: there is no rounding mode {round!r}; there are {', '.join(_ROUNDINGS)}")
    source = value.dtype if value.__class__ is Expr else None
    from_float = source.is_float if source is not None else value.__class__ is float
    if not dtype.is_float:
        if round and from_float:
            value = builder().call(_TO_WHOLE[round], (value,))
        return cast(value, dtype)
    if dtype.name in ("f32", "f64"):
        widens = source is not None and source.is_float and source.bits <= dtype.bits
        if round in ("", "rn") or widens:
            return cast(value, dtype)
        raise fail(
            f"T.cast: {dtype} is rounded to nearest only, not by {round!r}; directed modes are there "
            "for float16, bfloat16, tfloat32 and the floats of 8 and 4 bits"
        )
    usual = "rna" if dtype.name in ("tf32", "e8m0") else "rn"
    mode, saturate = _ROUNDINGS[round or usual], int(sat and dtype.bits <= 8)
    return builder().call(f"to_{dtype.name}", (value, mode, saturate), dtype)


def cast(
    value: Any, dtype: Any, round: str = "", sat: bool = True, rbits: Any = None, span: Any = None
) -> Expr:
    """`value` as `dtype`: float to int truncates, int to a narrower int wraps, to a float rounds to nearest.

    A Python number becomes a constant of that dtype.  Of a slice and of a vector each element is cast; to a
    dtype of several lanes, T.cast(x, "float16x2"), one value is cast for all of them, and a tuple of as many
    values gives each its own.

    round: "rn" to nearest, ties to even (the default, but for tfloat32, which rounds ties away, "rna", and
    float8_e8m0fnu, which rounds them up); "rz" towards zero, "rm" down, "rp" up.  sat: a float of 8 or 4 bits
    takes its largest value for what is larger; with sat=False that becomes infinity, or NaN for want of one.
    Stochastic rounding ("rs", with rbits) needs an instruction of sm_100 that this version has not."""
    if isinstance(dtype, DEVICE):
        raise fail(f"T.cast: the dtype is {dtype}, a value of the kernel; the order is (value, dtype)")
    if value.__class__ in SLICES:
        one, lanes = element_of(dtype, ())
        made = each(lambda x: cast(x, one, round, sat), value)
        if lanes not in ((), (made.count,)):
            raise fail(f"T.cast: the slice has {made.count} elements, and {dtype} has {lanes[0]} lanes")
        return made
    dtype, several = element_of(dtype, ())
    if several and isinstance(value, (tuple, list)):
        value = OPERATORS["packed"]([cast(x, dtype, round, sat) for x in value])
    if value.__class__ in VECTORS:
        made = OPERATORS["lanes"](lambda x: cast(x, dtype, round, sat), value)
        if several not in ((), (len(made),)):
            raise fail(
                f"T.cast: there are {len(made)} values, and {dtype}x{several[0]} has {several[0]} lanes"
            )
        return made
    if several:  # the same number in each
        return OPERATORS["splat"](cast(value, dtype, round, sat, rbits), several[0])
    value = as_value(value)
    if round == "rs" or rbits is not None:
        raise fail(
            "T.cast: stochastic rounding (round='rs' with rbits) needs sm_100's own instruction, which this "
            "version does not have; 'rn' rounds to nearest"
        )
    if round or not sat:
        return _cast_rounded(value, dtype, round, sat)
    if value.__class__ is Expr:
        return builder().cast(dtype, value)
    if not dtype.is_float and value.__class__ is float:
        value = _whole(value, dtype)
    return builder().const(value, dtype)


def _whole(value: float, dtype: DType) -> int | bool:
    if value != value or value in (float("inf"), -float("inf")):
        raise fail(f"{value} has no value of dtype {dtype}")
    return bool(value) if dtype.name == "bool" else int(value)


_unnamed = itertools.count()  # symbols that have no name in the program


def _called(dtype: DType, value: Any = None) -> Any:
    """T.float16(x): of a number a constant, of anything else a cast.  `n = T.int32()`, an integer without a
    value outside of a T.Kernel, is an extent that the call knows, as T.dynamic("n")."""
    if value is not None:
        return cast(value, dtype)
    trace = current()
    if trace is None and dtype.is_int:
        return Dynamic(f"sym{next(_unnamed)}")
    if trace is None or dtype.is_float or trace.kernel is not None:
        raise fail(
            f"T.{dtype}() without a value: a constant is T.{dtype}(0), an extent that is known only when "
            "the kernel is called T.dynamic('n')"
        )
    return Dynamic(trace.take_hint("n"))


DType.__call__ = _called
Region.astype = lambda self, dtype: cast(self, dtype)
Const.astype = lambda self, dtype: cast(self.__index__(), dtype)
OPERATORS["pow"] = lambda a, b: power(as_value(a), as_value(b))
