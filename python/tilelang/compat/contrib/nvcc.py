"""Questions about CUDA targets."""

from __future__ import annotations

from typing import Any

from ...jit.kernel import resolve_target

__all__ = ["get_target_compute_version", "parse_compute_version", "have_tma"]


def get_target_compute_version(target: Any = None) -> str:
    """The compute capability of a CUDA target as text: "9.0" of "cuda -arch=sm_90"; by default this GPU's."""
    resolved = resolve_target("cuda" if target is None else target)
    digits = "".join(c for c in resolved.rpartition("sm_")[2] if c.isdigit())
    if not resolved.startswith("cuda"):
        raise ValueError(f"get_target_compute_version: {resolved} is not a CUDA target")
    return f"{digits[:-1]}.{digits[-1]}"


def parse_compute_version(compute_version: str) -> tuple[int, int]:
    """(9, 0) of "9.0"."""
    major, _, minor = compute_version.partition(".")
    return int(major), int(minor or 0)


def have_tma(target: Any) -> bool:
    """Whether the chip has the bulk tensor copy engine."""
    return parse_compute_version(get_target_compute_version(target)) >= (9, 0)
