"""The report as one page: no scripts, nothing from elsewhere, well-formed as XML too."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..front.texts import lines_of
from ..language.maps import Fragment
from .report_svg import bars, picture
from .simulation import counter_rows

if TYPE_CHECKING:
    from .report import AccessInfo, BufferInfo, LoopInfo, Place, Report


def _place(place: Place | None) -> str:
    return f'<span class="place">{escape(str(place))}</span>' if place else ""


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]], classes: dict[int, str] | None = None) -> str:
    marks = [(classes or {}).get(i, "") for i in range(32)]
    cell = lambda tag, i, text: (f'<{tag} class="{marks[i]}">{text}</{tag}>' if marks[i]
                                 else f"<{tag}>{text}</{tag}>")
    head = "".join(cell("th", i, escape(text)) for i, text in enumerate(heads))
    body = "".join("<tr>" + "".join(cell("td", i, text) for i, text in enumerate(row)) + "</tr>\n"
                   for row in rows)
    return f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table>"


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def _bytes(count: int | None) -> str:
    if count is None:
        return ""
    return f"{count // 1024} KB" if count and count % 1024 == 0 else f"{count} bytes"


def _plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


# ── what a line led to ────────────────────────────────────────────────────────────────────────────────────
def _cost(a: AccessInfo) -> str:
    if a.count is None:
        return escape(a.unknown)
    text = f"{a.count} {a.unit if a.count != 1 else a.unit[:-1]}"
    if not a.excess:
        return f"{text}, the least"
    style = "conflict" if a.scope == "shared" else "refusal"
    return f'<span class="{style}">{text}, at least {a.least}</span>'


def _width(a: AccessInfo) -> str:
    return f"{a.parts} × {a.bytes} bytes" if a.parts > 1 else f"{a.bytes} bytes"


def _verb(a: AccessInfo) -> str:
    return ("written" if a.writes else "read") + (f" by {a.instruction}" if a.instruction else "")


def _layout_words(b: BufferInfo) -> str:
    if b.scope == "fragment" and b.elements is not None and isinstance(b.layout, Fragment):
        return f"{_plural(b.elements, 'element')} on each of {_plural(b.layout.threads, 'thread')}"
    padding = f", {b.padding} of them padding" if b.padding else ""
    return f"{b.elements} elements, {_bytes(b.bytes)}{padding}" if b.elements is not None else ""


def _sayings(report: Report) -> dict[tuple[str, int], list[str]]:
    """Per line of the user's what was decided for it."""
    says: dict[tuple[str, int], list[str]] = {}

    def say(place: Place | None, text: str) -> None:
        if place:
            said = says.setdefault((place.file, place.line), [])
            if text not in said:
                said.append(text)

    for b in report.buffers:
        if b.scope in ("tensor", "local"):
            continue
        by = f", laid out by {escape(b.decided_by)} ({b.strictness})" if b.decided_by else ""
        say(b.place, f"<b>{escape(b.name)}</b> {escape(b.scope)}: {_layout_words(b)}{by}")
        for why in b.why:
            say(b.decided_at or b.place,
                f'<b>{escape(b.name)}</b> <span class="refusal">{escape(why)}</span>')
    for loop in report.loops:
        say(loop.place, escape(loop.text))
        for refusal in loop.refusals:
            say(loop.place, f'<span class="refusal">{escape(refusal)}</span>')
    for o in report.operators:
        if o.how:
            say(o.place, escape(o.how))
        for text in o.details:
            say(o.place, escape(text))
        for text in o.refusals:
            if text != o.how:
                say(o.place, f'<span class="refusal">{escape(text)}</span>')
    for a in report.accesses:
        say(
            a.place,
            f"<b>{escape(a.buffer)}</b> {_verb(a)}, {_width(a)}: {_cost(a)}"
            if a.count is not None
            else f"<b>{escape(a.buffer)}</b> {_verb(a)}, {_width(a)}",
        )
    for note in report.notes:
        if note.refusal:
            say(note.place, f'<span class="refusal">{escape(note.text)}</span>')
    return says


def _program(report: Report) -> str:
    says = _sayings(report)
    parts = []
    for file in dict.fromkeys(file for file, _ in says):
        lines = lines_of(file)
        told = [line for f, line in says if f == file]
        first, last = min(told), max(told)
        for line in range(first - 1, max(0, first - 12), -1):  # from the `def` and its decorator
            if line <= len(lines) and lines[line - 1].lstrip().startswith("def "):
                first = line - 1 if line > 1 and lines[line - 2].lstrip().startswith("@") else line
                break
        code = [lines[n - 1].rstrip("\r\n") if n <= len(lines) else "" for n in range(first, last + 1)]
        indent = min((len(t) - len(t.lstrip()) for t in code if t.strip()), default=0)
        rows = []
        for n, text in enumerate(code, first):
            said = says.get((file, n), [])
            style = ("told hot" if any('"conflict"' in s for s in said) else "told") if said else ""
            rows.append(f'<tr class="{style}"><td class="no mono">{n}</td>'
                        f'<td class="code mono">{escape(text[indent:])}</td>'
                        f'<td class="says">{"".join(f"<div>{s}</div>" for s in said)}</td></tr>\n')
        parts.append(
            f'<div class="card"><h3 class="soft">{escape(file)}</h3>\n<table class="program"><tbody>\n'
            f"{''.join(rows)}</tbody></table></div>")
    return "\n".join(parts)


# ── the sections ──────────────────────────────────────────────────────────────────────────────────────────
def _overview(report: Report) -> str:
    chips: list[tuple[str, str]] = []
    for k in report.kernels:
        chips.append(("", f"{escape(k.name)}: {_plural(k.threads, 'thread')} a block"))
        if k.shared_bytes:
            chips.append(("", f"{_bytes(k.shared_bytes)} of shared memory"))
        if k.private_bytes:
            chips.append(("", f"{_bytes(k.private_bytes)} of private memory a block"))
        if k.registers is not None:
            chips.append(("", f"{k.registers} registers a thread"))
        if k.spill_stores is not None:
            spills = k.spill_stores or k.spill_loads
            chips.append(("bad", f"spills {k.spill_stores} bytes") if spills else ("good", "no spills"))
    shared = [a for a in report.accesses if a.scope == "shared" and a.count is not None]
    if report.conflicts:
        chips.append(("bad", f"{len(report.conflicts)} of {len(shared)} accesses of shared memory with bank "
                      "conflicts"))
    elif shared:
        chips.append(("good", "no bank conflicts"))
    if report.refusals:
        chips.append(("warn", _plural(len(report.refusals), "refusal")))
    items = "".join(f'<li class="{style}">{text}</li>' if style else f"<li>{text}</li>"
                    for style, text in chips)
    made = "read from the disk cache" if report.from_cache else "compiled"
    by = f" by {escape(report.toolchain)}" if report.toolchain else ""
    total = sum(report.phases.values())
    return (f'<h1>{escape(report.function)}</h1>\n'
            f'<div class="soft">for <span class="mono">{escape(report.target)}</span>, '
            f'{made}{by} in {total:.1f} ms</div>\n<ul class="chips">{items}</ul>')


def _buffer(b: BufferInfo) -> str:
    facts = [("scope",
              f"{escape(b.scope)} {escape(b.dtype)}[{', '.join(map(escape, b.shape))}] {_place(b.place)}")]
    if b.formula:
        facts.append(("layout", _code(b.formula)))
    if b.decided_by:
        facts.append(("decided by", f"{escape(b.decided_by)}, {escape(b.strictness)} {_place(b.decided_at)}"))
    if isinstance(b.layout, Fragment):
        copies = f", {b.layout.replicas} copies of each" if b.layout.replicas > 1 else ""
        facts.append(("takes", f"{_layout_words(b)}{copies} ({_bytes(b.bytes)} a thread)"))
    elif b.elements is not None:
        facts.append(("takes", _layout_words(b)))
    if b.address is not None:
        facts.append(("address", f"{b.address} in the block's memory"))
    facts += [("why", f'<span class="refusal">{escape(why)}</span>') for why in b.why]
    body = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in facts)
    drawn = (picture(b.layout, b.dtype if b.scope == "shared" else None) if b.scope in ("shared", "fragment")
             else "")
    return (f'<div class="card"><h3 class="mono">{escape(b.name)}</h3>\n'
            f'<div class="buffer"><div class="facts"><dl>{body}'
            f"</dl></div>\n{drawn}</div></div>")


def _loop(loop: LoopInfo) -> list[str]:
    refusals = "".join(f'<div class="refusal">{escape(r)}</div>' for r in loop.refusals)
    drawn = picture(loop.mapping, None, 64)
    drawn = f"<details><summary>picture of the mapping</summary>{drawn}</details>" if drawn else ""
    return [_place(loop.place), _code(loop.name), f"{escape(loop.text)}{refusals}{drawn}"]


def _accesses(report: Report) -> str:
    rows = [[_place(a.place), _code(a.buffer), escape(a.scope), _verb(a), _width(a), str(a.sites),
             "" if a.times is None else str(a.times), _cost(a)] for a in report.accesses]
    return _table(("line", "buffer", "scope", "access", "a thread, at once", "in the code", "times",
                   "a warp, at worst"), rows, {5: "num", 6: "num"})


def _counted(simulation: Any) -> str:
    heads, rows = counter_rows(simulation.counters)
    return (f'<div class="soft">{_plural(simulation.schedules, "schedule")} of '
            f'{_plural(simulation.blocks, "block")}; counted in the last one</div>'
            f"{_table(heads, [[escape(cell) for cell in row] for row in rows])}")


def _sections(report: Report) -> list[tuple[str, str, str]]:
    """(anchor, title, body) of what there is to say."""
    out = []
    if program := _program(report):
        out.append(("program", "Program", program))
    tiles = [b for b in report.buffers if b.scope != "local"]
    local = [b for b in report.buffers if b.scope == "local"]
    body = "\n".join(map(_buffer, (b for b in tiles if b.scope != "tensor")))
    plain = [[_place(b.place), _code(b.name), escape(b.scope), _code(f"{b.dtype}[{', '.join(b.shape)}]"),
              _bytes(b.bytes), _code(b.formula)] for b in [b for b in tiles if b.scope == "tensor"] + local]
    if plain:
        table = _table(("line", "buffer", "scope", "type", "size", "layout"), plain)
        body += f'<div class="card">{table}</div>'
    if body:
        out.append(("buffers", "Buffers", body))
    if report.loops:
        table = _table(("line", "loop", "mapping"), map(_loop, report.loops))
        out.append(("loops", "Parallel loops and copies", f'<div class="card">{table}</div>'))
    mapped = {(loop.place, loop.text) for loop in report.loops}
    operators = [o for o in report.operators if (o.place, o.how) not in mapped or o.details or o.refusals]
    if operators:
        rows = [
            [_place(o.place), _code(f"{o.name}({o.operands})"),
             escape(o.how) + "".join(f"<div>{escape(d)}</div>"
                                     for d in o.details) + "".join(f'<div class="refusal">{escape(d)}</div>'
                                                                   for d in o.refusals if d != o.how)]
            for o in operators]
        out.append(("operators", "Operators",
                    f'<div class="card">{_table(("line", "operator", "how it runs"), rows)}</div>'))
    if report.accesses:
        out.append(("accesses", "Accesses to memory", f'<div class="card">{_accesses(report)}</div>'))
    if report.simulation is not None:
        counted = f'<div class="card">{_counted(report.simulation)}</div>'
        out.append(("simulation", "Counted by the simulator", counted))
    if report.notes:
        rows = [[_place(n.place), escape(n.subject),
                 f'<span class="refusal">{escape(n.text)}</span>' if n.refusal else escape(n.text),
                 escape(n.decided_by)] for n in report.notes]
        out.append(("notes", "Notes and refusals",
                    f'<div class="card">{_table(("line", "of", "note", "pass"), rows)}</div>'))
    if any(report.phases.values()):
        out.append(("time", "Time", f'<div class="card">{bars(report.phases)}</div>'))
    return out


def page(report: Report) -> str:
    """The whole page."""
    sections = _sections(report)
    links = "".join(f'<a href="#{name}">{escape(title)}</a>' for name, title, _ in sections)
    body = "\n".join(f'<section id="{name}"><h2>{escape(title)}</h2>\n{text}</section>'
                     for name, title, text in sections)
    title = f"{escape(report.function)} for {escape(report.target)}"
    style = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1"/>\n<title>{title}</title>\n'
            f"<style>\n{style}</style></head>\n<body><main>\n<header>{_overview(report)}\n"
            f"<nav>{links}</nav></header>\n{body}\n</main></body></html>\n")
