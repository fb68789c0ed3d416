"""Passes that published programs name; here the compiler runs its own, in its own order."""

from __future__ import annotations

from .simplify import simplify_prim_func

__all__ = ["simplify_prim_func"]


def __getattr__(name: str) -> object:
    raise AttributeError(
        f"tilelang.transform.{name}: there is no such pass here; tilelang.compile runs all that "
        "a program needs, and `tilelang.transform.simplify_prim_func` is accepted"
    )
