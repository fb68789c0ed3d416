"""The two regimes of a card that is limited by its power.

burst      a window of about 4 ms after idle (timing.Window), of sets of operands in turn
sustained  the same window again and again for a while; what counts is the second half
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from timing import Window

IDLE = 0.03  # seconds of rest before a burst that only chooses
AHEAD = 8  # windows that are queued, so that the GPU never waits for the host


def in_turn(launches: list[Callable[[], object]]) -> Callable[[], object]:
    """A function that launches the next one of them each time."""
    turns = itertools.cycle(launches)
    return lambda: next(turns)()


def quick(launch: Callable[[], object]) -> float:
    """Milliseconds of a launch, for choosing between variants: the median of some bursts."""
    window, times = Window(launch, window_ms=2.0), []
    for _ in range(5):
        time.sleep(IDLE)
        times.append(window.run())
    return sorted(times)[2]


def clock() -> int | None:
    """The clock of the SMs in MHz, where it can be read."""
    try:
        return torch.cuda.clock_rate()
    except Exception:
        return None


def sustained(window: Window, seconds: float) -> tuple[list[float], int | None]:
    """Milliseconds per launch of each window in the second half of so many seconds, and the clock then."""
    events: deque[Any] = deque()
    times: list[tuple[float, float]] = []
    begin, mhz = time.perf_counter(), None

    def mark() -> None:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        events.append(event)

    def take() -> None:
        first = events.popleft()
        events[0].synchronize()
        times.append((time.perf_counter() - begin, first.elapsed_time(events[0]) / window.launches))

    mark()
    while time.perf_counter() - begin < seconds:
        window.graph.replay()
        mark()
        if len(events) > AHEAD:
            take()
        if mhz is None and time.perf_counter() - begin > 0.75 * seconds:
            mhz = clock()
    while len(events) > 1:
        take()
    return [ms for at, ms in times if at >= seconds / 2], mhz
