"""What the simulator, and the checks before it, say of threads that meet, and of numbers that wrap."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T


def findings(function, *arguments):
    with pytest.raises(tilelang.SimulationError) as caught:
        tilelang.compile(function, target="sim:sm_80")(*arguments)
    return caught.value.report.findings


ONES = np.ones(64, "float32")


# ── who meets whom ────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("alloc", [T.alloc_fragment, T.alloc_shared])
def test_a_sum_over_iterations_that_run_together(alloc):
    said = r"an element of acc that .* T\.reduce_sum .* T\.alloc_reducer"
    with pytest.raises(tilelang.CompileError, match=said):

        @T.prim_func
        def main(A: T.Tensor((32, 16), "float32"), B: T.Tensor((32,), "float32")):
            with T.Kernel(1, threads=64):
                S = T.alloc_shared((32, 16), "float32")
                acc = alloc((32,), "float32")
                T.copy(A, S)
                T.clear(acc)
                for i, j in T.Parallel(32, 16):
                    acc[i] += S[i, j]
                T.copy(acc, B)


def histogram(alloc):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), where: T.Tensor((64,), "int32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=64):
            acc = alloc((4,), "float32")
            T.clear(acc)
            for i in T.Parallel(64):
                acc[where[i]] += A[i]
            T.copy(acc, B)

    return main


@pytest.mark.parametrize("alloc", [T.alloc_fragment, T.alloc_shared])
def test_places_that_only_the_data_tell(alloc):
    """The tile is named as the user knows it, whatever the compiler keeps it in meanwhile."""
    where = (np.arange(64) % 4).astype("int32")
    first = findings(histogram(alloc), ONES, where, np.zeros(4, "float32"))[0]
    assert first.kind == "race" and first.buffer == "acc" and first.text.startswith("data race on acc[")
    assert "iterations of T.Parallel run together" in first.text and "T.reduce_sum" in first.text
    assert "T.alloc_reducer" in first.text and "acc_" not in first.text


def test_a_statement_that_every_thread_runs():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((64,), "float32")
            T.copy(A, S)
            for k in T.serial(3):
                S[k + 1] = S[k] + S[k + 1]
            T.copy(S, B)

    first = findings(main, ONES, ONES.copy())[0]
    assert first.kind == "race" and "every thread runs this statement" in first.text
    assert "if T.get_thread_binding() == 0" in first.text and "T.alloc_var" in first.text


def test_who_has_not_set_what_a_shuffle_takes():
    @T.prim_func
    def main(A: T.Tensor((32,), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            x = T.alloc_local((1,), "float32")
            if tx != 20:
                x[0] = A[tx]
            y = T.shfl_down(x[0], 8)
            if tx < 16:
                B[tx] = y

    first = findings(main, ONES[:32], ONES[:32].copy())[0]
    assert first.kind == "unwritten" and first.thread == 20
    assert "x[0] is read by thread 20 of block (0)" in first.text


# ── numbers that leave their type ─────────────────────────────────────────────────────────────────────
def overflow(function, *arguments):
    first = findings(function, *arguments)[0]
    assert first.kind == "overflow"
    return first


def test_a_product_is_named_at_its_line():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(2, threads=64) as bx:
            tx = T.get_thread_binding()
            o = T.cast(bx, "int32") * 65536 * 65536
            B[tx] = A[o + tx]

    first = overflow(main, ONES, ONES.copy())
    said = "this product exceeds 32 bits: its value is 4294967296, but i32 keeps 0, in thread 0 of block (1)"
    assert first.text.startswith(said)
    assert "it becomes the index of A[0] on line" in first.text and first.other_line == first.line + 1


def test_a_guard_on_what_has_wrapped():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            o = T.alloc_var("int32", 0)
            o = T.cast(tx, "int32") * 268435456
            if o >= 0 and o < 64:
                B[tx] = A[o]

    first = overflow(main, ONES, ONES.copy())
    assert "a condition on it then leaves out the access to A" in first.text and first.thread == 8


def test_the_automatic_guard_of_what_has_wrapped():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            o = T.alloc_var("int32", 0)
            o = (T.cast(tx, "int32") + 8) * 134217728 * 2
            B[tx] = A[o]

    assert "exceeds 32 bits" in overflow(main, ONES, ONES.copy()).text


def test_what_wraps_and_is_no_index():
    """Hashes, data, a product that another condition keeps from being one, a sum that comes back."""

    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32"), C: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            x = T.cast(tx, "int32")
            h = T.alloc_var("int32", 1)
            for _ in T.serial(5):
                h = h * 1103515245 + 12345 + A[tx]
            if h < 0:
                h = -h
            B[(h >> 16) & 63] = 1
            C[tx] = A[h % 64] + h * h
            if h > 1000000:
                C[tx] = h
            o = x * 134217728
            if tx < 8 and o >= 0:
                C[tx] = A[o // 134217728]
            C[tx] = A[x * 134217728 - x * 134217727]

    rng = np.random.default_rng(0)
    data = rng.integers(0, 1 << 30, 64).astype("int32")
    report = tilelang.compile(main, target="sim:sm_80").simulate(data, np.zeros(64, "i4"), np.zeros(64, "i4"))
    assert not report


def test_a_sum_is_called_a_sum_and_the_next_wider_type_is_named():
    @T.prim_func
    def main(A: T.Tensor((64,), "int8"), B: T.Tensor((300,), "float32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            p = A[tx] + A[tx]
            C[tx] = B[p]

    said = overflow(main, np.full(64, 100, "i1"), np.ones(300, "f4"), ONES.copy()).text
    assert said.startswith("this sum exceeds 8 bits: its value is 200, but i8 keeps -56")
    assert "compute it in 32 bits (make its operands int32)" in said


# ── loops that do not end ─────────────────────────────────────────────────────────────────────────────
def test_a_loop_whose_variable_stays_as_it_is():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            x = T.alloc_var("int32")
            x = T.cast(tx, "int32")
            while x != 0:
                x = (x >> 1) | (x & 1)
            A[tx] = x

    first = findings(main, np.zeros(64, "i4"))[0]
    assert first.kind == "livelock"
    assert "which reads no memory: the values in its condition do not change any more" in first.text


def test_a_long_loop_over_registers_ends():
    @T.prim_func
    def main(A: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=1):
            i = T.alloc_var("int32", init=0)
            while i < 300000:
                i += 1
            A[0] = i

    a = np.zeros(1, "i4")
    tilelang.compile(main, target="sim:sm_80")(a)
    assert a[0] == 300000


@pytest.mark.parametrize("schedules", [1, "all"])
def test_a_loop_over_what_lies_outside_ends(schedules):
    """What is found before and beside it stays."""

    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=1):
            s, u = T.alloc_shared((64,), "int32"), T.alloc_shared((4,), "int32")
            T.copy(A, s)
            B[0] = u[0]
            i = T.alloc_var("uint32", init=3)
            while i >= 0:
                B[0] += s[i]
                i -= 1

    kernel = tilelang.compile(main, target="sim:sm_80")
    with pytest.raises(tilelang.SimulationError) as caught:
        kernel.simulate(np.ones(64, "i4"), np.zeros(1, "i4"), schedules=schedules)
    assert {"outside", "unwritten"} <= {f.kind for f in caught.value.report.findings}


def test_a_variable_that_never_changes():
    """The loop reads memory, but its condition does not: waiting would not help."""

    @T.prim_func
    def main(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            x = T.alloc_var("int32", 0)
            s = T.alloc_shared((64,), "int32")
            while x < 1:
                s[T.get_thread_binding()] = A[0]
            A[1] = x

    (found,) = findings(main, np.zeros(64, np.int32))
    assert found.kind == "livelock" and found.text == (
        "thread 0 of block (0) of main does not leave this loop: x never changes, because nothing in the "
        "loop assigns to it, and no other thread does; change a value of the condition inside the loop"
    )


@pytest.mark.parametrize("inside, advice", [
    (False, "put a barrier between the two (T.sync_threads()), outside of the condition of line {}, because "
     "not all threads come there"),
    (True, "end the condition of line {} after the first of the two, because not all threads come there, put "
     "a barrier behind it (T.sync_threads()), and the second under the condition again"),
])  # fmt: skip
def test_a_barrier_is_not_advised_where_not_all_threads_come(inside, advice):
    def main_of(inside):
        @T.prim_func
        def main(X: T.Tensor((128,), "float32"), Y: T.Tensor((128,), "float32")):
            with T.Kernel(1, threads=128):
                tx = T.get_thread_binding()
                S = T.alloc_shared((128,), "float32")
                if inside:
                    if tx < 64:
                        S[tx] = X[tx]
                        Y[tx] = S[63 - tx]
                else:
                    S[tx] = X[tx]
                    if tx < 64:
                        Y[tx] = S[127 - tx]

        return main

    kernel = tilelang.compile(
        main_of(inside), target="sim:sm_80", pass_configs={"tl.disable_thread_storage_sync": True}
    )
    with pytest.raises(tilelang.SimulationError) as caught:
        kernel(np.zeros(128, np.float32), np.zeros(128, np.float32))
    found = caught.value.report.findings[0]
    with open(__file__) as file:
        line = {n for n, text in enumerate(file, 1) if text.strip() == "if tx < 64:"}
    assert any(found.text.endswith(advice.format(n)) for n in line), found.text


def test_memory_that_a_statement_took_for_itself():
    """The fold exchanges partial results through shared memory, to which only the compiler gives a name."""

    @T.prim_func
    def main(A: T.Tensor((1, 128), "float32"), B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            f = T.alloc_fragment((1, 128), "float32")
            g = T.alloc_fragment((1,), "float32")
            T.copy(A, f)
            T.reduce_sum(f, g, dim=1)
            T.copy(g, B[0:1])
            s = T.alloc_shared((128,), "float32")
            T.copy(s, B)
            s[0] = 1.0

    with pytest.raises(tilelang.SimulationError) as caught:
        tilelang.compile(main, target="sim:sm_80")(np.zeros((1, 128), "f4"), np.zeros(128, "f4"))
    line = main.span[1] + 6
    assert f"it holds what line {line} left behind, which was in the same memory before" in str(caught.value)


def test_memory_that_a_tile_of_the_users_had():
    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            first = T.alloc_shared((128,), "float32")
            T.copy(A, first)
            T.copy(first, B)
            second = T.alloc_shared((128,), "float32")
            T.copy(second, B)
            second[0] = 1.0

    with pytest.raises(
        tilelang.SimulationError, match="it holds what was written to first, which was in the"
    ):
        tilelang.compile(main, target="sim:sm_80")(np.zeros(128, "f4"), np.zeros(128, "f4"))


# ── named barriers and locks ──────────────────────────────────────────────────────────────────────────
def through_a_named_barrier(count):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "float32")
            if tx < 64:
                s[tx] = A[tx]
                T.named_barrier_arrive(1, count)
            else:
                T.sync_threads(1, count)
                B[tx - 64] = s[127 - tx]

    return main


def test_a_named_barrier_that_counts_too_few():
    (found, *_) = findings(through_a_named_barrier(64), ONES, ONES.copy())
    assert found.kind == "race"
    assert "barrier 1 counts 64 threads on line" in found.text
    assert found.text.endswith(
        "but 128 come to it: its phase ends before all have come; let it count 128 (T.sync_threads(1, 128), "
        "and where threads only arrive as well)"
    )
    b = np.zeros(64, "float32")
    tilelang.compile(through_a_named_barrier(128), target="sim:sm_80")(ONES, b)
    assert (b == 1).all()


def test_a_named_barrier_of_the_right_count_is_not_blamed():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "float32")
            if tx < 64:
                T.named_barrier_arrive(1, 128)
                s[tx] = A[tx]
            else:
                T.sync_threads(1, 128)
                B[tx - 64] = s[127 - tx]

    (found, *_) = findings(main, ONES, ONES.copy())
    assert found.kind == "race" and "counts" not in found.text, found.text


def test_a_lock_within_one_warp():
    @T.prim_func
    def main(L: T.Tensor((1,), "int32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=32):
            while T.atomic_max(L[0], 1, return_prev=True) == 1:
                pass
            B[0] = B[0] + 1.0
            T.atomic_store(L[0], 0)

    (found,) = findings(main, np.zeros(1, "int32"), np.zeros(1, "float32"))
    assert found.kind == "livelock" and found.text == (
        "thread 1 of block (0) of main waits in this loop for memory to change, but no other thread can go "
        "on and change it; thread 0 of the same warp cannot go on before this loop has ended, because "
        "threads of a warp cannot wait for each other: if the loop waits for one of them (which holds a "
        "lock, say), let one thread of each warp take part, on behalf of all"
    )


def test_a_wait_of_a_whole_warp_blames_none_of_it():
    @T.prim_func
    def main(L: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=32):
            while T.atomic_load(L[0]) == 0:
                pass

    (found,) = findings(main, np.zeros(1, "int32"))
    assert found.kind == "livelock" and found.text.endswith("no other thread can go on and change it")
