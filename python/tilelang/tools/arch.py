"""Chips as tilelang.carver sees them, by the compiler's numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import _core
from ..front.dtypes import as_dtype
from ..front.errors import caller_place, compile_error
from ..jit.kernel import resolve_target
from .analyzer import rates


@dataclass(frozen=True)
class TensorInstruction:
    """A matrix instruction: its name, and its shape as [m, n]."""

    name: str
    shape: list[int]


class TileDevice:
    """A chip: smem_cap (bytes of shared memory of a block), reg_cap (registers of a multiprocessor),
    compute_max_core (multiprocessors), warp_size; of a GPU bandwidth (GB/s), l2_cache_size_bytes."""

    platform, default = "", "auto"
    reg_cap = 64 << 10
    sm_partition = 4
    transaction_size = (32, 128)

    def __init__(self, target: Any = None) -> None:
        self.target = resolve_target(target or self.default)  # says why others are not here
        self.info = _core.target_info(self.target)
        kind = _KINDS[self.info["language"]]
        if type(self) not in (TileDevice, kind):
            raise compile_error(
                f"{type(self).__name__}: {self.target} is not a chip of that kind", caller_place()
            )
        self.name = self.info["name"]
        self.compute_max_core = self.info["multiprocessors"]["count"]
        self.warp_size, self.smem_cap = self.info["warp"], self.info["shared_bytes"]
        self.max_smem_usage = self.smem_cap
        rows = _core.instruction_rows(self.name)
        if "bandwidth" in self.info:  # of GPUs
            self.rates = rates(self.target)
            self.bandwidth = [int(self.rates["bandwidth"] / 1e9)]
            self.l2_cache_size_bytes = int(self.rates["l2_bytes"])
        self.has_async_copies = any(row["group"] == "async" for row in rows)
        self.matrix = [row for row in rows if row["group"] == "matrix"]
        self.warpgroup = [row for row in rows if row["group"] == "warpgroup"]
        self.available_tensor_instructions = [
            TensorInstruction(row["name"], [*row["shape"][:2]]) for row in self.matrix
        ]

    def get_avaliable_tensorintrin_shapes(self) -> list[list[int]]:
        """The shapes [m, n] of its matrix instructions."""
        return [list(shape) for shape in dict.fromkeys(tuple(row["shape"][:2]) for row in self.matrix)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.target!r})"


class CUDA(TileDevice):
    """A GPU of NVIDIA's."""

    platform, default = "CUDA", "cuda"

    def __init__(self, target: Any = None) -> None:
        super().__init__(target)
        self.sm_version = int("".join(c for c in self.name if c.isdigit()))
        self.compute_capability = str(self.sm_version)


class CDNA(TileDevice):
    """A GPU of AMD's for computing."""

    platform, default = "CDNA", "hip"


class CPU(TileDevice):
    """A CPU; the model has no hints for it."""

    platform, default = "CPU", "cpu"


def _absent(name: str, target: str, what: str) -> type[TileDevice]:
    doc = f"A GPU of {what}: no target here, so that making one raises CompileError."
    return type(
        name, (TileDevice,), {"platform": name, "default": target, "__doc__": doc, "__module__": __name__}
    )


_KINDS = {"cuda": CUDA, "hip": CDNA, "llvm": CPU}
RDNA = _absent("RDNA", "hip", "AMD's for graphics")
METAL = _absent("METAL", "metal", "Apple's")


def get_arch(target: Any = "cuda") -> TileDevice:
    """The chip of a target."""
    return _KINDS[_core.target_info(resolve_target(target))["language"]](target)


def auto_infer_current_arch() -> TileDevice:
    """The chip of this machine: its GPU, or its CPU."""
    return get_arch("auto")


def _asks(what: str, holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def ask(arch: Any) -> bool:
        return holds(arch)

    ask.__doc__ = f"Whether it is {what}."
    return ask


def _is_sm(low: int, high: int) -> Callable[[Any], bool]:
    return lambda arch: isinstance(arch, CUDA) and low <= arch.sm_version < high


is_cuda_arch = _asks("a GPU of NVIDIA's", lambda arch: isinstance(arch, CUDA))
is_cpu_arch = _asks("a CPU", lambda arch: isinstance(arch, CPU))
is_cdna_arch = _asks("a GPU of AMD's for computing", lambda arch: isinstance(arch, CDNA))
is_rdna_arch = _asks("a GPU of AMD's for graphics", lambda arch: isinstance(arch, RDNA))
is_metal_arch = _asks("a GPU of Apple's", lambda arch: isinstance(arch, METAL))
is_volta_arch = _asks("Volta", _is_sm(70, 75))
is_ampere_arch = _asks("Ampere", _is_sm(80, 89))
is_ada_arch = _asks("Ada", _is_sm(89, 90))
is_hopper_arch = _asks("Hopper", _is_sm(90, 100))
has_mma_support = _asks("a chip with matrix instructions", lambda arch: bool(arch.matrix))


def is_tensorcore_supported_precision(in_dtype: Any, accum_dtype: Any, arch: TileDevice) -> bool:
    """Whether the chip has a matrix instruction for these types."""
    return matrix_row(arch, as_dtype(in_dtype), as_dtype(accum_dtype)) is not None


def matrix_row(arch: TileDevice, kind: Any, accum: Any) -> dict[str, Any] | None:
    """The best matrix instruction of a chip for operands and results of these dtypes, as _core tells it."""
    return next((row for row in arch.matrix if row["dtypes"] == (kind, kind, accum)), None)
