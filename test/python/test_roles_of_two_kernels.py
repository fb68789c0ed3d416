"""The loops of each kernel of a function are divided as if it stood alone."""

import numpy as np
import tilelang
import tilelang.language as T

M, N, K = 256, 256, 512


@T.macro
def multiply(A, B, C):
    with T.Kernel(T.ceildiv(N, 128), T.ceildiv(M, 128), threads=256) as (bx, by):
        a, b = T.alloc_shared((128, 64), "float16"), T.alloc_shared((64, 128), "float16")
        sums = T.alloc_fragment((128, 128), "float32")
        T.clear(sums)
        for k in T.Pipelined(K // 64, num_stages=2):
            T.copy(A[by * 128, k * 64], a)
            T.copy(B[k * 64, bx * 128], b)
            T.gemm(a, b, sums)
        T.copy(sums, C[by * 128, bx * 128])


@T.prim_func
def one(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")):
    multiply(A, B, C)


@T.prim_func
def two(
    A: T.Tensor((M, K), "float16"),
    B: T.Tensor((K, N), "float16"),
    C: T.Tensor((M, N), "float32"),
    D: T.Tensor((M, N), "float32"),
):
    multiply(A, B, C)
    multiply(A, B, D)


def said(kernel):
    return [n.text for n in kernel.report.notes if n.decided_by == "assign_roles"]


def test_each_has_the_slots_that_it_has_alone():
    alone, both = (tilelang.compile(program, target="sim:sm_90a") for program in (one, two))
    (text,) = said(alone)
    assert "a and b in 6 slots" in text and set(said(both)) == {text}
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((M, K), (K, N)))
    c, d = np.full((M, N), np.nan, np.float32), np.full((M, N), np.nan, np.float32)
    both(a, b, c, d)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    for result in (c, d):
        assert np.linalg.norm(result - wanted) / np.linalg.norm(wanted) < 1e-5
