"""Thread indices, loops over threads, barriers, persistent loops, workspaces."""

import re

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import cuda_text, failure, kernel, load, run, simulate

SIM = "sim:sm_80"


# ── indices ───────────────────────────────────────────────────────────────────────────────────────────
def indices():
    @T.prim_func
    def main(A: T.Tensor((2, 3, 240, 10), "int32")):
        with T.Kernel(3, 2, threads=(20, 6, 2)) as (bx, by):
            tx, ty, tz = T.get_thread_bindings()
            n = tx + 20 * ty + 120 * tz
            A[by, bx, n, 0] = T.get_thread_binding(0)
            A[by, bx, n, 1] = T.get_thread_binding(1)
            A[by, bx, n, 2] = T.get_thread_binding(2)
            A[by, bx, n, 3] = T.get_lane_idx()
            A[by, bx, n, 4] = T.get_warp_idx()
            A[by, bx, n, 5] = T.get_warp_group_idx()
            A[by, bx, n, 6] = T.get_block_binding(0) + 10 * T.get_block_binding(1) + T.get_block_binding(2)
            A[by, bx, n, 7] = T.get_thread_extent(0) + T.get_thread_extents()[1] + T.get_thread_extent(2)
            if T.shuffle_elect(40):
                A[by, bx, n, 8] = 1
            if T.shuffle_elect(0):
                x, y, z = (T.get_block_extent(d) for d in range(3))
                A[by, bx, n, 9] = x + 10 * y + 100 * z

    return main


def test_indices():
    a = np.zeros((2, 3, 240, 10), np.int32)
    simulate(indices(), a)
    n = np.arange(240)
    for by in range(2):
        for bx in range(3):
            columns = [
                n % 20,
                n // 20 % 6,
                n // 120,
                n % 32,
                n // 32,
                n // 128,
                0 * n + bx + 10 * by,
                0 * n + 28,
                n % 40 == 0,
                123 * (n == 0),
            ]
            assert np.array_equal(a[by, bx], np.stack(columns, 1))
    cuda_text(indices())


def bound(n):
    @T.prim_func
    def main(A: T.Tensor((4, n), "float32"), B: T.Tensor((4, n), "float32")):
        with T.Kernel(4, threads=(64, 2)):
            for b in T.thread_binding(0, 4, thread="blockIdx.x"):
                for y in T.thread_binding(2, thread="threadIdx.y"):
                    for x in T.thread_binding(3, 40, thread="threadIdx.x"):
                        B[b, x + 40 * y] = A[b, x + 40 * y] * 2

    return main


def test_thread_binding():
    a = np.random.default_rng(0).standard_normal((4, 80)).astype(np.float32)
    b = np.full((4, 80), 7, np.float32)
    simulate(bound(80), a, b)
    expected = np.full((4, 80), 7, np.float32)
    for start in (3, 43):
        expected[:, start : start + 37] = 2 * a[:, start : start + 37]
    assert np.array_equal(b, expected)
    cuda_text(bound(80))


# ── barriers ──────────────────────────────────────────────────────────────────────────────────────────
def producer_consumer(rounds):
    """Two warps hand tiles to two others through named barriers: arrive on one side, wait on the other."""

    @T.prim_func
    def main(A: T.Tensor((rounds, 64), "float32"), B: T.Tensor((rounds, 64), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            S = T.alloc_shared((64,), "float32")
            for k in T.serial(rounds):
                if tx < 64:
                    S[tx] = A[k, tx]
                    T.named_barrier_arrive(1, 128)
                    T.sync_threads(2, 128)
                else:
                    T.sync_threads(1, 128)
                    B[k, tx - 64] = S[127 - tx]
                    T.named_barrier_arrive(2, 128)

    return main


def test_named_barriers():
    a = np.random.default_rng(0).standard_normal((5, 64)).astype(np.float32)
    b = np.full((5, 64), np.nan, np.float32)
    simulate(producer_consumer(5), a, b)
    assert np.array_equal(b, a[:, ::-1])
    text = cuda_text(producer_consumer(5))
    assert "tl_bar_sync<1>(128)" in text and "tl_bar_arrive<2>(128)" in text


def half_blocks():
    """Each half of the block has a barrier of its own."""

    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            S = T.alloc_shared((128,), "float32")
            if tx < 64:
                S[tx] = A[tx]
                T.sync_threads(barrier_id=3, arrive_count=64)
                B[tx] = S[63 - tx]
            else:
                S[tx] = A[tx]
                T.sync_threads(barrier_id=4, arrive_count=64)
                B[tx] = S[191 - tx]

    return main


def test_barriers_of_half_blocks():
    a, b = np.arange(128, dtype=np.float32), np.full(128, np.nan, np.float32)
    simulate(half_blocks(), a, b)
    assert np.array_equal(b, a.reshape(2, 64)[:, ::-1].reshape(-1))
    cuda_text(half_blocks())


def votes_of_block():
    @T.prim_func
    def main(A: T.Tensor((3, 96), "int32"), B: T.Tensor((3, 3), "int32")):
        with T.Kernel(3, threads=96) as b:
            tx = T.get_thread_binding()
            count = T.syncthreads_count(A[b, tx] > 3)
            every = T.syncthreads_and(A[b, tx] > 3)
            some = T.syncthreads_or(A[b, tx] > 3)
            if tx == 50:
                B[b, 0] = count
                B[b, 1] = every
                B[b, 2] = some

    return main


def test_votes_of_block():
    a = np.random.default_rng(0).integers(0, 8, (3, 96)).astype(np.int32)
    a[1], a[2] = 5, 2
    b = np.full((3, 3), -1, np.int32)
    simulate(votes_of_block(), a, b)
    yes = a > 3
    assert np.array_equal(b, np.stack([yes.sum(1), yes.all(1), yes.any(1)], 1))
    cuda_text(votes_of_block())


def grid_sum(blocks):
    """Partial sums of all blocks, then, behind the barrier, every block reads them all; twice."""

    @T.prim_func
    def main(A: T.Tensor((blocks, 64), "float32"), B: T.Tensor((blocks, 64), "float32")):
        with T.Kernel(blocks, threads=64) as b:
            P = T.alloc_global((blocks,), "float32")
            tx = T.get_thread_binding()
            for _ in T.serial(2):
                if tx == 0:
                    s = T.alloc_var("float32", 0.0)
                    for i in T.serial(64):
                        s += A[b, i]
                    P[b] = s
                T.sync_grid()
                total = T.alloc_var("float32", 0.0)
                for i in T.serial(blocks):
                    total += P[i]
                T.sync_grid()
                A[b, tx] = A[b, tx] / total
                T.sync_threads()
            B[b, tx] = A[b, tx]

    return main


def grid_sum_expected(a):
    a = a.astype(np.float64)
    for _ in range(2):
        a = a / a.sum()
    return a


def test_sync_grid():
    a = np.random.default_rng(0).uniform(0.5, 1.5, (7, 64)).astype(np.float32)
    b = np.full((7, 64), np.nan, np.float32)
    expected = grid_sum_expected(a)
    simulate(grid_sum(7), a.copy(), b)
    assert np.linalg.norm(b - expected) <= 1e-5 * np.linalg.norm(expected)
    assert "tl_sync_grid(" in cuda_text(grid_sum(7))


def meets(n, threads, by_hand):
    @T.prim_func
    def main(count: T.Tensor((1,), "int32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(n, threads=threads) as b:
            if by_hand:
                if T.get_thread_binding() == 0:
                    T.atomic_add(count[0], 1, memory_order="release")
                    while T.atomic_load(count[0], "acquire") < n:
                        pass
            else:
                T.sync_grid()
            if T.get_thread_binding() == 0:
                Y[b] = 1.0

    return main


@pytest.mark.parametrize("by_hand", [True, False])
def test_blocks_that_meet_fit_on_the_chip(by_hand):
    """One of 1024 threads on each multiprocessor of sm_86, two on each of sm_80."""
    for target, fits in (("sim:sm_86", 84), ("sim:sm_80", 216)):
        if by_hand or fits < 100:  # a barrier of 216 * 1024 threads takes seconds
            y = np.zeros(fits, np.float32)
            tilelang.compile(meets(fits, 1024, by_hand), target=target)(np.zeros(1, np.int32), y)
            assert (y == 1).all()
        words = "and 1 more blocks begin only" if by_hand else f"holds {fits} of 1024 threads"
        with pytest.raises(tilelang.CompileError, match=words):
            more = meets(fits + 1, 1024, by_hand)
            tilelang.compile(more, target=target)(np.zeros(1, np.int32), np.zeros(fits + 1, np.float32))


FAULTS = {
    "divergent": ("if tx < 5:\n    T.sync_threads()", "divergent flow"),
    "returned": ("if tx == 40:\n    return\nT.sync_threads()", "has returned"),
    "too few": ("if tx < 32:\n    T.sync_threads(1, 64)", "waits at barrier 1 for 64 threads, but only 32"),
    "two counts": ("if tx < 32:\n    T.sync_threads(1, 64)\nelse:\n    T.sync_threads(1, 96)", "expects 64"),
    "grid": ("if bx < 2:\n    T.sync_grid()", "has ended"),
    "warp": ("if tx % 2 == 0:\n    T.sync_warp()", "leave it out of the mask"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_faults_of_barriers(tmp_path, case):
    body, text = FAULTS[case]
    path = tmp_path / "faulty.py"
    lines = "\n".join("        " + line for line in body.split("\n"))
    path.write_text(
        "import tilelang.language as T\n@T.prim_func\ndef main(A: T.Tensor((64,), 'float32')):\n"
        "    with T.Kernel(4, threads=64) as bx:\n        tx = T.get_thread_binding()\n"
        f"{lines}\n        A[tx] = 1.0\n"
    )
    function = load(path).main
    with pytest.raises(tilelang.CompileError, match=re.escape(text)):
        simulate(function, np.zeros(64, np.float32))


def test_a_barrier_that_returned_threads_miss(tmp_path):
    """The compiler places no barrier where some threads do not come."""

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            S = T.alloc_shared((64,), "float32")
            S[tx] = A[tx]
            if tx > 40:
                return
            B[tx] = S[40 - tx]

    with pytest.raises(tilelang.CompileError, match="returned on line") as caught:
        tilelang.compile(main, target=SIM)
    assert "S[40 - tx]" in str(caught.value)


# ── persistent loops and workspaces ───────────────────────────────────────────────────────────────────
def persistent(domain, wave, group):
    m, n = domain

    @T.prim_func
    def main(Count: T.Tensor((m, n), "int32"), By: T.Tensor((m, n), "int32")):
        with T.Kernel(wave, threads=32) as block:
            for bx, by in T.Persistent([m, n], wave, block, group_size=group):
                if T.get_thread_binding() == 0:
                    Count[bx, by] = Count[bx, by] + 1
                    By[bx, by] = block

    return main


CASES = [((5, 7), 4, 8), ((9, 3), 4, 2), ((1, 13), 5, 3), ((4, 4), 20, 1)]


@pytest.mark.parametrize("domain, wave, group", CASES)
def test_persistent(domain, wave, group):
    count, by = np.zeros(domain, np.int32), np.full(domain, -1, np.int32)
    simulate(persistent(domain, wave, group), count, by)
    assert (count == 1).all()
    tiles = domain[0] * domain[1]
    assert np.array_equal(
        np.bincount(by.ravel(), minlength=wave), [len(range(b, tiles, wave)) for b in range(wave)]
    )
    cuda_text(persistent(domain, wave, group))


def persistent_gemm(M, N, K, wave, bM=32, bN=32, bK=32):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(wave, threads=64) as block:
            As = T.alloc_shared((bM, bK), "float16")
            Bs = T.alloc_shared((bK, bN), "float16")
            Cl = T.alloc_fragment((bM, bN), "float32")
            for bx, by in T.Persistent([T.ceildiv(M, bM), T.ceildiv(N, bN)], wave, block):
                T.clear(Cl)
                for k in T.Pipelined(T.ceildiv(K, bK)):
                    T.copy(A[bx * bM, k * bK], As)
                    T.copy(B[k * bK, by * bN], Bs)
                    T.gemm(As, Bs, Cl)
                T.copy(Cl, C[bx * bM, by * bN])

    return main


@pytest.mark.parametrize("shape", [(64, 96, 64), (70, 101, 45)])
def test_persistent_gemm(target, shape):
    M, N, K = shape
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((M, K), (K, N)))
    c = np.full((M, N), np.nan, np.float16)
    run(persistent_gemm(M, N, K, 4), target, a, b, c)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    assert np.linalg.norm(c - expected) <= 2e-3 * np.linalg.norm(expected)


def two_steps(dynamic):
    n = T.dynamic("n") if dynamic else 300

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        W = T.alloc_global((n,), "float32")
        with T.Kernel(T.ceildiv(n, 64), threads=64) as b:
            for i in T.Parallel(64):
                if b * 64 + i < n:
                    W[b * 64 + i] = A[b * 64 + i] * 3
        with T.Kernel(T.ceildiv(n, 64), threads=64) as b:
            for i in T.Parallel(64):
                if b * 64 + i < n:
                    B[b * 64 + i] = W[n - 1 - b * 64 - i] + 1

    return main


@pytest.mark.parametrize("dynamic", [False, True])
def test_workspace(target, dynamic):
    function = tilelang.compile(two_steps(dynamic), target=target)
    for n in (300, 177, 64) if dynamic else (300,):
        a = np.random.default_rng(n).standard_normal(n).astype(np.float32)
        b = np.full(n, np.nan, np.float32)
        function(a, b)
        assert np.array_equal(b, a[::-1] * np.float32(3) + np.float32(1))
    cuda_text(two_steps(dynamic))


# ── what is refused, what is accepted ─────────────────────────────────────────────────────────────────
REFUSED = {
    "barrier number": ("T.sync_threads(16, 32)", "barriers 0 to 15"),
    "barrier count": ("T.sync_threads(1, 40)", "a positive multiple of 32"),
    "barrier id of the device": ("T.sync_threads(n, 32)", "known while the kernel is built"),
    "binding too long": ("for i in T.thread_binding(64):\n    A[i, 0] = 1.0", "this kernel has 32"),
    "binding of nothing": ("for i in T.thread_binding(4, thread='vx'):\n    A[i, 0] = 1.0", "threadIdx.x"),
    "break in a binding": ("for i in T.thread_binding(4):\n    break", "T.thread_binding loop"),
    "dimension": ("x = T.get_thread_binding(3)", "dim must be 0, 1 or 2"),
    "registers": ("T.set_max_nreg(20, 1)", "a constant from 24 to 256 that 8 divides, not 20"),
    "products": ("T.wait_wgmma(8)", "a constant from 0 to 7, not 8"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(tmp_path, case):
    body, text = REFUSED[case]
    error = failure(tmp_path, body)
    assert text in str(error), str(error)
    assert error.line >= 5


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_thread_level_code_on_the_cpu(tmp_path, target):
    for body in (
        "T.sync_warp()",
        "T.sync_threads(1, 32)",
        "A[0, 0] = T.get_lane_idx()",
        "T.sync_grid()",
        "A[0, 0] = T.syncthreads_count(n > 0)",
        "A[0, 0] = T.any_sync(n > 0)",
    ):
        with pytest.raises(tilelang.CompileError, match="thread-level code"):
            tilelang.compile(kernel(tmp_path, body), target=target)


def test_hints_are_noted(tmp_path):
    function = kernel(tmp_path, "T.disable_warp_group_reg_alloc()\nT.no_set_max_nreg()\nA[0, 0] = 1.0")
    text = str(tilelang.compile(function, target=SIM).explain())
    assert "no_set_max_nreg changes nothing" in text
    assert "disable_warp_group_reg_alloc changes nothing" in text


# ── tiles of a thread's own ───────────────────────────────────────────────────────────────────────────
def own_tiles():
    """Operators on a thread's own array: each thread runs them for itself, whatever the others do."""

    @T.prim_func
    def main(A: T.Tensor((64, 4), "float32"), B: T.Tensor((64, 4), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            x = T.alloc_local((4,), "float32")
            T.clear(x)
            if tx % 3 == 0:
                T.copy(A[tx, 0:4], x)
                for i in T.Parallel(4):
                    x[i] = x[i] + tx
            T.copy(x, B[tx, 0:4])

    return main


def test_own_tiles():
    a = np.random.default_rng(0).standard_normal((64, 4)).astype(np.float32)
    b = np.full_like(a, np.nan)
    simulate(own_tiles(), a, b)
    n = np.arange(64, dtype=np.float32)[:, None]
    assert np.array_equal(b, np.where(n % 3 == 0, a + n, 0))
    cuda_text(own_tiles())


THREAD_LEVEL = {
    "barrier": "T.sync_threads()",
    "warp": "T.sync_warp()",
    "condition": "if tx == 0:\n    C[0] = 1",
    "shuffle": "x = T.shfl_sync(A[tx], 0)",
}


@pytest.mark.parametrize("elements", [128, 512])
@pytest.mark.parametrize("name", THREAD_LEVEL)
def test_nests_beside_thread_level_code_are_ordered(name, elements, tmp_path):
    """Also where a nest is a single statement of each thread, which has no loop."""
    body = (
        f"tx = T.get_thread_binding()\n{THREAD_LEVEL[name]}\n"
        f"for i in T.Parallel({elements}):\n    W[i] = A[i]\n"
        f"for i in T.Parallel({elements}):\n    C[i] = W[{elements - 1} - i]"
    )
    signature = ", ".join(f"{n}: T.Tensor(({elements},), 'float32')" for n in "AWC")
    main = kernel(tmp_path, body, signature, launch="T.Kernel(1, threads=128)")
    for target in ("sim:sm_80", "sim:sm_90a"):
        a, w, c = (
            np.arange(elements, dtype=np.float32),
            np.zeros(elements, np.float32),
            np.zeros(elements, np.float32),
        )
        tilelang.compile(main, target=target)(a, w, c)
        np.testing.assert_array_equal(c, a[::-1])
