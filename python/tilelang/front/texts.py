"""The texts of users' files, as they stood when their functions were met: what errors quote and functions are
read from.

A file may change while its functions live.  So each state of it that we meet is kept as a `Text`, and a
definition counts as a function's own only if it compiles to the code that the function runs: an edited file
gives the right text, from a state that was met before, or an error, never another function's text."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType

from .._core import register_source
from . import same_code


class Text:
    """The lines of a file, or of a notebook's cell, as they stood at one time."""

    __slots__ = ("compiled", "file", "lines", "tree")

    def __init__(self, file: str, lines: list[str]) -> None:
        self.file, self.lines = file, lines
        self.tree: ast.Module | None = None  # of the whole text, where somebody asked for it
        self.compiled: dict[tuple, CodeType] = {}  # the whole text, by who compiled it (same_code.py)

    def joined(self) -> str:
        """The text as one string."""
        return "\n".join(line.rstrip("\n") for line in self.lines)

    def parsed(self) -> ast.Module | None:
        """The whole text as an AST, which nobody changes; None where it is not Python."""
        if self.tree is None:
            try:
                self.tree = ast.parse(self.joined())
            except (SyntaxError, ValueError):
                return None
        return self.tree


_MOST = 8  # states of one file that are kept for its old functions
_met: dict[str, list[Text]] = {}  # file -> its states, the one met last at the end
_newest: dict[str, tuple[tuple, Text]] = {}  # file -> what the system says of it, and its text then
_texts_of: dict[int, tuple[CodeType, Text]] = {}  # the text whose code it is, known or (see `note`) supposed
_sure: set[int] = set()  # the codes for which that was found to be so
_shown: dict[str, Text] = {}  # file -> what errors of the compiler quote


def _present(file: str) -> Text | None:
    """The file as it is now; None where there is no such file."""
    try:
        now = os.stat(file)
        identity = (now.st_mtime_ns, now.st_ctime_ns, now.st_size, now.st_ino, now.st_dev)
        if file not in _newest or _newest[file][0] != identity:
            _newest[file] = (identity, _keep(file, _read(file)))
        return _newest[file][1]
    except (OSError, SyntaxError, ValueError):
        return None


def _read(file: str) -> list[str]:
    with open(file, "rb") as stream:
        head = stream.readline(200) + stream.readline(200)
    if b"coding" not in head:
        try:
            with open(file, encoding="utf-8-sig") as stream:
                return stream.read().split("\n")
        except UnicodeDecodeError:
            pass
    import tokenize

    with tokenize.open(file) as stream:
        return stream.read().split("\n")


def _keep(file: str, lines: list[str]) -> Text:
    """These lines as a state of the file: the one that was met already, or a new one."""
    states = _met.setdefault(file, [])
    found = next((text for text in states if text.lines == lines), None)
    if found is not None:
        states.remove(found)
    states.append(found or Text(file, lines))
    del states[:-_MOST]
    return states[-1]


def _cached(file: str, scope: dict) -> Text | None:
    """What linecache knows by that name: cells of a notebook, doctests, members of an archive."""
    if os.path.exists(file):
        cache = sys.modules.get("linecache")
        entry = cache.cache.get(file) if cache else None
        lines = entry[2] if entry is not None and len(entry) > 2 else []
    else:
        import linecache

        lines = linecache.getlines(file, scope)
    return _keep(file, [line.rstrip("\n") for line in lines]) if lines else None


def candidates(code: CodeType, scope: dict) -> Iterator[Text]:
    """The texts that `code` may come from, the likeliest first."""
    file, given = code.co_filename, []
    noted = _texts_of.get(id(code))
    if noted is not None:
        given.append(noted[1])
        yield noted[1]
    for find in (lambda: [_present(file)], lambda: _met.get(file, [])[::-1], lambda: [_cached(file, scope)]):
        for text in find():
            if text is not None and not any(text is other for other in given):
                given.append(text)
                yield text


def note(fn: FunctionType) -> None:
    """Remember the present text of the file of `fn`, which has just been defined there: the function may be
    traced when the file is another one already."""
    text = _present(fn.__code__.co_filename)
    if text is not None:
        for code in _with_inner(fn.__code__):
            _texts_of.setdefault(id(code), (code, text))


def adopt(code: CodeType, text: Text) -> None:
    """`code` was made from this text."""
    for part in _with_inner(code):
        _texts_of[id(part)] = (part, text)
        _sure.add(id(part))


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _with_inner(const)


def lines_of(file: str) -> list[str]:
    """The lines that errors of the compiler quote for a file: of the text that is being compiled."""
    text = _shown.get(file) or _present(file)
    if text is not None:
        return text.lines
    cache = sys.modules.get("linecache")
    entry = cache.cache.get(file) if cache else None
    return entry[2] if entry is not None and len(entry) > 2 else []


def lines_running(code: CodeType, scope: dict) -> list[str]:
    """The lines of the text that `code` comes from; none where no text is found to be that."""
    if id(code) in _sure:
        return _texts_of[id(code)][1].lines
    for text in candidates(code, scope):
        if 0 < code.co_firstlineno <= len(text.lines) and same_code.is_in(text, code, scope):
            return text.lines
    return []


def show(text: Text) -> None:
    """From now on errors about the file quote this text, those that the compiler finds among them."""
    if _shown.get(text.file) is not text:
        _shown[text.file] = text
        register_source(text.file, text.joined())


def is_sure(code: CodeType) -> bool:
    """Whether the text that `code` comes from has been found."""
    return id(code) in _sure
