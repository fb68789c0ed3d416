"""cuBLAS as PyTorch calls it: torch.matmul, and for fp8 torch._scaled_mm with fast accumulation."""

from __future__ import annotations

from typing import Any

import torch

from peers.providers import Launch, Unsupported, Variant
from peers.shapes import Case


class CuBLAS:
    def __init__(self, name: str) -> None:
        self.name = name

    def variants(self, case: Case) -> list[Variant]:
        _, n, k = case.size
        if case.dtype == "fp8" and (n % 16 or k % 16):
            raise Unsupported("torch._scaled_mm takes multiples of 16")
        return [[]]

    def compile(self, case: Case, variant: Variant) -> None:
        """Nothing is compiled."""

    def launches(self, case: Case, variant: Variant, sets: list[Any]) -> list[Launch]:
        one = torch.ones((), device="cuda", dtype=torch.float32)

        def launch(a, b, c):
            if case.dtype == "fp8":
                return lambda: torch._scaled_mm(
                    a, b, scale_a=one, scale_b=one, out_dtype=c.dtype, use_fast_accum=True, out=c
                )
            return lambda: torch.matmul(a, b, out=c)

        return [(launch(s.a, s.b_as_used, s.c), s.c) for s in sets]
