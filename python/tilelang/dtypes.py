"""Scalar types: `float32`, `float16`, … as objects that are equal to their names and callable as casts.

A dtype may be written as one of these objects, as a string ("float16", also "float", "half", "bf16", "f16"),
or as a PyTorch or NumPy dtype, everywhere; `as_dtype` reads them all.
"""

from __future__ import annotations

import sys

from ._core import DType

_PUBLISHED = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "bool",
}  # fmt: skip
_NAMES = {short: name for name, short in _PUBLISHED.items()}
_ALIASES = {"float": "f32", "double": "f64", "half": "f16", "int": "i32", "uint": "u32", "long": "i64",
            "bool_": "bool", "fp64": "f64", "fp32": "f32", "fp16": "f16"}
_LATER = ("float8", "e4m3", "e5m2", "e8m0", "float4", "float6", "int4", "uint4", "int2", "uint2", "int1",
          "tfloat32", "tf32", "handle")  # fmt: skip

_known: dict[str, DType] = {}
for _name, _short in _PUBLISHED.items():
    _known[_name] = _known[_short] = DType(_short)
for _name, _short in _ALIASES.items():
    _known[_name] = _known[_short]

float64, float32, float16, bfloat16 = (_known[n] for n in ("f64", "f32", "f16", "bf16"))
int8, int16, int32, int64 = (_known[n] for n in ("i8", "i16", "i32", "i64"))
uint8, uint16, uint32, uint64 = (_known[n] for n in ("u8", "u16", "u32", "u64"))
bool_ = _known["bool"]


def as_dtype(spelling: object) -> DType:
    """The dtype that `spelling` names: a DType, a string, a Python, NumPy or PyTorch type."""
    if isinstance(spelling, DType):
        return spelling
    if isinstance(spelling, str):
        found = _known.get(spelling)
        if found is not None:
            return found
        raise _unknown(spelling)
    if spelling is float:
        return float32
    if spelling is int:
        return int32
    if spelling is bool:
        return bool_
    name = getattr(spelling, "name", None) or getattr(spelling, "__name__", None) or str(spelling)
    name = name.rpartition(".")[2] if isinstance(name, str) else ""
    found = _known.get(name)
    if found is None:
        raise _unknown(str(spelling))
    return found


def _unknown(name: str) -> Exception:
    from .errors import compile_error
    from .trace import place

    if name.startswith(_LATER) or (name.rstrip("0123456789")[-1:] == "x" and name.split("x")[0] in _known):
        return compile_error(f"dtype {name}: not in this version yet", place())
    import difflib

    near = difflib.get_close_matches(name, _PUBLISHED, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return compile_error(f"unknown dtype '{name}'{hint} (known: {', '.join(_PUBLISHED)})", place())


def limits(dtype: DType) -> tuple[int | float, int | float]:
    """The least and the greatest finite value."""
    if dtype.is_float:
        top = {"f64": sys.float_info.max, "f32": (2 - 2.0**-23) * 2.0**127, "f16": 65504.0,
               "bf16": (2 - 2.0**-7) * 2.0**127}[dtype.name]  # fmt: skip
        return -top, top
    if dtype.name == "bool":
        return 0, 1
    if dtype.name.startswith("u"):
        return 0, 2**dtype.bits - 1
    return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1


# What DType offers to Python beyond the binding: its published spelling, and the ways to other libraries.

def _text(self: DType) -> str:
    return _NAMES[self.name]


def _representation(self: DType) -> str:
    return f"T.{_NAMES[self.name]}"


_same = DType.__eq__


def _equal(self: DType, other: object) -> bool:
    if isinstance(other, str):
        return _NAMES[self.name] == other
    return _same(self, other) if isinstance(other, DType) else NotImplemented


def _differ(self: DType, other: object) -> bool:
    equal = _equal(self, other)
    return equal if equal is NotImplemented else not equal


def _hash(self: DType) -> int:
    return hash(_NAMES[self.name])


def _call(self: DType, value: object = 0) -> object:
    """The value as this type: of a number a constant, of anything else a cast."""
    from . import scalar

    return scalar.cast(value, self)


def _as_torch(self: DType) -> object:
    """The PyTorch dtype."""
    import torch

    return getattr(torch, _NAMES[self.name])


def _as_numpy(self: DType) -> object:
    """The NumPy dtype; bfloat16 is that of ml_dtypes."""
    import numpy

    if self.name == "bf16":
        import ml_dtypes

        return numpy.dtype(ml_dtypes.bfloat16)
    return numpy.dtype(_NAMES[self.name])


for _name, _method in {
    "__str__": _text,
    "__repr__": _representation,
    "__eq__": _equal,
    "__ne__": _differ,
    "__hash__": _hash,
    "__call__": _call,
    "as_torch": _as_torch,
    "as_numpy": _as_numpy,
}.items():
    setattr(DType, _name, _method)

__all__ = [
    "bfloat16", "bool_", "float16", "float32", "float64", "int16",
    "int32", "int64", "int8", "uint16", "uint32", "uint64", "uint8",
]  # fmt: skip
