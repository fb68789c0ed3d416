"""Code that is not in the language: pointers, external functions, PTX, CUDA source."""

from __future__ import annotations

__all__: list[str] = []
