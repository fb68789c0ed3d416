"""GEMM on a GPU: every type, all transposes, shapes that no tile divides, against float64."""

import gemm_cases as cases
import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

TILES = {"f32": (64, 64, 16), "i8": (64, 64, 32)}


def on_device(array):
    if array.dtype == cases.ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).cuda().view(torch.bfloat16)
    return torch.from_numpy(array).cuda()


@pytest.mark.parametrize("shape", cases.SHAPES, ids=str)
@pytest.mark.parametrize("trans_B", [False, True])
@pytest.mark.parametrize("trans_A", [False, True])
@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_gemm(dtype, trans_A, trans_B, shape):
    a, b, c, reference = cases.random_operands(shape, dtype, trans_A, trans_B)
    tile = TILES.get(dtype, (128, 128, 32))
    kernel = cases.compile_gemm(shape, dtype, trans_A, trans_B, tile, target="cuda")
    device_c = on_device(c)
    kernel(on_device(a), on_device(b), device_c)
    torch.cuda.synchronize()
    out = device_c.float() if device_c.dtype == torch.bfloat16 else device_c
    assert cases.relative_error(out.cpu().numpy(), reference) <= cases.bound(shape, dtype)


TILED = [
    ((128, 256, 64), 256),
    ((64, 32, 16), 64),
    ((16, 8, 16), 32),
    ((96, 48, 48), 96),
    ((80, 56, 32), 128),
]


@pytest.mark.parametrize("tile, threads", TILED, ids=str)
def test_tiles(tile, threads):
    shape = (300, 260, 132)
    a, b, c, reference = cases.random_operands(shape, "f16", False, False)
    device_c = on_device(c)
    kernel = cases.compile_gemm(shape, "f16", tile=tile, threads=threads, target="cuda")
    kernel(on_device(a), on_device(b), device_c)
    assert cases.relative_error(device_c.cpu().numpy(), reference) <= cases.bound(shape, "f16")


@pytest.mark.parametrize("trans_B", [False, True])
@pytest.mark.parametrize("trans_A", [False, True])
@pytest.mark.parametrize("K", [8, 24, 40, 72, 80])
def test_k_that_is_no_multiple_of_16(K, trans_A, trans_B):
    shape = (200, 136, 3 * K)
    a, b, c, reference = cases.random_operands(shape, "f16", trans_A, trans_B)
    device_c = on_device(c)
    kernel = cases.compile_gemm(shape, "f16", trans_A, trans_B, (64, 72, K), target="cuda")
    kernel(on_device(a), on_device(b), device_c)
    assert cases.relative_error(device_c.cpu().numpy(), reference) <= cases.bound(shape, "f16")
    assert "mma.sync" in kernel.explain() or "wgmma_m64k16" in kernel.explain()


@pytest.mark.parametrize("case", cases.CHAINS, ids=str)
def test_chain(case):
    assert cases.run_chain(case, "cuda", on_device, lambda x: x.cpu().numpy()) <= 3e-4


@pytest.mark.parametrize("threads", [32, 96, 128, 256])
@pytest.mark.parametrize("trans_B", [False, True])
@pytest.mark.parametrize("trans_A", [False, True])
def test_operands(trans_A, trans_B, threads):
    error = cases.run_operands(trans_A, trans_B, threads, "cuda", on_device, lambda x: x.cpu().numpy())
    assert error <= 1e-5


@pytest.mark.parametrize("panel, order", [(1, "row"), (3, "row"), (10, "col"), (100, "row")])
def test_use_swizzle(panel, order):
    shape = (1000, 1300, 64)
    a, b, c, reference = cases.random_operands(shape, "f16", False, False)
    device_c = on_device(c)
    kernel = cases.compile_gemm(shape, "f16", target="cuda", panel=panel, order=order)
    kernel(on_device(a), on_device(b), device_c)
    assert cases.relative_error(device_c.cpu().numpy(), reference) <= cases.bound(shape, "f16")


def test_the_caller_s_stream_is_used():
    shape = (256, 256, 256)
    a, b, c, reference = cases.random_operands(shape, "f16", False, False)
    kernel = cases.compile_gemm(shape, "f16", tile=(64, 64, 32), target="cuda")
    da, db, dc = on_device(a), on_device(b), on_device(c)
    kernel(da, db, dc)  # loads the module
    torch.cuda.synchronize()
    dc.fill_(float("nan"))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        kernel(da, db, dc)
        done = stream.record_event()
    assert not done.query()  # still behind the sleep: it was queued on this stream
    stream.synchronize()
    assert cases.relative_error(dc.cpu().numpy(), reference) <= cases.bound(shape, "f16")


def test_a_cpu_tensor_is_refused():
    shape = (64, 64, 64)
    a, b, c, _ = cases.random_operands(shape, "f16", False, False)
    kernel = cases.compile_gemm(shape, "f16", target="cuda")
    with pytest.raises((TypeError, ValueError), match='target="cpu"'):
        kernel(torch.from_numpy(a), on_device(b), on_device(c))


def test_elementwise_and_out_idx():
    import tilelang
    import tilelang.language as T

    @tilelang.jit(target="cuda", out_idx=[-1])
    def add(n, block):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
            with T.Kernel(T.ceildiv(n, block)) as bx:
                for i in T.Parallel(block):
                    C[bx * block + i] = A[bx * block + i] + B[bx * block + i]

        return main

    for n in (1, 1000, 1024, 4097, 1_000_003):
        x, y = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
        assert torch.equal(add(n, 1024)(x, y), x + y)
