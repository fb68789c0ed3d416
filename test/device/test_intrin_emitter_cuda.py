"""Gemm by the kernel's own matrix instructions, and by T.gemm with sums in f16, on a GPU."""

import numpy as np
import pytest
import tilelang
from emitter_gemm import DTYPES, NUMPY, operands, product, tl_matmul
from gemm_cases import gemm

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)


def on_device(array):
    if array.dtype == NUMPY["bfloat16"]:
        return torch.from_numpy(array.view(np.int16)).cuda().view(torch.bfloat16)
    return torch.from_numpy(array).cuda()


@pytest.mark.parametrize("in_dtype,out_dtype,accum", DTYPES)
def test_the_published_example(in_dtype, out_dtype, accum):
    M, N, K, chunk = 256, 384, 256, 64 if in_dtype == "int8" else 32
    a, b = operands(M, N, K, in_dtype)
    if accum == "float16":  # whose integers are exact up to 2048
        a, b = a / 8, b / 8
    c = torch.full((M, N), 77, dtype=getattr(torch, out_dtype), device="cuda")
    matmul = tl_matmul(M, N, K, in_dtype, out_dtype, accum, chunk=chunk)
    tilelang.compile(matmul, target="cuda")(on_device(a), on_device(b), c)
    exact = product(a, b)
    error = np.linalg.norm(c.cpu().numpy() - exact) / np.linalg.norm(exact)
    assert error <= (2e-3 if accum == "float16" else 0)


@pytest.mark.parametrize("shape", [(256, 256, 128), (100, 72, 40)], ids=str)
def test_sums_in_f16(shape):
    M, N, K = shape
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((M, K), (K, N)))
    c = torch.full((M, N), float("nan"), dtype=torch.float16, device="cuda")
    half = ("float16", "float16", "float16")
    factory = tilelang.jit(gemm.func, target="cuda", out_idx=None)
    kernel = factory(M, N, K, False, False, half, 64, 64, 32, 128, "cuda")
    source = kernel.get_kernel_source(False)
    assert "mma_m16n8k16_f16_f16" in source or "wgmma_m64k16_f16_f16" in source
    kernel(on_device(a), on_device(b), c)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert np.linalg.norm(c.cpu().numpy() - exact) <= 5e-3 * np.linalg.norm(exact)
