"""Forms that kernels written elsewhere rely on, each as small as it can be."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import random

GPUS = ["sim:sm_80", "sim:sm_90"]
gpus = pytest.mark.parametrize("target", GPUS)


# ── what stands above a prim_func, what a kernel tells ────────────────────────────────────────────────
def test_jit_above_a_prim_func_compiles_it(target):
    @tilelang.jit(out_idx=-1, target=target)
    @T.prim_func
    def double(A: T.Tensor((50,), "float32"), B: T.Tensor((50,), "float32")):
        with T.Kernel(T.ceildiv(50, 32), threads=32) as bx:
            for i in T.Parallel(32):
                if bx * 32 + i < 50:
                    B[bx * 32 + i] = A[bx * 32 + i] * 2.0

    a = random(50)
    assert np.array_equal(double(a), a * 2)
    assert [p.name for p in double.prim_func.params] == ["A", "B"] and double.out_idx == [1]
    assert "def double" in double.prim_func.script() or "double" in str(double.prim_func)


def test_a_dtype_by_tvms_name():
    assert T.DataType("bfloat16").bits == 16 and T.DataType(T.float32).bytes == 4


# ── each thread's own number in a fragment of one element ─────────────────────────────────────────────
@gpus
@pytest.mark.parametrize("clear", ["clear", "fill", "store"])
def test_threads_keep_numbers_of_their_own_in_a_fragment(target, clear):
    """However the fragment begins, and whatever tile operator has touched it."""

    @tilelang.jit(out_idx=[-1], target=target)
    def dots(R, C):
        @T.prim_func
        def main(W: T.Tensor((R, C), "float32"), x: T.Tensor((C,), "float32"), y: T.Tensor((R,), "float32")):
            with T.Kernel(R, threads=32) as r:
                lane = T.get_thread_binding(0)
                acc = T.alloc_fragment((1,), "float32")
                half = T.alloc_fragment((1,), "float32")
                if clear == "clear":
                    T.clear(acc)
                    T.clear(half)
                elif clear == "fill":
                    T.fill(acc, 0)
                    T.fill(half, 0)
                else:
                    acc[0] = T.float32(0)
                for k in T.serial(C // 32):
                    acc[0] += W[r, lane * (C // 32) + k] * x[lane * (C // 32) + k]
                half[0] = acc[0] / 2
                total = T.warp_reduce_sum(half[0])
                if lane == 0:
                    y[r] = total * 2

        return main

    w, x = random(5, 96), random(96, seed=1)
    assert np.allclose(dots(5, 96)(w, x), w @ x, atol=1e-5)


def test_a_threads_own_number_in_an_accumulator_is_refused():
    @T.prim_func
    def main(A: T.Tensor((16, 16), "float16"), C: T.Tensor((16, 16), "float32")):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((16, 16), "float16")
            acc = T.alloc_fragment((16, 16), "float32")
            T.copy(A, S)
            T.gemm(S, S, acc, clear_accum=True)
            acc[0, 0] = acc[0, 0] + T.cast(T.get_thread_binding(), "float32")
            T.copy(acc, C)

    with pytest.raises(tilelang.CompileError, match="each thread may store a different value here"):
        tilelang.compile(main, target="sim:sm_80")


# ── extents that tell a number in a sum ───────────────────────────────────────────────────────────────
def test_an_extent_of_a_sum_tells_its_number(target):
    sequences, tokens = T.dynamic("sequences, tokens")

    @T.prim_func
    def lengths(
        starts: T.Tensor((sequences + 1,), "int32"),
        pairs: T.Tensor((2 * tokens,), "int32"),
        out: T.Tensor((sequences,), "int32"),
        halves: T.Tensor((tokens,), "int32"),
    ):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(sequences):
                out[i] = starts[i + 1] - starts[i]
            for i in T.Parallel(tokens):
                halves[i] = pairs[2 * i]

    kernel = tilelang.compile(lengths, target=target, out_idx=[2, 3])
    for n, m in [(1, 3), (5, 0), (40, 70)]:
        starts = np.arange(n + 1, dtype="int32") ** 2
        pairs = np.arange(2 * m, dtype="int32")
        out, halves = kernel(starts, pairs)
        assert np.array_equal(out, np.diff(starts)) and np.array_equal(halves, pairs[::2])
    with pytest.raises(ValueError, match="pairs"):
        kernel(np.zeros(3, "int32"), np.zeros(5, "int32"))
    with pytest.raises(ValueError, match="starts"):
        kernel(np.zeros(0, "int32"), np.zeros(4, "int32"))


def test_a_tensor_without_dimensions_is_one_number(target):
    n = T.dynamic("n")

    @T.prim_func
    def scaled(
        A: T.Tensor((n,), "float32"),
        s: T.Tensor((), "float32"),
        B: T.Tensor((n,), "float32"),
        last: T.Tensor((), "float32"),
    ):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] * s[()]
            last[()] = s[()] + 1.0

    a = random(37)
    b, last = tilelang.compile(scaled, target=target, out_idx=[2, 3])(a, np.array(3.0, "float32"))
    assert np.array_equal(b, a * 3) and last.shape == () and last == 4
    with pytest.raises(ValueError, match="'s'"):
        tilelang.compile(scaled, target=target, out_idx=[2, 3])(a, np.ones(1, "float32"))


def test_an_extent_of_two_unknown_numbers_tells_neither():
    n, m = T.dynamic("n, m")
    with pytest.raises(tilelang.CompileError, match="known when the function is called only if"):

        @T.prim_func
        def main(A: T.Tensor((n + m,), "int32")):
            with T.Kernel(1, threads=32):
                A[n] = m


# ── names that a branch binds which is not there ──────────────────────────────────────────────────────
@pytest.mark.parametrize("circular", [True, False])
def test_a_branch_that_python_leaves_out_changes_no_name(target, circular):
    @tilelang.jit(out_idx=[-1], target=target)
    def shifted(n, circular):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
            with T.Kernel(1, threads=32):
                if circular:  # noqa: SIM108
                    at = T.alloc_var("int32", init=3)
                else:
                    at = 0
                for i in T.serial(n):
                    if not circular:
                        B[i] = A[i + at]
                    else:
                        B[i] = A[at]
                        at = (at + 1) % n

        return main

    a = random(10)
    assert np.array_equal(shifted(10, circular)(a), np.roll(a, -3) if circular else a)


def test_a_branch_that_is_there_still_may_not_change_a_name():
    with pytest.raises(tilelang.CompileError, match="'at' changes from one iteration to the next"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1, threads=32):
                at = 0
                for _ in T.serial(8):
                    if True:
                        A[at] = 1.0
                        at = at + 1
