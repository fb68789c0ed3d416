"""Kernels with one planted bug each: the simulator finds it, at the guilty lines, from every seed.

test/seeded/*.cases hold them, each as a difference: lines that begin with - are in the faulty kernel alone,
those with + in its repaired twin alone. `# race` marks the lines that the first finding must name if it is a
race, and so on; where a line of another kind is marked, too, that kind of finding will do, and where lines
are marked `# race2`, a race that names those. The cases of a file that says `level: machine` are text IR of
that level. With TL_FULL=1 every kernel is tried from 20 seeds, else from 3 of 5 that differ in their kind of
schedule.
"""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import tilelang
from helpers import load_text
from tilelang.tools.simulation import report_of

FOLDER = Path(__file__).resolve().parents[1] / "seeded"
SEEDS = [0, 1, 6, 11, 17]
SCHEDULES = 3


@dataclass
class Case:
    """target, level: of all cases of a file, where it says so. skip: passes to leave out. own_barriers: the
    compiler places none, nor fences. outputs: arguments that nobody has written. inputs: values of
    arguments, as Python text."""

    name: str
    target: str = "sim:sm_80"
    level: str = "tile"
    skip: list = field(default_factory=list)
    own_barriers: bool = False
    outputs: list = field(default_factory=list)
    inputs: dict = field(default_factory=dict)
    lines: list = field(default_factory=list)

    def text(self, drop):
        kept = [line[2:] for line in self.lines if not line.startswith(drop)]
        first = "" if self.level == "machine" else "import tilelang.language as T\n"
        return first + "\n".join(kept) + "\n"


def read_cases(path):
    cases, target, level = [], Case.target, Case.level
    for line in path.read_text().splitlines():
        if line.startswith("target: "):
            target = line[8:]
        elif line.startswith("level: "):
            level = line[7:]
        elif line.startswith("## "):
            cases.append(Case(line[3:], target, level))
        elif line.startswith("skip: "):
            cases[-1].skip = line[6:].split()
        elif line.startswith("own_barriers: "):
            cases[-1].own_barriers = True
        elif line.startswith("outputs: "):
            cases[-1].outputs = [int(i) for i in line[9:].split()]
        elif line.startswith("input "):
            name, value = line[6:].split(" = ")
            cases[-1].inputs[name] = value
        elif cases and not line.startswith("#"):
            cases[-1].lines.append(line)
    return cases


CASES = {c.name: c for path in sorted(FOLDER.glob("*.cases")) for c in read_cases(path)}


def arguments(case, kernel):
    """Small numbers, unless the case says otherwise."""
    rng = np.random.default_rng(0)
    made = []
    for row in kernel.params:
        if row["name"] in case.inputs:
            made.append(eval(case.inputs[row["name"]], {"np": np}))
            continue
        dtype, shape = str(row["dtype"]), row["shape"]
        if not row["is_tensor"]:
            made.append(8)
            continue
        numbers = rng.integers(0, 4, shape) if "int" in dtype else rng.standard_normal(shape)
        made.append(numbers.astype(dtype))
    return made


def simulate(case, kernel, seed):
    row = kernel.simulate(arguments(case, kernel), case.outputs, seed, SCHEDULES, [], 0, True, False, None)
    return report_of(row)


def compiled(case, folder, drop):
    if case.level == "machine":
        function = tilelang._core.parse(case.text(drop), "case.ir")
        return tilelang._core.compile(function, case.target, {"at_machine": True, "cache": False})
    function = load_text(folder, case.text(drop)).main.function
    options = {"skip": case.skip, "own_barriers": case.own_barriers, "cache": False}
    return tilelang._core.compile(function, case.target, options)


def marked(text):
    """Per kind of finding, the lines; of a kind that may name others instead, under race2 and so on."""
    lines = {}
    for number, line in enumerate(text.splitlines(), 1):
        for kind in re.findall(r"\w+", line.partition("  # ")[2]):
            lines.setdefault(kind, set()).add(number)
    return lines


def is_marked(first, lines):
    kind, its = first
    return any(kind == mark.rstrip("23") and its == where for mark, where in lines.items())


def found(report):
    """The first finding: its kind, its lines."""
    first = report.findings[0]
    return first.kind, {first.line, first.other_line} - {None}


def seeds_of(name):
    if os.environ.get("TL_FULL"):
        return range(20)
    turn = list(CASES).index(name)
    return [SEEDS[(turn + step) % len(SEEDS)] for step in range(3)]


def test_there_are_enough():
    assert len(CASES) >= 40 and all(marked(c.text("+ ")) for c in CASES.values())
    assert sum("sm_90" in c.target for c in CASES.values()) >= 80


@pytest.mark.parametrize("name", CASES)
def test_a_planted_bug_is_found(tmp_path, name):
    case = CASES[name]
    lines = marked(case.text("+ "))
    kernel = compiled(case, tmp_path, "+ ")
    for seed in seeds_of(name):
        report = simulate(case, kernel, seed)
        assert report.findings, f"nothing found from seed {seed}"
        assert is_marked(found(report), lines), (seed, found(report), str(report))
    again = simulate(case, kernel, report.seed)
    assert found(again) == found(report)


@pytest.mark.parametrize("name", CASES)
def test_its_repaired_twin_is_clean(tmp_path, name):
    case = CASES[name]
    kernel = compiled(case, tmp_path, "- ")
    for seed in seeds_of(name):
        report = simulate(case, kernel, seed)
        assert not report.findings, (seed, str(report))
