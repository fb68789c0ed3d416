"""GEMM on the CPU and in the reference: every type and transpose, ragged shapes, against float64.

TL_FULL=1 runs all combinations; otherwise the large shapes run with one transpose each.
"""

import os

import gemm_cases as cases
import pytest

FULL = os.environ.get("TL_FULL", "0") != "0"
TILE = (48, 80, 40)  # divides none of the shapes but the smallest


def combinations():
    for shape in cases.SHAPES:
        for index in range(4):
            trans_A, trans_B = bool(index // 2), bool(index % 2)
            for turn, dtype in enumerate(cases.DTYPES):
                if FULL or max(shape) <= 100 or index == turn % 4:
                    yield shape, trans_A, trans_B, dtype


@pytest.mark.parametrize("shape, trans_A, trans_B, dtype", list(combinations()), ids=str)
def test_cpu(shape, trans_A, trans_B, dtype):
    a, b, c, reference = cases.random_operands(shape, dtype, trans_A, trans_B)
    tile = TILE if max(shape) <= 100 else (128, 128, 128)
    cases.compile_gemm(shape, dtype, trans_A, trans_B, tile, target="cpu")(a, b, c)
    assert cases.relative_error(c, reference) <= cases.bound(shape, dtype)


@pytest.mark.parametrize(
    "shape, trans_A, trans_B, dtype", [x for x in combinations() if FULL or max(x[0]) <= 100], ids=str
)
def test_reference(shape, trans_A, trans_B, dtype):
    a, b, c, reference = cases.random_operands(shape, dtype, trans_A, trans_B)
    tile = TILE if max(shape) <= 100 else (256, 256, 256)
    cases.compile_gemm(shape, dtype, trans_A, trans_B, tile, target="reference")(a, b, c)
    assert cases.relative_error(c, reference) <= cases.bound(shape, dtype)


@pytest.mark.parametrize("chip", ["x86-64", "haswell"])
def test_forced_instruction_sets(chip):
    shape = (100, 130, 70)
    a, b, c, reference = cases.random_operands(shape, "f32", False, False)
    cases.compile_gemm(shape, "f32", tile=(40, 56, 24), target=f"cpu -mcpu={chip}")(a, b, c)
    assert cases.relative_error(c, reference) <= cases.bound(shape, "f32")


@pytest.mark.parametrize("tile", [(1, 1, 1), (7, 5, 3), (13, 33, 17), (6, 16, 64), (100, 8, 1)], ids=str)
def test_tiles(tile):
    shape = (50, 60, 70)
    a, b, c, reference = cases.random_operands(shape, "f32", False, False)
    cases.compile_gemm(shape, "f32", tile=tile, target="cpu")(a, b, c)
    assert cases.relative_error(c, reference) <= cases.bound(shape, "f32")
