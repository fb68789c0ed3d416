"""Forms of kernels, loops and buffers as published."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import random, run

SIM = "sim:sm_90"


# ── launches ──────────────────────────────────────────────────────────────────────────────────────────


def in_a_cluster(cluster):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(2, threads=32, cluster_dims=cluster) as bx:
            for i in T.Parallel(32):
                B[bx * 32 + i] = A[bx * 32 + i] * 2

    return main


@pytest.mark.parametrize("cluster", [None, 1, (1, 1, 1)])
def test_cluster_dims(target, cluster):
    a, b = random(64), np.zeros(64, np.float32)
    run(in_a_cluster(cluster), target, a, b)
    assert np.array_equal(b, a * 2)


@pytest.mark.parametrize("cluster", [2, (2, 1, 1)])
def test_a_cluster_of_several_blocks(cluster):
    """Blocks that use nothing of their cluster compute the same; or it says what clusters need."""
    a, b = random(64), np.zeros(64, np.float32)
    try:
        run(in_a_cluster(cluster), SIM, a, b)
    except tilelang.CompileError as error:
        assert "sm_90" in str(error) and "cluster_dims" in str(error)
    else:
        assert np.array_equal(b, a * 2)


def test_all_block_indices_by_one_name(target):
    @T.prim_func
    def main(A: T.Tensor((2, 3, 8), "float32"), B: T.Tensor((2, 3, 8), "float32")):
        with T.Kernel(3, 2, threads=32) as b:
            for i in T.Parallel(8):
                B[b[1], b[0], i] = A[b[1], b[0], i] + b[0]

    a, b = random(2, 3, 8), np.zeros((2, 3, 8), np.float32)
    run(main, target, a, b)
    assert np.array_equal(b, a + np.arange(3, dtype=np.float32)[None, :, None])


def test_block_indices_unpacked_later(target):
    @T.prim_func
    def main(B: T.Tensor((2, 3), "int32")):
        with T.Kernel(3, 2, threads=32) as blocks:
            bx, by = blocks
            for i in T.Parallel(1):
                B[by, bx + i] = by * 10 + bx

    b = np.zeros((2, 3), np.int32)
    run(main, target, b)
    assert np.array_equal(b, [[0, 1, 2], [10, 11, 12]])


def test_a_persistent_loop_with_stages(target):
    @T.prim_func
    def main(A: T.Tensor((4, 3, 8), "float32"), B: T.Tensor((4, 3, 8), "float32")):
        with T.Kernel(2, threads=32) as block:
            tile = T.alloc_shared((8,), "float32")
            for m, n in T.Persistent([4, 3], 2, block, 8, 2, annotations={}):
                T.copy(A[m, n, :], tile)
                for i in T.Parallel(8):
                    B[m, n, i] = tile[i] + (m * 3 + n)

    a, b = random(4, 3, 8), np.zeros((4, 3, 8), np.float32)
    run(main, target, a, b)
    assert np.array_equal(b, a + np.arange(12, dtype=np.float32).reshape(4, 3, 1))


def test_a_scheduler_with_a_cluster(target):
    @T.prim_func
    def main(B: T.Tensor((4, 3), "int32")):
        with T.Kernel(2, threads=32) as block:
            sched = T.PersistentTileScheduler(4, 3, num_workers=2, swizzle_size=2, cluster_size=1)
            sched.init(block)
            while sched.valid():
                for i in T.Parallel(1):
                    B[sched.m_idx, sched.n_idx + i] = sched.m_idx * 3 + sched.n_idx + 1
                sched.next_tile()

    b = np.zeros((4, 3), np.int32)
    run(main, target, b)
    assert np.array_equal(b, np.arange(1, 13).reshape(4, 3))


# ── variables and loops ───────────────────────────────────────────────────────────────────────────────


def test_variables_with_a_scope(target):
    @T.prim_func
    def main(B: T.Tensor((6,), "int32")):
        with T.Kernel(1, threads=32):
            a = T.alloc_var("int32", scope="local.var")
            b = T.alloc_var("int32", "local.var")
            c = T.alloc_var("int32", 3, "local.var")
            d = T.alloc_var("int32", init=4)
            e = T.alloc_var("int32", 5)
            f = T.alloc_var("int32", scope="local.var", init=6)
            a, b = 1, 2
            for i in T.Parallel(6):
                B[i] = T.if_then_else(
                    i == 0,
                    a,
                    T.if_then_else(
                        i == 1,
                        b,
                        T.if_then_else(i == 2, c, T.if_then_else(i == 3, d, T.if_then_else(i == 4, e, f))),
                    ),
                )

    b = np.zeros(6, np.int32)
    run(main, target, b)
    assert b.tolist() == [1, 2, 3, 4, 5, 6]


def test_all_indices_of_a_loop_by_one_name(target):
    @T.prim_func
    def main(A: T.Tensor((8, 4), "float32"), B: T.Tensor((8, 4), "float32"), C: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            for idx in T.Parallel(8, 4):
                B[idx[0], idx[1]] = A[idx[0], idx[1]] * idx[1]
            for only in T.Parallel(4):
                C[only] = A[0, only]

    a, b, c = random(8, 4), np.zeros((8, 4), np.float32), np.zeros(4, np.float32)
    run(main, target, a, b, c)
    assert np.array_equal(b, a * np.arange(4, dtype=np.float32)) and np.array_equal(c, a[0])


def test_indices_of_a_grid_by_one_name(target):
    @T.prim_func
    def main(B: T.Tensor((3, 2), "int32")):
        with T.Kernel(1, threads=32):
            for idx in T.grid(3, 2):
                B[idx[0], idx[1]] = idx[0] * 2 + idx[1]

    b = np.zeros((3, 2), np.int32)
    run(main, target, b)
    assert np.array_equal(b, np.arange(6).reshape(3, 2))


def test_a_loop_over_threads_by_position():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            for tx in T.thread_binding(64, "threadIdx.x"):
                B[tx] = A[63 - tx]

    a, b = random(64), np.zeros(64, np.float32)
    run(main, SIM, a, b)
    assert np.array_equal(b, a[::-1])


def test_a_pipeline_by_position(target):
    @T.prim_func
    def main(A: T.Tensor((4, 32), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((32,), "float32")
            total = T.alloc_fragment((32,), "float32")
            T.clear(total)
            for k in T.Pipelined(1, 4, 2, None, None, {}):
                T.copy(A[k, :], tile)
                for i in T.Parallel(32):
                    total[i] += tile[i]
            T.copy(total, B)

    a, b = random(4, 32), np.zeros(32, np.float32)
    run(main, target, a, b)
    np.testing.assert_allclose(b, a[1:].sum(0), rtol=1e-6)


# ── buffers ───────────────────────────────────────────────────────────────────────────────────────────


def test_slices_are_stored(target):
    @T.prim_func
    def main(A: T.Tensor((8, 4), "float32"), B: T.Tensor((8, 4), "float32"), C: T.Tensor((8, 4), "float32")):
        with T.Kernel(8, threads=1) as bx:
            local = T.alloc_local((4,), "float32")
            local[0:4] = A[bx, 0:4]
            B[bx, 0:4] = local[0:4]
            C[bx, 0:4] = A[bx, 0:4] * 2

    a, b, c = random(8, 4), np.zeros((8, 4), np.float32), np.zeros((8, 4), np.float32)
    run(main, target, a, b, c)
    assert np.array_equal(b, a) and np.array_equal(c, a * 2)


def test_a_ramp_is_an_index(target):
    @T.prim_func
    def main(A: T.Tensor((32,), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(8, threads=1) as bx:
            B[T.Ramp(bx * 4, 1, 4)] = A[T.Ramp(bx * 4, 1, 4)]

    a, b = random(32), np.zeros(32, np.float32)
    run(main, target, a, b)
    assert np.array_equal(b, a)


def test_a_shape_alone_in_brackets():
    tensor = T.Tensor[256, 4]
    assert tuple(tensor.shape) == (256, 4) and tensor.dtype == "float32"

    @T.prim_func
    def main(A: T.Tensor[8, 4], B: T.Tensor[8, 4]):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(8, 4):
                B[i, j] = A[i, j] + 1

    a, b = random(8, 4), np.zeros((8, 4), np.float32)
    run(main, "cpu", a, b)
    assert np.array_equal(b, a + 1)


def test_handles_become_buffers(target):
    @T.prim_func
    def main(a: T.handle, b: T.handle):
        A = T.match_buffer(a, (16,), "float32")
        B = T.match_buffer(b, (16,), dtype="float32")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                B[i] = A[i] + 1

    a, b = random(16), np.zeros(16, np.float32)
    run(main, target, a, b)
    assert np.array_equal(b, a + 1)


def test_a_tensor_of_a_pointer(target):
    @T.prim_func
    def main(a: T.ptr, b: T.ptr):
        A = T.Tensor.from_ptr(a, (16,), "float32")
        B = T.Tensor.from_ptr(b, (16,))
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                B[i] = A[i] + 1

    a, b = random(16), np.zeros(16, np.float32)
    run(main, target, a, b)
    assert np.array_equal(b, a + 1)


def test_a_variable_is_an_extent(target):
    M = T.Var("M", "int32")

    @T.prim_func
    def main(A: T.Tensor((M,), "float32"), B: T.Tensor((M,), "float32")):
        with T.Kernel(T.ceildiv(M, 32), threads=32) as bx:
            for i in T.Parallel(32):
                B[bx * 32 + i] = A[bx * 32 + i] + 1

    kernel = tilelang.compile(main, target=target)
    for n in (1, 32, 50):
        a, b = random(n), np.zeros(n, np.float32)
        kernel(a, b)
        assert np.array_equal(b, a + 1)


@pytest.mark.parametrize("scope", ["shared.dyn", "shared", "local.fragment"])
def test_a_buffer_with_a_scope(target, scope):
    @T.prim_func
    def main(A: T.Tensor((16, 4), "float32"), B: T.Tensor((16, 4), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_buffer((16, 4), "float32", scope=scope)
            T.copy(A, tile)
            for i, j in T.Parallel(16, 4):
                tile[i, j] += 1
            T.copy(tile, B)

    a, b = random(16, 4), np.zeros((16, 4), np.float32)
    run(main, target, a, b)
    assert np.array_equal(b, a + 1)


def test_statements_of_the_lower_level(target):
    """T.func_attr and T.sblock say nothing here; T.bind names a value, T.allocate makes memory."""

    @T.prim_func
    def main(A: T.Tensor((32,), "float32"), B: T.Tensor((32,), "float32")):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        with T.Kernel(1, threads=32) as bx:  # noqa: SIM117
            with T.sblock("root"):
                start = T.bind(bx * 32 + 1)
                shared = T.allocate((32,), "float32", "shared.dyn")
                for i in T.Parallel(32):
                    shared[i] = A[i] + start
                T.tvm_storage_sync("shared")
                for i in T.Parallel(32):
                    B[i] = shared[31 - i]

    a, b = random(32), np.zeros(32, np.float32)
    run(main, target, a, b)
    assert np.array_equal(b, (a + 1)[::-1])


# ── checks and hints ──────────────────────────────────────────────────────────────────────────────────


def test_an_assert_of_the_host(target):
    @T.prim_func
    def main(B: T.Tensor((8,), "int32"), n: T.int32):
        assert n > 3, "n must be larger than three"
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i] = n

    kernel = tilelang.compile(main, target=target)
    b = np.zeros(8, np.int32)
    kernel(b, 5)
    assert b.tolist() == [5] * 8
    with pytest.raises(Exception, match="n must be larger than three"):
        kernel(b, 3)


def test_an_assert_of_the_device():
    @T.prim_func
    def main(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                T.device_assert(A[i] > 0, "positive", no_stack_info=True)
                T.device_assert(A[i] < 100, msg="small")
                B[i] = A[i]

    kernel = tilelang.compile(main, target=SIM)
    a, b = np.arange(1, 9, dtype=np.int32), np.zeros(8, np.int32)
    kernel(a, b)
    assert np.array_equal(a, b)
    with pytest.raises(Exception, match="positive"):
        kernel(a - 1, b)


@pytest.mark.parametrize("order", ["row", "column"])
def test_the_order_of_a_swizzle(target, order):
    @T.prim_func
    def main(B: T.Tensor((6, 4), "int32")):
        with T.Kernel(4, 6, threads=32) as (bx, by):
            T.use_swizzle(4, order=order)
            for i in T.Parallel(1):
                B[by, bx + i] += by * 4 + bx

    b = np.zeros((6, 4), np.int32)
    run(main, target, b)
    assert np.array_equal(b, np.arange(24).reshape(6, 4))


def test_an_atomic_of_a_tile_by_the_memory_accelerator():
    @T.prim_func
    def main(A: T.Tensor((4, 16, 8), "float32"), C: T.Tensor((16, 8), "float32")):
        with T.Kernel(4, threads=32) as bx:
            tile = T.alloc_shared((16, 8), "float32")
            T.copy(A[bx, 0, 0], tile)
            T.atomic_add(C[0, 0], tile, use_tma=True)

    a = random(4, 16, 8)
    for target in ("cpu", "reference", SIM):
        c = np.zeros((16, 8), np.float32)
        run(main, target, a, c)
        np.testing.assert_allclose(c, a.sum(0), rtol=1e-5, atol=1e-5)
    assert "__global__" in tilelang.compile(main, target="cuda -arch=sm_90").get_kernel_source()


# ── macros ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_reference_is_bound_inside(target):
    @T.macro
    def twice(A, i):
        x: T.Ref = A[i]
        x = x + x  # noqa: F841

    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=1):
            tile = T.alloc_local((8,), "float32")
            for i in T.serial(8):
                tile[i] = A[i]
                twice(tile, i)
            for i in T.serial(8):
                B[i] = tile[i]

    a, b = random(8), np.zeros(8, np.float32)
    run(main, target, a, b)
    assert np.array_equal(b, a * 2)


def test_an_annotated_parameter_is_assigned(target):
    @T.macro
    def raised(x: T.Ref, y: T.float32, n: T.int32):
        y = y + n
        x = y * 2  # noqa: F841
        return y

    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32"), C: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                C[i] = raised(B[i], A[i], 3)

    a, b, c = random(8), np.zeros(8, np.float32), np.zeros(8, np.float32)
    run(main, target, a, b, c)
    assert np.array_equal(c, a + 3) and np.array_equal(b, (a + 3) * 2)
