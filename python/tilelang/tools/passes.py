"""The compiler seen pass by pass: the text after each pass, what it changed, how long it took.

`lower_trace(func)` shows one function; `enable()`, `with PassTimingTool():` and `with
StructureTreePassTool():` look at every compilation until they end."""

from __future__ import annotations

import difflib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import _core
from ..front.errors import CompileError
from ..jit import config
from ..jit.env import env, resolve_pass_profile_threshold_ms
from ..jit.function import PrimFunc

STATUS_COMPLETED, STATUS_FAILED, STATUS_SKIPPED, STATUS_CODEGEN = "completed", "failed", "skipped", "codegen"


@dataclass
class LowerRecord:
    """One pass over one function: the texts before and after it, and the lines that it added and removed.

    phase: the level of the program that the pass gives; status: "completed", or "failed" with error_msg."""

    phase: str
    name: str
    index: int
    before_text: str
    after_text: str
    changed: bool
    add_lines: int = 0
    del_lines: int = 0
    status: str = STATUS_COMPLETED
    error_msg: str = ""
    depth: int = 0
    parent_index: int | None = None


def _records(folder: Path, error: str) -> list[LowerRecord]:
    """Of what the compiler wrote into the folder of a function."""
    found: list[LowerRecord] = []
    before, level = "", "tile"
    for path in sorted(folder.glob("*.ir")):
        index, name, _ = path.name.split(".")
        level = {"lower_tile_ops": "thread", "plan_memory": "machine"}.get(name, level)
        after = path.read_text(encoding="utf-8")
        if int(index):
            marks = [line[0] for line in _lines(before, after, 0)[2:]]
            found.append(
                LowerRecord(
                    level,
                    name,
                    int(index),
                    before,
                    after,
                    before != after,
                    marks.count("+"),
                    marks.count("-"),
                )
            )
        before = after
    if error:
        found.append(
            LowerRecord(
                level, "?", len(found) + 1, before, before, False, status=STATUS_FAILED, error_msg=error
            )
        )
    return found


def _watched(function: _core.Function, target: str, options: dict[str, Any]) -> tuple:
    """The compiled kernel, or the error; and the records of its passes."""
    with tempfile.TemporaryDirectory() as folder:
        kernel = failure = None
        try:
            kernel = _core.compile(function, target, {**options, "dump_dir": folder})
        except CompileError as error:
            failure = error
        made = sorted(Path(folder).iterdir())
        records = _records(made[0], str(failure or "")) if made else []
        if "dump_dir" in options:
            shutil.copytree(folder, options["dump_dir"], dirs_exist_ok=True)
    return kernel, failure, records


def compile_watched(
    function: _core.Function, target: str, options: dict[str, Any], configs: Mapping[str, Any]
) -> _core.Kernel:
    """_core.compile, seen by everything that looks on."""
    kernel, failure, records = _watched(function, target, options)
    watchers = list(config.watchers)
    mode = env.get_lower_trace_mode()
    if mode:
        watchers.append(LowerTraceSession(mode="html" if mode == "html" else "terminal"))
    timing = create_pass_timing_tool(configs)
    for watcher in watchers:
        watcher.see(function.name, records, kernel.phases if kernel else {})
    if failure:
        raise failure
    if timing:
        timing.see(function.name, records, kernel.phases)
        print(timing.table(), file=sys.stderr)
    return kernel


class _Watcher:
    """Looks at every compilation within `with`."""

    def __enter__(self) -> Any:
        config.watchers.append(self)
        return self

    def __exit__(self, *_: Any) -> None:
        if self in config.watchers:
            config.watchers.remove(self)


# ── what passes change ────────────────────────────────────────────────────────────────────────────────
def _lines(before: str, after: str, context: int, labels: tuple = ("before", "after")) -> list[str]:
    texts = before.splitlines(), after.splitlines()
    return list(difflib.unified_diff(*texts, *labels, lineterm="", n=context))


def unified_diff(
    before_text: str,
    after_text: str,
    before_label: str = "before",
    after_label: str = "after",
    context: int = 3,
    color: bool = True,
) -> str:
    """What changed between two texts, with `context` lines around it; color: for a terminal."""
    lines = _lines(before_text, after_text, context, (before_label, after_label))
    paint = {"+": "32", "-": "31", "@": "36"} if color else {}
    return "\n".join(f"\033[{paint[line[0]]}m{line}\033[0m" if line[:1] in paint else line for line in lines)


def print_diff(
    before_text: str,
    after_text: str,
    before_label: str = "before",
    after_label: str = "after",
    context: int = 3,
    color: bool = True,
) -> None:
    """Print unified_diff of the same."""
    print(unified_diff(before_text, after_text, before_label, after_label, context, color))


def generate_html(
    records: Sequence[LowerRecord], output_path: str | os.PathLike, section_cache: Any = None
) -> None:
    """Write a page of what each pass changed."""
    from html import escape

    parts = [
        "<!doctype html><meta charset=utf-8><title>passes</title><style>body{font:14px sans-serif}"
        "pre{background:#f6f6f6;padding:8px}ins{background:#cfc;text-decoration:none}"
        "del{background:#fcc;text-decoration:none}</style>"
    ]
    for r in records:
        marks = {"+": "ins", "-": "del"}
        lines = [
            f"<{m}>{escape(line)}</{m}>" if (m := marks.get(line[:1])) else escape(line)
            for line in _lines(r.before_text, r.after_text, 3)[2:]
        ]
        parts.append(
            f"<details {'open' if r.changed else ''}><summary>{escape(_head(r))}</summary><pre>"
            f"{chr(10).join(lines)}</pre></details>"
        )
    Path(output_path).parent.mkdir(parents=True, exist_ok=True)
    Path(output_path).write_text("\n".join(parts), encoding="utf-8")


class LowerTraceSession(_Watcher):
    """Shows every compilation pass by pass: on the terminal, or (mode="html") as pages in trace_dir.

    records: all that was seen.  mode="none" only keeps them."""

    def __init__(
        self,
        *,
        mode: str = "terminal",
        trace_dir: str | os.PathLike | None = None,
        codegen_output: bool = False,
    ) -> None:
        if mode not in ("terminal", "html", "none"):
            raise ValueError(f"lower_trace: mode is terminal, html or none, not {mode!r}")
        self.mode, self.trace_dir = mode, Path(trace_dir or env.get_lower_trace_dir())
        self.context, self.records = 3, []

    def see(self, name: str, records: list[LowerRecord], phases: Mapping[str, float]) -> None:
        """Take note of one compilation."""
        self.records += records
        _show(name, records, self.context, self.mode, self.trace_dir / f"{name}.html")


def _head(r: LowerRecord) -> str:
    said = r.error_msg or (f"+{r.add_lines} -{r.del_lines} lines" if r.changed else "no change")
    return f"{r.index}. {r.name} ({r.phase}): {said}"


def _show(
    name: str,
    records: Sequence[LowerRecord],
    context: int,
    mode: str = "terminal",
    page: str | os.PathLike = "",
) -> None:
    """Write records as the page (mode "html"), print them ("terminal"), or neither."""
    if mode == "html":
        generate_html(records, page)
    for r in records if mode == "terminal" else ():
        print(f"── {name}: {_head(r)}")
        if r.changed:
            print_diff(r.before_text, r.after_text, context=context, color=sys.stdout.isatty())


_session: LowerTraceSession | None = None


def enable(
    *, mode: str = "terminal", trace_dir: str | os.PathLike | None = None, codegen_output: bool = False
) -> LowerTraceSession:
    """Show every compilation from here on, as LowerTraceSession does; the generated text is a kernel's
    kernel_source, so codegen_output changes nothing."""
    global _session
    disable()
    _session = LowerTraceSession(mode=mode, trace_dir=trace_dir).__enter__()
    return _session


def disable() -> None:
    """End enable(); what was seen is still in get_last_session()."""
    if _session is not None:
        _session.__exit__()


def reset() -> None:
    """End enable(), and forget what was seen."""
    global _session
    disable()
    _session = None


def current_lower_trace_session() -> LowerTraceSession | None:
    """The session of enable(), while it looks on."""
    return _session if _session in config.watchers else None


def get_last_session() -> LowerTraceSession | None:
    """The session of enable(), ended or not."""
    return _session


def lower_trace(
    func_or_mod: PrimFunc,
    passes: Sequence[str] | None = None,
    *,
    mode: str = "terminal",
    context: int = 3,
    html_path: str | os.PathLike = "lower_trace_report.html",
    target: Any = None,
) -> list[LowerRecord]:
    """Compile a prim_func, and show what each pass makes of it (mode: terminal, html: the page html_path, or
    none); the records.  passes: the names of those to show; None: all."""
    if not isinstance(func_or_mod, PrimFunc):
        raise TypeError(f"lower_trace takes a @T.prim_func, not {type(func_or_mod).__name__}")
    _, failure, records = _watched(func_or_mod.function, config.target_text(target), {"cache": False})
    names = [r.name for r in records]
    unknown = [name for name in passes or () if name not in names]
    if unknown:
        raise ValueError(f"lower_trace: there is no pass {unknown[0]!r}; those here are {', '.join(names)}")
    chosen = [r for r in records if passes is None or r.name in passes or r.status == STATUS_FAILED]
    _show(func_or_mod.name, chosen, context, mode, html_path)
    if failure:
        raise failure
    return chosen


def pass_diff(
    func_or_mod: PrimFunc,
    passes: Sequence[str] | None = None,
    *,
    mode: str = "terminal",
    context: int = 3,
    html_path: str | os.PathLike = "pass_diff_report.html",
) -> list[LowerRecord]:
    """The same as lower_trace, of the passes that change something."""
    records = [r for r in lower_trace(func_or_mod, passes, mode="none") if r.changed]
    _show(func_or_mod.name, records, context, mode, html_path)
    return records


# ── how long passes take ──────────────────────────────────────────────────────────────────────────────
@dataclass
class PassTimingRecord:
    """A phase of one compilation, and how many seconds it took."""

    name: str
    duration_s: float
    depth: int
    self_duration_s: float = 0.0
    sequence: int = 0
    kernel: str = ""


class PassTimingTool(_Watcher):
    """Notes how long each phase of every compilation takes, of those that take threshold_ms or more."""

    def __init__(self, threshold_ms: float = 0.0) -> None:
        self.threshold_ms, self.records = threshold_ms, []

    def see(self, name: str, records: list[LowerRecord], phases: Mapping[str, float]) -> None:
        """Take note of one compilation."""
        self.records += [
            PassTimingRecord(phase, ms / 1e3, 0, ms / 1e3, number, name)
            for number, (phase, ms) in enumerate(phases.items())
            if ms >= self.threshold_ms
        ]

    def table(self) -> str:
        """The records as text."""
        rows = [f"{r.name:<20}  {r.duration_s * 1e3:9.3f}  {r.kernel}" for r in self.records]
        return "\n".join([f"{'phase':<20}  {'ms':>9}  kernel", *rows])


TileLangPassTimingInstrument = PassTimingTool


def create_pass_timing_tool(pass_configs: Mapping[Any, Any] | None) -> PassTimingTool | None:
    """The tool that tl.pass_profile in pass_configs, or TILELANG_PASS_PROFILE, asks for; None without."""
    configs = config.normalize_pass_configs(dict(pass_configs or {}))
    if not configs.get("tl.pass_profile", env.is_pass_profile_enabled()):
        return None
    return PassTimingTool(
        resolve_pass_profile_threshold_ms(
            configs, "tl.pass_profile_threshold_ms", env.get_pass_profile_threshold_ms()
        )
    )


# ── the structure of programs ─────────────────────────────────────────────────────────────────────────
@dataclass
class PassStructureRecord:
    """The structure of a program before and after a pass, as capture_structure gives it."""

    name: str
    sequence: int
    before_lines: list[str]
    after_lines: list[str]


def capture_structure(mod: Any) -> list[str]:
    """The lines of a program that open a function, kernel, loop or condition, indented; of a prim_func or of
    text IR."""
    text = mod if isinstance(mod, str) else mod.text
    return [line.rstrip(":") for line in text.splitlines() if line.rstrip().endswith(":")]


def inspect_structure(mod: Any) -> None:
    """Print capture_structure of a program."""
    print("\n".join(capture_structure(mod)))


class StructureTreePassTool(_Watcher):
    """Notes the structure of every program that is compiled, before and after each pass that changes it."""

    def __init__(self) -> None:
        self.records: list[PassStructureRecord] = []

    def see(self, name: str, records: list[LowerRecord], phases: Mapping[str, float]) -> None:
        """Take note of one compilation."""
        made = [
            PassStructureRecord(
                r.name, r.index, capture_structure(r.before_text), capture_structure(r.after_text)
            )
            for r in records
        ]
        self.records += [r for r in made if r.before_lines != r.after_lines]


StructureTreePassInstrument = StructureTreePassTool


def kernel_to_tir(kernel: Any, **kwargs: Any) -> PrimFunc:
    """The prim_func of a @tilelang.jit function for these arguments, or of a compiled kernel."""
    return kernel.get_tir(**kwargs) if hasattr(kernel, "get_tir") else kernel.prim_func


def discover_jit_kernels(module: Any) -> dict[str, Callable]:
    """The @tilelang.jit functions of a module, by name."""
    return {name: value for name, value in vars(module).items() if hasattr(value, "get_tir")}
