"""GEMM beside cuBLAS, Triton and the published tilelang, on one GPU, in bursts and sustained.

    python bench/peers [--out FOLDER] [--published DIR] [--budget 480] [--shapes M0 …] [--dtypes f16 …]

Every finished part (a shape, a type, a layout of B) is a line of FOLDER/results.jsonl; a run does what is not
there yet, and stops before its budget is spent.  At the end it writes table.md and plot.png of all parts;
with --budget 0 it does only that.  What the libraries print is in log.txt.

Ours, cuBLAS and Triton multiply in one process, the published package (which has our name) in another, all in
turn; compilers run before, in several processes.  DIR holds the published package and what it needs, as
`pip install --target DIR tilelang` lays it out (or DIR/site does).
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peers import ahead, plot, shapes, table
from peers.link import Bench, Lost, Refused, starter
from peers.measure import Budget, NobodyRan, Options, OutOfTime, Part
from peers.providers import NAMES, OURS, PUBLISHED
from peers.results import Results

BATCH = 20  # parts that are compiled before they are measured
EXPECTED = 25.0  # seconds of a part, before one was measured


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/peers"), help="default: build/peers")
    parser.add_argument("--published", type=Path, help="the published package; without it, no column")
    parser.add_argument("--budget", type=float, default=480, help="seconds; default: 480")
    every = [name for names in NAMES.values() for name in names]
    parser.add_argument("--without", nargs="*", default=[], choices=every, help="who does not multiply")
    parser.add_argument("--shapes", nargs="*", default=list(shapes.SHAPES), choices=list(shapes.SHAPES))
    parser.add_argument("--dtypes", nargs="*", default=list(shapes.DTYPES), choices=shapes.DTYPES)
    parser.add_argument("--layouts", nargs="*", default=list(shapes.LAYOUTS), choices=shapes.LAYOUTS)
    parser.add_argument("--repeats", type=int, default=8, help="bursts of each provider")
    parser.add_argument("--sustain", type=float, default=0.5, help="seconds of a turn; 0: only bursts")
    parser.add_argument("--jobs", type=int, default=ahead.default_jobs(), help="processes that compile")
    parser.add_argument("--plot", default="plot.png", help="its name in FOLDER: .png or .svg")
    return parser.parse_args()


def said(case: shapes.Case, part: dict) -> str:
    rates = []
    for provider, found in part["found"].items():
        regimes = " / ".join(f"{case.gflop / found[r]['ms']:.1f}" for r in table.REGIMES if r in found)
        rates.append(f"{provider} {regimes}")
    return f"{case.name}: {'; '.join(rates)}"


def begin_with(benches: list[Bench], budget: Budget) -> None:
    """Starts the processes.  Without the published package the others go on."""
    for bench in list(benches):
        try:
            bench.ask("close", budget.at_most(120))
            print(f"{bench.package}: {bench.about}", flush=True)
        except (Lost, Refused) as problem:
            if bench.package == OURS:
                raise
            print(f"{bench.package} could not be started: {problem}", flush=True)
            benches.remove(bench)


def run(todo: list[shapes.Case], results: Results, budget: Budget, start, packages, options) -> None:
    """Measures part after part until there is no time for another."""
    benches = [Bench(package, start, options.without) for package in packages]
    longest, regimes = EXPECTED, Options(repeats=options.repeats, sustain=options.sustain)
    try:
        begin_with(benches, budget)
        for first in range(0, len(todo), BATCH):
            batch, begin = todo[first : first + BATCH], time.monotonic()
            wanted = ahead.items(batch, benches, results, budget)
            done = ahead.compile_ahead(wanted, start, results, budget, options.jobs)
            took = time.monotonic() - begin
            print(f"compiled {done} of {len(wanted)} variants in {took:.0f} s", flush=True)
            for case in batch:
                if budget.left() < longest:
                    return
                begin = time.monotonic()
                try:
                    Part(case, results, budget, regimes).run(benches)
                except NobodyRan as problem:
                    print(f"{case.name}: nothing ran. {problem}", flush=True)
                    continue
                took = time.monotonic() - begin
                longest = max(longest if longest != EXPECTED else 0.0, took)
                print(f"{said(case, results.parts[case.name])}  ({took:.0f} s)", flush=True)
    except OutOfTime:
        return
    finally:
        for bench in benches:
            bench.end()


def main() -> int:
    options = parsed()
    options.out.mkdir(parents=True, exist_ok=True)
    results = Results(options.out / "results.jsonl")
    cases = list(shapes.parts(options.shapes, options.dtypes, options.layouts))
    published = options.published
    if published is not None and (published / "site").is_dir():
        published = published / "site"
    packages = [OURS, PUBLISHED] if published is not None else [OURS]
    todo = [case for case in cases if not results.has(case, packages)]
    status = 0
    if todo and options.budget > 0:
        start = starter(published and published.resolve(), options.out / "log.txt")
        try:
            run(todo, results, Budget(options.budget), start, packages, options)
        except (Lost, Refused) as problem:
            print(f"a process could not be started: {problem}; see {options.out / 'log.txt'}")
            status = 1
    text = table.markdown(results.parts)
    (options.out / "table.md").write_text(text)
    print(f"\n{text}")
    if results.parts:
        try:
            plot.draw(results.parts, options.out / options.plot)
        except ImportError as problem:
            print(f"no picture: {problem}")
    left = [case.name for case in cases if not results.has(case, packages)]
    print(f"{len(left)} of {len(cases)} parts are left" + (f": {', '.join(left)}" if left else ""))
    return status


if __name__ == "__main__":
    raise SystemExit(main())
