"""T.tma_copy: what lands where, under every layout that boxes fill, ragged and in parts; rings that feed a
gemm; what the accelerator cannot move."""

import re

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import random

SIM = "sim:sm_90"


def run(function, *arrays, target=SIM, schedules=4):
    kernel = tilelang.compile(function, target=target)
    kernel(*arrays) if target == "reference" else kernel.simulate(*arrays, schedules=schedules)
    return kernel


def numbers(shape, dtype):
    count = int(np.prod(shape))
    return (np.arange(count) * 37 % 251 - 99).reshape(shape).astype(dtype)


def notes(kernel):
    return [o.how for o in kernel.report.operators if o.name in ("tma_load", "tma_store")]


# ── one tile there and back ───────────────────────────────────────────────────────────────────────────
def through(shape, tile, dtype, slots=0):
    """Every tile of a tensor of two dimensions, through shared memory."""
    bm, bn = tile

    @T.prim_func
    def main(X: T.Tensor(shape, dtype), Y: T.Tensor(shape, dtype)):
        with T.Kernel(T.ceildiv(shape[1], bn), T.ceildiv(shape[0], bm), threads=64) as (bx, by):
            S = T.alloc_shared((slots, bm, bn) if slots else (bm, bn), dtype)
            part = S[by % slots, :, :] if slots else S
            full = T.alloc_barrier(64)
            T.tma_copy(X[by * bm, bx * bn], part, barrier=full)
            T.barrier_arrive(full)
            T.barrier_wait(full, 0)
            T.tma_copy(part, Y[by * bm, bx * bn])
            T.tma_store_wait(0, read=False)

    return main


TILES = [
    ((64, 64), "float16", "64x64 elements, swizzled by 128 bytes"),
    ((8, 256), "float16", "4 boxes of 8x64 elements, swizzled by 128 bytes"),
    ((16, 32), "float16", "a box of 16x32 elements, swizzled by 64 bytes"),
    ((16, 48), "float16", "3 boxes of 16x16 elements, swizzled by 32 bytes"),
    ((16, 24), "float16", "3 boxes of 16x8 elements, not swizzled"),
    ((12, 64), "float16", "a box of 12x64 elements, swizzled by 128 bytes"),
    ((12, 128), "float16", "a box of 12x128 elements, not swizzled"),
    ((5, 24), "float16", "a box of 5x24 elements, not swizzled"),
    ((264, 8), "float16", "3 boxes of 88x8 elements, not swizzled"),
    ((512, 64), "int8", "2 boxes of 256x64 elements, swizzled by 64 bytes"),
    ((32, 32), "float32", "a box of 32x32 elements, swizzled by 128 bytes"),
    ((8, 16), "float64", "a box of 8x16 elements, swizzled by 128 bytes"),
    ((8, 400), "uint8", "25 boxes of 8x16 elements, not swizzled"),
    ((4, 384), "uint8", "12 boxes of 1x128 elements, not swizzled"),
]


@pytest.mark.parametrize("tile, dtype, how", TILES)
def test_tiles_of_every_layout(tile, dtype, how):
    """Ragged at both edges: what lies outside of the tensor is not written."""
    unit = 16 // np.dtype(dtype).itemsize
    shape = (tile[0] * 2 - 3, tile[1] + unit)
    x = numbers(shape, dtype)
    for target in (SIM, "reference"):
        y = np.full(shape, 77, dtype)
        kernel = run(through(shape, tile, dtype), x, y, target=target)
        assert np.array_equal(x, y)
        if target == SIM:
            assert all(how in n for n in notes(kernel)) and len(notes(kernel)) == 2, notes(kernel)


@pytest.mark.parametrize("tile", [(16, 64), (8, 128), (16, 32), (8, 40)])
def test_a_slot_of_a_tile(tile):
    """Slots begin where the pattern of their layout does."""
    shape = (tile[0] * 5, tile[1] * 2)
    x, y = numbers(shape, "float16"), np.zeros(shape, "float16")
    run(through(shape, tile, "float16", slots=3), x, y)
    assert np.array_equal(x, y)


@pytest.mark.parametrize("target", [SIM, "reference"])
def test_what_is_outside_is_0(target):
    """And the barrier counts it all the same: else nobody would go on."""

    @T.prim_func
    def main(X: T.Tensor((40, 72), "float16"), Y: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=64) as b:
            S = T.alloc_shared((64, 64), "float16")
            full = T.alloc_barrier(64)
            T.fill(S, 5)
            T.tma_copy(X[b - 8, 40], S, barrier=full)
            T.barrier_arrive(full)
            T.barrier_wait(full, 0)
            T.copy(S, Y)

    x, y = numbers((40, 72), "float16"), np.full((64, 64), np.nan, "float16")
    wanted = np.zeros((64, 64), "float16")
    wanted[8:48, :32] = x[:, 40:72]
    run(main, x, y, target=target)
    assert np.array_equal(y, wanted)


@pytest.mark.parametrize("target", [SIM, "reference"])
def test_tensors_of_other_ranks(target):
    """1 to 5 dimensions, points among them, tiles of three."""

    @T.prim_func
    def main(
        A: T.Tensor((100,), "float32"),
        B: T.Tensor((3, 20, 4, 32), "float16"),
        C: T.Tensor((2, 3, 2, 10, 8), "float16"),
        A_out: T.Tensor((100,), "float32"),
        B_out: T.Tensor((3, 20, 4, 32), "float16"),
        C_out: T.Tensor((2, 3, 2, 10, 8), "float16"),
    ):
        with T.Kernel(2, threads=64) as b:
            a = T.alloc_shared((64,), "float32")
            s = T.alloc_shared((16, 32), "float16")
            c = T.alloc_shared((2, 10, 8), "float16")
            full = T.alloc_barrier(64)
            T.tma_copy(A[b * 64], a, barrier=full)
            T.tma_copy(B[b, 8 : 8 + 16, 3, :], s, barrier=full)
            T.tma_copy(C[b, 2, :, :, :], c, barrier=full)
            T.barrier_arrive(full)
            T.barrier_wait(full, 0)
            T.tma_copy(a, A_out[b * 64])
            T.tma_copy(s, B_out[b, 8 : 8 + 16, 3, :])
            T.tma_copy(c, C_out[b, 2, :, :, :])
            T.tma_store_wait(0)

    a, b, c = (
        numbers(100, "float32"),
        numbers((3, 20, 4, 32), "float16"),
        numbers((2, 3, 2, 10, 8), "float16"),
    )
    outs = [np.zeros_like(x) for x in (a, b, c)]
    kernel = run(main, a, b, c, *outs, target=target)
    assert np.array_equal(outs[0], a)
    wanted = np.zeros_like(b)
    wanted[:2, 8:, 3] = b[:2, 8:, 3]
    assert np.array_equal(outs[1], wanted)
    wanted = np.zeros_like(c)
    wanted[:, 2] = c[:, 2]
    assert np.array_equal(outs[2], wanted)
    if target == SIM:
        text = kernel.get_kernel_source()
        for rank in (1, 4, 5):
            assert f"tensor_{rank}d_load(" in text and f"tensor_{rank}d_store(" in text
        assert any("a box of 2x10x8 elements, not swizzled" in n for n in notes(kernel))


def test_parts_of_a_tile():
    """Rows and panels of a tile by copies of their own, also by an index of the kernel; read as one."""

    @T.prim_func
    def main(X: T.Tensor((64, 128), "float16"), Y: T.Tensor((64, 128), "float16")):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((64, 128), "float16")
            full = T.alloc_barrier(64)
            T.tma_copy(X[0:32, 0:64], S[0:32, 0:64], barrier=full)
            T.tma_copy(X[0:32, 64:128], S[0:32, 64:128], barrier=full)
            for i in T.serial(4):
                T.tma_copy(X[32 + i * 8 : 40 + i * 8, :], S[32 + i * 8 : 40 + i * 8, :], barrier=full)
            T.barrier_arrive(full)
            T.barrier_wait(full, 0)
            T.copy(S, Y)

    x, y = numbers((64, 128), "float16"), np.zeros((64, 128), "float16")
    run(main, x, y)
    assert np.array_equal(x, y)


@pytest.mark.parametrize("M, K, N", [(64, 64, 64), (100, 72, 40)])
def test_operators_agree_with_it_on_a_layout(M, K, N):
    """A gemm and a loop read what a copy has brought, whatever they would have liked better."""

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((N, K), "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=128):
            As = T.alloc_shared((128, 128), "float16")
            Bs = T.alloc_shared((64, 128), "float16")
            Cl = T.alloc_fragment((128, 64), "float32")
            full = T.alloc_barrier(128)
            T.tma_copy(A[0, 0], As, barrier=full)
            T.tma_copy(B[0, 0], Bs, barrier=full)
            T.barrier_arrive(full)
            T.barrier_wait(full, 0)
            for i, j in T.Parallel(128, 128):
                As[i, j] = As[i, j] * T.float16(2)
            T.clear(Cl)
            T.gemm(As, Bs, Cl, transpose_B=True)
            T.copy(Cl, C[0, 0])

    a, b, c = random(M, K, dtype="float16"), random(N, K, dtype="float16"), np.zeros((M, N), np.float32)
    kernel = run(main, a, b, c)
    assert np.abs(c - 2.0 * a.astype(float) @ b.T.astype(float)).max() < 0.05
    decided = {b.name: (b.decided_by, b.strictness) for b in kernel.report.buffers}
    assert decided["As"] == decided["Bs"] == ("tma_load", "required")
    assert kernel.get_kernel_source().count("ldmatrix") > 0


# ── rings ─────────────────────────────────────────────────────────────────────────────────────────────
def gemm(M, N, K, slots=3, bm=64, bn=128, bk=64):
    """The producer runs ahead by as many tiles as there are slots."""

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=256) as (bx, by):
            A_shared = T.alloc_shared((slots, bm, bk), "float16")
            B_shared = T.alloc_shared((slots, bk, bn), "float16")
            C_shared = T.alloc_shared((bm, bn), "float16")
            C_local = T.alloc_fragment((bm, bn), "float32")
            full = T.alloc_barrier([128] * slots)
            empty = T.alloc_barrier([128] * slots)
            with T.ws(1):
                for k in T.serial(T.ceildiv(K, bk)):
                    T.barrier_wait(empty[k % slots], (k // slots + 1) % 2)
                    T.tma_copy(A[by * bm, k * bk], A_shared[k % slots, :, :], barrier=full[k % slots])
                    T.tma_copy(B[k * bk, bx * bn], B_shared[k % slots, :, :], barrier=full[k % slots])
                    T.barrier_arrive(full[k % slots])
            with T.ws(0):
                T.clear(C_local)
                for k in T.serial(T.ceildiv(K, bk)):
                    T.barrier_wait(full[k % slots], k // slots % 2)
                    T.gemm(A_shared[k % slots, :, :], B_shared[k % slots, :, :], C_local)
                    T.barrier_arrive(empty[k % slots])
                T.copy(C_local, C_shared)
                T.tma_copy(C_shared, C[by * bm, bx * bn])
                T.tma_store_wait(0)

    return main


def multiplied(function, M, N, K, target=SIM, schedules=6):
    a, b = random(M, K, dtype="float16"), random(K, N, dtype="float16", seed=1)
    c = np.full((M, N), np.nan, "float16")
    kernel = run(function, a, b, c, target=target, schedules=schedules)
    assert np.abs(c - a.astype(float) @ b.astype(float)).max() < 0.05
    return kernel


@pytest.mark.parametrize("target", [SIM, "reference"])
@pytest.mark.parametrize("M, N, K", [(128, 256, 192), (100, 136, 328), (64, 128, 64), (72, 8, 8)])
def test_a_gemm_by_a_producer_and_a_consumer(M, N, K, target):
    multiplied(gemm(M, N, K), M, N, K, target)


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_rings_of_other_lengths(slots):
    multiplied(gemm(64, 64, 328, slots, bn=64), 64, 64, 328, schedules=20)


def test_teams_get_what_the_program_says():
    """No barrier but the block's behind the initialisation, and one of the consumer's threads between the
    fragment that they store and the copy that one of them starts."""
    source = tilelang.compile(gemm(128, 256, 192), target=SIM).get_kernel_source()
    body = source[source.index("main_kernel") :]
    assert body.count("__syncthreads()") == 1 and body.count("bar_sync") == 1
    at = body.index("tl_bar_sync<")
    assert re.search(r"tl_fence_proxy_async\(\);\s*$", body[:at])
    assert body[at:].index("tensor_2d_store") < body[at:].index("commit_group")
    assert body.count("fence_proxy") == 1


def whole_block(M, N, K, bm=64, bn=64, bk=64):
    """All threads fetch and multiply: the compiler orders the next copy behind the readers."""

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=128) as (bx, by):
            A_shared = T.alloc_shared((bm, bk), "float16")
            B_shared = T.alloc_shared((bk, bn), "float16")
            C_shared = T.alloc_shared((bm, bn), "float16")
            C_local = T.alloc_fragment((bm, bn), "float32")
            full = T.alloc_barrier(128)
            T.clear(C_local)
            for k in T.serial(T.ceildiv(K, bk)):
                T.tma_copy(A[by * bm, k * bk], A_shared, barrier=full)
                T.tma_copy(B[k * bk, bx * bn], B_shared, barrier=full)
                T.barrier_arrive(full)
                T.barrier_wait(full, k % 2)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C_shared)
            T.tma_copy(C_shared, C[by * bm, bx * bn])
            T.tma_store_wait(0)

    return main


def test_one_barrier_a_turn_without_teams():
    kernel = multiplied(whole_block(100, 136, 200), 100, 136, 200, schedules=12)
    source = kernel.get_kernel_source()
    source = source[source.index("main_kernel") :]
    loop = source[source.index("for (int k = 0") : source.index("tl_round")]
    assert loop.count("__syncthreads()") == 2  # one in the turn, in front of the copies; one behind the loop
    assert loop.index("__syncthreads()") < loop.index("tensor_2d_load")


def test_stores_that_overlap_the_next_tile():
    """Two tiles in turn: the one before the last must have been read."""

    @T.prim_func
    def main(X: T.Tensor((6, 32, 64), "float16"), Y: T.Tensor((6, 32, 64), "float16")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((2, 32, 64), "float16")
            for k in T.serial(6):
                for i, j in T.Parallel(32, 64):
                    S[k % 2, i, j] = X[k, i, j] + T.float16(1)
                T.tma_copy(S[k % 2, :, :], Y[k, :, :])
                T.tma_store_arrive()
                T.tma_store_wait(0)

    x, y = numbers((6, 32, 64), "float16"), np.zeros((6, 32, 64), "float16")
    kernel = run(main, x, y, schedules=12)
    assert np.array_equal(y, x + 1)
    loop = kernel.get_kernel_source().split("for (int k = 0")[1]
    assert re.search(r"fence_proxy_async\(\);\s*__syncthreads\(\);\s*if \(tx == 0\)", loop)


def test_a_fence_behind_the_programs_own_barrier():
    """What threads wrote before T.sync_threads() is stored all the same: a fence and a barrier come first."""

    @T.prim_func
    def main(X: T.Tensor((32, 64), "float16"), Y: T.Tensor((32, 64), "float16")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((32, 64), "float16")
            T.copy(X, S)
            T.sync_threads()
            T.tma_copy(S, Y)
            T.tma_store_wait()

    x, y = numbers((32, 64), "float16"), np.zeros((32, 64), "float16")
    run(main, x, y)
    assert np.array_equal(x, y)


def test_a_tile_in_the_place_of_another():
    """What threads wrote to a tile that is gone, and the copy that comes in its place."""

    @T.prim_func
    def main(X: T.Tensor((64, 64), "float16"), Y: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            full = T.alloc_barrier(128)
            P = T.alloc_shared((64, 64), "float16")
            F = T.alloc_fragment((64, 64), "float16")
            for i, j in T.Parallel(64, 64):
                P[i, j] = X[j, i]
            T.copy(P, F)
            S = T.alloc_shared((64, 64), "float16")
            T.tma_copy(X, S, barrier=full)
            T.barrier_arrive(full)
            T.barrier_wait(full, 0)
            for i, j in T.Parallel(64, 64):
                F[i, j] = F[i, j] + S[i, j]
            T.copy(F, Y)

    x, y = numbers((64, 64), "float16"), np.zeros((64, 64), "float16")
    kernel = run(main, x, y)
    assert np.array_equal(y, x + x.T)
    places = {b.name: b.address for b in kernel.report.buffers}
    assert places["P"] <= places["S"] < places["P"] + 64 * 64 * 2


# ── what only the call tells ──────────────────────────────────────────────────────────────────────────
def dynamic():
    m, n = T.dynamic("m"), T.dynamic("n")

    @T.prim_func
    def main(X: T.Tensor((m, n), "float16"), Y: T.Tensor((m, n), "float16")):
        with T.Kernel(T.ceildiv(n, 64), T.ceildiv(m, 64), threads=64) as (bx, by):
            S = T.alloc_shared((64, 64), "float16")
            full = T.alloc_barrier(64)
            T.tma_copy(X[by * 64, bx * 64], S, barrier=full)
            T.barrier_arrive(full)
            T.barrier_wait(full, 0)
            T.tma_copy(S, Y[by * 64, bx * 64])
            T.tma_store_wait(0)

    return main


@pytest.mark.parametrize("shape", [(100, 72), (1, 8), (64, 200)])
def test_shapes_of_the_call(shape):
    x, y = numbers(shape, "float16"), np.zeros(shape, "float16")
    run(dynamic(), x, y)
    assert np.array_equal(x, y)


def test_strides_and_addresses_of_the_call():
    x, y = numbers((8, 70), "float16"), np.zeros((8, 70), "float16")
    with pytest.raises(
        tilelang.SimulationError, match="a stride is 140 bytes, which must be a multiple of 16"
    ):
        run(dynamic(), x, y)
    memory = numbers(8 * 64 + 8, "float16")
    begin = next(n for n in range(8) if memory[n:].ctypes.data % 16 == 8)
    x, y = memory[begin : begin + 8 * 64].reshape(8, 64), np.zeros((8, 64), "float16")
    with pytest.raises(tilelang.SimulationError, match="which must be a multiple of 16 bytes"):
        run(dynamic(), x, y)
