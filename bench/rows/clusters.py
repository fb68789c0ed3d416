"""Programs for what reaches other blocks of a cluster, for reductions of boxes, for the elected thread."""

from __future__ import annotations

import math
from collections.abc import Iterator

import boxes
import ml_dtypes
import numpy as np
from trial import Trial, by_threads, generator

THREADS, BLOCKS = 64, 4
BEGUN = "cluster_arrive_relaxed()\ncluster_wait()\n"  # both blocks run
MET = "cluster_arrive()\ncluster_wait()\n"


def _pairs(X: np.ndarray) -> np.ndarray:
    """What the other block of each cluster of two has."""
    return X.reshape(BLOCKS // 2, 2, -1)[:, ::-1].reshape(-1)


def _trial(row: dict, body: str, words: int, exact) -> Trial:
    n = words * THREADS * BLOCKS
    arrays = {"X": generator(row["name"]).integers(0, 2**32, n, np.uint32), "Y": np.zeros(n, np.uint32)}
    return by_threads(body, f"X: u32[{n}], Y: u32[{n}]", arrays, ["Y"], THREADS, BLOCKS, cluster=2,
                      calls=row["name"], exact=exact)  # fmt: skip


# ── words ─────────────────────────────────────────────────────────────────────────────────────────────
def _filled(words: int) -> str:
    n = words * THREADS
    return (
        f"S = shared u32[{n}]\nD = shared u32[{n}]\n"
        f"for i in serial({words}):\n  S[tx*{words} + i] = X[b*{n} + tx*{words} + i]\n"
    )


def _told(words: int, wait: str = "") -> str:
    n = words * THREADS
    return f"{wait}for i in serial({words}):\n  Y[b*{n} + tx*{words} + i] = D[tx*{words} + i]"


def store(row: dict) -> Iterator[Trial]:
    """Of less than a word the lower bytes, into zeros."""
    name, size = (row["name"], row["bytes"]) if row["bytes"] else ("cluster_store_16", 16)
    words, kept = max(size // 4, 1), 2 ** (8 * min(size, 4)) - 1
    body = _filled(words) + (f"D[tx] = 0:u32\n{MET}" if size < 4 else BEGUN)
    body += f"{name}(address_of(D[tx*{words}]), address_of(S[tx*{words}]), cast<i32>(1 - b % 2))\n"
    exact = lambda X, **_: {"Y": _pairs(X) & np.uint32(kept)}  # noqa: E731
    yield _trial(row, body + _told(words, MET), words, exact)


BARRIER = """M = shared u64[1]
if tx == 0:
  mbarrier_init(address_of(M[0]), {count})
  fence_mbarrier_init()
"""
WAIT = "while not mbarrier_try_wait(address_of(M[0]), 0):\n  pass\n"


def arrive(row: dict) -> Iterator[Trial]:
    """With release, what was stored before is there; without it, only the number of arrivals is of matter."""
    there = f"{row['name']}(address_of(M[0]), cast<i32>(1 - b % 2))\n"
    body = _filled(1) + BARRIER.format(count=THREADS) + "sync_threads()\n" + MET
    if not row["name"].endswith("_release"):
        body += there + WAIT + "D[tx] = S[tx]\n" + _told(1, MET)
        return (yield _trial(row, body, 1, lambda X, **_: {"Y": X}))
    body += "cluster_store_4(address_of(D[tx]), address_of(S[tx]), cast<i32>(1 - b % 2))\n" + there + WAIT
    yield _trial(row, body + _told(1) + "\n" + MET, 1, lambda X, **_: {"Y": _pairs(X)})


def push(row: dict) -> Iterator[Trial]:
    words = 4
    n = 4 * words * THREADS
    body = (
        _filled(words) + "fence_proxy_async_shared()\n" + BARRIER.format(count=1) + "sync_threads()\n" + MET
    )
    body += f"if tx == 0:\n  mbarrier_arrive_expect_tx(address_of(M[0]), {n})\n"
    body += (
        f"  {row['name']}(address_of(D[0]), address_of(S[0]), {n}, cast<i32>(1 - b % 2), address_of(M[0]))\n"
    )
    yield _trial(row, body + WAIT + _told(words) + "\n" + MET, words, lambda X, **_: {"Y": _pairs(X)})


def elect(row: dict) -> Iterator[Trial]:
    body = f"if {row['name']}():\n  Y[b*64 + tx // 32] = X[b*64 + tx // 32]"

    def leaders(X, **_):
        y = np.where(np.arange(X.size) % 64 < 2, X, 0)
        return {"Y": y.astype(np.uint32)}

    yield _trial(row, body, 1, leaders)


# ── boxes ─────────────────────────────────────────────────────────────────────────────────────────────
MULTICAST = """
S = shared {kind}[{n}]
M = shared u64[1]
if tx == 0:
  mbarrier_init(address_of(M[0]), 1)
  fence_mbarrier_init()
sync_threads()
cluster_arrive()
cluster_wait()
if tx == 0:
  mbarrier_arrive_expect_tx(address_of(M[0]), {bytes})
  if b % 2 == 1:
    {name}(address_of(S[0]), "M", address_of(T[{zeros}]), {at}, 3, address_of(M[0]))
while not mbarrier_try_wait(address_of(M[0]), 0):
  pass
for k in serial({turns}):
  if k*64 + tx < {n}:
    Y[b*{n} + k*64 + tx] = S[k*64 + tx]
cluster_arrive()
cluster_wait()"""


def multicast(row: dict) -> Iterator[Trial]:
    for note, b in boxes.of_rows(row, loads=True):

        def wanted(T, b=b, **_):
            within, place = b.inside()
            y = np.zeros(b.elements, b.dtype)
            y[b.shared()] = np.where(within, T.reshape(-1)[place], 0)
            return {"Y": np.tile(y, BLOCKS)}

        tensor = boxes.random(b, math.prod(b.tensor), row["name"], note).reshape(b.tensor)
        arrays = {"T": tensor, "Y": np.full(b.elements * BLOCKS, 77, b.dtype)}
        kind = boxes.KINDS[b.bytes]
        params = f"T: {kind}[{', '.join(map(str, b.tensor))}], Y: {kind}[{b.elements * BLOCKS}]"
        yield by_threads(
            boxes.body(MULTICAST, row, b), params, arrays, ["Y"], THREADS, BLOCKS, cluster=2, before=b.map,
            calls=row["name"], exact=wanted, note=note,
        )  # fmt: skip


REDUCED = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "i32": np.int32,
           "u32": np.uint32, "u64": np.uint64, "i64": np.int64}  # fmt: skip
COMBINED = {"add": np.add, "min": np.minimum, "max": np.maximum}


def reduce(row: dict) -> Iterator[Trial]:
    """Two blocks combine the same box into the tensor; whole numbers, so that their order is of no matter."""
    name = row["name"]
    op, rank = name.rsplit("_", 1)[1], int(name.split("_")[5][0])
    for kind, dtype in REDUCED.items():
        if kind in ("i64",) if op == "add" else kind == "f32":
            continue  # the chip has none of it
        size = np.dtype(dtype).itemsize
        b = boxes.Box((3, 4, 5, 20, 72)[-rank:], (2, 2, 3, 4, 16)[-rank:],
                      (1, 2, 3, 18, 64)[-rank:], size)  # fmt: skip

        def wanted(T, X, b=b, dtype=dtype):
            within, place = b.inside()
            t, x = T.copy(), X.reshape(2, -1)[:, b.shared()]
            for of_block in x:
                t.reshape(-1)[place[within]] = COMBINED[op](
                    t.reshape(-1)[place[within]], of_block[within]
                ).astype(dtype)
            return {"T": t}

        rng = generator(name, kind)
        arrays = {"T": rng.integers(0, 60, b.tensor).astype(dtype),
                  "X": rng.integers(0, 60, 2 * b.elements).astype(dtype)}  # fmt: skip
        text = boxes.body(boxes.STORE, row, b).replace(f"shared {boxes.KINDS[size]}", f"shared {kind}")
        text = text.replace("= X[k*64", f"= X[b*{b.elements} + k*64")
        params = f"T: {kind}[{', '.join(map(str, b.tensor))}], X: {kind}[{2 * b.elements}]"
        yield by_threads(text, params, arrays, ["T"], THREADS, 2, before=b.map, calls=name, exact=wanted,
                         note=kind)  # fmt: skip
