"""The kernels that are mutated: small, of dynamic sizes, so that one program meets every trip count and every
ragged edge; each with 1, 2 and 4 warps.  What is in them: tile_kernels.py, thread_kernels.py, pipelines.py,
pipelined_kernels.py; and, of warpgroups with parts of their own, warpgroup_kernels.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pipelined_kernels as pipelined
import pipelines
import thread_kernels as threads
import tile_kernels as tiles
import warpgroup_kernels as warpgroups
from mutate import OF_PIPELINES, OF_WARPGROUPS


@dataclass(frozen=True)
class Family:
    """inputs(rng, size): the arguments, outputs filled with NaN; exact(inputs): {place of an output:
    numbers}, or of the number of threads such a function.
    """

    name: str
    make: Callable[[int], Any]  # of the number of threads: a prim_func, or a text of level machine
    sizes: tuple
    inputs: Callable[..., list]
    exact: Callable[..., dict[int, np.ndarray]]
    chip: str = "sim:sm_80"
    operators: tuple[str, ...] | None = None  # None: all of mutate.py
    warps: tuple[int, ...] = (1, 2, 4)
    schedules: int = 1  # that are tried, where some faults show in some orders of the warps alone


def _families() -> list[Family]:
    parts = {
        "gemm": tiles.gemm("float16"), "gemm_fma": tiles.gemm("float32"),
        "gemm_tn": tiles.gemm("float16", True, False), "gemm_nt": tiles.gemm("float16", False, True),
        "two_gemms": tiles.two_gemms(), "row_sum": tiles.reduce(1, "sum"),
        "column_max": tiles.reduce(0, "max"),
        "rms_norm": tiles.norm(), "transpose": tiles.transpose(), "scan": tiles.scan(),
        "histogram": threads.histogram(), "stencil": threads.stencil(), "tree": threads.tree(),
        "softmax": tiles.softmax(), "stages": tiles.stages(), "hillis": threads.hillis(),
        "sort": threads.sort(),
        "gemm_tt": tiles.gemm("float16", True, True), "row_max": tiles.reduce(1, "max"),
        "column_sum": tiles.reduce(0, "sum"), "matvec": tiles.matvec(), "turn": tiles.turn(),
    }  # fmt: skip
    staged = [
        Family(name, partial(pipelines.text_of, name), tuple((n,) for n in pipelines.TILES), pipelines.inputs,
               pipelines.exact, "sim:sm_90")
        for name in pipelines.PROGRAMS
    ]  # fmt: skip
    ahead = [
        Family(f"{name}_{stages}", *make(stages), operators=OF_PIPELINES)
        for name, make in {"ahead_gemm": pipelined.gemm, "ahead_attention": pipelined.attention,
                           "ahead_cast": pipelined.cast, "ahead_computed": pipelined.computed,
                           "phases": pipelined.phases}.items()
        for stages in (2, 3)
    ]  # fmt: skip
    by_hand = [
        Family(name, *part, chip="sim:sm_90a", operators=OF_WARPGROUPS, warps=(12,), schedules=3)
        for name, part in {"hand_gemm_nn": warpgroups.gemm(False), "hand_gemm_nt": warpgroups.gemm(True),
                           "hand_attention": warpgroups.attention(False),
                           "hand_causal": warpgroups.attention(True)}.items()
    ]  # fmt: skip
    divided = [
        Family(name, *part, chip="sim:sm_90a", operators=OF_WARPGROUPS, warps=(warps,), schedules=3)
        for name, part, warps in (("divided_gemm", warpgroups.divided(True), 8),
                                  ("boxes_gemm", warpgroups.divided(False), 4),
                                  ("divided_groups", warpgroups.in_groups(), 12),
                                  ("divided_first", warpgroups.first_loads(), 8),
                                  ("divided_late", warpgroups.late(4, lambda t: True), 8),
                                  ("divided_beside", warpgroups.late(9, lambda t: t % 5 == 4), 8))
    ]  # fmt: skip
    return [Family(name, *part) for name, part in parts.items()] + staged + ahead + by_hand + divided


FAMILIES = _families()
