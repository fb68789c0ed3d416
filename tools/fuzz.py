"""So many fresh random programs, spread evenly over the kinds of test/fuzz, in several processes:

    fuzz.py 20000 [--targets cuda,sim:sm_90a] [--jobs 8] [--seed 123]

prints a row for each kind and, last, how many programs there were and how many differences.  A program that
fails is reduced and kept in build/fuzz, as always (test/fuzz/harness.cpp); --seed takes the same again."""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from run_tests import show_pip_nvrtc

ROOT = Path(__file__).resolve().parent.parent
COMMAND = ["build/release/tl_fuzz", "--test-suite=programs"]
COLUMNS = ("programs", "runs", "refused", "without meaning", "differences")


def kinds_of_programs() -> list[str]:
    """The names that the tests give their kinds."""
    done = subprocess.run(
        COMMAND, cwd=ROOT, env=os.environ | {"TL_FUZZ_KINDS": "1"}, capture_output=True, text=True, check=True
    )
    return [line.removeprefix("kind: ") for line in done.stdout.splitlines() if line.startswith("kind: ")]


def run(programs: int, jobs: int, seed: int, targets: str | None) -> tuple[dict[str, list[int]], list[str]]:
    """What became of `programs` of each kind, and what the processes said that failed."""
    counts: dict[str, list[int]] = {}
    errors: list[str] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as logs:
        started, first = [], seed
        for job in range(jobs):
            part = programs // jobs + (job < programs % jobs)
            asked = {"TL_FUZZ_SEED": str(first), "TL_FUZZ_PROGRAMS": str(part)}
            asked["TL_FUZZ_REPORT"] = f"{folder}/{job}"
            if targets:
                asked["TL_FUZZ_TARGETS"] = targets
            first += part
            log = logs.enter_context(open(f"{folder}/{job}.log", "w"))
            process = subprocess.Popen(COMMAND, cwd=ROOT, env=os.environ | asked, stdout=log)
            started.append((process, Path(log.name), Path(asked["TL_FUZZ_REPORT"])))
        for process, log, report in started:
            if process.wait():
                errors.append(log.read_text())
            for line in report.read_text().splitlines() if report.exists() else ():
                kind, *numbers = line.split("\t")
                sums = counts.setdefault(kind, [0] * len(COLUMNS))
                counts[kind] = [a + int(n) for a, n in zip(sums, numbers, strict=True)]
    return counts, errors


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("programs", type=int, help="how many in all, at least")
    options.add_argument("--targets", help="where they run, separated by commas; else simulators and the CPU")
    options.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options.add_argument("--seed", type=int, default=1_000_000 + random.randrange(10**9))
    asked = options.parse_args()
    show_pip_nvrtc()
    kinds = kinds_of_programs()
    each = -(-asked.programs // len(kinds))
    counts, errors = run(each, max(1, min(asked.jobs, each)), asked.seed, asked.targets)
    sys.stdout.write("".join(errors))
    width = max(map(len, kinds))
    print(" " * width, *(f"{name:>15}" for name in COLUMNS))
    for kind in kinds:
        print(f"{kind:{width}}", *(f"{n:15}" for n in counts.get(kind, [0] * len(COLUMNS))))
    programs, runs, *_, differences = (sum(column) for column in zip(*counts.values(), strict=True))
    print(
        f"{programs} fresh programs of {len(counts)} kinds, {runs} runs, {differences} differences "
        f"(--seed {asked.seed} takes them again)"
    )
    return int(bool(errors) or differences > 0 or programs < asked.programs)


if __name__ == "__main__":
    sys.exit(main())
