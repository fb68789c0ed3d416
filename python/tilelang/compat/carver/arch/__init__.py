"""The machine: `driver`."""

from __future__ import annotations

from typing import Any

from . import driver

__all__ = ["CUDA", "driver"]


class CUDA:
    """A GPU for the templates of tilelang.carver.template, which are not in this version yet."""

    def __init__(self, target: Any = "cuda") -> None:
        self.target = target


def __getattr__(name: str) -> object:
    raise AttributeError(f"tilelang.carver.arch.{name}: not in this version yet; here there are CUDA and "
                         "driver")
