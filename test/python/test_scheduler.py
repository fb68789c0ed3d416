"""T.PersistentTileScheduler: each tile of the grid once, in the order that it says, whatever the numbers."""

import inspect

import numpy as np
import pytest
import tilelang
import tilelang.language as T


def visits(m, n, workers, swizzle, **more):
    """Each block writes down which tiles it has, in its order."""
    most = -(-m * n // workers)

    @T.prim_func
    def kernel(
        rows: T.Tensor((workers, most), "int32"),
        columns: T.Tensor((workers, most), "int32"),
        count: T.Tensor((workers,), "int32"),
    ):
        with T.Kernel(workers, threads=1) as block:
            sched = T.PersistentTileScheduler(m, n, swizzle_size=swizzle, **more)
            sched.init(block)
            while sched.valid():
                rows[block, sched.current_iter] = sched.m_idx
                columns[block, sched.current_iter] = sched.n_idx
                sched.next_tile()
            count[block] = sched.current_iter

    return kernel, most


def expected(tile, m, n, swizzle):
    group, within = divmod(tile, m * swizzle)
    width = min(swizzle, n - group * swizzle)
    return within // width, group * swizzle + within % width


@pytest.mark.parametrize(
    "m,n,workers,swizzle", [(4, 6, 5, 2), (3, 7, 4, 3), (1, 1, 3, 8), (5, 2, 10, 1), (7, 3, 2, 8)]
)
def test_each_tile_once_in_order(target, m, n, workers, swizzle):
    func, most = visits(m, n, workers, swizzle)
    kernel = tilelang.compile(func, target=target)
    rows, columns = (np.full((workers, most), -1, np.int32) for _ in range(2))
    count = np.full(workers, -1, np.int32)
    kernel(rows, columns, count)
    seen = set()
    for block in range(workers):
        mine = list(range(block, m * n, workers))
        assert count[block] == len(mine)
        for at, tile in enumerate(mine):
            here = (int(rows[block, at]), int(columns[block, at]))
            assert here == expected(tile, m, n, swizzle)
            seen.add(here)
    assert len(seen) == m * n


@pytest.mark.parametrize("size", [(96, 80), (64, 33), (0, 16)])
def test_tiles_of_a_gemm(target, size):
    M, N = T.dynamic("M, N")
    K, block, workers = 48, 32, 3

    @T.prim_func
    def gemm(A: T.Tensor((M, K), "float32"), B: T.Tensor((K, N), "float32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(workers, threads=64) as b:
            left, right = T.alloc_shared((block, 16), "float32"), T.alloc_shared((16, block), "float32")
            acc = T.alloc_fragment((block, block), "float32")
            sched = T.PersistentTileScheduler(T.ceildiv(M, block), T.ceildiv(N, block), workers, 2, name="s")
            sched.init(b)
            while sched.valid():
                x, y = sched.m_idx, sched.n_idx
                T.clear(acc)
                for k in T.Pipelined(K // 16, num_stages=2):
                    T.copy(A[x * block, k * 16], left)
                    T.copy(B[k * 16, y * block], right)
                    T.gemm(left, right, acc)
                T.copy(acc, C[x * block, y * block])
                sched.next_tile()

    kernel = tilelang.compile(gemm, target=target)
    rng = np.random.default_rng(3)
    a = rng.standard_normal((size[0], K), dtype=np.float32)
    b = rng.standard_normal((K, size[1]), dtype=np.float32)
    c = np.full(size, np.nan, np.float32)
    kernel(a, b, c)
    want = a.astype(np.float64) @ b
    if c.size:
        assert np.linalg.norm(c - want) < 1e-5 * np.linalg.norm(want)


@pytest.mark.parametrize("m,n,clusters,together,swizzle", [(4, 3, 2, 2, 1), (5, 4, 3, 2, 2), (8, 3, 2, 4, 8)])
def test_blocks_of_a_cluster_work_side_by_side(m, n, clusters, together, swizzle):
    """In one column, on rows that follow each other, in as many turns; the last ones may be outside."""
    turns = -(-m // together) * n

    @T.prim_func
    def kernel(at: T.Tensor((clusters * together, turns, 2), "int32"), C: T.Tensor((m, n), "int32")):
        with T.Kernel(clusters * together, threads=32, cluster_dims=together) as block:
            sched = T.PersistentTileScheduler(m, n, swizzle_size=swizzle, cluster_size=together)
            sched.init(block)
            while sched.valid():
                T.cluster_sync()
                if T.get_thread_binding() == 0:
                    at[block, sched.current_iter, 0] = sched.m_idx
                    at[block, sched.current_iter, 1] = sched.n_idx
                    C[sched.m_idx, sched.n_idx] = 1
                sched.next_tile()

    at, c = np.full((clusters * together, turns, 2), -1, np.int32), np.zeros((m, n), np.int32)
    tilelang.compile(kernel, target="sim:sm_90").simulate(at, c, schedules=2)
    assert c.all()
    at = at.reshape(clusters, together, turns, 2)
    seen = []
    for cluster in range(clusters):
        units = list(range(cluster, turns, clusters))
        for rank in range(together):
            rows, columns = at[cluster, rank, : len(units)].T
            assert (at[cluster, rank, len(units) :] == -1).all()
            want = [expected(u, -(-m // together), n, swizzle) for u in units]
            assert list(zip(rows // together, columns, strict=True)) == want
            assert (rows % together == rank).all()
            seen += list(zip(rows.tolist(), columns.tolist(), strict=True))
    assert len(set(seen)) == len(seen) == turns * together


def test_clusters_and_numbers_that_do_not_fit():
    for size, workers, text in (
        (4, None, "cluster_size is 4, but the blocks of this kernel form clusters of 2, as T.Kernel"),
        (2, 3, "num_workers is 3, but they come in clusters of 2"),
    ):
        with pytest.raises(tilelang.CompileError, match=text):

            @T.prim_func
            def kernel(A: T.Tensor((8,), "int32")):
                with T.Kernel(4, threads=32, cluster_dims=2):
                    T.PersistentTileScheduler(4, 2, num_workers=workers, cluster_size=size)  # noqa: B023


def test_without_state_and_with_the_name_first(target):
    @T.prim_func
    def kernel(out: T.Tensor((6, 4), "int32")):
        with T.Kernel(6, threads=1) as block:
            plain = T.PersistentTileScheduler(3, 2, num_workers=1, swizzle_size=1, stateful=False)
            m, n = plain.coord(block)
            out[block, 0] = m
            out[block, 1] = n
            old = T.PersistentTileScheduler("old", 3, 2, swizzle_size=2)
            old.init(block)
            out[block, 2] = old.m_idx[0]
            out[block, 3] = old.n_idx[0]

    out = np.full((6, 4), -1, np.int32)
    tilelang.compile(kernel, target=target)(out)
    want = [(*expected(t, 3, 2, 1), *expected(t, 3, 2, 2)) for t in range(6)]
    assert out.tolist() == [list(row) for row in want]


def test_what_it_refuses():

    with pytest.raises(tilelang.CompileError, match="stateful=False has no place of its own"):

        @T.prim_func
        def first(A: T.Tensor((8,), "int32")):
            with T.Kernel(2, threads=1) as block:
                sched = T.PersistentTileScheduler(4, 2, stateful=False)
                A[block] = sched.m_idx

    with pytest.raises(tilelang.CompileError, match="swizzle_size must be a positive integer, not 0"):

        @T.prim_func
        def second(A: T.Tensor((8,), "int32")):
            with T.Kernel(2, threads=1) as block:
                sched = T.PersistentTileScheduler(4, 2, swizzle_size=0)
                sched.init(block)


def test_cuda_text_compiles():
    func, _ = visits(5, 7, 4, 3)
    for arch in ("sm_80", "sm_90"):
        text = tilelang.compile(func, target=f"cuda -arch={arch}").get_kernel_source()
        assert "sched_m_idx" in text


def persistent_gemm(way):
    M = N = K = 256

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(3, threads=128) as block:
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")

            @T.macro
            def tile(m, n):
                T.clear(c)
                for k in T.Pipelined(K // 64, num_stages=2):
                    T.copy(A[m * 64, k * 64], a)
                    T.copy(B[k * 64, n * 64], b)
                    T.gemm(a, b, c)
                T.copy(c, C[m * 64, n * 64])

            if way == "while":
                sched = T.PersistentTileScheduler(M // 64, N // 64, swizzle_size=2)
                sched.init(block)
                while sched.valid():
                    tile(sched.m_idx, sched.n_idx)
                    sched.next_tile()
            elif way == "coord":
                sched = T.PersistentTileScheduler(M // 64, N // 64, swizzle_size=2, stateful=False)
                for wave in T.serial(T.ceildiv(16 - block, 3)):
                    m, n = sched.coord(block + wave * 3)
                    tile(m, n)
            else:
                for m, n in T.Persistent([M // 64, N // 64], 3, block):
                    tile(m, n)

    return main


@pytest.mark.parametrize("way", ["while", "coord", "T.Persistent"])
def test_which_of_its_loops_are_divided_among_roles(way):
    kernel = tilelang.compile(persistent_gemm(way), target="sim:sm_90a")
    notes = [note.text for note in kernel.report.notes]
    undivided = (
        "the while loop on line {}, and only a `for` loop is counted ahead (T.Persistent, or "
        "T.PersistentTileScheduler's coord(number), walks through tiles in one)"
    )
    lines, first = inspect.getsourcelines(persistent_gemm)
    line = first + next(n for n, text in enumerate(lines) if "while sched.valid()" in text)
    assert any(undivided.format(line) in text for text in notes) == (way == "while")
    assert any("threads [128, 256) load a and b" in text for text in notes) == (way != "while")
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((256, 256)).astype(np.float16) for _ in range(2))
    c = np.full((256, 256), np.nan, np.float32)
    kernel(a, b, c)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert np.linalg.norm(c - exact) <= 1e-3 * np.linalg.norm(exact)
