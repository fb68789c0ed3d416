"""How an error is worded where a name is asked for that is not there, or a function is called as it is not
defined: what was asked, what there is, and what people mean by it who come from elsewhere (idioms.py)."""

from __future__ import annotations

import functools
import linecache
import re
import traceback
from collections.abc import Callable
from types import FrameType, FunctionType, ModuleType
from typing import Any

from .._core import ArgumentError, Buffer, Region
from . import idioms
from .errors import (
    CompileError,
    UnknownName,
    WrongCall,
    caller_place,
    compile_error,
    is_ours,
    place_of_traceback,
)
from .lanes import is_element
from .offered import OFFERED
from .trace import place
from .values import DEVICE, VECTORS

_KEYWORD = re.compile(r"got (?:an unexpected|some positional-only|multiple values for) .*?argument '(\w+)'")
_CALLED = re.compile(r"([\w.<>]+)\(\) (?:got|takes|missing) ")


_FOLDS = {"sum": "v[0] + v[1] + …", "prod": "v[0] * v[1] * …", "max": "T.max(v[0], v[1])",
          "min": "T.min(v[0], v[1])"}  # fmt: skip


def unknown_attribute(x: Any, name: str) -> Exception:
    """The error of `x.name`, of a buffer, a part of one, or a value of the kernel."""
    if name.startswith("_"):  # asked by protocols of Python, NumPy, notebooks
        return AttributeError(f"'{type(x).__name__}' object has no attribute '{name}'")
    fold = _FOLDS.get(name)
    if fold is not None and (x.__class__ in VECTORS or is_element(x)):
        said = f"a vector has no attribute '{name}': its lanes are numbers, {fold}"
        return compile_error(said, caller_place(), UnknownName)
    whole = _is_tile(x)
    what, who = _described(x)
    instead = idioms.OF_BUFFERS.get(name) if whole else idioms.OF_VALUES.get(name)
    if whole and instead and instead.startswith("T.reduce_") and getattr(x, "scope", "") == "global":
        cure = "copy a tile of it, T.copy(" + who + "[…], tile), and write " + instead.format("tile")
    elif instead is not None:
        cure = "write " + instead.format(who) if instead.startswith(("T.", "len(")) else instead.format(who)
    elif not whole and idioms.OF_BUFFERS.get(name, "").startswith("T.reduce_"):
        cure = "it is one value; of a tile, " + idioms.OF_BUFFERS[name].format("tile")
    elif name in OFFERED and isinstance(OFFERED[name], FunctionType):
        cure = (
            f"T.{name} takes one element, {who}[…], in a T.Parallel loop"
            if whole
            else f"write T.{name}({who})"
        )
    else:
        cure = "it has .shape, .dtype, .scope and .name" if whole else "it has .dtype"
    return compile_error(f"{what} has no attribute '{name}': {cure}", caller_place(), UnknownName)


def _is_tile(x: Any) -> bool:
    return x.__class__ is Region or hasattr(type(x), "scope") and x.scope != "var"


def _described(x: Any) -> tuple[str, str]:
    """What x is in words, and what the user may call it."""
    if x.__class__ is Region:
        return f"a slice of {x.buffer.name}", f"{x.buffer.name}[…]"
    if x.__class__ is Buffer and x.scope == "var":
        return f"the variable {x.name}", x.name
    if hasattr(type(x), "scope"):
        return f"the {x.scope} buffer {x.name}", x.name
    if hasattr(type(x), "buffer"):
        return f"an element of {x.buffer.name}", f"{x.buffer.name}[…]"
    return "a value of the kernel", "value"


def wrong_call(error: TypeError, fn: Any, args: tuple = ()) -> CompileError | None:
    """The error at the user's line if `error`, of a call of fn, says that a function of this package was not
    called as it is defined: fn itself, or one that a plain function of the user's called.  The innermost
    frame of its traceback is then the caller's.  Also where fn is Python's or a library's, written in C, and
    was given a value of the kernel."""
    at = error.__traceback__
    frames = 0
    while at.tb_next is not None:
        at, frames = at.tb_next, frames + 1
    called = _CALLED.match(str(error))
    if frames == 0:
        ours = (getattr(fn, "__module__", None) or "").startswith("tilelang.")
        if not isinstance(fn, FunctionType) and any(isinstance(x, DEVICE) for x in (fn, *args)):
            return compile_error(_of_a_value(fn, args), place(), WrongCall)
        return compile_error(_wording(str(error), fn), place(), WrongCall) if ours or called else None
    where = place_of_traceback(at)
    if called is None:
        return None
    is_macro = getattr(fn, "said", "") == "a @T.macro"
    if where is None and is_macro and called.group(1).rpartition(".")[2] == fn.__name__:
        return compile_error(_wording(str(error), fn.__wrapped__), place(), WrongCall)
    if where is None:
        return None
    name = called.group(1).partition(".")[0]
    if name not in OFFERED or not _calls(at.tb_frame, name):
        return None
    return compile_error(_wording(str(error), OFFERED[name]), where, WrongCall)


def unfit(error: Exception, fn: Any) -> CompileError | None:
    """The error at the user's line if `error` is one of Python's own that a function of this package met
    with what it was given: no frame of its traceback but ours, and none that raises it on purpose."""
    if isinstance(error, CompileError) or not (getattr(fn, "__module__", None) or "").startswith("tilelang."):
        return None
    frames = list(traceback.walk_tb(error.__traceback__))[1:]
    if not frames or any(not is_ours(frame) for frame, _ in frames):
        return None
    frame, line = frames[-1]
    if linecache.getline(frame.f_code.co_filename, line).lstrip().startswith("raise "):
        return None
    said = _wording(f"{fn.__name__}() cannot use what it was given ({error})", fn)
    return compile_error(said, place(), WrongCall)


def _of_a_value(fn: Any, args: tuple) -> str:
    """What is said where a function of Python's gets what only the device will know."""
    name = getattr(fn, "__qualname__", None) or getattr(fn, "__name__", "this")
    if isinstance(fn, DEVICE):
        what, who = _described(fn)
        return f"{what} is not a function: an element is written {who.partition('[')[0]}[i, j]"
    what = _described(next(x for x in args if isinstance(x, DEVICE)))[0]
    return (
        f"{name} computes while the kernel is built, but is given {what}, which only the device will "
        f"know: use {idioms.function_like(name)}"
    )


def _calls(frame: FrameType, name: str) -> bool:
    """Does the code of the frame mean ours by that name: imported itself, or as `T.name`?"""
    seen = {**frame.f_globals, **frame.f_locals}
    if name in seen:
        return seen[name] is OFFERED[name]
    modules = [value for value in seen.values() if isinstance(value, ModuleType)]
    return name in frame.f_code.co_names and any(m.__name__.startswith("tilelang") for m in modules)


def add_cure(error: NameError) -> None:
    """Python's words on a name that nobody has defined, and what people mean by it who come from CUDA."""
    name = getattr(error, "name", None)
    instead = idioms.NAMES.get(name) or idioms.ABSENT.get(name)
    if instead and name in str(error):
        error.args = (f"{error}: in kernels, {instead}",)


def launched_in_brackets(name: str, compiled: bool = True) -> ArgumentError:
    """The error of `kernel[grid](x, y)`, as Triton and Numba launch."""
    call = (
        f"is called plainly, {name}(x, y)"
        if compiled
        else f"is compiled first, tilelang.compile({name})(x, y)"
    )
    return ArgumentError(
        f"{name}[…]: the grid stands in the kernel, `with T.Kernel(gx, gy, threads=128) as "
        f"(bx, by):`, and the kernel {call}"
    )


def suggesting(fn: Callable) -> Callable:
    """The same function of the host: a keyword that it does not have is answered by the nearest one."""
    code = fn.__code__
    names = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])

    @functools.wraps(fn)
    def called(*args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name not in names:
                said = f"{fn.__name__}() got an unexpected keyword argument '{name}'"
                raise TypeError(_wording(said, fn))
        return fn(*args, **kwargs)

    return called


def _wording(text: str, fn: Callable) -> str:
    """Python's words on the call, and what fn takes."""
    import inspect

    name = getattr(fn, "__name__", "")
    if OFFERED.get(name) is fn:
        name = f"T.{name}"
    text = re.sub(r"^[\w.<>]+\(\)", name or r"\g<0>", text)
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return text
    keyword = _KEYWORD.search(text)
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    taken = f"t takes {inspect.Signature(plain)}"
    if name.startswith("T.alloc_") and "multiple values for argument 'dtype'" in text:
        return f"{text}: several extents stand in a tuple, {name}((m, n), dtype); i{taken}"
    if keyword is None or "unexpected" not in text:
        return f"{text}; i{taken}"
    return f"{text}; {_near(keyword.group(1), list(signature.parameters))}{taken}"


def _near(keyword: str, known: list[str]) -> str:
    """What an unknown keyword may mean, up to the first letter of the next clause."""
    import difflib

    meant = idioms.KEYWORDS.get(keyword)
    if meant not in known:
        if keyword in idioms.CURES:
            return f"{idioms.CURES[keyword]}; i"
        meant = next(iter(difflib.get_close_matches(keyword, known, 1)), None)
    return f"did you mean {meant}? I" if meant else "i"
