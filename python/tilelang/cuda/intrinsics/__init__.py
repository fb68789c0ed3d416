"""The same as tilelang.intrinsics."""

from __future__ import annotations

from ... import intrinsics as _intrinsics
from ...intrinsics import *  # noqa: F403

__all__ = list(_intrinsics.__all__)


def __getattr__(name: str) -> object:
    return getattr(_intrinsics, name)
