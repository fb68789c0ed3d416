"""T.tma_copy in rings between teams, by all threads, by one; stores that go on beside the threads; the
barriers and fences that the compiler places, and those that it does not."""

import re

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from tma_cases import SIM, gemm, multiplied, numbers, run, whole_block


@pytest.mark.parametrize("target", [SIM, "reference"])
@pytest.mark.parametrize("M, N, K", [(128, 256, 192), (100, 136, 328), (64, 128, 64), (72, 8, 8)])
def test_a_gemm_by_a_producer_and_a_consumer(M, N, K, target):
    multiplied(gemm(M, N, K), M, N, K, target)


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_rings_of_other_lengths(slots):
    multiplied(gemm(64, 64, 328, slots, bn=64), 64, 64, 328, schedules=20)


def test_teams_get_what_the_program_says():
    """No barrier but the block's behind the initialisation, and one of the consumer's threads between the
    fragment that they store and the copy that one of them starts."""
    source = tilelang.compile(gemm(128, 256, 192), target=SIM).get_kernel_source()
    body = source[source.index("main_kernel") :]
    assert body.count("__syncthreads()") == 1 and body.count("bar_sync") == 1
    at = body.index("tl_bar_sync<")
    assert re.search(r"tl_fence_proxy_async_shared\(\);\s*$", body[:at])
    assert body[at:].index("tensor_2d_store") < body[at:].index("commit_group")
    assert body.count("fence_proxy") == 1


@pytest.mark.parametrize("in_one", [False, True])
def test_teams_in_one_loop_run_ahead_all_the_same(in_one):
    """A loop around both teams, or one for each: no barrier of the block in it, one in front of it for
    what was written to the tile before."""

    @T.prim_func
    def main(X: T.Tensor((6, 16, 64), "float16"), Y: T.Tensor((6, 16, 64), "float16")):
        with T.Kernel(1, threads=256):
            S = T.alloc_shared((2, 16, 64), "float16")
            full, empty = T.alloc_barrier([128, 128]), T.alloc_barrier([128, 128])
            T.clear(S)
            if in_one:
                for k in T.serial(6):
                    with T.ws(0):
                        T.barrier_wait(empty[k % 2], (k // 2 + 1) % 2)
                        T.tma_copy(X[k, :, :], S[k % 2, :, :], barrier=full[k % 2])
                        T.barrier_arrive(full[k % 2])
                    with T.ws(1):
                        T.barrier_wait(full[k % 2], k // 2 % 2)
                        T.copy(S[k % 2, :, :], Y[k, :, :])
                        T.barrier_arrive(empty[k % 2])
            else:
                with T.ws(0):
                    for k in T.serial(6):
                        T.barrier_wait(empty[k % 2], (k // 2 + 1) % 2)
                        T.tma_copy(X[k, :, :], S[k % 2, :, :], barrier=full[k % 2])
                        T.barrier_arrive(full[k % 2])
                with T.ws(1):
                    for k in T.serial(6):
                        T.barrier_wait(full[k % 2], k // 2 % 2)
                        T.copy(S[k % 2, :, :], Y[k, :, :])
                        T.barrier_arrive(empty[k % 2])

    x, y = numbers((6, 16, 64), "float16"), np.zeros((6, 16, 64), "float16")
    kernel = run(main, x, y, schedules=12)
    assert np.array_equal(x, y)
    source = kernel.get_kernel_source()
    source = source[source.index("main_kernel") :]
    loop = source.index("for (int k = 0")
    assert source[:loop].count("__syncthreads") == 2 and source[:loop].count("fence_proxy_async") == 1
    assert "sync" not in source[loop:].replace("cp_async", "").replace("proxy_async", "")


def test_one_barrier_a_turn_without_teams():
    kernel = multiplied(whole_block(100, 136, 200), 100, 136, 200, schedules=12)
    source = kernel.get_kernel_source()
    source = source[source.index("main_kernel") :]
    loop = source[source.index("for (int k = 0") : source.index("tl_round")]
    assert loop.count("__syncthreads()") == 2  # one in the turn, in front of the copies; one behind the loop
    assert loop.index("__syncthreads()") < loop.index("tensor_2d_load")


@pytest.mark.parametrize("K", [64, 200, 392])
def test_beside_copies_that_run_ahead(K):
    """In a pipelined loop the copies of T.copy run ahead, those by hand stay where they are."""

    @T.prim_func
    def main(
        A: T.Tensor((100, K), "float16"), B: T.Tensor((K, 72), "float16"), C: T.Tensor((100, 72), "float16")
    ):
        with T.Kernel(2, 2, threads=128) as (bx, by):
            As, Bs = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            Cl = T.alloc_fragment((64, 64), "float32")
            full = T.alloc_barrier(128)
            T.clear(Cl)
            for k in T.Pipelined(T.ceildiv(K, 64), num_stages=3):
                T.tma_copy(A[by * 64, k * 64], As, barrier=full)
                T.barrier_arrive(full)
                T.copy(B[k * 64, bx * 64], Bs)
                T.barrier_wait(full, k % 2)
                T.gemm(As, Bs, Cl)
            T.copy(Cl, C[by * 64, bx * 64])

    kernel = multiplied(main, 100, 72, K, schedules=10)
    assert K == 64 or [(t.name, t.slots) for t in kernel.report.pipelines[0].tiles] == [
        ("Bs", min(3, -(-K // 64)))
    ]


def test_by_one_thread_under_a_condition():
    """A team of one thread: it copies, arrives for all, and stores what it has written itself."""

    @T.prim_func
    def main(X: T.Tensor((3, 64), "float32"), Y: T.Tensor((3, 64), "float32")):
        with T.Kernel(1, threads=64):
            S, R = T.alloc_shared((64,), "float32"), T.alloc_shared((64,), "float32")
            tx = T.get_thread_binding()
            full = T.alloc_barrier(1)
            for k in T.serial(3):
                if tx == 0:
                    T.tma_copy(X[k, :], S, barrier=full)
                    T.mbarrier_arrive(full)
                T.mbarrier_wait_parity(full, k % 2)
                R[tx] = S[63 - tx]
                if tx == 63:
                    T.tma_copy(R, Y[k, :])
                    T.tma_store_wait(0)

    x, y = numbers((3, 64), "float32"), np.zeros((3, 64), "float32")
    kernel = run(main, x, y, schedules=20)
    assert np.array_equal(y, x[:, ::-1])
    assert "bar_sync" not in kernel.get_kernel_source()


def test_stores_that_overlap_the_next_tile():
    """Two tiles in turn: the one before the last must have been read."""

    @T.prim_func
    def main(X: T.Tensor((6, 32, 64), "float16"), Y: T.Tensor((6, 32, 64), "float16")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((2, 32, 64), "float16")
            for k in T.serial(6):
                for i, j in T.Parallel(32, 64):
                    S[k % 2, i, j] = X[k, i, j] + T.float16(1)
                T.tma_copy(S[k % 2, :, :], Y[k, :, :])
                T.tma_store_arrive()
                T.tma_store_wait(0)

    x, y = numbers((6, 32, 64), "float16"), np.zeros((6, 32, 64), "float16")
    kernel = run(main, x, y, schedules=12)
    assert np.array_equal(y, x + 1)
    loop = kernel.get_kernel_source().split("for (int k = 0")[1]
    assert re.search(r"fence_proxy_async_shared\(\);\s*__syncthreads\(\);\s*if \(tx == 0\)", loop)


def test_a_fence_behind_the_programs_own_barrier():
    """What threads wrote before T.sync_threads() is stored all the same: the fence and a barrier come
    before it."""

    @T.prim_func
    def main(X: T.Tensor((32, 64), "float16"), Y: T.Tensor((32, 64), "float16")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((32, 64), "float16")
            T.copy(X, S)
            T.sync_threads()
            T.tma_copy(S, Y)
            T.tma_store_wait()

    x, y = numbers((32, 64), "float16"), np.zeros((32, 64), "float16")
    run(main, x, y)
    assert np.array_equal(x, y)


def test_a_tile_in_the_place_of_another():
    """What threads wrote to a tile that is gone, and the copy that comes in its place."""

    @T.prim_func
    def main(X: T.Tensor((64, 64), "float16"), Y: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            full = T.alloc_barrier(128)
            P = T.alloc_shared((64, 64), "float16")
            F = T.alloc_fragment((64, 64), "float16")
            for i, j in T.Parallel(64, 64):
                P[i, j] = X[j, i]
            T.copy(P, F)
            S = T.alloc_shared((64, 64), "float16")
            T.tma_copy(X, S, barrier=full)
            T.barrier_arrive(full)
            T.barrier_wait(full, 0)
            for i, j in T.Parallel(64, 64):
                F[i, j] = F[i, j] + S[i, j]
            T.copy(F, Y)

    x, y = numbers((64, 64), "float16"), np.zeros((64, 64), "float16")
    kernel = run(main, x, y)
    assert np.array_equal(y, x + x.T)
    places = {b.name: b.address for b in kernel.report.buffers}
    assert places["P"] <= places["S"] < places["P"] + 64 * 64 * 2
