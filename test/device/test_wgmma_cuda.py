"""gemm by the products of warpgroups on a GPU that has them: right to the last bit."""

import numpy as np
import pytest
import wgmma_cases as cases

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("no GPU of sm_90a", allow_module_level=True)

ALL = [(t, case) for t in cases.TYPES for case in cases.cases(t)]


KINDS = {
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "f32": torch.float32,
    "i32": torch.int32,
}


def on_device(array):
    return torch.from_numpy(array.view(np.uint8).reshape(-1)).cuda()


@pytest.mark.parametrize(("types", "case"), ALL, ids=str)
def test_products(types, case):
    kernel = cases.compiled(types, case, "cuda -arch=sm_90a")
    a, b, c, wanted = cases.operands(types, *case)
    arrays = [on_device(x).view(KINDS[t]).view(x.shape) for x, t in zip((a, b, c), types, strict=True)]
    kernel.launch(arrays, torch.cuda.current_stream().cuda_stream)
    torch.cuda.synchronize()
    assert np.array_equal(arrays[2].float().cpu().numpy().astype(np.int64), wanted)
