"""The published names that tilelang/language/__init__.py does not import: those that are loaded when they are
asked for, and those that do not work here, each of which says why where it is called.  names.txt lists them.
"""

from __future__ import annotations

import ast
import functools
import inspect
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from ..front import idioms
from ..front.errors import UnknownName, caller_place, compile_error
from ..front.trace import fail

_ROOT = __name__.partition(".")[0]
_LANGUAGE = f"{_ROOT}.language"


class Entry(NamedTuple):
    """A name that does not work here: "later" or "closed", the reason, how names.txt declares it, its
    members."""

    status: str
    reason: str
    declared: str
    members: list[str]


@functools.cache
def table() -> tuple[dict[str, Entry], dict[str, str]]:
    """What does not work, by its full name; and where names of the language are that are loaded late: the
    module, and the name there."""
    absent: dict[str, Entry] = {}
    late: dict[str, str] = {}
    status = text = ""
    entry = Entry("", "", "", [])
    for line in Path(__file__).with_name("names.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            status, _, text = line[1:].partition("] ")
        elif not line or line.startswith("#"):
            continue
        elif status == "here":
            for word in line.split():
                name, _, own = word.partition("/")
                late[name] = f"{text}.{own or name}"
        elif line.startswith(" "):
            entry.members.append(line.strip())
        else:
            entry = Entry(status, text, line, [])
            name = line.removeprefix("class ").partition("(")[0].partition(" = ")[0]
            absent[name if "." in name else f"{_LANGUAGE}.{name}"] = entry
    return absent, late


def names() -> list[str]:
    """The names of the language that this file finds and that work."""
    return list(table()[1])


def short(path: str) -> str:
    """A full name as people write it: `T.alloc_barrier`, `tilelang.layout.…`."""
    return f"T.{path.removeprefix(_LANGUAGE + '.')}" if path.startswith(_LANGUAGE) else path


def find(name: str, known: list[str]) -> Any:
    """The name of the language, or what stands for it; an error if there is none such.  known: all names."""
    late = table()[1].get(name)
    if late is not None:
        module, _, own = late.rpartition(".")
        return getattr(import_module(f"{_ROOT}.{module}"), own)
    found = stand_in(f"{_LANGUAGE}.{name}")
    if found is None and find_spec(f"{_LANGUAGE}.{name}") is not None:
        return import_module(f"{_LANGUAGE}.{name}")
    if found is None:
        raise compile_error(message(name, known), caller_place(), UnknownName)
    return found


@functools.cache
def stand_in(path: str) -> Any:
    """What stands for a name that does not work here: a function or class with its signature, which raises
    CompileError when it is called; None if the name is not listed."""
    entry = table()[0].get(path)
    return None if entry is None else _made(path, entry.declared, entry)


def _made(path: str, declared: str, entry: Entry) -> Any:
    declared, equals, value = declared.partition(" = ")
    if equals:
        return ast.literal_eval(value)
    signature = _signature(declared[declared.index("(") :])
    why = f"{short(path)} {entry.reason}"

    def refuse(*_: Any, **__: Any) -> Any:
        raise fail(why)

    refuse.__name__ = path.rpartition(".")[2]
    refuse.__qualname__, refuse.__signature__ = refuse.__name__, signature
    refuse.__doc__, refuse.missing = f"Raises CompileError: it {entry.reason}.", why
    if not declared.startswith("class "):
        return refuse
    inside: dict[str, Any] = {
        "__init__": refuse,
        "__signature__": signature,
        "__doc__": refuse.__doc__,
        "__annotations__": {},
        "missing": why,
    }
    for member in entry.members:
        name = member.partition("(")[0].partition(" = ")[0]
        if name == member:
            inside["__annotations__"][name] = Any
        else:
            made = _made(f"{path}.{name}", member, entry)
            inside[name] = staticmethod(made) if callable(made) else made
    return type(refuse.__name__, (), inside)


def _signature(text: str) -> inspect.Signature:
    from .gemm import GemmWarpPolicy

    return inspect.signature(eval(f"lambda {text[1:-1]}: 0", {"GemmWarpPolicy": GemmWarpPolicy}))


def message(name: str, known: list[str]) -> str:
    """Why `T.name` is not there, and what may have been meant; `known` are the names that are."""
    if name.startswith("tcgen05") or "tmem" in name:
        return (
            f"T.{name} needs sm_100's own instructions (tcgen05 and others of Blackwell), which this version "
            "does not have"
        )
    if name in idioms.NAMES:
        return f"T.{name}: there is no such name in the language; here that is {idioms.NAMES[name]}"
    if name in idioms.ABSENT:
        return f"T.{name}: there is no such operation in the language: {idioms.ABSENT[name]}"
    import difflib

    meant = next(iter(difflib.get_close_matches(name, known, 1)), None)
    why = ""
    if meant is None:  # a name that does not work here is worth naming where no other is near
        absent = {path.rpartition(".")[2]: e for path, e in table()[0].items() if path.startswith(_LANGUAGE)}
        meant = next(iter(difflib.get_close_matches(name, absent, 1)), None)
        why = f" It {absent[meant].reason}" if meant else ""
    hint = f"; did you mean T.{meant}?{why}" if meant else ""
    return f"T.{name}: there is no such name in the language{hint}"
