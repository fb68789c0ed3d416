"""Phases that are waited for by the states of arrivals: the same numbers everywhere, and what is refused."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import failure
from test_barriers import ONE, copied

TARGETS = ["reference", "sim:sm_80", "sim:sm_90"]


@pytest.mark.parametrize("target", TARGETS)
def test_two_teams_turn_by_turn(target):
    """One fills the tile, both arrive, one empties it, both arrive: no parity is counted."""

    @T.prim_func
    def main(X: T.Tensor((6, 128), "float32"), Y: T.Tensor((6, 128), "float32")):
        with T.Kernel(1, threads=256):
            S = T.alloc_shared((128,), "float32")
            full, empty = T.alloc_barrier([256]), T.alloc_barrier([256])
            with T.ws(1):
                for k in T.serial(6):
                    T.copy(X[k, :], S)
                    T.mbarrier_wait_state(full, T.mbarrier_arrive_state(full))
                    T.mbarrier_wait_state(empty, T.mbarrier_arrive_state(empty))
            with T.ws(0):
                for k in T.serial(6):
                    filled = T.mbarrier_arrive_state(full)
                    T.mbarrier_wait_state(full, filled)
                    T.copy(S, Y[k, :])
                    T.mbarrier_wait_state(mbarrier=empty, state=T.mbarrier_arrive_state(mbarrier=empty))

    assert copied(main, target)


@pytest.mark.parametrize("target", TARGETS)
def test_a_state_is_kept_while_others_work(target):
    """In a variable, from one turn of the loop to the next: what was filled in the turn before is read."""

    @T.prim_func
    def main(X: T.Tensor((6, 128), "float32"), Y: T.Tensor((6, 128), "float32")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((6, 128), "float32")
            b = T.alloc_barrier(128)
            before = T.alloc_var("uint64")
            for k in T.serial(7):
                if k > 0:
                    T.mbarrier_wait_state(b, before)
                    T.copy(S[k - 1, :], Y[k - 1, :])
                if k < 6:
                    T.copy(X[k, :], S[k, :])
                    before = T.mbarrier_arrive_state(b)

    assert copied(main, target)


@pytest.mark.parametrize("target", TARGETS)
def test_a_test_in_a_loop_that_does_something(target):
    """It asks until the other team has arrived."""

    @T.prim_func
    def main(X: T.Tensor((6, 128), "float32"), Y: T.Tensor((6, 128), "float32")):
        with T.Kernel(1, threads=256):
            S = T.alloc_shared((6, 128), "float32")
            b = T.alloc_barrier(256)
            asked = T.alloc_var("int32", 0)
            with T.ws(0):
                state = T.mbarrier_arrive_state(b)
                while not T.mbarrier_test_state(b, state):
                    asked += 1
                T.copy(S, Y)
            with T.ws(1):
                T.copy(X, S)
                T.barrier_arrive(b)

    assert copied(main, target)


@pytest.mark.parametrize("target", ["reference", "sim:sm_90"])
@pytest.mark.parametrize("by_hand", [False, True])
def test_bytes_of_copies(target, by_hand):
    """The phase ends when all have arrived and all bytes have landed; each thread waits for itself."""

    @T.prim_func
    def main(X: T.Tensor((6, 128), "float32"), Y: T.Tensor((6, 128), "float32")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((2, 128), "float32")
            b = T.alloc_barrier(128)
            for k in T.serial(6):
                T.tma_copy(X[k, :], S[k % 2, :], barrier=b)
                state = T.mbarrier_arrive_state(b, tx=0 if by_hand else None)
                T.mbarrier_wait_state(b, state)
                T.copy(S[k % 2, :], Y[k, :])

    assert copied(main, target)
    if target != "reference":
        source = tilelang.compile(main, target=target).get_kernel_source()
        wait = source.index("while (!tl_mbarrier_try_wait_state")
        assert "__syncthreads" not in source[wait : source.index("Y[", wait)]


def of_one_phase(wait):
    @T.prim_func
    def main(X: T.Tensor((6, 128), "float32"), Y: T.Tensor((6, 128), "float32")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((6, 128), "float32")
            b = T.alloc_barrier([128, 128, 129])
            T.copy(X, S)
            wait(b)
            T.copy(S, Y)

    return main


def test_how_it_is_waited_for_is_the_chips():
    def wait(b):
        T.mbarrier_wait_state(b[0], T.mbarrier_arrive_state(b[0]))

    older, newer = (
        tilelang.compile(of_one_phase(wait), target=target).get_kernel_source()
        for target in ("sim:sm_80", "sim:sm_90")
    )
    assert "mbarrier.test_wait.shared::cta.b64 p, [%1], %2;" in older and "try_wait" not in older
    assert "mbarrier.try_wait.shared::cta.b64 p, [%1], %2;" in newer and "test_wait" not in newer
    assert "mbarrier.arrive.shared::cta.b64 state, [%1]; mov.b64 %0, state;" in older


REFUSED = [
    ("T.mbarrier_wait_state(b, 0)", "the uint64 that T.mbarrier_arrive_state gives, not 0; T.mbarrier_wait"),
    ("T.mbarrier_test_state(b, n)", "T.mbarrier_test_state: the state of a phase is the uint64 that"),
    ("T.mbarrier_wait_state(b, 1.5)", "the state of a phase is an integer, not 1.5"),
    ("T.mbarrier_arrive_state(b, cta_id=1)", "(cta_id=1) gives no state: arrive there by T.mbarrier_arrive"),
    ("T.mbarrier_arrive_state(b, -1)", "the number of bytes is 0 to 1048575, not -1"),
    ("T.mbarrier_arrive_state(n)", "a barrier is what T.alloc_barrier makes"),
]


@pytest.mark.parametrize("body, text", REFUSED)
def test_what_is_refused(tmp_path, body, text):
    error = failure(tmp_path, ONE + body)
    assert text in error.text and error.line == 6, str(error)


def test_older_chips_count_no_bytes():
    def wait(b):
        T.mbarrier_wait_state(b[0], T.mbarrier_arrive_state(b[0], tx=0))

    with pytest.raises(tilelang.CompileError, match=r"T.mbarrier_arrive_state\(tx=\) is not .*leave tx= out"):
        tilelang.compile(of_one_phase(wait), target="sim:sm_80")


def stale(b):
    first = T.mbarrier_arrive_state(b[0])
    T.barrier_arrive(b[0])
    T.mbarrier_wait_state(b[0], first)


def of_another(b):
    T.mbarrier_wait_state(b[1], T.mbarrier_arrive_state(b[0]))


def alone(b):
    T.mbarrier_wait_state(b[2], T.mbarrier_arrive_state(b[2]))


@T.macro
def asking(b):
    state = T.mbarrier_arrive_state(b[2])
    n = T.alloc_var("int32", 0)
    while not T.mbarrier_test_state(b[2], state):
        n += 1


@pytest.mark.parametrize(
    "wait, text",
    [
        (stale, "b[0] is asked for a phase by the state of phase 0, but phase 2 is under way, in block (0) "
         "of main; a state serves for the phase under way and the one before it"),
        (of_another, "b[1] is asked for a phase by a state of another barrier, in block (0) of main; it "
         "takes what an arrival at this barrier gave"),
        (alone, "the threads [0, 128) wait for phase 0 of b[2] (by its state) in block (0) of main, and "
         "nothing else can go on; missing: 1 of 129 arrivals"),
        (asking, "the threads [0, 128) ask for phase 0 of b[2] (by its state) again and again in block (0) "
         "of main, and nothing else can go on; missing: 1 of 129 arrivals"),
    ],
)  # fmt: skip
def test_what_the_reference_finds(wait, text):
    with pytest.raises(tilelang.CompileError) as error:
        copied(of_one_phase(wait), "reference")
    assert text in str(error.value)


def test_a_state_is_no_parity():
    def wait(b):
        T.barrier_wait(b[0], T.mbarrier_arrive_state(b[0]))

    with pytest.raises(tilelang.SimulationError, match="the parity is 1073741824, in thread 0"):
        copied(of_one_phase(wait), "sim:sm_90", schedules=1)


def test_a_state_stays_a_state():
    """What is computed from one is none; the simulator says so."""

    def wait(b):
        T.mbarrier_wait_state(b[0], T.mbarrier_arrive_state(b[0]) + T.uint64(1 << 40))

    with pytest.raises(tilelang.SimulationError, match="by a value that is the state of no phase"):
        x = np.zeros((6, 128), np.float32)
        tilelang.compile(of_one_phase(wait), target="sim:sm_90").simulate(x, x.copy())
