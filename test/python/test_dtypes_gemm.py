"""T.gemm on 8-bit integers and floats, 4-bit integers and tf32, in every executor."""

import linecache
import os
import re
import warnings

import gemm_int4
import ml_dtypes
import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import in_turn

TARGETS = ["cpu", "cpu -mcpu=haswell", "reference", "sim:sm_80", "sim:sm_89", "sim:sm_90"]
SHAPES = [((64, 64, 64), (64, 64, 32)), ((50, 72, 80), (32, 48, 16)), ((33, 40, 24), (16, 24, 8))]
NUMBERS = {"float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2,
           "bfloat16": ml_dtypes.bfloat16, "tfloat32": np.float32}  # fmt: skip


def gemm(M, N, K, tile, a_dtype, b_dtype, trans_A, trans_B, fragment=False):
    block_M, block_N, block_K = tile
    acc = "int32" if "int" in a_dtype else "float32"
    a_tile, b_tile = (block_K, block_M)[:: 1 if trans_A else -1], (block_N, block_K)[:: 1 if trans_B else -1]

    @T.prim_func
    def main(
        A: T.Tensor((K, M) if trans_A else (M, K), a_dtype),
        B: T.Tensor((N, K) if trans_B else (K, N), b_dtype),
        C: T.Tensor((M, N), acc),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=64) as (bx, by):
            As = T.alloc_shared(a_tile, a_dtype)
            Af = T.alloc_fragment(a_tile, a_dtype)
            Bs = T.alloc_shared(b_tile, b_dtype)
            Cl = T.alloc_fragment((block_M, block_N), acc)
            T.clear(Cl)
            for k in T.serial(T.ceildiv(K, block_K)):
                if trans_A:
                    T.copy(A[k * block_K, by * block_M], As)
                else:
                    T.copy(A[by * block_M, k * block_K], As)
                if trans_B:
                    T.copy(B[bx * block_N, k * block_K], Bs)
                else:
                    T.copy(B[k * block_K, bx * block_N], Bs)
                if fragment:
                    T.copy(As, Af)
                    T.gemm(Af, Bs, Cl, transpose_A=trans_A, transpose_B=trans_B)
                else:
                    T.gemm(As, Bs, Cl, transpose_A=trans_A, transpose_B=trans_B)
            T.copy(Cl, C[by * block_M, bx * block_N])

    return main


def operand(rng, shape, dtype):
    """What is passed, and the numbers that are multiplied."""
    if dtype in ("int4", "uint4"):
        values = rng.integers(0, 16, shape).astype(np.uint8) - (8 if dtype == "int4" else 0)
        codes = (values & 15).astype(np.uint8)
        return codes[:, 0::2] | codes[:, 1::2] << 4, values.astype(np.int8).astype(np.float64)
    if "int" in dtype:
        info = np.iinfo(dtype)
        values = rng.integers(info.min, info.max + 1, shape).astype(dtype)
        return values, values.astype(np.float64)
    values = rng.standard_normal(shape).astype(NUMBERS[dtype])
    if dtype == "tfloat32":  # the last 13 bits are rounded off, halves away from zero
        return values, ((values.view(np.uint32) + 0x1000) & 0xFFFFE000).view(np.float32).astype(np.float64)
    return values, values.astype(np.float64)


def check(a_dtype, b_dtype, trans_A, trans_B, targets=TARGETS, fragment=False, shapes=SHAPES):
    """Each target multiplies one of several shapes; with TL_FULL=1 all of them."""
    rng = np.random.default_rng(0)
    for turn, ((M, N, K), tile) in enumerate(shapes, trans_A + trans_B):
        if "int4" in a_dtype and (M % 2 or N % 2 or K % 2 or tile[2] % 16):
            continue
        kernel = gemm(M, N, K, tile, a_dtype, b_dtype, trans_A, trans_B, fragment)
        a, a64 = operand(rng, (K, M) if trans_A else (M, K), a_dtype)
        b, b64 = operand(rng, (N, K) if trans_B else (K, N), b_dtype)
        exact = (a64.T if trans_A else a64) @ (b64.T if trans_B else b64)
        alone = len(shapes) == 1 or "int4" in a_dtype or "TL_FULL" in os.environ
        for target in targets if alone else targets[turn % 3 :: 3]:
            c = np.full((M, N), -12345, np.int32) if "int" in a_dtype else np.full((M, N), np.nan, np.float32)
            tilelang.compile(kernel, target=target)(a, b, c)
            if "int" in a_dtype:
                assert np.array_equal(c, exact), (target, M, N, K)
            else:
                assert np.linalg.norm(c - exact) < 1e-6 * np.linalg.norm(exact), (target, M, N, K)
        for target in in_turn(["cuda -arch=sm_80", "cuda -arch=sm_89", "cuda -arch=sm_90"], turn):
            tilelang.compile(kernel, target=target)


@pytest.mark.parametrize("trans_A", [False, True])
@pytest.mark.parametrize("trans_B", [False, True])
@pytest.mark.parametrize("types", [("int8", "int8"), ("uint8", "int8"), ("int8", "uint8"),
                                   ("uint8", "uint8")])  # fmt: skip
def test_int8(types, trans_A, trans_B):
    check(*types, trans_A, trans_B)


@pytest.mark.parametrize("trans_A", [False, True])
@pytest.mark.parametrize("trans_B", [False, True])
@pytest.mark.parametrize("types", [("float8_e4m3fn", "float8_e4m3fn"), ("float8_e5m2", "float8_e4m3fn"),
                                   ("tfloat32", "tfloat32"), ("bfloat16", "bfloat16")])  # fmt: skip
def test_floats(types, trans_A, trans_B):
    check(*types, trans_A, trans_B)


@pytest.mark.parametrize("trans_B", [False, True])
@pytest.mark.parametrize("types", [("int4", "int4"), ("uint4", "int4")])
def test_int4(types, trans_B):
    check(*types, False, trans_B)


@pytest.mark.parametrize("dtype", ["tfloat32", "float8_e4m3fn", "int8"])
def test_a_in_registers(dtype):
    check(dtype, dtype, False, True, fragment=True, shapes=SHAPES[:1])


INSTRUCTIONS = [("int8", "sm_80", "mma_m16n8k32_s8_s32"), ("tfloat32", "sm_80", "mma_m16n8k8_tf32_f32"),
                ("float8_e4m3fn", "sm_89", "mma_m16n8k32_e4m3_f32"),
                ("float8_e4m3fn", "sm_90", "mma_m16n8k16_f16_f32"),  # the chip would emulate it
                ("int4", "sm_80", "mma_m16n8k32_s8_s32")]  # fmt: skip


@pytest.mark.parametrize("dtype,chip,instruction", INSTRUCTIONS)
def test_the_report_names_the_instruction(dtype, chip, instruction):
    main = gemm(64, 64, 64, (64, 64, 32), dtype, dtype, False, True)
    kernel = tilelang.compile(main, target=f"cuda -arch={chip}")
    assert instruction in str(kernel.explain())
    assert instruction in kernel.get_kernel_source()


def test_f32_stays_f32():
    kernel = tilelang.compile(
        gemm(64, 64, 64, (64, 64, 32), "float32", "float32", False, True), target="cuda -arch=sm_80"
    )
    assert "mma" not in kernel.get_kernel_source()


def test_dots_are_chosen_by_the_chip():
    for dtype, name in [("int8", "vpdpbusd"), ("bfloat16", "dpbf16ps")]:
        main = gemm(64, 64, 64, (64, 64, 32), dtype, dtype, False, False)
        assert name in tilelang.compile(main, target="cpu -mcpu=cooperlake").get_kernel_source()
        assert name not in tilelang.compile(main, target="cpu -mcpu=skylake-avx512").get_kernel_source()


def test_int4_tiles_with_fewer_pairs_than_threads(target):
    """A byte is stored by one thread, also where there is a thread for each element."""
    a, a64 = operand(np.random.default_rng(0), (40, 100), "int4")
    b, b64 = operand(np.random.default_rng(1), (20, 100), "int4")
    c = np.full((40, 20), -12345, np.int32)
    tilelang.compile(gemm_int4.gemm_int4.get_tir(40, 20, 100, 48, 8, 16, 256), target=target)(a, b, c)
    assert np.array_equal(c, a64 @ b64.T)


@pytest.mark.parametrize("target", ["reference", "cpu", "sim:sm_80", "sim:sm_90a"])
@pytest.mark.parametrize("dtype, sums, said", [
    ("int8", "int8", "c is i8, and sums of products of i8 wrap in it; accumulate in i32"),
    ("int16", "int16", "c is i16, and sums of products of i16 wrap in it; accumulate in i32"),
    ("int8", "int16", ""), ("int8", "int32", ""), ("int32", "int32", ""),
])  # fmt: skip
def test_sums_that_hold_no_product(dtype, sums, said, target):
    """They wrap, as integers do, and the compiler warns of it."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), dtype), C: T.Tensor((64, 64), sums)):
        with T.Kernel(1, threads=128):
            a, c = T.alloc_shared((64, 64), dtype), T.alloc_fragment((64, 64), sums)
            T.copy(A, a)
            T.clear(c)
            T.gemm(a, a, c)
            T.copy(c, C)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernel = tilelang.compile(main, target=target)
    told = [w for w in caught if "wrap in it" in str(w.message)]
    assert len(told) == bool(said and target != "reference") and all(said in str(w.message) for w in told)
    for w in told:
        line = int(re.search(r"gemm on line (\d+): ", str(w.message))[1])
        assert "T.gemm(a, a, c)" in linecache.getline(__file__, line)
    a = np.random.default_rng(0).integers(-100, 100, (64, 64)).astype(dtype)
    c = np.zeros((64, 64), sums)
    kernel(a, c)
    assert np.array_equal(c, (a.astype(np.int64) @ a.astype(np.int64)).astype(sums))
