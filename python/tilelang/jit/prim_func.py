"""`@T.prim_func`: the text of a function becomes a kernel."""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any

from ..front.errors import kind_of
from ..front.trace import fail
from .function import PrimFunc, scope_of

__all__ = ["prim_func"]


def prim_func(func: FunctionType | None = None, *, eager_jit: bool = False) -> Any:
    """Make a function a kernel: its text is traced at once; the result is what `tilelang.compile` takes.

    Every parameter is annotated: T.Tensor(shape, dtype), or a scalar dtype (T.float32, int, float, bool).
    It returns nothing, and out_idx says which parameters a call allocates and returns; or it ends with
    `return C` (or `return C, D`), of tensors made by T.empty, which a call allocates, or of parameters, which
    a call gives back as they were passed.

    eager_jit=True: the function is written as an eager kernel and traced when it is called, with tensors or
    with T.const names by keyword; each such call gives a kernel for tilelang.compile."""
    if func is None:
        return lambda f: _make(f, eager_jit, sys._getframe(1))
    return _make(func, eager_jit, sys._getframe(1))


def _make(func: Any, eager_jit: bool, frame: Any) -> Any:
    if not isinstance(func, FunctionType):
        raise fail(f"@T.prim_func decorates a function, not {kind_of(func)}")
    if not eager_jit:
        return PrimFunc(func, scope_of(func, frame))
    from .decorator import LazyPrimFunc, jit, wrapped

    return LazyPrimFunc(wrapped(func, dict(jit.__wrapped__.__kwdefaults__), frame))
