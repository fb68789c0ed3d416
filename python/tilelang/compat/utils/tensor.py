"""Tensors for checks: what to put in them, how to compare them, their PyTorch types."""

from __future__ import annotations

from typing import Any

from ...front.dtypes import as_dtype
from ...tools.compare import torch_assert_close
from ...tools.supply import TensorSupplyType, get_tensor_supply

__all__ = ["TensorSupplyType", "get_tensor_supply", "map_torch_type", "torch_assert_close"]


def map_torch_type(intype: Any) -> Any:
    """The PyTorch dtype of a dtype in any spelling."""
    return as_dtype(intype).as_torch()
