"""Mathematics beyond scalar.py: IEEE operations with a rounding mode, fast forms, packed pairs, bits."""

from __future__ import annotations

__all__: list[str] = []
