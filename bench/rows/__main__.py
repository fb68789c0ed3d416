"""What every instruction row of a chip's table does, on the GPU beside the simulator: a program for each,
made by the files beside this one, run on edge values and random ones; a Markdown table.

    python bench/rows --dry              no GPU: the simulator beside NumPy; programs are compiled for the GPU
    python bench/rows                    on a GPU of the chip
    python bench/rows --only shfl,mma    rows whose names begin so
    python bench/rows --list             the rows, and how many programs each has; runs nothing

The rows come from the compiler itself: one that no generator knows is an error, and so is a program that does
not call its row.  Exits with 1 where a result lies beyond the row's bound.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import functions
import numpy as np
from atomics import atomic
from beside import beside
from instructions import copy, matrix
from threads import thread
from tilelang import _core
from trial import Trial
from values import Bound, Distance, distance

CHIP = "sm_90"
GROUPS = {"matrix": matrix, "copy": copy, "async": beside, "atomic": atomic, "scalar": functions.scalar,
          "exact": functions.exact, "narrow": functions.narrow, "lane": functions.lane, "thread": thread,
          "message": thread}  # fmt: skip
HEADS = {"matrix": "Matrix instructions", "copy": "Copies of 8x8 blocks", "async": "Beside the threads",
         "atomic": "Atomic instructions",
         "scalar": "Scalar functions", "exact": "Bits, IEEE operations, pairs", "narrow": "Conversions",
         "lane": "Lanes", "thread": "Threads", "message": "Messages",
         "operator": "Operators (no rows of their own)", "cast": "Casts (no rows of their own)"}  # fmt: skip


def programs(only: list[str]) -> Iterator[tuple[str, str, Trial]]:
    """(group, row, program), row after row."""
    wanted = lambda name: not only or any(name.startswith(o) for o in only)
    for row in _core.instruction_rows(CHIP):
        made = list(GROUPS[row["group"]](row)) if wanted(row["name"]) else None
        if made == []:
            raise SystemExit(f"no program calls {row['name']}")
        name = (
            f"{row['function']} {row['dtype'].name} {row['name']}"
            if row["group"] == "atomic"
            else row["name"]
        )
        yield from ((row["group"], name, trial) for trial in made or ())
    for group, trials in (("operator", functions.operators), ("cast", functions.casts)):
        yield from ((group, name, trial) for name, trial in trials() if not only or group in only)


# ── running ───────────────────────────────────────────────────────────────────────────────────────────
def written(run) -> str:
    """What standard output gets from `run`, of Python and of C."""
    libc = ctypes.CDLL(None)
    with tempfile.TemporaryFile() as file:
        sys.stdout.flush(), libc.fflush(None)
        kept = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            run()
        finally:
            sys.stdout.flush(), libc.fflush(None)
            os.dup2(kept, 1)
            os.close(kept)
        file.seek(0)
        return file.read().decode()


@dataclass
class Built:
    """A program for the chip and for its simulator."""

    trial: Trial
    chip: object
    simulator: object

    @staticmethod
    def of(row: str, trial: Trial) -> Built:
        try:
            function = trial.function or _core.parse(trial.text)
            chip, simulator = (_core.compile(function, target, {"cache": False})
                               for target in (f"cuda -arch={CHIP}", f"sim:{CHIP}"))  # fmt: skip
        except Exception as error:
            raise RuntimeError(f"a program for {row}: {error}\n{trial.text}") from error
        made = Built(trial, chip, simulator)
        texts = made.chip.source, made.simulator.machine_text
        if trial.calls and not any(trial.calls in text for text in texts):
            raise RuntimeError(f"a program for {row} does not call it ({trial.calls}):\n{texts[1]}")
        return made

    def simulate(self) -> tuple[dict[str, np.ndarray], str]:
        """The arrays afterwards, and the lines that were printed."""
        arrays = {name: a.copy() for name, a in self.trial.arrays.items()}
        report: dict = {}
        text = written(
            lambda: report.update(
                self.simulator.simulate(list(arrays.values()), [], 0, 1, [], 0, True, False, None)
            )
        )
        if report["findings"]:
            raise RuntimeError(f"{report['error']}\n{self.simulator.machine_text}")
        return arrays, text

    def launch(self) -> tuple[dict[str, np.ndarray], str]:
        """The same on the GPU."""
        import torch

        def put(a: np.ndarray):
            return torch.from_numpy(a.copy().view(np.uint8)).cuda().view(getattr(torch, a.dtype.name))

        tensors = {name: put(a) for name, a in self.trial.arrays.items()}
        text = written(lambda: (self.chip.launch(list(tensors.values()), 0), torch.cuda.synchronize()))
        get = lambda name, t: t.view(torch.uint8).cpu().numpy().view(self.trial.arrays[name].dtype)
        return {name: get(name, t) for name, t in tensors.items()}, text


def compared(row: str, built: Built, dry: bool) -> list[Distance]:
    """Of each output; none where there is nothing to compare with."""
    trial = built.trial
    mine, said = built.simulate()
    bound = trial.bound
    if dry:
        if not trial.exact:
            return []
        wanted, heard = trial.exact(**trial.arrays), said
        if np.any(bound.ulps) or np.any(bound.absolute):
            bound = Bound(np.maximum(bound.ulps, 1), bound.absolute, bound.text)  # NumPy's own functions
    else:
        wanted, heard = built.launch()
    if sorted(heard.splitlines()) != sorted(said.splitlines()):
        raise RuntimeError(f"{row} prints\n{heard}\ninstead of\n{said}")
    return [
        distance(wanted[name].view(kind), mine[name].view(kind), bound)
        for name, kind in trial.outputs.items()
    ]


# ── the table ─────────────────────────────────────────────────────────────────────────────────────────
def lines_of(row: str, counted: list[tuple[str, list[Distance], int, str]]) -> Iterator[str]:
    """Of (note, what was found, how many programs, bound); those that are alike stand on one line."""

    def results(item: tuple) -> tuple:
        _, found, _, bound = item
        elements, equal = (sum(getattr(d, what) for d in found) for what in ("elements", "equal"))
        ulps, share = (max((getattr(d, what) for d in found), default=0) for what in ("ulps", "share"))
        part = f"{100 * equal / elements:.2f} %" if equal != elements else "all" if found else "not compared"
        worst = "" if equal == elements else f"{ulps:g} ulp" if ulps else f"{share:.2f} of the bound"
        return part, worst, bound

    for (part, worst, bound), alike in itertools.groupby(counted, results):
        same = list(alike)
        elements = sum(d.elements for _, found, *_ in same for d in found)
        notes, programs = ", ".join(note for note, *_ in same), sum(count for _, _, count, _ in same)
        yield f"| {row} | {notes} | {programs} | {elements} | {part} | {worst} | {bound} |"


def tried(only: list[str], dry: bool) -> tuple[dict[tuple[str, str, str], list], list[str]]:
    """By (group, row, note): what was found, of how many programs, their bound; and what is wrong."""
    lines: dict[tuple[str, str, str], list] = {}
    wrong = []
    with ThreadPoolExecutor() as pool:
        building = [(*item, pool.submit(Built.of, *item[1:])) for item in programs(only)]
        for group, row, trial, built in building:
            counted = lines.setdefault((group, row, trial.note), [[], 0, trial.bound.text])
            counted[1] += 1
            try:
                found = compared(row, built.result(), dry)
            except Exception as error:  # the others are asked all the same
                wrong.append(f"{row} {trial.note}: {type(error).__name__}: {error}")
                continue
            counted[0] += found
            wrong += [
                f"{row} {trial.note}: {d.wrong} of {d.elements} wrong, {d.first}" for d in found if d.wrong
            ]
    return lines, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dry", action="store_true")
    parser.add_argument("--only", type=lambda text: text.split(","), default=[])
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.list:
        for (group, row), count in Counter((g, row) for g, row, _ in programs(options.only)).items():
            print(f"{group} {row}: {count}")
        return 0
    lines, wrong = tried(options.only, options.dry)
    shown = None
    for (group, row), of_row in itertools.groupby(lines.items(), lambda item: item[0][:2]):
        if group != shown:
            print(
                f"\n## {HEADS[group]}\n\n| row | of | programs | elements | equal | greatest error | bound |"
            )
            print("|---|---|---|---|---|---|---|")
        shown = group
        for text in lines_of(row, [(note, *counted) for (*_, note), counted in of_row]):
            print(text)
    rows = {(group, row) for group, row, _ in lines}
    print(
        f"\nRows: {len(rows)}, programs: {sum(counted[1] for counted in lines.values())}, wrong: {len(wrong)}"
    )
    print("\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
