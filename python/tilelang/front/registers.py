"""Tiles that are larger than the registers of the threads that hold them: it is said before the device
compiler, which may take minutes over them, gets to see them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from .._core import Buffer, chips, target_info
from .errors import TilelangWarning

_GPU = target_info(f"sim:{chips('cuda')[0]}")  # what is alike in all of them
MOST = _GPU["registers"]  # of 32 bits, that a thread may use
THREADS = _GPU["default_threads"]  # of a T.Kernel that names none
_WARPS = [target_info(f"sim:{chip}")["warp"] for chip in chips("cuda")]
WARP, WIDEST_WARP = (
    min(_WARPS),
    max(_WARPS),
)  # threads of one, of all chips; what a kernel's has is its target's


def note(trace: Any, tile: Buffer) -> None:
    """Remember a fragment or a local array that cannot lie in registers."""
    threads = math.prod(trace.kernel.threads or [THREADS]) if tile.scope == "fragment" else 1
    count = math.ceil(math.prod(tile.shape) * tile.dtype.bits / (32 * threads))
    if count > MOST:
        spread = tile.scope == "fragment"
        held = f"each of the {threads} threads" if spread else "a thread"
        text = (
            f"{tile.name}: {tile.dtype}{list(tile.shape)} takes {count} registers of {held}, but there "
            f"are {MOST}: it will lie in slow memory, and the device compiler may take minutes over it; "
            f"use a smaller tile{', more threads' * spread} or T.alloc_shared"
        )
        trace.large.append((trace.file, trace.site[0], text))


def warn(large: Sequence[tuple[str, int, str]], target: str) -> None:
    """Say so at the lines of the allocations, where the target has registers for tiles."""
    if target.startswith("cuda"):
        for file, line, text in dict.fromkeys(large):
            warnings.warn_explicit(text, TilelangWarning, file, line)
