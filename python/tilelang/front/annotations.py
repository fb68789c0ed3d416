"""What parameters of a kernel are annotated with: T.Tensor and its kin, T.ptr."""

from __future__ import annotations

from typing import Any

from .. import _core
from . import dtypes
from .dtypes import as_dtype, element_of
from .errors import ArrayForNumber
from .interop import is_array
from .symbols import Const
from .trace import fail
from .values import Dynamic, as_value


class _TensorType(type):
    def __getitem__(cls, key: Any) -> Tensor:
        if not isinstance(key, tuple):
            return cls(key)
        if key and isinstance(key[0], (tuple, list)):
            return cls(*key)
        if not key or is_extent(key[-1]):
            return cls(key)
        return cls(key[:-1], key[-1])  # T.Tensor[M, N, dtype]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        data = args[2] if len(args) > 2 and cls is not StridedTensor else kwargs.get("data")
        if data is None:
            return super().__call__(*args, **kwargs)
        return _tensor_of(data, *args[:2], **{k: v for k, v in kwargs.items() if k != "data"})


def _tensor_of(data: Any, shape: Any, dtype: Any = "float32", strides: Any = None) -> _core.Buffer:
    if not hasattr(data, "viewed"):
        raise fail(f"T.Tensor: data is A.data of a tensor or tile A, not {type(data).__name__}")
    if strides is not None:
        raise fail("T.Tensor: a view of another buffer's data is row-major without gaps: leave strides out")
    return data.viewed(shape, dtype)


class Tensor(metaclass=_TensorType):
    """A parameter in global memory: `A: T.Tensor((M, K), "float16")`, `T.Tensor[[M, K], T.float16]`, or
    `T.Tensor[M, K, T.float16]`.

    shape: extents in elements; dtype: of an element, float32 if left out; strides: in elements, row-major
    without gaps if left out.  In a kernel T.Tensor(shape, dtype, A.data) is T.view(A, shape, dtype).  In an
    eager function extents and strides may be T.const names, and `A: T.Tensor` alone takes shape and dtype
    from the argument."""

    __slots__ = ("shape", "dtype", "strides", "lanes")

    def __init__(self, shape: Any, dtype: Any = "float32", data: Any = None, strides: Any = None) -> None:
        self.dtype, self.shape = element_of(dtype, _extents(shape, "shape", 0))
        self.strides = None if strides is None else _extents(strides, "strides", 0)
        self.lanes = lanes = dtypes.dtype(dtype).lanes
        if lanes > 1 and self.strides is not None:
            self.strides = (*[step * lanes for step in self.strides], 1)
        if self.strides is not None and len(self.strides) != len(self.shape):
            raise fail(f"T.Tensor: {len(self.shape)} extents but {len(self.strides)} strides")


def is_extent(x: Any) -> bool:
    """Can it stand for a number of elements?"""
    return isinstance(x, (Dynamic, _core.Expr)) or (hasattr(x, "__index__") and not isinstance(x, type))


def _extents(value: Any, what: str, least: int) -> tuple:
    items = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    result = []
    for item in items:
        if isinstance(item, (Dynamic, _core.Expr)) or isinstance(item, Const) and item.value is None:
            result.append(item)
        elif is_array(item):
            raise fail(
                f"T.Tensor: {what} must be integers, got an array ({type(item).__name__})", ArrayForNumber
            )
        elif isinstance(item, bool) or not hasattr(item, "__index__"):
            raise fail(f"T.Tensor: {what} must be integers, got {item!r}")
        elif item.__index__() < least:
            raise fail(f"T.Tensor: {what} {tuple(items)} has {item}, which is less than {least}")
        else:
            result.append(item if isinstance(item, Const) else item.__index__())
    return tuple(result)


class Buffer(Tensor):
    """The same as Tensor."""

    __slots__ = ()


class StridedTensor(Tensor):
    """A parameter in global memory with strides of its own: T.StridedTensor(shape, strides, dtype)."""

    __slots__ = ()

    def __init__(self, shape: Any, strides: Any, dtype: Any = "float32") -> None:
        super().__init__(shape, dtype, strides=strides)


class ptr:
    """`p: T.ptr` or `p: T.ptr(T.float16)`: a parameter that is an address; the call gives a tensor, or the
    number.

    T.Tensor([n], T.ptr) is a table of addresses, of int64.  T.ptr(dtype)(address): an integer of 64 bits,
    such as an element of a table of addresses, as a pointer.
    An address is only good for T.make_tensor and as an argument of foreign code."""

    __slots__ = ("dtype",)
    is_address = True

    def __init__(
        self, dtype: Any = None, storage_scope: str = "global", *, is_size_var: bool = False
    ) -> None:
        if storage_scope != "global":
            raise fail(f"T.ptr: only pointers to global memory can be passed, not to '{storage_scope}'")
        self.dtype = None if dtype is None else as_dtype(dtype)

    def __call__(self, address: Any) -> _core.Expr:
        return as_value(address)


def dimensions(n: int) -> str:
    """How many extents, in words."""
    return "1 extent" if n == 1 else f"{n} extents"


__all__ = ["Buffer", "StridedTensor", "Tensor", "ptr"]
