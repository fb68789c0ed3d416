"""Tiles that were allocated without a dtype: the first tile operator that touches one says what it is.

`T.alloc_shared(block_M, block_K)` makes a tile whose dtype is open.  Clearing it, or filling it with a Python
number, leaves it open; a copy gives it the dtype of the other side, a gemm that of the other operand, and the
accumulator float32 (float64 for float64 operands, int32 for integers).  Two open tiles that are copied onto
each other will have one dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._core import Buffer, Expr
from . import dtypes
from .dtypes import DType
from .errors import caller_place, compile_error
from .trace import Trace, current, fail
from .wording import shape_of

PLACEHOLDER = dtypes.float64  # holds every number that may be filled in meanwhile


class _Open:
    """Tiles that will have one dtype, which nobody knows yet."""

    __slots__ = ("tiles", "place")

    def __init__(self, tile: Buffer, place: tuple) -> None:
        self.tiles, self.place = [tile], place


def leave_open(trace: Trace, tile: Buffer) -> None:
    """Remember that nobody has said yet what `tile` holds."""
    trace.undecided[tile.id] = _Open(tile, (trace.file, *trace.site))


def refuse_scalar(trace: Trace, tile: Buffer, what: str) -> None:
    """An error if the dtype of `tile` is still open, because its elements are used one by one."""
    if tile.id in trace.undecided:
        raise fail(
            f"{what} {tile.name}, whose dtype is not known yet: it was allocated without one, and no "
            "tile operator has said it since (T.clear, and T.fill by a number, do not); give it "
            f"one, T.alloc_...({shape_of(tile)}, dtype)"
        )


def decide(op: str, operands: Sequence[Any]) -> None:
    """Before a tile operator is built: its open operands get their dtypes."""
    trace = current()
    if trace is None or not trace.undecided:
        return
    tiles = [x if x.__class__ is Buffer else getattr(x, "buffer", None) for x in operands]
    if not any(tile is not None and tile.id in trace.undecided for tile in tiles):
        return
    if op == "clear":
        return
    if op == "fill":
        if operands[1].__class__ is Expr:
            _set(trace, tiles[0], operands[1].dtype)
    elif op == "gemm":
        _decide_gemm(trace, tiles)
    else:
        _decide_alike(trace, op, [tile for tile in tiles if tile is not None])


def _decide_gemm(trace: Trace, tiles: list) -> None:
    known = _known(trace, tiles[:2])
    if known is None:
        raise _nothing_known(trace, "gemm", tiles[:2])
    for tile in tiles[:2]:
        _set(trace, tile, known)
    wide = known if known == dtypes.float64 else dtypes.float32
    _set(trace, tiles[2], wide if known.is_float else dtypes.int32)


def _decide_alike(trace: Trace, op: str, tiles: list) -> None:
    known = _known(trace, tiles)
    if known is not None:
        for tile in tiles:
            _set(trace, tile, known)
    elif op in ("copy", "async_copy", "tma_copy"):
        first, second = (trace.undecided[tile.id] for tile in tiles)
        if first is not second:
            first.tiles += second.tiles
            for tile in second.tiles:
                trace.undecided[tile.id] = first
    else:
        raise _nothing_known(trace, op, tiles)


def _known(trace: Trace, tiles: list) -> DType | None:
    return next((tile.dtype for tile in tiles if tile.id not in trace.undecided), None)


def _set(trace: Trace, tile: Buffer, dtype: DType) -> None:
    group = trace.undecided.get(tile.id)
    for member in group.tiles if group is not None else ():
        trace.builder.set_dtype(member, dtype)
        del trace.undecided[member.id]


def _nothing_known(trace: Trace, op: str, tiles: list) -> Exception:
    names = " and ".join(dict.fromkeys(tile.name for tile in tiles))
    return fail(
        f"T.{op}: the dtype of {names} is not known: allocated without one, and nothing was copied "
        f"there before; give it one, T.alloc_...({shape_of(tiles[0])}, dtype)"
    )


def check_all_known(trace: Trace) -> None:
    """At the end of a kernel: an error at the allocation of a tile that never got a dtype."""
    for group in trace.undecided.values():
        tile = group.tiles[0]
        raise compile_error(
            f"nothing says which dtype {tile.name} has: it is allocated without one, and no "
            "tile operator gives it any (clearing and filling do not)",
            group.place,
        )


_dtype_of = Buffer.dtype


def _dtype(tile: Buffer) -> DType:
    trace = current()
    if trace is not None and tile.id in trace.undecided:
        raise compile_error(
            f"the dtype of {tile.name} is open: it was allocated without one, and no "
            "tile operator has said it since (T.clear, and T.fill by a number, do not)",
            caller_place(),
        )
    return _dtype_of.__get__(tile)


def dtype_said(tile: Buffer) -> str:
    """Its dtype in words, also where nobody has said it yet."""
    trace = current()
    is_open = trace is not None and tile.id in trace.undecided
    return "no dtype yet" if is_open else str(_dtype_of.__get__(tile))


Buffer.dtype = property(_dtype, doc="The type of an element.")
