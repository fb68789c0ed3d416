"""The few names of TVM that published kernels import, for tilelang's own values; nothing else uses them.

Where TVM itself is not installed, `import tvm` means this module once tilelang is imported.
"""

from __future__ import annotations

from . import target, te, tirx
from .tirx import DataType

tir = tirx
__all__ = ["DataType", "target", "te", "tir", "tirx"]


def __getattr__(name: str) -> object:
    raise AttributeError(f"tilelang.tvm has no '{name}': it holds only the few names of TVM that kernels for "
                         "the published language import; there is no TVM here")
