"""Clusters of blocks: what they exchange and load once, how they wait for one another, what is refused."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from cluster_cases import CASES, exchanged, loaded_once
from helpers import failure
from tma_cases import SIM, numbers


@pytest.mark.parametrize("name", CASES)
def test_what_comes_out(name):
    function, x, wanted = CASES[name]()
    kernel = tilelang.compile(function, target=SIM)
    for schedules in (1, 8):
        y = np.full(wanted.shape, 99, x.dtype)
        kernel.simulate(x, y, schedules=schedules)
        assert np.array_equal(y, wanted)


@pytest.mark.parametrize("name", CASES)
def test_compiles(name):
    function, _, _ = CASES[name]()
    kernel = tilelang.compile(function, target="cuda -arch=sm_90")
    assert ("__cluster_dims__(" in kernel.get_kernel_source()) == ("itself" not in name)


def test_where_a_block_is():
    @T.prim_func
    def main(Y: T.Tensor((4, 6, 6), "int32")):
        with T.ClusterKernel(6, 4, cluster_dims=(3, 2), threads=32) as (bx, by):
            Y[by, bx, 0] = T.block_rank_in_cluster()
            Y[by, bx, 1] = T.get_cluster_id(0)
            Y[by, bx, 2] = T.get_cluster_ids()[1]
            Y[by, bx, 3] = T.get_cluster_size()
            Y[by, bx, 4] = T.get_cluster_extent(1)
            Y[by, bx, 5] = T.get_cluster_dims()[0] * 10 + T.get_cluster_extents()[2]

    y = np.zeros((4, 6, 6), np.int32)
    tilelang.compile(main, target=SIM).simulate(y)
    for by in range(4):
        for bx in range(6):
            assert list(y[by, bx]) == [bx % 3 + by % 2 * 3, bx // 3, by // 2, 6, 2, 31]


def test_both_ends_of_a_kernel_that_reaches_other_blocks():
    """All have begun and initialised their barriers; none ends before the others have reached it."""
    text = tilelang.compile(exchanged(barrier=True)[0], target=SIM).get_kernel_source()
    body = text[text.index("__cluster_dims__(2)") :]
    assert body.count("tl_cluster_arrive();") == body.count("tl_cluster_wait();") == 2
    begin = body.index("tl_cluster_wait();")
    assert body.index("tl_mbarrier_init") < begin < body.index("tl_cp_async_bulk_cluster")
    assert body.rindex("tl_cp_async_bulk_cluster") < body.rindex("tl_cluster_arrive();")
    alone = tilelang.compile(exchanged(1)[0], target=SIM).get_kernel_source()
    assert "tl_cluster_arrive();" not in alone[alone.index("main_kernel") :]


def test_one_block_issues_a_load_for_all():
    kernel = tilelang.compile(loaded_once()[0], target=SIM)
    text = kernel.get_kernel_source()
    assert "2d_multicast" in text or "3d_multicast" in text
    (told,) = [o.how for o in kernel.report.operators if o.name == "tma_load" and "cluster" in o.how]
    assert "one block of the cluster loads it for those of the mask 3" in told


def test_arrivals_release_what_threads_wrote_there():
    """A plain arrival at another block is cheap; one behind stores to that block must make them known."""

    @T.prim_func
    def main(X: T.Tensor((2, 64), "float32")):
        with T.Kernel(2, threads=64, cluster_dims=2):
            b = T.alloc_cluster_barrier(64)
            T.mbarrier_arrive(b, cta_id=1 - T.block_rank_in_cluster())
            T.barrier_wait(b, 0)

    plain = tilelang.compile(main, target="cuda -arch=sm_90").get_kernel_source()
    assert "tl_mbarrier_arrive_remote(" in plain and "remote_release(" not in plain
    stores = tilelang.compile(CASES["told by arrivals"]()[0], target="cuda -arch=sm_90").get_kernel_source()
    assert "tl_mbarrier_arrive_remote_release(" in stores


def test_a_grid_of_whole_clusters():
    n = T.dynamic("n")

    @T.prim_func
    def main(X: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 64), threads=64, cluster_dims=2) as b:
            X[b * 64 + T.get_thread_binding()] = 1

    kernel = tilelang.compile(main, target=SIM)
    kernel.simulate(np.zeros(256, np.float32))
    with pytest.raises(ValueError, match="the grid along x is made of whole clusters of 2 blocks"):
        kernel.simulate(np.zeros(192, np.float32))


SIGNATURE = "A: T.Tensor((64, 64), 'float16'), n: T.int32"
REFUSED = [
    ("cluster_dims=2", "T.mbarrier_arrive(b, cta_id=2)", "a cluster of 2 blocks has the ranks 0 to 1, not 2"),
    (
        "",
        "T.mbarrier_arrive(b, cta_id=0)",
        "the blocks of this kernel are alone: T.Kernel(…, cluster_dims=2)",
    ),
    ("", "T.tma_copy(A, S, barrier=b, cluster_mask=3)", "the blocks of this kernel are alone"),
    (
        "cluster_dims=2",
        "T.tma_copy(A, S, barrier=b, cluster_mask=4)",
        "a bit for each of 2 blocks, 1 to 3, not 4",
    ),
    (
        "cluster_dims=2",
        "T.tma_copy(A, S, barrier=b, issuer=1)",
        "issuer is one of the blocks of cluster_mask",
    ),
    ("cluster_dims=2", "T.tma_copy(S, A, cluster_mask=3)", "cluster_mask is for loads"),
    ("cluster_dims=2", "T.copy_cluster(S, S[0:32, :], dst_block=1)", "their shapes must be equal"),
    ("cluster_dims=2", "T.copy_cluster(A, S, dst_block=1)", "but A is not in it"),
    (
        "cluster_dims=2",
        "T.copy_cluster(S[:, 0:2], R[:, 0:2], dst_block=1, remote_barrier=b)",
        "has 4 bytes, but beside all threads multiples of 16 are copied: leave remote_barrier out",
    ),
    (
        "cluster_dims=2",
        "T.copy_cluster(S, R, remote_barrier=b)",
        "a barrier of the block dst_block, which is",
    ),
    ("cluster_dims=2", "T.copy_cluster(S, R, dst_block=1, cluster_mask=3)", "give one of the two"),
    ("cluster_dims=3", "T.cluster_sync()", "a grid of 4 blocks along x is not made of whole clusters of 3"),
    (
        "cluster_dims=(2, 2)",
        "T.cluster_sync()",
        "cluster_dims has an extent of 2 along y, but the grid has 1",
    ),
    ("cluster_dims=0", "T.cluster_sync()", "must be positive integers"),
    ("cluster_dims=(1, 1, 1, 2)", "T.cluster_sync()", "cluster_dims has 4 extents"),
    ("cluster_dims=64", "T.cluster_sync()", "clusters of more than 16 blocks, which no chip has"),
    ("cluster_dims=4", "T.tma_copy(A, S, barrier=b, cluster_mask=3, issuer=2)", "2 has no bit in 0b11"),
]


@pytest.mark.parametrize("dims, body, text", REFUSED)
def test_what_is_refused(tmp_path, dims, body, text):
    tile = "T.alloc_shared((64, 64), 'float16')"
    made = f"b = T.alloc_barrier(32)\nS, R = {tile}, {tile}\n"
    launch = f"T.Kernel(4, threads=32, {dims})"
    error = failure(tmp_path, made + body, signature=SIGNATURE, launch=launch)
    assert text in error.text, str(error)


@pytest.mark.parametrize(
    "target, text",
    [
        ("cuda -arch=sm_80", "sm_80 has no clusters; sm_90 and later chips do"),
        ("cpu", "cluster"),
        ("reference", "cluster"),
    ],
)
def test_targets_without_clusters(target, text):
    function, x, wanted = exchanged()
    with pytest.raises(tilelang.CompileError, match=text):
        kernel = tilelang.compile(function, target=target)
        kernel(x, np.zeros_like(wanted))


def test_blocks_of_clusters_wait_for_the_whole_grid():
    @T.prim_func
    def main(X: T.Tensor((8, 64), "float32"), Y: T.Tensor((8, 64), "float32")):
        with T.Kernel(8, threads=64, cluster_dims=2) as b:
            t = T.get_thread_binding()
            X[b, t] = b
            T.sync_grid()
            Y[b, t] = X[7 - b, t]

    x, y = np.zeros((8, 64), np.float32), np.zeros((8, 64), np.float32)
    tilelang.compile(main, target=SIM).simulate(x, y, schedules=4)
    assert (y[:, 0] == 7 - np.arange(8)).all()


def test_a_tile_from_another_block_is_stored_by_the_accelerator():
    """The fence stands behind the threads' copy to the other block."""

    @T.prim_func
    def main(X: T.Tensor((2, 8, 64), "float32"), Y: T.Tensor((2, 8, 64), "float32")):
        with T.Kernel(2, threads=64, cluster_dims=2) as b:
            S = T.alloc_shared((8, 64), "float32")
            D = T.alloc_shared((8, 64), "float32")
            T.copy(X[b, :, :], S)
            T.copy_cluster(S, D, dst_block=1 - b)
            T.cluster_sync()
            T.tma_copy(D, Y[b, :, :])
            T.tma_store_wait(0)

    x, y = numbers((2, 8, 64), "float32"), np.zeros((2, 8, 64), np.float32)
    tilelang.compile(main, target=SIM).simulate(x, y, schedules=4)
    assert np.array_equal(y, x[::-1])


def test_a_wait_alone_does_not_end_a_kernel():
    """The last arrival at the cluster's barrier must come behind what reaches the other block."""

    @T.prim_func
    def main(X: T.Tensor((2, 256), "float32")):
        with T.Kernel(2, threads=64, cluster_dims=2) as b:
            S = T.alloc_shared((256,), "float32")
            D = T.alloc_shared((256,), "float32")
            T.copy(X[b, :], S)
            T.cluster_arrive()
            T.copy_cluster(S, D, dst_block=1 - b)
            T.cluster_wait()

    kernel = tilelang.compile(main, target=SIM)
    kernel.simulate(np.zeros((2, 256), np.float32), schedules=4)
    assert kernel.get_kernel_source().count("tl_cluster_wait();") == 3


def test_an_order_of_blocks_is_refused():
    @T.prim_func
    def main(X: T.Tensor((4, 4), "float32")):
        with T.Kernel(4, 4, threads=32, cluster_dims=2) as (bx, by):
            T.use_swizzle(2)
            X[by, bx] = 1

    with pytest.raises(tilelang.CompileError, match="the blocks of a cluster .* stay neighbours"):
        tilelang.compile(main, target=SIM)


def test_all_orders_are_not_tried():
    function, x, wanted = exchanged(blocks=2)
    with pytest.raises(tilelang.CompileError, match="runs in clusters of blocks; try a number of schedules"):
        tilelang.compile(function, target=SIM).simulate(x, wanted.copy(), schedules="all")


@pytest.mark.parametrize("beside", [False, True], ids=["threads", "remote_barrier"])
def test_a_part_of_several_runs_of_memory(beside):
    """Rows of a tile, and rows of planes of another: each run goes by itself."""

    @T.prim_func
    def main(X: T.Tensor((2, 3, 8, 64), "float32"), Y: T.Tensor((2, 3, 8, 64), "float32")):
        with T.Kernel(2, threads=64, cluster_dims=2) as b:
            S = T.alloc_shared((3, 8, 64), "float32")
            D = T.alloc_shared((3, 4, 32), "float32")
            landed = T.alloc_cluster_barrier(1)
            if T.get_thread_binding() == 0:
                T.mbarrier_arrive_expect_tx(landed, 3 * 4 * 32 * 4)
            T.copy(X[b, :, :, :], S)
            if beside:
                T.copy_cluster(S[:, 2:6, 16:48], D, dst_block=1 - b, remote_barrier=landed)
                T.barrier_wait(landed, 0)
            else:
                T.copy_cluster(S[:, 2:6, 16:48], D, dst_block=1 - b)
                T.cluster_sync()
            T.copy(D, Y[b, :, 0:4, 0:32])

    x, y = numbers((2, 3, 8, 64), "float32"), np.full((2, 3, 8, 64), np.nan, np.float32)
    report = tilelang.compile(main, target=SIM).simulate(x, y, schedules=4)
    assert not report.findings
    assert np.array_equal(y[:, :, 0:4, 0:32], x[::-1, :, 2:6, 16:48])
    tilelang.compile(main, target="cuda -arch=sm_90a")


PARTS = {  # of a tile of (8, 24): the dtype, the part there and here, the instruction
    "a column": ("float32", (slice(8), 3), (slice(8), 1), "cluster_store_4"),
    "a run of 6 bytes": ("float16", (2, slice(1, 4)), (5, slice(2, 5)), "cluster_store_2"),
    "odd bytes": ("uint8", (slice(1, 4), slice(1, 6)), (slice(0, 3), slice(2, 7)), "cluster_store_1"),
    "rows of 8 bytes": (
        "float16",
        (slice(0, 8), slice(4, 8)),
        (slice(0, 8), slice(8, 12)),
        "cluster_store_8",
    ),
}


@pytest.mark.parametrize("part", PARTS)
def test_parts_of_any_size(part):
    dtype, there, here, row = PARTS[part]

    @T.prim_func
    def main(X: T.Tensor((2, 8, 24), dtype), Y: T.Tensor((2, 8, 24), dtype)):
        with T.Kernel(2, threads=32, cluster_dims=2) as b:
            S, D = T.alloc_shared((8, 24), dtype), T.alloc_shared((8, 24), dtype)
            T.copy(X[b, :, :], S)
            T.clear(D)
            T.cluster_sync()
            T.copy_cluster(S[there], D[here], dst_block=1 - b)
            T.cluster_sync()
            T.copy(D, Y[b, :, :])

    x = np.random.default_rng(0).integers(1, 99, (2, 8, 24)).astype(dtype)
    y = np.full_like(x, 7)
    kernel = tilelang.compile(main, target=SIM)
    assert not kernel.simulate(x, y, schedules=4).findings and row in kernel._kernel.machine_text
    want = np.zeros_like(x)
    want[(slice(None), *here)] = x[::-1][(slice(None), *there)]
    assert np.array_equal(y, want)
    tilelang.compile(main, target="cuda -arch=sm_90a")
