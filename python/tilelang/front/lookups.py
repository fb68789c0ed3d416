"""Where Python would compare, look up or print a value of the kernel while the kernel is built: `x in (1,
2)`, `x is y`, `table[x]`, `f"{x}"`.  What comparisons of the device can say, they say; the rest is an error.
"""

from __future__ import annotations

import operator
import warnings
from collections import deque
from typing import Any

from .._core import Buffer, Expr
from .errors import TilelangWarning
from .trace import Trace, active, builder, fail
from .values import DEVICE, SIGNS, as_value, binary, is_tile, is_value, unary
from .wording import whole_tile

_SEQUENCES = (list, tuple, set, frozenset, dict, deque, type({}.keys()), type({}.values()))
_LISTS = (list, tuple, deque)
_UNKNOWN = "only the device will know this value, but Python needs it now, while the kernel is built"


def is_unknown(x: Any) -> bool:
    """Is it a value that only the device will know?"""
    if not isinstance(x, DEVICE) or not is_value(x):
        return False
    value = as_value(x)
    return value.__class__ is Expr and not value.is_const


def is_truth(x: Any) -> bool:
    """Is it a bool, of Python's or of the device's?"""
    return isinstance(x, bool) or (isinstance(x, DEVICE) and is_value(x) and x.dtype == "bool")


def _membership(activation: Any, op: str, x: Any, items: Any) -> Any:
    """`x in items` and `x not in items`"""
    found = _found(activation, x, items)
    if op == "in":
        return found
    return unary("not", found) if isinstance(found, DEVICE) else not found


def _found(activation: Any, x: Any, items: Any) -> Any:
    if isinstance(items, DEVICE):
        raise fail(
            "`in` does not look into a buffer or a value of the kernel: compare in a loop over the "
            "elements, and fold with T.any_of or T.reduce_any"
        )
    known = isinstance(items, (*_SEQUENCES, range))
    members = () if not known or items.__class__ is range else [item for item in items if is_value(item)]
    if is_tile(x):
        if any(map(is_value, members)):
            raise fail(whole_tile(x))
        return any(x is item for item in items)
    if not is_unknown(x) and not (is_value(x) and any(map(is_unknown, members))):
        return as_known(x) in items
    if not known:
        raise fail(f"`in` a {type(items).__name__}: {_UNKNOWN}; write (x == 1) | (x == 2)")
    x = activation.settle("x", x)
    if items.__class__ is range:
        return _in_range(x, items)
    result: Any = False
    for member in members:
        same = binary("eq", x, member)
        result = same if result is False else builder().binary("or", result, same)
    return result


def _in_range(x: Any, items: range) -> Any:
    if as_value(x).dtype.is_float:
        raise fail("`in` a range takes an integer, not a float: compare by < and <=")
    items = items if items.step > 0 else items[::-1]
    inside = builder().binary("and", binary("ge", x, items.start), binary("lt", x, items.stop))
    if items.step == 1:
        return inside
    steps = binary("floormod", binary("sub", x, items.start), items.step)
    return builder().binary("and", inside, binary("eq", steps, 0))


def as_known(x: Any) -> Any:
    """A constant of the device's as Python's; anything else as it is."""
    if isinstance(x, DEVICE) and is_value(x) and not is_unknown(x):
        value = as_value(x)
        return value.value if value.__class__ is Expr else value
    return x


def _identity(activation: Any, op: str, a: Any, b: Any) -> bool:
    """`a is b` and `a is not b`"""
    values = isinstance(a, DEVICE) or isinstance(b, DEVICE)
    if values and is_value(a) and is_value(b):
        word, sign = ("is", "==") if op == "is" else ("is not", "!=")
        raise fail(
            f"`{word}` asks Python, while the kernel is built, whether both are one object; values "
            f"are compared by {sign}"
        )
    return (a is b) == (op == "is")


OPERATORS = {"in": _membership, "not_in": _membership, "is": _identity, "is_not": _identity}


def refuse_key() -> Exception:
    """The error of a value in a set, as a key of a dict, as an argument of a function that caches."""
    return fail(
        f"{_UNKNOWN}, as a key of a dict, a member of a set, or an argument of a cached function: "
        "compare it, (x == 1) | (x == 2), or choose by T.if_then_else; a table to look up in is a "
        "tensor parameter"
    )


def refuse_index(obj: Any) -> Exception:
    """The error of a list, a dict or an array of Python that is indexed by a value."""
    return fail(
        f"a Python {type(obj).__name__} cannot be indexed by a value of the kernel: it exists only "
        "while the kernel is built; pass the table as a tensor parameter, or loop over it, `for k in "
        "[*range(4)]:`, and choose by T.if_then_else"
    )


def check_call(fn: Any, args: tuple) -> None:
    """An error where a method of a list, a dict or a text would ask for the value now."""
    owner, name = fn.__self__, getattr(fn, "__name__", "")
    if isinstance(owner, str) and any(map(is_unknown, args)):
        raise _no_text()
    if not isinstance(owner, _LISTS):
        return
    asked = name in ("index", "count", "remove") and args and is_value(args[0])
    if (asked or name == "sort") and any(map(is_unknown, [*args[:1], *owner])):
        raise fail(
            f".{name}(…) of a Python {type(owner).__name__}: {_UNKNOWN}; compare it in the kernel, (x "
            "== 1) | (x == 2), or T.if_then_else(x == 1, a, b)"
        )


def _no_text() -> Exception:
    return fail(
        f"{_UNKNOWN}, as a part of a text: T.print(value, 'text') prints both when the kernel runs; "
        "the message of an `assert` is a plain text"
    )


def refuse_text(x: Any) -> None:
    """An error for a value in a text."""
    if is_unknown(x):
        raise _no_text()


def warn_of_print() -> None:
    """Say that what is printed is not the value."""
    trace = active("print")
    warnings.warn_explicit(
        "print is Python's, and prints how a value is computed, once, while the kernel is built: T.print(x, "
        "'text') prints the value when the kernel runs",
        TilelangWarning,
        trace.file,
        trace.site[0],
    )


class Shown(str):
    """How a value is computed, where print shows it: without the format that it would have as a number."""

    def __format__(self, spec: str) -> str:
        return str(self)


_CONTRIBUTIONS = {"sum": ("add", "sub"), "prod": ("mul",), "bitand": ("and",), "bitor": ("or",),
                  "bitxor": ("xor",)}  # fmt: skip


def check_contribution(trace: Trace, op: str, reducer: Buffer) -> None:
    """An error if `reducer[i] op= x` is not what its operation says."""
    kind = trace.reducers[reducer.id]
    fitting = _CONTRIBUTIONS.get(kind, ())
    if op in fitting:
        return
    at = f"{reducer.name}[…]"
    right = f"{at} {SIGNS[fitting[0]]}= x" if fitting else f"{at} = T.{kind}({at}, x)"
    raise fail(
        f"{reducer.name} is a reducer of {kind}, to which `{SIGNS[op]}=` does not contribute: write "
        f"{right}, or T.reducer_update({at}, x)"
    )


def known_index(index: Any) -> Any:
    """A constant of the device's as an integer of Python's."""
    value = as_value(index)
    return operator.index(getattr(value, "value", value))
