"""Vectors: pairs that are computed on together, by one instruction where there is one; lanes taken apart and
put together."""

from __future__ import annotations

from typing import Any

from .._core import Buffer, Expr, Region
from ..front.dtypes import DataType
from ..front.indexing import places_of_pair
from ..front.offered import named
from ..front.trace import builder, fail
from ..front.values import Lanewise, as_value, constant, lanewise
from ..front.vectors import Vector, as_vector, is_vector, lane_by_lane, packed, splat, vector_of


def as_pair(x: Any, what: str) -> Any:
    """A vector of two; of a slice of two elements or a tuple such a one; of a value twice that value."""
    if is_vector(x) or x.__class__ is Lanewise:
        vector = as_vector(x)
        if len(vector) != 2:
            raise fail(f"{what} takes pairs, not {len(vector)} values")
        return vector
    if isinstance(x, (tuple, list)):
        if len(x) != 2:
            raise fail(f"{what} takes pairs, not {len(x)} values")
        values = [as_value(lane) for lane in x]
        return vector_of(values, None if any(v.__class__ is Expr for v in values) else "float32")
    if isinstance(x, Region):
        places_of_pair(x, what)
        return as_vector(x)
    if isinstance(x, Buffer) and x.scope != "var":
        raise fail(f"{what} takes a slice of two elements, {x.name}[…, i : i + 2], not the whole buffer")
    value = as_value(x)
    return splat(value, 2) if value.__class__ is Expr else value


def _lanewise(name: str, compute: Any, *operands: Any) -> Vector:
    pairs = [as_pair(x, f"T.{name}") for x in operands]
    if not any(is_vector(x) for x in pairs):
        pairs = [splat(x, 2) for x in pairs]
    made = packed(name.removesuffix("2"), *pairs)
    return lane_by_lane(compute, *pairs) if made is None else made


def _of_two(op: str, doc: str) -> Any:
    def pair(x: Any, y: Any) -> Vector:
        return _lanewise(f"{op}2", lambda a, b: builder().binary(op, a, b), x, y)

    return named(pair, f"{op}2", doc)


add2 = _of_two("add", "x + y of two pairs; each lane is rounded once, in its dtype.")
sub2 = _of_two("sub", "x - y of two pairs.")
mul2 = _of_two("mul", "x * y of two pairs.")
max2 = _of_two("max", "The greater of each lane; of a NaN and a number, the number.")
min2 = _of_two("min", "The lesser of each lane; of a NaN and a number, the number.")


def fma2(x: Any, y: Any, z: Any) -> Vector:
    """x * y + z of three pairs; each lane is rounded once."""
    return _lanewise("fma2", lambda a, b, c: builder().call("fma", (a, b, c)), x, y, z)


def abs2(x: Any) -> Vector:
    """The magnitude of each lane."""
    return _lanewise("abs2", lambda a: builder().call("abs", (a,)), x)


def extract_lane(vector: Any, lane: int, span: Any = None) -> Any:
    """A lane of a vector: of what a cast, T.ldg128, add2 and its like return; of a slice, or an element of
    several lanes."""
    lane, vector = constant(as_value(lane)), lanewise(vector)
    if vector.__class__ is Lanewise:
        return as_value(vector.element(_lane(lane, vector.count, "elements")))
    if is_vector(vector):
        return as_value(vector[_lane(lane, len(vector), "values")])
    if lane not in (0, 1):
        raise fail(f"T.extract_lane: a pair has the lanes 0 and 1, not {lane}")
    pair = as_pair(vector, "T.extract_lane")
    return pair[lane] if is_vector(pair) else pair


def _lane(lane: Any, count: int, what: str) -> int:
    if lane.__class__ is not int or not 0 <= lane < count:
        raise fail(f"T.extract_lane: {count} {what} have the lanes 0 to {count - 1}, not {lane}")
    return lane


def Shuffle(vectors: Any, indices: Any, span: Any = None) -> Any:
    """A vector of the lanes with these numbers, counted through all the vectors; of one number that lane."""
    lanes = [lane for x in vectors for lane in _lanes_of(x, "T.Shuffle")]
    numbers = [constant(as_value(n)) for n in indices]
    for n in numbers:
        if n.__class__ is not int or not 0 <= n < len(lanes):
            raise fail(f"T.Shuffle: the vectors have the lanes 0 to {len(lanes) - 1} together, not {n}")
    if not numbers:
        raise fail("T.Shuffle: no lane is asked for")
    return lanes[numbers[0]] if len(numbers) == 1 else vector_of([lanes[n] for n in numbers])


def _lanes_of(x: Any, what: str) -> tuple:
    vector = as_vector(x)
    if is_vector(vector):
        return vector.lanes
    if vector.__class__ is not Expr:
        raise fail(f"{what} takes vectors, not {vector!r}; T.float32(1.0) has a dtype")
    return (vector,)


def vectorlow(dtype: Any, vec: Any) -> Any:
    """The first half of a vector's lanes; dtype: what it then is."""
    return _half(dtype, vec, 0, "T.vectorlow")


def vectorhigh(dtype: Any, vec: Any) -> Any:
    """The second half of a vector's lanes; dtype: what it then is."""
    return _half(dtype, vec, 1, "T.vectorhigh")


def _half(dtype: Any, vec: Any, which: int, what: str) -> Any:
    lanes = _lanes_of(vec, what)
    if len(lanes) % 2:
        raise fail(f"{what} takes a vector of an even number of lanes, not of {len(lanes)}")
    half = len(lanes) // 2
    return _made(dtype, lanes[which * half : (which + 1) * half], what)


def vectorcombine(dtype: Any, vec1: Any, vec2: Any) -> Any:
    """The lanes of two vectors, those of the first first; dtype: what they then are."""
    what = "T.vectorcombine"
    return _made(dtype, (*_lanes_of(vec1, what), *_lanes_of(vec2, what)), what)


def _made(dtype: Any, lanes: tuple, what: str) -> Any:
    asked = DataType(dtype)
    if asked.lanes != len(lanes) or asked.with_lanes(1) != lanes[0].dtype:
        have = "is 1 lane" if len(lanes) == 1 else f"are {len(lanes)} lanes"
        raise fail(f"{what}: dtype is {asked}, but there {have} of {lanes[0].dtype}")
    return lanes[0] if len(lanes) == 1 else vector_of(lanes)


__all__ = ["abs2", "add2", "extract_lane", "fma2", "max2", "min2", "mul2", "Shuffle", "sub2", "vectorcombine",
           "vectorhigh", "vectorlow"]  # fmt: skip
