"""What tilelang.language offers, by name; it fills this when it is imported.  Errors name what was meant."""

from __future__ import annotations

from typing import Any

OFFERED: dict[str, Any] = {}
