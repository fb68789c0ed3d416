"""A part: the best variant of each provider for a case, and these in turn in both regimes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from peers.link import Bench, Lost, Refused
from peers.providers import Variant
from peers.results import Results
from peers.shapes import Case

ATTEMPT, OPEN, SHORT = 60.0, 60.0, 20.0  # seconds within which an answer must come


class OutOfTime(Exception):
    """The budget is spent; what is not finished is left for the next run."""


class NobodyRan(Exception):
    """No provider could do the part, and why."""


@dataclass
class Budget:
    seconds: float
    now: Callable[[], float] = time.monotonic
    begin: float = field(init=False)

    def __post_init__(self) -> None:
        self.begin = self.now()

    def left(self) -> float:
        return self.seconds - (self.now() - self.begin)

    def at_most(self, seconds: float) -> float:
        """So many seconds, or what is left; OutOfTime where nothing is."""
        left = self.left()
        if left <= 0:
            raise OutOfTime
        return min(seconds, left)


@dataclass
class Options:
    repeats: int = 8
    sustain: float = 0.5  # seconds of a turn; 0: only bursts
    turns: int = 2
    idle: float = 0.06
    sleep: Callable[[float], None] = time.sleep


@dataclass
class Choice:
    """The best variant of a provider, or why there is none."""

    bench: Bench
    provider: str
    variant: Variant | None = None
    tried: int = 0
    reasons: list[tuple[Variant | None, str]] = field(default_factory=list)  # None: of all variants


def middle(times: list[float]) -> dict[str, float]:
    """The median, and (p90 - p10) / median."""
    median = statistics.median(times)
    if len(times) < 2:
        return {"ms": median, "spread": 0.0}
    tenths = statistics.quantiles(times, n=10, method="inclusive")
    return {"ms": median, "spread": (tenths[8] - tenths[0]) / median}


class Part:
    def __init__(self, case: Case, results: Results, budget: Budget, options: Options) -> None:
        self.case, self.results, self.budget, self.options = case, results, budget, options

    def _of_variant(self, choice: Choice, do: str, which: Variant, timeout: float, **more: Any) -> Any:
        """One command about a variant; if the process is lost, or refuses what was right before, then the
        variant is not tried again."""
        timeout = self.budget.at_most(timeout)
        try:
            return choice.bench.ask(do, timeout, provider=choice.provider, **more)
        except (Refused, Lost) as problem:
            if self.budget.left() > 0 and (isinstance(problem, Lost) or do != "attempt"):
                self.results.add_lost(self.case, choice.provider, which, str(problem))
            raise

    def choose(self, bench: Bench, provider: str) -> Choice:
        """Tries every variant that may be tried, and takes the fastest of those that are right."""
        choice, best = Choice(bench, provider), float("inf")
        try:
            asked = {"case": self.case.as_dict(), "provider": provider}
            variants = bench.ask("variants", self.budget.at_most(ATTEMPT), **asked)
        except (Refused, Lost) as problem:
            choice.reasons.append((None, str(problem).removeprefix("Unsupported: ")))
            return choice
        for variant in variants:
            if self.results.is_lost(self.case, provider, variant):
                choice.reasons.append((variant, "its process was lost before"))
                continue
            try:
                ms = self._of_variant(choice, "attempt", variant, ATTEMPT, variant=variant)
            except (Refused, Lost) as problem:
                choice.reasons.append((variant, str(problem)))
                continue
            choice.tried += 1
            if ms < best:
                best, choice.variant = ms, variant
        return choice

    def in_both_regimes(self, chosen: list[Choice]) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for c in chosen:
            error = self._of_variant(c, "hold", c.variant, ATTEMPT, variant=c.variant)
            found[c.provider] = {"variant": c.variant, "tried": c.tried, "error": error}
        times: dict[str, list[float]] = {c.provider: [] for c in chosen}
        for _ in range(self.options.repeats):
            for c in chosen:
                self.options.sleep(self.options.idle)
                times[c.provider].append(self._of_variant(c, "burst", c.variant, SHORT))
        for provider, values in times.items():
            found[provider]["burst"] = middle(values)
        if self.options.sustain:
            self._sustain(chosen, found)
        return found

    def _sustain(self, chosen: list[Choice], found: dict[str, dict[str, Any]]) -> None:
        seconds = self.options.sustain
        times: dict[str, list[float]] = {c.provider: [] for c in chosen}
        for _ in range(self.options.turns):
            for c in chosen:
                said = self._of_variant(c, "sustain", c.variant, SHORT + seconds, seconds=seconds)
                times[c.provider] += said["times"]
                found[c.provider]["mhz"] = said["mhz"]
        for provider, values in times.items():
            found[provider]["sustained"] = middle(values)

    def run(self, benches: list[Bench]) -> None:
        """Measures the part and writes it down.  Where a process is lost on the way, its variant is left out
        and the part is done again."""
        while True:
            choices = []
            for bench in benches:
                try:
                    bench.open(self.case, self.budget.at_most(OPEN))
                except (Refused, Lost) as problem:
                    reasons = [(None, f"its process could not open the case: {problem}")]
                    choices += [Choice(bench, name, reasons=reasons) for name in bench.providers]
                    continue
                choices += [self.choose(bench, name) for name in bench.providers]
            chosen = [c for c in choices if c.variant is not None]
            if not chosen:
                raise NobodyRan("; ".join(f"{c.provider}: {c.reasons[0][1]}" for c in choices if c.reasons))
            try:
                found = self.in_both_regimes(chosen)
            except (Refused, Lost):
                continue
            absent = {c.provider: c.reasons for c in choices if c.variant is None}
            refused = {c.provider: c.reasons for c in chosen if c.reasons}
            return self.results.add(
                self.case,
                found=found,
                absent=absent,
                refused=refused,
                about={b.package: b.about for b in benches},
                date=time.strftime("%Y-%m-%d"),
            )
