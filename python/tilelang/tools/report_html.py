"""The report as one page: no scripts, nothing from elsewhere, well-formed as XML too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..front.texts import lines_of
from ..language.maps import Fragment
from .report_svg import bars, picture, timeline
from .simulation import counter_rows, plural

if TYPE_CHECKING:
    from .report import AccessInfo, BufferInfo, LoopInfo, PipelineInfo, Place, Report
    from .timeline import Timeline


def _place(place: Place | None) -> str:
    return f'<span class="place">{escape(str(place))}</span>' if place else ""


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]], numbers: tuple[int, ...] = ()) -> str:
    """numbers: the columns that are numbers."""
    style = ' class="num"'
    cell = lambda tag, i, text: f"<{tag}{style * (i in numbers)}>{text}</{tag}>"
    head = "".join(cell("th", i, escape(text)) for i, text in enumerate(heads))
    body = "".join(f"<tr>{''.join(cell('td', i, text) for i, text in enumerate(row))}</tr>\n" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table>"


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def _bytes(count: int | None) -> str:
    is_round = count and count % 1024 == 0
    return "" if count is None else f"{count // 1024} KB" if is_round else f"{count} bytes"


def _refused(text: str, tag: str = "span") -> str:
    return f'<{tag} class="refusal">{escape(text)}</{tag}>'


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
        return f"{plural(b.elements, 'element')} on each of {plural(b.layout.threads, 'thread')}"
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
        if b.scope not in ("tensor", "local"):
            by = f", laid out by {escape(b.decided_by)} ({b.strictness})" if b.decided_by else ""
            say(b.place, f"<b>{escape(b.name)}</b> {escape(b.scope)}: {_layout_words(b)}{by}")
            for why in b.why:
                say(b.decided_at or b.place, f"<b>{escape(b.name)}</b> {_refused(why)}")
    for loop in report.loops:
        for text in (escape(loop.text), *map(_refused, loop.refusals)):
            say(loop.place, text)
    for o in report.operators:
        said = [escape(text) for text in (*([o.how] if o.how else ()), *o.details)]
        for text in (*said, *[_refused(text) for text in o.refusals if text != o.how]):
            say(o.place, text)
    for a in report.accesses:
        cost = f": {_cost(a)}" if a.count is not None else ""
        say(a.place, f"<b>{escape(a.buffer)}</b> {_verb(a)}, {_width(a)}{cost}")
    for note in report.refusals:
        say(note.place, _refused(note.text))
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
            rows.append(
                f'<tr class="{style}"><td class="no mono">{n}</td>'
                f'<td class="code mono">{escape(text[indent:])}</td>'
                f'<td class="says">{"".join(f"<div>{s}</div>" for s in said)}</td></tr>\n'
            )
        parts.append(
            f'<div class="card"><h3 class="soft">{escape(file)}</h3>\n<table class="program"><tbody>\n'
            f"{''.join(rows)}</tbody></table></div>"
        )
    return "\n".join(parts)


# ── the sections ──────────────────────────────────────────────────────────────────────────────────────────
def _chips(report: Report) -> Iterator[tuple[str, str]]:
    """What is said first: (style, text)."""
    for k in report.kernels:
        yield "", f"{escape(k.name)}: {plural(k.threads, 'thread')} a block"
        if k.shared_bytes:
            yield "", f"{_bytes(k.shared_bytes)} of shared memory"
        if k.private_bytes:
            yield "", f"{_bytes(k.private_bytes)} of private memory a block"
        if k.registers is not None:
            yield "", f"{k.registers} registers a thread"
        if k.spill_stores is not None:
            spills = k.spill_stores or k.spill_loads
            yield ("bad", f"spills {k.spill_stores} bytes") if spills else ("good", "no spills")
    shared = [a for a in report.accesses if a.scope == "shared" and a.count is not None]
    if report.conflicts:
        yield "bad", f"{len(report.conflicts)} of {len(shared)} accesses of shared memory with bank conflicts"
    elif shared:
        yield "good", "no bank conflicts"
    if report.refusals:
        yield "warn", plural(len(report.refusals), "refusal")


def _overview(report: Report) -> str:
    items = "".join(
        f'<li class="{style}">{text}</li>' if style else f"<li>{text}</li>" for style, text in _chips(report)
    )
    made = "read from the disk cache" if report.from_cache else "compiled"
    by = f" by {escape(report.toolchain)}" if report.toolchain else ""
    return (
        f"<h1>{escape(report.function)}</h1>\n"
        f'<div class="soft">for <span class="mono">{escape(report.target)}</span>, '
        f'{made}{by} in {sum(report.phases.values()):.1f} ms</div>\n<ul class="chips">{items}</ul>'
    )


def _buffer(b: BufferInfo) -> str:
    facts = [
        ("scope", f"{escape(b.scope)} {escape(b.dtype)}[{', '.join(map(escape, b.shape))}] {_place(b.place)}")
    ]
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
    facts += [("why", _refused(why)) for why in b.why]
    body = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in facts)
    drawn = (
        picture(b.layout, b.dtype if b.scope == "shared" else None)
        if b.scope in ("shared", "fragment")
        else ""
    )
    return (
        f'<div class="card"><h3 class="mono">{escape(b.name)}</h3>\n'
        f'<div class="buffer"><div class="facts"><dl>{body}</dl></div>\n{drawn}</div></div>'
    )


def _loop(loop: LoopInfo) -> list[str]:
    refusals = "".join(_refused(text, "div") for text in loop.refusals)
    drawn = picture(loop.mapping, None, 64)
    drawn = f"<details><summary>picture of the mapping</summary>{drawn}</details>" if drawn else ""
    return [_place(loop.place), _code(loop.name), f"{escape(loop.text)}{refusals}{drawn}"]


def _accesses(report: Report) -> str:
    rows = [
        [
            _place(a.place),
            _code(a.buffer),
            escape(a.scope),
            _verb(a),
            _width(a),
            str(a.sites),
            "" if a.times is None else str(a.times),
            _cost(a),
        ]
        for a in report.accesses
    ]
    heads = "line|buffer|scope|access|a thread, at once|in the code|times|a warp, at worst".split("|")
    return _table(heads, rows, (5, 6))


def _counted(simulation: Any) -> str:
    heads, rows = counter_rows(simulation.counters)
    return (
        f'<div class="soft">{plural(simulation.schedules, "schedule")} of '
        f"{plural(simulation.blocks, 'block')}; counted in the last one</div>"
        f"{_table(heads, [[escape(cell) for cell in row] for row in rows])}"
    )


def _operators(report: Report) -> list[list[str]]:
    """The rows of those whose line of the loops does not say all of it."""
    mapped = {(loop.place, loop.text) for loop in report.loops}
    rows = []
    for o in report.operators:
        if (o.place, o.how) not in mapped or o.details or o.refusals:
            more = [
                *[f"<div>{escape(d)}</div>" for d in o.details],
                *[_refused(d, "div") for d in o.refusals if d != o.how],
            ]
            rows.append([_place(o.place), _code(f"{o.name}({o.operands})"), escape(o.how) + "".join(more)])
    return rows


def _pipeline(p: PipelineInfo) -> str:
    """What the loop's tiles have, and one turn as a table: what runs ahead is seen by its iteration."""
    held = [f"{t.slots} slots of {_code(t.name)} ({_bytes(t.bytes)})" for t in p.tiles]
    if p.bytes_in_flight:
        held.append(f"at most {_bytes(p.bytes_in_flight)} in flight")
    rows = [
        [
            _place(s.place),
            _code(s.text) if s.ahead is not None else f"<i>{escape(s.text)}</i>",
            "" if s.ahead is None else _code(f"{p.name} {s.ahead:+d}" if s.ahead else p.name),
            escape(s.how),
        ]
        for s in p.steps
    ]
    turn = _table(("line", "one turn, in order", "for iteration", "how"), rows) if rows else ""
    if p.role:
        registers = f" with {p.registers} registers each" if p.registers else ""
        held.insert(0, f"the threads [{p.threads[0]}, {p.threads[1]}) {p.role}{registers}")
    head = f"<div>{_place(p.place)} loop {_code(p.name)}: {'; '.join(held) or 'in order'}</div>"
    return head + turn + "".join(_refused(text, "div") for text in p.refusals)


def _buffers(report: Report) -> str:
    """Tiles each by itself; tensors and the threads' own as a table."""
    plain = [
        [
            _place(b.place),
            _code(b.name),
            escape(b.scope),
            _code(f"{b.dtype}[{', '.join(b.shape)}]"),
            _bytes(b.bytes),
            _code(b.formula),
        ]
        for scope in ("tensor", "local")
        for b in report.buffers
        if b.scope == scope
    ]
    table = _card(_table(("line", "buffer", "scope", "type", "size", "layout"), plain)) if plain else ""
    return "\n".join(_buffer(b) for b in report.buffers if b.scope not in ("tensor", "local")) + table


def _measured(measured: Timeline) -> Iterator[str]:
    """The roles of each kernel's first block as a picture, and the medians of all blocks as a table."""
    for kernel in measured.blocks:
        roles = [r for r in measured.roles if (r.kernel, r.block) == (kernel, 0)]
        says = f"measured: {kernel}, block 0, from its beginning, in {measured.unit}"
        drawn = timeline(roles, measured.unit)
        yield f"<figure>{drawn}<figcaption>{escape(says)}</figcaption></figure>"
    heads = (f"measured, in {measured.unit}", "median", "of a turn", "")
    yield _table(heads, [[escape(cell) for cell in row] for row in measured.rows()], (1, 2, 3))
    yield "".join(_refused(text, "div") for text in measured.notes())


def _card(body: str) -> str:
    return f'<div class="card">{body}</div>'


def _sections(report: Report) -> Iterator[tuple[str, str, str]]:
    """(anchor, title, body) of what there is to say."""
    if program := _program(report):
        yield "program", "Program", program
    if body := _buffers(report):
        yield "buffers", "Buffers", body
    if report.loops:
        table = _table(("line", "loop", "mapping"), map(_loop, report.loops))
        yield "loops", "Parallel loops and copies", _card(table)
    if rows := _operators(report):
        yield "operators", "Operators", _card(_table(("line", "operator", "how it runs"), rows))
    if report.pipelines:
        body = "".join(_card(_pipeline(p)) for p in report.pipelines)
        if report.timeline is not None:
            measured = _card("".join(_measured(report.timeline)))
            body = f'<div class="beside"><div>{body}</div><div>{measured}</div></div>'
        yield "pipelines", "Pipelined loops", body
    if report.accesses:
        yield "accesses", "Accesses to memory", _card(_accesses(report))
    if report.machine_code is not None:
        yield "machine-code", "Machine code", _card(f"<pre>{escape(str(report.machine_code))}</pre>")
    if report.simulation is not None:
        yield "simulation", "Counted by the simulator", _card(_counted(report.simulation))
    if report.notes:
        rows = [
            [
                _place(n.place),
                escape(n.subject),
                _refused(n.text) if n.refusal else escape(n.text),
                escape(n.decided_by),
            ]
            for n in report.notes
        ]
        yield "notes", "Notes and refusals", _card(_table(("line", "of", "note", "pass"), rows))
    if any(report.phases.values()):
        yield "time", "Time", _card(bars(report.phases))


def page(report: Report) -> str:
    """The whole page."""
    sections = list(_sections(report))
    links = "".join(f'<a href="#{name}">{escape(title)}</a>' for name, title, _ in sections)
    body = "\n".join(
        f'<section id="{name}"><h2>{escape(title)}</h2>\n{text}</section>' for name, title, text in sections
    )
    title = f"{escape(report.function)} for {escape(report.target)}"
    style = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"/>\n<title>{title}</title>\n'
        f"<style>\n{style}</style></head>\n<body><main>\n<header>{_overview(report)}\n"
        f"<nav>{links}</nav></header>\n{body}\n</main></body></html>\n"
    )
