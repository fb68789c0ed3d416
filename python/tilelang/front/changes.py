"""What a kernel may change of Python's own objects.

A list, a dict, an attribute live while the kernel is built, and a loop or a branch of the device is built
once: what its text changes there would change once, and not once per iteration, or not only where the
condition holds.  So such a change is refused, unless the object was made in the same loop or branch."""

from __future__ import annotations

import sys
from collections import deque
from types import FunctionType, MethodType, ModuleType
from typing import Any

from .trace import Trace, fail

_KINDS = (list, dict, set, deque, bytearray)
_METHODS = frozenset(("append", "appendleft", "extend", "extendleft", "insert", "pop", "popleft", "popitem",
                      "remove", "discard", "clear", "update", "setdefault", "add", "sort", "reverse",
                      "rotate", "subtract", "move_to_end", "difference_update", "intersection_update",
                      "symmetric_difference_update", "fill", "put", "resize", "__setitem__", "__delitem__",
                      "__iadd__", "__ior__"))  # fmt: skip
_FIXED = (int, float, bool, str, bytes, type(None), type, FunctionType, MethodType, ModuleType)
_MOST = 1000  # objects that are looked at in what a call gives


def _holders(x: Any) -> int:
    return sys.getrefcount(x)


def _count_of_a_name() -> int:
    made = object()
    return _holders(made)


def _count_of_an_item() -> int:
    for item in [object()]:
        return _holders(item)
    return 0


_NAMED, _CONTAINED = _count_of_a_name(), _count_of_an_item()  # references to what nobody else knows


def made(trace: Trace, value: Any) -> Any:
    """A list, dict or set that the text just made: where that was."""
    if trace.innermost():
        trace.born[id(value)] = (value, trace.blocks)
    return value


def given(trace: Trace, value: Any) -> None:
    """What a call gives: if nobody else holds it, nor what is in it, it was made there."""
    # this name, and that of the caller
    if not trace.innermost() or isinstance(value, _FIXED) or _holders(value) > _NAMED + 1:
        return
    todo, new = [value], 0
    while todo and new < _MOST:
        holder, new = todo.pop(), new + 1
        trace.born[id(holder)] = (holder, trace.blocks)
        for item in _parts(holder):
            known = isinstance(item, _FIXED) or id(item) in trace.born
            if not known and _holders(item) <= _CONTAINED:
                todo.append(item)


def _parts(holder: Any) -> Any:
    if isinstance(holder, dict):
        return holder.values()
    if isinstance(holder, (list, tuple, set, deque)):
        return holder
    return getattr(holder, "__dict__", {}).values()


def is_older(trace: Trace, obj: Any) -> bool:
    """Was it made before the innermost loop or branch of the device began?"""
    born = trace.born.get(id(obj))
    return trace.innermost() > (born[1] if born is not None else 0)


def _is_python(obj: Any) -> bool:
    return isinstance(obj, _KINDS) or type(obj).__module__ in ("numpy", "torch", "array")


def check(trace: Trace, obj: Any, what: str) -> None:
    """An error if a container of Python is changed by `what` in a loop or branch that began after it."""
    if _is_python(obj) and is_older(trace, obj):
        raise fail(
            f"`{what}` changes a {type(obj).__name__} of Python's, which lives while the kernel is "
            "built, but in a loop or branch that the device runs, which is built once: make it inside "
            "of that; or let Python run the loop, `for k in [*range(4)]:`; or write to what the "
            "device has, T.alloc_local(shape, dtype), T.alloc_var(dtype, init)"
        )


def check_next(trace: Trace, items: Any) -> None:
    """The same of next(items)."""
    if is_older(trace, items):
        raise fail(
            f"`next(…)` takes from a {type(items).__name__} of Python's while the kernel is built, but in a "
            "loop or branch that the device runs, which is built once: each iteration would get the same "
            "item; let Python run the loop, `for k in [*range(4)]:`; or store the items to what the device "
            "has, T.alloc_local(shape, dtype), and index it"
        )


def check_call(trace: Trace, fn: Any) -> None:
    """The same of a call of a method."""
    name = getattr(fn, "__name__", "")
    if name in _METHODS:
        check(trace, fn.__self__, f".{name}(…)")
