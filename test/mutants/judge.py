"""Whether the simulator, or the numbers, notice a mutant.

    python test/mutants/judge.py [--families gemm,scan] [--every N] [--verbose]

Each runs on all sizes of its family until one tells: by a finding, or by a wrong result.  What no size
tells is a survivor; allowed.txt lists those that may, with the reason.  The exit status is 1 where another
one survives, and where a line of allowed.txt is not needed any more.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import tilelang
from tilelang import _core

sys.path.insert(0, str(Path(__file__).resolve().parent))

from families import FAMILIES, WARPS, Family  # noqa: E402
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
        report = kernel.simulate(args, [], 0, 1, [], 0, True, False, None)
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


def programs(names: list[str] | None):
    """(name, family, text) of every kernel, each checked to be right itself."""
    for family in FAMILIES:
        if names and family.name not in names:
            continue
        for warps in WARPS:
            made = family.make(32 * warps)
            is_text = isinstance(made, str)
            kernel = compiled(family, made) if is_text else tilelang.compile(made, target=family.chip)._kernel
            for size in family.sizes:
                if said := is_wrong(family, kernel, size, 32 * warps):
                    raise SystemExit(f"{family.name} with {warps} warps is itself wrong at {size}: {said}")
            yield f"{family.name}/{warps}", family, kernel.machine_text, 32 * warps


def run(names=None, every: int = 1, verbose: bool = False) -> tuple[Counter, list[str]]:
    """How mutants showed, by (operator, how); the survivors' names."""
    shown, survivors, number = Counter(), [], 0
    for name, family, text, threads in programs(names):
        lines = text.split("\n")
        for mutant in mutants(text, family.operators):
            number += 1
            if number % every:
                continue
            how = judge(family, text, mutant, threads)
            shown[mutant.operator, how or "survives"] += 1
            if not how:
                survivors.append(f"{name} {mutant.operator} {mutant.line}")
                if verbose:
                    print(f"{survivors[-1]}\n    {lines[mutant.line].strip()}\n  → {mutant.new.strip()}")
    return shown, survivors


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--families", type=lambda text: text.split(","))
    parser.add_argument("--every", type=int, default=1, help="judge each Nth mutant only")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    shown, survivors = run(options.families, options.every, options.verbose)
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
