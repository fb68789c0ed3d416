"""Scalar types: `float32`, `float16`, … as strings that know their bits and are callable as casts.

A dtype may be written as one of these objects, as a plain string ("float16", also "float", "half", "bf16",
"f16"), or as a PyTorch, NumPy or ml_dtypes dtype, everywhere.  `dtype` reads them all; so does `as_dtype`,
which refuses those that no tensor, tile or cast may have; dtypes.txt says why.

The elements of a tensor or tile may have several lanes, T.Tensor((n,), T.float16x2): that is a tensor of
float16 of shape (n, 2), whose A[i] is loaded, stored and computed with as two neighbours at once.

Storage dtypes (tfloat32, float8_*, float4_e2m1fn, int4, uint4) are what tensors, tiles and T.gemm take;
arithmetic on their values is done in float32 or int32.  int4, uint4 and float4_e2m1fn lie two to a byte along
the last dimension, the even element in the low half: the tensor of a parameter of shape (M, K) is an int8 or
uint8 array of shape (M, K // 2)."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

from .errors import TilelangWarning, caller_place
from .trace import fail

_known: dict[str, dtype] = {}  # by every spelling


class dtype(str):
    """The class of dtypes: T.float16 is one, the string "float16"; T.dtype("half") is the same object.

    bits: of one lane; lanes: how many numbers an element holds, 2 of "float16x2"; bytes, itemsize: of an
    element; type_code: DLPack's.  Called, T.float16(x), it is a cast."""

    # name: the compiler's; stored: that of an element in other libraries; why_not: why nothing may have it
    __slots__ = ("name", "bits", "lanes", "type_code", "stored", "why_not")

    def __new__(cls, value: Any) -> dtype:
        """The dtype that `value` names, always the same object."""
        if value.__class__ is cls:
            return value
        found = _known.get(value) if isinstance(value, str) else _of_library(value)
        found = found or _vector(value)
        if found is None:
            raise _unknown(str(value))
        return found

    @property
    def bytes(self) -> int:
        """The bytes of an element, at least one."""
        return (self.bits * self.lanes + 7) // 8

    itemsize = bytes

    @property
    def is_float(self) -> bool:
        """Is it a float of any width?"""
        return self.startswith(("float", "bfloat", "tfloat"))

    @property
    def is_int(self) -> bool:
        """Is it an integer, signed or not?  A bool is none."""
        return self.startswith(("int", "uint"))

    def with_lanes(self, lanes: int) -> dtype:
        """The dtype of as many numbers of this kind."""
        scalar = self.rpartition("x")[0] if self.lanes > 1 else str(self)
        return dtype(scalar if lanes == 1 else f"{scalar}x{lanes}")

    def as_torch(self) -> Any:
        """The PyTorch dtype of a tensor's elements; of types of four bits that of a pair, int8 or uint8."""
        import torch

        found = getattr(torch, self.stored, None)
        if found is None:
            raise fail(f"PyTorch has no {self}", TypeError)
        return found

    def as_numpy(self) -> Any:
        """The NumPy dtype of an array's elements, of bfloat16 and the 8-bit floats that of ml_dtypes; of
        types of four bits that of a pair of them, int8 or uint8."""
        import numpy

        if hasattr(numpy, self.stored) or self.stored == "bool":
            return numpy.dtype(self.stored)
        import ml_dtypes

        if not hasattr(ml_dtypes, self.stored):
            raise fail(f"NumPy has no {self}", TypeError)
        return numpy.dtype(getattr(ml_dtypes, self.stored))

    def __repr__(self) -> str:
        return f"T.{self}"

    def __reduce__(self) -> tuple:
        return dtype, (str(self),)


def _make(text: str, name: str, bits: int, lanes: int, type_code: int, stored: str, why_not: str) -> dtype:
    made = str.__new__(dtype, text)
    made.name, made.bits, made.lanes, made.type_code = name, bits, lanes, type_code
    made.stored, made.why_not = stored, why_not
    return made


def _read() -> None:
    with open(os.path.splitext(__file__)[0] + ".txt", encoding="utf-8") as table:  # pathlib loads slowly
        lines = table.read().splitlines()
    for line in lines:
        if " = " in line:
            others, names = line.split(" = ")
            _known.update(zip(others.split(), [_known[name] for name in names.split()], strict=True))
        elif not line.startswith("#"):
            text, name, bits, code, stored, *why = line.split(maxsplit=5)
            made = _make(text, name, int(bits), 1, int(code), stored, "".join(why))
            _known[text] = made
            if name != "-":
                _known[name] = made


_read()
SCALARS = tuple({id(made): made for made in _known.values()}.values())
_LANES = ("2", "4", "8", "16", "32", "64")  # of vectors that have a name in T
bool_ = _known["bool"]
globals().update({str(made): made for made in SCALARS if made != "bool"})
DType = dtype  # where a parameter is called dtype


def _vector(spelling: Any) -> dtype | None:
    """The dtype of several lanes that `spelling` names: "float16x2"; None if it names none."""
    name, _, lanes = spelling.rpartition("x") if isinstance(spelling, str) else ("", "", "")
    one = _known.get(name)
    if one is None or not lanes.isdecimal() or not 1 <= int(lanes) <= 65535:
        return None
    text, lanes = f"{one}x{int(lanes)}", int(lanes)
    if lanes == 1 or text in _known:
        return one if lanes == 1 else _known[text]
    return _known.setdefault(
        text, _make(text, f"{one.name}x{lanes}", one.bits, lanes, one.type_code, one.stored, one.why_not)
    )


def _of_library(spelling: Any) -> dtype | None:
    """The dtype of a Python, NumPy, ml_dtypes or PyTorch type."""
    name = "int64" if getattr(spelling, "is_address", False) else None  # T.ptr: a table of addresses
    name = name or {float: "float32", int: "int32"}.get(spelling if isinstance(spelling, type) else None)
    name = name or getattr(spelling, "name", None) or getattr(spelling, "__name__", None) or str(spelling)
    return _known.get(name.rpartition(".")[2]) if isinstance(name, str) else None


def as_dtype(spelling: Any) -> dtype:
    """The dtype that `spelling` names, of one number that is computed with or kept in memory."""
    made, lanes = element_of(spelling, ())
    if lanes:
        raise fail(
            f"a value has one lane, and {spelling} has {lanes[0]}: only tensors and tiles have such "
            f"elements, as one more dimension, T.alloc_local(({lanes[0]},), '{made}')"
        )
    return made


def element_of(spelling: Any, shape: tuple) -> tuple[dtype, tuple]:
    """The dtype and the extents of memory of that shape: elements of several lanes are one dimension more."""
    made = spelling if spelling.__class__ is dtype else dtype(spelling)
    if made.why_not:
        made = _instead(made)
    return (made, shape) if made.lanes == 1 else (made.with_lanes(1), (*shape, made.lanes))


_said: set[str] = set()  # what was warned of: once


def _instead(given: dtype) -> dtype:
    """The dtype that one is read as which nothing can have; an error for want of one."""
    if not given.why_not.startswith("read as "):
        raise fail(f"nothing here can have the dtype {given}: {given.why_not}")
    name, why = given.why_not.removeprefix("read as ").split(": ", 1)
    if name not in _said:
        _said.add(name)
        file, line = (caller_place() or ("tilelang", 0))[:2]
        warnings.warn_explicit(f"{given} is read as {name}: {why}", TilelangWarning, file, line)
    return dtype(name).with_lanes(given.lanes)


def DataType(value: Any) -> dtype:
    """The dtype that `value` names; it has .bits, .bytes, .lanes.  TVM's spelling."""
    return dtype(value)


def _unknown(name: str) -> Exception:
    import difflib

    names = [str(made) for made in SCALARS if not made.why_not]
    near = difflib.get_close_matches(name, names, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return fail(f"unknown dtype '{name}'{hint} (known: {', '.join(names)})")


def limits(dtype: DType) -> tuple[int | float, int | float]:
    """The least and the greatest finite value."""
    if dtype.is_float:
        top = {"f64": sys.float_info.max, "f32": (2 - 2.0**-23) * 2.0**127, "f16": 65504.0,
               "bf16": (2 - 2.0**-7) * 2.0**127, "tf32": (2 - 2.0**-10) * 2.0**127, "e4m3": 448.0,
               "e5m2": 57344.0, "e8m0": 2.0**127, "e2m1": 6.0}[dtype.name]  # fmt: skip
        return 2.0**-127 if dtype.name == "e8m0" else -top, top
    if dtype == "bool":
        return 0, 1
    if dtype.startswith("u"):
        return 0, 2**dtype.bits - 1
    return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1


def is_offered(name: str) -> bool:
    """Is it the name of a dtype object in T that is made when it is asked for, such as float16x2?"""
    one, _, lanes = name.rpartition("x")
    return name in _ALIASES or (lanes in _LANES and one in _known and one == _known[one] and one != "bool")


_ALIASES = ("bool", "double", "float", "half", "int", "long", "short", "uint")  # some are Python's own


def __getattr__(name: str) -> Any:
    if is_offered(name):
        return dtype(name)
    if name == "_TORCH_DTYPE_TO_STR":
        import torch

        return {getattr(torch, x): str(x) for x in SCALARS if x == x.stored and hasattr(torch, x)}
    if name == "AnyDType":
        return dtype | str | type
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


__all__ = [
    "DataType",
    "dtype",
    "bool_",
    *[name for name in map(str, SCALARS) if name not in ("bool", "handle", "void")],
]
