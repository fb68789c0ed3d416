"""Barriers in memory worked by hand: rings of teams on every GPU that has them and on the reference, what is
initialised where, and what is refused."""

import re

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import failure

TARGETS = ["reference", "sim:sm_80", "sim:sm_90"]


def copied(function, target, rows=6, columns=128, schedules=12):
    """Does the kernel copy its first argument to its second?"""
    kernel = tilelang.compile(function, target=target)
    x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    y = np.full_like(x, np.nan)
    kernel(x, y) if target == "reference" else kernel.simulate(x, y, schedules=schedules)
    return np.array_equal(x, y)


def ring(slots, rows=6, wrong=0):
    @T.prim_func
    def main(X: T.Tensor((rows, 128), "float32"), Y: T.Tensor((rows, 128), "float32")):
        with T.Kernel(1, threads=256):
            S = T.alloc_shared((slots, 128), "float32")
            full = T.alloc_barrier([128] * slots)
            empty = T.alloc_barrier([128 + wrong] * slots)
            with T.ws(1):
                for k in T.serial(rows):
                    T.barrier_wait(empty[k % slots], (k // slots + 1) % 2)
                    T.copy(X[k, :], S[k % slots, :])
                    T.barrier_arrive(full[k % slots])
            with T.ws(0):
                for k in T.serial(rows):
                    T.mbarrier_wait_parity(full[k % slots], k // slots % 2)
                    T.copy(S[k % slots, :], Y[k, :])
                    T.mbarrier_arrive(mbarrier=empty[k % slots])

    return main


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("slots", [1, 2, 3, 8])
def test_a_ring_of_two_teams(slots, target):
    assert copied(ring(slots), target)


def test_the_words_are_initialised_once():
    """By one thread, wherever they are made in the head of the kernel, and nobody goes on before that; how a
    phase is waited for is the chip's."""
    source = tilelang.compile(ring(2), target="sim:sm_90").get_kernel_source()
    begin = re.sub(r"\s+", " ", source[source.index("u64* const full") :])
    expected = (
        "u64* const full = (u64*)(tl_shared + 0); u64* const empty = (u64*)(tl_shared + 128); if (tx == 0) { "
        "tl_mbarrier_init(&full[0], 128); tl_mbarrier_init(&full[1], 128); tl_mbarrier_init(&empty[0], 128); "
        "tl_mbarrier_init(&empty[1], 128); tl_fence_mbarrier_init(); } __syncthreads(); "
    )
    assert begin.startswith(expected), begin
    assert source.count("__syncthreads") == 1 and "bar_sync" not in source
    older = tilelang.compile(ring(2), target="sim:sm_80").get_kernel_source()
    assert "test_wait" not in source and "try_wait" not in older and "fence" not in older


@pytest.mark.parametrize("target", TARGETS)
def test_made_behind_the_first_use_of_another(target):
    """All are initialised where the kernel begins, the one of the last line, too."""

    @T.prim_func
    def main(X: T.Tensor((6, 128), "float32"), Y: T.Tensor((6, 128), "float32")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((6, 128), "float32")
            first = T.alloc_barrier(128)
            T.copy(X, S)
            T.barrier_arrive(first)
            T.barrier_wait(first, 0)
            n = T.alloc_var("int32", 0)
            second = T.alloc_barrier([128, 128])
            while n < 2:
                T.barrier_arrive(second[n])
                T.barrier_wait(second[n], 0)
                n += 1
            T.copy(S, Y)

    assert copied(main, target)


@pytest.mark.parametrize("target", TARGETS)
def test_each_team_has_its_own_variables(target):
    """A phase that is carried along, in a variable of the kernel that both teams change."""

    @T.prim_func
    def main(X: T.Tensor((6, 128), "float32"), Y: T.Tensor((6, 128), "float32")):
        with T.Kernel(1, threads=256):
            S = T.alloc_shared((128,), "float32")
            full, empty = T.alloc_barrier(128), T.alloc_barrier(128)
            phase = T.alloc_var("int32", 0)
            with T.ws(0):
                for k in T.serial(6):
                    T.barrier_wait(empty, phase ^ 1)
                    T.copy(X[k, :], S)
                    T.barrier_arrive(full)
                    phase = phase ^ 1
            with T.ws(1):
                for k in T.serial(6):
                    T.barrier_wait(full, phase)
                    T.copy(S, Y[k, :])
                    T.barrier_arrive(empty)
                    phase = phase ^ 1

    assert copied(main, target)


@pytest.mark.parametrize("target", TARGETS)
def test_three_teams_in_a_row(target):
    """What the first fills the second turns round in place, and the third stores."""

    @T.prim_func
    def main(X: T.Tensor((6, 128), "float32"), Y: T.Tensor((6, 128), "float32")):
        with T.Kernel(1, threads=384):
            S = T.alloc_shared((2, 128), "float32")
            F = T.alloc_fragment((128,), "float32")
            filled, turned, empty = (T.alloc_barrier([128, 128]) for _ in range(3))
            with T.ws(0):
                for k in T.serial(6):
                    T.barrier_wait(empty[k % 2], (k // 2 + 1) % 2)
                    for i in T.Parallel(128):
                        S[k % 2, i] = X[k, 127 - i]
                    T.barrier_arrive(filled[k % 2])
            with T.ws(1):
                for k in T.serial(6):
                    T.barrier_wait(filled[k % 2], k // 2 % 2)
                    for i in T.Parallel(128):
                        F[i] = S[k % 2, 127 - i]
                    T.copy(F, S[k % 2, :])
                    T.barrier_arrive(turned[k % 2])
            with T.ws(2):
                for k in T.serial(6):
                    T.barrier_wait(turned[k % 2], k // 2 % 2)
                    T.copy(S[k % 2, :], Y[k, :])
                    T.barrier_arrive(empty[k % 2])

    assert copied(main, target)


@pytest.mark.parametrize("target", ["sim:sm_80", "sim:sm_90"])
@pytest.mark.parametrize("numbered", [False, True])
def test_copies_that_arrive_themselves(target, numbered):
    """cp.async arrives when it has landed: as one of those counted, or by the number of its barrier."""

    @T.prim_func
    def main(X: T.Tensor((6, 128), "float32"), Y: T.Tensor((6, 128), "float32")):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((6, 128), "float32")
            tx = T.get_thread_binding()
            if numbered:
                T.create_barriers(2)
                T.ptx_init_barrier_thread_count(1, 32)
            else:
                landed = T.alloc_barrier(32)
            for k in T.serial(6):
                T.ptx_cp_async(T.access_ptr(S[k, tx * 4], "w"), T.access_ptr(X[k, tx * 4], "r"), 4)
            if numbered:
                T.ptx_cp_async_barrier(1)
                T.ptx_arrive_barrier(1)
                T.ptx_wait_barrier(1)
            else:
                T.cp_async_barrier_noinc(landed)
                T.barrier_wait(landed, 0)
            for k, i in T.grid(6, 4):
                Y[k, i * 32 + tx] = S[k, i * 32 + tx]

    assert copied(main, target)


def test_barriers_by_their_numbers():
    """What threads arrive with, and bytes of a copy, at a barrier that is named by its number."""

    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((64,), "float32")
            bars = T.create_barriers(1)
            if T.get_thread_binding() == 0:
                T.ptx_fence_barrier_init()
            T.tma_copy(X, S, barrier=bars[0])
            if T.get_thread_binding() == 0:
                T.ptx_arrive_barrier_expect_tx(0, 0)
            T.ptx_wait_barrier(0)
            T.copy(S, Y)

    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    tilelang.compile(main, target="sim:sm_90").simulate(x, y, schedules=3)
    assert np.array_equal(x, y)


def test_one_thread_arrives_for_all():
    """In a branch on the thread the arrivals are those of its threads."""

    @T.prim_func
    def main(X: T.Tensor((6, 128), "float32"), Y: T.Tensor((6, 128), "float32")):
        with T.Kernel(1, threads=256):
            S = T.alloc_shared((6, 128), "float32")
            tx = T.get_thread_binding()
            full = T.alloc_barrier(1)
            with T.ws(1):
                T.copy(X, S)
                T.sync_threads(3)
                if tx == 128:
                    T.barrier_arrive(full)
            with T.ws(0):
                T.barrier_wait(full, 0)
                T.copy(S, Y)

    assert copied(main, "sim:sm_90")


def test_the_text_is_assembled():
    for arch in ("sm_80", "sm_90", "sm_90a"):
        try:
            source = tilelang.compile(ring(3), target=f"cuda -arch={arch}").get_kernel_source()
        except RuntimeError as missing:
            if "libnvrtc" in str(missing):
                pytest.skip("NVRTC is not installed")
            raise
        assert f"for {arch}" in source


# ── what is refused ───────────────────────────────────────────────────────────────────────────────────
ONE = "b = T.alloc_barrier(1)\n"
TWO = "b = T.alloc_barrier([1, 1])\n"
REFUSED = [
    ("T.alloc_barrier(0)", 1, "must be positive integers known while the kernel is built, not 0"),
    ("T.alloc_barrier(1.5)", 1, "is the float 1.5, not an integer"),
    ("T.alloc_barrier(n)", 1, "known while the kernel is built, not n"),
    ("T.alloc_barrier(1 << 20)", 1, "the arrivals of a phase are 1 to 1048575, not 1048576"),
    ("T.alloc_barrier([])", 1, "a list of barriers has at least one"),
    ("for i in T.serial(4):\n    T.alloc_barrier(1)", 2, "move this out of the loop, branch or team on line"),
    ("if n > 3:\n    T.alloc_barrier(1)", 2, "are made where it begins, once and for all of its threads"),
    (ONE + "T.barrier_wait(b, 0.0)", 2, "the parity of a phase is an integer, not 0.0"),
    (ONE + "T.barrier_wait(b, T.cast(n, 'float32'))", 2, "the parity of a phase is an integer, not float32"),
    (ONE + "T.barrier_wait(b, 2)", 2, "T.barrier_wait: the parity of a phase is 0 or 1, not 2"),
    (TWO + "T.barrier_arrive(b)", 2, "b is 2 barriers: say which, b[i]"),
    (TWO + "T.barrier_arrive(b[2])", 2, "the index 2 of dimension 0 is outside of b"),
    ("S = T.alloc_shared((4,), 'uint64')\nT.barrier_arrive(S[0])", 2, "S: uint64[4] is not a barrier"),
    ("T.barrier_arrive(3)", 1, "a barrier is what T.alloc_barrier makes, or an element of that, not 3"),
    (ONE + "b[0] = 1", 2, "storing to b, which is a barrier: its words are no numbers"),
    (ONE + "A[0, 0] = b[0]", 2, "reading b, which is a barrier"),
    (ONE + "T.clear(b)", 2, "clear: dst is b, which is a barrier"),
    (ONE + "T.atomic_add(b[0], 1)", 2, "atomic_add at b, which is a barrier"),
    (ONE + "c = T.view(b, (2,), 'uint32')", 2, "T.view of b, which is a barrier"),
    (ONE + "T.mbarrier_expect_tx(b, -16)", 2, "the number of bytes is 0 to 1048575, not -16"),
    (
        ONE + "T.mbarrier_arrive(b, cta_id=1)",
        2,
        "reaches another block of the cluster, but the blocks of this",
    ),
    ("T.ptx_arrive_barrier(0)", 1, "0 is the number of a barrier, but this kernel has no T.create_barriers"),
    ("T.create_barriers(2)\nT.ptx_init_barrier_thread_count(2, 1)", 2, "there is no barrier 2 among 2"),
    ("T.create_barriers(2)\nT.create_barriers(1)", 2, "one call makes all of them"),
    (
        ONE + "for i in T.Parallel(32):\n    T.barrier_arrive(b)",
        3,
        "T.barrier_arrive is called in the T.Parallel loop",
    ),
]


@pytest.mark.parametrize("body, line, text", REFUSED)
def test_what_is_refused(tmp_path, body, line, text):
    error = failure(tmp_path, body)
    assert text in error.text and error.line == 4 + line, str(error)


def test_outside_of_a_kernel():
    with pytest.raises(tilelang.CompileError, match=r"T\.alloc_barrier outside a @T\.prim_func"):
        T.alloc_barrier(1)
    with pytest.raises(tilelang.CompileError, match=r"T\.fence_proxy_async outside a T\.Kernel"):

        @T.prim_func
        def main(X: T.Tensor((6, 128), "float32")):
            T.fence_proxy_async()


@pytest.mark.parametrize("target", ["cpu", "sim:gfx942", "sim:sm_75"])
def test_chips_that_have_none(target):
    with pytest.raises(tilelang.CompileError, match="T.alloc_barrier is") as error:
        tilelang.compile(ring(1), target=target)
    assert "full = T.alloc_barrier" in str(error.value)


def test_fences_are_nothing_where_there_is_no_such_proxy():
    @T.prim_func
    def main(X: T.Tensor((6, 128), "float32"), Y: T.Tensor((6, 128), "float32")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((6, 128), "float32")
            T.copy(X, S)
            T.fence_proxy_async()
            T.copy(S, Y)

    for target in ("sim:sm_80", "sim:gfx942", "reference"):
        assert copied(main, target, schedules=1)
        kernel = tilelang.compile(main, target=target)
        assert target == "reference" or "proxy" not in kernel.get_kernel_source()
    tilelang.compile(main, target="cpu")


# ── what the reference finds ──────────────────────────────────────────────────────────────────────────
def alone(count=64, parity=0, expected=0, times=1):
    @T.prim_func
    def main(X: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=64):
            b = T.alloc_barrier(count)
            T.mbarrier_expect_tx(b, expected)
            for _ in T.serial(times):
                T.barrier_arrive(b)
            T.barrier_wait(b, parity)

    return main


@pytest.mark.parametrize(
    "how, text",
    [
        ({"count": 65}, "the threads [0, 64) wait for phase 0 of b[0] (parity 0) in block (0) of main, and "
         "nothing else can go on; missing: 1 of 65 arrivals"),
        ({"parity": 1}, "missing: 64 of 64 arrivals; the phase before has ended: was parity 0 meant?"),
        ({"expected": 16}, "missing: 1024 bytes that were expected"),
        ({"expected": 16, "times": 2}, "more than 64 arrivals at b[0] in phase 0, which still expects 1024"),
    ],
)  # fmt: skip
def test_the_reference_finds_who_waits_for_ever(how, text):
    with pytest.raises(tilelang.CompileError) as error:
        tilelang.compile(alone(**how), target="reference")(np.zeros(4, np.float32))
    assert text in str(error.value)
    assert text.startswith("more") or "T.barrier_wait(b, parity)" in str(error.value)


def test_the_reference_finds_teams_that_wait_for_each_other():
    with pytest.raises(tilelang.CompileError) as error:
        copied(ring(2, wrong=1), "reference")
    first, second = str(error.value).splitlines()[0].split("; on line 33 ")
    assert "the threads [0, 128) wait for phase 1 of full[0] (parity 1) in block (0) of main" in first
    expected = "the threads [128, 256) wait for phase 0 of empty[0] (parity 0), missing: 1 of 129 arrivals"
    assert second == expected
