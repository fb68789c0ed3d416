"""Passes that published programs name; here the compiler runs its own, in its own order, when it compiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..front.trace import fail
from ..jit.function import PrimFunc
from .tvm.transform import PassContext

__all__ = ["LetInline", "Simplify", "apply_simplify", "get_pass_context", "simplify_prim_func"]


get_pass_context = PassContext.current


def simplify_prim_func(func: Any) -> Any:
    """A prim_func, or a factory of one, as it is: every program is simplified when it is compiled."""
    if not isinstance(func, PrimFunc) and not callable(func):
        raise fail(f"simplify_prim_func takes a @T.prim_func or a factory of one, not {type(func).__name__}")
    return func


def apply_simplify(stmt: Any, inline_let: bool = False) -> Any:
    """The same program: it is simplified when it is compiled."""
    return stmt


def Simplify(simplify_arguments: bool = False) -> Callable[[Any], Any]:
    """The pass as a function, which gives a program as it is: each is simplified when it is compiled."""
    return apply_simplify


def LetInline() -> Callable[[Any], Any]:
    """The pass as a function, which gives a program as it is: names are resolved when it is compiled."""
    return apply_simplify


def __getattr__(name: str) -> object:
    raise AttributeError(
        f"tilelang.transform.{name}: there is no such pass here; tilelang.compile runs all "
        "that a program needs, and `tilelang.transform.simplify_prim_func` is accepted"
    )
