"""Programs for what goes on beside the threads: asynchronous copies, their groups, barriers in memory."""

from __future__ import annotations

from collections.abc import Iterator

import boxes
import clusters
import numpy as np
from trial import Trial, by_threads, generator

THREADS = 64
READY = """S = shared u32[{n}]
for i in serial({each}):
  S[tx*{each} + i] = cast<u32>(tx*{each} + i)
sync_threads()
"""


def _trial(row: dict, body: str, words: int, wanted=None, **more: np.ndarray) -> Trial:
    """Y of X, in words of 32 bits, `words` for each of 64 threads."""
    rng = generator(row["name"])
    n = words * THREADS
    arrays = {"X": rng.integers(0, 2**32, n, np.uint32), **more, "Y": np.zeros(n, np.uint32)}
    kinds = {np.dtype(np.uint32): "u32", np.dtype(np.int32): "i32"}
    params = ", ".join(f"{name}: {kinds[a.dtype]}[{a.size}]" for name, a in arrays.items())
    exact = wanted or (lambda X, **_: {"Y": X})
    return by_threads(body, params, arrays, ["Y"], THREADS, calls=row["name"], exact=exact)


# ── copies of a thread ────────────────────────────────────────────────────────────────────────────────
def copy(row: dict) -> Iterator[Trial]:
    name, words = row["name"], row["bytes"] // 4
    sized = name.endswith("_zfill")
    body = READY.format(n=words * THREADS, each=words)
    body += f"{name}(address_of(S[tx*{words}]), address_of(X[tx*{words}]){', Z[tx]' if sized else ''})\n"
    body += f"cp_async_wait_all()\nfor i in serial({words}):\n  Y[tx*{words} + i] = S[tx*{words} + i]"
    if not sized:
        return (yield _trial(row, body, words))
    given = generator(name, "bytes").integers(0, words + 1, THREADS).astype(np.int32) * 4

    def cut(X, Z, **_):
        kept = np.arange(words) * 4 < Z[:, None]
        return {"Y": np.where(kept, X.reshape(THREADS, words), 0).reshape(-1).astype(np.uint32)}

    yield _trial(row, body, words, cut, Z=given)


GROUPS = """
S = shared u32[256]
for k in serial(4):
  cp_async_4(address_of(S[k*64 + tx]), address_of(X[k*64 + tx]))
  cp_async_commit_group()
for k in serial(4):
  if k == 0:
    cp_async_wait_group(3)
  if k == 1:
    cp_async_wait_group(2)
  if k > 1:
    cp_async_wait_group(0)
  sync_threads()
  Y[k*64 + tx] = S[k*64 + 63 - tx]"""


def groups(row: dict) -> Iterator[Trial]:
    yield _trial(row, GROUPS, 4, lambda X, **_: {"Y": X.reshape(4, 64)[:, ::-1].reshape(-1)})


def wait_all(row: dict) -> Iterator[Trial]:
    body = """S = shared u32[64]
cp_async_4(address_of(S[tx]), address_of(X[tx]))
cp_async_wait_all()
sync_threads()
Y[tx] = S[63 - tx]"""
    yield _trial(row, body, 1, lambda X, **_: {"Y": X[::-1]})


# ── barriers ──────────────────────────────────────────────────────────────────────────────────────────
def _barrier(count: int, turn: str, wait: str = "mbarrier_test_wait", last: str = "") -> str:
    """Three phases: in each every thread writes, arrives by `turn`, waits, reads what another wrote.

    `wait` asks by the parity of the phase, or by the state s that the arrival gave."""
    asked = "s" if wait.endswith("_state") else "k%2"
    turn = "\n".join(f"  {line}" for line in turn.split("\n"))
    return f"""
M = shared u64[1]
S = shared u32[192]
if tx == 0:
  mbarrier_init(address_of(M[0]), {count})
  fence_mbarrier_init()
sync_threads()
for k in serial(3):
{turn}
  while not {wait}(address_of(M[0]), {asked}):
    pass
  Y[k*64 + tx] = S[k*64 + 63 - tx]
{last}"""


def _turned(X, **_):
    return {"Y": X.reshape(3, 64)[:, ::-1].reshape(-1)}


WRITE = "S[k*64 + tx] = X[k*64 + tx]\n"
COPY = "cp_async_4(address_of(S[k*64 + tx]), address_of(X[k*64 + tx]))\n"
BULK = """if tx == 0:
  {expect}
  cp_async_bulk_load(address_of(S[k*64]), address_of(X[k*64]), 256, address_of(M[0]))"""
EXPECT_LATER = "mbarrier_expect_tx(address_of(M[0]), 256)\n  mbarrier_arrive(address_of(M[0]))"
BARRIERS = {
    "init": (64, WRITE + "mbarrier_arrive(address_of(M[0]))"),
    "signal": (64, COPY + "cp_async_mbarrier_arrive(address_of(M[0]))\nmbarrier_arrive(address_of(M[0]))"),
    "signal_counted": (64, COPY + "cp_async_mbarrier_arrive_noinc(address_of(M[0]))"),
    "arrive_expect": (1, BULK.format(expect="mbarrier_arrive_expect_tx(address_of(M[0]), 256)")),
    "expect": (1, BULK.format(expect=EXPECT_LATER)),
}
STATES = {  # the same where the arrivals give states
    "test": (64, WRITE + "s = mbarrier_arrive_state(address_of(M[0]))"),
    "arrive": (64, WRITE + "s = mbarrier_arrive_state(address_of(M[0]))"),
    "arrive_expect": (
        64,
        "s = mbarrier_arrive_expect_tx_state(address_of(M[0]), select(tx == 0, 256, 0))\n"
        + BULK.replace("  {expect}\n", ""),
    ),
}


def barrier(row: dict) -> Iterator[Trial]:
    by_state = row["name"].endswith("_state")
    count, turn = STATES[row["does"]] if by_state else BARRIERS.get(row["does"], BARRIERS["init"])
    wait = row["name"] if row["does"] == "test" else "mbarrier_test_wait" + "_state" * by_state
    last = "sync_threads()\nif tx == 0:\n  mbarrier_inval(address_of(M[0]))" if row["does"] == "inval" else ""
    yield _trial(row, _barrier(count, turn, wait, last), 3, _turned)


def bulk_load(row: dict) -> Iterator[Trial]:
    yield _trial(row, _barrier(*BARRIERS["arrive_expect"]), 3, _turned)


STORE = """
S = shared u32[192]
for k in serial(3):
  S[k*64 + tx] = X[k*64 + 63 - tx]
FENCE()
sync_threads()
if tx == 0:
  for k in serial(3):
    cp_async_bulk_store(address_of(Y[k*64]), address_of(S[k*64]), 256)
    cp_async_bulk_commit_group()
  cp_async_bulk_wait_group_read(0)
  cp_async_bulk_wait_group(0)"""


def bulk_store(row: dict) -> Iterator[Trial]:
    fence = row["name"] if row["does"] == "fence" else "fence_proxy_async_shared"
    yield _trial(row, STORE.replace("FENCE", fence), 3, _turned)


def clock(row: dict) -> Iterator[Trial]:
    """It only goes on, from one reading to the next."""
    now = f"{row['name']}()"
    yield _trial(row, f"begin = {now}\nY[tx] = select({now} >= begin, X[tx], 0)", 1)


PROGRAMS = {
    "clock": clock,
    "copy": copy, "commit": groups, "wait_groups": groups, "wait_all": wait_all, "init": barrier,
    "inval": barrier, "arrive": barrier, "test": barrier, "signal": barrier, "signal_counted": barrier,
    "expect": barrier, "arrive_expect": barrier, "fence_init": barrier, "bulk_load": bulk_load,
    "bulk_store": bulk_store, "fence": bulk_store, "fence_shared": bulk_store, "bulk_commit": bulk_store,
    "bulk_wait": bulk_store, "bulk_wait_read": bulk_store, "tensor_load": boxes.load,
    "tensor_store": boxes.store, "tensor_multicast": clusters.multicast, "tensor_reduce": clusters.reduce,
    "bulk_push": clusters.push, "remote_store": clusters.store, "remote_arrive": clusters.arrive,
    "cluster_arrive": clusters.store, "cluster_wait": clusters.store, "elect": clusters.elect,
}  # fmt: skip


def beside(row: dict) -> Iterator[Trial]:
    yield from PROGRAMS[row["does"]](row)
