"""How fast a kernel could be: its floating-point operations and its traffic to memory, counted in its
program, against what the chip can do.

    result = Analyzer.analysis(matmul_func, CUDA("cuda -arch=sm_90"))"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .. import _core
from ..front.dtypes import as_dtype
from ..front.errors import caller_place, compile_error
from ..jit.kernel import resolve_target

ARCH_CONFIGS = {chip: _core.target_info(f"sim:{chip}") for chip in _core.chips("cuda")}


def rates(target: Any) -> dict[str, float]:
    """What the chip of a target does at most: bytes a second from memory (bandwidth), floating-point
    operations a second by its cores (float32) and tensor cores (float16); l2_bytes; its clock in Hz."""
    info = _core.target_info(resolve_target(getattr(target, "target", target)))
    if "peak" not in info:
        raise compile_error(
            f"{info['target']} has no rates to compare with; chips that have are {', '.join(ARCH_CONFIGS)}",
            caller_place(),
        )
    return {**{name: info[name] for name in ("bandwidth", "l2_bytes", "clock")}, **info["peak"]}


@dataclass(frozen=True)
class AnalysisResult:
    """What a kernel does in one call, and what the chip allows: estimated_time in seconds, the longer of its
    traffic and its arithmetic; the operations and bytes a second that this is."""

    total_flops: int
    total_global_bytes: int
    estimated_time: float
    expected_tflops: float
    expected_bandwidth_GBps: float


class Analyzer:
    """The analysis of a prim_func, or of a compiled kernel, for a chip: a target, or one of carver's arch."""

    def __init__(self, fn: Any, device: Any) -> None:
        self.fn, self.device = getattr(fn, "prim_func", fn), device
        self.total_flops = self.total_global_bytes = 0
        self.compute_seconds = 0.0

    @staticmethod
    def analysis(fn: Any, device: Any) -> AnalysisResult:
        """Of a prim_func or a compiled kernel, for a chip."""
        return Analyzer(fn, device).ir_pass().calculate()

    def ir_pass(self) -> Analyzer:
        """Count.  Copies, gemms and reductions count by their tiles, other statements by their operators and
        their elements of tensors; a branch counts as taken, and a cache as missed.  Loops whose extent
        depends on the block count as the mean of some blocks; one that only the call knows is a CompileError.
        """
        matrix, flops, moved = _Count(self.fn.text).total()
        rate = rates(self.device)
        self.total_flops, self.total_global_bytes = round(sum(matrix.values()) + flops), round(moved)
        by_cores = sum(n * bits / 16 / rate["float16"] for bits, n in matrix.items())
        self.compute_seconds = by_cores + flops / rate["float32"]
        return self

    def calculate(self) -> AnalysisResult:
        """The result of what was counted."""
        seconds = max(self.compute_seconds, self.total_global_bytes / rates(self.device)["bandwidth"], 1e-12)
        return AnalysisResult(
            self.total_flops,
            self.total_global_bytes,
            seconds,
            self.total_flops / seconds / 1e12,
            self.total_global_bytes / seconds / 1e9,
        )


_DECLARED = re.compile(r"(\w+) = (?:shared|fragment|local|tensor)\b.*?(\w+)\[([^\]]*)\]")
_PARAMETER = re.compile(r"(\w+): (\w+)\[([^\]]*)\]")
_LOOP = re.compile(r"for (\w+) in \w+\((.*)\)(?: \{.*\})?:$")
_SAMPLES = 8  # blocks along each dimension of a grid for which loops are counted


class _Count:
    """Counts in a program's text IR, whose blocks are indented lines."""

    def __init__(self, text: str) -> None:
        self.lines = [(len(line) - len(line.lstrip()), line.strip()) for line in text.splitlines() if line]
        self.tensors = {name for name, _, _ in _PARAMETER.findall(self.lines[0][1])}
        declared = [
            *_PARAMETER.findall(self.lines[0][1]),
            *(row for _, line in self.lines for row in _DECLARED.findall(line)),
        ]
        self.buffers = {name: (as_dtype(kind), shape) for name, kind, shape in declared}

    def total(self) -> tuple[dict[int, float], float, float]:
        """Operations of gemms by the bits of their operands, other operations, bytes of tensors."""
        self.matrix: dict[int, float] = {}
        self.flops = self.moved = 0.0
        kernels = [i for i, (_, line) in enumerate(self.lines) if line.startswith("kernel ")]
        for at in kernels:
            grid = self.lines[at][1].partition("grid(")[2].partition(") threads")[0]
            blocks = [part.partition(":") for part in _split(grid)]
            names = {name.strip(): int(self._number(extent, {})) for name, _, extent in blocks}
            sampled = list(_samples(names))
            for values in sampled:
                self._walk(at + 1, self._end(at), math.prod(names.values()) / len(sampled), values)
        return self.matrix, self.flops, self.moved

    def _end(self, at: int) -> int:
        depth = self.lines[at][0]
        return next((i for i in range(at + 1, len(self.lines)) if self.lines[i][0] <= depth), len(self.lines))

    def _walk(self, at: int, end: int, times: float, values: dict[str, int]) -> None:
        while at < end:
            line, after = self.lines[at][1], at + 1
            loop = _LOOP.match(line)
            if loop or line.endswith(":"):
                after = self._end(at)
                extent = self._number(_split(loop[2])[0], values) if loop else 1.0
                middle = {**values, loop[1]: int(extent) // 2} if loop else values
                if line.startswith("while "):
                    raise self._unknown(line)
                self._walk(at + 1, after, times * max(extent, 0), middle)
            elif not _DECLARED.match(line):
                self._statement(line, times)
            at = after

    def _statement(self, line: str, times: float) -> None:
        for name, index in re.findall(r"(\w+)\[([^\]]*)\]", line):
            if name in self.tensors:
                self.moved += times * math.prod(_extents(index)) * self.buffers[name][0].bits / 8
        operator, _, rest = line.partition("(")
        if operator == "gemm" or operator.startswith(("reduce", "cum")):
            operands = [self._operand(part.strip()) for part in _split(rest.rpartition(")")[0])]
            if operator == "gemm":
                (kind, a), _, (_, c) = operands[:3]
                depth = a[-2 if "trans_a=1" in line else -1]
                self.matrix[kind.bits] = self.matrix.get(kind.bits, 0) + times * 2 * math.prod(c) * depth
            else:
                self.flops += times * math.prod(operands[0][1])
        elif " = " in line:
            value = re.sub(r"\[[^\]]*\]", "", line.partition(" = ")[2])
            self.flops += times * len(re.findall(r" [-+] |\*|/|\b(?!cast)\w+\(", value))

    def _operand(self, text: str) -> tuple[Any, list[int]]:
        """The dtype and the extents of a tile."""
        name, bracket, index = text.partition("[")
        kind, shape = self.buffers[name]
        return kind, _extents(index) if bracket else [int(self._number(n, {})) for n in shape.split(",")]

    def _number(self, text: str, values: dict[str, int]) -> float:
        plain = re.sub(r"cast<\w+>", "", text)
        try:
            return float(eval(plain, {"__builtins__": {}, "min": min, "max": max}, dict(values)))
        except Exception:
            raise self._unknown(text) from None

    @staticmethod
    def _unknown(text: str) -> Exception:
        return compile_error(
            f"Analyzer: how often `{text.strip()}` runs is known only when the kernel is "
            "called; analyse one whose extents are numbers",
            caller_place(),
        )


def _extents(index: str) -> list[int]:
    """Of a rectangle; of an element none."""
    return [int(n) for n in re.findall(r": \+(\d+)", index)]


def _split(text: str) -> list[str]:
    """At commas outside of brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([") - (c in ")]")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return parts


def _samples(extents: dict[str, int]) -> Iterator[dict[str, int]]:
    """Indices of some blocks, evenly spread."""
    ranges = [
        range(n) if n <= _SAMPLES else [(2 * i + 1) * n // (2 * _SAMPLES) for i in range(_SAMPLES)]
        for n in extents.values()
    ]
    for index in itertools.product(*ranges):
        yield dict(zip(extents, index, strict=True))
