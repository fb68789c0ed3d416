"""What the programs of bench/hopper_paths.py are: a factory of kernels, its sizes, what a call is given.

A file beside this one has `cases(small)`, which yields a Case for each program and size: with `small` few
blocks, for the simulator, with the same tiles.  Values are described, not made: NumPy makes them for the
simulator, PyTorch for the GPU.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

FAST = {"tl.enable_fast_math": True}
NARROW = ("bfloat16", "float8_e4m3fn", "float8_e5m2")  # that NumPy has from ml_dtypes
OUTPUTS = ("blank", "zero")


@dataclasses.dataclass(frozen=True)
class Tensor:
    """An argument.  kind: "normal" (times `high`), "uniform" and "ints" (from `low`, to below `high`),
    "decay" (a falling running sum of numbers up to `high`), "mask" (half of it, and the diagonal of the last
    two dimensions), "given" (`value`), "blank" (an output, NaN before the call), "zero" (one that is added
    to)."""

    shape: tuple[int, ...]
    dtype: str = "float16"
    kind: str = "normal"
    low: float = 0
    high: float = 1
    value: Any = None

    @property
    def is_output(self) -> bool:
        return self.kind in OUTPUTS

    def in_numpy(self, rng: np.random.Generator) -> np.ndarray:
        dtype = numpy_dtype(self.dtype)
        if self.kind == "given":
            return np.asarray(self.value, dtype)
        if self.kind == "zero":
            return np.zeros(self.shape, dtype)
        if self.kind == "blank":
            return np.full(self.shape, np.iinfo(dtype).min if dtype.kind in "iu" else np.nan, dtype)
        if self.kind == "mask":
            return ((rng.random(self.shape) < 0.5) | np.eye(*self.shape[-2:], dtype=bool)).astype(dtype)
        if self.kind == "ints":
            return rng.integers(int(self.low), int(self.high), self.shape).astype(dtype)
        if self.kind == "normal":
            return (rng.standard_normal(self.shape, np.float32) * self.high).astype(dtype)
        x = rng.uniform(self.low, self.high, self.shape)
        return (-np.cumsum(x, -1) if self.kind == "decay" else x).astype(dtype)

    def in_torch(self) -> Any:
        import torch

        dtype, there = getattr(torch, self.dtype), {"device": "cuda"}
        if self.kind == "given":
            return torch.as_tensor(np.asarray(self.value), **there).to(dtype)
        if self.kind == "zero":
            return torch.zeros(self.shape, dtype=dtype, **there)
        if self.kind == "blank":
            return poison(torch.empty(self.shape, dtype=dtype, **there))
        if self.kind == "mask":
            x = torch.rand(self.shape, **there) < 0.5
            return (x | torch.eye(*self.shape[-2:], dtype=torch.bool, **there)).to(dtype)
        if self.kind == "ints":
            whole = {"uint32": torch.int32}.get(
                self.dtype, dtype
            )  # random bits of a type that has no randint
            return torch.randint(int(self.low), int(self.high), self.shape, dtype=whole, **there).view(dtype)
        if self.kind == "normal":
            return (torch.randn(self.shape, **there) * self.high).to(dtype)
        x = torch.rand(self.shape, **there) * (self.high - self.low) + self.low
        return (-x.cumsum(-1) if self.kind == "decay" else x).to(dtype)


def numpy_dtype(name: str) -> np.dtype:
    if name not in NARROW:
        return np.dtype(name)
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name))


def poison(tensor: Any) -> Any:
    """An output's content before a call, so that what is left out is seen."""
    if tensor.is_floating_point():
        return tensor.fill_(math.nan)
    import torch

    return tensor.fill_(torch.iinfo(tensor.dtype).min)


@dataclasses.dataclass(frozen=True)
class Case:
    """A program at one size.  exact: float64 of all arguments -> the outputs, by number of argument; it is
    asked at small sizes only.  read: an output's array -> in the order of `exact`."""

    group: str
    label: str
    factory: Any  # of jit
    sizes: tuple
    arguments: Sequence[Tensor | int]
    exact: Callable[..., dict[int, np.ndarray]]
    pass_configs: dict[str, Any] = dataclasses.field(default_factory=dict)
    read: Callable[[np.ndarray], np.ndarray] | None = None
    bound: float = 2e-3  # of the relative error, in the simulator as between two paths

    @property
    def name(self) -> str:
        return f"{self.group} {self.label}"

    def program(self) -> Any:
        return self.factory.get_tir(*self.sizes)

    @property
    def outputs(self) -> list[int]:
        return [i for i, a in enumerate(self.arguments) if isinstance(a, Tensor) and a.is_output]


def blank(*shape: int, dtype: str = "float16") -> Tensor:
    return Tensor(shape, dtype, "blank")


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)
