"""`breakpoint()` in a kernel: the simulator stops there and shows what a thread holds; other targets go on.

On a terminal it asks for commands; else it prints a summary and goes on.  `tilelang.tools.breakpoints.chosen`
says for which block and thread (the others pass): `chosen.block = 3` before the call."""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..front.errors import TilelangWarning

_MOST = 16  # elements of registers in a summary
_HELP = """\
  p [NAME]   print a buffer, or all of them shortly
  t THREAD   look at another thread; of another warp from the next stop on
  b BLOCK    the next stops are those of this block
  c          continue (also an empty line)
  q          end the simulation"""


@dataclass
class Chosen:
    """Whose breakpoints are shown: the block's number in the grid (x fastest), the thread's in the block."""

    block: int = 0
    thread: int = 0


chosen = Chosen()


def warn(places: list[tuple[str, int]], target: str) -> None:
    """Other targets than the simulator pass breakpoints: say so, where they stand."""
    if target.startswith("sim:"):
        return
    for file, line in dict.fromkeys(places):
        warnings.warn_explicit(
            f"breakpoint() does nothing on {target}: only the simulator stops here (target='sim:sm_90')",
            TilelangWarning,
            file,
            line,
        )


class Stops:
    """What the simulator calls in a run of one kernel."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    @cached_property
    def layouts(self) -> dict[str, Any]:
        """Of the tiles that have one, by name."""
        return {b.name: b for b in self.kernel.report.buffers if b.scope in ("shared", "fragment", "local")}

    def wants(self, block: int, first: int, warp: int) -> bool:
        return block == chosen.block and chosen.thread in range(first, first + warp)

    def show(
        self, place: Any, where: str, first: int, active: int, warp: int, arrays: list, barriers: list
    ) -> None:
        threads = range(first, first + warp)
        state = State(self, place, where, threads, active, {a["name"]: a for a in arrays}, barriers)
        print(state.summary())
        if sys.stdin.isatty() and sys.stdout.isatty():
            while self._obey(input("(sim) ").split(), state):
                pass

    def _obey(self, words: list[str], state: State) -> bool:
        """Carry out a command: whether to ask for another."""
        what = words[0] if words else "c"
        number = int(words[1]) if len(words) == 2 and words[1].isdigit() else None
        if what == "c":
            return False
        if what == "q":
            raise KeyboardInterrupt
        if what == "p":
            print("\n".join(state.full(name) for name in words[1:]) or state.summary())
        elif what == "b" and number is not None:
            chosen.block = number
            print(f"from the next stop on: block {number}")
        elif what == "t" and number is not None:
            chosen.thread = number
            print(state.summary() if number in state.threads else f"from the next stop on: thread {number}")
        else:
            print(_HELP)
        return True


@dataclass
class State:
    """A warp at a breakpoint."""

    stops: Stops
    place: Any
    where: str
    threads: range  # of the warp, in the block
    active: int
    arrays: dict[str, dict[str, Any]]
    barriers: list[tuple]

    def summary(self) -> str:
        """Everything, each in a line or two."""
        at = (
            f"{os.path.basename(self.place[0])}:{self.place[1]}"
            if self.place
            else "not a line of your program"
        )
        lines = [
            f"{at}: breakpoint, {self.where}, thread {self._thread()}; of its warp "
            f"{bin(self.active).count('1')} threads stop here"
        ]
        lines += [f"  {self._head(name)}: {self._short(name)}" for name in self.arrays]
        lines += [
            f"  barrier {n}: {arrived} of {expected or 'all'} threads have come, passed {phase} times"
            for n, arrived, expected, phase in self.barriers
        ]
        return "\n".join(lines)

    def full(self, name: str) -> str:
        """One buffer with all of its elements."""
        if name not in self.arrays:
            return f"there is no '{name}' here; there are {', '.join(self.arrays) or 'no buffers'}"
        import numpy

        with numpy.printoptions(threshold=sys.maxsize, linewidth=110):
            value = self.value(name)
            return f"{self._head(name)}:\n" + (_pairs(value) if isinstance(value, dict) else str(value))

    def value(self, name: str) -> Any:
        """A shared tile, or a thread's own buffer, as an array; of a fragment {index: value}."""
        import numpy

        array = self.arrays[name]
        lane = 0 if array["scope"] == "shared" else self._thread() - self.threads.start
        flat = numpy.frombuffer(array["lanes"][lane], array["dtype"].as_numpy())
        info = self.stops.layouts.get(name)
        layout = info and info.layout
        if layout is None:
            shape = [int(n) if n.isdigit() else 0 for n in info.shape] if info else []
            return flat.reshape(shape) if shape and numpy.prod(shape) == flat.size else flat
        found = {}
        for index in numpy.ndindex(*layout.shape):
            if array["scope"] == "fragment":
                for thread, register in layout.holders(*index):
                    if thread == self._thread():
                        found[index] = flat[register]
            else:
                found[index] = flat[_one(layout(*index))]
        if array["scope"] == "fragment":
            return found
        return numpy.array(list(found.values())).reshape(layout.shape)

    def _thread(self) -> int:
        """The chosen one, or the first that stops here."""
        lane = chosen.thread - self.threads.start
        if not (chosen.thread in self.threads and self.active >> lane & 1):
            lane = (self.active & -self.active).bit_length() - 1
        return self.threads[lane]

    def _head(self, name: str) -> str:
        array, info = self.arrays[name], self.stops.layouts.get(name)
        shape = f"[{', '.join(info.shape)}]" if info else ""
        return f"{name}, {array['scope']} {array['dtype'].name}{shape}"

    def _short(self, name: str) -> str:
        import numpy

        value = self.value(name)
        if isinstance(value, dict):
            if not value:
                return "nothing of it is in this thread"
            first = dict(list(value.items())[:_MOST])
            rest = len(value) - len(first)
            return _pairs(first) + (f" … {rest} more" if rest else "")
        if value.size == 1:
            return str(value.reshape(-1)[0])
        with numpy.printoptions(threshold=_MOST, edgeitems=2, linewidth=100):
            return str(value).replace("\n", "\n    ")


def _one(place: Any) -> int:
    return int(place[0] if isinstance(place, (tuple, list)) else place)


def _pairs(values: dict[tuple, Any]) -> str:
    return "  ".join(f"[{', '.join(map(str, index))}] {value}" for index, value in values.items())
