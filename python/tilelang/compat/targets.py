"""What a target is: the questions that published programs ask, of texts, dicts and TVM's objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..jit.config import own_target
from ..jit.kernel import resolve_target
from .tvm.target import Target

ROCM_MTRIPLE = "amdgcn-amd-amdhsa-hcc"


def _kind(target: Any) -> str:
    return own_target(target).split()[0].removeprefix("sim:")


def _option(target: Any, name: str) -> str:
    words = own_target(target).split()
    return next((word.partition("=")[2] for word in words if word.lstrip("-").startswith(f"{name}=")), "")


def capability(target: Any = None) -> tuple[int, int]:
    """The compute capability of a CUDA target, (9, 0) of "cuda -arch=sm_90"; without a chip this GPU's."""
    text = own_target("cuda" if target is None else target)
    if not text.startswith(("cuda", "sim:")) or ("sm_" not in text and text != "cuda"):
        raise ValueError(f"{text} is not a CUDA target with a chip")
    resolved = text if "sm_" in text else resolve_target(text)
    digits = "".join(c for c in resolved.rpartition("sm_")[2] if c.isdigit())
    return int(digits[:-1]), int(digits[-1])


def determine_target(target: Any = "auto", return_object: bool = False) -> str:
    """What a target means on this machine: "auto" becomes "cuda -arch=…" or "cpu -mcpu=…", others stay."""
    text = own_target(target)
    text = resolve_target(text) if text == "auto" else text
    return Target(text) if return_object else text


def check_cuda_availability() -> bool:
    """Whether a CUDA device answers here."""
    return resolve_target("auto").startswith("cuda")


def check_hip_availability() -> bool:
    """Whether an AMD GPU answers here: False, since this version has no driver for one."""
    return False


check_metal_availability = check_metal4_availability = check_hip_availability


def normalize_cuda_target(target: Any) -> str | None:
    """A CUDA target as text; None for another."""
    return own_target(target) if target_is_cuda(target) else None


def _asks(name: str, what: str, holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def ask(target: Any) -> bool:
        return holds(target)

    ask.__name__ = ask.__qualname__ = name
    ask.__doc__ = f"Whether a target is {what}."
    return ask


target_is_cuda = _asks(
    "target_is_cuda",
    "a CUDA chip",
    lambda target: _kind(target) in ("cuda", "cutedsl") or own_target(target).startswith("sim:"),
)
target_is_hip = _asks("target_is_hip", "a chip of AMD's", lambda target: _kind(target) in ("hip", "rocm"))
target_is_metal = _asks("target_is_metal", "a GPU of Apple's", lambda target: _kind(target) == "metal")


def _chip(name: str, what: str, low: tuple, high: tuple = (99, 0)) -> Callable[[Any], bool]:
    return _asks(
        name,
        f"a CUDA chip {what}",
        lambda target: target_is_cuda(target) and low <= capability(target) < high,
    )


target_is_volta = _chip("target_is_volta", "of the generation Volta", (7, 0), (7, 5))
target_is_turing = _chip("target_is_turing", "of the generation Turing", (7, 5), (8, 0))
target_is_ampere = _chip("target_is_ampere", "of the generations Ampere and Ada", (8, 0), (9, 0))
target_is_hopper = _chip("target_is_hopper", "of the generation Hopper", (9, 0), (10, 0))
target_is_sm120 = _chip("target_is_sm120", "of compute capability 12", (12, 0), (13, 0))
target_has_ldmatrix = _chip("target_has_ldmatrix", "with ldmatrix", (7, 5))
target_has_async_copy = _chip("target_has_async_copy", "with cp.async", (8, 0))
target_has_bulk_copy = _chip("target_has_bulk_copy", "with the tensor memory accelerator", (9, 0))


def target_has_stmatrix(target: Any, is_m16n8: bool = False) -> bool:
    """Whether a target is a CUDA chip with stmatrix; is_m16n8: with that of 16 × 8 bytes."""
    return target_is_cuda(target) and capability(target) >= ((10, 0) if is_m16n8 else (9, 0))


def target_get_mcpu(target: Any) -> str:
    """The chip of an AMD target, "gfx942"; empty where it names none."""
    return _option(target, "mcpu") or _option(target, "arch")


def normalize_rocm_arch(arch: str) -> str:
    """The name of an AMD chip without its features: "gfx942" of "gfx942:sramecc+"."""
    return arch.partition(":")[0]


target_is_cdna = _asks(
    "target_is_cdna",
    "a chip of AMD's for computing",
    lambda target: target_is_hip(target) and target_get_mcpu(target).startswith("gfx9"),
)
target_is_gfx950 = _asks(
    "target_is_gfx950",
    "AMD's gfx950",
    lambda target: target_is_hip(target) and normalize_rocm_arch(target_get_mcpu(target)) == "gfx950",
)


def target_get_rdna_generation(target: Any) -> int | None:
    """1 to 4 of a chip of AMD's for graphics (gfx10, gfx11, gfx12); None for others."""
    arch = normalize_rocm_arch(target_get_mcpu(target)) if target_is_hip(target) else ""
    found = {"gfx101": 1, "gfx103": 2, "gfx11": 3, "gfx12": 4}
    return next((number for start, number in found.items() if arch.startswith(start)), None)


target_is_rdna = _asks(
    "target_is_rdna",
    "a chip of AMD's for graphics",
    lambda target: target_get_rdna_generation(target) is not None,
)


def rocm_warp_size_for_arch(arch: str) -> int:
    """Threads of a wave of an AMD chip: 64 of those for computing, else 32."""
    return 64 if arch.startswith("gfx9") else 32


def target_get_warp_size(target: Any) -> int:
    """Threads that run together: 32, of AMD's chips for computing 64."""
    return rocm_warp_size_for_arch(target_get_mcpu(target)) if target_is_hip(target) else 32
