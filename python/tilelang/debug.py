"""What a kernel says while it runs: prints and assertions."""

from __future__ import annotations

__all__: list[str] = []
