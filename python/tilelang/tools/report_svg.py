"""Pictures for the report: a tile's layout as a coloured grid, bars of time, a measured timeline."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

from .. import _core
from ..front.dtypes import as_dtype
from ..language.maps import Fragment, Layout

if TYPE_CHECKING:
    from .timeline import RoleTime

_MOST = 128  # rows and columns of a picture
_CORNER = 8  # rows and columns that are also drawn with their numbers


def _hsl(hue: float, saturation: float, light: float) -> str:
    """A colour of CSS, as #rrggbb."""
    reach = saturation * min(light, 1 - light)

    def channel(n: int) -> int:
        k = (n + hue / 30) % 12
        return round(255 * (light - reach * max(-1.0, min(k - 3, 9 - k, 1.0))))

    return f"#{channel(0):02x}{channel(8):02x}{channel(4):02x}"


def _bank_colour(place: int, bits: int) -> str:
    """The 32 banks around the circle of hues, so that a swizzle is seen as rows that are shifted."""
    bank = place * bits // 32 % 32 if bits else place % 32
    return _hsl(bank * 360 / 32, 0.62, 0.80)


def _thread_colour(thread: int) -> str:
    """A hue for each warp, its lanes from light to dark."""
    warp, lane = divmod(thread, 32)
    return _hsl((214 + warp * 137.508) % 360, 0.62, 0.93 - 0.38 * lane / 31)


def _number(text: str) -> int:
    """The first number of a cell: the place, or the first thread."""
    return int(re.match("[0-9]*", text)[0] or 0)


def _size(text: str) -> int:
    return max(30, 7 * len(text) + 10)


def _ticks(count: int, step: float, at: str) -> str:
    """Numbers along one side, some of them."""
    out = []
    for n in range(0, count, 8 if step > 4 else 16):
        x, y = (n * step, -4) if at == "top" else (-5, n * step + step / 2 + 3)
        out.append(f'<text x="{x:g}" y="{y:g}" text-anchor="{"start" if at == "top" else "end"}">{n}</text>')
    return "".join(out)


def _grid(cells: list[tuple[str, str]], columns: int, rows: int, wide: int) -> str:
    """All cells as one path per colour: neighbours of one colour are one rectangle."""
    size = max(rows, wide)
    step = 4 if size > 64 else 7 if size > 32 else 12
    paths: dict[str, list[str]] = {}
    for r in range(rows):
        c = 0
        for colour, run in groupby(colour for _, colour in cells[r * columns : r * columns + wide]):
            n = len(list(run))
            paths.setdefault(colour, []).append(f"M{c * step} {r * step}h{n * step}v{step}h-{n * step}z")
            c += n
    body = "".join(f'<path fill="{colour}" d="{"".join(d)}"/>' for colour, d in paths.items())
    lines = "".join(f"M{n * step} 0v{rows * step}" for n in range(8, wide, 8))
    lines += "".join(f"M0 {n * step}h{wide * step}" for n in range(8, rows, 8))
    width, height = wide * step, rows * step
    return _svg(
        width,
        height,
        9,
        f'<g shape-rendering="crispEdges">{body}'
        f'<path d="{lines}" stroke="#fff" stroke-width="1" fill="none"/>'
        f'<rect width="{width}" height="{height}" fill="none" stroke="#8b95a9"/></g>'
        f"{_ticks(wide, step, 'top')}{_ticks(rows, step, 'side')}",
    )


def _corner(cells: list[tuple[str, str]], columns: int, rows: int, wide: int) -> str:
    """The first cells with what stands in them."""
    shown = [cells[r * columns : min(r * columns + wide, len(cells))] for r in range(rows)]
    w, h = max(_size(text) for row in shown for text, _ in row), 20
    body = "".join(
        f'<rect x="{c * w}" y="{r * h}" width="{w}" height="{h}" fill="{colour}" stroke="#fff"/>'
        f'<text x="{c * w + w / 2:g}" y="{r * h + 14}" text-anchor="middle" fill="#1d2433">'
        f"{escape(text)}</text>"
        for r, row in enumerate(shown)
        for c, (text, colour) in enumerate(row)
    )
    heads = "".join(
        f'<text x="{c * w + w / 2:g}" y="-5" text-anchor="middle">{c}</text>' for c in range(wide)
    )
    sides = "".join(f'<text x="-5" y="{r * h + 14}" text-anchor="end">{r}</text>' for r in range(rows))
    return _svg(wide * w, rows * h, 11, body + heads + sides)


def _svg(width: int, height: int, font: int, body: str) -> str:
    """A picture of that size, with room for numbers above it and to its left."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + 32}" height="{height + 20}" '
        f'viewBox="-30 -18 {width + 32} {height + 20}" font-size="{font}" fill="#5d6880">{body}</svg>'
    )


def picture(layout: Layout | Fragment | None, dtype: str | None, most: int = _MOST) -> str:
    """A layout as a figure; dtype: of a tile in shared memory, whose banks are then the colours."""
    if layout is None:
        return ""
    bits = as_dtype(dtype).bits if dtype else 0
    fragment = isinstance(layout, Fragment)
    try:
        _, _, columns, drawn = _core.draw_cells(layout._core, bits)
    except _core.CompileError as e:
        return f"<figure><figcaption>{escape(e.text)}</figcaption></figure>"
    if not drawn:
        return ""
    all_rows = -(-len(drawn) // columns)
    rows, wide = min(all_rows, most), min(columns, most)
    texts = [text for text, _ in drawn[: rows * columns]]
    cells = [
        (text, _thread_colour(_number(text)) if fragment else _bank_colour(_number(text), bits))
        for text in texts
    ]
    corner_rows, corner_wide = min(rows, _CORNER), min(wide, _CORNER)
    says = "a hue is a bank of shared memory; " if bits else ""
    says += "the numbers are places, in elements"
    if fragment:
        says = "a hue is a warp, dark its last lanes; the numbers are thread:register"
    if (rows, wide) != (all_rows, columns):
        says = f"the first {rows} of {all_rows} rows and {wide} of {columns} columns; {says}"
    whole = "" if (rows, wide) == (corner_rows, corner_wide) else _grid(cells, columns, rows, wide)
    return (
        f'<figure><div class="pictures">{whole}{_corner(cells, columns, corner_rows, corner_wide)}</div>'
        f"<figcaption>{escape(says)}</figcaption></figure>"
    )


def bars(phases: dict[str, float]) -> str:
    """Milliseconds as bars, what took no time left out."""
    rows = [(name, ms) for name, ms in phases.items() if ms >= 0.05]
    longest = max((ms for _, ms in rows), default=1.0)
    out = []
    for n, (name, ms) in enumerate(rows):
        y, width = n * 22, max(2.0, 620 * ms / longest)
        out.append(
            f'<text x="176" y="{y + 15}" text-anchor="end">{escape(name)}</text>'
            f'<rect x="186" y="{y + 4}" width="{width:.1f}" height="14" rx="3" fill="#7c9be8"/>'
            f'<text x="{192 + width:.1f}" y="{y + 15}">{ms:.1f} ms</text>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="900" height="{len(rows) * 22 + 4}" '
        f'viewBox="0 0 900 {len(rows) * 22 + 4}" font-size="12" fill="#1d2433">{"".join(out)}</svg>'
    )


# ── a measured timeline ───────────────────────────────────────────────────────────────────────────────────
_TURNS = 8  # that are drawn, counted in the role that takes longest for them
_WORK, _WAIT, _PRODUCTS, _BESIDE = "#7c9be8", "#e8a15c", "#8fc79a", "#e1e6ef"
_LANE, _LEFT, _WIDE = 34, 70, 480  # pixels: the height of a lane, what stands beside it, its length


def _round_step(length: float) -> float:
    """A round number of which about six make the length."""
    step = 10.0 ** math.floor(math.log10(max(length / 6, 1)))
    return next(step * n for n in (1, 2, 5, 10) if step * n >= length / 6)


def timeline(roles: Sequence[RoleTime], unit: str) -> str:
    """What the roles of one block did in their first turns, a lane for each, as a figure."""
    until = max((r.turns[:_TURNS][-1].end if r.turns else r.end for r in roles), default=0) or 1
    scale = _WIDE / until

    def bar(begin: int, end: int, colour: str, says: str, inset: int = 0) -> str:
        end = min(end, until)
        if begin >= end:
            return ""
        return (
            f'<rect x="{_LEFT + begin * scale:.1f}" y="{y + 4 + inset}" width="{(end - begin) * scale:.2f}" '
            f'height="{_LANE - 8 - 2 * inset}" fill="{colour}"><title>{escape(says)}</title></rect>'
        )

    out = []
    for n, r in enumerate(roles):
        y = n * _LANE + 24
        out.append(f'<text x="{_LEFT - 8}" y="{y + _LANE / 2 + 4:g}" text-anchor="end">{r.role}</text>')
        out.append(bar(r.begin, r.end, _BESIDE, f"{r.role}, outside of turns"))
        for i, turn in enumerate(r.turns):
            out.append(
                bar(turn.begin, turn.end, _WORK, f"turn {i} of loop {turn.loop}: {turn.length} {unit}")
            )
        for wait in (*(w for turn in r.turns for w in turn.waits), *r.waits):
            colour = _PRODUCTS if wait.on == "products" else _WAIT
            out.append(bar(wait.begin, wait.end, colour, f"waits for {wait.on}: {wait.length} {unit}", 4))
        edges = "".join(
            f"M{_LEFT + t.begin * scale:.1f} {y + 2}v{_LANE - 4}" for t in r.turns if t.begin < until
        )
        out.append(f'<path d="{edges}" stroke="#1d2433" stroke-width="1"/>')
    bottom, step = len(roles) * _LANE + 24, _round_step(until)
    out.append(f'<path d="M{_LEFT} {bottom}h{_WIDE}" stroke="#8b95a9"/>')
    for n in range(int(until / step) + 1):
        x = _LEFT + n * step * scale
        out.append(f'<path d="M{x:.1f} {bottom}v5" stroke="#8b95a9"/>')
        out.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{n * step:g}</text>')
    keys = (
        ("works", _WORK),
        ("waits for a barrier", _WAIT),
        ("for products", _PRODUCTS),
        ("outside of turns", _BESIDE),
    )
    x = _LEFT
    for says, colour in keys:
        out.append(f'<rect x="{x}" y="4" width="11" height="11" fill="{colour}"/>')
        out.append(f'<text x="{x + 16}" y="14">{says}</text>')
        x += 30 + 7 * len(says)
    width, height = _LEFT + _WIDE + 30, bottom + 24
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-size="11" fill="#1d2433">{"".join(out)}</svg>'
    )
