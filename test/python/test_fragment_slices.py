"""Slices of a fragment: where they lie as the loop does, no element changes its thread."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T

TARGETS = ["reference", "cpu", "sim:sm_80", "sim:sm_90", "sim:gfx942"]


def product(width, shift=0, unrolled=True):
    """C = A @ B by tensor cores, copied from the accumulator in parts of so many columns."""
    M, N, K = 64, 128, 32
    parts = (N - shift) // width
    loop = T.unroll if unrolled else T.serial

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((K, N), "float16"),
        C: T.Tensor((parts, M, width), "float16"),
    ):
        with T.Kernel(1, threads=128):
            A_shared = T.alloc_shared((M, K), "float16")
            B_shared = T.alloc_shared((K, N), "float16")
            C_shared = T.alloc_shared((M, width), "float16")
            C_local = T.alloc_fragment((M, N), "float32")
            T.copy(A, A_shared)
            T.copy(B, B_shared)
            T.clear(C_local)
            T.gemm(A_shared, B_shared, C_local, policy=T.GemmWarpPolicy.FullRow)
            for p in loop(parts):
                T.copy(C_local[:, p * width + shift : p * width + shift + width], C_shared)
                T.copy(C_shared, C[p, :, :])

    return main


def check(kernel, width, shift):
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((64, 32), (32, 128)))
    parts = (128 - shift) // width
    c = np.full((parts, 64, width), np.nan, np.float16)
    kernel(a, b, c)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    exact = np.stack([exact[:, shift + p * width :][:, :width] for p in range(parts)])
    assert np.linalg.norm(c - exact) <= 5e-4 * np.linalg.norm(exact)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("width, shift", [(64, 0), (32, 64), (16, 16), (24, 8), (12, 4)])
@pytest.mark.parametrize("unrolled", [True, False])
def test_parts_of_an_accumulator(target, width, shift, unrolled):
    check(tilelang.compile(product(width, shift, unrolled), target=target), width, shift)


@pytest.mark.parametrize("target", ["sim:sm_80", "sim:sm_90"])
@pytest.mark.parametrize(
    "width, shift, stays", [(64, 0, True), (32, 64, True), (24, 8, True), (12, 4, False)]
)
def test_an_element_stays_on_its_thread(target, width, shift, stays):
    """Columns 8 apart lie on the same threads; those 4 apart do not."""
    text = tilelang.compile(product(width, shift), target=target)._kernel.machine_text
    assert ("C_local_shared" not in text) == stays
