"""The same as tilelang.intrinsics."""

from __future__ import annotations

from ... import intrinsics as _intrinsics
from ...intrinsics import *  # noqa: F403
from ...intrinsics import mma_layout as mma_layout

__all__ = list(_intrinsics.__all__)
