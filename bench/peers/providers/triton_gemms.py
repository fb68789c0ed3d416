"""The best of several Triton kernels (triton_kernels.py) and configurations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

from peers import operands
from peers.operands import Operands
from peers.providers import Launch, Variant
from peers.providers.tiles import kind_of
from peers.shapes import BYTES, Case

GROUP = 8
# manner, block_M, block_N, bytes of a row of a tile along K, stages, warps, and for TMA whether C is stored
# in halves, and whether the two loops are one
TABLE = {
    "large": [
        ("pointers", 128, 256, 128, 3, 8),
        ("pointers", 128, 256, 128, 4, 8),
        ("pointers", 128, 128, 128, 4, 4),
        ("tma", 128, 256, 128, 3, 8, True, True),
        ("tma", 128, 256, 128, 4, 8, True, True),
        ("tma", 128, 256, 128, 4, 8, True, False),
        ("tma", 128, 256, 128, 3, 8, False, True),
        ("tma", 256, 128, 128, 3, 8, False, True),
        ("tma", 256, 128, 128, 4, 8, True, True),
        ("tma", 128, 128, 128, 4, 4, False, True),
        ("warps", 128, 256, 128, 3, 4),
        ("warps", 128, 128, 128, 4, 4),
    ],
    "small": [
        ("pointers", 128, 256, 128, 3, 8),
        ("pointers", 128, 128, 128, 4, 8),
        ("pointers", 128, 128, 128, 3, 4),
        ("pointers", 128, 64, 128, 4, 4),
        ("pointers", 64, 64, 128, 5, 4),
        ("tma", 128, 256, 128, 3, 8, True, True),
        ("tma", 128, 128, 128, 4, 4, False, True),
        ("tma", 128, 128, 128, 4, 8, False, True),
        ("tma", 128, 64, 128, 4, 4, False, True),
        ("tma", 64, 64, 128, 5, 4, False, True),
        ("warps", 128, 128, 128, 4, 4),
    ],
    "thin": [
        ("pointers", 16, 64, 256, 5, 4),
        ("pointers", 16, 128, 128, 5, 4),
        ("pointers", 32, 64, 256, 4, 4),
        ("pointers", 64, 64, 256, 4, 4),
        ("pointers", 64, 64, 128, 5, 4),
        ("pointers", 128, 64, 256, 3, 4),
        ("tma", 64, 64, 256, 5, 4, False, True),
        ("tma", 64, 128, 128, 5, 4, False, True),
        ("tma", 128, 64, 256, 3, 4, False, True),
        ("tma", 128, 64, 128, 5, 4, False, True),
    ],
}


class Triton:
    def __init__(self, name: str) -> None:
        self.name = name
        empty = functools.partial(torch.empty, dtype=torch.int8, device="cuda")
        triton.set_allocator(lambda size, alignment, stream: empty(size))

    def variants(self, case: Case) -> list[Variant]:
        m = case.size[0]
        rows = [row for row in TABLE[kind_of(case)] if row[1] <= max(m, 64)]
        return [
            [manner, bm, bn, size // BYTES[case.dtype], *rest]
            for manner, bm, bn, size, *rest in rows
            if case.by_tma or manner == "pointers"
        ]

    def compile(self, case: Case, variant: Variant) -> None:
        """For arguments like those of the launches: how far they are aligned is a part of the cache's key."""
        kernel, grid, arguments, options = prepared(case, variant, operands.make(case, random=False))
        kernel.warmup(*arguments, grid=grid, **options)
        del arguments
        torch.cuda.empty_cache()

    def launches(self, case: Case, variant: Variant, sets: list[Any]) -> list[Launch]:
        return [(launcher(*prepared(case, variant, s)), s.c) for s in sets]


def launcher(kernel: Any, grid: tuple[int], arguments: list[Any], options: dict) -> Callable[[], object]:
    return lambda: kernel[grid](*arguments, **options)


def prepared(case: Case, variant: Variant, of: Operands) -> tuple[Any, tuple[int], list[Any], dict]:
    """A kernel, its grid, its arguments and its keywords."""
    from peers.providers import triton_kernels as kernels

    m, n, k = case.size
    manner, bm, bn, bk, stages, warps, *of_tma = variant
    a, b, c = of.a, of.b, of.c
    tiles = triton.cdiv(m, bm) * triton.cdiv(n, bn)
    options = {"BM": bm, "BN": bn, "BK": bk, "GROUP": GROUP, "num_stages": stages, "num_warps": warps}
    if manner == "pointers":
        strides = of.b_as_used.stride()
        options["WHOLE"] = k % bk == 0
        return kernels.by_pointers, (tiles,), [a, b, c, m, n, k, k, *strides, n], options
    options["TRANSPOSED"] = case.transposed
    if manner == "warps":
        return kernels.by_specialized_warps, (tiles,), [a, b, c, m, n, k], options
    halves, flatten = of_tma
    blocks = ([bm, bk], [bn, bk] if case.transposed else [bk, bn], [bm, bn // 2 if halves else bn])
    tensors = zip((a, b, c), blocks, strict=True)
    descriptors = [TensorDescriptor.from_tensor(tensor, block) for tensor, block in tensors]
    programs = torch.cuda.get_device_properties(0).multi_processor_count
    options |= {"PROGRAMS": programs, "HALVES": halves, "FLATTEN": flatten}
    return kernels.by_tma, (min(programs, tiles),), [*descriptors, m, n, k], options
