"""The measured timeline of a kernel's roles: when each turn of a loop began and ended, and what it waited
for.  src/pass/role_stamps.h says how the kernel writes it down."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from .. import _core
from ..front.interop import library_of
from .compare import as_numpy

if TYPE_CHECKING:
    from ..jit.kernel import JITKernel

__all__ = ["Timeline", "RoleTime", "TurnTime", "WaitTime"]

_ROLES = ("load", "compute")
_PRODUCTS = "products"
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class WaitTime:
    """A role waited: for a barrier, or for products that it had begun."""

    on: str  # the barrier, "A_shared_full", or "products"
    begin: int
    end: int

    @property
    def length(self) -> int:
        """How long."""
        return self.end - self.begin


@dataclass(frozen=True)
class TurnTime:
    """One turn of a loop, by one role."""

    loop: str  # the name of its variable
    begin: int
    end: int
    waits: tuple[WaitTime, ...]

    @property
    def length(self) -> int:
        """How long, waits included."""
        return self.end - self.begin

    @property
    def waiting(self) -> int:
        """How much of it was waiting for barriers: what another role had not done yet."""
        return sum(w.length for w in self.waits if w.on != _PRODUCTS)


@dataclass(frozen=True)
class RoleTime:
    """What one role of one block did.  All times are those of the block, which begins at 0."""

    kernel: str
    block: int  # its number among those that were launched, x fastest
    role: str  # "load", "compute"
    begin: int
    end: int
    turns: tuple[TurnTime, ...]
    waits: tuple[WaitTime, ...]  # those outside of turns: for tiles beside the loop, for its last products
    kept: int  # stamps; of `stamps` that the role made: what came later is not in the record
    stamps: int

    @property
    def is_cut(self) -> bool:
        """Whether the record was full before the role ended."""
        return self.kept < self.stamps


@dataclass(frozen=True, repr=False)
class Timeline:
    """What `kernel.measure_timeline(…)` returns.  str() is a table of medians; `roles` has every turn of each
    block that was recorded.

    unit: "cycles" of the multiprocessor; of the simulator "operations" of the block's warps, all together.
    hertz: cycles of a second at the chip's boost clock, which the chip may not have had; None: no cycles.
    blocks: of the grid, by kernel; the first of them were recorded."""

    function: str
    target: str
    unit: str
    hertz: float | None
    blocks: dict[str, int]
    roles: tuple[RoleTime, ...]

    def ns(self, length: float) -> float | None:
        """A length in nanoseconds, at the boost clock; None where the unit is not cycles."""
        return None if self.hertz is None else length / self.hertz * 1e9

    def of(self, kernel: str, role: str) -> list[RoleTime]:
        """What that role did, block by block."""
        return [r for r in self.roles if (r.kernel, r.role) == (kernel, role)]

    def notes(self) -> Iterator[str]:
        """What of the run is not in the record."""
        for kernel, blocks in self.blocks.items():
            rows = [r for r in self.roles if r.kernel == kernel]
            seen = len({r.block for r in rows})
            if seen < blocks:
                yield f"{kernel}: the first {seen} of {blocks} blocks were recorded"
            for role in _ROLES:
                cut = [r for r in rows if r.role == role and r.is_cut]
                if cut:
                    first = cut[0]
                    yield (
                        f"{kernel}, {role}: the record was full after {first.kept} of {first.stamps} stamps, "
                        f"{len(first.turns)} turns of block {first.block}"
                    )

    def rows(self) -> Iterator[tuple[str, str, str, str]]:
        """The table: (what, median, share of the turn, in nanoseconds), of each role and loop."""
        for kernel in self.blocks:
            for role in _ROLES:
                turns = [t for r in self.of(kernel, role) for t in r.turns]
                for loop in dict.fromkeys(t.loop for t in turns):
                    yield from self._rows_of(f"{kernel}, {role}", loop, [t for t in turns if t.loop == loop])

    def _rows_of(self, who: str, loop: str, turns: list[TurnTime]) -> Iterator[tuple[str, str, str, str]]:
        whole = median(t.length for t in turns)

        def row(what: str, length: float) -> tuple[str, str, str, str]:
            ns = self.ns(length)
            share = f"{100 * length / whole:.0f} %" if whole else ""
            return what, f"{length:g}", share, "" if ns is None else f"{ns:.0f} ns"

        yield row(f"{who}: a turn of loop {loop} ({len(turns)} of them)", whole)
        for on in dict.fromkeys(w.on for t in turns for w in t.waits):
            yield row(
                f"  waits for {on}", median(sum(w.length for w in t.waits if w.on == on) for t in turns)
            )
        busy = median(t.length - sum(w.length for w in t.waits) for t in turns)
        yield row("  works", busy)

    @property
    def head(self) -> str:
        """What was measured, and in which unit."""
        rate = f"; ns at {self.hertz / 1e9:g} GHz" if self.hertz else ""
        return f"timeline of {self.function} on {self.target}, medians over turns, in {self.unit}{rate}"

    def __str__(self) -> str:
        rows = list(self.rows())
        wide = [max((len(row[i]) for row in rows), default=0) for i in range(4)]
        lines = [self.head] if rows else [self.head, "  no role had a turn"]
        for row in rows:
            cells = [row[0].ljust(wide[0]), *(c.rjust(n) for c, n in zip(row[1:], wide[1:], strict=True))]
            lines.append(f"  {'  '.join(cells)}".rstrip())
        return "\n".join([*lines, *[f"  {note}" for note in self.notes()]])

    def __repr__(self) -> str:
        return f"<timeline of {self.function} on {self.target}: {len(self.roles)} roles>"


# ── running ───────────────────────────────────────────────────────────────────────────────────────────────
class Stamped:
    """What a kernel with stamps is beside its kind: the record is one more output, which a call clears, and
    keeps."""

    record: Any = None

    def allocate_outputs(self, inputs: Any) -> list[Any]:
        """As Launcher's; the record is all zeros, where arrays may be changed."""
        made = super().allocate_outputs(inputs)  # type: ignore[misc]
        if library_of(made[-1]) != "jax":
            made[-1][...] = 0
        return made

    def _run(self, args: Any) -> list[Any]:
        made = super()._run(args)  # type: ignore[misc]
        self.record = made.pop()
        return made


def measure(kernel: JITKernel, args: tuple, kwargs: dict[str, Any]) -> Timeline:
    """JITKernel.measure_timeline."""
    stamped = kernel._with_stamps()
    simulated = kernel.target.startswith("sim:")
    for _ in range(1 if simulated else 2):  # once to warm up
        stamped(*args, **kwargs)
    record = stamped.record
    table = as_numpy(record.get() if library_of(record) == "cupy" else record)
    names = [row["name"] for row in stamped._kernel.report.kernels]
    intervals = dict(zip(names, stamped._kernel.report.intervals, strict=True))
    blocks, roles = {}, []
    for kernel_rows, (name, listed) in zip(table, intervals.items(), strict=True):
        if not listed:
            continue
        blocks[name] = int(kernel_rows[0][0][1])
        for number, rows in enumerate(kernel_rows[: blocks[name]]):
            roles += _block(name, number, rows.tolist(), listed.split(";"))
    hertz = None if simulated else _core.target_info(kernel.target)["clock"]
    unit = "operations" if simulated else "cycles"
    return Timeline(kernel._func.name, kernel.target, unit, hertz, blocks, tuple(roles))


def _block(kernel: str, number: int, rows: list[list[int]], intervals: list[str]) -> Iterable[RoleTime]:
    """What the roles of one block wrote down."""
    head, bits = _core.role_record["head"], _core.role_record["stamp_bits"]
    start = min((row[2] for row in rows), default=0)

    def since(cycles: int) -> int:  # stamps have lost their first bits
        return ((cycles << bits) - (start << bits) & _MASK) >> bits

    for role, row in zip(_ROLES, rows, strict=True):
        stamps = [(since((s & _MASK) >> bits), *divmod(s & (1 << bits) - 1, 2)) for s in row[head:][: row[0]]]
        turns, waits = _read([(time, intervals[code], ends) for time, code, ends in stamps])
        yield RoleTime(kernel, number, role, since(row[2]), since(row[3]), turns, waits, len(stamps), row[0])


def _read(stamps: list[tuple[int, str, int]]) -> tuple[tuple[TurnTime, ...], tuple[WaitTime, ...]]:
    """Turns with their waits, and the waits outside of turns.  A turn that the record cuts is left out."""
    turns, outside, inside = [], [], []
    begun: dict[str, int] = {}
    in_turn = False
    for time, interval, ends in stamps:
        what, _, name = interval.partition(" ")
        if not ends:
            begun[interval] = time
            if what == "turn":
                in_turn, inside = True, []
        elif what == "turn":
            turns.append(TurnTime(name, begun[interval], time, tuple(inside)))
            in_turn = False
        else:
            (inside if in_turn else outside).append(WaitTime(name or what, begun[interval], time))
    return tuple(turns), tuple(outside)
