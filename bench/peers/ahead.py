"""Compiles what the next parts need, in several processes, so that they find it in the disk cache."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from typing import Any

from peers.link import Bench, Lost, Refused
from peers.measure import Budget, OutOfTime
from peers.providers import Variant
from peers.results import Results
from peers.shapes import Case

COMPILE = 120.0  # seconds for one variant
Item = tuple[str, str, Case, Variant]  # package, provider, case, variant


def items(cases: list[Case], benches: list[Bench], results: Results, budget: Budget) -> list[Item]:
    """All variants of the cases, those of the slowest compiler first."""
    found: list[Item] = []
    for bench in reversed(benches):
        for case in cases:
            for provider in bench.providers:
                asked = {"case": case.as_dict(), "provider": provider}
                try:
                    variants = bench.ask("variants", budget.at_most(COMPILE), **asked)
                except (Refused, Lost):
                    continue  # the part itself will say why
                found += [
                    (bench.package, provider, case, variant)
                    for variant in variants
                    if not results.is_lost(case, provider, variant)
                ]
    return found


def compile_ahead(
    todo: list[Item], start: Callable[[str], Any], results: Results, budget: Budget, jobs: int
) -> int:
    """How many of them were compiled.  One that takes its process along is noted; one that is refused is
    refused again when it is measured, and noted there."""
    waiting: queue.SimpleQueue[Item] = queue.SimpleQueue()
    for item in todo:
        waiting.put(item)
    done: list[Item] = []

    def work() -> None:
        benches: dict[str, Bench] = {}
        try:
            while budget.left() > 0:
                package, provider, case, variant = item = waiting.get_nowait()
                bench = benches.setdefault(package, Bench(package, start))
                asked = {"case": case.as_dict(), "provider": provider, "variant": variant}
                try:
                    bench.ask("compile", budget.at_most(COMPILE), **asked)
                    done.append(item)
                except Refused:
                    pass
                except Lost as lost:
                    if budget.left() > 0:
                        results.add_lost(case, provider, variant, f"when it was compiled: {lost}")
        except (queue.Empty, OutOfTime):
            pass
        finally:
            for bench in benches.values():
                bench.end()

    threads = [threading.Thread(target=work) for _ in range(min(jobs, len(todo)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(done)


def default_jobs() -> int:
    return max(1, min(16, (os.cpu_count() or 2) - 1))
