"""Expressions under TVM's names."""

from __future__ import annotations

from typing import Any

from .. import scalar
from .._core import Expr
from ..dtypes import DataType
from ..layout import Layout

__all__ = ["Cast", "DataType", "IndexMap", "PrimExpr", "Select", "const", "reinterpret"]

PrimExpr = Expr
Var = Expr
Select = scalar.Select
Cast = scalar.Cast


def const(value: Any, dtype: Any = None) -> Any:
    """A constant of that dtype; without one a Python number as it is."""
    return value if dtype is None else scalar.cast(value, dtype)


def reinterpret(dtype: Any, value: Any) -> Any:
    """The bits of `value` as another dtype of the same width."""
    from .. import language

    return language.reinterpret(value, dtype)


class IndexMap:
    """A map of indices: `IndexMap.from_func(lambda i, j: …)`, applied by map_indices."""

    def __init__(self, func: Any) -> None:
        self.func = func

    @staticmethod
    def from_func(func: Any, ndim: int | None = None, **unused: Any) -> IndexMap:
        """The map that `func` computes."""
        return IndexMap(func)

    def map_indices(self, indices: Any) -> list[Any]:
        """The outputs for these indices."""
        found = self.func(*indices)
        return list(found) if isinstance(found, (list, tuple)) else [found]

    def as_layout(self, shape: Any) -> Layout:
        """The same map as a T.Layout over a shape."""
        return Layout(shape, self.func)
