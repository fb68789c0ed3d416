"""Statements on tiles of a tensor happen one after another, whichever threads run them."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T


def reversed_copy(n, threads):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=threads):
            for i in T.Parallel(n):
                B[i] = A[i]
            for i in T.Parallel(n):
                C[i] = B[n - 1 - i]

    return main, lambda a: (a, a[::-1])


def filled_then_set(n, threads):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=threads):
            for i in T.Parallel(n):
                B[i] = 0
            for i in T.Parallel(n // 4):
                B[n // 2 + i] = A[i]
            T.copy(A, C)

    def wanted(a):
        b = np.zeros_like(a)
        b[n // 2 : n // 2 + n // 4] = a[: n // 4]
        return b, a

    return main, wanted


@pytest.mark.parametrize("make", [reversed_copy, filled_then_set])
@pytest.mark.parametrize("n,threads", [(64, 64), (256, 64), (40, 64)])
def test_one_after_another(make, n, threads, target):
    main, wanted = make(n, threads)
    a, b, c = np.arange(n).astype("float32"), np.zeros(n, "float32"), np.zeros(n, "float32")
    kernel = tilelang.compile(main, target=target)
    if target.startswith("sim"):
        assert not kernel.simulate(a, b, c, schedules=4, count=False).findings
    else:
        kernel(a, b, c)
    assert (b == wanted(a)[0]).all() and (c == wanted(a)[1]).all()


def test_code_for_single_threads_orders_itself():
    """Its accesses to tensors get no barriers, which not all threads may reach."""

    @T.prim_func
    def main(B: T.Tensor((64,), "float32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            B[tx] = 1.0
            C[tx] = B[63 - tx]

    source = tilelang.compile(main, target="cuda -arch=sm_80").get_kernel_source()
    assert "__syncthreads()" not in source
    with pytest.raises(tilelang.SimulationError, match="data race on B"):
        tilelang.compile(main, target="sim:sm_80")(np.zeros(64, "float32"), np.zeros(64, "float32"))
