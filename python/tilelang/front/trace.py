"""What is being built: the one Builder of the prim_func that this thread is tracing, and where in it we are.

A thread may trace one prim_func at a time (or one inside another); everything in this package that builds
asks `current()` for the Trace, and everything that fails asks `place()` where the user is."""

from __future__ import annotations

import threading
from typing import Any

from .._core import Buffer, Builder, CompileError, Expr
from .errors import Place, TilelangWarning, caller_place, compile_error
from .texts import Text, show

_local = threading.local()


class Trace:
    """One prim_func being built."""

    __slots__ = """
        builder hint kernel file site writes owned dynamics reducers generator aliased attributes
        pass_configs compile_flags undecided activations branches born outputs returns eager parameters
        sources attrs breakpoints large texts blocks barriers layouts
        depths rebound launches laned tuples read_again
    """.split()

    def __init__(self, name: str) -> None:
        self.builder = Builder(name)
        self.hint: str | None = None  # the name that the value of the next call is assigned to
        self.kernel: Any = None  # the open T.Kernel
        self.launches = 0  # T.Kernels so far
        self.file, self.site = "", (0, 0, 0, 0)
        self.writes: dict[int, int] = {}  # buffer id -> how often it was written so far
        self.owned: set[int] = set()  # alloc_var buffers that already have a name
        self.laned: set[int] = set()  # buffers of vectors, "float32x4", whose last dimension is the lanes
        self.dynamics: dict[str, Expr] = {}  # the T.dynamic extents in use
        self.reducers: dict[int, str] = {}  # T.alloc_reducer buffers: their operation
        self.parameters: list[Any] = []  # of the prim_func, in order
        self.sources: list[str] = []  # foreign text for the next kernel
        self.attrs: dict[str, Any] = {}  # of the prim_func, T.func_attr
        self.generator: Any = None  # of random numbers, since the last T.rng_init
        self.aliased: list[int] = []  # ids of tensors that may overlap others
        self.attributes: list[Any] = []  # the T.attr that hold
        self.pass_configs: dict[Any, Any] = {}  # what the kernel itself asks of its compilation
        self.compile_flags: list[str] = []
        self.undecided: dict[int, Any] = {}  # tiles without a dtype so far, see loose.py
        self.activations: list[Any] = []  # the functions that run, the macros called last at the end
        self.branches: list[Any] = []  # the T.If that are open
        self.layouts: dict[int, Any] = {}  # those the kernel gave its buffers, by their ids
        self.depths: dict[Any, int] = {}  # of pipelines, by tiles' ids and names
        self.barriers: Any = None  # what T.create_barriers made last, and in which kernel
        self.blocks = 0  # loops and branches of the device opened so far
        self.read_again: dict[int, int] = {}  # buffer id -> the loop that reads an older element of it
        self.born: dict[int, tuple] = {}  # objects made in one of them: themselves, and `blocks` then
        self.outputs: list[Buffer] = []  # what T.empty made
        self.returns: Any = None  # what `return` gave
        self.breakpoints: list[tuple[str, int]] = []  # (file, line)
        self.large: list[tuple[str, int, int, str]] = []  # tiles beyond registers: file, line, count, text
        self.tuples: list[tuple[str, tuple, Any]] = []  # names of all indices of a loop, these, the loop
        self.rebound: list[tuple[str, str, int]] = []  # tensors without their names: which, text, line
        self.texts: list[Text] = []  # the texts that are traced
        self.eager: Any = None  # the arguments that an eager function meets, see eager.py

    def __enter__(self) -> Trace:
        _stack().append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _stack().pop()

    def at(self, file: str, site: tuple) -> None:
        """Everything built from here on was written there."""
        self.file, self.site = file, site
        self.builder.at(file, *site)

    def read(self, text: Text) -> None:
        """From here on functions of this text are traced, too."""
        show(text)
        if not any(text is other for other in self.texts):
            self.texts.append(text)

    def wrote(self, buffer: Buffer) -> None:
        """A statement that writes to `buffer` was built."""
        key = buffer.storage  # of all buffers that share it
        self.writes[key] = self.writes.get(key, 0) + 1
        if key in self.read_again and self.read_again[key] in self.open_blocks():
            raise fail(
                f"an element of {buffer.name} was written down before this loop, and is used in it above "
                f"this statement, which changes {buffer.name}: each iteration would read it anew; give its "
                f"value a name before the loop (x = {buffer.name}[...])"
            )

    def reads_again(self, buffer: Buffer, block: int) -> None:
        """An element of `buffer` that was written down after so many loops and branches is read."""
        for activation in self.activations:
            for frame in activation.frames:
                if frame.loop and frame.number > block:
                    self.read_again[buffer.storage] = frame.number
                    return

    def of_lanes(self, buffer: Buffer, lanes: int) -> Buffer:
        """The buffer, which was declared with elements of so many lanes."""
        if lanes > 1:
            self.laned.add(buffer.id)
        return buffer

    def next_block(self) -> int:
        """The number of a loop or branch of the device that is opened."""
        self.blocks += 1
        return self.blocks

    def innermost(self) -> int:
        """The number of the innermost open loop or branch of the device; 0 where none is."""
        return max(self.open_blocks())

    def open_blocks(self) -> list[int]:
        """The numbers of the open loops and branches of the device, and 0 for what is around all of them."""
        frames = [frame.number for activation in self.activations for frame in activation.frames]
        return [0, *[branch.number for branch in self.branches], *frames]

    def in_parallel(self) -> bool:
        """Is a T.Parallel loop open?"""
        return any(frame.kind == "parallel" for activation in self.activations for frame in activation.frames)

    def take_hint(self, otherwise: str) -> str:
        """The name to give to what is being made."""
        hint, self.hint = self.hint, None
        return hint or otherwise


def _stack() -> list[Trace]:
    try:
        return _local.stack
    except AttributeError:
        _local.stack = []
        return _local.stack


def current() -> Trace | None:
    """The trace of this thread, or None outside every prim_func."""
    stack = _stack()
    return stack[-1] if stack else None


def place() -> Place | None:
    """Where the user is: the operation being built, else the line that called into this package."""
    trace = current()
    return (trace.file, *trace.site) if trace is not None and trace.file else caller_place()


def fail(text: str, kind: type = CompileError) -> Exception:
    """The CompileError `text` at the user's place; for `raise fail(…)`."""
    return compile_error(text, place(), kind)


def warn(text: str) -> None:
    """A warning at the user's place: something that is probably not meant."""
    import warnings

    file, line = (place() or ("tilelang", 0))[:2]
    warnings.warn_explicit(text, TilelangWarning, file, line)


def note(text: str, *args: Any) -> None:
    """A line of the log, at level DEBUG: what is accepted and changes nothing."""
    import logging

    logging.getLogger("tilelang").debug(text, *args)


def active(what: str) -> Trace:
    """The trace, for something that only makes sense inside a prim_func."""
    trace = current()
    if trace is None:
        raise fail(f"{what} outside a @T.prim_func, or a @tilelang.jit function whose body is the kernel")
    return trace


def in_kernel(what: str) -> Trace:
    """The trace, for something that only makes sense inside a T.Kernel."""
    trace = active(what)
    if trace.kernel is None:
        raise fail(f"{what} outside a T.Kernel: put it under `with T.Kernel(...)`")
    return trace


_scratch: Builder | None = None


def builder() -> Builder:
    """The Builder in use; outside a prim_func one that only serves to make constants."""
    trace = current()
    if trace is not None:
        return trace.builder
    global _scratch
    if _scratch is None:
        _scratch = Builder("constants")
    where = caller_place()
    if where is not None:
        _scratch.at(*where)
    return _scratch
