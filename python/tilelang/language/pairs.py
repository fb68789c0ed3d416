"""Packed pairs: two neighbouring values, computed on together, by one instruction where there is one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._core import Buffer, Expr, Region
from ..front.dtypes import as_dtype
from ..front.indexing import places_of_pair
from ..front.offered import named
from ..front.trace import builder, fail
from ..front.values import Lanewise, as_value, lanewise


class Lanes:
    """Several values that belong together, such as neighbouring elements; T.extract_lane takes one.

    word: all of them as a uint32, the first in the lowest bits, where they came as one; else None."""

    __slots__ = ("lanes", "word")

    def __init__(self, lanes: tuple, word: Any = None) -> None:
        self.lanes, self.word = lanes, word

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
        words = [_word_of(b, x, pair, dtype) for x, pair in zip(operands, pairs, strict=True)]
        return _parted(b, b.let("pair", b.call(f"{name}_{dtype.name}", words)), dtype, 2)
    return Pair((compute(*[p[0] for p in pairs]), compute(*[p[1] for p in pairs])))


def _word(b: Any, lanes: Sequence) -> Expr:
    """The bits of several numbers, the first in the lowest, as an unsigned integer."""
    bits = lanes[0].dtype.bits
    wide, narrow = as_dtype(f"uint{bits * len(lanes)}"), as_dtype(f"uint{bits}")
    word = None
    for i, lane in enumerate(lanes):
        part = lane if lane.dtype == narrow else b.call("reinterpret", (lane,), narrow)
        part = part if wide == narrow else b.cast(wide, part)
        word = part if word is None else b.binary("or", word, b.binary("shl", part, bits * i))
    return word


def _word_of(b: Any, x: Any, pair: tuple, dtype: Any) -> Expr:
    if x.__class__ is Pair and x.word is not None:
        return x.word
    return _word(b, [lane if isinstance(lane, Expr) else b.const(lane, dtype) for lane in pair])


def _parted(b: Any, word: Expr, dtype: Any, count: int) -> Any:
    """The bits of an unsigned integer as so many numbers, the first from the lowest."""
    narrow = as_dtype(f"uint{dtype.bits}")
    lanes = []
    for i in range(count):
        part = b.binary("shr", word, dtype.bits * i) if i else word
        part = part if part.dtype == narrow else b.cast(narrow, part)
        lanes.append(part if dtype == narrow else b.call("reinterpret", (part,), dtype))
    return (Pair if count == 2 else Lanes)(tuple(lanes), word if word.dtype.bits == 32 else None)


def same_bits(value: Any, to: Any) -> Any:
    """T.reinterpret where several numbers stand side by side, in `value` or in the dtype `to`."""
    if value.__class__ is Region:
        value = lanewise(value)
    if value.__class__ is Lanewise:
        value = [value.element(n) for n in range(value.count)]
    lanes = [as_value(x) for x in value] if isinstance(value, (Lanes, tuple, list)) else [as_value(value)]
    kinds = {x.dtype if x.__class__ is Expr else x for x in lanes}
    if len(kinds) != 1 or not all(x.__class__ is Expr for x in lanes):
        raise fail(
            "T.reinterpret takes values of the kernel, of one dtype; give a number a dtype first: "
            "T.float32(1.0)"
        )
    (kind,) = kinds
    one, bits = to.with_lanes(1), kind.bits * len(lanes)
    from_, into = (f"{count} of {t}" for t, count in ((kind, len(lanes)), (one, to.lanes)))
    if bits != to.bits * to.lanes:
        raise fail(f"T.reinterpret: {from_} are {bits} bits, and {into} are {to.bits * to.lanes}")
    if bits not in (8, 16, 32, 64) or kind.bits % 8 or one.bits % 8:
        raise fail(f"T.reinterpret: {from_} do not fill 8, 16, 32 or 64 bits as whole bytes each")
    b = builder()
    word = value.word if isinstance(value, Lanes) else None
    word = b.let("word", _word(b, lanes)) if word is None else word
    if to.lanes > 1:
        return _parted(b, word, one, to.lanes)
    return word if word.dtype == one else b.call("reinterpret", (word,), one)


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
