"""Whether the simulator, or the numbers, notice a mutant.

    python test/mutants/judge.py [--families gemm,scan] [--every N] [--jobs N] [--verbose]

Each runs on all sizes of its family until one tells: by a finding, or by a wrong result.  What no size
tells is a survivor; allowed.txt lists those that may, with the reason.  The exit status is 1 where another
one survives, and where a line of allowed.txt is not needed any more.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import tilelang
from tilelang import _core

sys.path.insert(0, str(Path(__file__).resolve().parent))

from families import FAMILIES, Family  # noqa: E402
from mutate import Mutant, mutants  # noqa: E402
from pipelines import PROGRAMS  # noqa: E402

ALLOWED = Path(__file__).with_name("allowed.txt")
PER_BLOCK = ("hillis", "sort", *PROGRAMS)  # what comes out depends on the number of threads


def allowed() -> dict[str, str]:
    """name of a survivor: the reason."""
    rows = (
        line.split(":", 1) for line in ALLOWED.read_text().splitlines() if line and not line.startswith("#")
    )
    return {name.strip(): reason.strip() for name, reason in rows}


def is_wrong(family: Family, kernel, size, threads: int) -> str:
    """What is wrong with a run; "" if nothing."""
    rng = np.random.default_rng(7)
    args = (family.inputs(threads) if family.name in PROGRAMS else family.inputs)(rng, size)
    exact = (family.exact(threads) if family.name in PER_BLOCK else family.exact)(*args)
    try:
        report = kernel.simulate(args, [], 0, family.schedules, [], 0, True, False, None)
    except (tilelang.CompileError, ValueError) as error:
        return f"refused: {error}"
    if report["findings"]:
        return report["findings"][0]["kind"]
    for place, wanted in exact.items():
        got = args[place].astype(np.float64)
        scale = np.linalg.norm(wanted) or 1
        if not np.linalg.norm(got - wanted) <= 2e-3 * scale:
            return "numbers"
    return ""


def compiled(family: Family, text: str):
    return _core.compile(_core.parse(text, "mutant.ir"), family.chip, {"at_machine": True, "cache": False})


def judge(family: Family, text: str, mutant: Mutant, threads: int) -> str:
    """How a mutant shows; "" for a survivor, "invalid" for what is no program."""
    try:
        kernel = compiled(family, mutant.apply(text.rstrip("\n").split("\n")))
    except tilelang.CompileError:
        return "invalid"
    for size in family.sizes:
        said = is_wrong(family, kernel, size, threads)
        if said and not said.startswith("refused"):
            return said
    return ""


def program(family: Family, warps: int) -> str:
    """The text of a kernel, checked to be right itself."""
    made = family.make(32 * warps)
    is_text = isinstance(made, str)
    kernel = compiled(family, made) if is_text else tilelang.compile(made, target=family.chip)._kernel
    for size in family.sizes:
        if said := is_wrong(family, kernel, size, 32 * warps):
            raise SystemExit(f"{family.name} with {warps} warps is itself wrong at {size}: {said}")
    return kernel.machine_text


def judged(one: tuple[str, int, int]) -> tuple[Counter, list[tuple[str, str, str]]]:
    """Of every Nth mutant of a family's kernel of so many warps: how they showed, by (operator, how); the
    survivors, each with its line and what that became."""
    name, warps, every = one
    family = next(f for f in FAMILIES if f.name == name)
    text = program(family, warps)
    lines = text.split("\n")
    shown, survivors = Counter(), []
    for mutant in mutants(text, family.operators)[every - 1 :: every]:
        how = judge(family, text, mutant, 32 * warps)
        shown[mutant.operator, how or "survives"] += 1
        if not how:
            told = f"{name}/{warps} {mutant.operator} {mutant.line}"
            survivors.append((told, lines[mutant.line].strip(), mutant.new.strip()))
    return shown, survivors


def run(names=None, every: int = 1, jobs: int = 1) -> tuple[Counter, list[tuple[str, str, str]]]:
    """What judged() says of all kernels of these families (None: of all)."""
    kernels = [(f.name, warps, every) for f in FAMILIES if not names or f.name in names for warps in f.warps]
    if jobs == 1:
        parts = map(judged, kernels)
    else:
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            parts = list(pool.map(judged, kernels))
    shown, survivors = Counter(), []
    for more, left in parts:
        shown += more
        survivors += left
    return shown, survivors


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--families", type=lambda text: text.split(","))
    parser.add_argument("--every", type=int, default=1, help="judge each Nth mutant of a kernel only")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes")
    options = parser.parse_args()
    shown, left = run(options.families, options.every, options.jobs)
    for told, before, after in left if options.verbose else []:
        print(f"{told}\n    {before}\n  → {after}")
    survivors = [told for told, _, _ in left]
    for operator in sorted({o for o, _ in shown}):
        rows = ", ".join(f"{how} {n}" for (o, how), n in sorted(shown.items()) if o == operator)
        print(f"{operator:16} {rows}")
    judged = sum(n for (_, how), n in shown.items() if how != "invalid")
    print(f"{judged} mutants, {len(survivors)} survive")
    known = allowed()
    new = [s for s in survivors if s not in known]
    for name in new:
        print("survives:", name)
    whole = options.every == 1 and not options.families
    gone = [s for s in known if whole and s not in survivors]
    for name in gone:
        print("allowed.txt names what does not survive:", name)
    return bool(new or gone)


if __name__ == "__main__":
    sys.exit(main())
