"""Helpers that published programs import: `tilelang.utils.tensor`, `tilelang.utils.target`."""

from __future__ import annotations

from . import target, tensor
from .tensor import TensorSupplyType, get_tensor_supply, map_torch_type, torch_assert_close

__all__ = ["TensorSupplyType", "get_tensor_supply", "map_torch_type", "target", "tensor",
           "torch_assert_close"]  # fmt: skip
