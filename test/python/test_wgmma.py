"""gemm by the products of warpgroups (sm_90a), in the simulator: right to the last bit, without a finding."""

import os

import numpy as np
import pytest
import wgmma_cases as cases

TARGET = "sim:sm_90a"
ids = lambda x: "-".join(map(str, x)) if isinstance(x, tuple) else str(x)  # noqa: E731


def some(all_cases, number):
    """Every fourth, of each type others; all with TL_FULL."""
    return all_cases if os.environ.get("TL_FULL") else all_cases[number % 4 :: 4]


ALL = [(t, case) for i, t in enumerate(cases.TYPES) for case in some(list(cases.cases(t)), i)]


@pytest.mark.parametrize(("types", "case"), ALL, ids=ids)
def test_products(types, case):
    kernel = cases.compiled(types, case, TARGET)
    a, b, c, wanted = cases.operands(types, *case)
    report = kernel.simulate([a, b, c], [], 0, 2, [], 0, True, False, None)
    assert not report["findings"], report["findings"][0]["text"]
    assert np.array_equal(c.astype(np.int64), wanted)
