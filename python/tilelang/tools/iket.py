"""Events in kernels, `tilelang.tools.cuda.iket`: kernels that mark them are traced as they are, and there is
a table of their events, but nothing here records when they happen; enable() warns of that once.

    with iket.session():
        kernel = tilelang.compile(func)  # whose body has iket.mark("loaded") or `with iket.range("gemm"):`
        print(iket.event_table())"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..front.errors import TilelangWarning

MAX_EVENT_NAME_BYTES = 32


@dataclass(frozen=True)
class PayloadSpec:
    """A value that goes with an event."""

    expr: Any
    dtype: Any = None
    iket_id: int = 0


@dataclass(frozen=True)
class Event:
    """An event of a kernel; kind: mark, range_push, range_pop, range_start or range_end."""

    name: str
    event_id: int
    kind: str


_events: dict[tuple[str, str], Event] = {}
_enabled = _payloads = _warned = False
_folder: Path | None = None


def enable(*, override: bool = True) -> None:
    """Keep the events of kernels in event_table from here on; TilelangWarning, once: nothing records them."""
    global _enabled, _warned
    _enabled = True
    if not _warned:
        _warned = True
        warnings.warn(
            "tilelang.tools.cuda.iket: events are listed in event_table(), but when they happen is "
            "not recorded in this version: there will be no trace files; kernel.simulate() counts "
            "what a kernel does, kernel.get_profiler() measures it",
            TilelangWarning,
            stacklevel=2,
        )


def disable(*, restore: bool = True) -> None:
    """End enable()."""
    global _enabled
    _enabled = False


def is_enabled() -> bool:
    """Whether events are kept."""
    return _enabled


def reset() -> None:
    """Forget the events."""
    _events.clear()


@contextlib.contextmanager
def session(
    *,
    reset_events: bool = True,
    override: bool = True,
    disable_on_exit: bool = True,
    output_dir: Any = None,
    runtime_payloads: bool | None = None,
    disable_cache: bool = True,
) -> Iterator[None]:
    """enable() within a `with`."""
    global _payloads
    if reset_events:
        reset()
    if output_dir is not None:
        set_output_dir(output_dir)
    _payloads = _payloads if runtime_payloads is None else runtime_payloads
    enable()
    try:
        yield
    finally:
        if disable_on_exit:
            disable()


def event_table() -> list[Event]:
    """The events of the kernels that were traced since enable()."""
    return list(_events.values())


def _note(name: Any, kind: str) -> None:
    if not isinstance(name, str) or not 0 < len(name.encode()) <= MAX_EVENT_NAME_BYTES:
        raise ValueError(
            f"iket.{kind}: the name of an event is a text of 1 to {MAX_EVENT_NAME_BYTES} bytes, not {name!r}"
        )
    if _enabled:
        _events.setdefault((name, kind), Event(name, len(_events) + 1, kind))


def mark(name: str, payload: Any = None) -> None:
    """A moment."""
    _note(name, "mark")


def range_push(name: str, payload: Any = None) -> None:
    """The begin of a part that the next range_pop ends."""
    _note(name, "range_push")


def range_pop(name: str | None = None) -> None:
    """The end of the part that was begun last."""
    if name is not None:
        _note(name, "range_pop")


def range_start(name: str, payload: Any = None) -> str:
    """The begin of a part that range_end ends, wherever; the name."""
    _note(name, "range_start")
    return name


def range_end(name: str | None = None) -> None:
    """The end of such a part."""
    if name is not None:
        _note(name, "range_end")


@contextlib.contextmanager
def range(name: str, payload: Any = None) -> Iterator[None]:
    """What is within the `with` is a part."""
    range_push(name, payload)
    yield
    range_pop(name)


def payload(expr: Any, dtype: Any = None) -> PayloadSpec:
    """A value that goes with an event."""
    return PayloadSpec(expr, dtype)


def enable_runtime_payloads() -> None:
    """Let values go with events."""
    global _payloads
    _payloads = True


def disable_runtime_payloads() -> None:
    """Let no values go with events."""
    global _payloads
    _payloads = False


def runtime_payloads_enabled() -> bool:
    """Whether values go with events."""
    return _payloads


def set_output_dir(path: Any) -> None:
    """The folder of trace files."""
    global _folder
    _folder = Path(path)


def output_dir(default: Any = None) -> Path:
    """The folder of trace files: as set_output_dir said, else `default`, else "iket" here."""
    return _folder or Path(default or "iket")


def output_path(name: str, *, directory: Any = None) -> Path:
    """A file in that folder, which is made."""
    folder = Path(directory or output_dir())
    os.makedirs(folder, exist_ok=True)
    return folder / name


def trace_files(*, directory: Any = None) -> list[Path]:
    """The trace files in that folder: none, unless another program wrote some there."""
    return sorted(Path(directory or output_dir()).glob("*.json"))


def profile_command(command: Any, *, directory: Any, postprocess: str = "all", clobber: bool = True) -> Any:
    """RuntimeError: there is no recorder whose command line this could be."""
    raise RuntimeError(
        "iket.profile_command: events are not recorded in this version; run the program "
        "itself, and measure by kernel.get_profiler() or a profiler of CUDA's"
    )
