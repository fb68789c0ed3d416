"""Parameters that are addresses until the body says what lies there."""

from __future__ import annotations

from .._core import Buffer, Expr
from .annotations import Tensor, ptr
from .trace import Trace, fail
from .values import Late, as_value


class handle(ptr):
    """`a: T.handle`: a parameter that T.match_buffer(a, shape, dtype) makes a tensor; without it an address,
    as T.ptr."""

    __slots__ = ()


class Handle(Late):
    """Such a parameter in the body."""

    __slots__ = ("trace", "name", "made")

    def __init__(self, trace: Trace, name: str) -> None:
        self.trace, self.name, self.made = trace, name, None

    def load(self) -> Expr:
        """The address."""
        if self.made is None:
            self.made = self.trace.builder.pointer(self.name)
        if self.made.__class__ is Buffer:
            raise fail(
                f"{self.name} is the tensor {self.made.name} since T.match_buffer; its address is "
                f"T.access_ptr({self.made.name})"
            )
        return self.made

    def tensor(self, kind: Tensor) -> Buffer:
        """The tensor that it is."""
        if self.made is not None:
            raise fail(
                f"{self.name} is matched or used as an address already: T.match_buffer comes first, once"
            )
        strides = None if kind.strides is None else [as_value(n) for n in kind.strides]
        shape = [as_value(n) for n in kind.shape]
        made = self.trace.builder.tensor(self.name, shape, kind.dtype, strides)
        self.made = self.trace.of_lanes(made, kind.lanes)
        return self.made
