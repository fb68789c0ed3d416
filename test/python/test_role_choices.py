"""What loops that roles divide get: registers, an order of blocks, and what stands in the way."""

import re

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from test_roles import gemm, numbers, poisoned, run, why_not
from test_warp_schedule import check_gemm, gemm_schedule

SIM = "sim:sm_90a"


def scaled(what):
    """C = sum of A · B[k], with something else in each turn, or a name for where B's tile begins."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 256), "float16"),
        B: T.Tensor((256, 256), "float16"),
        C: T.Tensor((64, 256), "float32"),
    ):
        with T.Kernel(4, threads=128) as bx:
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            r, c = T.alloc_fragment((64, 64), "float16"), T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            x = bx * 64
            for k in T.Pipelined(4, num_stages=3):
                T.copy(B[k * 64, x], b)
                if what == "operand":
                    for i, j in T.Parallel(64, 64):
                        r[i, j] = A[i, k * 64 + j] * 2
                    T.gemm(r, b, c)
                else:
                    T.copy(A[0, k * 64], a)
                    T.gemm(a, b, c)
                if what == "sums":
                    for i, j in T.Parallel(64, 64):
                        c[i, j] = T.max(c[i, j], 0)
            T.copy(c, C[0, x])

    return main


def test_a_named_begin_is_looked_through():
    """x = bx * 64 is a multiple of 64, as bx * 64 itself is: for TMA, and for cp.async on older chips."""
    a, b, c = numbers(64, 256), numbers(256, 256, seed=1), poisoned(64, 256)
    run(scaled(""), a, b, c)
    assert np.array_equal(c, a.astype(float) @ b.astype(float))
    text = tilelang.compile(scaled(""), target="sim:sm_80").report.text
    assert text.count("begun by cp.async") == 2 and "stored from registers" not in text


@pytest.mark.parametrize("what, why", [
    ("sums", "uses its sums c in the same turn"),
    ("operand", "it multiplies r, which threads hold in registers"),
])  # fmt: skip
def test_products_that_end_in_their_turn_say_why(what, why):
    said = why_not(tilelang.compile(scaled(what), target=SIM))
    assert re.search(f"end where they stand: that on line [0-9]+, as .*({why})", str(said)), said


@pytest.mark.parametrize(
    "tile, threads, blocks, wanted",
    [
        ((128, 64, 64), 256, 2, (24, 104)),  # of 80 at the launch; 112 would be a block's share, not its pool
        ((64, 64, 64), 128, 2, (24, 232)),
        ((128, 256, 64), 256, 1, (24, 240)),
    ],
)
def test_roles_have_no_more_registers_than_the_launch(tile, threads, blocks, wanted):
    """A block has what its threads have at the launch, 8 or 16 or … each, and waits for more for ever."""
    kernel = tilelang.compile(gemm(1088, 1088, 256, tile=tile, threads=threads), target=SIM)
    load, compute = (p for p in kernel.report.pipelines if p.role)
    assert f"min_blocks_per_sm={blocks}" in kernel._kernel.machine_text
    assert (load.registers, compute.registers) == wanted
    at_launch = min(256, 65536 // blocks // (threads + 128) // 8 * 8)
    assert 128 * wanted[0] + threads * wanted[1] <= at_launch * (threads + 128)


@pytest.mark.parametrize("causal", [False, True])
def test_queries_that_share_keys_run_together(causal):
    """32 blocks of queries read the keys of a head: 132 blocks at once are those of 4 heads."""
    import flash_attention

    tiles = flash_attention.TILES["warpgroup_gpu"][1]
    program = flash_attention.attention.get_tir(4, 16, 4096, 4096, 128, causal, *tiles)
    text = tilelang.compile(program, target=SIM, pass_configs=flash_attention.FAST).report.text
    assert "4 along (by, bz) at each of (back) in turn" in text
    assert "walk through the grid" in text
    assert ("which differ in length" in text) == causal


@pytest.mark.parametrize("registers", [104, 112])
def test_registers_of_two_blocks(registers):
    """Two blocks of a multiprocessor have 80 registers a thread at their launch, 30720 each."""

    @T.prim_func
    def main(
        A: T.Tensor((128, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((128, 64), "float32")
    ):
        with T.Kernel(1, threads=384):
            a, b = T.alloc_shared((128, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((128, 64), "float32")
            T.annotate_min_blocks_per_sm(2)
            given = gemm_schedule([a, b], 2)
            roles = [
                T.WSRole(r.name, warps_lo=r.warp_lo, warps_hi=r.warp_hi, max_nreg=registers if n == 0 else 24)
                for n, r in enumerate(given.roles)
            ]
            T.annotate_ws_schedule(T.WSSchedule(12, roles, given.pipelines, given.scopes))
            with T.ws_op("clear"):
                T.clear(c)
            with T.ws_op("loop"):
                for k in T.serial(1):
                    with T.ws_op("copy"):
                        T.copy(A[0, k * 64], a)
                        T.copy(B[k * 64, 0], b)
                    with T.ws_op("gemm"):
                        T.gemm(a, b, c)
            with T.ws_op("store"):
                T.copy(c, C)

    if registers == 112:
        with pytest.raises(tilelang.CompileError, match="want 31744 registers together.*a block has 30720"):
            tilelang.compile(main, target=SIM)
    else:
        check_gemm(main, 128, 64, 64)


@pytest.mark.parametrize("blocks, slots", [(132, 8), (133, 4)])
def test_a_grid_of_few_blocks_leaves_its_memory_to_slots(blocks, slots):
    """Two blocks of a multiprocessor hide more than one, where the grid has them."""
    kernel = tilelang.compile(gemm(64 * blocks, 64, 1024, tile=(64, 64, 64)), target=SIM)
    load = next(p for p in kernel.report.pipelines if p.role == "load")
    assert {tile.slots for tile in load.tiles} == {slots}


def test_why_loops_stay_whole_that_have_nothing_to_load_ahead():
    kernel = tilelang.compile(gemm(128, 64, 256, stages=1), target=SIM)
    assert "its tiles have one slot (num_stages is below 2)" in why_not(kernel)
