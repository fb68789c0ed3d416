"""Matrices of a case, and whether what was computed is right: against float64 on sampled rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from peers.shapes import Case

INPUT = {"f16": torch.float16, "bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}
OUTPUT = {"f16": torch.float16, "bf16": torch.bfloat16, "fp8": torch.bfloat16}
ROWS = 64  # that are compared
# The bound of ||C - exact|| / ||exact||: rounding of C, and for fp8 the short sums of the tensor cores, too.
BOUND = {"f16": 1e-3, "bf16": 4e-3, "fp8": 1e-2}


@dataclass
class Operands:
    a: Any
    b: Any
    c: Any
    transposed: bool

    @property
    def b_as_used(self) -> Any:
        return self.b.t() if self.transposed else self.b


def make(case: Case, random: bool = True) -> Operands:
    m, n, k = case.size

    def matrix(rows: int, columns: int) -> Any:
        if not random:
            return torch.empty(rows, columns, device="cuda", dtype=INPUT[case.dtype])
        wide = torch.float16 if case.dtype == "fp8" else INPUT[case.dtype]
        return torch.randn(rows, columns, device="cuda", dtype=wide).to(INPUT[case.dtype])

    b = matrix(n, k) if case.transposed else matrix(k, n)
    c = torch.empty(m, n, device="cuda", dtype=OUTPUT[case.dtype])
    return Operands(matrix(m, k), b, c, case.transposed)


class Judge:
    """Compares C with what it should be, for some of the sets of operands."""

    def __init__(self, case: Case, sets: list[Operands]) -> None:
        self.case, self.sets = case, sets
        inner = torch.randperm(case.size[0] - 2)[: ROWS - 2] + 1
        self.rows = torch.cat([torch.tensor([0, case.size[0] - 1]), inner]).to("cuda")
        self.exact: dict[int, Any] = {}

    def error(self, index: int, c: Any) -> float:
        """The relative error; ValueError if it is too large, or C has elements that nobody wrote."""
        exact = self._exact(index)
        if not bool(c.isfinite().all()):
            raise ValueError("wrong: elements of C are not finite, or were not written")
        error = float((c[self.rows].double() - exact).norm() / exact.norm())
        if not error < BOUND[self.case.dtype]:
            raise ValueError(f"wrong: relative error {error:.1e}, bound {BOUND[self.case.dtype]:.0e}")
        return error

    def _exact(self, index: int) -> Any:
        if index not in self.exact:
            s = self.sets[index]
            rows = (
                s.a.view(torch.uint8)[self.rows].view(s.a.dtype)
                if self.case.dtype == "fp8"
                else s.a[self.rows]
            )
            self.exact[index] = rows.float().double() @ s.b_as_used.float().double()
        return self.exact[index]
