"""The plain tile program of bench/plain_gemm.py, compiled by the package of this process."""

from __future__ import annotations

import functools
from typing import Any

from peers.providers import Launch, Variant
from peers.shapes import BYTES, LARGE, Case

# block_M, block_N, bytes of a row of a tile along K, num_stages, threads; which rows a case takes: kind_of
OURS = {
    "large": [
        (128, 256, 128, 4, 256),
        (256, 128, 128, 4, 256),
        (128, 128, 128, 4, 256),
    ],
    "small": [
        (64, 64, 256, 2, 128),
        (64, 64, 128, 4, 128),
        (64, 128, 128, 4, 128),
        (64, 192, 128, 4, 128),
        (128, 96, 128, 4, 256),
        (128, 128, 128, 4, 128),
        (128, 128, 128, 4, 256),
        (192, 64, 128, 4, 128),
        (128, 256, 128, 4, 256),
        (128, 256, 128, 2, 256),
    ],
    "thin": [
        (16, 64, 256, 4, 128),
        (16, 128, 128, 4, 128),
        (32, 64, 256, 4, 128),
        (64, 64, 128, 8, 128),
        (64, 64, 256, 4, 128),
        (64, 128, 128, 4, 128),
        (128, 64, 128, 4, 128),
        (128, 64, 256, 3, 128),
    ],
}
# Fewer, since each takes seconds to compile: the best of more than these, as found before.
PUBLISHED = {
    "large": [(128, 256, 128, 3, 256), (256, 128, 128, 3, 256), (128, 256, 128, 4, 256)],
    "small": [
        (64, 64, 128, 3, 128),
        (128, 64, 128, 4, 128),
        (128, 128, 128, 4, 256),
        (128, 128, 64, 3, 128),
        (128, 256, 128, 3, 256),
    ],
    "thin": [(64, 64, 128, 4, 128), (64, 64, 256, 4, 128), (64, 128, 128, 4, 128), (128, 64, 128, 4, 128)],
}
DTYPES = {"f16": ("float16",) * 2, "bf16": ("bfloat16",) * 2, "fp8": ("float8_e4m3fn", "bfloat16")}


def kind_of(case: Case) -> str:
    if case.shape in LARGE:
        return "large"
    return "thin" if case.size[0] <= 128 else "small"


class Tiles:
    def __init__(
        self, name: str, table: dict[str, list[tuple[int, ...]]], target: str, panels: int = 8
    ) -> None:
        self.name, self.table, self.target, self.panels = name, table, target, panels

    def variants(self, case: Case) -> list[Variant]:
        """Rows of tiles that are higher than the matrix are left out, but for the lowest of 64."""
        m = case.size[0]
        rows = [row for row in self.table[kind_of(case)] if row[0] <= max(m, 64)]
        return [[bm, bn, size // BYTES[case.dtype], *rest] for bm, bn, size, *rest in rows]

    def compile(self, case: Case, variant: Variant) -> None:
        self._kernel(case, variant)

    def launches(self, case: Case, variant: Variant, sets: list[Any]) -> list[Launch]:
        kernel = self._kernel(case, variant)
        return [(functools.partial(kernel, s.a, s.b, s.c), s.c) for s in sets]

    def _kernel(self, case: Case, variant: Variant) -> Any:
        import tilelang
        from plain_gemm import matmul

        program = matmul.get_tir(*case.size, *variant, case.transposed, *DTYPES[case.dtype], self.panels)
        return tilelang.compile(program, target=self.target)
