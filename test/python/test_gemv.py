"""Matrix times vector by examples/gemv.py and examples/dequant_gemv.py: ragged shapes against float64, and
the accesses that the bandwidth asks for: weights by 16 bytes into registers, and from there to their use.
"""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
import tilelang
import tilelang.language as T

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import dequant_gemv
import gemv
import harness


def kind_of(target):
    return harness.kind_of(target)


@pytest.mark.parametrize("n, k", [(3, 768), (13, 2304), (40, 4352)])
def test_packed_weights_of_ragged_shapes(target, n, k):
    for case in dequant_gemv.cases(kind_of(target), n, k):
        error = harness.worst(case.compiled(target), case)
        assert error <= case.bound, (case.name, error)


@pytest.mark.parametrize("rows, columns", [(1, 8), (5, 1000), (9, 2051)])
def test_a_matrix_of_ragged_shape(target, rows, columns):
    for case in gemv.cases(kind_of(target), rows, columns):
        error = harness.worst(case.compiled(target), case)
        assert error <= case.bound, (case.name, error)


def kernel_text(program):
    source = tilelang.compile(program, target="sim:sm_90").get_kernel_source()
    return source[source.index("__global__") :]


PROGRAMS = {
    "f16": lambda: gemv.gemv.get_tir(1024, 4096, 4, 1024, 128),
    "int4": lambda: dequant_gemv.int4_gemv.get_tir(1024, 4096, 128, 4, 1024, 32),
    "int2": lambda: dequant_gemv.int2_gemv.get_tir(1024, 4096, 4, 2048, 32),
    "nf4": lambda: dequant_gemv.nf4_gemv.get_tir(1024, 4096, 128, 4, 2048, 64, 16),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_weights_come_by_16_bytes_and_stay_in_registers(name):
    text = kernel_text(PROGRAMS[name]())
    loads = re.findall(r"tl_load<(\d+)>\(&(\w+)\[", text)
    assert loads and {lanes for lanes, _ in loads} == {"8" if name == "f16" else "4"}
    assert {"A" if name == "f16" else "W", "x"} == {tensor for _, tensor in loads}
    loop = text[: text.index("strip[")] if "strip[" in text else text
    assert not re.search(r"\b(?!tl)\w+_shared\[", loop)


def test_each_lane_reads_its_own_copy_of_the_table():
    """Neighbouring threads take neighbouring pieces, so that a piece's number is the lane's."""
    assert re.search(r"tl_looked_up\(table, .*, 0x7f80u, .*tx % 32", kernel_text(PROGRAMS["nf4"]()))


# ── what lets registers be indexed inside an iteration ────────────────────────────────────────────────
def folded(rows, columns, parts):
    @T.prim_func
    def main(A: T.Tensor((rows, columns, parts), "float32"), B: T.Tensor((rows, columns), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_fragment((rows, columns, parts), "float32")
            sums = T.alloc_fragment((rows, columns), "float32")
            T.copy(A, tile)
            for i, j in T.Parallel(rows, columns):
                sums[i, j] = 0
                for p in T.serial(parts):
                    sums[i, j] += tile[i, j, p] * T.float32(p + 1)
            T.copy(sums, B)

    return main


def test_a_dimension_in_registers_is_indexed_by_an_inner_loop(target):
    a = np.random.default_rng(1).standard_normal((4, 32, 4)).astype(np.float32)
    b = np.full((4, 32), np.nan, np.float32)
    program = folded(4, 32, 4)
    tilelang.compile(program, target=target)(a, b)
    assert np.allclose(b, a @ np.arange(1, 5), rtol=1e-6, atol=1e-5)
    text = kernel_text(program)
    assert "tl_load<4>(&A[" in text and not re.search(r"\b(?!tl)\w+_shared\b", text)


@pytest.mark.parametrize("stride, looked_up", [(32, True), (64, True), (16, False)])
def test_a_place_is_one_instruction_only_where_no_bits_meet(stride, looked_up):
    @T.prim_func
    def main(A: T.Tensor((64,), "uint32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            table = T.alloc_shared((256 * stride + 32,), "float32")
            for i in T.Parallel(256 * stride + 32):
                table[i] = T.float32(i)
            for i in T.Parallel(64):
                byte = A[i] >> T.uint32(8) & T.uint32(255)
                B[i] = table[byte * stride + i % 32]

    a = np.random.default_rng(2).integers(0, 2**32, 64, dtype=np.uint32)
    b = np.zeros(64, np.float32)
    tilelang.compile(main, target="sim:sm_90")(a, b)
    assert np.array_equal(b, (a >> 8 & 255) * stride + np.arange(64) % 32)
    assert ("tl_looked_up(" in kernel_text(main)) == looked_up
