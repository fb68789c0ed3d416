"""Every published name that an example uses is called here, where no other test does: it works, or says what
it needs.
"""

import inspect

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import random
from tilelang.cuda.intrinsics.layout import mma_layout

SIM = "sim:sm_90"


# ── barriers, copies and roles by hand ────────────────────────────────────────────────────────────────

# Each with a form of the published documentation: (what it is called on, the call).
BY_HAND = {
    "alloc_barrier": lambda s, A: T.alloc_barrier([128, 128]),
    "alloc_cluster_barrier": lambda s, A: T.alloc_cluster_barrier([128]),
    "mbarrier_wait_parity": lambda s, A: T.mbarrier_wait_parity(mbarrier=T.alloc_barrier(1), parity=0),
    "mbarrier_arrive": lambda s, A: T.mbarrier_arrive(mbarrier=T.alloc_barrier(1)),
    "mbarrier_expect_tx": lambda s, A: T.mbarrier_expect_tx(T.alloc_barrier(1), 128),
    "mbarrier_arrive_expect_tx": lambda s, A: T.mbarrier_arrive_expect_tx(T.alloc_barrier(1), 128),
    "barrier_wait": lambda s, A: T.barrier_wait(T.alloc_barrier(1), 0),
    "barrier_arrive": lambda s, A: T.barrier_arrive(T.alloc_barrier(1)),
    "fence_proxy_async": lambda s, A: T.fence_proxy_async(),
    "cp_async_barrier_noinc": lambda s, A: T.cp_async_barrier_noinc(T.alloc_barrier(1)),
    "tma_copy": lambda s, A: T.tma_copy(A, s, barrier=T.alloc_barrier(128)),
    "ptx_cp_async": lambda s, A: T.ptx_cp_async(
        T.access_ptr(s[0, 0], "w", 8), T.access_ptr(A[0, 0], "r", 8), 8
    ),
    "ptx_commit_group": lambda s, A: T.ptx_commit_group(),
    "ptx_wait_group": lambda s, A: T.ptx_wait_group(0),
    "wgmma_gemm": lambda s, A: T.wgmma_gemm(s, s, T.alloc_fragment((16, 16), "float32"), transpose_B=True),
    "wait_wgmma": lambda s, A: T.wait_wgmma(0),
    "set_max_nreg": lambda s, A: T.set_max_nreg(24, 0),
    "annotate_consumer_reg_alloc": lambda s, A: T.annotate_consumer_reg_alloc(240),
    "annotate_producer_reg_dealloc": lambda s, A: T.annotate_producer_reg_dealloc(24),
    "block_rank_in_cluster": lambda s, A: T.block_rank_in_cluster(),
    "ws_op": lambda s, A: T.ws_op("load"),
    "WSRole": lambda s, A: T.WSRole("producer", warps_lo=0, warps_hi=4, max_nreg=24),
    "WSPipeline": lambda s, A: T.WSPipeline("tiles", [s], 2),
    "WSSync": lambda s, A: T.WSSync(T.WSSyncKind.CONSUMER_RELEASE, "tiles", stage=1),
    "WSSync.producer_acquire": lambda s, A: T.WSSync.producer_acquire("tiles", stage=0),
    "WSSync.producer_commit": lambda s, A: T.WSSync.producer_commit("tiles"),
    "WSSync.consumer_wait": lambda s, A: T.WSSync.consumer_wait("tiles"),
    "WSSync.consumer_release": lambda s, A: T.WSSync.consumer_release("tiles", 0),
    "WSScope": lambda s, A: T.WSScope(T.WSScope.ROOT, {}),
    "WSSchedule": lambda s, A: T.WSSchedule(8, [], [], []),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_HAND)
def test_what_is_done_by_hand(name):
    """It is a name with its published signature; a kernel that calls it is made, or the reason is told."""
    call = BY_HAND[name]
    try:

        @T.prim_func
        def main(A: T.Tensor((16, 8), "float16")):
            with T.Kernel(1, threads=128):
                tile = T.alloc_shared((16, 8), "float16")
                T.copy(A, tile)
                call(tile, A)
    except tilelang.CompileError as error:
        assert f"T.{name}" in str(error) and "needs" in str(error), str(error)
        assert "test_gap_used_names.py" in str(error)


def test_launches_of_clusters():
    try:

        @T.prim_func
        def main(A: T.Tensor((64,), "float32")):
            with T.ClusterKernel(2, cluster_dims=(2, 1, 1), threads=32) as bx:
                for i in T.Parallel(32):
                    A[bx * 32 + i] = bx
    except tilelang.CompileError as error:
        assert "T.ClusterKernel" in str(error) and "sm_90" in str(error)
        return
    a = np.full(64, -1, np.float32)
    tilelang.compile(main, target=SIM)(a)
    assert np.array_equal(a, np.repeat([0, 1], 32))


def test_names_of_schedules():
    assert T.WSID == "tl.ws_op_id" and T.WSScope.ROOT == "tl.ws_scope_root"
    assert list(inspect.signature(T.WSRole).parameters) == ["name", "warps_lo", "warps_hi", "max_nreg"]


EVENTS = ["session", "event_table", "mark", "range", "payload", "output_dir", "output_path", "trace_files",
          "runtime_payloads_enabled"]  # fmt: skip


@pytest.mark.parametrize("name", EVENTS)
def test_times_inside_of_kernels(name):
    from tilelang.tools.cuda import iket

    calls = {
        "session": lambda: iket.session(output_dir=None, disable_cache=True),
        "event_table": lambda: iket.event_table(), "mark": lambda: iket.mark("here"),
        "range": lambda: iket.range("part", payload=None), "payload": lambda: iket.payload(3, dtype="int32"),
        "output_dir": lambda: iket.output_dir(default="."), "output_path": lambda: iket.output_path("x"),
        "trace_files": lambda: iket.trace_files(directory="."),
        "runtime_payloads_enabled": lambda: iket.runtime_payloads_enabled(),
    }  # fmt: skip
    try:
        calls[name]()
    except tilelang.CompileError as error:
        assert name in str(error) and len(str(error)) > len(name) + 20


# ── hints ─────────────────────────────────────────────────────────────────────────────────────────────

KEY = tilelang.PassConfigKey
CONFIGS = [
    {KEY.TL_DISABLE_TMA_LOWER: True, KEY.TL_DISABLE_WARP_SPECIALIZED: True},
    {KEY.TL_ENABLE_AGGRESSIVE_SHARED_MEMORY_MERGE: True, KEY.TL_PTXAS_REGISTER_USAGE_LEVEL: 10},
    {KEY.TL_LAYOUT_VISUALIZATION_ENABLE: False, KEY.TL_LAYOUT_VISUALIZATION_FORMATS: "svg"},
    {KEY.TL_ENABLE_FAST_MATH: True, KEY.TL_DISABLE_THREAD_STORAGE_SYNC: False},
]


@pytest.mark.parametrize("target", ["cpu", SIM])
@pytest.mark.parametrize("configs", CONFIGS, ids=lambda configs: "+".join(key.name for key in configs))
def test_pass_configs_change_no_result(configs, target):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            T.no_set_max_nreg()
            T.disable_warp_group_reg_alloc()
            tile = T.alloc_shared((64,), "float32")
            T.copy(A, tile)
            for i in T.parallel(64):
                B[i] = T.ceil(tile[63 - i])

    a, b = random(64) * 3, np.zeros(64, np.float32)
    tilelang.compile(main, target=target, pass_configs=configs)(a, b)
    assert np.array_equal(b, np.ceil(a[::-1]))


def test_the_text_is_changed_before_it_is_compiled():
    from tilelang.engine.callback import register_cuda_postproc, register_cuda_postproc_callback

    @T.prim_func
    def main(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                A[i] = 1

    @register_cuda_postproc_callback
    def mark(code, target):
        return "// marked by a test\n" + code

    try:
        assert "// marked by a test" in tilelang.compile(main, target="cuda -arch=sm_90").get_kernel_source()
    finally:
        register_cuda_postproc(None)


def test_swizzles_by_quarters_of_the_banks(target):
    from tilelang.layout import make_quarter_bank_swizzled_layout

    @T.prim_func
    def main(A: T.Tensor((32, 16), "float16"), B: T.Tensor((32, 16), "float16")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((32, 16), "float16")
            T.annotate_layout({tile: make_quarter_bank_swizzled_layout(tile)})
            T.copy(A, tile)
            for i, j in T.Parallel(32, 16):
                B[i, j] = tile[31 - i, 15 - j]

    a, b = random(32, 16).astype(np.float16), np.zeros((32, 16), np.float16)
    tilelang.compile(main, target=target)(a, b)
    assert np.array_equal(b, a[::-1, ::-1])


# ── fragments of matrix instructions ──────────────────────────────────────────────────────────────────


def places(function, rows, columns):
    """Where each element lies: (thread, number in it)."""
    return {(i, j): tuple(int(n) for n in function(i, j)) for i in range(rows) for j in range(columns)}


# The columns of the operand, and where some of its elements lie: (row, column): (thread, number in it).
FRAGMENTS = {
    "shared_16x8_to_mma_32x4_layout_sr_a": (
        8, {(0, 1): (1, 0), (1, 0): (4, 0), (8, 0): (0, 1), (0, 4): (0, 2)}),
    "shared_16x8_to_mma_32x4_layout_sr_b": (
        8, {(0, 1): (1, 0), (1, 0): (4, 0), (0, 4): (0, 1), (8, 0): (0, 2)}),
    "shared_16x16_to_mma_32x8_layout_sr_a": (
        16, {(0, 1): (0, 1), (0, 2): (1, 0), (1, 0): (4, 0), (8, 0): (0, 2), (0, 8): (0, 4)}),
    "shared_16x16_to_mma_32x8_layout_sr_b": (
        16, {(0, 1): (0, 1), (0, 2): (1, 0), (1, 0): (4, 0), (0, 8): (0, 2), (8, 0): (0, 4)}),
    "shared_16x32_to_mma_32x16_layout_sr_a": (
        32, {(0, 3): (0, 3), (0, 4): (1, 0), (1, 0): (4, 0), (8, 0): (0, 4), (0, 16): (0, 8)}),
    "shared_16x32_to_mma_32x16_layout_sr_b": (
        32, {(0, 3): (0, 3), (0, 4): (1, 0), (1, 0): (4, 0), (0, 16): (0, 4), (8, 0): (0, 8)}),
}  # fmt: skip


@pytest.mark.parametrize("name", FRAGMENTS)
def test_fragments_of_an_operand(name):
    columns, known = FRAGMENTS[name]
    found = places(getattr(mma_layout, name), 16, columns)
    assert set(found.values()) == {(t, r) for t in range(32) for r in range(columns // 2)}
    assert found[0, 0] == (0, 0) and {place: found[place] for place in known} == known


def test_the_fragments_that_examples_import():
    from tilelang.cuda.intrinsics.layout.mma_layout import (
        shared_16x8_to_mma_32x4_layout_sr_a,
        shared_16x8_to_mma_32x4_layout_sr_b,
        shared_16x16_to_mma_32x8_layout_sr_a,
        shared_16x16_to_mma_32x8_layout_sr_b,
        shared_16x32_to_mma_32x16_layout_sr_a,
        shared_16x32_to_mma_32x16_layout_sr_b,
    )

    assert [int(n) for n in shared_16x8_to_mma_32x4_layout_sr_a(9, 5)] == [5, 3]
    assert [int(n) for n in shared_16x8_to_mma_32x4_layout_sr_b(9, 5)] == [5, 3]
    assert [int(n) for n in shared_16x16_to_mma_32x8_layout_sr_a(9, 11)] == [5, 7]
    assert [int(n) for n in shared_16x16_to_mma_32x8_layout_sr_b(9, 3)] == [5, 5]
    assert [int(n) for n in shared_16x32_to_mma_32x16_layout_sr_a(1, 21)] == [5, 9]
    assert [int(n) for n in shared_16x32_to_mma_32x16_layout_sr_b(1, 21)] == [5, 5]


def test_fragments_of_other_chips():
    """Plain functions of indices: a thread holds consecutive elements of a row's reduction."""
    from tilelang.rocm.intrinsics.mfma_layout import (
        shared_16x4_to_local_64x1_layout_A,
        shared_16x16_to_local_64x4_layout_A,
        shared_16x32_to_local_64x8_layout_A,
        shared_16x64_to_local_64x16_layout_A,
    )

    assert [int(n) for n in shared_16x4_to_local_64x1_layout_A(5, 3)] == [53, 0]
    assert [int(n) for n in shared_16x16_to_local_64x4_layout_A(5, 9)] == [37, 1]
    assert [int(n) for n in shared_16x32_to_local_64x8_layout_A(5, 9)] == [21, 1]
    assert [int(n) for n in shared_16x64_to_local_64x16_layout_A(5, 40)] == [37, 8]


def test_emitters_that_are_not_the_usual_one():
    from tilelang.cuda.intrinsics.macro.mma_macro_generator import TensorCoreIntrinEmitterWithLadderTransform
    from tilelang.rocm.intrinsics.mfma_macro_generator import MatrixCorePreshuffleIntrinEmitter

    sizes = dict(a_dtype="float16", b_dtype="float16", accum_dtype="float32", block_row_warps=1,
                 block_col_warps=1, warp_row_tiles=16, warp_col_tiles=16, chunk=16)  # fmt: skip
    try:
        plain = TensorCoreIntrinEmitterWithLadderTransform(**sizes, b_transposed=True)
    except tilelang.CompileError as error:
        assert "TensorCoreIntrinEmitterWithLadderTransform" in str(error)
    else:
        assert callable(plain.ldmatrix_a) and callable(plain.mma)
    with pytest.raises(tilelang.CompileError, match="AMD"):
        MatrixCorePreshuffleIntrinEmitter(**sizes, b_preshuffle=True)


def test_questions_about_chips():
    from tilelang.rocm.target import target_is_gfx950
    from tilelang.tvm.target import Target

    assert target_is_gfx950(Target("hip -mcpu=gfx950")) and not target_is_gfx950(Target("cuda -arch=sm_90"))
    assert not target_is_gfx950(Target("hip -mcpu=gfx942"))
