"""T.tma_copy: what lands where, under every layout that boxes fill, ragged and in parts."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import random
from tma_cases import SIM, dynamic, notes, numbers, run, through

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
    """Rows and panels of one tile by copies of their own, also by an index of the kernel; read as one
    tile."""

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


# ── what only the call tells ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("shape", [(100, 72), (1, 8), (64, 200)])
def test_shapes_of_the_call(shape):
    x, y = numbers(shape, "float16"), np.zeros(shape, "float16")
    run(dynamic(), x, y)
    assert np.array_equal(x, y)


def test_one_kernel_and_tensors_of_several_shapes():
    """Each call makes its own maps."""
    kernel = tilelang.compile(dynamic(), target=SIM)
    for shape in [(100, 72), (3, 200), (100, 72), (64, 8)]:
        x, y = numbers(shape, "float16"), np.zeros(shape, "float16")
        kernel(x, y)
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


def test_what_is_not_known_to_be_aligned_is_told():
    @T.prim_func
    def main(X: T.Tensor((8, 256), "float16"), at: T.Tensor((1,), "int32"), Y: T.Tensor((8, 64), "float16")):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((8, 64), "float16")
            full = T.alloc_barrier(64)
            T.tma_copy(X[0, at[0]], S, barrier=full)
            T.barrier_arrive(full)
            T.barrier_wait(full, 0)
            T.copy(S, Y)

    x, y = numbers((8, 256), "float16"), np.zeros((8, 64), "float16")
    kernel = run(main, x, np.array([72], "int32"), y)
    assert np.array_equal(y, x[:, 72 : 72 + 64])
    assert any(
        "not known to be a multiple of 8 elements (16 bytes)" in n.text for n in kernel.report.refusals
    )
    with pytest.raises(tilelang.SimulationError, match="the last coordinate is 71, which is 142 bytes"):
        run(main, x, np.array([71], "int32"), y)


@pytest.mark.parametrize("everywhere", [False, True])
def test_a_tensor_that_the_kernel_itself_has_written(everywhere):
    """What threads write to a tensor is seen by the accelerator behind a fence of all memory only."""

    @T.prim_func
    def main(
        X: T.Tensor((64, 64), "float16"), Y: T.Tensor((64, 64), "float16"), Z: T.Tensor((64, 64), "float16")
    ):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((64, 64), "float16")
            full = T.alloc_barrier(1)
            T.copy(X, Y)
            T.fence_proxy_async(everywhere=everywhere)
            T.sync_threads()
            T.tma_copy(Y, S, barrier=full)
            if T.get_thread_binding() == 0:
                T.barrier_arrive(full)
            T.barrier_wait(full, 0)
            T.copy(S, Z)

    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float16)
    y, z = np.zeros_like(x), np.zeros_like(x)
    kernel = tilelang.compile(main, target="sim:sm_90")
    if everywhere:
        assert not kernel.simulate(x, y, z, schedules=3).findings and np.array_equal(z, x)
    else:
        with pytest.raises(
            tilelang.SimulationError,
            match=r"no fence for tensors .* execute T.fence_proxy_async\(everywhere=True\)",
        ):
            kernel.simulate(x, y, z, schedules=3)


@pytest.mark.parametrize("scope", ["block", "T.ws", "condition"])
def test_how_many_threads_come_to_a_copy(scope):
    """leader_scope_threads: as many as come there; the first of them starts the copy, once."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=256):
            s, full = T.alloc_shared((64, 64), "float16"), T.alloc_barrier(1)
            tx = T.get_thread_binding()
            if scope == "block":
                T.tma_copy(A, s, barrier=full, leader_scope_threads=256)
            elif scope == "T.ws":
                with T.ws(1):
                    T.tma_copy(A, s, barrier=full, leader_scope_threads=128)
            else:
                if tx < 32:
                    T.tma_copy(A, s, barrier=full, leader_scope_threads=32)
            if tx == (128 if scope == "T.ws" else 0):
                T.barrier_arrive(full)
            T.barrier_wait(full, 0)
            T.copy(s, B)

    a = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float16)
    b = np.full((64, 64), np.nan, np.float16)
    tilelang.compile(main, target="sim:sm_90a")(a, b)
    assert np.array_equal(a, b)
