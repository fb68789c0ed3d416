"""Eager kernels on a GPU: their target is where their tensors are, their outputs are made there."""

import pytest
import tilelang
import tilelang.language as T

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)


@tilelang.jit
def matmul(
    A, B, bias=None, block_M: int = 128, block_N: int = 128, block_K: int = 32, dtype: T.dtype = T.float16
):
    M, N, K = T.const("M, N, K")
    A: T.Tensor[[M, K], dtype]
    B: T.Tensor[[K, N], dtype]
    if bias is not None:
        bias: T.Tensor[[N], dtype]
    C = T.empty((M, N), dtype)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_shared = T.alloc_shared(block_M, block_K)
        B_shared = T.alloc_shared(block_K, block_N)
        C_local = T.alloc_fragment(block_M, block_N)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        if bias is not None:
            for i, j in T.Parallel(block_M, block_N):
                C_local[i, j] += bias[bx * block_N + j]
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C


def error(got, wanted):
    return ((got.double() - wanted).norm() / wanted.norm()).item()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(512, 384, 256), (300, 260, 132), (1, 8, 8), (129, 136, 40)], ids=str)
def test_matmul(shape, dtype):
    m, n, k = shape
    kind = getattr(torch, dtype)
    a, b = torch.randn(m, k, device="cuda", dtype=kind), torch.randn(k, n, device="cuda", dtype=kind)
    bias = torch.randn(n, device="cuda", dtype=kind)
    c = matmul(a, b, dtype=dtype)
    assert c.device == a.device and c.dtype == kind
    assert error(c, a.double() @ b.double()) < 1e-2
    assert error(matmul(a, b, bias, dtype=dtype), a.double() @ b.double() + bias.double()) < 1e-2


def test_the_target_follows_the_tensors():
    a, b = torch.randn(64, 64), torch.randn(64, 64)
    on_cpu, on_gpu = matmul(a.half(), b.half()), matmul(a.half().cuda(), b.half().cuda())
    assert on_cpu.device.type == "cpu" and on_gpu.device.type == "cuda"
    assert error(on_gpu.cpu(), on_cpu.double()) < 1e-3
    assert matmul.compile(a.half(), b.half()).target.startswith("cpu")
    assert matmul.compile(a.half().cuda(), b.half().cuda()).target.startswith("cuda")
    with pytest.raises((TypeError, ValueError)):
        matmul(a.half().cuda(), b.half())


def test_several_outputs_and_no_inputs():
    @tilelang.jit(target="cuda")
    def ramp(n: int):
        up = T.empty((n,), T.int32)
        down = T.empty((n,), T.float32)
        with T.Kernel(1, threads=128):
            for i in T.Parallel(n):
                up[i] = i
                down[i] = T.cast(n - i, T.float32)
        return up, down

    up, down = ramp(1000)
    assert up.is_cuda and torch.equal(up.cpu(), torch.arange(1000, dtype=torch.int32))
    assert torch.equal(down.cpu(), 1000.0 - torch.arange(1000, dtype=torch.float32))
