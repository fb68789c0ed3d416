"""Programmatic dependent launch: T.pdl_sync and T.pdl_trigger."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T


def chain(n=256):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(n // 64, threads=64) as bx:
            for i in T.Parallel(64):
                B[bx * 64 + i] = A[bx * 64 + i] + 1
            T.pdl_trigger()
        with T.Kernel(n // 64, threads=64) as bx:
            T.pdl_sync()
            for i in T.Parallel(64):
                C[bx * 64 + i] = B[n - 1 - bx * 64 - i] * 2

    return main


@pytest.mark.parametrize("target", ["cpu", "reference", "sim:sm_90", "sim:sm_80"])
def test_kernels_that_follow_one_another(target):
    a, b, c = np.arange(256, dtype=np.float32), np.zeros(256, np.float32), np.zeros(256, np.float32)
    tilelang.compile(chain(), target=target)(a, b, c)
    np.testing.assert_array_equal(c, (a[::-1] + 1) * 2)


@pytest.mark.parametrize("chip", ["sm_80", "sm_90", "sm_90a"])
def test_cuda_text(chip):
    kernel = tilelang.compile(chain(), target=f"cuda -arch={chip}")
    first, second = kernel.get_kernel_source().split("__global__")[1:]
    assert "tl_pdl_trigger()" in first and "__restrict__" in first
    # the kernel before may still write what this one reads: no load may be taken for one of a constant
    assert "tl_pdl_sync()" in second and "__restrict__" not in second
    ptx = kernel._kernel.ptx()
    assert ("griddepcontrol.wait" in ptx and "griddepcontrol.launch_dependents" in ptx) == (chip != "sm_80")


def test_outside_of_a_kernel():
    with pytest.raises(tilelang.CompileError, match="T.pdl_sync outside a T.Kernel"):

        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            T.pdl_sync()
