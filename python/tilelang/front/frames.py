"""What a running kernel text has open: loops, branches and `with` items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import kind_of
from .trace import fail

if TYPE_CHECKING:
    from .activation import Activation


CARRIED = (
    "changes from one iteration to the next of a loop that the device runs, but a Python name is "
    "bound only once, while the loop is built: make it a variable before the loop, {0} = "
    "T.alloc_var(dtype, init), and assign to that"
)
ESCAPING = (
    "is bound inside a loop that the device runs and read after it: make it a variable before the "
    "loop, {0} = T.alloc_var(dtype, init), or allocate the tile before it"
)
SHADOWED = (
    "is a variable, but this loop binds the name to its index, which ends with the loop, and {0} is read "
    "after it: give the index another name, `for k in …`, and assign {0} = k in the loop"
)
REBOUND = (
    "is a variable (T.alloc_var) before the loop or branch that the device runs, and is read after it or in "
    "its next iteration, but here the name is bound anew, which happens once, while the kernel is built: "
    "give what is bound here another name, and assign to {0} what it is to be"
)
CONDITIONAL = (
    "is bound under a condition that the device evaluates and read afterwards: make it a variable "
    "before the `if`, {0} = T.alloc_var(dtype, init), or use `a if condition else b`; a tile is "
    "allocated before the `if`"
)


Refused = tuple[dict[str, str], dict[str, str]]


class Frame:
    """An open loop, branch or `with`: whether the device runs it, and the names that end with it (None: none
    do)."""

    __slots__ = ("device", "loop", "taken", "bound", "undo", "refused", "kept", "number", "kind")

    def __init__(
        self,
        device: bool,
        loop: bool = False,
        taken: bool = False,
        scope: bool = False,
        bound: bool = False,
        refused: Refused | None = None,
        kind: str = "",
    ) -> None:
        self.device, self.loop, self.taken, self.bound = device, loop, taken, bound
        self.undo: list | None = [] if device or scope else None
        # Names that may not be assigned here, and variables that may not become anything else, and why.
        self.refused, self.kept = refused or ({}, {})
        self.kind = kind  # of a loop that the device runs, "parallel"
        self.number = 0  # of a loop or branch that the device runs, see Trace.next_block


class With:
    """A `with` item of a kernel: opens the user's context manager in a frame of its own."""

    __slots__ = ("activation", "site", "manager", "depth")

    def __init__(self, activation: Activation, site: tuple, manager: Any) -> None:
        self.activation, self.site, self.manager = activation, site, manager
        self.depth = len(activation.frames)

    def __enter__(self) -> Any:
        self.activation.at(self.site)
        if not hasattr(type(self.manager), "__enter__"):
            raise fail(
                f"`with` opens T.Kernel, T.ws and their like, not {kind_of(self.manager)}; a condition is "
                "written `if`"
            )
        bound = self.manager.__enter__()
        self.activation.frames.append(Frame(False, scope=True))
        return bound

    def __exit__(self, *error: Any) -> Any:
        if error[0] is None:
            while len(self.activation.frames) > self.depth:
                self.activation.close()
        return self.manager.__exit__(*error)
