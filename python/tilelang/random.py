"""Random numbers: Philox, bit for bit as cuRAND makes them."""

from __future__ import annotations

__all__: list[str] = []
