"""What single threads and warps do: indices, barriers, shuffles, votes."""

from __future__ import annotations

__all__: list[str] = []
