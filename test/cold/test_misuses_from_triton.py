"""Mistakes of somebody who comes from Triton or PyTorch: each is an error at the line marked "# here"."""

import inspect
import re

import numpy as np
import pytest
import tilelang
import tilelang.language as T

X = np.random.default_rng(0).standard_normal((40, 64)).astype("f4")


def expect(build, exception, *words, use=None):
    """`build` makes a kernel, and `use` calls it: the error stands at the marked line of build."""
    lines, first = inspect.getsourcelines(build)
    marked = [first + i for i, line in enumerate(lines) if line.rstrip().endswith("# here")]
    with pytest.raises(exception) as caught:
        kernel = tilelang.compile(build(), target="cpu")
        (use or (lambda k: k(X, np.full_like(X, np.nan))))(kernel)
    text = str(caught.value)
    if marked:
        place = re.search(r"\.py:(\d+)", text)
        assert place and int(place.group(1)) == marked[0], f"not at line {marked[0]}: {text}"
    for word in words:
        assert word in text, f"{word!r} is not in: {text}"
    assert "internal" not in text.lower()


def test_arithmetic_on_whole_tiles():
    def build():
        @T.prim_func
        def main(A: T.Tensor((40, 64), "float32"), B: T.Tensor((40, 64), "float32")):
            with T.Kernel(1, threads=64):
                x = T.alloc_fragment((40, 64), "float32")
                T.copy(A, x)
                y = x * 2.0 + 1.0  # here
                T.copy(y, B)
        return main

    expect(build, tilelang.CompileError, "x", "T.Parallel")


def test_exp_of_a_tile():
    def build():
        @T.prim_func
        def main(A: T.Tensor((40, 64), "float32"), B: T.Tensor((40, 64), "float32")):
            with T.Kernel(1, threads=64):
                x = T.alloc_fragment((40, 64), "float32")
                T.copy(A, x)
                x = T.exp(x)  # here
                T.copy(x, B)
        return main

    expect(build, tilelang.CompileError, "exp", "T.Parallel")


def test_sum_as_in_triton():
    def build():
        @T.prim_func
        def main(A: T.Tensor((40, 64), "float32"), B: T.Tensor((40, 64), "float32")):
            with T.Kernel(1, threads=64):
                x = T.alloc_fragment((40, 64), "float32")
                T.copy(A, x)
                y = T.sum(x, axis=1)  # here
                T.copy(y, B)
        return main

    expect(build, (tilelang.CompileError, AttributeError), "sum", "reduce_sum")


def test_axis_instead_of_dim():
    def build():
        @T.prim_func
        def main(A: T.Tensor((40, 64), "float32"), B: T.Tensor((40, 64), "float32")):
            with T.Kernel(1, threads=64):
                x = T.alloc_fragment((40, 64), "float32")
                s = T.alloc_fragment((40,), "float32")
                T.copy(A, x)
                T.reduce_sum(x, s, axis=1)  # here
                T.copy(x, B)
        return main

    expect(build, (tilelang.CompileError, TypeError), "axis", "dim")


def test_program_id():
    def build():
        @T.prim_func
        def main(A: T.Tensor((40, 64), "float32"), B: T.Tensor((40, 64), "float32")):
            with T.Kernel(40, threads=64):
                pid = T.program_id(0)  # here
                T.copy(A[pid, :], B[pid, :])
        return main

    expect(build, (tilelang.CompileError, AttributeError), "program_id", "T.Kernel")


def copy_kernel():
    @T.prim_func
    def main(A: T.Tensor((40, 64), "float32"), B: T.Tensor((40, 64), "float32")):
        with T.Kernel(5, threads=64) as bx:
            T.copy(A[bx * 8 : bx * 8 + 8, :], B[bx * 8, 0])
    return main


def test_transposed_tensor():
    a, b = np.zeros((64, 40), "f4").T, np.zeros((40, 64), "f4")
    expect(copy_kernel, ValueError, "A", "stride", "contiguous", use=lambda k: k(a, b))


def test_float64_array():
    a = np.random.default_rng(0).standard_normal((40, 64))
    expect(copy_kernel, ValueError, "A", "float32", "float64", use=lambda k: k(a, X.copy()))


def test_gemm_as_a_value():
    def build():
        @T.prim_func
        def main(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
            with T.Kernel(1, threads=128):
                a = T.alloc_shared((64, 64), "float16")
                acc = T.alloc_fragment((64, 64), "float32")
                T.clear(acc)
                T.copy(A, a)
                acc += T.gemm(a, a)  # here
                T.copy(acc, C)
        return main

    expect(build, (tilelang.CompileError, TypeError), "gemm", "C")


def test_gemm_of_a_transposed_view():
    def build():
        @T.prim_func
        def main(A: T.Tensor((64, 32), "float16"), C: T.Tensor((64, 64), "float32")):
            with T.Kernel(1, threads=128):
                a = T.alloc_shared((64, 32), "float16")
                acc = T.alloc_fragment((64, 64), "float32")
                T.copy(A, a)
                T.clear(acc)
                T.gemm(a, a.T, acc)  # here
                T.copy(acc, C)
        return main

    expect(build, (tilelang.CompileError, AttributeError), "T", "transpose_B")


def test_launch_in_brackets():
    expect(copy_kernel, TypeError, "T.Kernel", "grid", use=lambda k: k[(5,)](X, X.copy()))


def test_negative_index():
    """Python's last row: either it is that, or it is refused; never another row."""

    def build():
        @T.prim_func
        def main(A: T.Tensor((40, 64), "float32"), B: T.Tensor((40, 64), "float32")):
            with T.Kernel(1, threads=64):
                for i, j in T.Parallel(40, 64):
                    B[i, j] = A[-1, j]  # here
        return main

    expect(build, tilelang.CompileError, "-1", "A")


def test_slice_with_a_step():
    def build():
        @T.prim_func
        def main(A: T.Tensor((40, 64), "float32"), B: T.Tensor((40, 64), "float32")):
            with T.Kernel(1, threads=64):
                T.copy(A[0:40:2, :], B[0:20, :])  # here
        return main

    expect(build, tilelang.CompileError, "step")
