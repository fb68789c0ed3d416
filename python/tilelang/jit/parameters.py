"""What a kernel takes: KernelParam, and lists of them as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..front.dtypes import dtype


class KernelParam:
    """A parameter of a kernel: its name, whether it is a tensor, its dtype and shape (names where not
    constant; () of a scalar)."""

    __slots__ = ("name", "is_tensor", "dtype", "shape")

    def __init__(
        self, dtype: Any, shape: Sequence[Any] = (), name: str = "", is_tensor: bool | None = None
    ) -> None:
        self.dtype, self.shape, self.name = _dtype(dtype), tuple(shape), name
        self.is_tensor = bool(self.shape) if is_tensor is None else is_tensor

    @classmethod
    def from_buffer(cls, buffer: Any) -> KernelParam:
        """Of what has a dtype and a shape: a tensor of a kernel, or an array."""
        return cls(buffer.dtype, buffer.shape, getattr(buffer, "name", ""), True)

    @classmethod
    def from_var(cls, var: Any) -> KernelParam:
        """Of a scalar value."""
        return cls(var.dtype, (), str(var), False)

    def is_scalar(self) -> bool:
        """Whether it is a number, not a tensor."""
        return not self.is_tensor

    def is_unsigned(self) -> bool:
        """Whether its dtype is an unsigned integer."""
        return self.dtype.startswith("uint")

    def is_float8(self) -> bool:
        """Whether its dtype is a float of 8 bits."""
        return self.dtype.startswith("float8")

    def is_float4(self) -> bool:
        """Whether its dtype is a float of 4 bits."""
        return self.dtype.startswith("float4")

    def is_boolean(self) -> bool:
        """Whether its dtype is bool."""
        return self.dtype == "bool"

    def tilelang_dtype(self) -> Any:
        """Its dtype."""
        return self.dtype

    def torch_dtype(self) -> Any:
        """The PyTorch dtype of its elements."""
        return self.dtype.as_torch()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KernelParam) and _row(self) == _row(other)

    def __hash__(self) -> int:
        return hash(_row(self))

    def __repr__(self) -> str:
        shape = f"[{', '.join(map(str, self.shape))}]" if self.is_tensor else ""
        return f"{self.name}: {self.dtype}{shape}"


_dtype = dtype


def _row(param: KernelParam) -> tuple:
    return str(param.dtype), param.shape, param.name, param.is_tensor


def of_rows(rows: list[dict[str, Any]]) -> list[KernelParam]:
    """Of what the compiler says of a function's parameters."""
    return [KernelParam(row["dtype"], row["shape"], row["name"], row["is_tensor"]) for row in rows]


def dump_kernel_params(params: Sequence[KernelParam]) -> str:
    """Parameters as text, JSON."""
    import json

    return json.dumps([[*_row(param)] for param in params])


def load_kernel_params(text: str) -> list[KernelParam]:
    """The parameters that dump_kernel_params wrote."""
    import json

    return [KernelParam(*row) for row in json.loads(text)]
