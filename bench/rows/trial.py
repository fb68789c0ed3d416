"""A program that calls a row of a chip's table, and what it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from values import EXACT, Bound, numpy_type

WARP = 32
PACKED = ("i4", "u4", "e2m1")  # two to a byte


@dataclass
class Trial:
    """One program: the arrays of its parameters, outputs as they are before; which are outputs, and as what
    (a NumPy dtype) they are compared; what stands in the machine's text, or in the chip's, if the row is
    really called.
    """

    text: str
    arrays: dict[str, np.ndarray]
    outputs: dict[str, np.dtype]
    bound: Bound = EXACT
    exact: Callable[..., dict[str, np.ndarray]] | None = None  # by NumPy: of the arrays, the outputs
    calls: str = ""
    note: str = ""  # what it is about, where one row has several lines
    function: object = None  # instead of a text: a _core.Function


def generator(*key: object) -> np.random.Generator:
    """The same inputs at each run."""
    return np.random.default_rng([sum(str(k).encode()) + 7 for k in key])


def _output(name: str, n: int) -> np.ndarray:
    return np.zeros(n, numpy_type(name))


def elementwise(
    value: str, inputs: list[tuple[str, np.ndarray]], out: str, view: object = None, **rest
) -> Trial:
    """Y[i] = value, in which A, B, … stand for the elements of the inputs (IR type, array)."""
    n = inputs[0][1].size * (2 if inputs[0][0] in PACKED else 1)
    names = "ABCDEF"[: len(inputs)]
    params = "".join(f"{x}: {kind}[{n}], " for x, (kind, _) in zip(names, inputs, strict=True))
    for x in names:
        value = value.replace(f"{{{x}}}", f"{x}[b*128 + i]")
    text = (
        f"func main({params}Y: {out}[{n}]):\n  kernel main grid(b: {n // 128}) threads(128):\n"
        f"    for i in parallel(128):\n      Y[b*128 + i] = {value}\n"
    )
    made = _output(out, n // 2 if out in PACKED else n)
    arrays = {x: a for x, (_, a) in zip(names, inputs, strict=True)} | {"Y": made}
    return Trial(text, arrays, {"Y": np.dtype(view or made.dtype)}, **rest)


def by_threads(
    body: str, params: str, arrays: dict, outputs: list[str], threads: object = 64, blocks: int = 1,
    before: str = "", cluster: int = 1, **rest,
) -> Trial:  # fmt: skip
    """What one thread does, of whose number `tx` is the name; `b` is the block.  `before`: a line of the
    function.  `cluster`: blocks of one.
    """
    form = f" cluster({cluster})" if cluster > 1 else ""
    text = f"func main({params}):\n{before}  kernel main grid(b: {blocks}) threads({threads}){form}:\n"
    text += "    tx = thread_number()\n"
    text += "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    return Trial(text, arrays, {name: arrays[name].dtype for name in outputs}, **rest)
