"""Fair timing on a CPU: the contenders take turns, each after a pause and an untimed run."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable


def interleaved(runs: dict[Hashable, Callable[[], object]], repeats: int, pause: float = 0.02) -> dict:
    """Seconds of each run of each; pause: seconds before, in which the other side's threads go to sleep."""
    times = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            time.sleep(pause)
            run()
            begin = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - begin)
    return times


def quantile(values: list[float], q: float) -> float:
    """The value that so many of them, as a part of all, lie below."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def spread(values: list[float]) -> float:
    """(p90 - p10) / median."""
    return (quantile(values, 0.9) - quantile(values, 0.1)) / quantile(values, 0.5)
