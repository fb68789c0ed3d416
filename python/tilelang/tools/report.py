"""What `kernel.explain()` returns: why everything is as it is, as a text, as objects, as a page of HTML."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from .. import _core
from ..language.maps import Fragment, Layout
from .machine_code import MachineCode
from .timeline import Timeline

__all__ = [
    "Report",
    "Place",
    "KernelInfo",
    "BufferInfo",
    "LoopInfo",
    "OperatorInfo",
    "PipelineInfo",
    "SlotsInfo",
    "StepInfo",
    "AccessInfo",
    "NoteInfo",
]


@dataclass(frozen=True)
class Place:
    """Where the user wrote something."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}"


@dataclass(frozen=True)
class KernelInfo:
    """One launch, as the device compiler made it.  None: it did not say."""

    name: str
    threads: int  # of a block
    shared_bytes: int  # shared memory of a block
    private_bytes: int  # memory of a block on a CPU
    registers: int | None  # of a thread
    spill_stores: int | None  # bytes that did not fit into registers, written
    spill_loads: int | None  # … and read
    stack_bytes: int | None  # of a thread
    serialized: str  # why its products of warpgroups wait for each other; empty: they do not
    refusals: tuple[str, ...]  # what ptxas did not do as the program asks, and what would mend it


@dataclass(frozen=True)
class BufferInfo:
    """A tensor or a tile, and where its elements live."""

    kernel: str  # empty for tensors
    name: str
    scope: str  # tensor, shared, fragment, local
    dtype: str
    shape: tuple[str, ...]  # numbers, or names known at run time only
    formula: str  # the layout as a formula; of a plain tensor "row-major" or its strides
    layout: Layout | Fragment | None  # the same as an object
    logical_elements: int | None  # of the shape; None where known at run time only
    elements: int | None  # that it takes in memory, padding included; of a fragment: registers of a thread
    bytes: int | None  # … in bytes
    address: int | None  # in the block's shared memory
    decided_by: str  # the statement that decided the layout; "the user"; empty where nothing was to decide
    strictness: str  # strict, common, free, annotated
    decided_at: Place | None  # where that statement stands
    place: Place | None  # where the buffer is allocated
    why: tuple[str, ...]  # why the compiler made it, or copies it

    @property
    def padding(self) -> int:
        """Elements of memory that hold nothing; 0 for fragments."""
        if self.scope != "shared" or self.elements is None or self.logical_elements is None:
            return 0
        return max(0, self.elements - self.logical_elements)


@dataclass(frozen=True)
class LoopInfo:
    """A nest of parallel loops, or an operator that is one, and how its iterations are spread."""

    kernel: str
    name: str  # "copy(A, A_shared)", "parallel i, j"
    extents: tuple[int, ...]
    threads: int
    registers: int  # iterations of a thread, one after the other or as vectors
    lanes: int  # consecutive iterations done at once, as far as every access of the loop allows
    copies: int  # threads that run the same iteration
    guarded: bool  # the last threads or registers have nothing to do
    mapping: Fragment  # iteration -> (thread, register)
    text: str  # all that in a sentence
    place: Place | None
    refusals: tuple[str, ...]  # what was not done, and why


@dataclass(frozen=True)
class OperatorInfo:
    """A tile operator, and how it runs."""

    kernel: str
    name: str
    operands: str
    how: str  # the instruction or strategy
    details: tuple[str, ...]
    refusals: tuple[str, ...]  # better ways, and what kept them out
    place: Place | None


@dataclass(frozen=True)
class SlotsInfo:
    """A tile of which several iterations have one each."""

    name: str
    slots: int
    bytes: int  # of one slot


@dataclass(frozen=True)
class StepInfo:
    """What one turn of a pipelined loop does at some point."""

    text: str  # "copy(A, A_shared)", or a wait
    ahead: int | None  # the iteration that it is for, counted from the one at hand; None: a wait, an arrival
    how: str  # of what is begun or runs ahead: "begun by cp.async", "loaded into registers", "begun by TMA"
    times: int  # one after the other
    place: Place | None


@dataclass(frozen=True)
class PipelineInfo:
    """A pipelined loop, or what one role does of it where roles divide it: one turn, in order."""

    kernel: str
    name: str  # of the loop's variable
    role: str  # "load", "compute"; empty: all threads do it
    threads: tuple[int, int]  # of the role: from the first on, to in front of the second
    registers: int  # of each of them; 0: as many as at the launch
    num_stages: int  # that were asked for
    tiles: tuple[SlotsInfo, ...]
    bytes_in_flight: int  # of a block, at most
    steps: tuple[StepInfo, ...]  # empty: it runs in order
    refusals: tuple[str, ...]  # what of it is not done, and why
    place: Place | None


@dataclass(frozen=True)
class AccessInfo:
    """An access to shared or global memory (on a CPU: to any tile or tensor); equal ones are one."""

    kernel: str
    buffer: str
    scope: str
    writes: bool
    instruction: str  # "ldmatrix_x4"; empty for ordinary loads and stores
    bytes: int  # that a thread moves at once: the width of the vector
    parts: int  # accesses into which the vector falls, because its elements are not consecutive
    sites: int  # places in the code
    times: int | None  # how often a thread gets there; None: known at run time only
    count: int | None  # bank cycles of shared, or sectors of global memory, of a warp; None: not counted
    least: int | None  # the fewest that so many bytes could take
    unknown: str  # why it was not counted
    place: Place | None

    @property
    def unit(self) -> str:
        """What `count` counts: "bank cycles", "sectors", or nothing."""
        return "" if self.count is None else "bank cycles" if self.scope == "shared" else "sectors"

    @property
    def excess(self) -> int:
        """How many more than the least: of shared memory, the bank conflicts."""
        return 0 if self.count is None or self.least is None else self.count - self.least


@dataclass(frozen=True)
class NoteInfo:
    """What a pass said; a refusal is something that was not done, or done less well than asked."""

    subject: str
    text: str
    decided_by: str  # the pass
    refusal: bool
    place: Place | None


@dataclass(frozen=True, repr=False)
class Report:
    """Why a kernel is as it is.  str() is the text; the lists hold the same as objects.

    kernels: the launches and what they take of the chip.  buffers: where tensors and tiles live.  loops:
    how parallel loops and copies are spread over threads.  operators: how each tile operator runs.
    pipelines: what a turn of each pipelined loop does.  accesses: what each access to memory costs a warp.
    notes: what else was decided, everything refused included.  phases: how long each step took, in
    milliseconds.  simulation: of a kernel that was simulated (kernel.simulate(…)), what that counted, else
    None.  machine_code: if it was asked for, what stands in front of each wait for products, else None.
    timeline: the one that was given to explain(), measured, else None."""

    function: str
    target: str
    toolchain: str
    from_cache: bool
    kernels: list[KernelInfo]
    buffers: list[BufferInfo]
    loops: list[LoopInfo]
    operators: list[OperatorInfo]
    pipelines: list[PipelineInfo]
    accesses: list[AccessInfo]
    notes: list[NoteInfo]
    phases: dict[str, float]
    simulation: Any = None  # a SimulationReport
    text: str = field(default="", compare=False)
    machine_code: MachineCode | None = None
    timeline: Timeline | None = None

    @property
    def refusals(self) -> list[NoteInfo]:
        """The notes on what was not done, or done less well than asked."""
        return [note for note in self.notes if note.refusal]

    @property
    def conflicts(self) -> list[AccessInfo]:
        """The accesses to shared memory that meet a bank more often than they must."""
        return [a for a in self.accesses if a.scope == "shared" and a.excess > 0]

    def buffer(self, name: str) -> BufferInfo:
        """The buffer of that name."""
        for b in self.buffers:
            if b.name == name:
                return b
        raise KeyError(f"the report has no buffer '{name}'; it has {', '.join(b.name for b in self.buffers)}")

    def as_dict(self) -> dict[str, Any]:
        """All of it but the simulation as dicts, lists, texts and numbers, as JSON has them; a layout is its
        formula."""
        return {name: value for name, value in _plain(self).items() if name != "simulation"}

    def html(self) -> str:
        """The report as one page of HTML that needs nothing else."""
        from .report_html import page

        return page(self)

    def save(self, path: str | os.PathLike) -> None:
        """Write the page of `html()` into a file."""
        with open(path, "w", encoding="utf-8") as f:
            f.write(self.html())

    def __str__(self) -> str:
        s, read = self.simulation, self.machine_code
        text = self.text if read is None else f"{self.text.rstrip()}\n{read}"
        if self.timeline is not None:
            text = f"{text.rstrip()}\n\n{self.timeline}\n"
        if s is None:
            return text
        from .simulation import plural

        ran = f"{plural(s.schedules, 'schedule')} of {plural(s.blocks, 'block')}"
        head = f"simulated: {ran}; counted in the last one"
        return f"{text.rstrip()}\n\n{head}\n{s.table()}\n"

    def __contains__(self, words: str) -> bool:
        return words in self.text

    def __repr__(self) -> str:
        return f"<report on {self.function} for {self.target}>"

    def _repr_html_(self) -> str:
        from html import escape

        return f"<iframe style='width:100%;height:640px;border:0' srcdoc='{escape(self.html())}'></iframe>"


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return {name: _plain(x) for name, x in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(x) for x in value]
    return value if value is None or isinstance(value, int | float | str) else str(value)


def _map(core: Any) -> Layout | Fragment | None:
    if core is None:
        return None
    return (Fragment if isinstance(core, _core.Fragment) else Layout)._of(core)


def _rows(kind: type, rows: list[dict[str, Any]]) -> list[Any]:
    out = []
    for row in rows:
        values = {}
        for name, value in row.items():
            if name in ("place", "decided_at"):
                value = None if value is None else Place(*value)
            elif name in ("layout", "mapping"):
                value = _map(value)
            values[name] = tuple(value) if isinstance(value, list) else value
        out.append(kind(**values))
    return out


def _pipeline(row: dict[str, Any]) -> PipelineInfo:
    tiles, steps = (
        tuple(_rows(kind, row[name])) for kind, name in ((SlotsInfo, "tiles"), (StepInfo, "steps"))
    )
    return _rows(PipelineInfo, [{**row, "tiles": tiles, "steps": steps}])[0]


def report_of(core: _core.Report, phases: dict[str, float], simulation: Any = None) -> Report:
    """The report of a compiled kernel as objects."""
    return Report(
        core.function,
        core.target,
        core.toolchain,
        core.from_cache,
        _rows(KernelInfo, core.kernels),
        _rows(BufferInfo, core.buffers),
        _rows(LoopInfo, core.loops),
        _rows(OperatorInfo, core.operators),
        [_pipeline(row) for row in core.pipelines],
        _rows(AccessInfo, core.accesses),
        _rows(NoteInfo, core.notes),
        dict(phases),
        simulation,
        core.text(),
    )
