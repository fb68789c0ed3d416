"""Expressions under TVM's names: its nodes, and the functions of the language."""

from __future__ import annotations

from typing import Any

from ... import language
from ...front.dtypes import DataType
from ...language import tir
from ...language.mma_layout import IndexMap
from ...language.tir import *  # noqa: F403

__all__ = [*tir.__all__, "DataType", "IndexMap", "const", "reinterpret"]


def const(value: Any, dtype: Any = None, span: Any = None) -> Any:
    """A constant of that dtype; without one a Python number as it is."""
    return value if dtype is None else language.cast(value, dtype)


def reinterpret(dtype: Any, value: Any, span: Any = None) -> Any:
    """The bits of `value` as another dtype of the same width."""
    return language.reinterpret(value, dtype)


def __getattr__(name: str) -> Any:
    if name.startswith("__") or name not in language.__all__:
        raise AttributeError(f"tilelang.tvm.tirx has no '{name}'; there is no TVM here")
    return getattr(language, name)
