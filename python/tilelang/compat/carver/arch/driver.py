"""Questions to the GPU, through PyTorch."""

from __future__ import annotations

from typing import Any

__all__ = ["get_cuda_device_properties", "get_device_name", "get_max_dynamic_shared_size_bytes",
           "get_num_sms"]  # fmt: skip


def get_cuda_device_properties(device_id: int = 0) -> Any:
    """PyTorch's description of a GPU; RuntimeError without one."""
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("no CUDA device answers here")
    return torch.cuda.get_device_properties(device_id)


def get_device_name(device_id: int = 0) -> str:
    """The GPU's name."""
    return get_cuda_device_properties(device_id).name


def get_num_sms(device_id: int = 0) -> int:
    """How many multiprocessors the GPU has: the blocks of a persistent kernel."""
    return get_cuda_device_properties(device_id).multi_processor_count


def get_max_dynamic_shared_size_bytes(device_id: int = 0) -> int:
    """The shared memory that a block may use, in bytes."""
    return get_cuda_device_properties(device_id).shared_memory_per_block_optin
