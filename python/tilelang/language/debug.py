"""What a kernel says while it runs: prints and assertions."""

from __future__ import annotations

from typing import Any

from .._core import Buffer, Expr, Region
from ..front.indexing import Part
from ..front.trace import Trace, fail, in_kernel
from ..front.values import Element, as_value, constant
from .tile import copy

_PER_LINE = 16


def print(
    obj: Any = None, msg: str = "", warp_group_id: int | None = None, warp_id: int | None = None
) -> None:
    """Print a value, an element, or a whole tile while the kernel runs; on its own, `msg` or a text.

    A value is printed by every thread that comes here, a tile or a slice once per block, in lines of up to
    16 elements (by thread 0 of a GPU's block).  Each line names the block and, on a GPU and in the simulator,
    the thread; of an element also the buffer and the index.  warp_group_id and warp_id choose the thread that
    prints instead: the first one of that warp (128 threads make a warp group, 32 a warp)."""
    trace = in_kernel("T.print")
    if isinstance(obj, str):
        if not isinstance(msg, str):
            raise fail("T.print takes the value first: T.print(value, 'text')")
        obj, msg = None, f"{obj} {msg}" if msg else obj
    only = None
    if warp_group_id is not None or warp_id is not None:
        only = 128 * (warp_group_id or 0) + 32 * (warp_id or 0)
    tile = isinstance(obj, (Region, Part)) or (isinstance(obj, Buffer) and obj.scope != "var")
    if tile and only is None:
        only = 0
    lead = _literal(f"{msg}: " if msg and obj is not None else msg and f"{msg} ")
    blocks = list(trace.kernel.indices)
    lead += f"block=({', '.join(['{}'] * len(blocks))}) {{thread}}"
    if tile:
        _print_tile(trace, obj, lead, blocks, only)
    elif obj is None:
        _print_line(trace, lead, blocks, only)
    elif isinstance(obj, Element):
        places = ", ".join(["{}"] * len(obj.index))
        text = f" buffer={_literal(obj.buffer.name)} index=({places}) dtype={obj.dtype.name} value={{}}"
        _print_line(trace, lead + text, [*blocks, *obj.index, obj.load()], only)
    else:
        name = f" buffer={_literal(obj.name)}" if isinstance(obj, Buffer) else ""
        value = as_value(obj)
        if value.__class__ is not Expr:
            _print_line(trace, f"{lead} value={_literal(repr(value))}", blocks, only)
        else:
            _print_line(trace, f"{lead}{name} dtype={value.dtype.name} value={{}}", [*blocks, value], only)


def _literal(text: str) -> str:
    return text.replace("{", "{{")


def _print_line(trace: Trace, text: str, values: list, only: int | None) -> None:
    b = trace.builder
    if only is not None:
        b.begin_if(b.call("elected", (only,)))
    b.call("print", (b.text(text), *values))
    if only is not None:
        b.end_if()


def _print_tile(trace: Trace, obj: Any, lead: str, blocks: list, only: int | None) -> None:
    buffer, ranges = _ranges_of(obj)
    b = trace.builder
    if buffer.scope == "fragment":  # spread over threads: one of them prints a copy
        staged = b.alloc(f"{buffer.name}_shown", "shared", buffer.shape, buffer.dtype, {})
        copy(buffer, staged)
        source = staged
    else:
        source = buffer
    head = f"{lead} buffer={_literal(buffer.name)}"
    b.begin_if(b.call("elected", (only,)))
    starts, indices, opened = [r[0] for r in ranges], [], 0
    for start, extent, point in ranges[:-1]:
        if point:
            indices.append(start)
            continue
        (i,) = b.begin_for("serial", ("i",), (0,), (extent,), (1,), {})
        indices.append(b.binary("add", start, i))
        opened += 1
    extent, point = ranges[-1][1], ranges[-1][2]
    width = extent if isinstance(extent, int) else 1
    step = min(width, _PER_LINE)

    def row(first: Any, count: int) -> None:
        at = [*indices, b.binary("add", starts[-1], first)]
        places = ["{}"] * len(at)
        values = [b.load(source, [*indices, b.binary("add", at[-1], n)]) for n in range(count)]
        if count > 1:
            places[-1] = "{}:{}"
            at.append(b.binary("add", at[-1], count))
        text = f"{head} index=({', '.join(places)}) dtype={buffer.dtype.name} values="
        text += " ".join(["{}"] * count)
        b.call("print", (b.text(text), *blocks, *at, *values))

    lines = width // step if isinstance(extent, int) else extent
    if isinstance(lines, int) and lines == 1:
        row(0, step)
    else:
        (i,) = b.begin_for("serial", ("i",), (0,), (lines,), (1,), {})
        row(b.binary("mul", i, step), step)
        b.end_for()
    if width % step:
        row(width - width % step, width % step)
    for _ in range(opened):
        b.end_for()
    b.end_if()


def _ranges_of(obj: Any) -> tuple[Buffer, list]:
    """The buffer, and per dimension (start, extent, is it a point?)."""
    if isinstance(obj, Buffer):
        return obj, [(0, extent, False) for extent in obj.shape]
    ranges = [(start, 1 if point else constant(extent), point) for start, extent, point in obj.ranges]
    return obj.buffer, ranges


__all__ = ["print"]
