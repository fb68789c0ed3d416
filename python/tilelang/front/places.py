"""Places that are kept: `v = A[b : b + 4]`, `[A[b], A[b + 1]]`, `macro(A[b])`.  Which elements these are is
decided where they are written down, so what their indices read from memory is read there."""

from __future__ import annotations

from typing import Any

from .._core import Expr, Region
from .trace import current
from .values import Element, as_value


def pinned(x: Any) -> Any:
    """`x`, a place or a tuple, list or dict of some, with indices that no later statement changes."""
    trace = current()
    if trace is None or trace.kernel is None:
        return x
    kind = x.__class__
    if kind is tuple:
        items = [pinned(item) for item in x]
        return x if _same(items, x) else tuple(items)
    if kind is list:
        x[:] = [pinned(item) for item in x]
    elif kind is dict:
        for key, item in x.items():
            x[key] = pinned(item)
    elif kind is Element:
        return _element(trace, x)
    elif kind is Region:
        return _region(trace, x)
    elif kind is Expr:
        held = trace.builder.held("t", x)
        return x if held is None else held
    return x


def _element(trace: Any, x: Element) -> Element:
    index = tuple([_read(trace, i) for i in x.index])
    if x.writes is None or _same(index, x.index):
        return x
    place = Element(x.buffer, index)
    place.writes, place.block = x.writes, x.block
    return place


def _region(trace: Any, x: Region) -> Region:
    starts, extents, points = zip(*x.ranges, strict=True)
    now = [_read(trace, i) for i in starts], [_read(trace, i) for i in extents]
    same = _same(now[0], starts) and _same(now[1], extents)
    return x if same else Region(x.buffer, *now, points)


def _read(trace: Any, i: Any) -> Any:
    if i is None or i.__class__ is int:
        return i
    value = as_value(i)
    held = trace.builder.held("i", value) if value.__class__ is Expr else None
    return i if held is None else held


def _same(a: Any, b: Any) -> bool:
    return all(x is y for x, y in zip(a, b, strict=True))
