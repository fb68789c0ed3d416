"""What was measured as Markdown: a table for each type, layout and regime, a row a shape."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator
from typing import Any

from peers.providers import NAMES, OURS, PUBLISHED
from peers.shapes import LARGE, SHAPES, Case

BASE = "cuBLAS"
COLUMNS = (*NAMES[OURS][:2], *NAMES[PUBLISHED], *NAMES[OURS][2:])
REGIMES = ("burst", "sustained")
Parts = dict[str, dict[str, Any]]
Group = tuple[bool, str, str]  # whether of large shapes, type, layout


def case_of(name: str) -> Case:
    return Case(*name.split())


def groups(parts: Parts) -> dict[Group, list[Case]]:
    """The cases that were measured, in the order of the shapes."""
    cases = sorted((case_of(name) for name in parts), key=lambda c: list(SHAPES).index(c.shape))
    found: dict[Group, list[Case]] = {}
    for case in cases:
        found.setdefault((case.shape in LARGE, case.dtype, case.layout), []).append(case)
    order = ("f16", "bf16", "fp8")
    return dict(sorted(found.items(), key=lambda g: (not g[0][0], order.index(g[0][1]), g[0][2] != "nt")))


def heading(group: Group) -> str:
    large, dtype, layout = group
    b = "(N, K)" if layout == "nt" else "(K, N)"
    return f"{dtype}, B as {b}" + ("" if large else ", small shapes")


def tflops(parts: Parts, case: Case, provider: str, regime: str) -> float | None:
    found = parts[case.name]["found"].get(provider, {}).get(regime)
    return case.gflop / found["ms"] if found else None


def ratio(parts: Parts, case: Case, provider: str, regime: str) -> float | None:
    mine, base = (tflops(parts, case, who, regime) for who in (provider, BASE))
    return mine / base if mine and base else None


def geomean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))


def columns(parts: Parts) -> list[str]:
    """The providers that did anything, or said why not."""
    present = {who for part in parts.values() for who in (*part["found"], *part["absent"])}
    return [who for who in COLUMNS if who in present]


def cell(value: float | None, of_base: float | None, provider: str, of: str = "") -> str:
    if value is None:
        return "–"
    if provider == BASE or of_base is None:
        return f"{value:.1f}{of}"
    return f"{value:.1f} ({of_base:.3f}){of}"


def geomeans(parts: Parts, cases: list[Case], provider: str, regime: str) -> str:
    """Over the shapes that the provider did, and how many these are where it did not do all."""
    values = [(tflops(parts, c, provider, regime), ratio(parts, c, provider, regime)) for c in cases]
    did = [(value, of_base) for value, of_base in values if value]
    if not did:
        return "–"
    ratios = [of_base for _, of_base in did if of_base]
    of = "" if len(did) == len(cases) else f" of {len(did)}"
    return cell(geomean(v for v, _ in did), geomean(ratios) if ratios else None, provider, of)


def of_group(parts: Parts, group: Group, cases: list[Case], regime: str) -> Iterator[str]:
    who = columns(parts)
    done = [c for c in cases if any(tflops(parts, c, p, regime) for p in who)]
    if not done:
        return
    yield f"**{heading(group)}, {regime}**: TFLOPS (of {BASE})"
    yield ""
    yield f"| shape | m, n, k | {' | '.join(who)} |"
    yield "|---" * (2 + len(who)) + "|"
    for c in done:
        cells = [cell(tflops(parts, c, p, regime), ratio(parts, c, p, regime), p) for p in who]
        yield f"| {c.shape} | {', '.join(map(str, c.size))} | {' | '.join(cells)} |"
    yield f"| geometric mean | | {' | '.join(geomeans(parts, done, p, regime) for p in who)} |"
    yield ""
    spreads = {
        p: max(parts[c.name]["found"][p][regime]["spread"] for c in done if tflops(parts, c, p, regime))
        for p in who
        if any(tflops(parts, c, p, regime) for c in done)
    }
    yield "Greatest spread: " + ", ".join(f"{p} {100 * s:.1f} %" for p, s in spreads.items()) + "."
    if regime == "sustained":
        yield from clocks(parts, done, who)
    yield ""


def clocks(parts: Parts, cases: list[Case], who: list[str]) -> Iterator[str]:
    """Of the SMs, where they could be read."""
    read = {p: [parts[c.name]["found"].get(p, {}).get("mhz") for c in cases] for p in who}
    medians = {p: statistics.median(filter(None, mhz)) for p, mhz in read.items() if any(mhz)}
    if medians:
        yield "Clock, median: " + ", ".join(f"{p} {mhz:.0f} MHz" for p, mhz in medians.items()) + "."


def machines(parts: Parts) -> list[str]:
    """Cards, versions and dates, as one line for each that differs."""
    found: dict[str, set[str]] = {}
    for part in parts.values():
        about = part["about"]
        versions = dict(about.get(OURS, {}).get("versions", {}))
        if about.get(PUBLISHED):
            versions["published tilelang"] = about[PUBLISHED]["versions"]["tilelang"]
        card = next(iter(about.values()), {})
        named = ", ".join(f"{what} {version}" for what, version in versions.items())
        line = f"{card.get('gpu', 'no card')} (driver, power limit: {card.get('driver', '?')}), {named}"
        found.setdefault(line, set()).add(part["date"])
    return [f"{line}, {' and '.join(sorted(dates))}" for line, dates in found.items()]


def gathered(parts: Parts, what: str) -> Iterator[str]:
    """A line for each provider and reason, with the cases and variants that have it."""
    found: dict[tuple[str, str], dict[str, list[str]]] = {}
    for name, part in parts.items():
        for provider, reasons in part[what].items():
            for variant, reason in reasons:
                of_case = found.setdefault((provider, reason), {}).setdefault(name, [])
                of_case += [str(variant)] if variant is not None else []
    for (provider, reason), cases in found.items():
        variants = list(dict.fromkeys(variant for of_case in cases.values() for variant in of_case))
        which = few(list(cases)) + (f"; {few(variants)}" if variants else "")
        yield f"- {provider}: {reason} ({which})"


def few(names: list[str], shown: int = 3) -> str:
    return ", ".join(names[:shown]) + (f" and {len(names) - shown} more" if len(names) > shown else "")


def markdown(parts: Parts) -> str:
    if not parts:
        return "Nothing was measured.\n"
    lines = [*machines(parts), ""]
    lines += ["Burst: windows of 4 ms after 60 ms of idle; sustained: the same windows without a pause, the"]
    lines += ["second half.  Providers in turn, medians; spread is (p90 - p10) / median.", ""]
    if PUBLISHED not in columns(parts):
        lines += ["The published package was not there (--published), so it has no column.", ""]
    for group, cases in groups(parts).items():
        for regime in REGIMES:
            lines += of_group(parts, group, cases, regime)
    greatest = max(f["error"] for part in parts.values() for f in part["found"].values())
    lines += [f"Greatest relative error against float64 on sampled rows: {greatest:.1e}.", ""]
    for title, what in (("Not measured:", "absent"), ("Variants that were left out:", "refused")):
        said = list(gathered(parts, what))
        lines += [title, "", *said, ""] if said else []
    return "\n".join(lines)
