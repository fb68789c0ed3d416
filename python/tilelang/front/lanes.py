"""Elements that are vectors: `X[i]` of a tensor or tile of "float32x4", whose last dimension is the lanes.

X[i][0] and X[i].x are the element X[i, 0], which is read and stored as such; `v = X[i]` reads all lanes
there."""

from __future__ import annotations

from typing import Any

from .._core import Region
from .errors import UnknownName, caller_place, compile_error
from .indexing import store, subscript
from .trace import current, fail
from .values import VECTORS, Lanewise, constant
from .vectors import as_vector, lane_number
from .wording import no_elements

NAMES = "xyzw"


def is_element(x: Any) -> bool:
    """Is it one element of a buffer of vectors?"""
    trace = current()
    if trace is None or x.__class__ is not Region or x.buffer.id not in trace.laned:
        return False
    *points, (first, count, point) = x.ranges
    lanes = x.buffer.shape[-1]
    return all(is_point for *_, is_point in points) and not point and first == 0 and constant(count) == lanes


def is_several(x: Any) -> bool:
    """Is it such an element, or what is computed with slices?"""
    return x.__class__ is Lanewise or is_element(x)


def value_of(x: Any) -> Any:
    """The vector that such an element is where it is read; anything else as it is."""
    return as_vector(x) if is_element(x) else x


def _index(element: Region, lane: Any) -> tuple:
    if not is_element(element):
        name = element.buffer.name
        raise fail(
            no_elements(f"a slice of {name}")
            + f'; its values as a vector, with lanes, are T.cast({name}[…], "{element.buffer.dtype}x4")'
        )
    *points, _ = element.ranges
    if lane.__class__ is not slice:
        lane = lane_number(lane, element.buffer.shape[-1], computed=True)
    return (*[start for start, *_ in points], lane)


def lane_of(element: Region, lane: Any) -> Any:
    """`X[i][lane]`"""
    return subscript(element.buffer, _index(element, lane))


def store_lane(element: Region, lane: Any, value: Any) -> None:
    """`X[i][lane] = value`"""
    store(element.buffer, _index(element, lane), value)


def named(x: Any, name: str) -> int | None:
    """The number of the lane that CUDA calls x, y, z or w, of a vector of up to four; else None."""
    if len(name) != 1 or name not in NAMES:
        return None
    if x.__class__ in VECTORS:
        count = len(x)
    elif is_element(x):
        count = x.buffer.shape[-1]
    elif x.__class__ is Lanewise:
        count = x.count
    else:
        return None
    lane = NAMES.index(name)
    if count > len(NAMES) or lane >= count:
        text = f"a vector of {count} lanes has no lane '{name}': they are v[0] to v[{count - 1}]"
        raise compile_error(text, caller_place(), UnknownName)
    return lane
