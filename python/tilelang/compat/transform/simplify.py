"""Simplification, which the compiler does by itself after each of its passes."""

from __future__ import annotations

from typing import Any

from ...front.trace import fail
from ...jit.function import PrimFunc

__all__ = ["simplify_prim_func"]


def simplify_prim_func(func: Any) -> Any:
    """A prim_func, or a factory of one, as it is: every program is simplified when it is compiled."""
    if not isinstance(func, PrimFunc) and not callable(func):
        raise fail(f"simplify_prim_func takes a @T.prim_func or a factory of one, not {type(func).__name__}")
    return func
