"""What a compiled kernel offers, as published programs annotate it."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from .function import PrimFunc as Program

__all__ = ["Kernel", "Program"]


@runtime_checkable
class Kernel(Protocol):
    """Anything that is called with tensors and has a text: for annotations, and isinstance."""

    def __call__(self, *args: Any, **kwds: Any) -> Any:
        """Run it."""

    def get_kernel_source(self) -> str:
        """Its text."""
