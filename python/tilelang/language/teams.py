"""Teams of threads: what only some of a block's threads run, together.

A tile operator inside a team is the work of that team's threads.  `if tx < 128: … else: …` around tile
operators, tx the thread's index in its block, makes the same teams as T.ws."""

from __future__ import annotations

from typing import Any

from ..front.trace import fail, in_kernel
from ..front.values import DEVICE, as_value, constant

WARPGROUP = 128  # threads

__all__ = ["WarpSpecialize", "WarpSpecializeFrame", "ws"]


class WarpSpecializeFrame:
    """What T.ws makes: the team of the statements under its `with`.

    stmts: statements, of which there are none before the `with`; frames: numbers of warp groups of 128
    threads, one after the other."""

    def __init__(self, stmts: Any, frames: Any) -> None:
        if stmts:
            raise fail("T.WarpSpecializeFrame: the statements of a team are those under `with T.ws(…):`")
        self._frames = list(frames)

    frames = property(lambda self: self._frames, doc="The numbers of the team's warp groups.")

    def __enter__(self) -> None:
        first, count = self._frames[0], len(self._frames)
        trace = in_kernel("T.ws")
        trace.builder.begin_group(WARPGROUP * first, WARPGROUP * count)
        trace.kernel.teams.append(WARPGROUP * count)

    def __exit__(self, kind: Any, *_: object) -> None:
        trace = in_kernel("T.ws")
        trace.kernel.teams.pop()
        if kind is None:
            trace.builder.end_group()


def ws(*warp_group_idx: int) -> WarpSpecializeFrame:
    """`with T.ws(1): …` is run by the threads of that warp group, 128 to 255, as a team of their own.

    warp_group_idx: numbers of groups of 128 threads, which must follow each other: T.ws(1, 2) is one team of
    256.  These threads run the tile operators in it, fragments first used in it belong to them, and the
    compiler's barriers in it are barriers of the team.  T.sync_threads() stays the barrier of the whole
    block, so all teams must reach it equally often; T.sync_threads(id) is a barrier of the team's threads.
    Teams that run at the same time order their exchange of data by named barriers; teams that do not signal
    each other see what those above them have written."""
    for role in warp_group_idx:
        if isinstance(role, str):
            raise fail(
                f"T.ws({role!r}): a team is given by numbers of warp groups, T.ws(0) for the first 128 "
                "threads; T.Pipelined makes roles by itself where they help"
            )
    given = [constant(as_value(i)) for i in warp_group_idx]
    if any(isinstance(i, DEVICE) for i in given):
        raise fail(
            "T.ws: which threads form a team is known while the kernel is built, but this number of a warp "
            "group is a value of the kernel: loop over a tuple, `for c in (1, 2): with T.ws(c): …`, which "
            "Python runs, once for each team, where a loop over range is the device's"
        )
    if not given or any(i.__class__ is not int or i < 0 for i in given):
        said = ", ".join(map(str, given)) or "none"
        raise fail(f"T.ws: numbers of warp groups are expected, 0 for the first, not {said}")
    groups = sorted(given)
    if groups != list(range(groups[0], groups[-1] + 1)):
        raise fail(
            f"T.ws({', '.join(map(str, given))}): a team is one range of threads, but these warp groups do "
            "not follow each other: write one `with T.ws(…)` for each range"
        )
    return WarpSpecializeFrame([], groups)


WarpSpecialize = ws
