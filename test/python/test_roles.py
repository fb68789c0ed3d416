"""Pipelined loops around products of warpgroups are divided among two roles, from the plain tile program:
which loops, why not others, and that every form of loop computes what it means in every order of warps."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T

SIM = "sim:sm_90a"


def numbers(*shape, dtype=np.float16, seed=0):
    return np.random.default_rng(seed).integers(-4, 4, shape).astype(dtype)


def poisoned(*shape, dtype=np.float32):
    return np.full(shape, np.nan, dtype)


def run(function, *arguments, seeds=range(5), roles=True):
    """Simulated in several orders of warps, without a finding; divided among roles or not."""
    kernel = tilelang.compile(function, target=SIM)
    assert ("load_" in kernel.report.text or "compute" in kernel.report.text) == roles, kernel.report.text
    assert ("mbarrier_try_wait" in kernel._kernel.machine_text) >= roles
    for seed in seeds:
        report = kernel.simulate(*arguments, seed=seed)
        assert not report.findings, report
    return kernel


def why_not(kernel):
    return " ".join(line for line in kernel.report.text.splitlines() if "no warps of its own" in line)


def gemm(
    M,
    N,
    K,
    tile=(64, 64, 64),
    stages=3,
    threads=128,
    dtype="float16",
    transposed=(False, True),
    sums="float32",
):
    block_M, block_N, block_K = tile
    trans_A, trans_B = transposed

    @T.prim_func
    def main(
        A: T.Tensor((K, M) if trans_A else (M, K), dtype),
        B: T.Tensor((N, K) if trans_B else (K, N), dtype),
        C: T.Tensor((M, N), sums),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            a = T.alloc_shared((block_K, block_M) if trans_A else (block_M, block_K), dtype)
            b = T.alloc_shared((block_N, block_K) if trans_B else (block_K, block_N), dtype)
            c = T.alloc_fragment((block_M, block_N), sums)
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                if trans_A:
                    T.copy(A[k * block_K, by * block_M], a)
                else:
                    T.copy(A[by * block_M, k * block_K], a)
                if trans_B:
                    T.copy(B[bx * block_N, k * block_K], b)
                else:
                    T.copy(B[k * block_K, bx * block_N], b)
                T.gemm(a, b, c, transpose_A=trans_A, transpose_B=trans_B)
            T.copy(c, C[by * block_M, bx * block_N])

    return main


@pytest.mark.parametrize("transposed", [(False, True), (False, False), (True, False)])
@pytest.mark.parametrize(
    "shape, options",
    [
        ((64, 64, 256), {}),
        ((104, 72, 200), {"stages": 2}),
        ((72, 136, 584), {"tile": (64, 128, 64), "stages": 4}),
        ((136, 72, 136), {"tile": (128, 64, 64), "threads": 256}),
    ],
)
def test_products(shape, options, transposed):
    M, N, K = shape
    a, b = numbers(M, K), numbers(K, N, seed=1)
    c = poisoned(M, N)
    given = [np.ascontiguousarray(x.T) if t else x for x, t in zip((a, b), transposed, strict=True)]
    run(gemm(M, N, K, transposed=transposed, **options), *given, c, seeds=range(3))
    assert np.array_equal(c, a.astype(float) @ b.astype(float))


@pytest.mark.parametrize(
    "dtype, sums",
    [("bfloat16", "float32"), ("float8_e4m3fn", "float32"), ("int8", "int32"), ("float16", "float16")],
)
def test_types(dtype, sums):
    M, N, K = 64, 72, 320
    wide = "8" in dtype
    program = gemm(M, N, K, tile=(64, 64, 128 if wide else 64), dtype=dtype, sums=sums)
    rng = np.random.default_rng(0)
    x, y = rng.integers(-3, 3, (M, K)), rng.integers(-3, 3, (N, K))
    kernel = tilelang.compile(program, target=SIM)
    assert "compute" in kernel.report.text
    if dtype in ("bfloat16", "float8_e4m3fn"):
        pytest.importorskip("ml_dtypes")
        import ml_dtypes

        host = {"bfloat16": ml_dtypes.bfloat16, "float8_e4m3fn": ml_dtypes.float8_e4m3fn}[dtype]
    else:
        host = np.dtype(dtype)
    c = np.zeros((M, N), sums)
    assert not kernel.simulate(x.astype(host), y.astype(host), c).findings
    assert np.array_equal(c.astype(float), x.astype(float) @ y.T.astype(float))


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4, 7])
def test_trips_that_only_the_call_knows(steps):
    K = T.dynamic("K")

    @T.prim_func
    def main(
        A: T.Tensor((64, K), "float16"), B: T.Tensor((64, K), "float16"), C: T.Tensor((64, 64), "float32")
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, 64), num_stages=3):
                T.copy(A[0, k * 64], a)
                T.copy(B[0, k * 64], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C)

    a, b, c = numbers(64, 64 * steps), numbers(64, 64 * steps, seed=1), poisoned(64, 64)
    run(main, a, b, c)
    assert np.array_equal(c, a.astype(float) @ b.T.astype(float))


@pytest.mark.parametrize("steps", [0, 1, 2, 5])
@pytest.mark.parametrize("form", ["tiles", "condition", "lengths"])
def test_loops_around(form, steps):
    """The slots count on from one tile to the next, whatever stands around the loop."""

    @T.prim_func
    def main(
        A: T.Tensor((4, 64, 320), "float16"),
        B: T.Tensor((64, 320), "float16"),
        C: T.Tensor((4, 64, 64), "float32"),
        n: T.int32,
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            for t in T.serial(4):
                T.clear(c)
                if form == "tiles":
                    for k in T.Pipelined(n, num_stages=3):
                        T.copy(A[t, :, k * 64 : (k + 1) * 64], a)
                        T.copy(B[0, k * 64], b)
                        T.gemm(a, b, c, transpose_B=True)
                elif form == "condition":
                    if t != 1:
                        for k in T.Pipelined(n, num_stages=3):
                            T.copy(A[t, :, k * 64 : (k + 1) * 64], a)
                            T.copy(B[0, k * 64], b)
                            T.gemm(a, b, c, transpose_B=True)
                else:
                    for k in T.Pipelined(T.min(n, t), num_stages=3):
                        T.copy(A[t, :, k * 64 : (k + 1) * 64], a)
                        T.copy(B[0, k * 64], b)
                        T.gemm(a, b, c, transpose_B=True)
                T.copy(c, C[t, :, :])

    a, b, c = numbers(4, 64, 320), numbers(64, 320, seed=1), poisoned(4, 64, 64)
    run(main, a, b, c, steps)
    for t in range(4):
        depth = 64 * {"tiles": steps, "condition": steps * (t != 1), "lengths": min(steps, t)}[form]
        assert np.array_equal(c[t], a[t, :, :depth].astype(float) @ b[:, :depth].T.astype(float)), t


def test_two_loops_and_two_products():
    """Two loops, of which each has its rings; the second one multiplies one tile by two others."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 320), "float16"),
        B: T.Tensor((3, 64, 320), "float16"),
        C: T.Tensor((3, 64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            tiles = [T.alloc_shared((64, 64), "float16") for _ in range(5)]
            sums = [T.alloc_fragment((64, 64), "float32") for _ in range(3)]
            T.clear(sums[0])
            for k in T.Pipelined(5, num_stages=2):
                T.copy(A[0, k * 64], tiles[0])
                T.copy(B[0, :, k * 64 : (k + 1) * 64], tiles[1])
                T.gemm(tiles[0], tiles[1], sums[0], transpose_B=True)
            T.copy(sums[0], C[0, :, :])
            T.clear(sums[1])
            T.clear(sums[2])
            for k in T.Pipelined(5, num_stages=3):
                T.copy(A[0, k * 64], tiles[2])
                T.copy(B[1, :, k * 64 : (k + 1) * 64], tiles[3])
                T.copy(B[2, :, k * 64 : (k + 1) * 64], tiles[4])
                T.gemm(tiles[2], tiles[3], sums[1], transpose_B=True)
                T.gemm(tiles[2], tiles[4], sums[2], transpose_B=True)
            T.copy(sums[1], C[1, :, :])
            T.copy(sums[2], C[2, :, :])

    a, b, c = numbers(64, 320), numbers(3, 64, 320, seed=1), poisoned(3, 64, 64)
    kernel = run(main, a, b, c)
    assert np.array_equal(c, np.stack([a.astype(float) @ x.T.astype(float) for x in b]))
    assert kernel.report.text.count("compute") >= 2


def test_rows_that_a_table_names():
    @T.prim_func
    def main(
        A: T.Tensor((64, 256), "float16"),
        B: T.Tensor((8, 64, 64), "float16"),
        table: T.Tensor((4,), "int32"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                page = table[k]
                T.copy(A[0, k * 64], a)
                T.copy(B[page, :, :], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    a, b, c = numbers(64, 256), numbers(8, 64, 64, seed=1), poisoned(64, 64)
    table = np.array([5, 0, 7, 2], np.int32)
    run(main, a, b, table, c)
    assert np.array_equal(c, a.astype(float) @ b[table].reshape(256, 64).astype(float))


@pytest.mark.parametrize(
    "program, why",
    [
        (gemm(64, 64, 256, tile=(64, 64, 32)), "rows of no multiple of 128 bytes"),
        (gemm(64, 64, 300), "which must be a multiple of 16"),
        (gemm(64, 64, 256, threads=64), "are no whole warpgroups"),
        (gemm(64, 64, 256, tile=(32, 32, 64)), "is not divided by 1 warpgroup into"),
        (gemm(64, 64, 256, dtype="float32"), "elements of f32 one by one"),
    ],
)
def test_one_role(program, why):
    kernel = tilelang.compile(program, target=SIM)
    assert why in why_not(kernel), kernel.report.text
    assert "wait(empty" not in kernel._kernel.machine_text


def test_a_program_with_threads_of_its_own():
    @T.prim_func
    def main(A: T.Tensor((64, 256), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, c = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float32")
            tx = T.get_thread_binding()
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.gemm(a, a, c, transpose_B=True)
            if tx == 0:
                C[0, 0] = 0
            T.copy(c, C)

    assert "the program names threads" in why_not(tilelang.compile(main, target=SIM))


def test_blocks_walk_through_a_large_grid():
    """More tiles than blocks that run at once: loads and stores go on from one tile to the next."""
    M, N, K = 64 * 17, 64 * 16 + 8, 72
    a, b, c = numbers(M, K), numbers(N, K, seed=1), poisoned(M, N)
    kernel = run(gemm(M, N, K, stages=2), a, b, c, seeds=range(2))
    assert np.array_equal(c, a.astype(float) @ b.T.astype(float))
    assert "walk through the grid" in kernel.report.text and "tma_store" in kernel.report.text


def test_a_grid_that_only_the_call_knows():
    M = T.dynamic("M")

    @T.prim_func
    def main(
        A: T.Tensor((M, 128), "float16"), B: T.Tensor((64, 128), "float16"), C: T.Tensor((M, 64), "float16")
    ):
        with T.Kernel(T.ceildiv(M, 64), threads=128) as i:
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[i * 64, k * 64], a)
                T.copy(B[0, k * 64], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[i * 64, 0])

    for rows in (0, 1, 64, 300, 64 * 270):
        a, b, c = numbers(rows, 128), numbers(64, 128, seed=1), poisoned(rows, 64, dtype=np.float16)
        run(main, a, b, c, seeds=range(1))
        assert np.array_equal(c, (a.astype(float) @ b.T.astype(float)).astype(np.float16))


def test_sums_that_are_looked_at_before_they_leave():
    """An epilogue of the threads' own, and sums that leave for two tensors."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 256), "float16"),
        B: T.Tensor((64, 256), "float16"),
        C: T.Tensor((64, 64), "float16"),
        D: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(B[0, k * 64], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, D)
            for i, j in T.Parallel(64, 64):
                c[i, j] = T.max(c[i, j], 0)
            T.copy(c, C)

    a, b = numbers(64, 256), numbers(64, 256, seed=1)
    c, d = poisoned(64, 64, dtype=np.float16), poisoned(64, 64)
    kernel = run(main, a, b, c, d)
    exact = a.astype(float) @ b.T.astype(float)
    assert np.array_equal(d, exact) and np.array_equal(c, np.maximum(exact, 0).astype(np.float16))
    assert kernel.report.text.count("tma_store(") == 2


def test_published_switches():
    off = {"tl.disable_warp_specialized": True}
    plain = tilelang.compile(gemm(64, 64, 256), target=SIM, pass_configs=off)
    assert "compute" not in plain.report.text and "cp_async" in text_of(plain)
    off = {tilelang.PassConfigKey.TL_DISABLE_TMA_LOWER: True}
    assert "bulk_tensor" not in text_of(
        tilelang.compile(gemm(64, 64, 256, stages=1), target=SIM, pass_configs=off)
    )
    early = tilelang.compile(gemm(64, 64, 256), target=SIM)
    assert "pdl_sync" in text_of(early) and "before the kernel in front of it has ended" in early.report.text
    late = tilelang.compile(gemm(64, 64, 256), target=SIM, pass_configs={"tl.disable_early_launch": True})
    assert "pdl_sync" not in text_of(late) and "compute" in late.report.text
    off = {"tl.disable_warp_specialized": False}
    assert "compute" in tilelang.compile(gemm(64, 64, 256), target=SIM, pass_configs=off).report.text


def text_of(kernel):
    return kernel._kernel.machine_text


def test_a_tensor_that_the_kernel_has_written():
    """What is loaded ahead must have been there before the kernel."""

    @T.prim_func
    def main(A: T.Tensor((64, 256), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, c = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float32")
            for i, j in T.Parallel(64, 256):
                A[i, j] = A[i, j] + T.float16(1)
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.gemm(a, a, c, transpose_B=True)
            T.copy(c, C)

    a, c = numbers(64, 256), poisoned(64, 64)
    wanted = (a + 1).astype(float) @ (a + 1).T.astype(float)
    kernel = tilelang.compile(main, target=SIM)
    assert not kernel.simulate(a, c).findings and np.array_equal(c, wanted)
    assert "the kernel writes to A" in why_not(kernel)


def test_a_condition_that_the_block_computes():
    """Only the threads that compute know it."""

    @T.prim_func
    def main(A: T.Tensor((64, 256), "float16"), n: T.Tensor((1,), "int32"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, c = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float32")
            counts = T.alloc_shared((1,), "int32")
            T.copy(n, counts)
            T.clear(c)
            many = counts[0]
            if many > 0:
                for k in T.Pipelined(4, num_stages=2):
                    T.copy(A[0, k * 64], a)
                    T.gemm(a, a, c, transpose_B=True)
            T.copy(c, C)

    for many in (0, 1):
        a, c = numbers(64, 256), poisoned(64, 64)
        kernel = tilelang.compile(main, target=SIM)
        assert not kernel.simulate(a, np.array([many], np.int32), c).findings
        assert np.array_equal(c, many * (a.astype(float) @ a.T.astype(float)))
        assert "it depends on counts, which the kernel computes" in why_not(kernel)


def test_an_epilogue_of_many_operators():
    """The threads that compute are a team: what exchanges among them meets at its barrier."""

    @T.prim_func
    def main(
        A: T.Tensor((128, 256), "float16"),
        B: T.Tensor((64, 256), "float16"),
        C: T.Tensor((128, 64), "float32"),
        D: T.Tensor((128,), "float32"),
    ):
        with T.Kernel(1, threads=256):
            a, b = T.alloc_shared((128, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c, sums = T.alloc_fragment((128, 64), "float32"), T.alloc_fragment((128,), "float32")
            whole = T.alloc_shared((128, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(B[0, k * 64], b)
                T.gemm(a, b, c, transpose_B=True)
            T.reduce_sum(c, sums, dim=1)
            T.copy(c, whole)
            for i, j in T.Parallel(128, 64):
                C[i, j] = whole[127 - i, 63 - j]
            T.copy(sums, D)

    a, b, c, d = numbers(128, 256), numbers(64, 256, seed=1), poisoned(128, 64), poisoned(128)
    run(main, a, b, c, d)
    exact = a.astype(float) @ b.T.astype(float)
    assert np.array_equal(c, exact[::-1, ::-1]) and np.array_equal(d, exact.sum(1))


def test_registers_are_left_alone_where_the_program_says_so():
    @T.prim_func
    def main(A: T.Tensor((128, 256), "float16"), C: T.Tensor((128, 128), "float16")):
        with T.Kernel(1, threads=256):
            T.no_set_max_nreg()
            a, c = T.alloc_shared((128, 64), "float16"), T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.gemm(a, a, c, transpose_B=True)
            T.copy(c, C)

    a, c = numbers(128, 256), poisoned(128, 128, dtype=np.float16)
    kernel = run(main, a, c)
    assert np.array_equal(c, (a.astype(float) @ a.T.astype(float)).astype(np.float16))
    assert "setmaxnreg" not in text_of(kernel)


def test_too_few_registers_for_a_product():
    """Three warpgroups that compute and one that loads have 128 registers a thread at the launch."""
    kernel = tilelang.compile(gemm(192, 256, 128, tile=(192, 256, 64), stages=2, threads=384), target=SIM)
    assert "leave 128 registers to a thread" in why_not(kernel)


def test_a_tile_too_small_to_have_slots():
    """Boxes fill it, but not a second one right behind it."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 256), "float16"),
        X: T.Tensor((32,), "float32"),
        C: T.Tensor((64, 64), "float32"),
        D: T.Tensor((32,), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a, c = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float32")
            x, y = T.alloc_shared((8,), "float32"), T.alloc_fragment((8,), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(X[k * 8], x)
                T.gemm(a, a, c, transpose_B=True)
                T.copy(x, y)
                T.copy(y, D[k * 8])
            T.copy(c, C)

    a, x = numbers(64, 256), numbers(32, dtype=np.float32)
    c, d = poisoned(64, 64), poisoned(32)
    kernel = tilelang.compile(main, target=SIM)
    assert not kernel.simulate(a, x, c, d).findings
    assert np.array_equal(c, a.astype(float) @ a.T.astype(float)) and np.array_equal(d, x)
    assert "the copy of X to x" in why_not(kernel)


@pytest.mark.parametrize("depth", [64, 40])
def test_loops_of_one_turn(depth):
    """Where blocks walk through a grid, the loads of a tile run beside the product of the one before."""
    M, N = 64 * 17, 64 * 16 + 8
    a, b, c = numbers(M, depth), numbers(N, depth, seed=1), poisoned(M, N)
    kernel = run(gemm(M, N, depth, stages=2), a, b, c, seeds=range(2))
    assert np.array_equal(c, a.astype(float) @ b.T.astype(float))
    assert "walk through the grid" in kernel.report.text
    few = tilelang.compile(gemm(128, 64, depth, stages=2), target=SIM)
    assert "wait for a_full" not in few.report.text and "it has one turn" in why_not(few)
