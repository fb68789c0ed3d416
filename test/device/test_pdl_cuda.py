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


def multiply(n, block_N=128):
    """C = A @ B, whose loop roles divide on Hopper: launched early without a word of the program's."""

    @T.prim_func
    def main(A: T.Tensor((n, n), "float16"), B: T.Tensor((n, n), "float16"), C: T.Tensor((n, n), "float16")):
        with T.Kernel(n // block_N, n // 64, threads=128) as (bx, by):
            A_shared = T.alloc_shared((64, 64), "float16")
            B_shared = T.alloc_shared((64, block_N), "float16")
            C_local = T.alloc_fragment((64, block_N), "float32")
            T.clear(C_local)
            for k in T.Pipelined(n // 64, num_stages=4):
                T.copy(A[by * 64, k * 64], A_shared)
                T.copy(B[k * 64, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * 64, bx * block_N])

    return main


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize(
    "n, block_N", [(2048, 64), (1024, 128)]
)  # blocks walk; nearly each processor has one
def test_products_between_work_of_others(graph, n, block_N):
    """Each product reads what torch has just made of the one before, and writes what torch reads next."""
    links = 8
    kernel = tilelang.compile(multiply(n, block_N), target="cuda")
    first = torch.randn(n, n, device="cuda", dtype=torch.float16)
    weights = torch.randn(n, n, device="cuda", dtype=torch.float16) / n**0.5
    a, c, sums = torch.empty_like(first), torch.empty_like(first), torch.zeros(links, device="cuda")
    other = torch.cuda.Stream()

    def run(wait=lambda: None):
        a.copy_(first)
        for i in range(links):
            c.fill_(float("nan"))
            wait()
            kernel(a, weights, c)
            wait()
            if i % 2:
                kernel(c, weights, a)  # one behind the other
            else:
                torch.tanh(c, out=a)
            wait()
            ready = torch.cuda.Event()
            ready.record()
            with torch.cuda.stream(other):
                other.wait_event(ready)
                sums[i] = a.float().abs().sum()
                done = torch.cuda.Event()
                done.record()
            done.wait()

    run(torch.cuda.synchronize)
    torch.cuda.synchronize()
    want, sums_wanted = a.clone(), sums.clone()
    assert torch.isfinite(want).all()
    if graph:
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            run()
        again = captured.replay
    else:
        again = run
    for _ in range(20):
        a.fill_(float("nan"))
        again()
    torch.cuda.synchronize()
    assert torch.equal(a, want)
    torch.testing.assert_close(sums, sums_wanted, rtol=1e-5, atol=0)
