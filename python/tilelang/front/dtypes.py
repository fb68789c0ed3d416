"""Scalar types: `float32`, `float16`, … as objects that are equal to their names and callable as casts.

A dtype may be written as one of these objects, as a string ("float16", also "float", "half", "bf16", "f16"),
or as a PyTorch, NumPy or ml_dtypes dtype, everywhere; `as_dtype` reads them all.

Storage dtypes (tfloat32, float8_*, float4_e2m1fn, int4, uint4) are what tensors, tiles and T.gemm take;
arithmetic on their values is done in float32 or int32.  int4, uint4 and float4_e2m1fn lie two to a byte along
the last dimension, the even element in the low half: the tensor of a parameter of shape (M, K) is an int8 or
uint8 array of shape (M, K // 2).
"""

from __future__ import annotations

import sys

from .._core import DType
from .trace import fail

_PUBLISHED = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "bool",
    "tfloat32": "tf32", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "float8_e8m0fnu": "e8m0",
    "float4_e2m1fn": "e2m1", "int4": "i4", "uint4": "u4",
}  # fmt: skip
_NAMES = {short: name for name, short in _PUBLISHED.items()} | {"handle": "handle"}  # a T.ptr
_ALIASES = {"float": "f32", "double": "f64", "half": "f16", "int": "i32", "uint": "u32", "long": "i64",
            "bool_": "bool", "fp64": "f64", "fp32": "f32", "fp16": "f16",
            "float8_e4m3": "e4m3", "e4m3_float8": "e4m3", "e4m3fn": "e4m3", "e5m2_float8": "e5m2",
            "fp8": "e4m3",
            "float8": "e4m3", "float8_e8m0": "e8m0", "e8m0fnu": "e8m0", "float4_e2m1": "e2m1",
            "e2m1fn": "e2m1", "float4": "e2m1", "fp4": "e2m1", "float4_e2m1fn_x2": "e2m1", "tfloat": "tf32"}
_LATER = ("float8_", "float6", "int2", "uint2", "int1", "handle")

_known: dict[str, DType] = {}
for _name, _short in _PUBLISHED.items():
    _known[_name] = _known[_short] = DType(_short)
for _name, _short in _ALIASES.items():
    _known[_name] = _known[_short]

float64, float32, float16, bfloat16 = (_known[n] for n in ("f64", "f32", "f16", "bf16"))
int8, int16, int32, int64 = (_known[n] for n in ("i8", "i16", "i32", "i64"))
uint8, uint16, uint32, uint64 = (_known[n] for n in ("u8", "u16", "u32", "u64"))
bool_ = _known["bool"]
tfloat32, float8_e4m3fn, float8_e5m2 = (_known[n] for n in ("tf32", "e4m3", "e5m2"))
float8_e4m3, float8_e8m0fnu, float4_e2m1fn = (_known[n] for n in ("e4m3", "e8m0", "e2m1"))
int4, uint4 = _known["i4"], _known["u4"]


def DataType(name: object) -> DType:
    """The dtype that `name` names; it has .bits, .bytes, .lanes.  TVM's spelling."""
    return as_dtype(name)


def as_dtype(spelling: object) -> DType:
    """The dtype that `spelling` names: a DType, a string, a Python, NumPy or PyTorch type."""
    if isinstance(spelling, DType):
        return spelling
    if isinstance(spelling, str):
        found = _known.get(spelling) or _vector(spelling)
        if found is not None:
            return found
        raise _unknown(spelling)
    if spelling is float:
        return float32
    if spelling is int:
        return int32
    if spelling is bool:
        return bool_
    if getattr(spelling, "is_address", False):
        return int64  # T.ptr: a table of addresses
    name = getattr(spelling, "name", None) or getattr(spelling, "__name__", None) or str(spelling)
    name = name.rpartition(".")[2] if isinstance(name, str) else ""
    found = _known.get(name)
    if found is None or name == "float8_e4m3":  # of ml_dtypes: another format, which has infinities
        raise _unknown(str(spelling))
    return found


def _vector(spelling: str) -> DType | None:
    """The dtype of several lanes that `spelling` names: "float16x2"; None if it names none."""
    name, _, lanes = spelling.rpartition("x")
    if name not in _known or not lanes.isdecimal() or not 1 <= int(lanes) <= 65535:
        return None
    return DType(f"{_known[name].name}x{int(lanes)}")


def _unknown(name: str) -> Exception:
    if name.startswith(_LATER):
        return fail(f"dtype {name}: not in this version yet")
    import difflib

    near = difflib.get_close_matches(name, _PUBLISHED, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return fail(f"unknown dtype '{name}'{hint} (known: {', '.join(_PUBLISHED)})")


def limits(dtype: DType) -> tuple[int | float, int | float]:
    """The least and the greatest finite value."""
    if dtype.is_float:
        top = {"f64": sys.float_info.max, "f32": (2 - 2.0**-23) * 2.0**127, "f16": 65504.0,
               "bf16": (2 - 2.0**-7) * 2.0**127, "tf32": (2 - 2.0**-10) * 2.0**127, "e4m3": 448.0,
               "e5m2": 57344.0, "e8m0": 2.0**127, "e2m1": 6.0}[dtype.name]  # fmt: skip
        return 2.0**-127 if dtype.name == "e8m0" else -top, top
    if dtype.name == "bool":
        return 0, 1
    if dtype.name.startswith("u"):
        return 0, 2**dtype.bits - 1
    return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1


# What DType offers to Python beyond the binding: its published spelling, and the ways to other libraries.

def _text(self: DType) -> str:
    name, x, lanes = self.name.rpartition("x")
    return f"{_NAMES[name]}x{lanes}" if x else _NAMES[lanes]


def _representation(self: DType) -> str:
    return f"T.{_text(self)}"


_same = DType.__eq__


def _equal(self: DType, other: object) -> bool:
    if isinstance(other, str):
        return _text(self) == other
    return _same(self, other) if isinstance(other, DType) else NotImplemented


def _differ(self: DType, other: object) -> bool:
    equal = _equal(self, other)
    return equal if equal is NotImplemented else not equal


def _hash(self: DType) -> int:
    return hash(_text(self))


_STORED_AS = {"tf32": "float32", "i4": "int8", "u4": "uint8", "e2m1": "uint8"}  # no library has them


def _stored(self: DType) -> str:
    name, x, lanes = self.name.rpartition("x")
    return _STORED_AS.get(name if x else lanes) or _NAMES[name if x else lanes]


def _as_torch(self: DType) -> object:
    """The PyTorch dtype of a tensor's elements; of types of four bits that of a pair, int8 or uint8."""
    import torch

    return getattr(torch, _stored(self))


def _as_numpy(self: DType) -> object:
    """The NumPy dtype of an array's elements, of bfloat16 and the 8-bit floats that of ml_dtypes; of types of
    four bits that of a pair of them, int8 or uint8.
    """
    import numpy

    name = _stored(self)
    if name.startswith(("bfloat", "float8")):
        import ml_dtypes

        return numpy.dtype(getattr(ml_dtypes, name))
    return numpy.dtype(name)


for _name, _method in {
    "__str__": _text,
    "__repr__": _representation,
    "__eq__": _equal,
    "__ne__": _differ,
    "__hash__": _hash,
    "as_torch": _as_torch,
    "as_numpy": _as_numpy,
}.items():
    setattr(DType, _name, _method)

__all__ = [
    "DataType", "bfloat16", "bool_", "float16", "float32", "float4_e2m1fn", "float64", "float8_e4m3",
    "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "int16", "int32", "int4", "int64", "int8", "tfloat32",
    "uint16", "uint32", "uint4", "uint64", "uint8",
]  # fmt: skip
