"""What one team's threads write and another team multiplies, or moves by TMA, behind the program's barrier:
the compiler places the fence of the asynchronous proxy, says so, and places none where there is one."""

import re

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import load_text

SIM = "sim:sm_90a"
SEEDS = (0, 1, 6, 11, 17)

HEAD = """
import tilelang.language as T

@T.prim_func
def main(A: T.Tensor((4, 64, 64), "float16"), C: T.Tensor((64, 64), "{dtype}")):
    with T.Kernel(1, threads=256):
        S = T.alloc_shared(({slots}64, 64), "float16")
        ready, free = T.alloc_barrier({arrivals}), T.alloc_barrier([128, 128])
        tx = T.get_thread_binding()
        c = T.alloc_fragment((64, 64), "float32")
        with T.ws(1):
{writer}
        with T.ws(0):
{reader}
"""
TURN = "for i, j in T.Parallel(64, 64): S[i, j] = A[0, j, i]"
PRODUCT = "T.barrier_wait(ready, 0); T.gemm(S, S, c, clear_accum=True); T.copy(c, C)"
STORE = "T.barrier_wait(ready, 0); T.tma_copy(S, C); T.tma_store_wait(0)"
WRITERS = {
    "copied": "T.copy(A[0, :, :], S)\nT.barrier_arrive(ready)",
    "turned": f"{TURN}\nT.barrier_arrive(ready)",
    "in two parts": f"T.fill(S, 0)\nT.sync_threads(3, 128)\n{TURN}\nT.barrier_arrive(ready)",
    "under a condition": f"if A[1, 0, 0] == A[1, 0, 0]:\n    {TURN}\nT.barrier_arrive(ready)",
}
BY_WARPS = f"{TURN}\nT.sync_warp()\nif tx % 32 == 0:\n    T.barrier_arrive(ready)"
RING_WRITER = """for k in T.serial(4):
    T.barrier_wait(free[k % 2], (k // 2 + 1) % 2)
    for i, j in T.Parallel(64, 64): S[k % 2, i, j] = A[k, j, i]
    {fence}
    T.barrier_arrive(ready[k % 2])"""
RING_READER = """for k in T.serial(4):
    T.barrier_wait(ready[k % 2], k // 2 % 2)
    T.gemm(S[k % 2, :, :], S[k % 2, :, :], c, clear_accum=(k == 0))
    T.barrier_arrive(free[k % 2])
T.copy(c, C)"""


def text_of(writer, reader, dtype="float32", slots="", arrivals="128"):
    def indented(text):
        return "\n".join(" " * 12 + line for line in text.splitlines())

    return HEAD.format(
        writer=indented(writer), reader=indented(reader), dtype=dtype, slots=slots, arrivals=arrivals
    )


def checked(main, wanted, dtype=np.float32):
    """Simulated in several orders, right and without a finding; how many fences, and what explain() says."""
    kernel = tilelang.compile(main, target=SIM)
    a = np.random.default_rng(0).integers(-3, 4, (4, 64, 64)).astype(np.float16)
    c = np.full((64, 64), np.nan, dtype)
    for seed in SEEDS:
        report = kernel.simulate(a, c, seed=seed)
        assert not report.findings, report
    assert np.array_equal(c, wanted(a.astype(float)))
    notes = re.findall(
        r"a fence stands in front of this arrival: threads have written (\w+)", str(kernel.explain())
    )
    return kernel._kernel.machine_text.count("fence_proxy_async_shared()"), notes


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("reader", ["product", "store"])
def test_a_fence_in_front_of_the_arrival(tmp_path, writer, reader):
    dtype = "float32" if reader == "product" else "float16"
    text = text_of(WRITERS[writer], PRODUCT if reader == "product" else STORE, dtype)
    tile = (lambda a: a[0]) if writer == "copied" else (lambda a: a[0].T)
    wanted = (lambda a: tile(a) @ tile(a)) if reader == "product" else tile
    barriers = 2 if writer == "in two parts" else 1  # by which another team may know of what is written
    assert checked(load_text(tmp_path, text).main, wanted, np.dtype(dtype)) == (barriers, ["S"] * barriers)
    fenced = text.replace(
        "T.barrier_arrive(ready)", "T.fence_proxy_async()\n            T.barrier_arrive(ready)"
    )
    assert checked(load_text(tmp_path, fenced).main, wanted, np.dtype(dtype)) == (
        barriers,
        ["S"] * (barriers - 1),
    )


def test_the_threads_that_write_execute_it_not_those_that_arrive(tmp_path):
    text = text_of(BY_WARPS, PRODUCT, arrivals="4")
    assert checked(load_text(tmp_path, text).main, lambda a: a[0].T @ a[0].T) == (1, ["S"])


@pytest.mark.parametrize("fence, said", [("pass", ["S"]), ("T.fence_proxy_async()", [])])
def test_a_ring_that_threads_fill(tmp_path, fence, said):
    writer = RING_WRITER.format(fence=fence)
    text = text_of(writer, RING_READER, slots="2, ", arrivals="[128, 128]")
    wanted = lambda a: sum(a[k].T @ a[k].T for k in range(4))  # noqa: E731
    assert checked(load_text(tmp_path, text).main, wanted) == (1, said)


def test_no_fence_where_threads_read(tmp_path):
    reader = "T.barrier_wait(ready, 0)\nfor i, j in T.Parallel(64, 64): C[i, j] = S[i, j]"
    text = text_of(WRITERS["turned"], reader)
    assert checked(load_text(tmp_path, text).main, lambda a: a[0].T) == (0, [])


@pytest.mark.parametrize("reader, who, then", [
    (PRODUCT, "wgmma that the warp of thread", "the product may be of the old value"),
    (STORE, "bulk copy that thread", "the copy may read the old value"),
])  # fmt: skip
def test_what_the_simulator_says_where_the_program_places_its_own(tmp_path, reader, who, then):
    text = text_of(WRITERS["turned"], reader, "float32" if reader == PRODUCT else "float16")
    kernel = tilelang.compile(
        load_text(tmp_path, text).main, target=SIM, pass_configs={"tl.disable_thread_storage_sync": True}
    )
    c = np.zeros((64, 64), np.float32 if reader == PRODUCT else np.float16)
    with pytest.raises(tilelang.SimulationError) as caught:
        kernel.simulate(np.zeros((4, 64, 64), np.float16), c)
    said = str(caught.value)
    assert re.search(
        rf"missing proxy fence: S\[\d+\] is read by the {who} \d+ of block \(0\) of main begins", said
    )
    assert f"so {then}; let the threads that write execute T.fence_proxy_async(), before the barrier" in said
    assert hasattr(T, "fence_proxy_async")
