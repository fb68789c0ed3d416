"""Is what the compiler does by itself on Hopper ever slower than what it does for sm_80?

"automatic": sm_90a, with wgmma, TMA and roles as the compiler sees fit; "one role": without roles; "sm_80's
path": for sm_90 without TMA, which is mma.sync and cp.async.  The programs, plain tile programs other than
GEMM and attention forward at their best, are in bench/paths.  One process, in turns, medians (timing.py);
operands in turn where they would stay in L2.

    python bench/hopper_paths.py [--programs mla …] [--only TEXT] [--repeats 7] [--jobs N] [--markdown FILE]
    python bench/hopper_paths.py --compile-only     # no GPU: compiles all, says which loops roles divide
    python bench/hopper_paths.py --check            # no GPU: small sizes in the simulator, against float64
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import importlib
import itertools
import multiprocessing
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import tilelang

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / "examples")]

from paths.program import Case, poison  # noqa: E402

MODULES = ("attention", "attention_backward", "state_space", "dequant", "gemms")
AUTOMATIC, ONE_ROLE, SM_80 = "automatic", "one role", "sm_80's path"
VARIANTS = {
    AUTOMATIC: ("cuda -arch=sm_90a", {}),
    ONE_ROLE: ("cuda -arch=sm_90a", {"tl.disable_warp_specialized": True}),
    SM_80: ("cuda -arch=sm_90", {"tl.disable_tma_lower": True}),
}
HOPPERS = ("wgmma", "cp.async.bulk", "tensormap")  # words of instructions that sm_80 does not have
ROTATED = 200_000_000  # bytes of the arguments that launches take in turn
TOLERANCE = 0.02  # of a time: what is slower by less is not slower


def all_cases(small: bool = False) -> list[Case]:
    modules = (importlib.import_module(f"paths.{name}") for name in MODULES)
    return [case for module in modules for case in module.cases(small)]


def kernel_of(case: Case, variant: str, simulated: bool = False) -> Any:
    target, configs = VARIANTS[variant]
    if simulated:
        target = target.replace("cuda -arch=", "sim:")
    return tilelang.compile(case.program(), target=target, pass_configs={**case.pass_configs, **configs})


@dataclasses.dataclass
class Compiled:
    """What compiling one variant said.  loops: of each pipelined loop whether roles divide it, and a note."""

    seconds: float = 0
    error: str = ""
    loops: list[tuple[str, bool, str]] = dataclasses.field(default_factory=list)
    ways: str = ""  # which instructions multiply and copy
    resources: str = ""
    source: str = ""
    copies: list[str] = dataclasses.field(default_factory=list)  # how they run, and what does not run ahead

    @property
    def roles(self) -> str:
        divided = [is_divided for _, is_divided, _ in self.loops]
        return "divided" if divided and all(divided) else "partly divided" if any(divided) else "whole"


def loops_of(report: Any) -> Iterator[tuple[str, bool, str]]:
    noted = [n for n in report.notes if n.decided_by == "assign_roles" and n.subject.startswith("loop ")]
    for note in noted:
        yield f"{note.place} {note.subject}", not note.refusal, note.text
    lines = {str(note.place) for note in noted}
    for loop in {str(p.place): p for p in report.pipelines}.values():
        if str(loop.place) not in lines:
            yield f"{loop.place} loop {loop.name}", bool(loop.role), "no note"


def compiled(item: tuple[str, str]) -> Compiled:
    """Into the disk cache, perhaps by a process of its own."""
    name, variant = item
    case, begin = next(case for case in all_cases() if case.name == name), time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tilelang.TilelangWarning)  # spills: see `resources`
            kernel = kernel_of(case, variant)
    except Exception as error:  # whatever it is, the other programs are compiled
        return Compiled(error=f"{type(error).__name__}: {error}")
    seconds, source, report = time.perf_counter() - begin, kernel.get_kernel_source(), kernel.report
    found = [word for word in HOPPERS if word in source]
    if variant == SM_80 and found:
        return Compiled(error=f"not sm_80's path: its source has {', '.join(found)}")
    ways = ["wgmma" if "wgmma" in source else "mma.sync" if "mma.sync" in source else "no tensor core"]
    signs = {"TMA": "cp.async.bulk.tensor", "cp.async": "cp.async.c"}
    ways += [word for word, sign in signs.items() if sign in source]
    copies = [n.text for n in report.notes if n.decided_by in ("plan_schedule", "move_boxes")]
    resources = "; ".join(
        f"{k.threads} threads, {k.registers} registers, {k.spill_stores or 0} bytes spilled, "
        f"{k.shared_bytes // 1024} KB shared{', serialized' * bool(k.serialized)}"
        for k in report.kernels
    )
    return Compiled(seconds, "", list(loops_of(report)), ", ".join(ways), resources, source, copies)


def compile_all(cases: list[Case], jobs: int | None) -> dict[str, dict[str, Compiled]]:
    items = [(case.name, variant) for case in cases for variant in VARIANTS]
    if jobs == 1:
        results = list(map(compiled, items))
    else:
        spawn = multiprocessing.get_context("spawn")  # a driver that this process has opened is lost to forks
        with ProcessPoolExecutor(jobs, mp_context=spawn) as pool:
            results = list(pool.map(compiled, items))
    found: dict[str, dict[str, Compiled]] = {case.name: {} for case in cases}
    for (name, variant), result in zip(items, results, strict=True):
        found[name][variant] = result
    return found


def say_compiled(case: Case, results: dict[str, Compiled]) -> bool:
    """Print what became of a case; whether all its variants compile."""
    print(f"\n{case.name}")
    for variant, result in results.items():
        said = result.error or f"{result.seconds:5.1f} s  {result.ways}; {result.resources}"
        if variant != AUTOMATIC and result.source == results[AUTOMATIC].source:
            said += "; the same source"
        print(f"  {variant:13s} {'FAILED  ' * bool(result.error)}{said}")
    for loop, is_divided, text in results[AUTOMATIC].loops:
        print(f"  roles         {'divided' if is_divided else 'whole'}: {loop}: {text}")
    for variant in (AUTOMATIC, SM_80):
        for text in results[variant].copies:
            print(f"  copies        {variant}: {text}")
    sys.stdout.flush()
    return not any(result.error for result in results.values())


def check(case: Case) -> bool:
    """A small case in the simulator, by each of its paths, against float64."""
    import numpy as np

    is_right = True
    for variant in VARIANTS:
        rng, begin = np.random.default_rng(0), time.perf_counter()
        arguments = [a if isinstance(a, int) else a.in_numpy(rng) for a in case.arguments]
        exact = case.exact(*[a if isinstance(a, int) else a.astype(np.float64) for a in arguments])
        try:
            kernel_of(case, variant, simulated=True)(*arguments)
        except Exception as error:
            print(f"{case.name}: {variant}: FAILED  {type(error).__name__}: {error}", flush=True)
            is_right = False
            continue
        worst = 0.0
        for i, expected in exact.items():
            found = arguments[i].astype(np.float64)
            if case.read and arguments[i].dtype == np.float32:
                found = case.read(found)
            error = float(np.linalg.norm(found - expected) / np.linalg.norm(expected))
            worst = max(worst, error) if error == error else float("inf")
        right = worst <= case.bound
        seconds = time.perf_counter() - begin
        print(
            f"{case.name}: {variant}: error {worst:.1e}{'' if right else '  WRONG'}  ({seconds:.1f} s)",
            flush=True,
        )
        is_right &= right
    return is_right


def argument_sets(case: Case) -> list[list[Any]]:
    """As many lists of arguments as do not stay in L2, of the same values."""
    first = [a if isinstance(a, int) else a.in_torch() for a in case.arguments]
    size = sum(a.numel() * a.element_size() for a in first if not isinstance(a, int))
    count = max(1, min(8, ROTATED // size))
    copies = [[a if isinstance(a, int) else a.clone() for a in first] for _ in range(count - 1)]
    return [first, *copies]


def outputs_of(case: Case, kernel: Any, arguments: list[Any]) -> list[Any]:
    """What a call leaves in outputs that held NaN, or zero where they are added to."""
    import torch

    for i in case.outputs:
        arguments[i].zero_() if case.arguments[i].kind == "zero" else poison(arguments[i])
    kernel(*arguments)
    return [arguments[i].to(torch.float32, copy=True) for i in case.outputs]


def errors_of(case: Case, kernels: dict[str, Any], arguments: list[Any]) -> dict[str, float]:
    """Of each variant the greatest relative norm of an output's difference from that of sm_80's path."""
    expected = outputs_of(case, kernels[SM_80], arguments)
    errors = {}
    for variant in (AUTOMATIC, ONE_ROLE):
        found = outputs_of(case, kernels[variant], arguments)
        each = [float((a - b).norm() / b.norm()) for a, b in zip(found, expected, strict=True)]
        errors[variant] = max(each) if all(e == e for e in each) else float("nan")
    return errors


def in_turn(kernel: Any, sets: list[list[Any]]) -> Callable[[], object]:
    turns = itertools.cycle(sets)
    return lambda: kernel(*next(turns))


def measure_case(case: Case, results: dict[str, Compiled], repeats: int) -> tuple[bool, str]:
    """Print a line for each variant; whether all is well, and the row of the table."""
    from timing import measure

    kernels = {variant: kernel_of(case, variant) for variant in VARIANTS}
    sets = argument_sets(case)
    errors = errors_of(case, kernels, sets[0])
    times = measure({v: in_turn(kernel, sets) for v, kernel in kernels.items()}, repeats=repeats)
    base, is_well, cells = times[SM_80], True, []
    for variant, r in times.items():
        speed, words = base.ms / r.ms, []
        if variant in errors and not errors[variant] <= 2 * case.bound:
            words.append("WRONG")
        if speed < 1 - TOLERANCE:
            words.append("SLOWER")
        is_well &= "WRONG" not in words
        error = f"error {errors[variant]:.1e}  " if variant in errors else " " * 16
        cells.append(f"{r.ms:.4f}" if variant == SM_80 else f"{r.ms:.4f} ({speed:.2f}x)")
        print(
            f"  {variant:13s} {r.ms:9.4f} ms  {speed:5.2f} times as fast as sm_80's path  "
            f"spread {100 * r.spread:4.1f}%  {error}{' '.join(words)}",
            flush=True,
        )
    slower = " **slower**" if times[AUTOMATIC].ms > base.ms * (1 + TOLERANCE) else ""
    wrong = "" if is_well else " **wrong**"
    how = f"{results[AUTOMATIC].roles}, {results[AUTOMATIC].ways}"
    row = f"| {case.name} | {' | '.join(cells)} | {how}{slower}{wrong} |"
    return is_well, row


def measure_all(cases: list[Case], found: dict[str, dict[str, Compiled]], o: argparse.Namespace) -> bool:
    import torch

    head = f"{torch.cuda.get_device_name()}, torch {torch.__version__}, tilelang {tilelang.__version__}"
    print(head)
    table = [
        head,
        "",
        f"| program | {' | '.join(f'{v}, ms' for v in VARIANTS)} | automatic: loops, instructions |",
        "|---|---|---|---|---|",
    ]
    is_well = True
    for case in cases:
        compiles = say_compiled(case, found[case.name])
        row = f"| {case.name} | | | | not compiled |"
        right = False
        if compiles:
            try:
                right, row = measure_case(case, found[case.name], o.repeats)
            except Exception as error:  # the other programs are measured
                print(f"  FAILED  {type(error).__name__}: {error}", flush=True)
                row = f"| {case.name} | | | | failed |"
        is_well &= right
        table.append(row)
        gc.collect()
        torch.cuda.empty_cache()
    print("\n" + "\n".join(table))
    if o.markdown:
        o.markdown.write_text("\n".join(table) + "\n")
    return is_well


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    groups = list(dict.fromkeys(case.group for case in all_cases()))
    parser.add_argument("--programs", nargs="*", default=groups, choices=groups)
    parser.add_argument("--only", default="", help="cases whose names have this text")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument(
        "--jobs", type=int, help="processes that compile; default: as many as there are cores"
    )
    parser.add_argument("--markdown", type=Path, help="where the table is written, too")
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--check", action="store_true")
    o = parser.parse_args()
    cases = [c for c in all_cases(small=o.check) if c.group in o.programs and o.only in c.name]
    if o.check:
        return 0 if all([check(case) for case in cases]) else 1
    found = compile_all(cases, o.jobs)
    if o.compile_only:
        return 0 if all([say_compiled(case, found[case.name]) for case in cases]) else 1
    return 0 if measure_all(cases, found, o) else 1


if __name__ == "__main__":
    raise SystemExit(main())
