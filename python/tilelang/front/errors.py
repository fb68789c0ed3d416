"""Errors that the Python front finds, in the form of those that the compiler finds.

A `CompileError` is the user's: `file:line:column: error: text`, the source line and a caret.  A place is the
tuple (file, line, column, end_line, end_column), lines and columns counted from 1, columns in bytes as `ast`
has them."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from types import CodeType, FrameType, TracebackType
from typing import Any

from .._core import ArgumentError, CompileError  # noqa: F401  (tilelang.ArgumentError)
from .texts import lines_of, lines_running

Place = tuple  # (file, line, column, end_line, end_column)


class RunningPlace(tuple):
    """A place in code that Python runs: what stands there is quoted only if it is that code."""

    def __new__(cls, place: Place, code: CodeType, scope: dict[str, Any]) -> RunningPlace:
        """scope: the globals of the code."""
        made = super().__new__(cls, place)
        made.code, made.scope = code, scope
        return made


_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class UnknownName(CompileError, AttributeError):
    """A name that `tilelang.language` does not have, or not yet, or an attribute that a buffer or a value
    does not have; also an AttributeError, so that hasattr works."""


class WrongValue(CompileError, ValueError):
    """A value that a function does not take; also a ValueError, as published functions raise."""


class WrongCall(CompileError, TypeError):
    """A function of the language that is not called as it is defined; also a TypeError, as Python's own."""


class UnboundName(CompileError, NameError):
    """A name of a kernel that is read before it is bound; also a NameError, as Python's own is."""


class WrongType(CompileError, TypeError):
    """A value of a type that a function does not take; also a TypeError, as published functions raise."""


class ArrayForNumber(CompileError, TypeError):
    """An array where a number is due: an extent of a shape, or a value of the kernel."""


class TilelangWarning(UserWarning):
    """Something that is probably not meant, at a line of the user's kernel."""


def compile_error(text: str, place: Place | None, kind: type = CompileError) -> CompileError:
    """The error `text` at `place`, rendered as the compiler renders its own; the caller raises it."""
    if place is None:
        error = kind(f"error: {text}")
        file, line, column = "", 0, 0
    else:
        file, line, column = place[:3]
        error = kind(f"{file}:{line}:{column}: error: {text}{_render(place)}")
    error.text, error.file, error.line, error.column = text, file, line, column
    return error


def _render(place: Place) -> str:
    file, line, column, end_line, end_column = place
    running = isinstance(place, RunningPlace)
    lines = lines_running(place.code, place.scope) if running else lines_of(file)
    if not lines or not 0 < line <= len(lines):
        return ""
    text = lines[line - 1].rstrip("\n")
    raw = text.encode()
    first = len(raw[: column - 1].decode(errors="replace"))
    last = len(text) if end_line > line else len(raw[: end_column - 1].decode(errors="replace"))
    lead = "".join("\t" if c == "\t" else " " for c in text[:first])
    return f"\n  {text}\n  {lead}^{'~' * (last - first - 1)}"


def kind_of(x: Any) -> str:
    """What x is, in the user's words: "a @T.macro", "an int"."""
    name = type(x).__name__
    if x is None:
        return "None"
    return getattr(type(x), "said", None) or f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


@contextlib.contextmanager
def names_bound(code: CodeType, bound: dict[str, int]) -> Iterator[None]:
    """Runs `code`, a rewritten kernel or macro: where it reads one of its names too early, an error says so.

    bound: the names that it binds, each with the first line that does."""
    try:
        yield
    except NameError as error:
        found = re.search(r"'(\w+)'", str(error))
        innermost = error.__traceback__
        while innermost.tb_next is not None:
            innermost = innermost.tb_next
        name, place = found and found.group(1), place_of_traceback(innermost)
        if (
            isinstance(error, CompileError)
            or name not in bound
            or place is None
            or not _contains(code, innermost.tb_frame.f_code)
        ):
            raise
        line = bound[name]
        if line > place[1]:
            text = f"'{name}' is used before it is bound: line {line} does that; move it above this one"
        elif line == place[1]:
            text = (
                f"'{name}' has no value here: line {line}, the first to bind it, makes it a name of this "
                f"function alone; give it a value first, or, in a @T.macro that changes a variable of its "
                f"caller, make it a parameter, `{name}: T.Ref`"
            )
        else:
            text = (
                f"'{name}' has no value here: line {line}, the first to bind it, has not run before (a "
                f"condition or loop that Python decides may leave it out); give '{name}' a value first"
            )
        raise compile_error(text, place, UnboundName) from None


def _contains(code: CodeType, other: CodeType) -> bool:
    """Is `other` that code, or that of a function in it?"""
    return code is other or any(
        isinstance(part, CodeType) and _contains(part, other) for part in code.co_consts
    )


def caller_place() -> Place | None:
    """The innermost place outside this package that is being executed: where the user called us."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return None if frame is None else _place_in(frame, frame.f_lineno, frame.f_lasti)


def is_ours(frame: FrameType) -> bool:
    """Does it run code of this package?"""
    return frame.f_code.co_filename.startswith(_PACKAGE)


def place_of_traceback(traceback: TracebackType) -> Place | None:
    """Where its frame was when the error passed; None in this package."""
    frame = traceback.tb_frame
    if is_ours(frame):
        return None
    return _place_in(frame, traceback.tb_lineno, traceback.tb_lasti)


def _place_in(frame: FrameType, line: int, instruction: int) -> Place:
    code = frame.f_code
    if hasattr(code, "co_positions"):  # Python 3.11 and later know the column
        import itertools

        found = next(itertools.islice(code.co_positions(), instruction // 2, None), None)
        if found and None not in found:
            first, last, column, end_column = found
            place = (code.co_filename, first, column + 1, last, end_column + 1)
            return RunningPlace(place, code, frame.f_globals)
    lines = lines_running(code, frame.f_globals)
    text = lines[line - 1] if lines and line <= len(lines) else ""
    column = len(text) - len(text.lstrip()) + 1
    return RunningPlace((code.co_filename, line, column, line, len(text.rstrip()) + 1), code, frame.f_globals)
