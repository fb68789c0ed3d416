"""The programs of bench/hopper_paths.py, small ones: right on each of their three paths, without a race, and
without registers that the device compiler takes from a product in flight."""

import sys
from pathlib import Path

import pytest
from test_machine_code import by_disassembler

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
import hopper_paths


def first_of_each_group(small):
    cases = {}
    for case in hopper_paths.all_cases(small=small):
        cases.setdefault(case.group, case)
    return list(cases.values())


@pytest.mark.parametrize("case", first_of_each_group(small=True), ids=lambda case: case.group)
def test_right_on_each_path(case):
    assert hopper_paths.check(case)


WITH_FACTORS = [  # in registers
    case
    for case in hopper_paths.all_cases()
    if case.name.startswith(("gqa ", "chunk-scan ", "chunk-state "))
    or (case.name.startswith("dequant m 128") and "registers" in case.name)
]


@by_disassembler
@pytest.mark.parametrize("case", WITH_FACTORS, ids=lambda case: case.name)
def test_factors_keep_their_registers(case):
    kernel = hopper_paths.kernel_of(case, hopper_paths.AUTOMATIC)
    assert kernel.machine_code.overwritten == ()
