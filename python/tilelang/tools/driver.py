"""Questions to the GPU, through PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_UNITS = {"bytes": 1, "kb": 1 << 10, "mb": 1 << 20}


def get_cuda_device_properties(device_id: int = 0) -> Any:
    """PyTorch's description of a GPU; RuntimeError without one."""
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("no CUDA device answers here")
    if not 0 <= device_id < torch.cuda.device_count():
        raise RuntimeError(f"there is no cuda:{device_id}, only {torch.cuda.device_count()} GPUs")
    return torch.cuda.get_device_properties(device_id)


def get_device_attribute(attr: str, device_id: int = 0) -> Any:
    """One entry of that description by its name there, such as "warp_size"."""
    return getattr(get_cuda_device_properties(device_id), attr)


def _entry(name: str, attr: str, doc: str) -> Callable[..., Any]:
    def ask(device_id: int = 0) -> Any:
        return get_device_attribute(attr, device_id)

    ask.__name__ = ask.__qualname__ = name
    ask.__doc__ = doc
    return ask


get_device_name = _entry("get_device_name", "name", "The GPU's name.")
get_num_sms = _entry(
    "get_num_sms",
    "multi_processor_count",
    "How many multiprocessors the GPU has: the blocks of a persistent kernel.",
)
get_registers_per_block = _entry(
    "get_registers_per_block",
    "regs_per_multiprocessor",
    "The 32-bit registers that a block may use: all of a multiprocessor.",
)
get_persisting_l2_cache_max_size = _entry(
    "get_persisting_l2_cache_max_size",
    "L2_cache_size",
    "The bytes of the second cache, of which a program may set aside a part.",
)


def get_max_dynamic_shared_size_bytes(device_id: int = 0, format: str = "bytes") -> int:
    """The shared memory that a block may use; format: "bytes", "kb" or "mb"."""
    return _in(format, get_device_attribute("shared_memory_per_block_optin", device_id))


def get_shared_memory_per_block(device_id: int = 0, format: str = "bytes") -> int:
    """The shared memory that a block may use without asking for more; format: "bytes", "kb" or "mb"."""
    return _in(format, get_device_attribute("shared_memory_per_block", device_id))


def _in(format: str, size: int) -> int:
    if format.lower() not in _UNITS:
        raise ValueError(f"format is bytes, kb or mb, not {format!r}")
    return size // _UNITS[format.lower()]
