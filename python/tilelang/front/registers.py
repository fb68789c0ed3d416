"""Tiles that are larger than the registers of the threads that hold them: it is said before the device
compiler, which may take minutes over them, gets to see them.  And kernels for which it found too few."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from .._core import Buffer, chips, target_info
from .errors import TilelangWarning

_GPUS = [target_info(f"sim:{chip}") for chip in chips()]
_FEWEST = min(gpu["registers"] for gpu in _GPUS)  # of 32 bits, that a thread may use
THREADS = _GPUS[0]["default_threads"]  # of a T.Kernel that names none, alike in all of them
_WARPS = [gpu["warp"] for gpu in _GPUS]
WARP, WIDEST_WARP = min(_WARPS), max(_WARPS)  # threads of one; what a kernel's has is its target's


def note(trace: Any, tile: Buffer) -> None:
    """Remember a fragment or a local array that cannot lie in the registers of some GPU."""
    threads = math.prod(trace.kernel.threads or [THREADS]) if tile.scope == "fragment" else 1
    count = math.ceil(math.prod(tile.shape) * tile.dtype.bits / (32 * threads))
    if count > _FEWEST:
        spread = tile.scope == "fragment"
        held = f"each of the {threads} threads" if spread else "a thread"
        text = (
            f"{tile.name}: {tile.dtype}{list(tile.shape)} takes {count} registers of {held}, but there "
            "are {registers}: it will lie in slow memory, and the device compiler may take minutes over it; "
            f"use a smaller tile{', more threads' * spread} or T.alloc_shared"
        )
        trace.large.append((trace.file, trace.site[0], count, text))


def warn(large: Sequence[tuple[str, int, int, str]], target: str) -> None:
    """Say so at the lines of the allocations, where the target's chip has fewer registers for tiles."""
    chip = target_info(target) if large else {}
    if chip.get("warp", 1) == 1 or chip["kind"] == "sim":
        return
    for file, line, count, text in dict.fromkeys(large):
        if count > chip["registers"]:
            said = text.replace("{registers}", str(chip["registers"]))
            warnings.warn_explicit(said, TilelangWarning, file, line)


FEW_BYTES = 32  # a thread may spill so many around a loop without a cost that can be measured


def warn_of_machine_code(kernels: Sequence[Any], name: str, target: str, place: tuple[str, int]) -> None:
    """Say so where the device compiler has moved registers of a kernel to slow memory, and where ptxas did
    not do what the kernel asks of its warpgroups: in each process that takes the kernel, whether from the
    cache or not.

    kernels: what each needs, and what was refused to it; place: the function's file and line."""
    for kernel in kernels:
        said = [f"ptxas says of {kernel['kernel']} on {target}: {refusal}" for refusal in kernel["refusals"]]
        spilled = max(kernel["spill_stores"] or 0, kernel["spill_loads"] or 0)
        if spilled > FEW_BYTES:
            said.insert(
                0,
                f"each thread of {kernel['kernel']} spills {spilled} bytes of its "
                f"{kernel['registers']} registers to slow memory on {target}; use smaller tiles, "
                "more threads or fewer num_stages",
            )
        for text in said:
            warnings.warn_explicit(f"{name}: {text}", TilelangWarning, *place)


def warn_of_costs(texts: Sequence[str], name: str, place: tuple[str, int]) -> None:
    """Say what the compiler did for want of something better, at a cost that nobody would choose."""
    for text in texts:
        warnings.warn_explicit(f"{name}: {text}", TilelangWarning, *place)
