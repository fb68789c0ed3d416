"""What a function reads from around itself, as a part of a key: a kernel that was built from it is valid as
long as these are the same.

Numbers, strings, dtypes and containers of them count by value, everything else by identity.  Free variables
and globals are found in the bytecode, with the attributes that are read from them (`config.block`), in the
function and, as far as they are the user's, in the macros and functions that it calls.
"""

from __future__ import annotations
import __future__

import ast
import dis
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from ._core import DType
from .macros import Macro
from .parse import HELPER

_BY_VALUE = (int, str, bool, type(None))
_PLAIN = (*_BY_VALUE, float, DType)
_CONTAINERS = (tuple, list, dict)
_MISSING = object()
_MOST = 400  # names in all: a helper may call half of the world


def key_of(value: Any) -> Any:
    """A value as part of a key: equal exactly if the kernels made from the values would be."""
    kind = value.__class__
    if kind in _BY_VALUE:
        return (kind, value)
    if kind is float:
        return (kind, value.hex())
    if kind is DType:
        return (kind, value.name)
    if kind is tuple or kind is list:
        return (kind, tuple([key_of(item) for item in value]))
    if kind is dict:
        return (kind, tuple([(key_of(k), key_of(v)) for k, v in value.items()]))
    hash(value)
    return (kind, value)


def _is_plain(value: Any) -> bool:
    return value.__class__ in _PLAIN or isinstance(value, _CONTAINERS)


def _captured(value: Any) -> Any:
    if _is_plain(value):
        try:
            return key_of(value)
        except TypeError:
            return id(value)
    return id(value)


class _Watch:
    """One name, with the attributes that are read from it."""

    __slots__ = ("holder", "name", "attributes")

    def __init__(self, holder: Any, name: str, attributes: tuple) -> None:
        self.holder, self.name, self.attributes = holder, name, attributes

    def root(self) -> Any:
        """What the name means now."""
        if self.holder.__class__ is dict:
            return self.holder.get(self.name, _MISSING)
        try:
            return self.holder.cell_contents
        except ValueError:  # not bound yet
            return _MISSING

    def value(self) -> Any:
        """What is read: the end of the chain if it is plain or a module's, else the object that was asked."""
        value = kept = self.root()
        for name in self.attributes:
            if value.__class__ is ModuleType:
                kept = value = value.__dict__.get(name, _MISSING)
                continue
            try:
                value = getattr(value, name)
            except Exception:
                return kept
        return value if _is_plain(value) else kept


class Captures:
    """What `fn` reads from around itself, now and whenever it is asked again."""

    def __init__(self, fn: FunctionType, code: CodeType | None = None,
                 scope: dict[str, Any] | None = None) -> None:
        """code: what runs instead of the function's own; scope: names beyond its closure."""
        self.fn, self.code, self.scope = fn, code or fn.__code__, scope or {}
        self.watches: list[_Watch] = []
        self.refresh()

    def refresh(self) -> bool:
        """Look again at what the functions it calls read; whether that is something else than before."""
        found: dict[tuple, _Watch] = {}
        seen: set[int] = set()
        todo: list[tuple] = [(self.fn, self.code, self.scope)]
        while todo and len(found) < _MOST:
            fn, code, scope = todo.pop()
            if id(code) in seen:
                continue
            seen.add(id(code))
            for watch in _watches(fn, code, scope):
                found[id(watch.holder), watch.name, watch.attributes] = watch
                todo.extend(_functions(watch, self.fn))
        changed = found.keys() != {(id(w.holder), w.name, w.attributes) for w in self.watches}
        if changed:
            self.watches = list(found.values())
        return changed

    def values(self) -> list[Any]:
        """What it reads; to be kept for as long as a key goes by their identity."""
        return [watch.value() for watch in self.watches]

    def key(self) -> tuple:
        """The same as part of a key."""
        return tuple([_captured(watch.value()) for watch in self.watches])


def _watches(fn: FunctionType, code: CodeType, scope: dict[str, Any]) -> Iterator[_Watch]:
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    for name, attributes in _chains(code, frozenset(code.co_freevars)):
        holder = cells.get(name)
        if holder is None:
            holder = scope if name in scope else fn.__globals__
        watch = _Watch(holder, name, attributes)
        if name != HELPER and not _is_ours(watch.root()):
            yield watch


def _is_ours(value: Any) -> bool:
    """Whether it is a part of this package (or nothing at all), which does not change."""
    if isinstance(value, ModuleType):
        return value.__name__.partition(".")[0] == "tilelang"
    if isinstance(value, (FunctionType, type)):
        return (value.__module__ or "").partition(".")[0] == "tilelang"
    return value is _MISSING


_LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF")
_SKIPPED = ("CACHE", "PUSH_NULL", "EXTENDED_ARG", "NOP")
_known_chains: dict[int, tuple[CodeType, frozenset]] = {}


def _chains(code: CodeType, free: frozenset) -> frozenset:
    """The names that code reads from outside, each with the attributes that are read from it."""
    found = _known_chains.get(id(code))
    if found is None:
        found = _known_chains[id(code)] = (code, frozenset(_find_chains(code, free)))
    return found[1]


def _find_chains(code: CodeType, free: frozenset) -> Iterator[tuple[str, tuple]]:
    name, attributes = None, ()
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            attributes += (step.argval,)
        elif step.opname not in _SKIPPED:
            if name is not None:
                yield name, attributes
            name, attributes = None, ()
            if step.opname in _LOADS and ("DEREF" not in step.opname or step.argval in free):
                name = step.argval
    strings = code.co_flags & __future__.annotations.compiler_flag
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _find_chains(const, free)
        elif isinstance(const, str) and strings:  # perhaps an annotation, which is evaluated later
            yield from _names_in_text(const)
        elif isinstance(const, tuple) and strings:
            for text in const:
                if isinstance(text, str):
                    yield from _names_in_text(text)


def _names_in_text(text: str) -> Iterator[tuple[str, tuple]]:
    try:
        tree = ast.parse(text, mode="eval") if len(text) < 1000 else None
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Name):
            yield node.id, ()


def _functions(watch: _Watch, root: FunctionType) -> Iterator[tuple]:
    """The functions that are reached through a name and may be traced with the kernel."""
    values = [watch.root()]
    for name in watch.attributes:
        try:
            values.append(getattr(values[-1], name))
        except Exception:
            break
    if isinstance(values[0], (tuple, list)):
        values += values[0]
    elif isinstance(values[0], dict):
        values += values[0].values()
    for value in values:
        members = list(vars(value).values()) if isinstance(value, type) and not _is_ours(value) else [value]
        for member in members:
            if member.__class__.__name__ == "TileOp":
                member = member.lower
            if isinstance(member, MethodType):
                member = member.__func__
            if isinstance(member, Macro):
                yield member.__wrapped__, member.rewritten.code, {}
            elif isinstance(member, FunctionType) and _is_users(member, root):
                yield member, member.__code__, {}


def _is_users(fn: FunctionType, root: FunctionType) -> bool:
    """Whether a function is the user's own, not a library's."""
    own = (root.__module__ or "").partition(".")[0]
    package = (fn.__module__ or "").partition(".")[0]
    file = fn.__code__.co_filename
    return package == own or not ("-packages" in file or "lib/python" in file or file.startswith("<frozen"))
