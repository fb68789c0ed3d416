"""Where a kernel goes next: jumps, loops over threads, and loops of blocks that stay on the chip."""

from __future__ import annotations

import functools
import operator
from typing import Any

from .._core import Buffer, Builder, Expr
from ..front.dtypes import as_dtype
from ..front.loops import Loop
from ..front.trace import active, fail, in_kernel
from ..front.values import DEVICE, Late, as_condition, as_value, binary
from ..front.wording import given
from .scalar import cast
from .thread import get_block_binding, get_thread_binding
from .tile import unused


def loop_break() -> None:
    """Leave the innermost loop that the device runs; the same as `break` there.

    Not in T.Parallel, T.vectorized and T.Pipelined loops, whose iterations do not follow one another."""
    in_kernel("T.loop_break").builder.call("break", ())


def thread_return(span: Any = None) -> None:
    """End this thread; the same as `return` in a kernel.

    Under a condition that differs among the threads of a block, no tile operator and no barrier may follow.
    """
    in_kernel("T.thread_return").builder.call("thread_return", ())


class If:
    """`with T.If(condition):` around `with T.Then():` and, where there is one, `with T.Else():`.

    The same as `if condition:` … `else:`; for a condition that Python knows the other branch is built too."""

    def __init__(self, condition: Any) -> None:
        self.trace = in_kernel("T.If")
        self.condition, self.next, self.number = as_value(condition), "Then", 0

    def __enter__(self) -> None:
        condition = as_condition(self.condition)
        if condition.__class__ is not Expr:
            condition = as_value(cast(bool(condition), "bool"))
        self.trace.builder.begin_if(condition)
        self.trace.branches.append(self)

    def __exit__(self, kind: Any, *_: object) -> None:
        self.trace.branches.pop()
        if kind is None:
            if self.next == "Then":
                raise fail("T.If needs a `with T.Then():` in it")
            self.trace.builder.end_if()


class _Branch:
    def __init__(self) -> None:
        word = type(self).__name__
        self.trace = in_kernel(f"T.{word}")
        self.owner = self.trace.branches[-1] if self.trace.branches else None
        if self.owner is None or self.owner.next != word:
            raise fail(f"T.{word} stands directly in a `with T.If(condition):`, T.Then first, each once")

    def __exit__(self, *_: object) -> None:
        pass


class Then(_Branch):
    """The branch of a T.If that is taken if its condition holds."""

    def __enter__(self) -> None:
        self.owner.next, self.owner.number = "Else", self.trace.next_block()


class Else(_Branch):
    """The branch of a T.If that is taken if its condition does not hold."""

    def __enter__(self) -> None:
        self.owner.next, self.owner.number = "", self.trace.next_block()
        self.trace.builder.begin_else()


class _Bound(Loop, Late):
    """A loop whose iterations are the threads, or blocks, along one dimension; where it is not the loop of a
    `for`, the index along that dimension."""

    __slots__ = ("index", "extent", "count")
    bound = True

    def __init__(self, start: Any, stop: Any, index: Any, count: int | None) -> None:
        super().__init__("bound", [start], [stop], [1], {})
        self.index, self.count = index, count
        self.extent = stop - start

    def load(self) -> Any:
        """The index."""
        return self.index if self.starts[0] == 0 else binary("add", self.index, self.starts[0])

    def begin(self, builder: Builder, names: tuple) -> Any:
        if self.extent != self.count or isinstance(self.extent, DEVICE):
            builder.begin_if(binary("lt", self.index, self.extent))
        return [builder.let(names[0], self.load())]

    def end(self, builder: Builder) -> None:
        if self.extent != self.count or isinstance(self.extent, DEVICE):
            builder.end_if()


def thread_binding(
    start: Any, stop: Any = None, thread: str | None = None, *, annotations: Any = None
) -> Loop:
    """`for i in T.thread_binding(0, n, "threadIdx.x"):` or (n, "threadIdx.x"), iteration i on thread (or
    block) i.

    `tx = T.thread_binding(0, n, thread="threadIdx.x")` names the index itself, for all threads.
    thread: "threadIdx.x" (if left out), .y, .z, or "blockIdx.x" ….  Threads beyond the extent skip the body;
    more iterations than the block has threads along that dimension are an error."""
    if isinstance(stop, str):
        stop, thread = None, stop
    if stop is None:
        start, stop = 0, start
    start, stop, thread = as_value(start), as_value(stop), thread or "threadIdx.x"
    word, _, axis = thread.partition(".")
    if word not in ("threadIdx", "blockIdx") or axis not in ("x", "y", "z"):
        raise fail(
            f"T.thread_binding: thread must be 'threadIdx.x', 'blockIdx.x' or the like, not '{thread}'"
        )
    dim = "xyz".index(axis)
    kernel = in_kernel("T.thread_binding").kernel
    if word == "blockIdx":
        return _Bound(start, stop, get_block_binding(dim), None)
    count = None if kernel.threads is None else [*kernel.threads, 1, 1][dim]
    if (
        count is not None
        and not isinstance(start, DEVICE)
        and not isinstance(stop, DEVICE)
        and stop - start > count
    ):
        raise fail(
            f"T.thread_binding: {stop - start} iterations along {thread}, but a block of this kernel "
            f"has {count} threads there: give T.Kernel more threads, or use T.Parallel"
        )
    return _Bound(start, stop, get_thread_binding(dim), count)


class _Persistent(Loop):
    """The tiles that one of `wave_size` blocks works on."""

    __slots__ = ("domain", "wave", "index", "group")

    def __init__(self, domain: list, wave: Any, index: Any, group: int) -> None:
        super().__init__("persistent", [0] * len(domain), domain, [1] * len(domain), {})
        self.domain, self.wave, self.index, self.group = domain, wave, index, group

    def begin(self, builder: Builder, names: tuple) -> Any:
        rest = binary("sub", functools.reduce(operator.mul, self.domain), self.index)
        trips = binary("floordiv", binary("add", rest, binary("sub", self.wave, 1)), self.wave)
        (wave,) = builder.begin_for("serial", ("wave",), [0], [trips], [1], {"as_blocks": 1})
        tile = builder.let("tile", binary("add", self.index, binary("mul", wave, self.wave)))
        indices = self._place(builder, tile)
        return [builder.let(name, index) for name, index in zip(names, indices, strict=True)]

    def _place(self, builder: Builder, tile: Any) -> list:
        """The coordinates of a tile: groups of rows of the first dimension, each walked column by column."""
        tail = []
        for extent in reversed(self.domain[2:]):
            tail.insert(0, binary("floormod", tile, extent))
            tile = builder.let("tile", binary("floordiv", tile, extent))
        if len(self.domain) == 1:
            return [tile]
        rows, columns = self.domain[:2]
        area = builder.let("area", binary("mul", columns, self.group))
        first = builder.let("first", binary("mul", binary("floordiv", tile, area), self.group))
        height = builder.let("height", binary("min", binary("sub", rows, first), self.group))
        within = builder.let("within", binary("floormod", tile, area))
        row = binary("add", first, binary("floormod", within, height))
        return [row, binary("floordiv", within, height), *tail]


def Persistent(
    domain: Any,
    wave_size: Any,
    index: Any,
    group_size: int = 8,
    num_stages: int = 0,
    *,
    annotations: Any = None,
) -> Loop:
    """`for bx, by in T.Persistent([m, n], wave_size, block):`, the tiles of a block that stays on the chip.

    domain: one to any number of extents; wave_size: the number of blocks; index: this one's number.  Tiles t,
    t + wave_size, … belong to block t; each tile to one block, whatever the numbers.  group_size: tiles that
    run together come from that many rows of the first dimension, so that they share data in the L2 cache.
    num_stages, annotations: hints that this version does not use.
    """
    trace = in_kernel("T.Persistent")
    unused("T.Persistent", num_stages=num_stages or None, annotations=annotations or None)
    extents = [as_value(e) for e in (domain if isinstance(domain, (list, tuple)) else [domain])]
    if not extents:
        raise fail("T.Persistent: the domain needs at least one extent")
    if not hasattr(group_size, "__index__") or operator.index(group_size) < 1:
        raise fail(f"T.Persistent: group_size must be a positive integer, not {given(group_size)}")
    settled = [trace.builder.let("extent", e) if isinstance(e, DEVICE) else e for e in extents]
    return _Persistent(settled, as_value(wave_size), as_value(index), operator.index(group_size))


def alloc_global(shape: Any, dtype: Any, scope: str = "global") -> Buffer:
    """A tensor of the kernel's own in global memory, allocated for the time of a call, its content undefined.

    shape: extents, constant or of run-time dimensions; the kernels of one prim_func that stand one after
    another see what the earlier ones wrote (docs/patterns.md, "Split and combine")."""
    if scope != "global":
        raise fail(f"T.alloc_global: scope must be 'global', not '{scope}'")
    trace = active("T.alloc_global")
    extents = [as_value(e) for e in (shape if isinstance(shape, (list, tuple)) else [shape])]
    return trace.builder.alloc(trace.take_hint("workspace"), "global", extents, as_dtype(dtype), {})


__all__ = ["Else", "If", "Persistent", "Then", "alloc_global", "loop_break", "thread_binding",
           "thread_return"]  # fmt: skip
