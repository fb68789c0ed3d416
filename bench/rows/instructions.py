"""Programs for matrix instructions and for copies between shared memory and registers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from tilelang import _core
from trial import WARP, Trial, by_threads, generator
from values import EXACT, Bound, is_float, moderate, numpy_type, random_bits


@dataclass
class Operand:
    """Of a matrix instruction: where each element lies, as lane * registers + register."""

    kind: str
    registers: int
    places: np.ndarray

    @staticmethod
    def of(row: dict, which: int) -> Operand:
        fragment, registers = _core.matrix_fragment(row["name"], "abc"[which]), row["registers"][which]
        shape = fragment.shape
        holders = [fragment.holders(index)[0] for index in np.ndindex(*shape)]
        places = np.array([lane * registers + register for lane, register in holders]).reshape(shape)
        return Operand(row["dtypes"][which].name, registers, places)

    @property
    def size(self) -> int:
        return WARP * self.registers

    def matrix(self, memory: np.ndarray) -> np.ndarray:
        """The numbers that the instruction reads; of a tf32 it does not look at the last 13 bits."""
        if self.kind == "tf32":
            memory = (memory.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
        return memory[self.places].astype(np.float64 if is_float(self.kind) else np.int64)

    def memory(self, matrix: np.ndarray) -> np.ndarray:
        made = np.zeros(self.size, matrix.dtype)
        made[self.places] = matrix
        return made


def _subnormals(rng: np.random.Generator, a: np.ndarray) -> np.ndarray:
    import ml_dtypes

    return (rng.standard_normal(a.size) * float(ml_dtypes.finfo(a.dtype).tiny) / 4).astype(a.dtype)


def _inputs(rng: np.random.Generator, operands: list[Operand], case: str) -> list[np.ndarray]:
    kinds = [numpy_type(o.kind) for o in operands]
    if not is_float(operands[2].kind):
        return [random_bits(rng, kind, o.size) for kind, o in zip(kinds, operands, strict=True)]
    if case == "integers":
        return [rng.integers(-8, 9, o.size).astype(kind) for kind, o in zip(kinds, operands, strict=True)]
    powers = {"normal": 0, "wide": 6, "special": 2}[case]
    made = [moderate(rng, kind, o.size, powers) for kind, o in zip(kinds, operands, strict=True)]
    if case == "wide":
        made[0][::5], made[1][::7] = _subnormals(rng, made[0][::5]), _subnormals(rng, made[1][::7])
    if case == "special":
        for a in made:
            at = rng.choice(a.size, max(2, a.size // 24), replace=False)
            a[at] = np.resize(np.array([np.inf, -np.inf, np.nan, 0.0, -0.0]), at.size).astype(a.dtype)
    return made


def _trial(row: dict, operands: list[Operand], case: str, number: int) -> Trial:
    a, b, c = operands
    body = "\n".join(
        f"{x}r = local {o.kind}[{o.registers}]\nfor r in serial({o.registers}):\n"
        f"  {x}r[r] = {x}[tx*{o.registers} + r]"
        for x, o in zip("ABC", operands, strict=True)
    )
    body += f"\n{row['name']}(address_of(Cr[0]), address_of(Ar[0]), address_of(Br[0]))"
    body += f"\nfor r in serial({c.registers}):\n  D[tx*{c.registers} + r] = Cr[r]"
    params = ", ".join(f"{x}: {o.kind}[{o.size}]" for x, o in zip("ABCD", [*operands, c], strict=True))
    given = _inputs(generator(row["name"], case, number), operands, case)
    x, y, z = (o.matrix(memory) for o, memory in zip(operands, given, strict=True))
    with np.errstate(invalid="ignore"):
        wanted = x @ y + z
        magnitude = np.nan_to_num(np.abs(x) @ np.abs(y) + np.abs(z), nan=0.0, posinf=0.0)
    bound, sums = EXACT, row["shape"][2] + 1
    if is_float(c.kind) and case != "integers":
        rounded = 2.0**-10 if c.kind == "f16" else 0.0  # of the sum, to either neighbour
        known = np.nan_to_num(np.abs(c.memory(wanted)), nan=0.0, posinf=0.0)
        text = f"{sums}·2⁻²³·(Σ\\|a·b\\| + \\|c\\|)" + (" + 1 ulp" if rounded else "")
        most = sums * (c.memory(magnitude) * 2.0**-23 + 2.0**-149) + rounded * known
        bound = Bound(absolute=most, text=text)
    if not is_float(c.kind):
        wanted = wanted.astype(np.uint64).astype(np.uint32).view(np.int32)  # wraps
    arrays = dict(zip("ABCD", [*given, np.zeros_like(given[2])], strict=True))
    return by_threads(
        body,
        params,
        arrays,
        ["D"],
        WARP,
        bound=bound,
        calls=row["name"],
        exact=lambda **_: {"D": c.memory(wanted).astype(numpy_type(c.kind))},
        note=case if is_float(c.kind) else "",
    )


def matrix(row: dict) -> Iterator[Trial]:
    operands = [Operand.of(row, which) for which in range(3)]
    cases = ("integers", "normal", "wide", "special") if is_float(operands[2].kind) else ("integers",)
    for case in cases:
        for number in range(8):
            yield _trial(row, operands, case, number)


def store(row: dict) -> Iterator[Trial]:
    """Rows of blocks of 8×8, each at an address of its own; the lanes hold two neighbours of each block."""
    rng, count = generator(row["name"]), row["matrices"]
    body = f"""
S = shared u16[256]
r = local u16[{2 * count}]
for i in serial({2 * count}):
  r[i] = A[tx*{2 * count} + i]
for i in serial(8):
  S[tx*8 + i] = cast<u16>(0)
{row["name"]}(address_of(r[0]), address_of(S[R[tx]*8]))
for i in serial(8):
  D[tx*8 + i] = S[tx*8 + i]"""

    def closed(A, R, **_):
        blocks = A.reshape(WARP, count, 2).swapaxes(0, 1).reshape(count, 8, 8)
        blocks = blocks.swapaxes(1, 2) if row["transposed"] else blocks
        memory = np.zeros((WARP, 8), np.uint16)
        memory[R[: 8 * count]] = blocks.reshape(-1, 8)
        return {"D": memory.reshape(-1)}

    arrays = {"A": random_bits(rng, np.uint16, 64 * count), "R": rng.permutation(WARP).astype(np.int32),
              "D": np.zeros(256, np.uint16)}  # fmt: skip
    params = f"A: u16[{64 * count}], R: i32[32], D: u16[256]"
    yield by_threads(body, params, arrays, ["D"], WARP, exact=closed, calls=row["name"])


def copy(row: dict) -> Iterator[Trial]:
    if row["stores"]:
        return (yield from store(row))
    rng, count, rows = generator(row["name"]), row["matrices"], 64
    body = f"""
S = shared u16[{rows * 8}]
r = local u16[{2 * count}]
for i in serial(16):
  S[tx*16 + i] = A[tx*16 + i]
{row["name"]}(address_of(r[0]), address_of(S[R[tx]*8]))
for i in serial({2 * count}):
  D[tx*{2 * count} + i] = r[i]"""

    def closed(A, R, **_):
        blocks = A.reshape(rows, 8)[R].reshape(4, 8, 8)[:count]
        blocks = blocks.swapaxes(1, 2) if row["transposed"] else blocks
        return {"D": blocks.reshape(count, WARP, 2).swapaxes(0, 1).reshape(-1)}

    arrays = {"A": random_bits(rng, np.uint16, rows * 8), "R": rng.integers(0, rows, WARP).astype(np.int32),
              "D": np.zeros(64 * count, np.uint16)}  # fmt: skip
    yield by_threads(
        body,
        f"A: u16[{rows * 8}], R: i32[32], D: u16[{64 * count}]",
        arrays,
        ["D"],
        WARP,
        exact=closed,
        calls=row["name"],
    )
