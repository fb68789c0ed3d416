"""What is said of a tile, or of what a wide access read, where a value is due."""

from __future__ import annotations

from typing import Any

from .._core import Buffer, Expr


def shape_of(x: Buffer) -> str:
    """Its extents as a tuple of Python's."""
    return f"({', '.join(map(str, x.shape))}{',' * (len(x.shape) == 1)})"


def _loop_over(x: Buffer, name: str) -> tuple[str, str]:
    """An element of x, and a loop that assigns all of them."""
    names = ("i", "j", "k", "l") if len(x.shape) <= 4 else tuple(f"i{d}" for d in range(len(x.shape)))
    index = ", ".join(names[: len(x.shape)])
    small = x.scope != "global" and all(n.__class__ is int for n in x.shape)
    extents = ", ".join(map(str, x.shape)) if small else "…"
    loop = "T.Parallel" if x.scope != "local" or len(x.shape) > 1 else "T.serial"
    return f"{name}[{index}]", f"`for {index} in {loop}({extents}): {name}[{index}] = …`"


def whole_tile(x: Buffer) -> str:
    """What is said where a tile stands for a value: the loop over its elements that was meant."""
    at, loop = _loop_over(x, x.name)
    return (
        f"{x.name} is a {x.scope} buffer of shape {shape_of(x)}, not a value: index it, {at}, in a loop "
        f"over its elements, {loop}"
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


def is_wide(x: Any) -> bool:
    """Is it what T.ldg128 and its like give?"""
    return x.__class__ is Expr and "x" in x.dtype.name


def wide_value(x: Expr) -> str:
    """What is said where such a value is taken apart, or goes where a number is due."""
    words = int(x.dtype.name.rpartition("x")[2])
    return (
        f"this value is {4 * words} bytes that one access read ({x.dtype}): only a store of that width "
        f"takes it (T.stg{32 * words}, T.sts{32 * words}); for single elements use `for v in "
        f"T.vectorized({words}): part[v] = A[i + v]` into part = T.alloc_local(({words},), dtype), "
        f"which is one access too"
    )
