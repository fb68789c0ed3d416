"""The few names of TVM that published kernels import, for tilelang's own values; nothing else uses them.

Where TVM itself is not installed, `import tvm` means this module once tilelang is imported."""

from __future__ import annotations

from importlib import import_module

from ..paths import PATHS
from . import target, te, tirx, transform
from .tirx import DataType

tir = tirx
__path__ = []  # its files have one name each: `import tvm.tirx` is found by ../paths.py, as tirx above
__all__ = ["DataType", "target", "te", "tir", "tirx", "transform"]


def __getattr__(name: str) -> object:
    if f"tvm.{name}" in PATHS:
        return import_module(f"{__name__.partition('.')[0]}.tvm.{name}")
    raise AttributeError(
        f"tilelang.tvm has no '{name}': it holds only the few names of TVM that kernels for "
        "the published language import; there is no TVM here"
    )
