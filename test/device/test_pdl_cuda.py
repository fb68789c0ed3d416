"""Programmatic dependent launch on a GPU: kernels that begin early still see what the ones before wrote."""

import pytest
import tilelang
import tilelang.language as T

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)


def step(n, rounds=200):
    """B = A * 1.5 + 0.5, slowly; the next step may begin meanwhile."""

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(n // 128, threads=128) as bx:
            T.pdl_trigger()
            T.pdl_sync()
            x = T.alloc_fragment((128,), "float32")
            T.copy(A[bx * 128], x)
            for _ in T.serial(rounds):
                for i in T.Parallel(128):
                    x[i] = x[i] * 0.5 + A[n - 1 - bx * 128 - i] * 0.5
            T.copy(x, B[bx * 128])

    return main


@pytest.mark.parametrize("graph", [False, True])
def test_a_chain(graph):
    n = 128 * 264
    kernel = tilelang.compile(step(n), target="cuda")
    plain = tilelang.compile(step(n), target="reference")
    buffers = [torch.randn(n, device="cuda")] + [torch.zeros(n, device="cuda") for _ in range(12)]

    def run():
        for a, b in zip(buffers, buffers[1:], strict=False):
            kernel(a, b)

    if graph:
        run()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            run()
        for b in buffers[1:]:
            b.zero_()
        run = captured.replay
    for _ in range(20):
        run()
    torch.cuda.synchronize()
    want = buffers[0].cpu()
    for got in buffers[1:3]:
        made = torch.zeros(n)
        plain(want, made)
        torch.testing.assert_close(got.cpu(), made)
        want = made
    for a, b in zip(buffers[2:], buffers[3:], strict=False):  # each is the step of the one before
        check = torch.zeros_like(b)
        kernel(a, check)
        assert torch.equal(check, b)
