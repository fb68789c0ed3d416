"""`assert` in a kernel."""

from __future__ import annotations

from typing import Any

from .._core import Expr
from .trace import fail, in_kernel
from .values import as_condition


def device_assert(cond: Any, msg: str = "", no_stack_info: bool = False) -> None:
    """Stop the kernel with an error unless `cond` holds: for every thread that comes here.

    On a GPU the thread prints `msg` and traps, which spoils the CUDA context (a kernel with products of
    warpgroups calls no printf: there `msg` is in the RuntimeError of the next call, or else on standard error
    when the process ends); on the CPU the call raises RuntimeError, in the reference and the simulator
    CompileError at this line.  `assert cond, msg` in a kernel is the same.  no_stack_info: leave out the file
    and line."""
    trace = in_kernel("T.device_assert")
    cond = as_condition(cond)
    if cond.__class__ is not Expr:
        if not cond:
            raise fail(f"assertion failed{': ' + str(msg) if msg else ''}")
        return
    b = trace.builder
    where = "kernel" if no_stack_info else f"{trace.file}:{trace.site[0]}"
    b.call("device_assert", (cond, b.text(str(msg)), b.text(where)))


__all__ = ["device_assert"]
