"""Tiles that the tensor memory accelerator adds to a tensor, on a GPU that has one."""

import numpy as np
import pytest
import tilelang
from bulk_update_cases import CASES, added, of

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() < (9, 0):
    pytest.skip("no GPU with a tensor memory accelerator", allow_module_level=True)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_by_the_accelerator(case):
    x, y, wanted = of(case)
    kernel = tilelang.compile(added(**case), target="cuda")
    assert "cp_reduce_async_bulk_tensor_2d_add" in kernel.get_kernel_source()
    on_device = torch.from_numpy(y).cuda()
    kernel(torch.from_numpy(x).cuda(), on_device)
    assert np.array_equal(on_device.cpu().numpy().astype(np.float64), wanted)
