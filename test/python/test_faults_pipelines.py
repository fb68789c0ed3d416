"""Faults that pipelines of other compilers are known for (test/faults.md, classes 10, 11, 14, 15 and 22): the
simulator runs each program under several schedules and looks for races, unwritten memory and hangs."""

import re

import numpy as np
import pytest
import tilelang
import tilelang.language as T

TARGETS = ["sim:sm_80", "sim:sm_75", "sim:gfx942"]  # by cp.async, by registers, with warps of 64 threads
UNORDERED = {"tl.disable_thread_storage_sync": True}  # without the barriers that the compiler places


def simulated(kernel, *arguments):
    """How many bytes of A the block has loaded."""
    report = kernel.simulate(*arguments, schedules=4)
    assert not report.findings, report.findings
    return sum(c.bytes for c in report.counters if c.buffer == "A" and c.level == "global")


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
def by_teams(trips):
    """Teams of 128 threads; where a team's number of trips is not 0, it runs a pipelined loop."""

    @T.macro
    def work(A, B, team, n):
        if n == 0:
            for i in T.Parallel(128):
                B[team, i] = A[0, i] * 2
        else:
            S, total = T.alloc_shared((128,), "float32"), T.alloc_fragment((128,), "float32")
            T.clear(total)
            for k in T.Pipelined(n, num_stages=3):
                T.copy(A[k, 0], S)
                for i in T.Parallel(128):
                    total[i] += S[127 - i]
            T.copy(total, B[team, :])

    @T.prim_func
    def main(A: T.Tensor((8, 128), "float32"), B: T.Tensor((2, 128), "float32")):
        with T.Kernel(1, threads=256):
            with T.ws(0):
                work(A, B, 0, trips[0])
            with T.ws(1):
                work(A, B, 1, trips[1])

    return main


@pytest.mark.parametrize("target", ["sim:sm_80", "sim:sm_75"])
@pytest.mark.parametrize("trips", [(6, 0), (0, 6), (8, 3)])
def test_11_a_team_waits_for_its_own_threads(target, trips):
    """Also where the other one waits, at a barrier of its own, another number of times."""
    kernel = tilelang.compile(by_teams(trips), target=target)
    a, b = random(8, 128), np.full((2, 128), np.nan, np.float32)
    simulated(kernel, a, b)
    exact = [a[:n].sum(0)[::-1] if n else 2 * a[0] for n in trips]
    assert np.allclose(b, exact, atol=1e-5)


@T.prim_func
def parting(A: T.Tensor((6, 128), "float32"), B: T.Tensor((128,), "float32")):
    with T.Kernel(1, threads=128):
        S, twice = T.alloc_shared((128,), "float32"), T.alloc_shared((128,), "float32")
        t, total = T.get_thread_binding(), T.alloc_local((1,), "float32")
        total[0] = 0
        for k in T.Pipelined(6, num_stages=3):
            T.copy(A[k, 0], S)
            for i in T.Parallel(128):
                twice[i] = S[i] * 2
            if t % 3 == 0:  # all meet in front of it, and none in it
                total[0] += twice[127 - t]
            else:
                total[0] -= twice[127 - t]
        B[t] = total[0]


@pytest.mark.parametrize("target", TARGETS)
def test_11_no_barrier_stands_where_threads_part(target):
    a, b = random(6, 128), np.full(128, np.nan, np.float32)
    simulated(tilelang.compile(parting, target=target), a, b)
    assert np.allclose(b, 2 * a.sum(0)[::-1] * np.where(np.arange(128) % 3, -1, 1), atol=1e-5)


# ── 14: fewer iterations than stages, or none ─────────────────────────────────────────────────────────────
def any_trips(kind, stages, columns=64):
    """A tile behind the loop takes the memory of the loop's tile, into which nothing may be on its way."""

    @T.prim_func
    def main(A: T.Tensor((512, columns), "float16"), n: T.int32, B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((16, 64), "float32" if kind == "cast" else "float16")
            total, last = T.alloc_fragment((64,), "float32"), T.alloc_shared((64,), "float32")
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
            T.copy(total, last)
            for i in T.Parallel(64):
                B[i] = last[63 - i]

    return main


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["plain", "cast", "condition"])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_14_any_number_of_iterations_known_at_run_time(target, kind, stages):
    kernel = tilelang.compile(any_trips(kind, stages), target=target)
    assert kernel.report.buffer("S").address == kernel.report.buffer("last").address
    a = random(512, 64).astype(np.float16)
    for trips in (0, 1, 2, 3, 5):
        b = np.full(64, np.nan, np.float32)
        used = a[: trips * 16].reshape(trips, 16, 64)[:: 2 if kind == "condition" else 1]
        assert simulated(kernel, a, trips, b) == used.nbytes  # none of an iteration that does not come
        exact = used.sum((0, 1), dtype=np.float64)
        assert np.linalg.norm(b - exact) <= 1e-5 * max(1, np.linalg.norm(exact))


# ── 15: conditions, nests, lengths that do not divide ─────────────────────────────────────────────────────
def skipping(rows, inner, beside=False):
    """Some iterations copy nothing and must not wait for ever; with `inner`, a pipelined loop in another.
    Rows of a tile that lie outside of the tensor count as 0.  A row of R may be copied and used as well,
    in all iterations."""

    @T.prim_func
    def main(
        A: T.Tensor((4, rows, 64), "float32"),
        wanted: T.Tensor((4,), "int32"),
        length: T.int32,
        R: T.Tensor((5, 64), "float32"),
        B: T.Tensor((64,), "float32"),
    ):
        with T.Kernel(1, threads=64):
            S, row = T.alloc_shared((8, 64), "float32"), T.alloc_shared((64,), "float32")
            total = T.alloc_fragment((64,), "float32")
            T.clear(total)
            for b in T.Pipelined(4, num_stages=2) if inner else T.serial(4):
                for k in T.Pipelined(T.ceildiv(length, 8), num_stages=3):
                    if wanted[b] > k:
                        T.copy(A[b, k * 8, 0], S)
                        for i in T.Parallel(64):
                            for r in T.serial(8):
                                total[i] += S[r, 63 - i]
                    if beside:
                        T.copy(R[k, 0], row)
                        for i in T.Parallel(64):
                            total[i] += row[63 - i]
            T.copy(total, B)

    return main


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize(("rows", "beside"), [(40, False), (37, False), (37, True)])
def test_15_what_copies_nothing_waits_for_nothing(target, inner, rows, beside):
    kernel = tilelang.compile(skipping(rows, inner, beside), target=target)
    a, c = random(4, rows, 64), random(5, 64, seed=1)
    for length, wanted in ((rows, [9, 0, 2, 5]), (rows, [0, 9, 1, 3]), (11, [1, 1, 0, 5]), (0, [3, 3, 3, 3])):
        b = np.full(64, np.nan, np.float32)
        trips = -(-length // 8)
        used = np.concatenate([a[i, : 8 * min(trips, w)] for i, w in enumerate(wanted)])
        assert simulated(kernel, a, np.array(wanted, np.int32), length, c, b) == used.nbytes
        exact = (used.sum(0, dtype=np.float64) + 4 * beside * c[:trips].sum(0, dtype=np.float64))[::-1]
        assert np.linalg.norm(b - exact) <= 1e-5 * max(1, np.linalg.norm(exact))


# ── 22: what is done less well than asked is said ─────────────────────────────────────────────────────────
def refused(kernel):
    return " ".join(note.text for note in kernel.report.refusals)


def test_22_a_pipeline_in_order_says_so():
    """Also where it is the outer one of two: the inner one is pipelined."""
    kernel = tilelang.compile(skipping(40, inner=True), target="sim:sm_80")
    says = r"runs in order, num_stages=2 has no effect: the loop on line \d+ in it is pipelined"
    assert re.fullmatch(says, refused(kernel))
    assert len(kernel.report.pipelines) == 2 and not kernel.report.pipelines[0].steps
    with pytest.raises(tilelang.CompileError, match=says + "; strict=True"):
        tilelang.compile(skipping(40, inner=True), target="sim:sm_80", strict=True)


THROUGH = {"", "loaded into registers", "stored from registers"}


@pytest.mark.parametrize(
    ("kind", "columns", "target", "how", "moved"),
    [
        ("plain", 64, "sim:sm_80", {"", "begun by cp.async"}, ("cp_async_16", 16)),
        ("plain", 66, "sim:sm_80", {"", "begun by cp.async"}, ("cp_async_4", 4)),
        ("plain", 65, "sim:sm_80", THROUGH, ("", 2)),
        ("cast", 64, "sim:sm_80", THROUGH, ("", 16)),
        ("plain", 64, "sim:sm_75", THROUGH, ("", 16)),
        ("cast", 64, "sim:sm_75", THROUGH, ("", 16)),
    ],
)
def test_22_a_copy_that_is_not_asynchronous_is_seen(kind, columns, target, how, moved):
    """A cast takes the way through registers, as do rows that begin anywhere, and every copy for a chip
    without cp.async; how many bytes move at once is told, too.  None of it is refused."""
    report = tilelang.compile(any_trips(kind, 3, columns), target=target, strict=True).report
    assert {step.how for step in report.pipelines[0].steps} == how and not report.refusals
    assert {(x.instruction, x.bytes) for x in report.accesses if x.buffer == "A"} == {moved}
