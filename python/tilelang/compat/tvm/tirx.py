"""Expressions under TVM's names."""

from __future__ import annotations

from typing import Any

from ... import language
from ..._core import Expr
from ...front.dtypes import DataType
from ...language import scalar
from ...language.mma_layout import IndexMap

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
    return language.reinterpret(value, dtype)
