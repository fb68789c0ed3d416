"""Kernels as PyTorch operators on a GPU: torch.compile with Inductor, CUDA graphs from the first call on."""

import pytest
import tilelang
import tilelang.language as T

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@tilelang.jit
def gemm_relu(A, B, block: int = 64):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
        a, b = T.alloc_shared((block, 32), T.float16), T.alloc_shared((32, block), T.float16)
        c = T.alloc_fragment((block, block), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
            T.copy(A[by * block, k * 32], a)
            T.copy(B[k * 32, bx * block], b)
            T.gemm(a, b, c)
        for i, j in T.Parallel(block, block):
            c[i, j] = T.max(c[i, j], 0)
        T.copy(c, C[by * block, bx * block])
    return C


op = tilelang.custom_op("tilelang_device_test::gemm_relu", gemm_relu)


def _setup(ctx, inputs, output):
    ctx.save_for_backward(inputs[0], inputs[1], output)


def _backward(ctx, grad):
    a, b, c = ctx.saved_tensors
    grad = grad * (c > 0)
    return grad @ b.T, a.T @ grad, None


op.register_autograd(_backward, setup_context=_setup)


def model(a, b):
    return torch.softmax(op(a, b).float() * 2, dim=-1)


def _inputs(m, n, k):
    return torch.randn(m, k, device="cuda").half(), torch.randn(k, n, device="cuda").half()


def _near(got, want):
    assert (got.double() - want.double()).norm() <= 2e-3 * want.double().norm()


@pytest.mark.parametrize("mode", [None, "reduce-overhead"])
def test_compiled_models(mode):
    """reduce-overhead captures CUDA graphs, the first one before the kernel has run as often as it likes."""
    compiled = torch.compile(model, fullgraph=True, mode=mode)
    for m, n, k in ((128, 256, 64), (70, 200, 96), (128, 256, 64)):
        for _ in range(4):
            a, b = _inputs(m, n, k)
            _near(compiled(a, b).clone(), torch.softmax(torch.relu(a @ b).float() * 2, dim=-1))


def test_a_graph_captured_before_the_first_run():
    a, b = _inputs(192, 320, 64)  # a shape that nothing else here has
    torch.relu(a @ b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = op(a, b, 32)
    for _ in range(3):
        a.copy_(torch.randn_like(a))
        graph.replay()
        _near(c, torch.relu(a @ b))


def test_a_backward():
    a, b = (x.requires_grad_() for x in _inputs(128, 128, 64))
    torch.compile(lambda *x: op(*x), fullgraph=True)(a, b).sum().backward()
    mask = (a @ b > 0).half()
    _near(a.grad, mask @ b.detach().T)
    _near(b.grad, a.detach().T @ mask)
