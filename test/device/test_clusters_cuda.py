"""Clusters of blocks on a GPU: what they exchange and load once, right to the last bit."""

import numpy as np
import pytest
import tilelang
from cluster_cases import CASES

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() < (9, 0):
    pytest.skip("no GPU with clusters", allow_module_level=True)


@pytest.mark.parametrize("name", CASES)
def test_what_comes_out(name):
    function, x, wanted = CASES[name]()
    kernel = tilelang.compile(function, target="cuda")
    for _ in range(3):
        y = torch.full(wanted.shape, 99, dtype=getattr(torch, x.dtype.name), device="cuda")
        kernel(torch.from_numpy(x).cuda(), y)
        assert np.array_equal(y.cpu().numpy(), wanted)
