"""Every tile of C, number of threads, type and chip: NVRTC compiles the GEMM, or an error says why not."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import gemm_tiles

from helpers import compiles_for_gpus  # isort: skip

ALL = list(gemm_tiles.cases())
EVERY = 1 if os.environ.get("TL_FULL") else 137  # odd: all types, tiles and numbers of threads come by
ids = lambda case: "-".join(map(str, case))  # noqa: E731


@pytest.fixture(scope="module", autouse=True)
def nvrtc():
    compiles_for_gpus(gemm_tiles.gemm("float16", 64, 64, 128))  # skips where there is none


@pytest.mark.parametrize("case", ALL[::EVERY], ids=ids)
def test_tile(case):
    how, said = gemm_tiles.outcome(*case)
    assert how != "fault", said
    if how == "refused":  # by the numbers that are in conflict
        assert "registers" in said or "shared memory" in said, said


# More than the registers of a launch hold for one instruction, or for all of a thread's sums.
@pytest.mark.parametrize("threads, block_M, block_N", [(512, 256, 256), (512, 256, 192), (384, 192, 256)])
def test_few_registers(threads, block_M, block_N):
    how, said = gemm_tiles.outcome("sm_90a", "float16", block_M, block_N, threads)
    assert how == "compiled", said
