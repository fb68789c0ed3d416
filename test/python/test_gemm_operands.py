"""gemm on operands in registers, slices and chains: the numbers, on every target of this machine."""

import gemm_cases as cases
import pytest


@pytest.mark.parametrize("target", ["reference", "cpu"])
@pytest.mark.parametrize("case", cases.CHAINS, ids=str)
def test_chain(case, target):
    assert cases.run_chain(case, target) <= 3e-4  # an element of the intermediate may round the other way


@pytest.mark.parametrize("target", ["reference", "cpu"])
@pytest.mark.parametrize("trans_B", [False, True])
@pytest.mark.parametrize("trans_A", [False, True])
def test_operands(trans_A, trans_B, target):
    assert cases.run_operands(trans_A, trans_B, 128, target) <= 1e-5
