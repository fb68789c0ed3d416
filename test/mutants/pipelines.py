"""The kernels that are mutated and that no pass writes yet: copies that go on beside the threads, in stages, as
text IR of level machine.  Each turns the tiles of X round, one after the other, as X's length says.
"""

# ruff: noqa: E501
from __future__ import annotations

import numpy as np

STAGES = 3
TILES = (0, 1, 2, STAGES - 1, STAGES, STAGES + 3)

# Groups of cp.async: a thread waits for its own copies, the barrier for those of the others.
GROUPS = """
func main(X: f32[n*{N}], Y: f32[n*{N}]):
  kernel main grid(b: 1) threads({N}) thread(tx):
    S = shared f32[{SN}] address(0) elements({SN})
    for k in serial(2):
      if k < n:
        cp_async_4(address_of(S[k*{N} + tx]), address_of(X[k*{N} + tx]))
      cp_async_commit_group()
    for k in serial(n):
      cp_async_wait_group(1)
      sync_threads()
      if k + 2 < n:
        cp_async_4(address_of(S[(k + 2)%3*{N} + tx]), address_of(X[(k + 2)*{N} + tx]))
      cp_async_commit_group()
      Y[k*{N} + tx] = S[k%3*{N} + {N} - 1 - tx]
"""

# The same as the compiler prints it: a tile with slots, indices of 32 bits.
SLOTS = """
func main(X: f32[n*{N}], Y: f32[n*{N}]):
  kernel main grid(b: 1) threads({N}) thread(tx):
    S = shared f32[3, {N}] layout((i, j) -> i*{N} + j) address(0) elements({SN})
    for j in unrolled(2):
      if cast<i32>(j) < cast<i32>(n):
        cp_async_4(address_of(S[cast<i32>(j)*{N} + cast<i32>(tx)]), address_of(X[cast<i32>(j)*{N} + cast<i32>(tx)]))
      cp_async_commit_group()
    for k in serial(n):
      cp_async_wait_group(1:i32)
      sync_threads()
      if cast<i32>(k) + 2 < cast<i32>(n):
        cp_async_4(address_of(S[(cast<i32>(k) + 2)%3*{N} + cast<i32>(tx)]), address_of(X[(cast<i32>(k) + 2)*{N} + cast<i32>(tx)]))
      cp_async_commit_group()
      Y[cast<i32>(k)*{N} + cast<i32>(tx)] = S[cast<i32>(k)%3*{N} + {N} - 1 - cast<i32>(tx)]
"""

# The same by barriers in memory: F[s] is full when the copies of all threads have landed, E[s] empty when all have
# read; the phase before the first has ended.
BARRIERS = """
func main(X: f32[n*{N}], Y: f32[n*{N}]):
  kernel main grid(b: 1) threads({N}) thread(tx):
    F = shared u64[3] address(0) elements(3)
    E = shared u64[3] address(32) elements(3)
    S = shared f32[{SN}] address(64) elements({SN})
    if tx == 0:
      for s in serial(3):
        mbarrier_init(address_of(F[s]), {N})
        mbarrier_init(address_of(E[s]), {N})
    sync_threads()
    for k in serial(n + 2):
      if k < n:
        while not mbarrier_test_wait(address_of(E[k%3]), (k//3 + 1)%2):
          pass
        cp_async_4(address_of(S[k%3*{N} + tx]), address_of(X[k*{N} + tx]))
        cp_async_mbarrier_arrive_noinc(address_of(F[k%3]))
      if k >= 2:
        while not mbarrier_test_wait(address_of(F[(k + 1)%3]), (k - 2)//3%2):
          pass
        Y[(k - 2)*{N} + tx] = S[(k + 1)%3*{N} + {N} - 1 - tx]
        mbarrier_arrive(address_of(E[(k + 1)%3]))
"""

# One thread fetches whole tiles; what comes out goes back by bulk stores, from two tiles in turn.
BULK = """
func main(X: f32[n*{N}], Y: f32[n*{N}]):
  kernel main grid(b: 1) threads({N}) thread(tx):
    F = shared u64[3] address(0) elements(3)
    S = shared f32[{SN}] address(128) elements({SN})
    R = shared f32[{RN}] address({RA}) elements({RN})
    if tx == 0:
      for s in serial(3):
        mbarrier_init(address_of(F[s]), 1)
      fence_mbarrier_init()
      for k in serial(2):
        if k < n:
          mbarrier_arrive_expect_tx(address_of(F[k]), {B})
          cp_async_bulk_load(address_of(S[k*{N}]), address_of(X[k*{N}]), {B}, address_of(F[k]))
    for k in serial(n):
      if tx == 0:
        cp_async_bulk_wait_group_read(1)
        if k + 2 < n:
          mbarrier_arrive_expect_tx(address_of(F[(k + 2)%3]), {B})
          cp_async_bulk_load(address_of(S[(k + 2)%3*{N}]), address_of(X[(k + 2)*{N}]), {B}, address_of(F[(k + 2)%3]))
      sync_threads()
      while not mbarrier_try_wait(address_of(F[k%3]), k//3%2):
        pass
      R[k%2*{N} + tx] = S[k%3*{N} + {N} - 1 - tx]
      fence_proxy_async()
      sync_threads()
      if tx == 0:
        cp_async_bulk_store(address_of(Y[k*{N}]), address_of(R[k%2*{N}]), {B})
        cp_async_bulk_commit_group()
    if tx == 0:
      cp_async_bulk_wait_group(0)
"""

# The same by boxes of one row, of tensors that have one for each tile.
BOXES = (
    BULK.replace(
        "  kernel", "  tensor_map R = X[n, {N}] box(1, {N})\n  tensor_map W = Y[n, {N}] box(1, {N})\n  kernel"
    )
    .replace(
        "cp_async_bulk_load(address_of(S[k*{N}]), address_of(X[k*{N}]), {B},",
        'cp_async_bulk_tensor_2d_load(address_of(S[k*{N}]), "R", address_of(X[0]), k, 0,',
    )
    .replace(
        "cp_async_bulk_load(address_of(S[(k + 2)%3*{N}]), address_of(X[(k + 2)*{N}]), {B},",
        'cp_async_bulk_tensor_2d_load(address_of(S[(k + 2)%3*{N}]), "R", address_of(X[0]), k + 2, 0,',
    )
    .replace(
        "cp_async_bulk_store(address_of(Y[k*{N}]), address_of(R[k%2*{N}]), {B})",
        'cp_async_bulk_tensor_2d_store("W", address_of(Y[0]), k, 0, address_of(R[k%2*{N}]))',
    )
)

PROGRAMS = {"groups": GROUPS, "slots": SLOTS, "mbarriers": BARRIERS, "bulk": BULK, "boxes": BOXES}


def text_of(name: str, threads: int) -> str:
    sizes = {"N": threads, "SN": 3 * threads, "RN": 2 * threads, "RA": 128 + 12 * threads, "B": 4 * threads}
    text = PROGRAMS[name]
    for what, value in sizes.items():
        text = text.replace("{" + what + "}", str(value))
    return text.lstrip("\n")


def inputs(threads: int):
    def make(rng, size):
        n = size[0] * threads
        return [rng.standard_normal(n).astype(np.float32), np.full(n, np.nan, np.float32)]

    return make


def exact(threads: int):
    return lambda x, y: {1: x.reshape(-1, threads)[:, ::-1].reshape(-1).astype(np.float64)}
