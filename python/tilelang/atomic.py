"""Atomic operations on shared and global memory."""

from __future__ import annotations

__all__: list[str] = []
