"""The examples whose parts are placed by hand: gemm_warpgroups.py, gemm_cluster.py, which loads tiles of B
once for two blocks, and for fp8 gemm_fp8_warpgroups.py."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from pathlib import Path
from typing import Any

import torch

from peers.providers import Launch, Unsupported, Variant
from peers.shapes import Case

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
TARGET = "cuda -arch=sm_90a"
MODULES = {"f16": "gemm_warpgroups", "bf16": "gemm_warpgroups", "fp8": "gemm_fp8_warpgroups"}
CLUSTER = "gemm_cluster"
DTYPES = {"f16": "float16", "bf16": "bfloat16", "fp8": "float8_e4m3fn"}


class ByHand:
    def __init__(self, name: str) -> None:
        self.name = name

    def variants(self, case: Case) -> list[Variant]:
        """[columns of a tile, slots, rows of tiles that are visited together]; []: as the example has it; a
        fourth one names another example."""
        offered = self._parameters(case)
        if case.dtype == "bf16" and "dtype" not in offered:
            raise Unsupported(f"examples/{MODULES['bf16']}.py is written for float16")
        if not case.by_tma:
            raise Unsupported("TMA takes rows of whole 16 bytes")
        if not {"block_N", "slots", "group"} <= set(offered) or case.dtype == "fp8":
            groups = [[None, None, group] for group in (8, 16)] if "group" in offered else []
            return [[], *groups]
        narrow = [[128, 6, 12]] if case.size[0] <= 1024 or case.size[2] <= 128 else []
        clusters = [[256, 4, group, CLUSTER] for group in (6, 8)]
        return [[256, 4, 8], [256, 4, 12], [256, 4, 16], [128, 6, 16], *narrow, *clusters]

    def compile(self, case: Case, variant: Variant) -> None:
        self._kernel(case, variant)

    def launches(self, case: Case, variant: Variant, sets: list[Any]) -> list[Launch]:
        kernel = self._kernel(case, variant)
        dtype = getattr(torch, str(kernel.params[-1].dtype).removeprefix("torch."))
        if len(kernel.params) != 3:
            raise Unsupported(f"the kernel has {len(kernel.params)} parameters in place of A, B and C")
        outputs = [s.c if s.c.dtype == dtype else torch.empty_like(s.c, dtype=dtype) for s in sets]
        return [(functools.partial(kernel, s.a, s.b, c), c) for s, c in zip(sets, outputs, strict=True)]

    def _parameters(self, case: Case) -> list[str]:
        if not (EXAMPLES / f"{MODULES[case.dtype]}.py").exists():
            raise Unsupported(f"there is no examples/{MODULES[case.dtype]}.py")
        return list(inspect.signature(_factory(case)).parameters)

    def _kernel(self, case: Case, variant: Variant) -> Any:
        import tilelang

        factory = _factory(case, *variant[3:])
        given = dict(zip(("block_N", "slots", "group"), variant[:3], strict=False))
        given |= {
            "transpose_B": case.transposed,
            "dtype": DTYPES[case.dtype],
            "out_dtype": "bfloat16" if case.dtype == "fp8" else DTYPES[case.dtype],
            "blocks": torch.cuda.get_device_properties(0).multi_processor_count,
        }
        offered = self._parameters(case)
        given = {name: value for name, value in given.items() if name in offered and value is not None}
        return tilelang.compile(factory.get_tir(*case.size, **given), target=TARGET)


def _factory(case: Case, module: str | None = None) -> Any:
    if str(EXAMPLES) not in sys.path:
        sys.path.append(str(EXAMPLES))
    return importlib.import_module(module or MODULES[case.dtype]).gemm
