"""Packed pairs: two neighbouring values, computed on together, by one instruction where there is one."""

from __future__ import annotations

from typing import Any

from .._core import Buffer, Expr, Region
from ..front.dtypes import as_dtype
from ..front.indexing import places_of_pair
from ..front.offered import named
from ..front.trace import builder, fail
from ..front.values import Lanewise, as_value, lanewise


class Lanes:
    """Several values that belong together, such as neighbouring elements; T.extract_lane takes one."""

    __slots__ = ("lanes",)

    def __init__(self, lanes: tuple) -> None:
        self.lanes = lanes

    def __getitem__(self, lane: int) -> Any:
        return extract_lane(self, lane)

    def __iter__(self) -> Any:
        return iter(self.lanes)

    def __len__(self) -> int:
        return len(self.lanes)


class Pair(Lanes):
    """Two values that are computed on together: what add2 and its like return.

    Store it to a slice of two elements, `C[i : i + 2] = T.add2(…)`, or take its lanes apart: `p[0]`, `p[1]`.
    """

    __slots__ = ()


def as_pair(x: Any, what: str) -> tuple[Any, Any]:
    """The two lanes of a Pair, of a slice of two elements, of a tuple; of a single value twice that value."""
    if isinstance(x, Pair):
        return x.lanes
    if isinstance(x, (tuple, list)):
        if len(x) != 2:
            raise fail(f"{what} takes pairs, not {len(x)} values")
        return as_value(x[0]), as_value(x[1])
    if isinstance(x, Region):
        return _slice_of_two(x, what)
    if isinstance(x, Buffer) and x.scope != "var":
        raise fail(f"{what} takes a slice of two elements, {x.name}[…, i : i + 2], not the whole buffer")
    value = as_value(x)
    return value, value


def _slice_of_two(region: Region, what: str) -> tuple[Any, Any]:
    places = places_of_pair(region, what)
    b = builder()
    return b.load(region.buffer, places[0]), b.load(region.buffer, places[1])


_PACKED = ("float16", "bfloat16")


def _lanewise(name: str, compute: Any, *operands: Any) -> Pair:
    pairs = [as_pair(x, f"T.{name}") for x in operands]
    types = {lane.dtype for pair in pairs for lane in pair if isinstance(lane, Expr)}
    if len(types) == 1 and (dtype := types.pop()) in (as_dtype(packed) for packed in _PACKED):
        b = builder()
        words = [
            _word(b, [lane if isinstance(lane, Expr) else b.const(lane, dtype) for lane in pair])
            for pair in pairs
        ]
        word = b.let("pair", b.call(f"{name}_{dtype.name}", words))
        return Pair((_half(b, word, dtype), _half(b, b.binary("shr", word, 16), dtype)))
    return Pair((compute(*[p[0] for p in pairs]), compute(*[p[1] for p in pairs])))


def _word(b: Any, lanes: list) -> Expr:
    """The bits of two 16-bit floats, the first in the lower half."""
    wide, bits = as_dtype("uint32"), as_dtype("uint16")
    low, high = (b.cast(wide, b.call("reinterpret", (lane,), bits)) for lane in lanes)
    return b.binary("or", low, b.binary("shl", high, 16))


def _half(b: Any, word: Expr, dtype: Any) -> Expr:
    return b.call("reinterpret", (b.cast(as_dtype("uint16"), word),), dtype)


def _of_two(op: str, doc: str) -> Any:
    def pair(x: Any, y: Any) -> Pair:
        return _lanewise(f"{op}2", lambda a, b: builder().binary(op, a, b), x, y)

    return named(pair, f"{op}2", doc)


add2 = _of_two("add", "x + y of two pairs; each lane is rounded once, in its dtype.")
sub2 = _of_two("sub", "x - y of two pairs.")
mul2 = _of_two("mul", "x * y of two pairs.")
max2 = _of_two("max", "The greater of each lane; of a NaN and a number, the number.")
min2 = _of_two("min", "The lesser of each lane; of a NaN and a number, the number.")


def fma2(x: Any, y: Any, z: Any) -> Pair:
    """x * y + z of three pairs; each lane is rounded once."""
    return _lanewise("fma2", lambda a, b, c: builder().call("fma", (a, b, c)), x, y, z)


def abs2(x: Any) -> Pair:
    """The magnitude of each lane."""
    return _lanewise("abs2", lambda a: builder().call("abs", (a,)), x)


def extract_lane(vector: Any, lane: int, span: Any = None) -> Any:
    """A lane of several values: of what add2 and its like, or an atomic_addx4, return; of a slice, or an
    element of several lanes."""
    vector = lanewise(vector)
    if vector.__class__ is Lanewise:
        return as_value(vector.element(_lane(lane, vector.count, "elements")))
    if isinstance(vector, Lanes):
        return vector.lanes[_lane(lane, len(vector), "values")]
    if lane not in (0, 1):
        raise fail(f"T.extract_lane: a pair has the lanes 0 and 1, not {lane}")
    return as_pair(vector, "T.extract_lane")[lane]


def _lane(lane: Any, count: int, what: str) -> int:
    if lane.__class__ is not int or not 0 <= lane < count:
        raise fail(f"T.extract_lane: {count} {what} have the lanes 0 to {count - 1}, not {lane}")
    return lane


__all__ = ["abs2", "add2", "extract_lane", "fma2", "max2", "min2", "mul2", "sub2"]
