"""What the simulator advises where barriers in memory do not order a tile: the fact that the program got
wrong, and its cure."""

import linecache

import numpy as np
import pytest
import tilelang
import tilelang.language as T

STEPS = 8
Rows = T.Tensor((STEPS * 32, 64), "float16")


def first(function, seed, *arguments):
    if not arguments:
        arguments = np.ones((STEPS * 32, 64), "float16"), np.zeros((STEPS * 32, 64), "float16")
    kernel = tilelang.compile(function, target="sim:sm_90a")
    with pytest.raises(tilelang.SimulationError) as error:
        kernel.simulate(*arguments, seed=seed, count=False)
    return error.value.report.findings[0]


def ring(loader_arrives=True, by_warp=False, meets=False, readers=1, counted=1):
    """Two slots, filled by one thread and read by ordinary loads."""
    teams = tuple(range(readers))

    @T.prim_func
    def main(A: Rows, B: Rows):
        with T.Kernel(1, threads=128 + 128 * readers):
            tx = T.get_thread_binding()
            S = T.alloc_shared((2, 32, 64), "float16")
            full = T.alloc_barrier([1] * 2)
            empty = T.alloc_barrier([4 if by_warp else 128 * counted] * 2)
            with T.ws(readers):
                if tx == 128 * readers:
                    for k in T.serial(STEPS):
                        T.barrier_wait(empty[k % 2], (k // 2 + 1) % 2)
                        T.tma_copy(A[k * 32, 0], S[k % 2, :, :], barrier=full[k % 2])
                        if loader_arrives:
                            T.barrier_arrive(full[k % 2])
            for reader in teams:
                with T.ws(reader):
                    F = T.alloc_fragment((32 // readers, 64), "float16")
                    for k in T.serial(STEPS):
                        T.barrier_wait(full[k % 2], k // 2 % 2)
                        T.copy(S[k % 2, reader * (32 // readers), 0], F)
                        if meets:
                            T.sync_warp()
                        if not by_warp or tx % 32 == 0:
                            T.barrier_arrive(empty[k % 2])
                        T.copy(F, B[k * 32 + reader * (32 // readers), 0])

    return main


SEEDS = pytest.mark.parametrize("seed", range(4))


@pytest.mark.parametrize("by_warp", [False, True])
def test_the_ring_itself_is_right(by_warp):
    a, b = np.ones((STEPS * 32, 64), "float16"), np.zeros((STEPS * 32, 64), "float16")
    tilelang.compile(ring(by_warp=by_warp, meets=True), target="sim:sm_90a").simulate(a, b, schedules=4)
    assert np.array_equal(a, b)


@SEEDS
def test_one_lane_arrives_for_a_warp_that_has_not_met(seed):
    text = first(ring(by_warp=True), seed).text
    assert "read it, but only thread " in text and " of its warp arrives at empty[" in text, text
    assert text.endswith("let the warp meet before that arrival (T.sync_warp())"), text


@SEEDS
def test_nobody_arrives_behind_the_copy(seed):
    text = first(ring(loader_arrives=False), seed).text
    assert "counts its bytes in this phase, but nobody arrives: put T.barrier_arrive(full[0]) be" in text, (
        text
    )
    assert "parity 1;" not in text


@SEEDS
def test_a_barrier_that_counts_one_team_of_two(seed):
    text = first(ring(readers=2), seed).text
    assert "counts 128 arrivals" in text and "T.alloc_barrier(" in text, text


@SEEDS
def test_a_copy_that_counts_at_another_barrier(seed):
    @T.prim_func
    def main(A: Rows, B: Rows):
        with T.Kernel(1, threads=128):
            S, R = T.alloc_shared((32, 64), "float16"), T.alloc_shared((32, 64), "float16")
            x, y = T.alloc_barrier(128), T.alloc_barrier(128)
            T.tma_copy(A[0, 0], S, barrier=x)
            T.tma_copy(A[32, 0], R, barrier=x)
            T.barrier_arrive(x)
            T.barrier_arrive(y)
            T.barrier_wait(y, 0)
            T.copy(R, B[32, 0])
            T.barrier_wait(x, 0)
            T.copy(S, B[0, 0])

    text = first(main, seed).text
    assert "has waited for y[0], of which no copy tells" in text and "counts at x[0]" in text, text
    assert "let it count at y[0] (barrier=), or let the reader wait for phase 0 of x[0] (parity 0)" in text


@SEEDS
@pytest.mark.parametrize("bulk", [False, True])
def test_an_arrival_that_comes_before_the_bytes_are_expected(bulk, seed):
    @T.prim_func
    def main(A: Rows, B: Rows):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            S, x = T.alloc_shared((32, 64), "float16"), T.alloc_barrier(1)
            if tx == 64:
                T.barrier_arrive(x)
            T.sync_threads()
            if tx == 32:
                T.tma_copy(A[0, 0], S, barrier=x)
            T.barrier_wait(x, 0)
            if bulk:
                T.tma_copy(S, B[0, 0])
                T.tma_store_wait(0)
            else:
                for i, j in T.Parallel(32, 64):
                    B[i, j] = S[i, j]

    f = first(main, seed)
    assert "phase 0 of x[0], for which the reader has waited, ended with thread 64 (line " in f.text, f.text
    assert f.text.endswith("let the thread that begins the copy arrive behind it"), f.text


@SEEDS
def test_a_deadlock_names_who_waits_at_a_named_barrier(seed):
    @T.prim_func
    def main(A: Rows, B: Rows):
        with T.Kernel(1, threads=384):
            S = T.alloc_shared((32, 64), "float16")
            full, empty = T.alloc_barrier(128), T.alloc_barrier(256)
            with T.ws(0):
                for k in T.serial(2):
                    T.barrier_wait(empty, (k + 1) % 2)
                    T.tma_copy(A[k * 32, 0], S, barrier=full)
                    T.barrier_arrive(full)
            with T.ws(1):
                for k in T.serial(2):
                    T.barrier_wait(full, k % 2)
                    T.sync_threads(4, 256)
                    T.barrier_arrive(empty)
            with T.ws(2):
                for k in T.serial(2):
                    T.barrier_wait(full, k % 2)
                    T.copy(S, B[k * 32, 0])
                    T.barrier_arrive(empty)

    f = first(main, seed)
    assert f.kind == "deadlock" and "waits for phase" in f.text, f.text
    assert "; thread 128 waits at barrier 4 (line " in f.text, f.text
    assert ", where 128 of 256 threads have arrived" in f.text, f.text


def test_an_index_beyond_the_barriers():
    @T.prim_func
    def main(A: Rows, B: Rows):
        with T.Kernel(1, threads=128):
            bar = T.alloc_barrier([128] * 2)
            for k in T.serial(3):
                T.barrier_arrive(bar[k])
            T.copy(A, B)

    f = first(main, 0)
    assert f.kind == "outside" and "uses bar[2], but index 2 is outside [0, 2)" in f.text, f.text
    assert "T.barrier_arrive(bar[k])" in linecache.getline(*f.place[:2])


def test_a_parity_that_starts_again_for_each_tile():
    """A load that nobody waits for at the end: the readers ran ahead."""

    @T.prim_func
    def main(A: T.Tensor((6, 64), "float16"), B: T.Tensor((6, 64), "float16")):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            S = T.alloc_shared((2, 64), "float16")
            full, empty = T.alloc_barrier([1] * 2), T.alloc_barrier([128] * 2)
            with T.ws(1):
                if tx == 128:
                    for tile in T.serial(2):
                        for k in T.serial(3):
                            T.barrier_wait(empty[k % 2], (k // 2 + 1) % 2)
                            T.tma_copy(A[tile * 3 + k, :], S[k % 2, :], barrier=full[k % 2])
                            T.barrier_arrive(full[k % 2])
            with T.ws(0):
                for tile in T.serial(2):
                    for k in T.serial(3):
                        T.barrier_wait(full[k % 2], k // 2 % 2)
                        T.copy(S[k % 2, :], B[tile * 3 + k, :])
                        T.barrier_arrive(empty[k % 2])

    tiles = np.ones((6, 64), "float16")
    for seed in range(4):
        text = first(main, seed, tiles, np.zeros_like(tiles)).text
        assert "twice for the end of one phase of " in text, text
        assert "wait for it before that" not in text


# ── barriers that blocks of a cluster reach ───────────────────────────────────────────────────────────
Pair = T.Tensor((2, 64), "float32")


def pair():
    return np.ones((2, 64), "float32"), np.zeros((2, 64), "float32")


def test_a_deadlock_in_a_cluster_names_blocks():
    @T.prim_func
    def main(A: Pair, B: Pair):
        with T.Kernel(2, threads=64, cluster_dims=2) as b:
            x = T.alloc_cluster_barrier(3)
            if T.get_thread_binding() == 5:
                T.mbarrier_arrive(x, cta_id=0)
            T.barrier_wait(x, 0)
            T.copy(A[b, :], B[b, :])

    for seed in range(4):
        text = first(main, seed, *pair()).text
        own, other = ("0", "1") if " of block (0) of main waits" in text else ("1", "0")
        assert f" of block ({own}) of main waits for phase 0 of x[0]" in text, text
        assert "block (0)" in text and "block (1)" in text, text
        if own == "0":
            assert "thread 5 of block (0) (line " in text and ", thread 5 of block (1) (line " in text, text
        else:
            assert f"; thread 0 of block ({other}) waits" in text, text


def test_an_arrival_too_many_from_another_block():
    """Threads of one number, of two blocks, are not one thread."""

    @T.prim_func
    def main(A: Pair, B: Pair):
        with T.Kernel(2, threads=64, cluster_dims=2) as b:
            x = T.alloc_cluster_barrier(1)
            if T.get_thread_binding() == 0 and b == 0:
                T.mbarrier_expect_tx(x, 256)
                T.mbarrier_arrive(x, cta_id=0)
            T.cluster_sync()
            if T.get_thread_binding() == 0 and b == 1:
                T.mbarrier_arrive(x, cta_id=0)
            T.cluster_sync()
            T.copy(A[b, :], B[b, :])

    text = first(main, 0, *pair()).text
    assert (
        "thread 0 of block (1) of main arrives at x[0] of block (0), but phase 0 has the 1 arrival" in text
    ), text
    assert "(thread 0 of block (0) (line " in text and "again" not in text, text


def test_a_reader_that_waits_for_the_writers_parity():
    """A wait for parity 1 of a barrier that no phase of has ended is over at once."""

    @T.prim_func
    def main(A: T.Tensor((64, 256), "float16"), C: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=256):
            tile = T.alloc_shared((2, 64, 64), "float16")
            full, empty = T.alloc_barrier([1] * 2), T.alloc_barrier([128] * 2)
            with T.ws(1):
                if T.get_thread_binding() == 128:
                    for k in T.serial(4):
                        T.barrier_wait(empty[k % 2], (k // 2 + 1) % 2)
                        T.tma_copy(A[0, k * 64], tile[k % 2, :, :], barrier=full[k % 2])
                        T.barrier_arrive(full[k % 2])
            with T.ws(0):
                for k in T.serial(4):
                    T.barrier_wait(full[k % 2], (k // 2 + 1) % 2)  # k // 2 % 2
                    T.copy(tile[k % 2, :, :], C)
                    T.barrier_arrive(empty[k % 2])

    with pytest.raises(tilelang.SimulationError) as caught:
        tilelang.compile(main, target="sim:sm_90a").simulate(
            np.ones((64, 256), np.float16), np.zeros((64, 64), np.float16)
        )
    text = str(caught.value)
    assert "parity 1 of full[0] is over at once" in text and "was parity 0 meant?" in text, text
    assert "phase -1" not in text and "ended with  " not in text, text
