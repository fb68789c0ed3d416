"""`T.reduce` of several tiles at once, as for argmax: the values of one element travel together in 64 bits.

    T.reduce((x, index), (best, where), dim, combine=lambda a, b: …, identity=(-inf, 0))

becomes a fold of one int64 tile: its elements are packed, the user's function is applied to what they hold,
and the results are unpacked."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from .._core import Buffer, Expr, Region
from ..front import dtypes
from ..front.dtypes import DType
from ..front.indexing import as_operand, subscript
from ..front.trace import Trace, fail
from ..front.values import Element, as_value, binary
from . import scalar as _scalar
from .fold_by import WHAT as _WHAT
from .fold_by import begin, checked, function_of
from .tile import _tile

_WIDTH = 64


def _region(tile: Any) -> Region:
    return subscript(tile, (slice(None),) * len(tile.shape)) if tile.__class__ is Buffer else tile


def _extents(region: Region) -> list[int]:
    return [extent for _, extent, point in region.ranges if not point]


def _regions(given: Any, what: str) -> list[Region]:
    if not isinstance(given, (tuple, list)):
        raise fail(f"{_WHAT}: {what} is one tile, but the others are several: give a tuple of as many")
    regions = [_region(as_operand(x, f"{_WHAT}: {what}")) for x in given]
    for r in regions[1:]:
        if _extents(r) != _extents(regions[0]):
            raise fail(
                f"{_WHAT}: {regions[0].buffer.name} has the shape {tuple(_extents(regions[0]))} but "
                f"{r.buffer.name} {tuple(_extents(r))}; what is folded together has one shape"
            )
    return regions


class _Packing:
    """Values of these dtypes, the first one highest."""

    def __init__(self, types: Sequence[DType]) -> None:
        self.types = list(types)
        for t in types:
            if t.bits not in (8, 16, 32) or not (t.is_float or t.is_int) or t.bits == 8 and t.is_float:
                raise fail(
                    f"{_WHAT}: {t} cannot be folded with others; integers of 8 to 32 bits, float16, "
                    "bfloat16 and float32 can"
                )
        bits = sum(t.bits for t in types)
        if bits > _WIDTH:
            raise fail(
                f"{_WHAT}: {', '.join(map(str, types))} take {bits} bits together; one element of all "
                f"tiles may take {_WIDTH}"
            )

    def _places(self) -> list[tuple[DType, DType, int]]:
        places, at = [], 0
        for t in reversed(self.types):
            places.append((t, dtypes.as_dtype(f"uint{t.bits}"), at))
            at += t.bits
        return places[::-1]

    def pack(self, values: Sequence[Any]) -> Expr:
        word = None
        for value, (t, bits, at) in zip(values, self._places(), strict=True):
            part = _scalar.cast(value, t)
            if t != bits:
                part = _scalar.reinterpret(part, bits)
            part = _scalar.cast(part, "int64")
            part = binary("shl", part, at) if at else part
            word = part if word is None else binary("or", word, part)
        return word

    def unpack(self, word: Any) -> tuple[Any, ...]:
        values = []
        for t, bits, at in self._places():
            part = _scalar.cast(binary("shr", word, at) if at else word, bits)
            values.append(part if t == bits else _scalar.reinterpret(part, t))
        return tuple(values)

    def constant(self, values: Sequence[Any]) -> int:
        """The packed identity."""
        word = 0
        for value, (t, _, at) in zip(values, self._places(), strict=True):
            number = as_value(value)
            if number.__class__ is Expr:
                if not number.is_const:
                    raise fail(f"{_WHAT}: identity must be known while the kernel is built, not {number}")
                number = number.value
            word |= _bits(number, t) << at
        return word - (1 << _WIDTH) if word >> (_WIDTH - 1) else word


def _bits(number: float, t: DType) -> int:
    if not t.is_float:
        low, high = dtypes.limits(t)
        if number != int(number) or not low <= number <= high:
            raise fail(f"{_WHAT}: the identity {number} is no {t}")
        return int(number) & ((1 << t.bits) - 1)
    if t.name == "f16":
        return struct.unpack("<H", struct.pack("<e", number))[0]
    word = struct.unpack("<I", struct.pack("<f", number))[0]
    return word if t.bits == 32 else word >> 16


def _loop(trace: Trace, extents: list, body: Callable[[list], None]) -> None:
    n = len(extents)
    loops = trace.builder.begin_for(
        "parallel", ["i", "j", "k", "l", "m", "n"][:n], [0] * n, extents, [1] * n, {}
    )
    body(list(loops))
    trace.builder.end_for()


def _at(region: Region, loops: list) -> Element:
    rest = list(loops)
    index = [
        start if point else as_value(binary("add", start, rest.pop(0))) for start, _, point in region.ranges
    ]
    return Element(region.buffer, tuple(index))


def reduce_several(
    buffers: Any, outs: Any, attrs: dict[str, Any], annotations: Any, combine: Any, identity: Any
) -> None:
    """outs = the folds of buffers along a dimension, element by element together."""
    trace = begin(combine, identity)
    sources, targets = _regions(buffers, "the buffers"), _regions(outs, "the outs")
    count = len(sources)
    if len(targets) != count or not isinstance(identity, (tuple, list)) or len(identity) != count:
        given = len(identity) if isinstance(identity, (tuple, list)) else 1
        raise fail(
            f"{_WHAT}: {count} tiles are folded into {len(targets)}, with {given} identities; all "
            "must be as many"
        )
    packing = _Packing([r.buffer.dtype for r in targets])
    builder, int64 = trace.builder, dtypes.as_dtype("int64")

    def tile(name: str, extents: list) -> Buffer:
        return builder.alloc(name, "fragment", extents, int64, {})

    packed, folded = tile("packed", _extents(sources[0])), tile("folded", _extents(targets[0]) or [1])

    def gather(into: Buffer, regions: list[Region]) -> Callable[[list], None]:
        return lambda loops: builder.store(into, loops, packing.pack([_at(r, loops).load() for r in regions]))

    def scatter(loops: list) -> None:
        word = builder.let("word", builder.load(folded, loops))
        for r, value in zip(targets, packing.unpack(word), strict=True):
            _at(r, loops).store(value)

    _loop(trace, _extents(sources[0]), gather(packed, sources))
    if not attrs["clear"]:
        _loop(trace, _extents(targets[0]), gather(folded, targets))

    def compute(a: Expr, b: Expr) -> Expr:
        try:
            joined = combine(packing.unpack(a), packing.unpack(b))
        except TypeError as e:
            raise fail(f"{_WHAT}: combine is called with two tuples of {count} values: {e}") from None
        if not isinstance(joined, (tuple, list)) or len(joined) != count:
            raise fail(f"{_WHAT}: combine must give a tuple of {count} values, as it takes them")
        return packing.pack([checked(x, t) for x, t in zip(joined, packing.types, strict=True)])

    attrs["combine"] = function_of(trace, int64, compute, packing.constant(identity))
    _tile("reduce_by", (packed, folded), attrs, annotations, folded)
    _loop(trace, _extents(targets[0]), scatter)
