"""The machine: `driver`."""

from __future__ import annotations

from . import driver

__all__ = ["driver"]


def __getattr__(name: str) -> object:
    raise AttributeError(f"tilelang.carver.arch.{name}: not in this version yet; here there is driver")
