"""Programs for copies of boxes: tensors of every rank; boxes inside, across each edge and outside; every
swizzle; elements of every size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from trial import Trial, by_threads, generator

THREADS = 64
KINDS = {1: "u8", 2: "f16", 4: "i32", 8: "u64"}


@dataclass
class Box:
    tensor: tuple[int, ...]
    box: tuple[int, ...]
    at: tuple[int, ...]
    bytes: int = 4
    swizzle: int = 0

    @property
    def map(self) -> str:
        swizzle = f" swizzle({self.swizzle})" if self.swizzle else ""
        return f"  tensor_map M = T box({_listed(self.box)}){swizzle}\n"

    @property
    def elements(self) -> int:
        return math.prod(self.box)

    @property
    def dtype(self) -> np.dtype:
        return np.dtype({1: np.uint8, 2: np.float16, 4: np.int32, 8: np.uint64}[self.bytes])

    def inside(self) -> np.ndarray:
        """Of each element of the box, whether it lies in the tensor; and its place there."""
        index = np.meshgrid(
            *(np.arange(n) + a for n, a in zip(self.box, self.at, strict=True)), indexing="ij"
        )
        within = np.ones(self.box, bool)
        place = np.zeros(self.box, np.int64)
        for i, extent in zip(index, self.tensor, strict=True):
            within &= (i >= 0) & (i < extent)
            place = place * extent + i
        return within.reshape(-1), np.where(within, place, 0).reshape(-1)

    def shared(self) -> np.ndarray:
        """The place of each element in shared memory."""
        byte = np.arange(self.elements) * self.bytes
        line, piece = byte // 128, byte % 128 // 16
        if self.swizzle:
            piece = piece ^ line % (self.swizzle // 16)
        return (line * 128 + piece * 16 + byte % 16) // self.bytes


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


def of_rows(row: dict, loads: bool) -> Iterator[tuple[str, Box]]:
    """Boxes of the rank that a row has: what they are about, and which."""
    rank = int(row["name"].split("_")[4][0])
    tensor = (3, 4, 5, 20, 72)[-rank:]
    box = (2, 2, 3, 4, 16)[-rank:]
    first = (1, 2, 1, 8, 20)[-rank:]
    yield "inside", Box(tensor, box, first)
    for d in range(rank):
        last = d == rank - 1
        behind = tensor[d] - (12 if last else 1)
        yield "behind an edge", Box(tensor, box, (*first[:d], behind, *first[d + 1 :]))
        if loads:  # a box that is stored must not begin before its tensor
            yield "before an edge", Box(tensor, box, (*first[:d], -4 if last else -1, *first[d + 1 :]))
    yield "outside", Box(tensor, box, (*first[:-1], tensor[-1] + 8))
    for size in (1, 2, 4, 8):
        for swizzle in (0, 32, 64, 128) if rank > 1 else (0,):
            across = max(swizzle, 32) // size
            wide, ragged = (*tensor[:-1], 128), (*first[:-1], 128 - across + 16 // size)
            note = f"swizzle {swizzle}" if swizzle else f"{size} bytes"
            yield note, Box(wide, (*box[:-1], across), ragged, size, swizzle)


def _trial(row: dict, note: str, b: Box, body: str, arrays: dict, out: str, exact) -> Trial:
    kind = KINDS[b.bytes]
    shape = {"T": _listed(b.tensor), "X": str(b.elements), "Y": str(b.elements)}
    params = ", ".join(f"{name}: {kind}[{shape[name]}]" for name in arrays)
    return by_threads(
        body, params, arrays, [out], THREADS, before=b.map, calls=row["name"], exact=exact, note=note
    )


LOAD = """
S = shared {kind}[{n}]
F = shared u64[1]
if tx == 0:
  mbarrier_init(address_of(F[0]), 1)
  fence_mbarrier_init()
  mbarrier_arrive_expect_tx(address_of(F[0]), {bytes})
  {name}(address_of(S[0]), "M", address_of(T[{zeros}]), {at}, address_of(F[0]))
sync_threads()
while not mbarrier_try_wait(address_of(F[0]), 0):
  pass
for k in serial({turns}):
  if k*64 + tx < {n}:
    Y[k*64 + tx] = S[k*64 + tx]"""

STORE = """
S = shared {kind}[{n}]
for k in serial({turns}):
  if k*64 + tx < {n}:
    S[k*64 + tx] = X[k*64 + tx]
fence_proxy_async_shared()
sync_threads()
if tx == 0:
  {name}("M", address_of(T[{zeros}]), {at}, address_of(S[0]))
  cp_async_bulk_commit_group()
  cp_async_bulk_wait_group(0)"""


def body(text: str, row: dict, b: Box) -> str:
    zeros, turns = _listed((0,) * len(b.tensor)), -(-b.elements // THREADS)
    sizes = {"n": b.elements, "bytes": b.elements * b.bytes, "turns": turns}
    return text.format(kind=KINDS[b.bytes], name=row["name"], at=_listed(b.at), zeros=zeros, **sizes)


def random(b: Box, n: int, *key: object) -> np.ndarray:
    return generator(*key).integers(0, 120, n).astype(b.dtype)


def load(row: dict) -> Iterator[Trial]:
    for note, b in of_rows(row, loads=True):

        def wanted(T, b=b, **_):
            within, place = b.inside()
            y = np.zeros(b.elements, b.dtype)
            y[b.shared()] = np.where(within, T.reshape(-1)[place], 0)
            return {"Y": y}

        tensor = random(b, math.prod(b.tensor), row["name"], note).reshape(b.tensor)
        arrays = {"T": tensor, "Y": np.full(b.elements, 77, b.dtype)}
        yield _trial(row, note, b, body(LOAD, row, b), arrays, "Y", wanted)


def store(row: dict) -> Iterator[Trial]:
    for note, b in of_rows(row, loads=False):

        def wanted(T, X, b=b, **_):
            within, place = b.inside()
            t = T.copy()
            t.reshape(-1)[place[within]] = X[b.shared()][within]
            return {"T": t}

        arrays = {"T": np.full(b.tensor, 99, b.dtype), "X": random(b, b.elements, row["name"], note)}
        yield _trial(row, note, b, body(STORE, row, b), arrays, "T", wanted)
