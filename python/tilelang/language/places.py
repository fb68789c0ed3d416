"""Where elements lie in their buffer, in row-major order."""

from __future__ import annotations

from typing import Any

from .. import _core
from ..front.indexing import Part
from ..front.values import binary


def run_of(base: Any) -> Any:
    """How many elements a slice has, if they follow one another in memory."""
    region = base.region if base.__class__ is Part else base
    if region.__class__ is not _core.Region:
        return None
    count, whole = 1, True
    for (_, extent, _), size in zip(reversed(region.ranges), reversed(region.buffer.shape), strict=True):
        one = extent.__class__ is int and extent == 1
        if not (whole or one):
            return None
        count = count * extent
        whole = whole and extent.__class__ is int and extent == size
    return count


def moved(shape: tuple, index: tuple, step: Any) -> tuple:
    """An index, so many elements further in row-major order."""
    if step.__class__ is int and step == 0:
        return index
    if len(shape) == 1:
        return (index[0] + step,)
    places: list = [None] * len(shape)
    carry = step
    for d in reversed(range(1, len(shape))):
        at = index[d] + carry
        places[d] = at % shape[d] if at.__class__ is int else binary("floormod", at, shape[d])
        carry = at // shape[d] if at.__class__ is int else binary("floordiv", at, shape[d])
    places[0] = index[0] + carry
    return tuple(places)
