"""Accesses of a given width: 32 to 256 bits from an element on, whatever its type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._core import Expr
from ..front.dtypes import as_dtype
from ..front.offered import named
from ..front.trace import builder, fail, in_kernel
from ..front.values import as_value
from ..front.vectors import Vector, as_vector
from .foreign import _start


def _load(name: str, size: int, doc: str) -> Callable:
    def load(src: Any, pred: Any = None) -> Expr:
        trace = in_kernel(f"T.{name}")
        buffer, index = _start(src, f"T.{name}")
        read = trace.builder.load_wide(name, buffer, index, size, None if pred is None else as_value(pred))
        return read if size == 4 else Vector(None, as_dtype("uint32").with_lanes(size // 4), wide=read)

    return named(load, name, doc)


def _store(name: str, size: int, doc: str) -> Callable:
    def store(dst: Any, value: Any, pred: Any = None) -> None:
        trace = in_kernel(f"T.{name}")
        buffer, index = _start(dst, f"T.{name}")
        condition = None if pred is None else as_value(pred)
        words = as_wide(value, size, f"T.{name}")
        trace.builder.store_wide(name, buffer, index, words, size, condition)
        trace.wrote(buffer)

    return named(store, name, doc)


def as_wide(value: Any, size: int, what: str) -> Any:
    """A vector of any dtype, or several values, as what a store of so many bytes takes."""
    vector = as_vector(value)
    if not isinstance(vector, Vector):
        return vector
    bits = vector.dtype.bits * len(vector)
    if bits != 8 * size:
        raise fail(f"{what} stores {size} bytes, and {vector.dtype} has {bits // 8}")
    if vector.wide is not None:
        return vector.wide
    words = vector.words
    if len(words) == 1:
        return words[0]
    return builder().call("interleave", words, as_dtype("uint32").with_lanes(len(words)))


WIDE = {}
for _bits in (32, 64, 128, 256):
    _many = (
        f"as a uint32x{_bits // 32}, which T.reinterpret makes a vector of another dtype"
        if _bits > 32
        else "as a uint32"
    )
    _aligned = f"The address must be divisible by {min(_bits // 8, 16)} bytes; pred: where it is false"
    for _letter, _what in (("g", "a tensor"), ("s", "a shared tile"))[: 2 if _bits < 256 else 1]:
        WIDE[f"ld{_letter}{_bits}"] = _load(
            f"ld{_letter}{_bits}",
            _bits // 8,
            f"{_bits} bits of {_what} from the element src on, in one "
            f"access, {_many}.\n\n    {_aligned}, the result is 0.",
        )
        WIDE[f"st{_letter}{_bits}"] = _store(
            f"st{_letter}{_bits}",
            _bits // 8,
            f"Store {_bits} bits to {_what}, the element dst on, in one "
            f"access, given {_many}.\n\n    {_aligned}, nothing is stored.",
        )
globals().update(WIDE)

__all__ = list(WIDE)
