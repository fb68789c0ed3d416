"""What the simulator advises: the cure must be one that would help."""

import linecache

import numpy as np
import pytest
import tilelang
import tilelang.language as T

SIM = "sim:sm_90a"
Tile = T.Tensor((64, 64), "float16")
Sums = T.Tensor((64, 64), "float32")


def findings(function, *arguments, seed=0):
    kernel = tilelang.compile(function, target=SIM)
    with pytest.raises(tilelang.SimulationError) as error:
        kernel.simulate(*arguments, seed=seed, count=False)
    return error.value.report.findings


def halves():
    return np.ones((64, 64), "float16"), np.zeros((64, 64), "float32")


# ── products of warpgroups ────────────────────────────────────────────────────────────────────────────
def product(waits=True, fills=False, behind=False):
    @T.prim_func
    def main(X: Tile, Y: Sums):
        with T.Kernel(1, threads=256):
            S = T.alloc_shared((64, 64), "float16")
            full, free = T.alloc_barrier(128), T.alloc_barrier(128)
            with T.ws(1):
                if behind:
                    T.barrier_wait(free, 0)
                T.tma_copy(X, S, barrier=full)
                T.barrier_arrive(full)
                T.barrier_wait(full, 0)
            with T.ws(0):
                C = T.alloc_fragment((64, 64), "float32")
                if waits:
                    T.barrier_wait(full, 0)
                T.wgmma_gemm(S, S, C, clear_accum=True)
                if fills:
                    T.fill(S, 1)
                T.wait_wgmma(0)
                if behind:
                    T.barrier_arrive(free)
                T.copy(C, Y)

    return main


@pytest.mark.parametrize("seed", range(6))
def test_a_product_of_a_tile_that_is_not_waited_for(seed):
    """Whichever comes first, the reader must wait for the load's barrier."""
    first = findings(product(waits=False), *halves(), seed=seed)[0]
    assert first.kind == "race" and "T.fill" not in first.text and "empty" not in first.text, first.text
    assert (
        "wait first for phase 0 of full[0]" in first.text or "wait for phase 0 of its mbarrier" in first.text
    )


def test_a_product_before_the_load_begins():
    first = findings(product(waits=False, behind=True), *halves())[0]
    assert first.kind == "unwritten" and "S[0] is read by thread 0" in first.text, first.text
    assert "fills it: wait first for the phase of full that it signals (T.barrier_wait)" in first.text


@pytest.mark.parametrize("seed", range(4))
def test_a_tile_that_is_written_under_a_product(seed):
    found = findings(product(fills=True), *halves(), seed=seed)
    texts = [f.text for f in found if "a product that" in f.text]
    assert texts, found
    assert all("T.wait_wgmma(0)" in t and "mbarrier" not in t for t in texts), texts


@pytest.mark.parametrize("left", [0, 1])
def test_the_next_load_under_a_product(left):
    """The wait that leaves a product under way is not enough for the slot of the last one."""

    @T.prim_func
    def main(X: T.Tensor((3, 64, 64), "float16"), Y: Sums):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((64, 64), "float16")
            full = T.alloc_barrier(128)
            C = T.alloc_fragment((64, 64), "float32")
            for k in T.serial(3):
                T.tma_copy(X[k, :, :], S, barrier=full)
                T.barrier_arrive(full)
                T.barrier_wait(full, k % 2)
                T.wgmma_gemm(S, S, C, clear_accum=(k == 0))
                if left:
                    T.wait_wgmma(left)
            T.wait_wgmma(0)
            T.copy(C, Y)

    first = findings(main, np.ones((3, 64, 64), "float16"), halves()[1])[0]
    assert "wait for the product first (T.wait_wgmma(0)" in first.text and "mbarrier" not in first.text


@pytest.mark.parametrize("upper", [False, True])
def test_half_of_a_warpgroup_gives_registers_back(upper):
    @T.prim_func
    def main(X: Tile, Y: Sums):
        with T.Kernel(1, threads=128):
            S, C = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float32")
            tx = T.get_thread_binding()
            T.copy(X, S)
            if (tx >= 64) == upper:
                T.set_max_nreg(40, 0)
            T.wgmma_gemm(S, S, C, clear_accum=True)
            T.wait_wgmma(0)
            T.copy(C, Y)

    first = findings(main, *halves())[0]
    one, other = (2, 0) if upper else (0, 2)
    assert "T.set_max_nreg(40, 0)" in linecache.getline(*first.place[:2]), first
    assert (
        f"setmaxnreg_dec is for whole warpgroups: warp {one} executes it here, but warp {other}" in first.text
    )


# ── what is made of unwritten memory ──────────────────────────────────────────────────────────────────
def test_a_store_by_the_accelerator_of_what_nobody_wrote():
    @T.prim_func
    def main(X: Tile, Y: Tile):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((64, 64), "float16")
            F = T.alloc_fragment((64, 64), "float16")
            T.copy(F, S)
            T.tma_copy(S, Y)
            T.tma_store_wait(0)

    first = findings(main, halves()[0], halves()[0])[0]
    assert "and a value computed from it is used (line " in first.text and "  " not in first.text, first.text


# ── races between blocks ──────────────────────────────────────────────────────────────────────────────
def neighbours(i, b):
    return (b * 32 + i + 1) % 128


def half_of_the_next(i, b):
    return b * 16 + i


@pytest.mark.parametrize("place", [neighbours, half_of_the_next])
@pytest.mark.parametrize("seed", range(4))
def test_blocks_that_write_what_others_read(place, seed):
    """Also where threads of one block race there: a barrier would order only these."""

    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), M: T.Tensor((128,), "float32")):
        with T.Kernel(4, threads=32) as b:
            for i in T.Parallel(32):
                M[place(i, b)] = M[b * 32 + i] + A[b * 32 + i]

    first = findings(main, np.ones(128, "float32"), np.ones(128, "float32"), seed=seed)[0]
    assert first.kind == "race" and " of block (" in first.text.split("it, thread")[1], first.text
    for cure in ["elements of its own", "atomic access", "T.sync_grid()", "a kernel of its own"]:
        assert cure in first.text
    assert "T.sync_threads" not in first.text
