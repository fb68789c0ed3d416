"""Faults that pipelines of other compilers are known for (test/faults.md, classes 10, 11, 14, 15 and 22): the
simulator runs each program under several schedules and looks for races, unwritten memory and hangs."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T

TARGETS = ["sim:sm_80", "sim:sm_75", "sim:gfx942"]  # by cp.async, by registers, with warps of 64 threads
UNORDERED = {"tl.disable_thread_storage_sync": True}  # without the barriers that the compiler places


def simulated(kernel, *arguments):
    report = kernel.simulate(*arguments, schedules=4)
    assert not report.findings, report.findings


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# ── 10: memory is written again while others read it ──────────────────────────────────────────────────────
def two_phases(rows, columns, tile=64):
    """Two loops, one after the other, whose tiles live at different times; threads read others' copies."""

    @T.prim_func
    def main(A: T.Tensor((rows, columns), "float32"), B: T.Tensor((2, tile), "float32")):
        with T.Kernel(1, threads=tile):
            total = T.alloc_fragment((tile,), "float32")
            T.clear(total)
            first = T.alloc_shared((8, tile), "float32")
            for k in T.Pipelined(T.ceildiv(rows, 8), num_stages=3):
                T.copy(A[k * 8, 0], first)
                for i in T.Parallel(tile):
                    for r in T.serial(8):
                        total[i] += first[r, tile - 1 - i]
            T.copy(total, B[0, :])
            T.clear(total)
            second = T.alloc_shared((8, tile), "float32")
            for k in T.Pipelined(T.ceildiv(rows, 8), num_stages=2):
                T.copy(A[k * 8, 0], second)
                for i in T.Parallel(tile):
                    for r in T.serial(8):
                        total[i] += second[r, (i + 17) % tile]
            T.copy(total, B[1, :])

    return main


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("rows", "columns"), [(64, 64), (37, 50), (5, 64)])
def test_10_the_next_phase_and_the_next_iteration_wait(target, rows, columns):
    a, b = random(rows, columns), np.full((2, 64), np.nan, np.float32)
    simulated(tilelang.compile(two_phases(rows, columns), target=target), a, b)
    sums = np.zeros(64)
    sums[:columns] = a.sum(0, dtype=np.float64)
    exact = np.stack([sums[::-1], np.roll(sums, -17)])
    assert np.linalg.norm(b - exact) <= 1e-6 * np.linalg.norm(exact)


@pytest.mark.parametrize("target", TARGETS)
def test_10_without_barriers_it_is_found(target):
    kernel = tilelang.compile(two_phases(64, 64), target=target, pass_configs=UNORDERED)
    with pytest.raises(tilelang.SimulationError, match="data race"):
        kernel.simulate(random(64, 64), np.zeros((2, 64), np.float32), schedules=4)


# ── 11: a barrier that not all come to ────────────────────────────────────────────────────────────────────
def by_one_team(team, trips=6):
    """A pipelined loop in one of two teams of 128 threads; the other one does something else meanwhile."""

    @T.prim_func
    def main(A: T.Tensor((trips, 128), "float32"), B: T.Tensor((2, 128), "float32")):
        with T.Kernel(1, threads=256):
            S, total = T.alloc_shared((128,), "float32"), T.alloc_fragment((128,), "float32")
            with T.ws(team):
                T.clear(total)
                for k in T.Pipelined(trips, num_stages=3):
                    T.copy(A[k, 0], S)
                    for i in T.Parallel(128):
                        total[i] += S[127 - i]
                T.copy(total, B[0, :])
            with T.ws(1 - team):
                for i in T.Parallel(128):
                    B[1, i] = A[0, i] * 2

    return main


@pytest.mark.parametrize("target", ["sim:sm_80", "sim:sm_75"])
@pytest.mark.parametrize("team", [0, 1])
def test_11_a_team_waits_for_its_own_threads(target, team):
    kernel = tilelang.compile(by_one_team(team), target=target)
    a, b = random(6, 128), np.full((2, 128), np.nan, np.float32)
    simulated(kernel, a, b)
    assert np.allclose(b[0], a.sum(0)[::-1], atol=1e-5) and np.array_equal(b[1], 2 * a[0])


# ── 14: fewer iterations than stages, or none ─────────────────────────────────────────────────────────────
def any_trips(kind, stages):
    @T.prim_func
    def main(A: T.Tensor((512, 64), "float16"), n: T.int32, B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((16, 64), "float32" if kind == "cast" else "float16")
            total = T.alloc_fragment((64,), "float32")
            T.clear(total)
            for k in T.Pipelined(n, num_stages=stages):
                if kind == "condition":
                    if k % 2 == 0:
                        T.copy(A[k * 16, 0], S)
                    else:
                        T.clear(S)
                else:
                    T.copy(A[k * 16, 0], S)
                for i in T.Parallel(64):
                    for r in T.serial(16):
                        total[i] += T.float32(S[r, 63 - i])
            T.copy(total, B)

    return main


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["plain", "cast", "condition"])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_14_any_number_of_iterations_known_at_run_time(target, kind, stages):
    kernel = tilelang.compile(any_trips(kind, stages), target=target)
    a = random(512, 64).astype(np.float16)
    for trips in (0, 1, 2, 3, 5):
        b = np.full(64, np.nan, np.float32)
        simulated(kernel, a, trips, b)
        used = a.astype(np.float64)[: trips * 16].reshape(trips, 16, 64)
        exact = (used[::2] if kind == "condition" else used).sum((0, 1))[::-1]
        assert np.linalg.norm(b - exact) <= 1e-5 * max(1, np.linalg.norm(exact))


# ── 15: conditions, nests, lengths that do not divide ─────────────────────────────────────────────────────
def skipping(rows, inner):
    """Some iterations copy nothing and must not wait for ever; with `inner`, a pipelined loop in another."""

    @T.prim_func
    def main(
        A: T.Tensor((4, rows, 64), "float32"),
        wanted: T.Tensor((4,), "int32"),
        length: T.int32,
        B: T.Tensor((64,), "float32"),
    ):
        with T.Kernel(1, threads=64):
            S, total = T.alloc_shared((8, 64), "float32"), T.alloc_fragment((64,), "float32")
            T.clear(total)
            for b in T.Pipelined(4, num_stages=2) if inner else T.serial(4):
                for k in T.Pipelined(T.ceildiv(length, 8), num_stages=3):
                    if wanted[b] > k:
                        T.copy(A[b, k * 8, 0], S)
                        for i in T.Parallel(64):
                            for r in T.serial(8):
                                if k * 8 + r < length:
                                    total[i] += S[r, 63 - i]
            T.copy(total, B)

    return main


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("rows", [40, 37])
def test_15_what_copies_nothing_waits_for_nothing(target, inner, rows):
    kernel = tilelang.compile(skipping(rows, inner), target=target)
    a = random(4, rows, 64)
    for length, wanted in ((rows, [9, 0, 2, 1]), (11, [1, 1, 0, 5]), (0, [3, 3, 3, 3])):
        b = np.full(64, np.nan, np.float32)
        simulated(kernel, a, np.array(wanted, np.int32), length, b)
        exact = sum(a[i, : min(length, 8 * w)].sum(0, dtype=np.float64) for i, w in enumerate(wanted))[::-1]
        assert np.linalg.norm(b - exact) <= 1e-5 * max(1, np.linalg.norm(exact))


# ── 22: what is done less well than asked is said ─────────────────────────────────────────────────────────
def refused(kernel):
    return " ".join(note.text for note in kernel.report.refusals)


def test_22_a_pipeline_in_order_says_so():
    """Also where it is the outer one of two: the inner one is pipelined."""
    kernel = tilelang.compile(skipping(40, inner=True), target="sim:sm_80")
    assert "runs in order, num_stages=2 has no effect: the loop on line" in refused(kernel)
    assert len(kernel.report.pipelines) == 2 and not kernel.report.pipelines[0].steps
    with pytest.raises(tilelang.CompileError, match="strict=True"):
        tilelang.compile(skipping(40, inner=True), target="sim:sm_80", strict=True)


def test_22_a_copy_that_is_not_asynchronous_is_seen():
    """A cast takes the way through registers, and every chip without cp.async does."""
    hows = {
        (kind, target): {
            step.how for step in tilelang.compile(any_trips(kind, 3), target=target).report.pipelines[0].steps
        }
        for kind in ("plain", "cast")
        for target in ("sim:sm_80", "sim:sm_75")
    }
    through = {"", "loaded into registers", "stored from registers"}
    assert hows == {
        ("plain", "sim:sm_80"): {"", "begun by cp.async"},
        ("cast", "sim:sm_80"): through,
        ("plain", "sim:sm_75"): through,
        ("cast", "sim:sm_75"): through,
    }
