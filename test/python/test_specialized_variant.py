"""The specialized variant of a kernel asks no more of a call than that rows are whole vectors apart."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from test_dynamic import notes


def first_row(shape, dtype, strides):
    """A kernel that writes the first row of a tensor."""
    kind = T.StridedTensor(shape, strides, dtype) if strides else T.Tensor(shape, dtype)

    @T.prim_func
    def main(Y: kind):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(128):
                if i < shape[-1]:
                    Y[(*[0] * (len(shape) - 1), i)] = 2

    return main


B, M, N = T.dynamic("B, M, N")


@pytest.mark.parametrize("shape, dtype, strides, asked", [
    ((B, M, N), "float32", None, ["N is divisible by 4"]),
    ((B, M, N), "float16", None, ["N is divisible by 8"]),
    ((B, M, 64), "float16", None, []),
    ((B, M, 4), "float16", None, ["M is divisible by 2"]),
    ((B, M, 6), "float32", None, ["M is divisible by 2"]),
    ((B, N * 2, N), "float32", None, ["N is divisible by 4"]),
    ((B, M + 4, 1), "float32", None, ["M is divisible by 4"]),
    ((B, M, 8), "float32", (M * N, N, 1), ["N is divisible by 4"]),
    ((M, N), "float32", (M * N, 1), ["N is divisible by 4"]),
])  # fmt: skip
def test_the_specialized_variant_asks_for_no_more_than_rows_need(shape, dtype, strides, asked):
    function = first_row(shape, dtype, strides)
    said = notes(tilelang.compile(function, target="sim:sm_80"))["specialized variant"]
    facts = said.removeprefix("for calls where ").partition(";")[0].split(", ")
    assert [fact for fact in facts if "is divisible" in fact] == asked


def test_ragged_rows_of_a_batch_keep_the_specialized_variant():
    """Of Y[B, M, N] the distance of two batches is a multiple of N: M may be anything."""
    kernel = tilelang.compile(batched_gemm(), target="sim:sm_90a")
    rng = np.random.default_rng(0)
    a, w = (rng.standard_normal(shape).astype("f2") for shape in ((2, 70, 96), (2, 96, 40)))
    y = np.full((2, 70, 40), np.nan, "f4")
    kernel(a, w, y)
    wanted = a.astype("f8") @ w.astype("f8")
    assert np.linalg.norm(y - wanted) <= 1e-3 * np.linalg.norm(wanted)
    assert notes(kernel)["specialized variant"].endswith("has run") and "generic variant" not in notes(kernel)
    assert any("TMA" in n.text for n in kernel.report.notes)


def batched_gemm():
    K = T.dynamic("K")

    @T.prim_func
    def main(
        A: T.Tensor((B, M, K), "float16"),
        W: T.Tensor((B, K, N), "float16"),
        Y: T.Tensor((B, M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), B, threads=128) as (bx, by, bz):
            P, Q = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            C = T.alloc_fragment((64, 64), "float32")
            T.clear(C)
            for k in T.Pipelined(T.ceildiv(K, 64), num_stages=3):
                T.copy(A[bz, by * 64 : (by + 1) * 64, k * 64 : (k + 1) * 64], P)
                T.copy(W[bz, k * 64 : (k + 1) * 64, bx * 64 : (bx + 1) * 64], Q)
                T.gemm(P, Q, C)
            T.copy(C, Y[bz, by * 64 : (by + 1) * 64, bx * 64 : (bx + 1) * 64])

    return main
