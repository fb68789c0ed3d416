"""Helpers of tilelang.utils that published programs import: tensors for checks, devices, what a buffer is."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

from .._core import Region
from ..front.dtypes import as_dtype, dtype
from ..tools.compare import torch_assert_close
from ..tools.supply import TensorSupplyType, default_device, get_tensor_supply

__all__ = ["TensorSupplyType", "array_reduce", "bits_product", "device_synchronize",
           "fp8_remove_negative_zeros_", "get_available_cpu_count", "get_buffer_elems", "get_current_device",
           "get_prim_func_name", "get_tensor_supply", "is_float8_dtype", "is_fragment", "is_full_region",
           "is_global", "is_local", "is_local_var", "is_shared", "is_shared_dynamic", "is_tensor_memory",
           "map_torch_type", "prim_expr_equal", "retrieve_dtype", "retrieve_shape", "retrieve_stride",
           "torch_assert_close"]  # fmt: skip


def map_torch_type(intype: Any) -> Any:
    """The PyTorch dtype of a dtype in any spelling."""
    return as_dtype(intype).as_torch()


def is_float8_dtype(dtype: Any) -> bool:
    """Whether a dtype, PyTorch's or in any spelling, is a float of 8 bits."""
    return "float8" in str(dtype)


def fp8_remove_negative_zeros_(tensor: Any) -> Any:
    """Make the negative zeros of a PyTorch tensor of 8-bit floats positive, in place; the tensor."""
    import torch

    bits = tensor.view(torch.uint8)
    bits[bits == 0x80] = 0
    return tensor


def get_current_device() -> Any:
    """PyTorch's device: its current GPU, else the CPU."""
    import torch

    on_gpu = default_device() == "cuda"
    return torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")


def device_synchronize(device: Any = None) -> None:
    """Wait until a GPU has done what it was given."""
    if default_device() == "cuda":
        import torch

        torch.cuda.synchronize(device)


def get_available_cpu_count() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def __getattr__(name: str) -> bool:
    if name in ("IS_CUDA", "IS_MPS", "IS_NPU"):  # which GPU PyTorch computes on
        import torch

        return name == "IS_CUDA" and torch.cuda.is_available()
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def _scope(buffer: Any) -> str:
    return str(getattr(buffer, "buffer", buffer).scope)


def _lies(name: str, what: str, scope: str) -> Callable[[Any], bool]:
    def ask(buffer: Any) -> bool:
        return _scope(buffer) == scope

    ask.__name__ = ask.__qualname__ = name
    ask.__doc__ = f"Whether it is {what}."
    return ask


is_global = _lies("is_global", "a tensor", "global")
is_fragment = _lies("is_fragment", "a tile in registers of a block's threads", "fragment")
is_local = _lies("is_local", "an array of one thread", "local")
is_local_var = _lies("is_local_var", "a variable", "var")


def is_shared(buffer: Any, allow_dynamic: bool = True) -> bool:
    """Whether it is a tile in shared memory, all of which is allocated at the launch."""
    return allow_dynamic and _scope(buffer).startswith("shared")


is_shared_dynamic = is_shared


def is_tensor_memory(buffer: Any) -> bool:
    """Whether it lies in tensor memory, which no chip here has: False."""
    return False


def retrieve_shape(obj: Any) -> list[Any]:
    """The extents of a buffer, or of a part of one."""
    return [extent or 1 for _, extent, _ in obj.ranges] if isinstance(obj, Region) else list(obj.shape)


def retrieve_dtype(obj: Any) -> dtype:
    """The dtype of a buffer, of a part of one, or of a value."""
    return dtype(getattr(obj, "buffer", obj).dtype)


def retrieve_stride(obj: Any) -> list[Any]:
    """How far apart neighbours along each dimension of a buffer are, in row-major order."""
    shape = list(getattr(obj, "buffer", obj).shape)
    return [math.prod(shape[d + 1 :]) for d in range(len(shape))]


def is_full_region(buffer_region: Any) -> bool:
    """Whether a part of a buffer is all of it."""
    part = buffer_region
    return not isinstance(part, Region) or retrieve_shape(part) == list(part.buffer.shape)


def get_buffer_elems(buffer: Any) -> Any:
    """How many elements a buffer has."""
    return array_reduce(buffer.shape)


def array_reduce(array: Sequence[Any]) -> Any:
    """The product of numbers."""
    return math.prod(array)


def bits_product(shape: Sequence[Any], dtype: Any) -> Any:
    """How many bits elements of that dtype and shape have."""
    return array_reduce(shape) * as_dtype(dtype).bits


def prim_expr_equal(lhs: Any, rhs: Any) -> bool:
    """Whether two numbers, or values of a kernel, are written the same."""
    return str(lhs) == str(rhs)


def get_prim_func_name(func: Any, default: str | None = None) -> str | None:
    """The name of a prim_func."""
    return getattr(func, "name", default)
