"""What tilelang.language offers, by name; it fills this when it is imported.  Errors name what was meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

OFFERED: dict[str, Any] = {}


def named(function: Callable, name: str, doc: str) -> Callable:
    """A function that a maker of several made, with its own name and help."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function
