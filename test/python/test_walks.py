"""Blocks that walk through the grid from tile to tile: by lists where tiles differ in length, with two slots
for what is loaded beside their loops; and what they store to one place again and again."""

import re

import numpy as np
import pytest
import tilelang
import tilelang.language as T

SIM = "sim:sm_90a"


@pytest.mark.parametrize(
    "trips, walks, listed",
    [("equal", True, False), ("of the block", True, True), ("of a tensor", False, False)],
)
def test_blocks_with_unequal_work(trips, walks, listed):
    """They walk through the grid by lists, where it is known how much each has to do: else the chip gives a
    block to whoever is free."""
    blocks = 300

    @T.prim_func
    def main(
        A: T.Tensor((blocks * 64, 64), "float16"),
        B: T.Tensor((256, 64), "float16"),
        N: T.Tensor((blocks,), "int32"),
        O: T.Tensor((blocks * 64, 64), "float16"),
    ):
        with T.Kernel(blocks, threads=128) as bx:
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            o = T.alloc_fragment((64, 64), "float32")
            T.copy(A[bx * 64, 0], a)
            T.clear(o)
            steps = 2 if trips == "equal" else T.min(bx % 5, 4) if trips == "of the block" else N[bx]
            for k in T.Pipelined(steps, num_stages=2):
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, o, transpose_B=True)
            T.copy(o, O[bx * 64, 0])

    kernel = tilelang.compile(main, target=SIM)
    assert ("walk through the grid" in kernel.report.text) == walks
    assert ("which differ in length" in kernel.report.text) == listed
    if not listed:
        return
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-2, 3, (n, 64)).astype(np.float16) for n in (blocks * 64, 256))
    o = np.full((blocks * 64, 64), np.nan, np.float16)
    kernel(a, b, np.zeros(blocks, np.int32), o)
    for i in range(blocks):
        first = b[: i % 5 * 64].astype(float).reshape(-1, 64, 64).sum(0)
        assert np.array_equal(o[i * 64 : i * 64 + 64], a[i * 64 : i * 64 + 64].astype(float) @ first.T)


def test_one_long_list():
    """A block takes 257 short tiles while each other one has a long one: the lists have 520 numbers."""

    @T.prim_func
    def main(
        A: T.Tensor((520 * 64, 64), "float16"),
        B: T.Tensor((256 * 64, 64), "float16"),
        O: T.Tensor((520 * 64, 64), "float32"),
    ):
        with T.Kernel(520, threads=128) as bx:
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            o = T.alloc_fragment((64, 64), "float32")
            T.copy(A[bx * 64, 0], a)
            T.clear(o)
            for k in T.Pipelined(T.if_then_else(bx < 263, 256, 1), num_stages=2):
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, o, transpose_B=True)
            T.copy(o, O[bx * 64, 0])

    source = tilelang.compile(main, target="cuda -arch=sm_90a").get_kernel_source()
    tables = [t.split(",") for t in re.findall(r"tl_table_\d+\[\] = \{(.*?)\}", source)]
    assert sorted(len(t) for t in tables) == [264, 264, 520]
    assert 520 in [sum(int(x) for x in t) for t in tables]  # the lengths of the lists


@pytest.mark.parametrize("rows, slots", [(12, 1), (16, 2)])
def test_a_layout_for_one_slot_only(rows, slots):
    """Two slots of 12 rows have no swizzle of 128 bytes that the accelerator writes: the tile has one."""
    blocks, tiles = 4, 3

    @T.prim_func
    def main(
        A: T.Tensor((blocks * 64, 64), "float16"),
        B: T.Tensor((192, 64), "float16"),
        Z: T.Tensor((tiles, rows, 64), "float16"),
        Y: T.Tensor((blocks, tiles, rows, 64), "float16"),
        O: T.Tensor((blocks, tiles, 64, 64), "float32"),
    ):
        with T.Kernel(blocks, threads=128) as bx:
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            z, held = T.alloc_shared((rows, 64), "float16"), T.alloc_fragment((rows, 64), "float16")
            o = T.alloc_fragment((64, 64), "float32")
            T.annotate_layout({z: tilelang.layout.make_swizzled_layout(z)})
            for t in T.serial(tiles):
                T.copy(A[bx * 64, 0], a)
                T.copy(Z[t, :, :], z)
                T.clear(o)
                for k in T.Pipelined(3, num_stages=2):
                    T.copy(B[k * 64, 0], b)
                    T.gemm(a, b, o, transpose_B=True)
                T.copy(z, held)
                T.copy(held, Y[bx, t, :, :])
                T.copy(o, O[bx, t, :, :])

    kernel = tilelang.compile(main, target=SIM)
    assert f"z = shared f16[{'2, ' * (slots - 1)}{rows}, 64]" in kernel._kernel.machine_text
    rng = np.random.default_rng(2)
    a, b, z = (
        rng.integers(-2, 3, n).astype(np.float16) for n in ((blocks * 64, 64), (192, 64), (3, rows, 64))
    )
    y, o = (
        np.full((blocks, tiles, rows, 64), np.nan, np.float16),
        np.full((blocks, tiles, 64, 64), np.nan, np.float32),
    )
    assert kernel.simulate(a, b, z, y, o, seed=3).findings == ()
    assert np.array_equal(y, np.broadcast_to(z, y.shape))
    wanted = a.astype(float).reshape(blocks, 64, 64) @ b.astype(float).reshape(3, 64, 64).sum(0).T
    assert np.array_equal(o, np.broadcast_to(wanted[:, None], o.shape))


def test_one_place_is_stored_again():
    """Each turn of a program's loop stores to the same place: what was begun before must have got there."""

    @T.prim_func
    def main(
        A: T.Tensor((3, 64, 64), "float16"),
        B: T.Tensor((192, 64), "float16"),
        O: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            o = T.alloc_fragment((64, 64), "float32")
            for t in T.serial(3):
                T.copy(A[t, :, :], a)
                T.clear(o)
                for k in T.Pipelined(3, num_stages=2):
                    T.copy(B[k * 64, 0], b)
                    T.gemm(a, b, o, transpose_B=True)
                T.copy(o, O)

    kernel = tilelang.compile(main, target=SIM)
    text = kernel._kernel.machine_text
    assert "cp_async_bulk_wait_group(0:i32)" in text
    rng = np.random.default_rng(4)
    a, b = (
        rng.integers(-2, 3, (3, 64, 64)).astype(np.float16),
        rng.integers(-2, 3, (192, 64)).astype(np.float16),
    )
    for seed in range(4):
        o = np.full((64, 64), np.nan, np.float32)
        assert kernel.simulate(a, b, o, seed=seed).findings == ()
        assert np.array_equal(o, a[2].astype(float) @ b.astype(float).reshape(3, 64, 64).sum(0).T)


def test_a_place_that_may_begin_in_front_of_its_tile():
    """What unrolled loops add to a descriptor is split off only where the rest lies in the tile."""

    @T.prim_func
    def main(
        A: T.Tensor((256, 64), "float16"),
        B: T.Tensor((64, 64), "float16"),
        L: T.Tensor((4,), "int32"),
        O: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((256, 64), "float16"), T.alloc_shared((64, 64), "float16")
            o = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(o)
            for s in T.serial(3):
                m = L[s]
                for u in T.unroll(2):
                    if u + m >= 0:
                        T.gemm(a[(u + m) * 64 : (u + m) * 64 + 64, :], b, o, transpose_B=True)
            T.copy(o, O)

    source = tilelang.compile(main, target="cuda -arch=sm_90a").get_kernel_source()
    product = next(line for line in source.splitlines() if "wgmma_m64" in line and "&a[" in line)
    assert re.search(r"&a\[[^\]]*\bm\b[^\]]*\bkk\b[^\]]*\], 0, &b\[0\], kk \* 2", product), product
