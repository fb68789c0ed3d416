"""What a target is: a few questions that published programs ask."""

from __future__ import annotations

from typing import Any

from ...jit.kernel import resolve_target

__all__ = ["check_cuda_availability", "determine_target", "target_is_cuda"]


def determine_target(target: Any = "auto", return_object: bool = False) -> str:
    """What a target means on this machine: "auto" becomes "cuda -arch=…" or "cpu -mcpu=…"."""
    return resolve_target(target)


def check_cuda_availability() -> bool:
    """Whether a CUDA device answers here."""
    return resolve_target("auto").startswith("cuda")


def target_is_cuda(target: Any) -> bool:
    """Whether a target is a CUDA chip."""
    return str(target).split()[0] == "cuda"
