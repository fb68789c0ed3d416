"""The simulator: kernels for "sim:CHIP", and what it finds.

Such a kernel is called as any other: its program, the very one that the chip would run, is executed here
thread by thread. What is wrong with it (a data race, a read of memory that nobody has written, an access
outside of a buffer, a barrier that not all threads reach, …) is raised as a SimulationError, whose `report`
holds every finding with both source lines. docs/simulator.md says what is modelled.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from . import _core
from .kernel import JITKernel

SimulationError = _core.SimulationError

Place = tuple  # (file, line, column)


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, at one place of the program.

    kind: "race", "unwritten", "outside", "misaligned", "overflow", "barrier", "divergence", "deadlock",
    "livelock", "assertion" or "fault". place: (file, line, column) of the user's statement, None where
    nobody wrote it; statement: the same as the machine runs it. other_place, other_statement, other_thread:
    of the access that it meets. block: "block (1, 0) of main"; thread: its number in the block. index: the
    element of `buffer`; address: bytes within the block's shared memory, else of the host. times: how often
    it was found there.
    """

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
    def line(self) -> int | None:
        """The line of the user's statement."""
        return self.place[1] if self.place else None

    @property
    def other_line(self) -> int | None:
        """The line of the access that it meets."""
        return self.other_place[1] if self.other_place else None


@dataclass(frozen=True)
class Counter:
    """What the accesses of one kind on one line cost.

    what: "shared load", "global store", "ldmatrix_x4", … executed: by warps. bytes: of all threads.
    requests: wavefronts of shared memory, sectors of 32 bytes of global memory; least: the fewest that so
    much data needs. flops: of matrix instructions.
    """

    place: Place | None
    what: str
    buffer: str
    executed: int
    bytes: int
    requests: int
    least: int
    flops: int


@dataclass(frozen=True)
class SimulationReport:
    """What a simulation found and counted.

    seed: of the schedule that found something, else of the last one; the same seed gives the same run.
    schedules, blocks: how many were run.  findings: of the first schedule that had any.
    """

    findings: tuple[Finding, ...]
    counters: tuple[Counter, ...]
    seed: int
    schedules: int
    blocks: int
    text: str = field(repr=False)

    def __bool__(self) -> bool:
        return bool(self.findings)

    def json(self) -> str:
        """Everything, as a JSON object."""
        return json.dumps(asdict(self), indent=1)

    def __str__(self) -> str:
        lines = [self.text or f"nothing found in {self.schedules} schedules of {self.blocks} blocks"]
        for c in self.counters:
            where = f"line {c.place[1]}" if c.place else "no line"
            cost = f", {c.requests} requests (least {c.least})" if c.least else ""
            flops = f", {c.flops} flops" if c.flops else ""
            of = f" {c.buffer}" if c.buffer else ""
            lines.append(f"  {where}: {c.what}{of}: {c.executed} times, {c.bytes} bytes{cost}{flops}")
        return "\n".join(lines)


def report_of(row: dict[str, Any]) -> SimulationReport:
    """From what the compiler gives."""
    return SimulationReport(
        tuple(Finding(**f) for f in row["findings"]), tuple(Counter(**c) for c in row["counters"]),
        row["seed"], row["schedules"], row["blocks"], row["error"] or "",
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
    """What a plain call of a simulated kernel does; `python -m tilelang sim` sets it."""

    seed: int = 0
    schedules: int = 1
    blocks: int | None = None


defaults = Defaults()


@contextmanager
def _progress(what: str):
    """A bar on a terminal, from the third second on; a function of (blocks done, all)."""
    begin, bar = time.monotonic(), None

    def show(done: int, total: int) -> None:
        nonlocal bar
        if bar is None:
            if time.monotonic() - begin < 2 or not sys.stderr.isatty():
                return
            from tqdm import tqdm

            bar = tqdm(total=total, desc=f"simulating {what}", unit="block", leave=False)
        bar.update(done - bar.n)

    try:
        yield show
    finally:
        if bar is not None:
            bar.close()


def _sampled(blocks: Any) -> tuple[list[int], int]:
    """Block numbers, and how many to take evenly where only a number is given."""
    if blocks is None:
        return [], 0
    if isinstance(blocks, int):
        if blocks < 1:
            raise ValueError(f"simulate: blocks={blocks}; it must be at least 1")
        return [], blocks
    return [int(b) for b in blocks], 0


class _HostCopy:
    """A GPU's tensor, copied to the host for a simulation, and back."""

    def __init__(self, tensor: Any) -> None:
        self.tensor, self.host = tensor, tensor.detach().cpu()

    def back(self) -> None:
        self.tensor.detach().copy_(self.host)


def _on_gpu(value: Any) -> bool:
    return type(value).__module__.startswith("torch") and bool(getattr(value, "is_cuda", False))


def simulate(kernel: JITKernel, args: Sequence[Any], seed: int = 0, schedules: int = 1, blocks: Any = None,
             watch: bool = True, count: bool = True) -> tuple[Any, SimulationReport]:
    """What a call of a kernel for "sim:CHIP" returns, and the report; it raises nothing for findings."""
    outputs = kernel._outputs
    copies = [_HostCopy(a) if _on_gpu(a) else None for a in args]
    hosts = [c.host if c else a for c, a in zip(copies, args, strict=True)]
    made = kernel.allocate_outputs(hosts) if outputs else []
    numbers, sample = _sampled(blocks)
    with _progress(kernel._func.name) as show:
        full = kernel.merge(hosts, made)
        row = kernel._kernel.simulate(full, outputs, seed, schedules, numbers, sample, watch, count, show)
    for copy in copies:
        if copy:
            copy.back()
    if any(copies):
        made = [m.to(next(c.tensor for c in copies if c).device) for m in made]
    result = None if not made else made[0] if len(made) == 1 else list(made)
    return result, report_of(row)


class SimulatedKernel(JITKernel):
    """A kernel for "sim:CHIP".  Calling it simulates it with one schedule; simulate() takes options."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = self._bind(args, kwargs)
        d = defaults
        result, report = simulate(self, given, d.seed, d.schedules, d.blocks, count=False)
        if report.findings:
            raise error_of(report)
        return result


def simulate_call(
    kernel: JITKernel, args: tuple, kwargs: dict[str, Any], options: dict[str, Any]
) -> SimulationReport:
    """JITKernel.simulate: of a kernel for another target, its twin for the simulator."""
    if not isinstance(kernel, SimulatedKernel):
        kernel = _twin(kernel)
    _, report = simulate(kernel, kernel._bind(args, kwargs), **options)
    if report.findings:
        raise error_of(report)
    return report


def _twin(kernel: JITKernel) -> JITKernel:
    from .errors import caller_place, compile_error
    from .kernel import compile

    if not kernel.target.startswith("cuda"):
        raise compile_error(f"simulate: {kernel._func.name} was compiled for {kernel.target}; the simulator "
                            "runs GPU programs: compile it for target='sim:sm_80'", caller_place())
    twin = kernel.__dict__.get("_simulated")
    if twin is None:
        chip = kernel.target.split("-arch=")[1].split()[0]
        twin = kernel._simulated = compile(kernel._func, out_idx=kernel.out_idx or None, target=f"sim:{chip}")
    return twin
