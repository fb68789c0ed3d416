"""Facts and wishes of a kernel: assumptions, launch bounds, compile flags."""

from __future__ import annotations

__all__: list[str] = []
