"""The text of a user's function: read, cut out and parsed, with the line and column numbers of the file.

A file may change while its functions live.  So each state of it that we meet is kept as a `Text`, and a
definition counts as a function's own only if it compiles to the code that the function runs: an edited file
gives the right text, from a state that was met before, or an error, never another function's text.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType

from . import same_code
from ._core import register_source
from .errors import Place, RunningPlace, compile_error


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


_MOST = 8                                          # states of one file that are kept for its old functions
_met: dict[str, list[Text]] = {}                   # file -> its states, the one met last at the end
_newest: dict[str, tuple[tuple, Text]] = {}        # file -> what the system says of it, and its text then
_texts_of: dict[int, tuple[CodeType, Text]] = {}   # the text whose code it is, known or (see `note`) supposed
_sure: set[int] = set()                            # the codes for which that was found to be so
_shown: dict[str, Text] = {}                       # file -> what errors of the compiler quote


# ── texts ─────────────────────────────────────────────────────────────────────────────────────────────────


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


def _candidates(code: CodeType, scope: dict) -> Iterator[Text]:
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
    traced when the file is another one already.
    """
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
    for text in _candidates(code, scope):
        if 0 < code.co_firstlineno <= len(text.lines) and same_code.is_in(text, code, scope):
            return text.lines
    return []


def show(text: Text) -> None:
    """From now on errors about the file quote this text, those that the compiler finds among them."""
    if _shown.get(text.file) is not text:
        _shown[text.file] = text
        register_source(text.file, text.joined())


# ── functions ─────────────────────────────────────────────────────────────────────────────────────────────


def function_tree(fn: FunctionType) -> tuple[ast.FunctionDef, Text]:
    """The definition of `fn` as an AST of its own, whose line and column numbers are those of its file, and
    the text that it stands in.
    """
    code, scope = fn.__code__, fn.__globals__
    other = None
    for text in _candidates(code, scope):
        tree = _find(text, code)
        if not isinstance(tree, ast.FunctionDef):
            other = other or tree
        elif id(code) in _sure or same_code.runs(tree, text, code, scope):
            adopt(code, text)
            return tree, text
    if isinstance(other, (ast.AsyncFunctionDef, ast.Lambda)):
        kind = "async" if isinstance(other, ast.AsyncFunctionDef) else "a lambda"
        raise compile_error(f"'{fn.__name__}' is {kind}; a kernel is written with def", _place(fn))
    raise _missing(fn)


def _missing(fn: FunctionType) -> Exception:
    file, line = fn.__code__.co_filename, fn.__code__.co_firstlineno
    if os.path.exists(file):
        return compile_error(f"the text of '{fn.__name__}' in {file} is not the code that runs: the file has "
                             "changed since Python read it; reload the module (importlib.reload), or restart "
                             "Python", _place(fn))
    if file.startswith("<") or not file.endswith(".py"):
        return compile_error(f"there is no text of '{fn.__name__}', defined at line {line} of {file}, which "
                             "is not a file: tilelang reads the text of a kernel; define it in a file and "
                             "import that, or in a cell of a notebook", _place(fn))
    return compile_error(f"the text of '{fn.__name__}' cannot be read: there is no file {file}, where Python "
                         "found it; restore the file, or import the module from where it is now", _place(fn))


def _place(fn: FunctionType) -> Place:
    code = fn.__code__
    line = code.co_firstlineno
    return RunningPlace((code.co_filename, line, 1, line, 1), code, fn.__globals__)


def _find(text: Text, code: CodeType) -> ast.AST | None:
    if code.co_firstlineno > len(text.lines):
        return None
    found = _match(_parse_block(text.lines, code), code)
    if found is None:
        found = _match(_parse_file(text), code)
    return found


def _match(tree: ast.AST | None, code: CodeType) -> ast.AST | None:
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if code.co_firstlineno in (first, node.lineno):
                return node
        if isinstance(node, ast.Lambda) and code.co_name == "<lambda>" and node.lineno == code.co_firstlineno:
            return node
    return None


def _parse_file(text: Text) -> ast.AST | None:
    try:
        return ast.parse(text.joined())
    except (SyntaxError, ValueError):
        return None


def _parse_block(lines: list[str], code: CodeType) -> ast.AST | None:
    """Only the function's own lines: a long file costs no more than a short one."""
    first = code.co_firstlineno - 1
    indent = _indent(lines[first])
    last = max((line for _, _, line in code.co_lines() if line), default=first + 1)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            last = max(last, *(line for _, _, line in const.co_lines() if line))
    while last < len(lines) and (not lines[last].strip() or _indent(lines[last]) > indent):
        last += 1
    block = "\n".join(line.rstrip("\n") for line in lines[first:last])
    lead = "\n" * (first - 1) + "if 1:\n" if indent else "\n" * first
    try:
        return ast.parse(lead + block)
    except (SyntaxError, ValueError):
        return None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))
