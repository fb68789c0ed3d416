"""Hints that this version has no use for, and source kernels in the eager dialect."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T


def hinted():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=64):
            a, b = T.alloc_shared((64, 16), "float16"), T.alloc_shared((64, 16), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.clear(acc)
            for k in T.Pipelined(4, num_stages=2, annotations={"depth": 2}):
                T.copy(A[0, k * 16], a, eviction_policy="evict_first", prefer_instruction="cp_async")
                T.copy(A[0, k * 16], b)
                T.gemm(a, b, acc, transpose_B=True)
            for i, j in T.Parallel(64, 64, prefer_async=True):
                C[i, j] = acc[i, j] * 2.0

    return main


def test_hints_change_nothing_and_are_listed(target):
    kernel = tilelang.compile(hinted(), target=target)
    a = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float16)
    c = np.full((64, 64), np.nan, np.float32)
    kernel(a, c)
    want = 2 * a.astype(np.float64) @ a.T.astype(np.float64)
    assert np.linalg.norm(c - want) < 1e-5 * np.linalg.norm(want)
    if target != "reference":
        text = str(kernel.report)
        for word in (
            "eviction_policy='evict_first' is a hint",
            "annotations={'depth': 2} is a hint",
            "prefer_async=True",
        ):
            assert word in text


def test_hints_are_checked():
    def build(body):
        with pytest.raises(tilelang.CompileError) as error:

            @T.prim_func
            def main(A: T.Tensor((64, 64), "float16")):
                with T.Kernel(1, threads=64):
                    tile = T.alloc_shared((64, 64), "float16")
                    acc = T.alloc_fragment((64, 64), "float32")
                    body(A, tile, acc)

        return str(error.value)

    assert "eviction_policy must be" in build(lambda A, t, c: T.copy(A, t, eviction_policy="never"))
    assert "mbar is what the tensor cores of later chips" in build(lambda A, t, c: T.gemm(t, t, c, mbar=0))
    assert "order is a list" in build(lambda A, t, c: T.Pipelined(4, order=3))


TEXT = """
__global__ void scaled(const float* x, float factor, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i] * factor;
}
"""


def test_a_source_kernel_in_an_eager_function():
    @tilelang.jit(target="cuda -arch=sm_80")
    def scale(x, factor: T.float32):
        n = T.const("n")
        x: T.Tensor((n,), "float32")
        y = T.empty((n,), "float32")
        T.CUDASourceCodeKernel(n // 32, threads=32, source_code_or_path=TEXT, entry_name="scaled")
        return y

    kernel = scale.compile(np.zeros(64, np.float32), 2.0)
    assert "scaled" in kernel.get_kernel_source()
    assert {p.name for p in kernel.params} == {"x", "factor", "y"}


def test_a_source_kernel_before_its_tensors():
    @tilelang.jit(target="cuda -arch=sm_80")
    def scale(x, factor: T.float32):
        T.CUDASourceCodeKernel(2, threads=32, source_code_or_path=TEXT, entry_name="scaled")
        x: T.Tensor((64,), "float32")

    with pytest.raises(tilelang.CompileError, match="x is not annotated yet"):
        scale.compile(np.zeros(64, np.float32), 2.0)
