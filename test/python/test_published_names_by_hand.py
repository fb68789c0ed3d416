"""Names of the published language that examples use: those that a later version has are refused at their
line, and others that no other test calls.
"""

import itertools

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import FIRST_LINE, kernel
from tilelang import CompileError
from tilelang.cuda.intrinsics.layout.mma_layout import (
    shared_16x8_to_mma_32x4_layout_sr_a,
    shared_16x8_to_mma_32x4_layout_sr_b,
    shared_16x16_to_mma_32x8_layout_sr_a,
    shared_16x16_to_mma_32x8_layout_sr_b,
    shared_16x32_to_mma_32x16_layout_sr_a,
    shared_16x32_to_mma_32x16_layout_sr_b,
)
from tilelang.layout import make_quarter_bank_swizzled_layout
from tilelang.rocm.intrinsics.mfma_layout import (
    shared_16x4_to_local_64x1_layout_A,
    shared_16x16_to_local_64x4_layout_A,
    shared_16x32_to_local_64x8_layout_A,
    shared_16x64_to_local_64x16_layout_A,
)

TMA = "tensor memory accelerator"
LATER = [
    ("T.tma_load(A, A)", TMA), ("T.create_tma_descriptor(A)", TMA),
]  # fmt: skip


@pytest.mark.parametrize("line,needs", LATER)
def test_what_a_later_version_has(tmp_path, line, needs):
    with pytest.raises(CompileError) as error:
        kernel(tmp_path, f"T.sync_threads()\n{line}")
    assert error.value.line == FIRST_LINE + 1
    name = line.removeprefix("with ").partition("(")[0]
    assert error.value.text.startswith(f"{name} needs ") and needs in error.value.text
    assert "which this version does not have yet; write " in error.value.text


def test_maps_by_their_names():
    def places(bits, i, k):
        if bits == 16:
            return shared_16x16_to_mma_32x8_layout_sr_a(i, k), shared_16x16_to_mma_32x8_layout_sr_b(i, k)
        if bits == 8:
            return shared_16x32_to_mma_32x16_layout_sr_a(i, k), shared_16x32_to_mma_32x16_layout_sr_b(i, k)
        return shared_16x8_to_mma_32x4_layout_sr_a(i, k), shared_16x8_to_mma_32x4_layout_sr_b(i, k)

    for bits in (8, 16, 32):
        for i, k in itertools.product(range(16), range(256 // bits)):
            quad, per, high, low = 4 * (i % 8) + k * bits % 128 // 32, 32 // bits, i // 8, k * bits // 128
            of_a, of_b = places(bits, i, k)
            assert of_a == (quad, per * (2 * low + high) + k % per)
            assert of_b == (quad, per * (2 * high + low) + k % per)
    assert shared_16x4_to_local_64x1_layout_A(3, 2) == (35, 0)
    assert shared_16x16_to_local_64x4_layout_A(3, 9) == (35, 1)
    assert shared_16x32_to_local_64x8_layout_A(3, 9) == (19, 1)
    assert shared_16x64_to_local_64x16_layout_A(3, 9) == (3, 9)


def test_quarter_bank_swizzles():
    layout = make_quarter_bank_swizzled_layout(((8, 16), "float16"))
    for i, j in itertools.product(range(8), range(16)):
        assert layout(i, j) == i * 16 + (j // 8 ^ i // 4 % 2) * 8 + j % 8


def test_other_names_in_a_kernel(target):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            T.no_set_max_nreg()
            for i in T.parallel(64):
                B[i] = T.ceil(A[i] / 4)

    a, b = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    config = {
        tilelang.PassConfigKey.TL_DISABLE_TMA_LOWER: True,
        tilelang.PassConfigKey.TL_ENABLE_AGGRESSIVE_SHARED_MEMORY_MERGE: True,
    }
    tilelang.compile(main, target=target, pass_configs=config)(a, b)
    assert (b == np.ceil(a / 4)).all()
