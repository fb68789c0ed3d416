"""What is said of a tile where a value is due."""

from __future__ import annotations

from typing import Any

from .._core import Buffer
from .errors import kind_of


def shape_of(x: Buffer) -> str:
    """Its extents as a tuple of Python's."""
    return f"({', '.join(map(str, x.shape))}{',' * (len(x.shape) == 1)})"


def _indices(x: Buffer) -> str:
    names = ("i", "j", "k", "l") if len(x.shape) <= 4 else tuple(f"i{d}" for d in range(len(x.shape)))
    return ", ".join(names[: len(x.shape)])


def element_of(x: Buffer) -> str:
    """An element of x, `x[i, j]`."""
    return f"{x.name}[{_indices(x)}]"


def _loop_over(x: Buffer, name: str) -> tuple[str, str]:
    """An element of x, and a loop that assigns all of them."""
    index = _indices(x)
    small = x.scope != "global" and all(n.__class__ is int for n in x.shape)
    extents = ", ".join(map(str, x.shape)) if small else "…"
    loop = "T.Parallel" if x.scope != "local" or len(x.shape) > 1 else "T.serial"
    return f"{name}[{index}]", f"`for {index} in {loop}({extents}): {name}[{index}] = …`"


def whole_tile(x: Buffer) -> str:
    """What is said where a tile stands for a value: the loop over its elements that was meant."""
    at, loop = _loop_over(x, x.name)
    what = f"{x.name} is a {x.scope} buffer of shape {shape_of(x)}, not a value: index it, "
    if all(n.__class__ is int and n == 1 for n in x.shape):
        return f"{what}{x.name}[{', '.join('0' * len(x.shape))}]"
    return f"{what}{at}, in a loop over its elements, {loop}"


def no_truth(x: Buffer) -> str:
    """What is said where a condition is a tile, which Python would take for true."""
    asked = f"; whether there is one at all is `{x.name} is not None`" if x.scope == "global" else ""
    return whole_tile(x) + asked


def not_compared(x: Buffer, other: Any) -> str:
    """What is said where a tile is compared by == or !=, which Python would decide by identity."""
    asked = (
        f"; whether both are one buffer is `{x.name} is {other.name}`" if other.__class__ is Buffer else ""
    )
    return whole_tile(x) + asked


def given(x: Any) -> str:
    """What was given where a number is due: a text in quotes, as '64' is none."""
    return f"{x!r}, which is {kind_of(x)}" if isinstance(x, (str, list, tuple, dict)) else str(x)


def no_elements(what: str) -> str:
    """What is said where that is given an index of its own: `A[i][j]`."""
    return f"{what} has no elements: all indices of a buffer stand in one pair of brackets, A[i, j]"


def lost_to_the_caller(name: str) -> str:
    """What is said where a macro assigns its parameter, and nothing reads that."""
    return (
        f"the new value of {name} is lost: {name} is a parameter of this macro, which has the value that "
        f"the caller gives; to change the caller's element or variable annotate it, `{name}: T.Ref`"
    )


def rebound(name: str, x: Buffer, value: Any) -> str:
    """What is said where `name = value` takes its name away from the parameter x, which stays as it was."""
    what = "tensor" if x.scope == "global" else f"{x.scope} tile"
    tile = getattr(value, "buffer", value)
    if tile.__class__ is Buffer and tile.name == name:
        cure = "give the other buffer a name of its own"
    elif tile.__class__ is Buffer and tile.scope != "var":
        cure = f"T.copy({tile.name}{'[…]' * (tile is not value)}, {name}) writes to it"
    else:
        cure = f"write to its elements, {_loop_over(x, name)[1]}"
    return f"`{name} = …` gives another meaning to the name, and writes nothing to the {what} {name}: {cure}"
