"""What published programs ask of the machine; hints for tile sizes are not in this version yet."""

from __future__ import annotations

from . import arch

__all__ = ["arch"]


def __getattr__(name: str) -> object:
    raise AttributeError(f"tilelang.carver.{name}: not in this version yet; here there is arch.driver")
