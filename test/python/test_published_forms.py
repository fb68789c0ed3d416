"""Forms that kernels written for the published language use: they mean here what they mean there."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import tilelang
import tilelang.language as T
import tvm
from helpers import close, compiles_for_gpus, failure, random
from tilelang.engine.param import KernelParam

# ── run-time extents ──────────────────────────────────────────────────────────────────────────────────


def test_arithmetic_on_extents_outside_the_kernel(target):
    @tilelang.jit(out_idx=[1], target=target)
    def rows(heads):
        n, width = tvm.te.var("n"), T.symbolic("width")
        flat = [n * heads, width]
        grid = T.ceildiv(n, 2)

        @T.prim_func
        def main(
            A: T.Tensor(flat, "float32"),
            B: T.Tensor([n * heads, width], "float32"),
            C: T.Tensor([n], "float32"),
        ):
            with T.Kernel(grid, threads=32) as bx:
                for i, j in T.Parallel(2 * heads, 8):
                    if bx * 2 * heads + i < n * heads and j < width:
                        B[bx * 2 * heads + i, j] = A[bx * 2 * heads + i, j] + C[bx * 2 + i // heads]

        return main

    for n, width in ((4, 8), (5, 3)):
        a, c = random(n * 3, width), random(n, seed=1)
        close(rows(3)(a, c), a + np.repeat(c, 3)[:, None])


def test_one_extent_of_several_names():
    m, n = T.dynamic("m n")
    assert (m.name, n.name) == ("m", "n")
    with pytest.raises(tilelang.CompileError, match="not a name"):
        T.dynamic(" ")
    assert str(-m * 2) == "mul(neg(m), 2)"


# ── places and slices ─────────────────────────────────────────────────────────────────────────────────


def test_a_slice_between_named_ends(target):
    @T.prim_func
    def main(A: T.Tensor((64, 8), "float32"), B: T.Tensor((64, 8), "float32")):
        with T.Kernel(4, threads=32) as bx:
            tile = T.alloc_shared((8, 8), "float32")
            for k in T.serial(2):
                base = bx * 16
                begin = base + k * 8
                end = base + (k + 1) * 8
                T.copy(A[begin:end, :], tile)
                T.copy(tile, B[begin:end, :])

    a = random(64, 8)
    close(tilelang.compile(main, out_idx=1, target=target)(a), a)


def test_fill_of_one_element(target):
    @T.prim_func
    def main(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8,), "int32")
            x = T.alloc_var("int32")
            T.fill(tile, 7)
            T.fill(tile[3], 1)
            T.clear(tile[4])
            T.clear(x)
            T.fill(x, x + 5)
            T.copy(tile, A)
            A[0] = x

    got = tilelang.compile(main, out_idx=0, target=target)()
    np.testing.assert_array_equal(got, [5, 7, 7, 1, 0, 7, 7, 7])


def test_data_in_another_shape(target):
    @T.prim_func
    def main(A: T.Tensor((4, 3, 8), "float32"), B: T.Tensor((2, 48), "float32")):
        with T.Kernel(3, threads=32) as bx:
            tile = T.alloc_shared((4, 8), "float32")
            flat = T.Tensor((12, 8), "float32", A.data)
            out = T.Tensor((12, 8), "float32", data=B.data)
            T.copy(flat[bx * 4, 0], tile)
            T.copy(tile, out[bx * 4, 0])

    a = random(4, 3, 8)
    close(tilelang.compile(main, out_idx=1, target=target)(a), a.reshape(2, 48))


def test_data_of_something_else(tmp_path):
    assert "data is A.data of a tensor" in str(failure(tmp_path, "B = T.Tensor((8, 64), 'float32', 3)"))


# ── threads ───────────────────────────────────────────────────────────────────────────────────────────


def test_thread_binding_is_an_index():
    @T.prim_func
    def main(A: T.Tensor((4, 64), "int32")):
        with T.Kernel(4, threads=64) as bx:
            tx = T.thread_binding(0, 64, thread="threadIdx.x")
            again = T.thread_binding(64, thread="threadIdx.x") * 2
            if tx % 2 == 0:
                A[bx, tx] = bx * 64 + tx
            else:
                A[bx, tx] = again

    got = tilelang.compile(main, out_idx=0, target="sim:sm_80")()
    n = np.arange(256).reshape(4, 64)
    np.testing.assert_array_equal(got, np.where(n % 2 == 0, n, n % 64 * 2))
    compiles_for_gpus(main)


def test_a_barrier_between_tile_operators(target):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((64,), "float32")
            T.copy(A, tile)
            T.sync_threads()
            for i in T.Parallel(64):
                B[i] = tile[63 - i]

    a = random(64)
    close(tilelang.compile(main, out_idx=1, target=target)(a), a[::-1])


def test_barriers_of_the_compiler_stay():
    """What the compiler exchanges through shared memory needs its barriers, whoever places the others."""

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_fragment((64,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(A, tile)
            T.sync_threads()
            T.reduce_sum(tile, total, dim=0)
            for i in T.Parallel(64):
                tile[i] = tile[i] / total[0]
            T.reduce_sum(tile, total, dim=0)
            T.copy(total, B)

    configs = {tilelang.PassConfigKey.TL_DISABLE_THREAD_STORAGE_SYNC: True}
    kernel = tilelang.compile(main, out_idx=1, target="sim:sm_80", pass_configs=configs)
    close(kernel(np.abs(random(64))), np.ones(1), 1e-5)


def test_loops_over_what_memory_says():
    """Two such loops in one block: the names of their bounds do not collide in the CUDA text."""

    @T.prim_func
    def main(A: T.Tensor((4,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            n = T.alloc_var("int32")
            n = A[1]
            for i in T.serial(T.ceildiv(A[0], 2)):
                B[tx] = i
            for i in T.serial(T.ceildiv(A[2], 2)):
                B[tx + 32] = i + n

    compiles_for_gpus(main)
    got = tilelang.compile(main, out_idx=1, target="sim:sm_80")(np.array([5, 10, 7, 0], "int32"))
    np.testing.assert_array_equal(got, [2] * 32 + [13] * 32)


# ── statements ────────────────────────────────────────────────────────────────────────────────────────


def test_branches_as_contexts(target):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32"), n: T.int32):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((64,), "float32")
            T.copy(A, tile)
            for i in T.Parallel(64):
                with T.If(tile[i] > 0):
                    with T.Then():
                        tile[i] = tile[i] * 2
                    with T.Else():
                        tile[i] = 1
            for i in T.Parallel(64):
                with T.If(i < n), T.Then():
                    tile[i] = 0
            T.copy(tile, B)

    a = random(64)
    wanted = np.where(a > 0, a * 2, 1)
    wanted[:10] = 0
    close(tilelang.compile(main, out_idx=1, target=target)(a, 10), wanted)


@pytest.mark.parametrize("body, why", [
    ("with T.Then():\n    A[0, 0] = 1", "directly in a `with T.If"),
    ("with T.If(n > 0):\n    with T.Else():\n        A[0, 0] = 1", "T.Then first"),
    ("with T.If(n > 0):\n    A[0, 0] = 1", "needs a `with T.Then"),
])  # fmt: skip
def test_branches_that_are_none(tmp_path, body, why):
    assert why in str(failure(tmp_path, body))


def test_older_annotations(target):
    @T.macro
    def double(a: T.SharedTensor, b: T.LocalTensor, c: T.FragmentTensor):
        b: T.FragmentBuffer([64], "float32")
        T.copy(a, b)
        for i in T.Parallel(64):
            b[i] = b[i] * 2

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            a = T.alloc_fragment((64,), "float32", scope="shared")
            b = T.alloc_fragment((64,), "float32")
            once = T.alloc_fragment((1,), "int32", "local")
            T.annotate_layout({once: T.Fragment(once.shape, forward_thread_fn=lambda i: i)})
            once[0] = 1
            T.copy(A, a)
            for _ in T.Pipelined(once[0], num_stages=2, order=[-1, 0], stage=[-1, 0], group=[[0], [1]]):
                double(a, b, b)
            T.copy(b, B, eviction_policy="evict_first")

    a = random(64)
    close(tilelang.compile(main, out_idx=1, target=target)(a), 2 * a)


def test_names_of_the_library():
    assert T.dtype("bfloat16") == T.bfloat16 and isinstance(T.float16, T.dtype)
    assert KernelParam is tilelang.compile(_copy(), target="reference").params[0].__class__
    assert tilelang.PassConfigKey.TL_ENABLE_LAYOUT_VISUALIZATION == "tl.enable_layout_visualization"
    from tilelang.carver.arch import CUDA
    from tilelang.carver.roller.rasterization import NoRasterization, Rasterization2DColumn
    from tilelang.carver.template import MatmulTemplate

    assert Rasterization2DColumn(4).panel_width == 4 and NoRasterization is not Rasterization2DColumn
    assert MatmulTemplate(M=64, N=64, K=64).with_arch(CUDA("cuda -arch=sm_90")).recommend_hints(topk=1)


def test_layouts_for_matrix_instructions(target):
    from tilelang.intrinsics import make_mma_swizzle_layout

    @T.prim_func
    def main(A: T.Tensor((32, 64), "float16"), B: T.Tensor((64, 32), "float16")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((32, 64), "float16")
            plain = T.alloc_shared((64, 32), "float16")
            T.annotate_layout(
                {tile: make_mma_swizzle_layout(tile), plain: make_mma_swizzle_layout(plain, is_smooth=True)}
            )
            T.copy(A, tile)
            for i, j in T.Parallel(64, 32):
                plain[i, j] = tile[j, i]
            T.copy(plain, B)

    a = random(32, 64, dtype="float16")
    close(tilelang.compile(main, out_idx=1, target=target)(a), a.T)


def test_decoders_of_a_later_version():
    from tilelang.quantize import get_lop3_intrin_group, get_mxfp_intrin_group

    for group in (get_lop3_intrin_group, get_mxfp_intrin_group):
        with pytest.raises(tilelang.CompileError, match=f"{group.__name__}: decoders written in CUDA text"):
            group(out_dtype="bfloat16", source_bit=4)


def _copy():
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            T.copy(A, B)

    return main


def test_a_table_of_addresses():
    sizes, width = [3, 8, 5], 16

    @T.prim_func
    def main(table: T.Tensor([3], T.ptr), out: T.Tensor((3, 8, width), "float32")):
        with T.Kernel(3, threads=32) as bx:
            one = T.make_tensor(table[bx], (8, width), "float32")
            tile = T.alloc_shared((8, width), "float32")
            T.copy(one, tile)
            T.copy(tile, out[bx, 0, 0])

    parts = [random(8, width, seed=n) for n in sizes]
    table = np.array([part.ctypes.data for part in parts], "int64")
    assert not np.any(table % 16)
    close(tilelang.compile(main, out_idx=1, target="cpu")(table), np.stack(parts))
    assert math.prod(table.shape) == 3
    compiles_for_gpus(main)


def test_every_test_that_the_table_names_exists():
    root = Path(__file__).parents[2]
    table = (root / "test/published_forms.md").read_text()
    rows = [int(number) for number in re.findall(r"(?m)^\| (\d+) \| .*`test/", table)]
    assert rows == list(range(1, 31))
    for path, name in re.findall(r"`(test/[\w/]+\.py)::(\w+)`", table):
        assert f"def {name}(" in (root / path).read_text(), (path, name)
