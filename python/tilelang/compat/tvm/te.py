"""Run-time extents under TVM's names."""

from __future__ import annotations

from typing import Any

from ...front.values import dynamic

__all__ = ["size_var", "var"]


def var(name: str = "n", dtype: Any = "int32", span: Any = None) -> Any:
    """The same as T.dynamic(name)."""
    return dynamic(name, dtype)


size_var = var
