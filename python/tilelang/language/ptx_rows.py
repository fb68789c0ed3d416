"""PTX text that is one of the compiler's own instructions: it becomes that, so that every executor knows what
it means."""

from __future__ import annotations

import functools
import re
from typing import Any

from .. import _core
from .._core import Expr
from ..front.dtypes import DType

# The operands of a text: what stands between commas that are in no braces.
_OPERAND = re.compile(r"\{(?:[^{}]|\{[^{}]*\})*\}|\[[^\]]*\]")
_HOLE = re.compile(r"\{(out)?(\d*)\}")


@functools.cache
def _rows() -> dict[str, tuple[str, tuple[int, ...], DType]]:
    return {ptx: (name, registers, result) for name, ptx, registers, result in _core.instruction_texts()}


def known(template: str, operands: tuple, results: list[DType]) -> tuple | None:
    """(row, its holes: for each operand the numbers of those in the text), if the text is one of a row whose
    registers are all holes of 32 bits."""
    found = re.fullmatch(r"\s*([\w.]+)\s+(.*?);?\s*", template, re.S)
    if found is None or found.group(1) not in _rows():
        return None
    name, registers, result = _rows()[found.group(1)]
    given = [_holes(text) for text in _OPERAND.findall(found.group(2))]
    if len(given) != max(2, len(registers)) or [h for h, _ in given[0]] != ["out"] * registers[0]:
        return None
    if [int(n or 0) for _, n in given[0]] != list(range(len(results))) or any(t.bits != 32 for t in results):
        return None
    inputs = [[int(n) for _, n in holes] for holes in given[1:]]
    if [len(holes) for holes in inputs] != list(registers[1:] or (1,)):
        return None
    if len(registers) > 1 and any(_bits(operands[n]) != 32 for holes in inputs for n in holes):
        return None
    return name, inputs, registers[0], result


def _holes(text: str) -> list[tuple[str, str]]:
    return [(m.group(1) or "", m.group(2)) for m in _HOLE.finditer(text)]


def _bits(x: Any) -> int:
    dtype = getattr(x, "dtype", None)
    return 32 if dtype is None else dtype.bits


def write(trace: Any, row: tuple, given: list, results: list[DType]) -> Any:
    """The instruction on arrays of its registers: the results, as T.ptx gives them."""
    name, inputs, count, result = row
    b, word = trace.builder, DType("u32")

    def array(hint: str, size: int, dtype: DType) -> Any:
        return b.alloc(hint, "local", (size,), dtype, {})

    def as_bits(x: Any, dtype: DType) -> Any:
        if x.__class__ is not Expr:
            return b.const(x, dtype)
        return x if x.dtype == dtype else b.call("reinterpret", (x,), dtype)

    def filled(hint: str, holes: list[int], dtype: DType) -> Any:
        made = array(hint, len(holes), dtype)
        for i, n in enumerate(holes):
            b.store(made, (i,), as_bits(given[n], dtype))
        return made

    if len(inputs) == 1:  # a move: its operand is an address
        d = array("d", count, word)
        b.instruct(name, [b.address(d, (0,), "w"), given[inputs[0][0]]])
    else:
        d = filled("d", inputs[2], result)
        factors = [filled(hint, holes, word) for hint, holes in zip("ab", inputs, strict=False)]
        b.instruct(name, [b.address(d, (0,), ""), *[b.address(x, (0,), "r") for x in factors]])
    made = [b.let("given", as_bits(b.load(d, (i,)), t)) for i, t in enumerate(results)]
    return tuple(made) if len(made) > 1 else made[0]
