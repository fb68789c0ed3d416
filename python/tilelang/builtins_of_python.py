"""Python's own range, min, max, int, float, bool and [] where a value of the kernel is given to them; and
breakpoint() in a kernel.
"""

from __future__ import annotations

import operator
from typing import Any

from ._core import Expr
from .trace import fail, serial
from .values import DEVICE, as_value, binary


def python_index(obj: Any, index: Any) -> Any:
    if isinstance(obj, (list, tuple, str)) and isinstance(index, DEVICE):
        value = as_value(index)
        if value.__class__ is Expr and not value.is_const:
            raise fail(f"a Python {type(obj).__name__} cannot be indexed by a value of the kernel: it exists "
                       "only while the kernel is built; loop over the list itself, or use a buffer")
        return operator.index(getattr(value, "value", value))
    return index


def range_of(fn: Any, args: tuple, kwargs: dict) -> Any:
    args = tuple(a.value if a.__class__ is Expr and a.is_const else a for a in args)
    if any(isinstance(a, DEVICE) for a in args):
        return serial(*args)
    return range(*args, **kwargs)


def extreme_of(fn: Any, args: tuple, kwargs: dict) -> Any:
    items = list(args[0]) if len(args) == 1 and not isinstance(args[0], DEVICE) else list(args)
    if kwargs or not any(isinstance(a, DEVICE) for a in items):
        return fn(*args, **kwargs) if len(args) != 1 else fn(items, **kwargs)
    result = items[0]
    for item in items[1:]:
        result = binary(fn.__name__, result, item)
    return result


def converted(fn: Any, args: tuple, kwargs: dict) -> Any:
    if len(args) == 1 and isinstance(args[0], DEVICE) and as_value(args[0]).__class__ is Expr:
        from .scalar import cast

        return cast(args[0], fn)
    return fn(*args, **kwargs)


def stopped(fn: Any, args: tuple, kwargs: dict) -> Any:
    from .breakpoints import statement

    return statement(fn, args, kwargs)


BUILTINS = {id(breakpoint): stopped, id(range): range_of, id(min): extreme_of, id(max): extreme_of,
            id(int): converted, id(float): converted, id(bool): converted}
