"""Loops that the device runs, as T.serial, T.Parallel and the others give them to `for`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .._core import Builder
from .trace import fail, warn
from .values import as_value


def whole(value: Any, what: str) -> Any:
    """An error if a size is a float of Python's."""
    if value.__class__ is float:
        raise fail(
            f"{what} is the float {value}, not an integer: `/` gives a float in Python, also of "
            "integers; write //"
        )
    return value


class Loop:
    """What T.serial, T.Parallel, … return: the bounds of a device loop, opened by the `for` that runs over
    it."""

    __slots__ = ("kind", "starts", "stops", "steps", "attrs", "op")
    bound = False  # are its iterations threads that are there anyway?

    def __init__(self, kind: str, starts: list, stops: list, steps: list, attrs: dict[str, Any]) -> None:
        self.kind, self.starts, self.stops, self.steps, self.attrs = kind, starts, stops, steps, attrs
        self.op: str | None = None  # the loop's name as an operation of a schedule of warps

    def begin(self, builder: Builder, names: tuple) -> Any:
        """Open the loop: the values of its variables."""
        if self.op is not None:
            builder.begin_op(self.op)
        if self._is_empty():  # a parallel loop has iterations; one around it has none
            builder.begin_for("serial", ("none",), [0], [0], [1], {})
            stops = [start + step for start, step in zip(self.starts, self.steps, strict=True)]
            return builder.begin_for(self.kind, names, self.starts, stops, self.steps, self.attrs)
        return builder.begin_for(self.kind, names, self.starts, self.stops, self.steps, self.attrs)

    def end(self, builder: Builder) -> None:
        """Close it."""
        builder.end_for()
        if self._is_empty():
            builder.end_for()
        if self.op is not None:
            builder.end_group()

    def _is_empty(self) -> bool:
        bounds = zip(self.starts, self.stops, self.steps, strict=True)
        return self.kind == "parallel" and any(
            all(isinstance(n, int) for n in row) and len(range(*row)) == 0 for row in bounds
        )

    def __iter__(self) -> Iterator:
        raise fail(
            "a device loop in an ordinary Python function or comprehension: make the function a "
            "@T.macro, or the loop a `for` statement of the kernel; range(n) in a comprehension is "
            "Python's, and gives a list while the kernel is built"
        )

    def __reversed__(self) -> Loop:
        """`reversed(range(n))`: the same iterations, the last one first."""
        if self.kind != "serial" or self.attrs or self.op is not None:
            raise fail(f"reversed() is for range and T.serial, not for a loop that is {self.kind}")
        (start,), (stop,), (step,) = self.starts, self.stops, self.steps
        if not isinstance(step, int):
            raise fail("reversed() of a loop whose step is not a constant")
        count = (stop - start + step - (1 if step > 0 else -1)) // step
        return Loop("serial", [start + (count - 1) * step], [start - step], [-step], {})


def serial(*bounds: Any, kind: str = "serial", attrs: dict[str, Any] | None = None) -> Loop:
    """A loop over range(*bounds)."""
    words = ("the end",) if len(bounds) == 1 else ("the start", "the end", "the step")
    known = [whole(as_value(bound), f"{word} of a loop") for word, bound in zip(words, bounds, strict=False)]
    start, stop, step = (0, known[0], 1) if len(known) == 1 else (*known, 1)[:3]
    if isinstance(step, int) and step == 0:
        raise fail("the step of a loop must not be 0")
    _warn_of_none(kind, start, stop, step)
    return Loop(kind, [start], [stop], [step], attrs or {})


def _warn_of_none(kind: str, start: Any, stop: Any, step: Any) -> None:
    """A warning for bounds the wrong way round: equal ones are the rest of a split that leaves none."""
    if (
        not all(isinstance(n, int) for n in (start, stop, step))
        or start == stop
        or len(range(start, stop, step))
    ):
        return
    if kind == "pipelined" and stop >= 0:
        cure = f"the number of stages is a keyword, T.Pipelined({start}, num_stages={stop})"
    elif step > 0:
        cure = f"to count down give a step, ({start}, {stop}, -{step}), which ends before {stop}"
    else:
        cure = f"a step of {step} counts down"
    warn(f"this loop runs from {start} to {stop}, and so has no iteration: {cure}")
