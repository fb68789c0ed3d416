"""Faults put into a program at level machine: each is one change of one line of its text."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """`operator` on line `line` (from 0) of the text, which it replaces by `new`."""

    operator: str
    line: int
    new: str

    def apply(self, lines: list[str]) -> str:
        return "\n".join(
            [*lines[: self.line], *([self.new] if self.new.strip() else []), *lines[self.line + 1 :]]
        )


def _close(text: str, at: int) -> int:
    """Where the bracket that opens at `at` is closed."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] in "([") - (text[i] in ")]")
        if depth == 0:
            return i
    raise ValueError(text)


def drop_barrier(line: str):
    if re.fullmatch(r"\s*sync_threads\(\)", line):
        yield ""


def weaken_barrier(line: str):
    """Of a block to one of a warp."""
    if re.fullmatch(r"\s*sync_threads\(\)", line):
        yield line.replace("sync_threads()", "sync_warp(4294967295)")


def drop_guard(line: str, body: str, memory: set[str]):
    """Of what touches memory: registers beyond a tile's edge are nobody's."""
    if (found := re.match(r"(\s*)if (.*):$", line)) and any(_places(body, memory)):
        yield f"{found[1]}if true:"


def drop_mask(line: str, memory: set[str]):
    """But not inside a select, which asks for its arms where it needs them, nor one that elects one of
    several threads with the same value (`tx % 4 == 0`).
    """
    for found in re.finditer(r" mask\(", line):
        mask = line[found.end() : _close(line, found.end() - 1)]
        elects = re.fullmatch(r"cast<i32>\(tx\)(%|//)\d+ == 0", mask)
        if _accessed(line, found.start()) in memory and not elects and "select(" not in line[: found.start()]:
            yield line[: found.start()] + line[_close(line, found.end() - 1) + 1 :]


def _accessed(line: str, end: int) -> str:
    """The buffer of the access that ends there."""
    depth = 0
    for i in range(end - 1, -1, -1):
        depth += (line[i] in ")]") - (line[i] in "([")
        if depth == 0 and line[i] == "[":
            return re.search(r"([\w.]+)$", line[:i])[1]
    return ""


def _places(line: str, memory: set[str]):
    for found in re.finditer(r"\b([A-Za-z_][\w.]*)\[", line):
        if found[1] in memory:
            yield found[1], found.end() - 1, _close(line, found.end() - 1)


def narrow_index(line: str, tensors: set[str]):
    """The index of an access to global memory wraps at 8 bits."""
    if "=" not in line or line.lstrip().startswith(("func", "kernel", "assume")) or " shared " in line:
        return
    for _, begin, end in _places(line, tensors):
        index = line[begin + 1 : end]
        if re.fullmatch(r"\d+(:\w+)?", index):
            continue
        if found := re.fullmatch(r"ramp\((.*), (1|\S+), (\d+)\)", index):
            index = f"ramp(cast<i32>(cast<i8>({found[1]})), {found[2]}, {found[3]})"
        else:
            index = f"cast<i32>(cast<i8>({index}))"
        yield line[: begin + 1] + index + line[end:]


def swap_buffers(line: str, shared: dict[str, tuple[str, str]]):
    """Another tile of the same type and size is meant."""
    if " shared " in line:
        return
    for name, begin, _ in _places(line, set(shared)):
        for other in sorted(shared):
            if other != name and shared[other] == shared[name]:
                yield line[: begin - len(name)] + other + line[begin:]
                break


# ── what goes on beside the threads ───────────────────────────────────────────────────────────────────
WAIT = re.compile(r"(\s*while not mbarrier_\w+_wait\(address_of\([^()]*(?:\([^()]*\)[^()]*)*\), )(.*)\):")


def drop_wait(line: str):
    if re.fullmatch(r"\s*cp_async_\w*wait_\w+\(.*\)", line):
        yield line.replace(line.strip(), "pass")
    if WAIT.fullmatch(line):
        yield line.replace(line.strip(), "if true:")


def wait_too_little(line: str):
    """For all groups but one more."""
    if found := re.fullmatch(r"(\s*cp_async_\w*wait_group\w*\()(\d+)\)", line):
        yield f"{found[1]}{int(found[2]) + 1})"


def wrong_parity(line: str):
    if found := WAIT.fullmatch(line):
        yield f"{found[1]}({found[2]} + 1)%2):"


def wrong_count(line: str):
    """Of arrivals, one more."""
    if found := re.fullmatch(r"(\s*mbarrier_init\(.*, )(\d+)\)", line):
        yield f"{found[1]}{int(found[2]) + 1})"


def drop_fence(line: str):
    if re.fullmatch(r"\s*fence_\w+\(\)", line):
        yield ""


def swap_stages(line: str):
    """The next stage of those that a loop over k uses in turn."""
    for found in re.finditer(r"(\bk|\(k \+ \d+\))%([23])(?=\*|\])", line):
        yield f"{line[: found.start()]}({found[1]} + 1)%{found[2]}{line[found.end() :]}"


BESIDE = (drop_wait, wait_too_little, wrong_parity, wrong_count, drop_fence, swap_stages)


def _body(lines: list[str], head: int) -> str:
    """What stands under an if, as one text."""
    depth = len(lines[head]) - len(lines[head].lstrip())
    end = head + 1
    while end < len(lines) and len(lines[end]) - len(lines[end].lstrip()) > depth:
        end += 1
    return "\n".join(lines[head + 1 : end])


def mutants(text: str) -> list[Mutant]:
    """All faults of these kinds that the program can have."""
    lines = text.rstrip("\n").split("\n")
    tensors = set(re.findall(r"(\w+): \w+\[", lines[0]))
    threads = int(re.search(r"threads\((\d+)\)", text)[1])
    tiles = {
        m[1]: (m[2], m[3])
        for m in re.finditer(r"^\s*([\w.]+) = shared (\w+)\[.*elements\((\d+)\)", text, re.M)
    }
    found = []
    for i, line in enumerate(lines):
        memory = set(tiles) | tensors
        found += [Mutant("drop_barrier", i, new) for new in drop_barrier(line)]
        if threads > 32:  # else it is a barrier of one warp
            found += [Mutant("weaken_barrier", i, new) for new in weaken_barrier(line)]
        found += [Mutant("drop_guard", i, new) for new in drop_guard(line, _body(lines, i), memory)]
        found += [Mutant("drop_mask", i, new) for new in drop_mask(line, memory)]
        found += [Mutant("narrow_index", i, new) for new in narrow_index(line, tensors)]
        found += [Mutant("swap_buffers", i, new) for new in swap_buffers(line, tiles)]
        found += [Mutant(operator.__name__, i, new) for operator in BESIDE for new in operator(line)]
    return found
