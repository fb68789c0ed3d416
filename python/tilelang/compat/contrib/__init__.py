"""`nvcc`: what a CUDA target is."""

from __future__ import annotations

from . import nvcc

__all__ = ["nvcc"]
