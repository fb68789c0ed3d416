"""Eager functions as published: constants used above what binds them, and given by keyword."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import random

SIM = "sim:sm_90"  # of the fixture `target`


def on(target, **settings):
    return lambda function: tilelang.jit(function, target=target, **settings)


# ── a T.const is used above the annotation that binds it ──────────────────────────────────────────────


def test_arithmetic_above_the_annotation(target):
    @on(target)
    def halves(A):
        M, K = T.const("M, K")
        K2 = K // 2
        nb = T.ceildiv(M, 4)
        A: T.Tensor((M, K), "float32")
        B = T.empty((M, K2), "float32")
        with T.Kernel(nb, threads=32) as bx:
            for i, j in T.Parallel(4, K2):
                if bx * 4 + i < M:
                    B[bx * 4 + i, j] = A[bx * 4 + i, j] + A[bx * 4 + i, K2 + j]
        return B

    for M, K in ((8, 6), (5, 10)):
        a = random(M, K)
        assert np.array_equal(halves(a), a[:, : K // 2] + a[:, K // 2 :])


def test_an_output_above_the_annotation(target):
    @on(target)
    def double(A):
        M, N = T.const("M, N")
        C = T.empty((M, N))
        A: T.Tensor((M, N))
        with T.Kernel(M, threads=32) as i:
            for j in T.Parallel(N):
                C[i, j] = A[i, j] * 2
        return C

    a = random(3, 7)
    assert np.array_equal(double(a), a * 2)


def test_a_derived_extent_above_the_bare_one(target):
    @on(target)
    def scaled(A, S, group: int = 4):
        M, K = T.const("M, K")
        scale_shape = [M, K // group]
        S: T.Tensor(scale_shape, "float32")
        A: T.Tensor([M, K], "float32")
        B = T.empty([M, K], "float32")
        with T.Kernel(M, threads=32) as i:
            for j in T.Parallel(K):
                B[i, j] = A[i, j] * S[i, j // group]
        return B

    a, s = random(3, 12), random(3, 3, seed=1)
    assert np.array_equal(scaled(a, s), a * s.repeat(4, axis=1))
    with pytest.raises(Exception, match=r"(?s)S.*(3|4)"):  # a derived extent is compared as well
        scaled(a, random(3, 4))


def test_floats_and_products_of_constants(target):
    @on(target)
    def mean(A):
        M, N = T.const("M, N")
        inverse = 1.0 / M
        root = (1.0 / N) ** 0.5
        size = M * N
        last = M - 1
        A: T.Tensor((M, N), "float32")
        B = T.empty((4,), "float32")
        with T.Kernel(1, threads=32):
            for k in T.Parallel(4):
                B[k] = T.if_then_else(
                    k == 0,
                    inverse,
                    T.if_then_else(k == 1, root, T.if_then_else(k == 2, size, A[last, N - 1])),
                )
        return B

    a = random(8, 4)
    np.testing.assert_allclose(mean(a), [1 / 8, 0.5, 32, a[7, 3]], rtol=1e-6)


def test_an_assert_above_the_annotation():
    @on("cpu")
    def blocks(A, bk: int = 4):
        M, K = T.const("M, K")
        assert K % bk == 0, "K must be a multiple of bk"
        A: T.Tensor((M, K), "float32")
        B = T.empty((M,), "float32")
        with T.Kernel(M, threads=32) as i:
            B[i] = A[i, K - bk]
        return B

    a = random(3, 8)
    assert np.array_equal(blocks(a), a[:, 4])
    with pytest.raises(Exception, match="K must be a multiple of bk"):
        blocks(random(3, 9))


def test_a_comparison_above_the_annotation():
    @on("cpu")
    def choose(A):
        M = T.const("M")
        large = M > 100
        block = 64 if M > 100 else 16
        A: T.Tensor((M,), "float32")
        B = T.empty((2,), "int32")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(2):
                B[i] = T.if_then_else(i == 0, T.cast(large, "int32"), block)
        return B

    assert choose(random(200)).tolist() == [1, 64]
    assert choose(random(50)).tolist() == [0, 16]


def test_loops_and_tiles_of_constants():
    @on("cpu")
    def columns(A, block: int = 8):
        M, N = T.const("M, N")
        steps = T.ceildiv(N, block)
        padded = steps * block
        A: T.Tensor((M, N), "float32")
        S = T.empty((M,), "float32")
        with T.Kernel(M, threads=32) as i:
            tile = T.alloc_fragment((padded,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.clear(tile)
            for k in T.serial(steps):
                for j in T.Parallel(block):
                    if k * block + j < N:
                        tile[k * block + j] = A[i, k * block + j]
            T.reduce_sum(tile, total, dim=0)
            S[i] = total[0]
        return S

    a = random(3, 21)
    np.testing.assert_allclose(columns(a), a.sum(1), rtol=1e-5)


def test_a_constant_that_nothing_binds_is_named():
    @on("cpu")
    def lost(A):
        M, N = T.const("M, N")
        A: T.Tensor((M,), "float32")
        B = T.empty((M, N // 2), "float32")
        with T.Kernel(1, threads=32):
            B[0, 0] = A[0]
        return B

    with pytest.raises(tilelang.CompileError, match=r"\bN\b"):
        lost(random(4))


# ── given by keyword ──────────────────────────────────────────────────────────────────────────────────


@on("cpu")
def shifted(A, by: float = 1.0):
    M, N = T.const("M, N")
    half = M // 2
    A: T.Tensor((M, N), "float32")
    B = T.empty((half, N), "float32")
    with T.Kernel(half, threads=32) as i:
        for j in T.Parallel(N):
            B[i, j] = A[i, j] + by
    return B


def test_a_constant_that_a_tensor_binds_is_given_as_well():
    a = random(6, 5)
    for keywords in ({"M": 6}, {"N": 5}, {"M": 6, "N": 5, "by": 1.0}):
        assert np.array_equal(shifted(a, **keywords), a[:3] + 1)
    with pytest.raises(Exception, match=r"(?s)M.*7.*6|M.*6.*7"):
        shifted(a, M=7)
    with pytest.raises(TypeError, match="unheard_of"):
        shifted(a, unheard_of=7)


def test_a_constant_that_no_tensor_binds_is_given():
    @on("cpu")
    def repeated(A):
        M, times = T.const("M, times")
        A: T.Tensor((M,), "float32")
        B = T.empty((times, M), "float32")
        with T.Kernel(times, threads=32) as i:
            for j in T.Parallel(M):
                B[i, j] = A[j]
        return B

    a = random(5)
    assert np.array_equal(repeated(a, times=3), np.tile(a, (3, 1)))
    assert np.array_equal(repeated(a, times=2), np.tile(a, (2, 1)))
    kernel = repeated.compile(M=5, times=4)
    assert np.array_equal(kernel(a), np.tile(a, (4, 1)))


def test_constants_given_to_what_needs_no_tensors():
    a = random(6, 5)
    kernel = shifted.compile(M=6, N=5)
    assert np.array_equal(kernel(a), a[:3] + 1)
    assert shifted.get_kernel_source(M=6, N=5) == kernel.get_kernel_source()
    program = shifted.get_tir(M=6, N=5, by=3.0)
    assert np.array_equal(tilelang.compile(program, target="cpu")(a), a[:3] + 3)
    both = shifted.par_compile([{"M": 6, "N": 5}, {"M": 4, "N": 5, "by": 2.0}])
    assert np.array_equal(both[1](a[:4]), a[:2] + 2)
    mixed = shifted.compile(a, M=6)
    assert np.array_equal(mixed(a), a[:3] + 1)


def test_constants_given_to_a_tuned_function():
    tuned = tilelang.autotune(shifted, configs=[{"by": 1.0}], warmup=1, rep=1)
    a = random(6, 5)
    assert np.array_equal(tuned(a, M=6, N=5), a[:3] + 1)
    assert np.array_equal(tuned(a, N=5), a[:3] + 1)
    assert np.array_equal(tuned.compile(M=6, N=5)(a), a[:3] + 1)
    assert tuned.get_kernel_source(M=6, N=5, by=1.0) == shifted.get_kernel_source(M=6, N=5)


# ── prim_func(eager_jit=True) ─────────────────────────────────────────────────────────────────────────


def test_a_function_traced_when_it_is_asked_for():
    @T.prim_func(eager_jit=True)
    def add(A, B, by: int = 1):
        M = T.const("M")
        A: T.Tensor((M,), "float32")
        B: T.Tensor((M,), "float32")
        with T.Kernel(T.ceildiv(M, 32), threads=32) as bx:
            for i in T.Parallel(32):
                B[bx * 32 + i] = A[bx * 32 + i] + by

    a = random(40)
    for arguments in ({"M": 40}, {"A": a, "B": a, "by": 2}):
        program = add.get_tir(**arguments)
        b = np.zeros_like(a)
        tilelang.compile(program, target="cpu")(a, b)
        assert np.array_equal(b, a + arguments.get("by", 1))
    assert list(add.signature.parameters) == ["A", "B", "by"] and add.orig_func.__name__ == "add"
