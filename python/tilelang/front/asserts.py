"""`assert` in a kernel."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from .._core import Expr
from .trace import fail, in_kernel
from .values import DEVICE, as_condition, constant


def shown(value: Any) -> str:
    """A value in an error: constants of the kernel as Python's numbers, texts in quotes."""
    value = constant(value)
    return repr(value) if isinstance(value, str) else str(value)


def failed_assertion(message: Callable[[], Any] | None, operands: tuple) -> str:
    """What is said of an assertion that Python has found false.

    operands: texts of what it compares, each with a function that gives its value."""
    values = []
    for text, value in operands:
        with contextlib.suppress(Exception):  # what stands behind `and` may have no value
            values.append(f"{text} is {shown(value())}")
    said = f": {message()}" if message else ""
    return f"assertion failed{said}{' (' + ', '.join(values) + ')' if values else ''}"


def device_assert(cond: Any, msg: str = "", no_stack_info: bool = False) -> None:
    """Stop the kernel with an error unless `cond` holds: for every thread that comes here.

    On a GPU the thread prints `msg` and traps, which spoils the CUDA context (a kernel with products of
    warpgroups calls no printf: there `msg` is in the RuntimeError of the next call, or else on standard error
    when the process ends); on the CPU the call raises RuntimeError, in the reference and the simulator
    CompileError at this line.  `assert cond, msg` in a kernel is the same.  no_stack_info: leave out the file
    and line."""
    trace = in_kernel("T.device_assert")
    if isinstance(msg, DEVICE):
        raise fail("T.device_assert: msg is a text, not a value of the kernel; T.print shows values")
    cond = as_condition(cond)
    if cond.__class__ is not Expr:
        if not cond:
            raise fail(f"assertion failed{': ' + str(msg) if msg else ''}")
        return
    b = trace.builder
    where = "kernel" if no_stack_info else f"{trace.file}:{trace.site[0]}"
    b.call("device_assert", (cond, b.text(str(msg)), b.text(where)))


__all__ = ["device_assert"]
