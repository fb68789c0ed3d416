"""T.async_copy, T.ptx_cp_async, T.ptx_commit_group and T.ptx_wait_group: right on every target, asynchronous
where there is cp.async, and errors on the line where it cannot carry what is asked for."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T

TARGETS = ["sim:sm_80", "sim:sm_90", "sim:sm_75", "sim:gfx942", "cpu", "reference"]
SYNCHRONOUS = ["sim:sm_75", "sim:gfx942", "cpu"]
ROWS, COLUMNS = 16, 64


def summed(columns, dtype="float32", left=1, commits=True, auto=False, stages=2):
    """Sums of rows by tiles of 64 columns; the next tile is on its way while one is added up."""

    @T.prim_func
    def main(
        A: T.Tensor((ROWS, columns), dtype),
        B: T.Tensor((ROWS, columns), dtype),
        C: T.Tensor((ROWS,), "float32"),
    ):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((2, ROWS, COLUMNS), dtype)
            D = T.alloc_shared((ROWS, COLUMNS), dtype)
            F = T.alloc_fragment((ROWS,), "float32")
            T.clear(F)
            T.async_copy(A[0, 0], S[0, :, :])
            n = T.ceildiv(columns, COLUMNS)
            for k in T.Pipelined(n, num_stages=stages if auto else 0):
                if k + 1 < n:
                    T.async_copy(A[0, (k + 1) * COLUMNS], S[(k + 1) % 2, :, :])
                elif commits:
                    T.ptx_commit_group()
                if auto:
                    T.copy(B[0, k * COLUMNS], D)
                else:
                    T.async_copy(B[0, k * COLUMNS], D)
                T.ptx_wait_group(left if auto else 0)
                for i in T.Parallel(ROWS):
                    for j in T.serial(COLUMNS):
                        F[i] += T.cast(S[k % 2, i, j], "float32") + 2 * T.cast(D[i, j], "float32")
            T.copy(F, C)

    return main


def data(columns, dtype):
    rng = np.random.default_rng(columns)
    a, b = (rng.integers(-8, 8, (ROWS, columns)).astype(dtype) for _ in "ab")
    return a, b, np.full(ROWS, np.nan, np.float32), (a.astype(np.float64) + 2 * b).sum(1)


def check(kernel, columns, dtype="float32"):
    a, b, c, expected = data(columns, dtype)
    kernel(a, b, c)
    assert np.array_equal(c, expected)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "dtype, columns", [("float32", 64), ("float32", 200), ("float16", 196), ("int8", 332)]
)
def test_every_target_computes_the_same(target, dtype, columns):
    """The last tile is ragged, but for 64 columns: its elements outside of the tensor are 0."""
    kernel = tilelang.compile(summed(columns, dtype), target=target)
    check(kernel, columns, dtype)
    if target.startswith("sim"):
        kernel.simulate(*data(columns, dtype)[:3], schedules=4)


@pytest.mark.parametrize("target", SYNCHRONOUS)
def test_where_there_is_no_cp_async_it_says_so(target):
    kernel = tilelang.compile(summed(64), target=target)
    said = [n.text for n in kernel.report.refusals if "is synchronous here" in n.text]
    assert len(said) == 3 and "has no asynchronous copies" in said[0], said
    if target != "cpu":
        assert "cp_async" not in kernel.get_kernel_source()


@pytest.mark.parametrize("left", [0, 1])
@pytest.mark.parametrize("columns", [64, 128, 200, 448])
def test_beside_copies_that_run_ahead(columns, left):
    """A thread's groups are counted together: the wait for the program's own may wait for the loop's as well,
    and then a note says so."""
    kernel = tilelang.compile(summed(columns, left=left, auto=True, stages=3), target="sim:sm_80")
    a, b, c, expected = data(columns, "float32")
    kernel.simulate(a, b, c, schedules=6)
    assert np.array_equal(c, expected)
    ahead = min(3, -(-columns // COLUMNS)) - 1
    told = [n.text for n in kernel.report.refusals if "groups of copies" in n.text]
    what = "all but 1 groups" if left else "all groups"
    expects = [f"this waits for {what} of copies, also for the up to {ahead} groups of copies that run ahead"]
    assert [t[: len(expects[0])] for t in told] == (expects if left < ahead else []), told


def by_hand(threads=32, bytes_=16, first=0, predicate=False, dtype="float32", wait=0, skip=False):
    @T.prim_func
    def main(A: T.Tensor((4, 128), dtype), B: T.Tensor((4, 128), dtype)):
        with T.Kernel(1, threads=threads):
            S = T.alloc_shared((4, 128), dtype)
            tx = T.get_thread_binding()
            n = bytes_ * 8 // tilelang.language.dtype(dtype).bits
            for r in T.serial(4):
                for q in T.serial(128 // (threads * n)):
                    at = (q * threads + tx) * n
                    if predicate:
                        T.ptx_cp_async(
                            T.access_ptr(S[r, at], "w"), T.access_ptr(A[r, at], "r"), n, predicate=at < 64
                        )
                    else:
                        T.ptx_cp_async(T.access_ptr(S[r, at + first], "w"), T.access_ptr(A[r, at], "r"), n)
                T.ptx_commit_group()
            if not skip:
                T.ptx_wait_group(wait)
            T.sync_threads()
            for r in T.serial(4):
                for i in T.serial(128 // threads):
                    B[r, i * threads + tx] = S[3 - r, 127 - (i * threads + tx)]

    return main


@pytest.mark.parametrize("target", TARGETS[:4])
@pytest.mark.parametrize("predicate", [False, True])
@pytest.mark.parametrize("dtype, bytes_", [("float32", 16), ("float32", 4), ("float16", 8), ("int8", 4)])
def test_elements_by_hand(target, predicate, dtype, bytes_):
    a = np.random.default_rng(1).integers(-100, 100, (4, 128)).astype(dtype)
    b = np.zeros_like(a)
    kernel = tilelang.compile(by_hand(16, bytes_, predicate=predicate, dtype=dtype), target=target)
    kernel.simulate(a, b, schedules=4)
    expected = np.where(np.arange(128) < 64, a, 0).astype(dtype) if predicate else a
    assert np.array_equal(b, expected[::-1, ::-1])


@pytest.mark.parametrize("target", ["cuda -arch=sm_80", "cuda -arch=sm_90"])
def test_the_source_begins_copies(target):
    source = tilelang.compile(
        summed(200, "float16"), target=target, execution_backend=None
    ).get_kernel_source()
    assert (
        "cp.async" in source
        and "cp.async.wait_group" in source
        and source.count("cp.async.commit_group") >= 1
    )


# ── what is read too early ────────────────────────────────────────────────────────────────────────────
def read_first():
    @T.prim_func
    def main(A: T.Tensor((4, 128), "float32"), B: T.Tensor((4, 128), "float32")):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((4, 128), "float32")
            T.async_copy(A, S)
            T.copy(S, B)
            T.ptx_wait_group(0)

    return main


@pytest.mark.parametrize("program", [by_hand(skip=True), by_hand(wait=1), read_first()])
def test_the_simulator_finds_reads_before_the_wait(program):
    a, b = np.ones((4, 128), "f4"), np.zeros((4, 128), "f4")
    with pytest.raises(tilelang.SimulationError, match="S"):
        tilelang.compile(program, target="sim:sm_80").simulate(a, b, schedules=4)


# ── what it cannot carry ──────────────────────────────────────────────────────────────────────────────
def refused(shape, dtype, tile, to="float16", alloc=T.alloc_shared, safe=False):
    @T.prim_func
    def main(A: T.Tensor(shape, dtype), B: T.Tensor(tile, to)):
        with T.Kernel(1, threads=32):
            S = alloc(tile, to)
            if safe:
                T.annotate_safe_value({A: 1})
            T.async_copy(A[0, 0], S)
            T.ptx_wait_group(0)
            T.copy(S, B)

    return main


CANNOT = [
    (
        lambda: refused((8, 64), "float32", (8, 64)),
        "it moves bytes as they are, but A is float32 and S is float16",
    ),
    (
        lambda: refused((8, 64), "float16", (8, 64), alloc=T.alloc_fragment),
        "but A is a tensor and S is a fragment",
    ),
    (
        lambda: refused((8, 33), "float16", (8, 32)),
        "only 2 bytes at a time are contiguous and aligned in A and S",
    ),
    (
        lambda: refused((8, 64), "float16", (8, 64), safe=True),
        "cp.async cannot carry it, as A has a safe value",
    ),
]


@pytest.mark.parametrize("program, why", CANNOT)
def test_what_cp_async_cannot_carry(program, why):
    with pytest.raises(tilelang.CompileError) as error:
        tilelang.compile(program(), target="sim:sm_80")
    assert why in str(error.value) and "T.async_copy(A[0, 0], S)" in str(error.value), error.value


BY_HAND = [
    (
        {"bytes_": 16, "first": 1},
        "16 bytes are copied at addresses that are multiples of 16, but what is written",
    ),
    ({"bytes_": 12}, "a copy is of 4, 8 or 16 bytes, not of 3 elements of S, float32 (12 bytes)"),
    ({"bytes_": 2, "dtype": "float16"}, "not of 1 elements of S, float16 (2 bytes)"),
    ({"wait": -1}, "num is part of the instruction: a constant, at least 0, not -1"),
]


@pytest.mark.parametrize("arguments, why", BY_HAND)
def test_misuse_by_hand(arguments, why):
    with pytest.raises(tilelang.CompileError) as error:
        tilelang.compile(by_hand(**arguments), target="sim:sm_80")
    assert why in str(error.value) and "T.ptx_" in str(error.value), error.value


@pytest.mark.parametrize("target", ["sim:sm_75", "sim:sm_80", "cpu", "reference"])
def test_an_order_beside_groups_of_the_program(target):
    """The lists count the statements of the text, also where groups mean nothing."""

    @T.prim_func
    def main(A: T.Tensor((4, 64), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            S, total = T.alloc_shared((64,), "float32"), T.alloc_fragment((64,), "float32")
            T.clear(total)
            for k in T.Pipelined(4, num_stages=2, order=[0, 1, 2, 3], stage=[0, 0, 0, 0]):
                T.async_copy(A[k, :], S)
                T.ptx_commit_group()
                T.ptx_wait_group(0)
                for i in T.Parallel(64):
                    total[i] += S[63 - i]
            T.copy(total, B)

    a, b = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32), np.zeros(64, np.float32)
    tilelang.compile(main, target=target)(a, b)
    assert np.allclose(b, a.sum(0)[::-1], atol=1e-5)
