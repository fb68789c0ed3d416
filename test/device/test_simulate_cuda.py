"""On a GPU: tensors of the device go into the simulator and come back; a kernel and its twin agree."""

import pytest
import tilelang
import tilelang.language as T

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


def scale(N):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, 64), threads=64) as bx:
            for i in T.Parallel(64):
                B[bx * 64 + i] = A[bx * 64 + i] * 2 + 1

    return main


def test_outputs_come_back():
    a = torch.randn(300, device="cuda")
    b = torch.full_like(a, float("nan"))
    tilelang.compile(scale(300), target="sim:sm_90")(a, b)
    assert b.is_cuda and torch.equal(b, a * 2 + 1)
    made = tilelang.compile(scale(300), out_idx=-1, target="sim:sm_90")(a)
    assert made.is_cuda and torch.equal(made, b)


def test_tensors_that_share_memory_do_so_in_the_simulator():
    whole = torch.arange(600, device="cuda", dtype=torch.float32)
    before = whole.clone()
    tilelang.compile(scale(300), target="sim:sm_90")(whole[:300], whole[300:])
    assert torch.equal(whole[:300], before[:300]) and torch.equal(whole[300:], before[:300] * 2 + 1)


def test_a_kernel_and_its_twin():
    kernel = tilelang.compile(scale(300), target="cuda")
    a = torch.randn(300, device="cuda")
    mine, simulated = torch.full_like(a, float("nan")), torch.full_like(a, float("nan"))
    kernel(a, mine)
    report = kernel.simulate(a, simulated, schedules=2)
    assert report.schedules == 2 and not report
    assert torch.allclose(mine, simulated, rtol=1e-6)


def test_a_finding_leaves_the_device_usable():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            S = T.alloc_shared((60,), "float32")
            S[tx] = A[tx]

    a = torch.ones(64, device="cuda")
    with pytest.raises(tilelang.SimulationError, match="outside"):
        tilelang.compile(main, target="sim:sm_90")(a)
    assert float(a.sum()) == 64.0
