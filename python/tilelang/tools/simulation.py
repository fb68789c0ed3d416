"""The simulator: kernels for "sim:CHIP", and what it finds.

Such a kernel is called as any other: its program, the very one that the chip would run, is executed here
thread by thread. Its faults (a data race, a read of unwritten memory, an access outside of a buffer, a
barrier that not all threads reach, …) are raised as a SimulationError, whose `report` holds every finding
with both source lines. docs/simulator.md says what is modelled."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from .. import _core
from ..front.errors import TilelangWarning
from ..jit import config
from .breakpoints import Stops

if TYPE_CHECKING:
    from ..jit.kernel import JITKernel

SimulationError = _core.SimulationError

Place = tuple  # (file, line, column)


class _Placed:
    line = property(
        lambda self: self.place[1] if self.place else None, doc="The line of the user's statement."
    )


@dataclass(frozen=True)
class Finding(_Placed):
    """One thing that is wrong, at one place of the program.

    kind: "race", "unwritten", "outside", "misaligned", "barrier", "divergence", "overflow", "fence",
    "deadlock", "livelock", "timeout", "assertion" or "fault".
    place: (file, line, column) of the user's statement, None for generated code; statement: the same as
    the machine runs it. other_place, other_statement, other_thread: of the access that it meets.
    block: "block (1, 0) of main"; thread: its number in the block. index: the element of `buffer`; address:
    bytes within the block's shared memory, else of the host. times: how often it was found there."""

    kind: str
    text: str
    place: Place | None
    statement: str
    other_place: Place | None
    other_statement: str
    block: str
    thread: int | None
    other_thread: int | None
    buffer: str
    index: int | None
    address: int
    times: int

    @property
    def other_line(self) -> int | None:
        """The line of the access that it meets."""
        return self.other_place[1] if self.other_place else None


@dataclass(frozen=True)
class UnwrittenOutput:
    """Unwritten elements of an output made by the call: not an error, but rarely intended.

    tensor, place: the output, and (file, line, column) of its declaration. first: the indices of the first
    such element; elements: how many there are, `of` how many."""

    tensor: str
    place: Place | None
    first: tuple[int, ...]
    elements: int
    of: int

    def __str__(self) -> str:
        at = ", ".join(map(str, self.first))
        return (
            f"{self.tensor}: {self.elements} of {plural(self.of, 'element')} were not written by any block, "
            f"{self.tensor}[{at}] first"
        )


@dataclass(frozen=True)
class Counter(_Placed):
    """What the instructions of one kind on one line cost.

    kind: "load", "store", "matrix", "ldmatrix", "stmatrix", "shuffle", "vote", "atomic", "barrier" or
    "copy" (what goes on beside the threads).
    what: "shared load", "global store", "ldmatrix_x4", … level: of memory, "shared" or "global", else "".
    executed: by warps; of a barrier, how many came to it. bytes: of all threads. requests: bank cycles of
    shared memory, sectors of 32 bytes of global memory; least: the fewest that so much data needs (both 0
    for updates of shared memory, whose price is not known). flops: of matrix instructions. dropped: elements
    outside of their tensor, which its bounds guard kept from being read or written. waited: at a
    barrier, how many operations of its block were executed while warps stood there, summed over the warps;
    it depends on the schedule, and is no time."""

    place: Place | None
    kind: str
    what: str
    buffer: str
    level: str
    executed: int
    bytes: int
    requests: int
    least: int
    flops: int
    dropped: int
    waited: int


@dataclass(frozen=True)
class SimulationReport:
    """What a simulation found and counted.

    seed: of the schedule that found something, else of the last one; the same seed gives the same run.
    schedules, blocks: how many were run.  findings: of the first schedule that had any.
    unwritten_outputs: what the last one left of the outputs, where all blocks ran and found nothing; foreign
    code is not followed there.
    """

    findings: tuple[Finding, ...]
    unwritten_outputs: tuple[UnwrittenOutput, ...]
    counters: tuple[Counter, ...]
    seed: int
    schedules: int
    blocks: int
    text: str = field(repr=False)

    def __bool__(self) -> bool:
        return bool(self.findings)

    @property
    def instructions(self) -> dict[str, int]:
        """How many of each kind warps executed: {"load": 96, "matrix": 64, …}."""
        found: dict[str, int] = {}
        for c in self.counters:
            found[c.kind] = found.get(c.kind, 0) + c.executed
        return found

    @property
    def bytes(self) -> dict[str, int]:
        """How many bytes were moved from and to each level of memory: {"shared": …, "global": …}."""
        levels = ("shared", "global")
        return {level: sum(c.bytes for c in self.counters if c.level == level) for level in levels}

    @property
    def flops(self) -> int:
        """Of matrix instructions."""
        return sum(c.flops for c in self.counters)

    def requests(self, level: str) -> tuple[int, int]:
        """Bank cycles of "shared" memory, or sectors of "global", and the fewest that so much data needs."""
        rows = [c for c in self.counters if c.level == level]
        return sum(c.requests for c in rows), sum(c.least for c in rows)

    def json(self) -> str:
        """Everything, with the sums, as a JSON object."""
        sums = {"instructions": self.instructions, "bytes": self.bytes, "flops": self.flops}
        for level, name in (("shared", "bank_cycles"), ("global", "sectors")):
            sums[name] = dict(zip(("count", "least"), self.requests(level), strict=True))
        return json.dumps({**asdict(self), "sums": sums}, indent=1)

    def table(self) -> str:
        """The counters, line by line."""
        heads, rows = counter_rows(self.counters)
        cells = [heads, *rows]
        width = [max(len(row[i]) for row in cells) for i in range(len(heads))]
        left = 3  # columns of words
        line = lambda row: (
            "  ".join(c.ljust(n) for c, n in zip(row[:left], width, strict=False))
            + "".join("  " + c.rjust(n) for c, n in zip(row[left:], width[left:], strict=True))
        )
        return "\n".join("  " + line(row).rstrip() for row in cells)

    def __str__(self) -> str:
        ran = f"{plural(self.schedules, 'schedule')} of {plural(self.blocks, 'block')}"
        head = self.text or "\n".join([f"nothing found in {ran}", *map(str, self.unwritten_outputs)])
        return f"{head}\n{self.table()}" if self.counters else head


def plural(n: int, word: str) -> str:
    """ "1 block", "2 blocks"."""
    return f"{n} {word}{'s' * (n != 1)}"


def counter_rows(counters: Sequence[Counter]) -> tuple[list[str], list[list[str]]]:
    """A table of counters: its heads, and its rows in the order of the program."""
    guards = any(c.dropped for c in counters)
    heads = ["line", "what", "buffer", "warps", "bytes", "requests", "least", "flops", "waited"]
    rows = []
    for c in sorted(counters, key=lambda c: c.place or ("", 0, 0)):
        asked = [c.requests, c.least] if c.least else ["", ""]
        rest = [c.flops or "", c.waited if c.kind == "barrier" else "", *[c.dropped or ""] * guards]
        line = f"line {c.place[1]}" if c.place else "none"
        rows.append([str(x) for x in (line, c.what, c.buffer, c.executed, c.bytes or "", *asked, *rest)])
    return heads + ["dropped"] * guards, rows


def report_of(row: dict[str, Any]) -> SimulationReport:
    """From what the compiler gives."""
    return SimulationReport(
        tuple(Finding(**f) for f in row["findings"]),
        tuple(UnwrittenOutput(*g) for g in row["unwritten_outputs"]),
        tuple(Counter(*c) for c in row["counters"]),
        row["seed"],
        row["schedules"],
        row["blocks"],
        row["error"] or "",
    )


def error_of(report: SimulationReport) -> Exception:
    """The SimulationError of a report with findings."""
    first = report.findings[0]
    error = SimulationError(report.text)
    error.report, error.text = report, first.text
    error.file, error.line, error.column = first.place or ("", 0, 0)
    return error


# ── running ───────────────────────────────────────────────────────────────────────────────────────────
@dataclass
class Defaults:
    """What a plain call of a simulated kernel does: see JITKernel.simulate for what each means.  Set them to
    change it (`tilelang.tools.simulation.defaults.schedules = 5`); `python -m tilelang sim` does."""

    seed: int = 0
    schedules: int | str = 1
    blocks: int | None = None


defaults = Defaults()


def _sampled(blocks: Any) -> tuple[list[int], int]:
    """Block numbers, and how many to take evenly where only a number is given."""
    if blocks is None:
        return [], 0
    if isinstance(blocks, int):
        return [], _at_least(1, "blocks", blocks)
    return [_at_least(0, "blocks", b) for b in blocks], 0


def _schedules(value: Any) -> int:
    """How many; -1 for all of them."""
    if isinstance(value, str):
        if value != "all":
            raise ValueError(f"simulate: schedules={value!r}; a number was expected, or 'all'")
        return -1
    return _at_least(1, "schedules", value)


def _at_least(least: int, name: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"simulate: {name}={value!r}; a whole number was expected")
    if value < least:
        raise ValueError(f"simulate: {name}={value}; it must be at least {least}")
    return value.__index__()


class _HostCopies:
    """The GPU's tensors among the arguments, copied to the host for a simulation, and back.

    What is copied are their storages, so that tensors that share memory do so on the host."""

    def __init__(self, args: Sequence[Any]) -> None:
        self.storages: dict[int, tuple[Any, Any]] = {}
        self.device: Any = None
        self.arguments = [self._host(a) for a in args]

    def _host(self, value: Any) -> Any:
        if not _on_gpu(value):
            return value
        self.device = self.device or value.device
        storage = value.untyped_storage()
        there, here = self.storages.setdefault(storage.data_ptr(), (storage, None))
        if here is None:
            here = there.cpu()
            self.storages[storage.data_ptr()] = (there, here)
        empty = value.new_empty(0, device="cpu")
        return empty.set_(here, value.storage_offset(), value.shape, value.stride())

    def give_back(self, made: list[Any]) -> list[Any]:
        """After the run; the outputs, where the arguments are."""
        for there, here in self.storages.values():
            there.copy_(here)
        return made if self.device is None else [m.to(self.device) for m in made]


def _on_gpu(value: Any) -> bool:
    """Whether it is a tensor whose memory is a GPU's."""
    if not type(value).__module__.startswith("torch") or not getattr(value, "is_cuda", False):
        return False
    return value.untyped_storage().device.type == "cuda"  # host_torch calls some on the host CUDA's


def simulate(
    kernel: JITKernel,
    args: Sequence[Any],
    seed: int = 0,
    schedules: int | str = 1,
    blocks: Any = None,
    watch: bool = True,
    count: bool = True,
) -> tuple[list[Any], SimulationReport]:
    """Run a kernel for "sim:CHIP" on its inputs: its outputs, and the report.  Findings raise nothing."""
    copies = _HostCopies(args)
    made = list(kernel.allocate_outputs(copies.arguments)) if kernel._outputs else []
    full = kernel.merge(copies.arguments, made)
    report = _simulate_all(
        kernel,
        full,
        kernel.out_idx,
        dict(seed=seed, schedules=schedules, blocks=blocks, watch=watch, count=count),
    )
    made = copies.give_back(made)
    if config.script:
        config.script.adopt(made, args)
    return made, report


def _simulate_all(
    kernel: JITKernel, full: list[Any], fresh: Sequence[int], options: dict[str, Any]
) -> SimulationReport:
    """On all of its parameters, of which `fresh` hold nothing yet."""
    numbers, sample = _sampled(options["blocks"])
    seed, schedules = _at_least(0, "seed", options["seed"]), _schedules(options["schedules"])
    row = kernel._kernel.simulate(
        full,
        fresh,
        seed,
        schedules,
        numbers,
        sample,
        options["watch"],
        options["count"],
        Stops(kernel) if kernel._func.breakpoints else None,
    )
    report = report_of(row)
    if options["count"]:
        kernel.simulation = report
    if config.script:
        config.script.note(kernel, report)
    return report


class Simulating:
    """What a call of a kernel for "sim:CHIP" is: one simulation, by `defaults`."""

    def _run(self, args: Sequence[Any]) -> list[Any]:
        d = defaults
        made, report = simulate(self, args, d.seed, d.schedules, d.blocks, count=False)
        if report.findings:
            raise error_of(report)
        for gap in report.unwritten_outputs:
            file, line = (gap.place or ("<a kernel without lines>", 0))[:2]
            warnings.warn_explicit(f"{gap}; what they hold is undefined", TilelangWarning, file, line)
        return made

    def launch(self, args: Sequence[Any]) -> None:
        """Run on all the parameters, outputs included."""
        copies = _HostCopies(args)
        report = _simulate_all(self, copies.arguments, [], dict(vars(defaults), watch=True, count=False))
        copies.give_back([])
        if report.findings:
            raise error_of(report)


def simulate_call(
    kernel: JITKernel, args: tuple, kwargs: dict[str, Any], options: dict[str, Any]
) -> SimulationReport:
    """JITKernel.simulate, of a kernel for "sim:CHIP"."""
    _, report = simulate(kernel, kernel._bind(args, kwargs), **options)
    if report.findings:
        raise error_of(report)
    wanted = options["blocks"]
    if report.blocks == 0 and wanted is not None and not isinstance(wanted, int):
        named = ", ".join(map(str, wanted))
        raise ValueError(f"simulate: none of the blocks {named} is one of {kernel._func.name}'s")
    return report
