"""Inputs for a kernel that is measured or checked: PyTorch's where the program uses it, else NumPy's."""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ..front.dtypes import DType


class TensorSupplyType(enum.Enum):
    """What the elements of an input are.

    Auto draws floats evenly from [-1, 1), signed integers from -2 to 2, unsigned ones from 0 to 2, bool from
    both, and of 8-bit floats what whole numbers from -128 to 127 become. Integer is the same for all but
    wide floats, which are whole numbers from -2 to 2. Uniform is [-1, 1), Normal has mean -1 and deviation
    1, Randn mean 0 and deviation 1; int8 is all ones under Uniform and Normal. Zero and One are
    constants."""

    Integer = 1
    Uniform = 2
    Normal = 3
    Randn = 4
    Zero = 5
    One = 6
    Auto = 7


def get_tensor_supply(supply_type: TensorSupplyType = TensorSupplyType.Integer) -> Callable[[Any], Any]:
    """A function from a parameter (`kernel.params`) to a new array for it: on the GPU for a kernel that runs
    there, else of PyTorch if the program has imported it, else of NumPy."""

    def supply(param: Any, device_type: str | None = None) -> Any:
        return make_input(supply_type, param, device_type or default_device())

    return supply


def make_input(
    supply: TensorSupplyType, param: Any, device_type: str, extents: Mapping[str, int] | None = None
) -> Any:
    """One argument for `param`."""
    if not param.is_tensor:
        return 1.0 if param.dtype.is_float else 1
    shape = []
    for extent in param.shape:
        value = extent if isinstance(extent, int) else (extents or {}).get(str(extent))
        if value is None:
            raise ValueError(
                f"{param!r}: the extent {extent} is known only when the kernel is called: pass "
                f"input_tensors, or dynamic_symbolic_constraints={{'{extent}': …}}"
            )
        shape.append(int(value))
    return to_framework(_values(supply, shape, param.dtype), param.dtype, device_type)


def _values(supply: TensorSupplyType, shape: list[int], dtype: DType) -> Any:
    import numpy

    rng, kind = numpy.random.default_rng(), TensorSupplyType
    signed = not dtype.name.startswith("u")
    narrow = dtype.is_float and dtype.bits <= 8
    bytes_of_ones = str(dtype) == "int8" and supply in (kind.Uniform, kind.Normal)
    if supply in (kind.Zero, kind.One) or bytes_of_ones:
        array = numpy.full(shape, supply is not kind.Zero)
    elif supply is kind.Integer or (supply is kind.Auto and (narrow or not dtype.is_float)):
        bounds = (0, 2) if dtype.name == "bool" else (-128, 128) if narrow else (-2 if signed else 0, 3)
        array = rng.integers(*bounds, shape)
    elif supply in (kind.Auto, kind.Uniform):
        array = rng.random(shape, numpy.float32) * 2 - 1
    else:
        array = rng.standard_normal(shape, numpy.float32) - (supply is kind.Normal)
    return (array if signed else array.clip(0)).astype(dtype.as_numpy())


def to_framework(array: Any, dtype: DType, device_type: str) -> Any:
    """A NumPy array as the program's kind of tensor, on that device."""
    torch = sys.modules.get("torch")
    if torch is None and device_type == "cpu":
        return array
    if torch is None:
        try:
            import torch
        except ImportError:
            raise RuntimeError(
                "inputs of a CUDA kernel are PyTorch tensors: install PyTorch, or pass input_tensors"
            ) from None
    import numpy

    wanted = dtype.as_torch()
    if array.dtype.kind == "V":  # a type that only ml_dtypes knows: through its bits
        tensor = torch.from_numpy(array.view(numpy.dtype(f"u{array.itemsize}"))).view(wanted)
    else:
        tensor = torch.from_numpy(array)
    return tensor if device_type == "cpu" else tensor.to(device_type)


def default_device() -> str:
    """Where arrays live that nobody asked for elsewhere: "cuda" if PyTorch has one, else "cpu"."""
    torch = sys.modules.get("torch")
    return "cuda" if torch is not None and torch.cuda.is_available() else "cpu"
