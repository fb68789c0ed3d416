"""Programs for atomic accesses: by instructions, and by comparing and swapping."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from trial import Trial, by_threads, generator
from values import is_float, numpy_type, pairs_of_edges, random_bits, values

BLOCKS, THREADS = 64, 64
OPERATIONS = {"atomic_add": np.add, "atomic_max": np.fmax, "atomic_min": np.fmin, "atomic_or": np.bitwise_or}


@dataclass
class Updates:
    """C[i] of A[i], `lanes` neighbours at once."""

    function: str
    kind: str
    lanes: int
    calls: str
    note: str

    @property
    def rng(self) -> np.random.Generator:
        return generator(self.function, self.kind, self.lanes)

    @property
    def size(self) -> int:
        return BLOCKS * THREADS * self.lanes

    @property
    def mine(self) -> str:
        return f"(b*{THREADS} + tx)*{self.lanes}"

    def statement(self, place: str, value: str, order: str = "relaxed") -> str:
        if self.lanes == 1:
            return f'{self.function}(address_of({place}), {value}, "{order}")'
        place, value = place.replace("]", " + v]"), value.replace("]", " + v]")
        return (
            f'for v in vectorized({self.lanes}):\n  {self.function}(address_of({place}), {value}, "{order}")'
        )

    def trial(
        self, body: str, arrays: dict[str, np.ndarray], about: str, blocks: int = BLOCKS, **rest
    ) -> Trial:
        params = ", ".join(f"{name}: {self.kind}[{a.size}]" for name, a in arrays.items())
        return by_threads(
            body,
            params,
            arrays,
            list(arrays)[1:],
            THREADS,
            blocks,
            note=f"{self.note} {about}".strip(),
            **rest,
        )

    def combined(self, a: np.ndarray, c: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return OPERATIONS[self.function](a, c).astype(c.dtype)

    # ── programs ──────────────────────────────────────────────────────────────────────────────────────
    def each_its_own(self) -> Trial:
        a, c = pairs_of_edges(self.rng, self.kind, self.size)
        body = self.statement(f"C[{self.mine}]", f"A[{self.mine}]")
        # What the instruction does with subnormal f32 in tensors NumPy does not do.
        exact = None if self.kind == "f32" else lambda A, C: {"C": self.combined(A, C)}
        return self.trial(body, {"A": a, "C": c}, "", calls=self.calls, exact=exact)

    def shared(self) -> Trial:
        a, c = pairs_of_edges(self.rng, self.kind, self.size)
        body = f"S = shared {self.kind}[{THREADS * self.lanes}]\n"
        body += f"for i in serial({self.lanes}):\n  S[tx*{self.lanes} + i] = C[{self.mine} + i]\n"
        body += self.statement(f"S[tx*{self.lanes}]", f"A[{self.mine}]")
        body += f"\nfor i in serial({self.lanes}):\n  C[{self.mine} + i] = S[tx*{self.lanes} + i]"
        return self.trial(
            body, {"A": a, "C": c}, "shared", calls=self.calls, exact=lambda A, C: {"C": self.combined(A, C)}
        )

    def contended(self) -> Trial:
        """Two places by all; floats so small that their sums are exact."""
        n, kind = 4 * THREADS * self.lanes, numpy_type(self.kind)
        a = (
            self.rng.integers(-1, 2, n).astype(kind)
            if is_float(self.kind)
            else random_bits(self.rng, kind, n)
        )
        body = self.statement(f"C[tx%2*{self.lanes}]", f"A[{self.mine}]")

        def exact(A, C):
            rows = A.reshape(-1, 2 * self.lanes)
            return {"C": functools.reduce(self.combined, rows, C)}

        return self.trial(
            body, {"A": a, "C": np.zeros(2 * self.lanes, kind)}, "contended", 4, calls=self.calls, exact=exact
        )

    def old_value(self, order: str) -> Trial:
        a, c = pairs_of_edges(self.rng, self.kind, self.size)
        body = f"old = {self.statement(f'C[{self.mine}]', f'A[{self.mine}]', order)}\nD[{self.mine}] = old"
        body = body.replace(f"{self.function}(", f"{self.function}<{self.kind}>(")
        return self.trial(
            body,
            {"A": a, "C": c, "D": np.zeros_like(c)},
            "old value",
            exact=None if self.kind == "f32" else lambda A, C, D: {"C": self.combined(A, C), "D": C},
        )


def updates(
    function: str, kind: str, lanes: int, only_global: bool, calls: str = "", note: str = ""
) -> Iterator[Trial]:
    made = Updates(function, kind, lanes, calls, note)
    yield made.each_its_own()
    if not only_global:
        yield made.shared()
    yield made.contended()
    if lanes == 1:
        for order in ("relaxed", "acquire", "release", "acq_rel", "seq_cst"):
            yield made.old_value(order)


def atomic(row: dict) -> Iterator[Trial]:
    yield from updates(row["function"], row["dtype"].name, row["lanes"], row["only"] == "global", row["name"])


def atomic_function(row: dict) -> Iterator[Trial]:
    """Of the types that the chip has no instruction for: by comparing and swapping."""
    floats = ("f16", "bf16", "f32", "f64") if row["name"] in ("atomic_max", "atomic_min") else ()
    for kind in floats or ("i32",):
        yield from updates(row["name"], kind, 1, False, note=kind)


ACCESSED = ("i32", "u32", "i64", "u64", "f32", "f64", "f16", "bf16")


def _moved(row: dict, kind: str, body: str) -> Trial:
    a = values(generator(row["name"], kind), kind, THREADS)
    return by_threads(
        body,
        f"A: {kind}[{THREADS}], C: {kind}[{THREADS}]",
        {"A": a, "C": np.zeros_like(a)},
        ["C"],
        note=kind,
        calls=f"{row['name']}",
        exact=lambda A, C: {"C": A},
    )


def atomic_load(row: dict) -> Iterator[Trial]:
    for kind in ACCESSED:
        for order in ("relaxed", "acquire", "seq_cst"):
            yield _moved(row, kind, f'C[tx] = atomic_load<{kind}>(address_of(A[tx]), "{order}")')


def atomic_store(row: dict) -> Iterator[Trial]:
    for kind in ACCESSED:
        for order in ("relaxed", "release", "seq_cst"):
            yield _moved(row, kind, f'atomic_store(address_of(C[tx]), A[tx], "{order}")')
