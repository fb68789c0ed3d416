"""CUDA's own functions of bits, and its load through the read-only cache, under their names there.

They compute with operators of the language, so that every target and the simulator have them."""

from __future__ import annotations

from typing import Any

from .._core import Buffer, Expr, Region
from ..front.indexing import subscript
from ..front.trace import builder, fail
from ..front.values import Element, as_value, binary
from ..front.vectors import as_vector
from .scalar import cast, if_then_else, popcount

_ALL = 0xFFFFFFFF


def _let(name: str, value: Any) -> Any:
    return builder().let(name, value) if value.__class__ is Expr else value


def _word(what: str, x: Any, bits: tuple = (32, 64)) -> Any:
    """x, an integer of such a width, as an unsigned one."""
    value = as_value(x)
    if value.__class__ is not Expr:
        value = cast(value, "int32")
    if value.dtype.is_float or value.dtype.bits not in bits:
        raise fail(f"{what} takes an integer of {' or '.join(map(str, bits))} bits, not {value.dtype}")
    return _let("x", cast(value, f"uint{value.dtype.bits}"))


def __ffs(x: Any) -> Expr:
    """The place of the lowest 1 of an integer, counted from 1; 0 where there is none.  An int32."""
    word = _word("T.__ffs", x)
    lowest = cast(popcount(word ^ (word - 1)), "int32")
    return if_then_else(binary("eq", word, 0), cast(0, "int32"), lowest)


def __fns(mask: Any, base: Any, offset: Any) -> Expr:
    """The place of the offset-th 1 of a 32-bit mask from bit `base` on, upwards, or downwards if offset < 0.

    Bit base itself counts; offset 0 asks for it alone.  0 <= base < 32.  A uint32, 0xffffffff where there is
    no such bit."""
    word, base = _word("T.__fns", mask, (32,)), _let("base", cast(base, "int32"))
    offset = _let("offset", cast(offset, "int32"))
    up = binary("gt", offset, 0)
    here = binary("eq", offset, 0)
    ones = cast(_ALL, "uint32")
    first = cast(base, "uint32")
    beside = if_then_else(binary("ge", offset, 0), ones << first, ones >> (31 - first))
    kept = _let("kept", word & if_then_else(here, cast(1, "uint32") << first, beside))
    count = _let("count", cast(popcount(kept), "int32"))
    rank = _let("rank", if_then_else(up, offset, if_then_else(here, 1, count + 1 + offset)))
    return if_then_else(
        binary("and", binary("ge", rank, 1), binary("le", rank, count)), _of_rank(kept, rank), ones
    )


def _of_rank(word: Any, rank: Any) -> Any:
    """The place of the rank-th 1, counted from 1: the half that has it, five times."""
    place = cast(0, "uint32")
    for width in (16, 8, 4, 2, 1):
        part = (word >> place) & ((1 << width) - 1)
        count = _let("count", cast(popcount(part), "int32"))
        above = binary("gt", rank, count)
        rank = _let("rank", if_then_else(above, rank - count, rank))
        place = _let("place", if_then_else(above, place + width, place))
    return place


def __ldg(x: Any, index: Any = None) -> Any:
    """An element of a tensor that the kernel does not write to: `T.__ldg(A[i])`, or T.__ldg(A, i); of
    a slice, `T.__ldg(A[i, 0:4])`, or an element of several lanes, a vector.

    A load like any other: reads of such tensors go through the read-only cache by themselves."""
    if x.__class__ is Buffer and index is not None:
        x = subscript(x, index)
    if x.__class__ is Region and x.buffer.scope == "global":
        return as_vector(x)
    if x.__class__ is not Element or x.buffer.scope != "global":
        raise fail("T.__ldg takes an element of a tensor, T.__ldg(A[i]), or the tensor and an index")
    return x.load()


__all__ = ["__ffs", "__fns", "__ldg"]
