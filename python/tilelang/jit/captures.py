"""What a function reads from around itself, as a part of a key: a kernel that was built from it is valid as
long as these are the same.

What values count as: keys.py.  Free variables and globals are found in the bytecode, with the attributes that
are read from them (`config.block`), in the function and, as far as they are the user's, in the macros and
functions that it calls."""

from __future__ import annotations
import __future__

import ast
import dis
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from ..front.macros import Macro
from ..front.parse import HELPER
from .keys import CONTAINERS, PLAIN, Same, Walk, is_library_file

_MISSING = object()
_MOST = 2000  # names in all: a helper may call half of the world


def key_of(value: Any, root: FunctionType | None = None) -> Any:
    """A value as part of a key, with all that functions in it read from around themselves.

    root: the function for which the key is made; functions of its package are the user's, as it is."""
    if value.__class__ in PLAIN:
        return _walk(root).key(value)
    walk = _walk(root)
    made = walk.key(value)
    around = tuple([walk.key(watch.value()) for watch in _reach(walk, [])])
    return (made, around) if around else made


def key_of_argument(value: Any, root: FunctionType, name: str) -> Any:
    """What the parameter `name` of `root` is given, as part of a key: of an object only what is read."""
    if value.__class__ in PLAIN or value.__class__ in (*CONTAINERS, FunctionType):
        return key_of(value, root)
    reads = _reads_of(root.__code__, name) if type(value).__module__ not in ("numpy", "torch") else None
    if reads is None:
        return key_of(value, root)
    return (Same(type(value)), tuple([key_of(_follow(value, chain), root) for chain in reads]))


def _walk(root: FunctionType | None) -> Walk:
    return Walk(lambda fn: _is_users(fn, root), _method_key)


def _method_key(walk: Walk, method: MethodType) -> Any:
    """A bound method counts by what it reads of its object, which may change otherwise."""
    fn, held = method.__func__, method.__self__
    plain = getattr(fn, "__wrapped__", fn) if isinstance(fn, Macro) else fn
    reads = None
    if isinstance(plain, FunctionType) and plain.__code__.co_argcount and not isinstance(held, type):
        reads = _reads_of(plain.__code__, plain.__code__.co_varnames[0])
    if reads is None:
        return (walk.key(fn), walk.key(held))
    return (walk.key(fn), Same(type(held)), tuple([walk.key(_follow(held, chain)) for chain in reads]))


def _follow(value: Any, attributes: tuple) -> Any:
    """What a chain of attributes gives: the end of it, or the object that has none of that name."""
    for name in attributes:
        try:
            value = getattr(value, name)
        except Exception:
            return value
    return value


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
        """What is read: the end of the chain, or the object that was asked in vain."""
        return _follow(self.root(), self.attributes)


class Captures:
    """What `fn` reads from around itself, now and whenever it is asked again."""

    def __init__(
        self, fn: FunctionType, code: CodeType | None = None, scope: dict[str, Any] | None = None
    ) -> None:
        """code: what runs instead of the function's own; scope: names beyond its closure."""
        self.fn, self.code, self.scope = fn, code or fn.__code__, scope or {}
        self.watches: list[_Watch] = []
        self.refresh()

    def refresh(self) -> bool:
        """Look again at what the functions it calls read; whether that is something else than before."""
        found: dict[tuple, _Watch] = {}
        walk = _walk(self.fn)
        for watch in _reach(walk, self._own()):
            found[id(watch.holder), watch.name, watch.attributes] = watch
            try:
                walk.key(watch.value())
            except TypeError:
                continue  # it has no key, and so the function has none
        changed = found.keys() != {(id(w.holder), w.name, w.attributes) for w in self.watches}
        if changed:
            self.watches = list(found.values())
        return changed

    def key(self) -> tuple:
        """What it reads, as part of a key."""
        walk = _walk(self.fn)
        return tuple([walk.key(watch.value()) for watch in _reach(walk, self._own())])

    def _own(self) -> list[_Watch]:
        return list(_watches(self.fn, self.code, self.scope))


def _reach(walk: Walk, own: list[_Watch]) -> Iterator[_Watch]:
    """`own`, and what the functions read that the walk meets meanwhile."""
    count = done = 0
    while True:
        for watch in own:
            count += 1
            if count > _MOST:
                raise TypeError("a function that reads so many names cannot be part of a key")
            yield watch
        if done == len(walk.functions):
            return
        met = walk.functions[done]
        done += 1
        fn = met if isinstance(met, FunctionType) else met.__wrapped__
        code = met.rewritten.code if isinstance(met, Macro) else fn.__code__
        own = list(_watches(fn, code, {})) + _defaults(fn)


_known_defaults: dict[int, tuple[FunctionType, dict[str, Any]]] = {}


def _defaults(fn: FunctionType) -> list[_Watch]:
    """The default values of a function, which may be objects that change."""
    values = {"defaults": fn.__defaults__, "kwdefaults": fn.__kwdefaults__}
    if not any(values.values()):
        return []
    kept = _known_defaults.setdefault(id(fn), (fn, values))[1]
    kept.update(values)
    return [_Watch(kept, name, ()) for name in values]


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


_known_reads: dict[tuple[int, str], tuple[CodeType, tuple | None]] = {}


def _reads_of(code: CodeType, name: str) -> tuple | None:
    """The chains of attributes that a function reads of a parameter; None where it does anything else with
    it, and so may read all of it."""
    found = _known_reads.get((id(code), name))
    if found is None:
        chains = set(_find_reads(code, name))
        found = _known_reads[id(code), name] = (code, None if () in chains else tuple(sorted(chains)))
    return found[1]


def _find_reads(code: CodeType, name: str) -> Iterator[tuple]:
    reading, attributes = False, ()
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            attributes += (step.argval,)
            continue
        if step.opname in _SKIPPED:
            continue
        if reading:
            yield attributes
        reading, attributes = False, ()
        loaded = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        if name not in loaded or not step.opname.startswith(("LOAD_FAST", "LOAD_DEREF", "STORE_", "DELETE_")):
            continue
        if step.opname.startswith("LOAD_FAST") and name in (*code.co_cellvars, *code.co_freevars):
            continue  # the cell itself, for a function inside
        if loaded[-1] != name or loaded.count(name) > 1 or not step.opname.startswith("LOAD"):
            yield ()
        reading = step.opname.startswith("LOAD") and loaded[-1] == name
    for const in code.co_consts:
        if isinstance(const, CodeType) and name in const.co_freevars:
            yield from _find_reads(const, name)


def _is_users(fn: FunctionType, root: FunctionType | None) -> bool:
    """Whether a function is the user's own, not a library's."""
    own = (root.__module__ or "").partition(".")[0] if root else None
    package = (fn.__module__ or "").partition(".")[0]
    return package != "tilelang" and (package == own or not is_library_file(fn.__code__.co_filename))
