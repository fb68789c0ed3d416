"""Parameters of kernels, under the name that published programs import."""

from __future__ import annotations

from ..kernel import KernelParam

__all__ = ["KernelParam"]
