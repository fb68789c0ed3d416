"""Which float of 8 bits the chips multiply: `T.fp8`."""

from __future__ import annotations

from typing import Any

from ..front.dtypes import as_dtype
from ..front.errors import WrongValue
from ..front.trace import fail

__all__ = ["determine_fp8_type", "determine_torch_fp8_type"]

_TYPES = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}


def determine_fp8_type(fp8_format: str = "e4m3", device: Any = None) -> Any:
    """The dtype of that format, "e4m3" or "e5m2", on NVIDIA's chips and the CPU; device: accepted, all are
    alike."""
    if fp8_format not in _TYPES:
        raise fail(f"determine_fp8_type: the format is 'e4m3' or 'e5m2', not {fp8_format!r}", WrongValue)
    return as_dtype(_TYPES[fp8_format])


def determine_torch_fp8_type(fp8_format: str = "e4m3", device: Any = None) -> Any:
    """The same as a PyTorch dtype."""
    import torch

    return getattr(torch, str(determine_fp8_type(fp8_format, device)))
