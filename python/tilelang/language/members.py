"""What the published language's buffers have beside their elements: strides, their data, addresses, vector
loads and stores, and a scope that can be called."""

from __future__ import annotations

import re
from typing import Any

from .._core import Buffer
from ..front.dtypes import DType, as_dtype
from ..front.errors import caller_place, compile_error
from ..front.indexing import store, subscript
from ..front.trace import fail
from ..front.values import VECTORS
from .foreign import Pointer, access_ptr
from .operators import view


class Scope(str):
    """Where a buffer lives, as this package says it; called, `A.scope()`, as published programs name it."""

    __slots__ = ()
    published = {"shared": "shared.dyn", "fragment": "local.fragment", "var": "local.var"}

    def __call__(self) -> str:
        return self.published.get(self, str(self))


class Data:
    """The elements of a buffer, `A.data`: T.Tensor(shape, dtype, A.data) shows them in another shape; as an
    argument of foreign code it is the address of the first one."""

    __slots__ = ("buffer",)

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer

    def viewed(self, shape: Any, dtype: Any) -> Buffer:
        """The same elements in another shape."""
        return view(self.buffer, shape, dtype)

    def pointer(self) -> Pointer:
        """The address of the first element."""
        return access_ptr(self.buffer, "rw")

    def _refuse(self, *_: Any) -> Any:
        name = self.buffer.name
        raise compile_error(
            f"{name}.data cannot be used in address arithmetic: {name}[i] is an element, {name}[4:8] a "
            f"part; foreign code takes T.access_ptr({name}, offset=4), the address of the element 4",
            caller_place(),
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __getitem__ = __setitem__ = __index__ = _refuse


def _strides(self: Buffer) -> tuple:
    """In elements, an int or a value for each dimension."""
    if self.given_strides:
        return self.given_strides
    strides: list[Any] = [1]
    for extent in reversed(self.shape[1:]):
        strides.insert(0, strides[0] * extent)
    return tuple(strides[len(strides) - len(self.shape) :])


def _access_ptr(
    self: Buffer,
    access_mask: Any,
    ptr_type: Any = "handle",
    content_lanes: int = 1,
    offset: Any = 0,
    extent: Any = None,
) -> Pointer:
    """T.access_ptr of this buffer; access_mask: "r", "w", "rw", or 1, 2, 3."""
    if content_lanes != 1:
        raise fail(
            f"{self.name}.access_ptr: content_lanes is {content_lanes}; offset and extent count elements"
        )
    return access_ptr(self, access_mask, offset=offset, extent=extent)


def _part(buffer: Buffer, begin: Any, lanes: int) -> tuple:
    index = tuple(begin) if isinstance(begin, (tuple, list)) else (begin,)
    last = index[-1]
    return index if lanes == 1 else (*index[:-1], slice(last, last + lanes))


def _vload(self: Buffer, begin: Any, dtype: Any = None) -> Any:
    """The element at begin; of a dtype of several lanes ("float32x4") the slice that begins there."""
    text = str(self.dtype if dtype is None else dtype)
    base, lanes = re.fullmatch(r"(\w+?)(?:x(\d+))?", text).groups()
    if as_dtype(base) != as_dtype(self.dtype):
        raise fail(
            f"{self.name}.vload: {text} is asked for, but the elements of {self.name} are "
            f"{DType.__repr__(self.dtype)}: T.view shows the buffer in another dtype"
        )
    return subscript(self, _part(self, begin, int(lanes or 1)))


def _vstore(self: Buffer, begin: Any, value: Any) -> None:
    """Store a value at begin; of a slice, or what is computed with slices, so many neighbouring elements."""
    count = len(value) if value.__class__ in VECTORS else getattr(value, "count", None)
    if count is None:
        sizes = [extent for _, extent, point in getattr(value, "ranges", ()) if not point]
        count = sizes[-1] if sizes else 1
    store(self, _part(self, begin, count), value)


def _attach() -> None:
    scope = Buffer.scope
    words = {name: Scope(name) for name in ("global", "shared", "fragment", "local", "var")}
    Buffer.scope = property(lambda self: words[scope.__get__(self)])
    Buffer.data = property(Data, doc="The elements, for T.Tensor(shape, dtype, A.data) and foreign code.")
    Buffer.strides = property(_strides)
    Buffer.elem_offset = property(lambda self: 0, doc="Where the first element lies in its data.")
    Buffer.access_ptr, Buffer.vload, Buffer.vstore = _access_ptr, _vload, _vstore


_attach()
