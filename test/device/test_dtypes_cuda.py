"""dtypes of 4 and 8 bits and tf32 on a GPU: values, rounding and gemm, against the reference executor."""

import sys
from pathlib import Path

import numpy as np
import pytest
import tilelang
import tilelang.language as T

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

sys.path.append(str(Path(__file__).resolve().parents[1] / "python"))
import test_dtypes_gemm as gemms  # noqa: E402

FLOATS = ["float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float4_e2m1fn"]


def convert(n, source, dest, **how):
    @T.prim_func
    def main(A: T.Tensor((n,), source), B: T.Tensor((n,), dest)):
        with T.Kernel(T.ceildiv(n, 1024), threads=128) as bx:
            for i in T.Parallel(1024):
                B[bx * 1024 + i] = T.cast(A[bx * 1024 + i], dest, **how)

    return main


def both(kernel, a, out_bytes, dtype):
    """The bytes that the device makes, and those that the reference makes."""
    host = torch.zeros(out_bytes, dtype=torch.uint8)
    device = host.cuda()
    view = T.dtypes.as_dtype(dtype).as_torch()
    source = a.numpy() if a.dtype == torch.float32 else numpy_of(a, kernel)
    tilelang.compile(kernel, target="reference")(source, numpy_of(host, kernel, dtype))
    tilelang.compile(kernel, target="cuda")(a.cuda(), device.view(view))
    return device.cpu().numpy(), host.numpy()


def numpy_of(tensor, kernel, dtype=None):
    import ml_dtypes

    array = tensor.view(torch.uint8).numpy()
    if dtype is None:
        dtype = {
            torch.float8_e4m3fn: "float8_e4m3fn",
            torch.float8_e5m2: "float8_e5m2",
            torch.float8_e8m0fnu: "float8_e8m0fnu",
        }.get(tensor.dtype)
    if dtype is None or "float4" in dtype:
        return array
    return array.view(getattr(ml_dtypes, dtype) if "float8" in dtype else T.dtypes.as_dtype(dtype).as_numpy())


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_value(dtype):
    bits = T.dtypes.as_dtype(dtype).bits
    codes = torch.arange(1024, dtype=torch.int32).remainder(256).to(torch.uint8)
    a = codes[: 1024 * bits // 8].view(T.dtypes.as_dtype(dtype).as_torch())
    device, host = both(convert(1024, dtype, "float32"), a, 4096, "float32")
    x, y = device.view(np.float32), host.view(np.float32)
    assert np.array_equal(x, y, equal_nan=True) and np.array_equal(np.signbit(x), np.signbit(y))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("how", [{}, {"sat": False}] + [{"round": r} for r in ("rz", "rm", "rp")], ids=str)
def test_rounding(dtype, how):
    """Every float32 whose last 16 bits are 0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF: all ties among them."""
    high = np.arange(65536, dtype=np.uint32) << 16
    x = np.concatenate([high | low for low in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]).view(np.float32)
    bits = T.dtypes.as_dtype(dtype).bits
    kernel = convert(len(x), "float32", dtype, **how)
    device, host = both(kernel, torch.from_numpy(x.copy()), len(x) * bits // 8, dtype)
    differ = device != host
    if bits == 8:  # which NaN it is, the chip's own instruction says
        nan = [np.isnan(codes.view(T.dtypes.as_dtype(dtype).as_numpy()).astype(np.float32))
               for codes in (device, host)]  # fmt: skip
        differ &= ~(nan[0] & nan[1])
    wrong = np.flatnonzero(differ)
    assert len(wrong) == 0, (x[wrong[:5]], device[wrong[:5]], host[wrong[:5]])


WIDER = [("tfloat32", ""), ("tfloat32", "rz"), ("float16", "rz"), ("bfloat16", "rp")]


@pytest.mark.parametrize("dtype,round", WIDER)
def test_wider_floats(dtype, round):
    rng = np.random.default_rng(0)
    x = np.ldexp(rng.standard_normal(1 << 16), rng.integers(-30, 15, 1 << 16)).astype(np.float32)
    bits = T.dtypes.as_dtype(dtype).bits
    kernel = convert(len(x), "float32", dtype, round=round)
    device, host = both(kernel, torch.from_numpy(x), len(x) * bits // 8, dtype)
    assert np.array_equal(device, host)


TYPES = [("int8", "int8"), ("uint8", "int8"), ("int8", "uint8"), ("uint8", "uint8"),
         ("float8_e4m3fn", "float8_e4m3fn"), ("float8_e5m2", "float8_e4m3fn"),
         ("tfloat32", "tfloat32"), ("int4", "int4")]  # fmt: skip


@pytest.mark.parametrize("types", TYPES, ids=str)
@pytest.mark.parametrize("trans_B", [False, True])
@pytest.mark.parametrize("trans_A", [False, True])
@pytest.mark.parametrize("shape,tile", [((256, 192, 128), (64, 64, 32)), ((200, 120, 80), (64, 48, 16))])
def test_gemm(types, trans_A, trans_B, shape, tile):
    a_dtype, b_dtype = types
    M, N, K = shape
    rng = np.random.default_rng(0)
    a, a64 = gemms.operand(rng, (K, M) if trans_A else (M, K), a_dtype)
    b, b64 = gemms.operand(rng, (N, K) if trans_B else (K, N), b_dtype)
    exact = (a64.T if trans_A else a64) @ (b64.T if trans_B else b64)
    integers = "int" in a_dtype
    nothing, sums = (-7, torch.int32) if integers else (float("nan"), torch.float32)
    c = torch.full((M, N), nothing, dtype=sums).cuda()
    kernel = tilelang.compile(gemms.gemm(M, N, K, tile, a_dtype, b_dtype, trans_A, trans_B), target="cuda")

    def on_device(array, dtype):
        if "float8" in dtype:
            return torch.from_numpy(array.view(np.uint8)).cuda().view(T.dtypes.as_dtype(dtype).as_torch())
        return torch.from_numpy(array).cuda()

    kernel(on_device(a, a_dtype), on_device(b, b_dtype), c)
    got = c.cpu().numpy()
    if integers:
        assert np.array_equal(got, exact)
    else:
        assert np.linalg.norm(got - exact) < 2e-6 * np.linalg.norm(exact)
