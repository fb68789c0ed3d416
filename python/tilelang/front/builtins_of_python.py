"""Python's own range, min, len, divmod, … where a value of the kernel is given to them; and breakpoint() in a
kernel."""

from __future__ import annotations

import builtins
import math
from typing import Any

from .._core import Buffer, Expr, Region
from . import changes, idioms, lookups
from .arithmetic import cast
from .loops import serial
from .trace import current, fail
from .values import DEVICE, VECTORS, as_condition, as_value, binary, is_value
from .wording import no_elements


def python_index(obj: Any, index: Any) -> Any:
    if obj.__class__ in VECTORS:
        return index
    if isinstance(obj, DEVICE):
        raise fail(no_elements(_said(obj)))
    items = index if index.__class__ is tuple else (index,)
    if not any(isinstance(item, DEVICE) for item in items):
        return index
    if isinstance(obj, dict) or type(obj).__module__ in ("numpy", "torch"):
        if any(map(lookups.is_unknown, items)):
            raise lookups.refuse_index(obj)
        return index if isinstance(obj, dict) or index.__class__ is tuple else lookups.known_index(index)
    if isinstance(obj, (list, tuple, str)):
        if any(map(lookups.is_unknown, items)):
            raise lookups.refuse_index(obj)
        return lookups.known_index(index)
    return index


def _said(x: Any) -> str:
    if x.__class__ is Region:
        return f"a slice of {x.buffer.name}"
    return f"an element of {x.buffer.name}" if hasattr(type(x), "buffer") else "a value of the kernel"


def range_of(fn: Any, args: tuple, kwargs: dict) -> Any:
    args = tuple(a.value if a.__class__ is Expr and a.is_const else a for a in args)
    if any(isinstance(a, (*DEVICE, float)) for a in args):
        return serial(*args)
    if len(args) == 3 and args[2] == 0:
        raise fail("the step of a loop must not be 0")
    return range(*args, **kwargs)


def extreme_of(fn: Any, args: tuple, kwargs: dict) -> Any:
    items = list(args[0]) if len(args) == 1 and not isinstance(args[0], DEVICE) else list(args)
    if not any(isinstance(a, DEVICE) for a in items):
        return fn(*args, **kwargs) if len(args) != 1 else fn(items, **kwargs)
    if kwargs:
        raise fail(
            f"{fn.__name__} with {next(iter(kwargs))}= of values that only the device will know: "
            "compare them, T.if_then_else(a < b, a, b)"
        )
    result = items[0]
    for item in items[1:]:
        result = binary(fn.__name__, result, item)
    return result


def converted(fn: Any, args: tuple, kwargs: dict) -> Any:
    if len(args) == 1 and isinstance(args[0], DEVICE) and as_value(args[0]).__class__ is Expr:
        return cast(args[0], fn)
    return fn(*args, **kwargs)


def quotient_of(fn: Any, args: tuple, kwargs: dict) -> Any:
    if len(args) == 2 and any(isinstance(a, DEVICE) for a in args):
        return binary("floordiv", *args), binary("floormod", *args)
    return fn(*args, **kwargs)


def length_of(fn: Any, args: tuple, kwargs: dict) -> Any:
    """Of a buffer its first extent, as of an array."""
    if len(args) == 1 and isinstance(args[0], DEVICE) and args[0].__class__ not in VECTORS:
        if args[0].__class__ is not Buffer or is_value(args[0]):
            raise fail(f"{_said(args[0])} has no length; A.shape has the extents of a buffer")
        return args[0].shape[0]
    return fn(*args, **kwargs)


def taken(fn: Any, args: tuple, kwargs: dict) -> Any:
    """next(items)."""
    trace = current()
    if trace is not None and args:
        changes.check_next(trace, args[0])
    return fn(*args, **kwargs)


def rounded(fn: Any, args: tuple, kwargs: dict) -> Any:
    """To the nearest integer, halves to the even one, as Python does."""
    if not args or not isinstance(args[0], DEVICE):
        return fn(*args, **kwargs)
    if len(args) > 1 or kwargs:
        raise fail(
            "round with a number of digits: a float of the device has no decimal digits; write "
            "T.round(x * 100) / 100"
        )
    value = as_value(args[0])
    return cast(value, "int32", round="rn") if value.dtype.is_float else value


def folded(fn: Any, args: tuple, kwargs: dict) -> Any:
    """any and all."""
    if len(args) != 1 or isinstance(args[0], DEVICE):
        return fn(*args, **kwargs)
    items, result = list(args[0]), None
    if not any(map(lookups.is_unknown, items)):
        return fn(items, **kwargs)
    for item in items:
        item = as_condition(item)
        if item.__class__ is not Expr:
            if bool(item) == (fn is any):
                return bool(item)
        else:
            result = item if result is None else binary("or" if fn is any else "and", result, item)
    return result


def sorted_of(fn: Any, args: tuple, kwargs: dict) -> Any:
    items = list(args[0]) if len(args) == 1 and not isinstance(args[0], DEVICE) else None
    if items is not None and any(map(lookups.is_unknown, items)):
        raise fail(
            "sorted of values that only the device will know: exchange pairs, lower = T.min(a, b) and "
            "upper = T.max(a, b)"
        )
    return fn(*args, **kwargs) if items is None else fn(items, **kwargs)


def printed(fn: Any, args: tuple, kwargs: dict) -> Any:
    """What is known now, and how everything else is computed: not what the device will have."""
    if any(map(lookups.is_unknown, args)):
        lookups.warn_of_print()
    return fn(*[lookups.as_known(x) for x in args], **kwargs)


def mathematics(fn: Any, args: tuple, kwargs: dict) -> Any:
    """The functions of Python's math."""
    if any(isinstance(a, DEVICE) and (not is_value(a) or lookups.is_unknown(a)) for a in args):
        raise fail(
            f"math.{fn.__name__} computes while the kernel is built, but only the device will know "
            f"the value: use {idioms.function_like(fn.__name__)}"
        )
    return fn(*args, **kwargs)


def stopped(fn: Any, args: tuple, kwargs: dict) -> Any:
    """`breakpoint()`: in a kernel a place where the simulator stops (tools/breakpoints.py)."""
    trace = current()
    if trace is None or trace.kernel is None:
        return fn(*args, **kwargs)
    trace.breakpoints.append((trace.file, trace.site[0]))
    trace.builder.call("breakpoint", ())
    return None


BUILTINS = {id(breakpoint): stopped, id(range): range_of, id(min): extreme_of, id(max): extreme_of,
            id(int): converted, id(float): converted, id(bool): converted, id(divmod): quotient_of,
            id(len): length_of, id(builtins.round): rounded, id(any): folded, id(all): folded,
            id(sorted): sorted_of, id(print): printed, id(next): taken}  # fmt: skip
BUILTINS.update({id(f): mathematics for name, f in vars(math).items() if callable(f) and name[0] != "_"})
