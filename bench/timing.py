"""Fair timing on a power-limited GPU: short windows after idle, providers interleaved, medians with spread.

A window is a CUDA graph of as many launches as fill about 4 ms; it is replayed once after 60 ms of idle, and
the providers take turns.  Report the median and (p90 - p10) / median.  A window begins behind a short wait on
the GPU, so that neither what the host takes to launch the graph counts, nor the switch from another process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

WAIT = 1_000_000  # cycles that the GPU waits in front of a window: about half a millisecond


@dataclass
class Result:
    ms: float
    spread: float


def quantile(values: list[float], q: float) -> float:
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


class Window:
    """Launches captured in a CUDA graph; run() gives milliseconds per launch."""

    def __init__(self, launch: Callable[[], object], window_ms: float = 4.0) -> None:
        launch()
        torch.cuda.synchronize()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        launch()
        end.record()
        torch.cuda.synchronize()
        self.launches = max(1, min(500, int(window_ms / max(begin.elapsed_time(end), 1e-3))))
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for _ in range(self.launches):
                launch()
        self.graph.replay()
        torch.cuda.synchronize()

    def run(self) -> float:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(WAIT)
        begin.record()
        self.graph.replay()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / self.launches


def measure(
    launches: dict[str, Callable[[], object]], repeats: int = 10, idle: float = 0.06
) -> dict[str, Result]:
    """Times every provider in turn, `repeats` times, each after `idle` seconds of rest."""
    windows = {name: Window(launch) for name, launch in launches.items()}
    times: dict[str, list[float]] = {name: [] for name in windows}
    for _ in range(repeats):
        for name, window in windows.items():
            time.sleep(idle)
            times[name].append(window.run())
    return {
        name: Result(quantile(t, 0.5), (quantile(t, 0.9) - quantile(t, 0.1)) / quantile(t, 0.5))
        for name, t in times.items()
    }
