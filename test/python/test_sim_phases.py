"""Why a phase of a barrier in memory is missed: a wrong count, no wait for the readers of a slot, or
a parity, which is blamed only where another one would help."""

import re

import numpy as np
import pytest
import tilelang
import tilelang.language as T

ROWS = 4
Rows = T.Tensor((ROWS, 128), "float32")
BY_EMPTY = "(T.barrier_wait(empty[slot], (k // slots + 1) % 2))"


def findings(function, seeds=range(8)):
    """What the first findings say, from several seeds."""
    kernel = tilelang.compile(function, target="sim:sm_90a")
    found = []
    for seed in seeds:
        x, y = np.ones((ROWS, 128), "float32"), np.zeros((ROWS, 128), "float32")
        with pytest.raises(tilelang.SimulationError) as error:
            kernel.simulate(x, y, seed=seed, count=False)
        found.append(error.value.report.findings[0])
    return found


def each_arrives(count, threads=128, rows=1):
    """Every thread arrives at a barrier for fewer; others wait for it."""

    @T.prim_func
    def main(X: Rows, Y: Rows):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            S = T.alloc_shared((128,), "float32")
            b = T.alloc_barrier(count)
            if tx < 128:
                for k in T.serial(rows):
                    if tx < threads:
                        S[tx] = X[k, tx]
                        T.barrier_arrive(b)
            else:
                for k in T.serial(rows):
                    T.barrier_wait(b, k % 2)
                    if tx < threads + 128:
                        Y[k, tx - 128] = S[tx - 128]

    return main


@pytest.mark.parametrize("rows", [1, ROWS])
@pytest.mark.parametrize("threads", [128, 127])
def test_a_count_of_one_where_all_arrive(threads, rows):
    for f in findings(each_arrives(1, threads, rows)):
        assert "b[0] counts 1 arrival in each phase" in f.text and "meant?" not in f.text, f.text
        assert "let one of them arrive (if T.get_thread_binding() == 0)" in f.text
        assert f"{threads} threads" not in f.text or f"T.alloc_barrier({threads})" in f.text, f.text
    first = findings(each_arrives(1, threads, rows), [0])[0].text
    phases = r"phase 0 ended with thread 0 \(line \d+\), phase 1 ended with thread 1 \(line \d+\); count all"
    assert re.search(phases, first) and f"T.alloc_barrier({threads})" in first, first


def test_a_count_of_one_of_two_teams():
    @T.prim_func
    def main(X: Rows, Y: Rows):
        with T.Kernel(1, threads=384):
            S = T.alloc_shared((2, 128), "float32")
            both = T.alloc_barrier(128)
            with T.ws(0):
                T.copy(X[0, :], S[0, :])
                T.barrier_arrive(both)
            with T.ws(1):
                T.copy(X[1, :], S[1, :])
                T.barrier_arrive(both)
            with T.ws(2):
                T.barrier_wait(both, 0)
                T.copy(S, Y[0:2, :])

    texts = [f.text for f in findings(main)]
    assert not any("meant?" in t for t in texts)
    assert sum("both[0] counts 128 arrivals in each phase" in t for t in texts) >= 4, texts
    assert any("count all of them (T.alloc_barrier(256)), or let only 128 of them" in t for t in texts), texts


def ring(slots, parity=lambda k: k // 1, empty=True, short=0):
    @T.prim_func
    def main(X: Rows, Y: Rows):
        with T.Kernel(1, threads=256):
            S = T.alloc_shared((slots, 128), "float32")
            full = T.alloc_barrier([128] * slots)
            free = T.alloc_barrier([128] * slots)
            with T.ws(0):
                for k in T.serial(ROWS - short):
                    if empty:
                        T.barrier_wait(free[k % slots], (k // slots + 1) % 2)
                    T.copy(X[k, :], S[k % slots, :])
                    T.barrier_arrive(full[k % slots])
            with T.ws(1):
                for k in T.serial(ROWS):
                    T.barrier_wait(full[k % slots], parity(k // slots) % 2)
                    T.copy(S[k % slots, :], Y[k, :])
                    if empty:
                        T.barrier_arrive(free[k % slots])

    return main


@pytest.mark.parametrize("slots", [1, 2])
def test_nobody_waits_for_the_reader_of_a_slot(slots):
    for f in findings(ring(slots, empty=False)):
        assert BY_EMPTY in f.text and "nothing makes" in f.text and "meant?" not in f.text, f.text


def test_phases_ran_ahead():
    text = findings(ring(1, empty=False), [0])[0].text
    assert "phases 0 to 3 ended before it waited for phase 0: nothing makes threads [" in text, text


def test_a_parity_that_never_changes():
    """It lets its team run ahead, so that another one waits for ever."""
    for f in findings(ring(1, parity=lambda _: 0)):
        assert "twice for the end of one phase of full[0] (parity 0)" in f.text, f.text
        assert "the parity must change from phase to phase" in f.text and "meant?" not in f.text


def test_the_other_parity_would_do():
    @T.prim_func
    def main(X: Rows, Y: Rows):
        with T.Kernel(1, threads=128):
            b = T.alloc_barrier(128)
            T.barrier_arrive(b)
            T.sync_threads()
            T.barrier_wait(b, 1)
            T.copy(X, Y)

    for f in findings(main):
        assert f.text.endswith("the phase before has ended: was parity 0 meant?"), f.text


def test_nobody_comes_again():
    """No parity helps: the last phase has been seen."""
    for f in findings(ring(2, short=1)):
        assert "the phase before ended with threads [0, 128)" in f.text and "meant?" not in f.text, f.text


def test_nobody_can_begin():
    @T.prim_func
    def main(X: Rows, Y: Rows):
        with T.Kernel(1, threads=256):
            S = T.alloc_shared((128,), "float32")
            full, empty = T.alloc_barrier(128), T.alloc_barrier(128)
            with T.ws(0):
                for k in T.serial(ROWS):
                    T.barrier_wait(empty, k % 2)
                    T.copy(X[k, :], S)
                    T.barrier_arrive(full)
            with T.ws(1):
                for k in T.serial(ROWS):
                    T.barrier_wait(full, k % 2)
                    T.copy(S, Y[k, :])
                    T.barrier_arrive(empty)

    for f in findings(main):
        assert "should wait for the phase before the first, which counts as ended: parity 1" in f.text, f.text


def test_the_reference_says_the_same():
    def said(function):
        x, y = np.ones((ROWS, 128), "float32"), np.zeros((ROWS, 128), "float32")
        with pytest.raises(tilelang.CompileError) as error:
            tilelang.compile(function, target="reference")(x, y)
        return str(error.value)

    ahead = said(ring(1, empty=False))
    assert "phases 0 to 3 ended before it waited for phase 0" in ahead and BY_EMPTY in ahead, ahead
    assert "meant?" not in said(ring(2, short=1))
