"""Faults put into a program at level machine: each is one change of one line of its text."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """`operator` on line `line` (from 0) of the text: it and what follows, `count` lines, become `new`."""

    operator: str
    line: int
    new: str
    count: int = 1

    def apply(self, lines: list[str]) -> str:
        kept = [self.new] if self.new.strip() else []
        return "\n".join([*lines[: self.line], *kept, *lines[self.line + self.count :]])


def _close(text: str, at: int) -> int:
    """Where the bracket that opens at `at` is closed."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] in "([") - (text[i] in ")]")
        if depth == 0:
            return i
    raise ValueError(text)


def drop_barrier(line: str):
    """Of the block, or of a team."""
    if re.fullmatch(r"\s*(sync_threads\(\)|bar_sync(_groups)?\(.*\))", line):
        yield line.replace(line.strip(), "pass")


def weaken_barrier(line: str):
    """Of a block to one of a warp."""
    if re.fullmatch(r"\s*sync_threads\(\)", line):
        yield line.replace("sync_threads()", "sync_warp(4294967295)")


def drop_guard(line: str, body: str, memory: set[str]):
    """Of what touches memory: registers beyond a tile's edge are nobody's.  But boxes that every thread of a
    team copies take too long to judge.
    """
    if "bulk_tensor" in body and "tx) ==" in line:
        return
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
    if re.fullmatch(r"\s*(cp_async_\w*wait_\w+|wgmma_wait_group)\(.*\)", line):
        yield line.replace(line.strip(), "pass")
    if WAIT.fullmatch(line):
        yield line.replace(line.strip(), "if true:")


def wait_too_little(line: str):
    """For all groups but one more."""
    if found := re.fullmatch(r"(\s*(?:cp_async_\w*|wgmma_)wait_group\w*\()(\d+)(:\w+)?\)", line):
        yield f"{found[1]}{int(found[2]) + 1}{found[3] or ''})"


def drop_commit(line: str):
    if re.fullmatch(r"\s*(cp_async_\w*|wgmma_)commit_group\(\)", line):
        yield line.replace(line.strip(), "pass")


def wrong_parity(line: str):
    if found := WAIT.fullmatch(line):
        yield f"{found[1]}({found[2]} + 1)%2):"


def wrong_count(line: str):
    """Of arrivals, one more, and one fewer."""
    if found := re.fullmatch(r"(\s*mbarrier_init\(.*, )(\d+)(:\w+)?\)", line):
        for count in (int(found[2]) + 1, int(found[2]) - 1):
            if count:
                yield f"{found[1]}{count}{found[3] or ''})"


def wrong_bytes(line: str):
    """One piece more is expected than comes, and one fewer."""
    if found := re.fullmatch(r"(\s*mbarrier_\w*expect_tx\(.*, )(\d+)(:\w+)?\)", line):
        for count in (int(found[2]) + 16, int(found[2]) - 16):
            yield f"{found[1]}{count}{found[3] or ''})"


def drop_arrival(line: str):
    """Of a thread, or of bytes that it expects."""
    if re.fullmatch(r"\s*mbarrier_(arrive|expect)\w*\(.*\)", line):
        yield line.replace(line.strip(), "pass")


def wrong_registers(line: str):
    """More than the block has, or none given back."""
    if re.fullmatch(r"\s*setmaxnreg_dec\(.*\)", line):
        yield ""
    if found := re.fullmatch(r"(\s*setmaxnreg_inc\()(\d+)(:\w+)?\)", line):
        yield f"{found[1]}{int(found[2]) + 16}{found[3] or ''})"


def drop_fence(line: str):
    if re.fullmatch(r"\s*(\w+_)?fence\w*\(\)", line):
        yield ""


def _operand(line: str, end: int) -> int:
    """Where the operand begins that ends there: a name, something in brackets, a cast of it."""
    begin = end
    if line[:end].endswith(")"):
        depth = 0
        while True:
            begin -= 1
            depth += (line[begin] == ")") - (line[begin] == "(")
            if depth == 0:
                break
    return begin - len(re.search(r"(cast<\w+>|[\w.]*)$", line[:begin])[1])


def _slots(index: str, variables: set[str], stride: int):
    """The slots that an index names: k%3, (cast<i32>(k) + 2)%3, and j*stride, where a loop fills the first
    ones: (begin, end, number of the slot, how many there are, or 0).
    """
    for found in re.finditer(r"%([2-8])(?![\d.])", index):
        begin = _operand(index, found.start())
        yield begin, found.end(), index[begin : found.start()], int(found[1])
    for found in re.finditer(rf"\*{stride}(?!\d)", index) if stride else ():
        begin = _operand(index, found.start())
        if not re.search(r"%$", index[:begin]):
            yield begin, found.start(), index[begin : found.start()], 0


def wrong_slot(line: str, variables: set[str], tiles: dict[str, tuple[int, int]]):
    """The slot after the one that a loop takes in its turn, and the one before.  `tiles`: of each with slots
    (how many, elements of one); (0, 0) where that is not known.
    """
    if re.match(r"\s*(for|if|while|func|kernel) ", line) and "mbarrier" not in line or " shared " in line:
        return
    for name, first, last in _places(line, set(tiles)):
        slots, stride = tiles[name]
        for begin, end, number, turn in _slots(line[first + 1 : last], variables, stride):
            names = set(re.findall(r"[A-Za-z_][\w.]*", re.sub(r"cast<\w+>", "", number)))
            turn = turn or slots
            if names and names <= variables:
                for by in sorted({1, turn - 1}):
                    head, tail = line[: first + 1 + begin], line[first + 1 + end :]
                    yield f"{head}({number} + {by})%{turn}{tail}"


def wrong_word(line: str, words: dict[str, int]):
    """The next of a list of barriers, where it has a name or a number: {name: how many there are}."""
    for name, begin, end in _places(line, set(words)):
        index = re.sub(r":\w+$", "", line[begin + 1 : end])
        if (
            words[name] > 1
            and re.fullmatch(r"[\w.]+", index)
            and not re.match(r"\s*mbarrier_init| shared ", line)
        ):
            yield f"{line[: begin + 1]}({index} + 1)%{words[name]}{line[end:]}"


def restarted_parity(line: str, sums: dict[str, tuple[str, str]]):
    """A parity that is counted on across tiles begins anew with each; {i: (head, k)} where i = head + k."""
    if found := WAIT.fullmatch(line):
        for name, (_, rest) in sums.items():
            new = re.sub(rf"(?<![\w.]){re.escape(name)}(?![\w.])", rest, found[2])
            if new != found[2]:
                yield f"{found[1]}{new}):"


def early_release(lines: list[str], at: int):
    """What a wait is followed by: `if one of the warp: arrive`, now in front of it; (new, how many lines)."""
    if not re.match(r"\s*(cp_async_\w*|wgmma_)wait_group\w*\(", lines[at]):
        return
    head = at + 1
    if head < len(lines) and re.match(r"\s*wgmma_results\w*\(", lines[head]):
        head += 1
    if (
        head + 1 < len(lines)
        and lines[head].lstrip().startswith("if ")
        and "mbarrier_arrive(" in lines[head + 1]
    ):
        yield "\n".join([lines[head], lines[head + 1], *lines[at:head]]), head + 2 - at


BESIDE = (
    drop_wait,
    wait_too_little,
    drop_commit,
    wrong_parity,
    wrong_count,
    drop_fence,
    wrong_bytes,
    drop_arrival,
    wrong_registers,
)
OF_PIPELINES = ("drop_barrier", "drop_wait", "wait_too_little", "drop_commit", "wrong_slot")
OF_WARPGROUPS = (
    *OF_PIPELINES,
    *("drop_fence", "wrong_parity", "restarted_parity", "wrong_count", "wrong_bytes", "wrong_word"),
    *("swap_buffers", "drop_guard", "drop_arrival", "early_release", "wrong_registers"),
)


def _body(lines: list[str], head: int) -> str:
    """What stands under an if, as one text."""
    depth = len(lines[head]) - len(lines[head].lstrip())
    end = head + 1
    while end < len(lines) and len(lines[end]) - len(lines[end].lstrip()) > depth:
        end += 1
    return "\n".join(lines[head + 1 : end])


def _turns(text: str) -> set[str]:
    """The variables of loops that run one iteration after the other, whose threads do the same in each."""
    return set(re.findall(r"^\s*for ([\w.]+) in (?:serial|unrolled)\(", text, re.M))


def _named(text: str, turns: set[str]) -> set[str]:
    """The names of what is computed from the variables of such loops, and from the block's number."""
    known = turns | {"block"}
    for m in re.finditer(r"^\s*([\w.]+) = (?!\w+ \w+\[)(.*)$", text, re.M):
        used = set(re.findall(r"[A-Za-z_][\w.]*", re.sub(r"cast<\w+>|:\w+", "", m[2])))
        if used <= known:
            known = known | {m[1]}
    return known


def _sums(text: str) -> dict[str, tuple[str, str]]:
    """{i: (head, k)} of each i = head*number + k."""
    return {m[1]: (m[2], m[3]) for m in re.finditer(r"^\s*([\w.]+) = (\S+\*\d+) \+ (\S+)$", text, re.M)}


def _slotted(text: str) -> dict[str, tuple[int, int]]:
    """Tiles whose leading dimension may count slots: how many, and the elements of one."""
    found = {}
    for m in re.finditer(r"^\s*([\w.]+) = shared \w+\[(\d+)((?:, \d+)*)\].*elements\((\d+)\)", text, re.M):
        slots, elements = int(m[2]), int(m[4])
        known = m[3] and 2 <= slots <= 8 and elements % slots == 0
        found[m[1]] = (slots, elements // slots) if known else (0, 0)
    return found


def mutants(text: str, operators: tuple[str, ...] | None = None) -> list[Mutant]:
    """All faults of these kinds (None: of all) that the program can have."""
    lines = text.rstrip("\n").split("\n")
    tensors = set(re.findall(r"(\w+): \w+\[", lines[0]))
    threads = int(re.search(r"threads\((\d+)\)", text)[1])
    tiles = {
        m[1]: (m[2], m[3])
        for m in re.finditer(r"^\s*([\w.]+) = shared (\w+)\[.*elements\((\d+)\)", text, re.M)
    }
    turns, slotted, sums = _turns(text), _slotted(text), _sums(text)
    if operators and "restarted_parity" in operators:  # slots are counted across loops, under names
        turns = _named(text, turns)
    words = {m[1]: int(m[2]) for m in re.finditer(r"^\s*([\w.]+) = shared u64\[(\d+)\]", text, re.M)}
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
        found += [Mutant("wrong_slot", i, new) for new in wrong_slot(line, turns, slotted)]
        found += [Mutant(operator.__name__, i, new) for operator in BESIDE for new in operator(line)]
        found += [Mutant("wrong_word", i, new) for new in wrong_word(line, words)]
        found += [Mutant("restarted_parity", i, new) for new in restarted_parity(line, sums)]
        found += [Mutant("early_release", i, new, count) for new, count in early_release(lines, i)]
    return [m for m in found if operators is None or m.operator in operators]
