"""What a GPU's machine code does beside products of warpgroups, for `kernel.machine_code` and
`kernel.explain(machine_code=True)`.

ptxas may move a wait for products in front of all that was to run beside them, and says nothing. So the
machine code is read: in the order of addresses, the instructions up to each wait are a region, and of each is
counted what stands where a product may be in flight, along every way that a branch can take."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

__all__ = ["MachineCode", "RegionInfo"]

_MOST = 8  # groups in flight that are told apart
_FUNCTION = re.compile(r"^\s*(?:Function : |\.text\.)([\w$.]+?):?\s*$")
_LABEL = re.compile(r"^\s*(\.L_\w+):")
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+\s+)?([A-Z][A-Z0-9_.x]*)\s*(.*?)\s*;")
_CONDITION = re.compile(r"!?U?P\d")  # as the first operand of a branch of a whole warp
_TARGET = re.compile(r"(0x[0-9a-f]+)|`\((\.L_\w+)\)")
_WAIT = re.compile(r"gsb0, (0x[0-9a-f]+)")
_PRODUCT = re.compile(r"[A-Z]GMMA\b")
_FACTOR = re.compile(r"R\d+, R(\d+), gdesc")  # the first of its registers
_FACTOR_REGISTERS = 4  # of a thread, for 64x16 elements of 16 bits, or as many bytes
_RESULT = re.compile(r"(?:!?U?P(?:\d|T), )*R(\d+)\b(?!\])")
_NO_RESULT = (
    *("ST", "RED", "BAR", "WARP", "SYNCS", "BRA", "EXIT", "UTMA", "MEMBAR", "FENCE", "DEPBAR"),
    *("RET", "CALL", "BRX", "JMP", "NANOSLEEP"),
)
_PAIRS = re.compile(r"D(ADD|MUL|FMA|SETP|MNMX)|CS2R(?!\.32)|.*\.(64|WIDE)\b|.*\.2$")
_FOURS = re.compile(r"[HID]MMA|.*\.128\b|.*\.4$")
_ARITHMETIC = re.compile(r"(?:[FHD](?:ADD|MUL|FMA|MNMX)\w*|F2\w+|I2F\w*|FRND|MUFU)\b")
# The same in CUDA C++: where a kernel begins, and what its lines do.
_KERNEL = re.compile(r'extern "C" __global__ [^\n]*\n(\w+)\(')
_STEP = re.compile(
    r"(?P<begin>tl_wgmma_commit_group\(\);)|tl_wgmma_wait_group<(?P<left>\d+)>\(\);"
    r"|\b(?P<exp2>(?:__)?exp(?:2|10)?f?\()"
)


@dataclass(frozen=True)
class RegionInfo:
    """The instructions between a wait for products, or the kernel's begin, and the next wait."""

    kernel: str
    instruction: str  # of the products that it begins: "HGMMA.64x256x16.F32"; empty: it begins none
    products: int  # that it begins
    exp2: int  # powers of two that are computed where a product may be in flight
    arithmetic: int  # other instructions on floats, conversions among them, there
    in_flight: int  # groups of products in flight in front of the wait, at most
    left: int  # … behind it
    address: int  # of the wait

    def __str__(self) -> str:
        begun = f"begins {self.products} {self.instruction}" if self.products else "begins none"
        return (
            f"{self.kernel} to {self.address:#06x}: {begun}; beside products {self.exp2} exp2, "
            f"{self.arithmetic} other instructions on floats; then waits until {self.left} of at most "
            f"{self.in_flight} groups are in flight"
        )


@dataclass(frozen=True)
class MachineCode:
    """What stands between the waits for products of warpgroups.  missing: why that is not known; empty: it
    is.  moved: where the program computes something beside a product, and the machine code does not.
    overwritten: where registers that a product in flight multiplies are written, which makes it wrong."""

    regions: tuple[RegionInfo, ...] = ()
    moved: tuple[str, ...] = ()
    missing: str = ""
    overwritten: tuple[str, ...] = ()

    def __str__(self) -> str:
        title = "machine code: what stands in front of each wait for products of warpgroups"
        if self.missing:
            lines = [f"not known: {self.missing}"]
        else:
            lines = [*map(str, self.regions), *self.moved, *self.overwritten] or ["it has no such wait"]
        return "\n    ".join([f"  {title}", *lines]) + "\n"


@dataclass
class _Instruction:
    address: int
    name: str
    operands: str
    always: bool  # under no predicate
    target: int | None = None  # its index, of a branch

    @property
    def is_wait(self) -> bool:
        return self.name == "WARPGROUP.DEPBAR.LE"

    @property
    def is_product(self) -> bool:
        return _PRODUCT.match(self.name) is not None

    def left(self, in_flight: int) -> int:
        """Groups of products in flight behind it, of so many in front of it."""
        if self.is_wait:
            found = _WAIT.search(self.operands)
            return min(in_flight, int(found[1], 16)) if found else in_flight
        return min(in_flight + self.ends_group, _MOST)

    @property
    def ends_group(self) -> bool:
        return self.is_product and "gsb0" in self.operands

    def writes(self) -> range:
        """The registers of its result."""
        found = None if self.name.startswith(_NO_RESULT) or self.is_product else _RESULT.match(self.operands)
        if not found:
            return range(0)
        first = int(found[1])
        count = 4 if _FOURS.match(self.name) else 2 if _PAIRS.match(self.name) else 1
        return range(first, first + count)


def _functions(sass: str) -> Iterator[tuple[str, list[_Instruction]]]:
    """The kernels of a disassembly of cuobjdump or nvdisasm."""
    name, code, labels = "", [], {}
    for line in sass.split("\n"):
        if m := _FUNCTION.match(line):
            if name and code:
                yield name, _with_targets(code, labels)
            name, code, labels = m[1], [], {}
        elif m := _LABEL.match(line):
            labels[m[1]] = len(code)
        elif m := _INSTRUCTION.match(line):
            always = not (m[2] or _CONDITION.match(m[4]))
            code.append(_Instruction(int(m[1], 16), m[3], m[4], always))
    if name and code:
        yield name, _with_targets(code, labels)


def _with_targets(code: list[_Instruction], labels: dict[str, int]) -> list[_Instruction]:
    at = {instruction.address: i for i, instruction in enumerate(code)}
    for instruction in code:
        if instruction.name.split(".")[0] == "BRA":
            for m in _TARGET.finditer(instruction.operands):
                instruction.target = at.get(int(m[1], 16)) if m[1] else labels.get(m[2])
    return code


def _in_flight(code: list[_Instruction]) -> list[int]:
    """Groups of products in flight in front of each instruction, at most, on any way to it."""
    most = [-1] * len(code)
    ways = [(0, 0)]
    while ways:
        i, count = ways.pop()
        while i < len(code) and count > most[i]:
            most[i] = count
            one = code[i]
            count = one.left(count)
            if one.target is not None:
                ways.append((one.target, count))
            if one.always and one.name.split(".")[0] in ("BRA", "EXIT", "RET") and one.name != "BRA.DIV":
                break
            i += 1
    return most


def _regions(kernel: str, code: list[_Instruction]) -> Iterator[RegionInfo]:
    empty = RegionInfo(kernel, "", 0, 0, 0, 0, 0, 0)
    region, begun = empty, False
    for one, in_flight in zip(code, _in_flight(code), strict=True):
        if one.is_wait:
            left = one.left(_MOST)
            yield replace(region, in_flight=max(0, in_flight), left=left, address=one.address)
            region, begun = empty, False
        elif one.is_product:
            region = replace(region, products=region.products + 1, instruction=one.name)
            begun = True
        elif begun or in_flight > 0:
            is_exp2 = one.name.startswith("MUFU.EX2")
            counts = not is_exp2 and _ARITHMETIC.match(one.name) is not None
            region = replace(region, exp2=region.exp2 + is_exp2, arithmetic=region.arithmetic + counts)


def _overwritten(kernel: str, code: list[_Instruction]) -> Iterator[str]:
    """Products whose factor in registers is written on some way before the wait that ends them."""
    for first, product in enumerate(code):
        factor = _FACTOR.match(product.operands) if product.is_product else None
        if not factor:
            continue
        own = range(int(factor[1]), int(factor[1]) + _FACTOR_REGISTERS)
        ways, seen = [(first, 0)], set()  # groups that have ended since, its own among them
        while ways:
            i, closed = ways.pop()
            while i < len(code) and (i, closed) not in seen:
                seen.add((i, closed))
                one = code[i]
                closed = min(closed + one.ends_group, _MOST)
                if one.is_wait and one.left(_MOST) < closed:
                    break
                written = one.writes()
                if written and written[0] < own.stop and own.start < written[-1] + 1:
                    yield (
                        f"{kernel}: {one.name} at {one.address:#06x} writes registers that the product at "
                        f"{product.address:#06x} still multiplies: ptxas does not keep them that long, and "
                        "the product is wrong"
                    )
                    ways = []
                    break
                if one.target is not None:
                    ways.append((one.target, closed))
                if one.always and one.name.split(".")[0] in ("BRA", "EXIT", "RET") and one.name != "BRA.DIV":
                    break
                i += 1


def _waits_beside_exp2(source: str) -> dict[str, int]:
    """Of each kernel in a CUDA text: the waits in front of which it computes exp2 beside a product."""
    kernels = list(_KERNEL.finditer(source))
    counts = {}
    ends = [*(k.start() for k in kernels), len(source)][1:]
    for k, end in zip(kernels, ends, strict=False):
        in_flight = exp2 = waits = 0
        for m in _STEP.finditer(source, k.end(), end):
            if m["begin"]:
                in_flight += 1
            elif m["exp2"]:
                exp2 += in_flight > 0
            else:
                waits += exp2 > 0
                in_flight, exp2 = min(in_flight, int(m["left"])), 0
        counts[k[1]] = waits
    return counts


def read_machine_code(sass: str, source: str) -> MachineCode:
    """Of the disassembly of a kernel, and the CUDA text from which it was compiled."""
    wanted = _waits_beside_exp2(source)
    regions, moved, overwritten = [], [], []
    for kernel, code in _functions(sass):
        own = list(_regions(kernel, code))
        regions += own
        overwritten += _overwritten(kernel, code)
        found = sum(r.exp2 > 0 for r in own)
        if own and found < wanted.get(kernel, 0):
            moved.append(
                f"{kernel}: the program computes exp2 beside products in front of {wanted[kernel]} waits, "
                f"the machine code in front of {found}: ptxas moved a wait in front of that; a store to "
                "shared memory of a value that depends on all of it, in front of the wait, keeps it there"
            )
    return MachineCode(tuple(regions), tuple(moved), overwritten=tuple(overwritten))
