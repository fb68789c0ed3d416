"""T.reshape and T.view: one storage under several shapes and types, in every executor."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import compiles_for_gpus, failure, kernel, run


def reshape_program(scope):
    @T.prim_func
    def main(
        A: T.Tensor((64, 32), "float32"), B: T.Tensor((2048,), "float32"), C: T.Tensor((8, 8, 32), "float32")
    ):
        with T.Kernel(1, threads=128) as _:
            S = A
            if scope != "global":
                S = (
                    T.alloc_shared((64, 32), "float32")
                    if scope == "shared"
                    else T.alloc_fragment((64, 32), "float32")
                )
                T.copy(A, S)
            R = T.reshape(S, (2048,))
            T.copy(R, B)
            R3 = T.reshape(R, (8, 8, 32))
            for i, j, k in T.Parallel(8, 8, 32):
                R3[i, j, k] = R3[i, j, k] + 1.0
            T.copy(T.reshape(S, (8, 8, 32)), C)

    return main


@pytest.mark.parametrize("scope", ["shared", "fragment", "global"])
def test_shapes_share_their_elements(scope, target):
    a = np.random.default_rng(0).standard_normal((64, 32)).astype("float32")
    before, b, c = a.copy(), np.full(2048, np.nan, "float32"), np.full((8, 8, 32), np.nan, "float32")
    run(reshape_program(scope), target, a, b, c)
    assert np.array_equal(b, before.ravel())
    assert np.array_equal(c.ravel(), before.ravel() + np.float32(1))
    assert np.array_equal(a, before if scope != "global" else before + np.float32(1))


@pytest.mark.parametrize("scope", ["shared", "fragment", "global"])
def test_shapes_compile_for_gpus(scope):
    compiles_for_gpus(reshape_program(scope))


def view_program():
    @T.prim_func
    def main(
        A: T.Tensor((16, 32), "float32"), B: T.Tensor((16, 64), "uint16"), C: T.Tensor((16, 32), "float32")
    ):
        with T.Kernel(1, threads=128) as _:
            S = T.alloc_shared((16, 32), "float32")
            T.copy(A, S)
            V = T.view(S, dtype="uint16")
            T.copy(V, B)
            W = T.view(S, (512,), "int32")
            for i in T.Parallel(512):
                W[i] = W[i] ^ T.int32(-2147483648)
            T.copy(S, C)

    return main


def test_a_view_of_another_type(target):
    a = np.random.default_rng(0).standard_normal((16, 32)).astype("float32")
    b, c = np.zeros((16, 64), "uint16"), np.zeros((16, 32), "float32")
    run(view_program(), target, a, b, c)
    assert np.array_equal(b, a.view("uint16")) and np.array_equal(c, -a)
    compiles_for_gpus(view_program())


def test_a_gemm_reads_and_writes_other_shapes(target):
    @T.prim_func
    def main(
        A: T.Tensor((4096,), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")
    ):
        with T.Kernel(1, threads=128) as _:
            S = T.alloc_shared((4096,), "float16")
            Bs = T.alloc_shared((64, 64), "float16")
            Cl = T.alloc_fragment((64, 64), "float32")
            T.copy(A, S)
            T.copy(B, Bs)
            T.gemm(T.reshape(S, (64, 64)), Bs, Cl, clear_accum=True)
            C3 = T.reshape(Cl, (4, 16, 64))
            for i, j, k in T.Parallel(4, 16, 64):
                C3[i, j, k] = C3[i, j, k] * 2
            T.copy(Cl, C)

    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(4096).astype("float16"), rng.standard_normal((64, 64)).astype("float16")
    c = np.full((64, 64), np.nan, "float32")
    run(main, target, a, b, c)
    want = 2 * (a.reshape(64, 64).astype(np.float64) @ b.astype(np.float64))
    assert np.linalg.norm(c - want) < 1e-5 * np.linalg.norm(want)


def test_a_tensor_of_run_time_extents(target):
    M, N = T.dynamic("M"), T.dynamic("N")

    @T.prim_func
    def main(A: T.Tensor((M, 8), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(M * 8, 64), threads=64) as bx:
            R = T.reshape(A, (M * 8,))
            for i in T.Parallel(64):
                B[bx * 64 + i] = R[bx * 64 + i] * 2

    for m in (1, 7, 33):
        a, b = np.random.default_rng(0).standard_normal((m, 8)).astype("float32"), np.zeros(m * 8, "float32")
        run(main, target, a, b)
        assert np.array_equal(b, a.ravel() * 2)


def test_text(tmp_path):
    text = str(
        kernel(
            tmp_path, "S = T.alloc_shared((64, 8), 'float32')\nV = T.view(S, (1024,), 'float16')\nT.clear(V)"
        )
    )
    assert "V = shared f16[1024] alias(S)" in text


BEFORE = """\
S = T.alloc_shared((64, 8), 'float32')
F = T.alloc_fragment((33, 7), 'float32')
o = T.alloc_reducer((8,), 'float32')
"""
WRONG = {
    "T.reshape(S, (64, 9))": "S: float32[64, 8] takes 16384 bits, but float32[64, 9] takes 18432; they",
    "T.reshape(S[0:8, :], (64,))": "a whole buffer has another shape, not a slice of one",
    "T.view(F, dtype='bool')": "which cannot be viewed as bool: copy it to a shared buffer",
    "T.view(A, dtype='float4_e2m1fn')": "which cannot be viewed as float4_e2m1fn: copy it to a",
    "T.reshape(S, (n, 8))": "the shape of a tile must be constant",
    "T.reshape(o, (2, 4))": "o is a reducer",
    "T.reshape(S, ())": "the new shape has no dimension",
}


@pytest.mark.parametrize("line", WRONG)
def test_errors(tmp_path, line):
    assert WRONG[line] in str(failure(tmp_path, BEFORE + line))


def test_a_fragment_whose_registers_do_not_allow_it():
    @T.prim_func
    def main(A: T.Tensor((33, 100), "float32"), B: T.Tensor((3300,), "float32")):
        with T.Kernel(1, threads=128) as _:
            F = T.alloc_fragment((33, 100), "float32")
            D = T.alloc_fragment((33,), "float32")
            T.copy(A, F)
            T.reduce_sum(F, D, dim=1)
            T.copy(T.reshape(F, (3300,)), B)

    a, b = np.random.default_rng(0).standard_normal((33, 100)).astype("float32"), np.zeros(3300, "float32")
    try:
        run(main, "sim:sm_80", a, b)
    except tilelang.CompileError as e:
        assert "copy it to a shared buffer and reshape that" in str(e)
    else:
        assert np.array_equal(b, a.ravel())
