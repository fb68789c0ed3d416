"""Mistakes of somebody who comes from CUDA C++ or from NumPy and Numba, and what is said about them."""

import re
from pathlib import Path

import numpy as np
import pytest
import tilelang
import tilelang.language as T

HERE = Path(__file__)
Vector = T.Tensor((64,), "float32")
x, y = np.arange(64, dtype="f4"), np.full(64, np.nan, "f4")


def refused(mark, words, action, exception=tilelang.CompileError):
    """The action raises the exception, at the line with `# mark` (if any), with the words."""
    with pytest.raises(exception) as caught:
        action()
    text = str(caught.value)
    if mark:
        line = next(i for i, s in enumerate(HERE.read_text().splitlines(), 1) if s.endswith(f"# {mark}"))
        assert re.search(rf"{HERE.name}:{line}:", text), text
    for word in words:
        assert re.search(word, text), (word, text)


def test_memcpy_with_a_count():
    def build():
        @T.prim_func
        def main(A: Vector, B: Vector):
            with T.Kernel(1, threads=64):
                S = T.alloc_shared((64,), "float32")
                T.copy(S, A, 64)  # memcpy
                T.copy(S, B)

    refused("memcpy", ["copy", r"positional|arguments"], build)


def test_atomic_add_as_numba_has_it():
    def build():
        @T.prim_func
        def main(A: T.Tensor((64,), "int32"), counts: T.Tensor((10,), "int32")):
            with T.Kernel(1, threads=64):
                for i in T.Parallel(64):
                    T.atomic_add(counts, A[i], 1)  # numba

        tilelang.compile(main, target="cpu")

    refused("numba", ["atomic_add", r"memory_order|counts\[|element"], build)


def test_whole_arrays_as_in_numpy():
    """Of one dimension: each thread computes all elements, as it would by a loop over them."""

    @T.prim_func
    def main(A: Vector, B: Vector):
        with T.Kernel(1, threads=64):
            B[0:64] = A[0:64] * 2 + 1

    kernel = tilelang.compile(main, target="cpu")
    kernel(x, y)
    assert np.array_equal(y, x * 2 + 1)


def test_a_function_of_numpy():
    def build():
        @T.prim_func
        def main(A: Vector, B: Vector):
            with T.Kernel(1, threads=64):
                for i in T.Parallel(64):
                    B[i] = np.sqrt(A[i])  # root

    refused("root", ["sqrt", r"T\.sqrt"], build)


def test_a_mask_as_index():
    def build():
        @T.prim_func
        def main(A: Vector, B: Vector):
            with T.Kernel(1, threads=64):
                S = T.alloc_fragment((64,), "float32")
                T.copy(A, S)
                S[S > 0.5] = 1.0  # mask
                T.copy(S, B)

    refused("mask", [r"\bS\b", r"T\.Parallel|element|index"], build)


def test_division_of_integers_as_in_c():
    def build():
        @T.prim_func
        def main(A: Vector, B: Vector):
            with T.Kernel(1, threads=64):
                for i in T.Parallel(64):
                    B[i] = A[i / 2]  # half

    refused("half", ["//"], build)


def test_the_last_element_as_minus_one():
    @T.prim_func
    def main(A: Vector, B: Vector):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                B[i] = A[-1]

    kernel, out = tilelang.compile(main, target="cpu"), y.copy()
    kernel(x, out)
    assert (out == x[-1]).all(), out


def test_a_cast_by_a_builtin():
    def build():
        @T.prim_func
        def main(A: Vector, B: T.Tensor((64,), "int32")):
            with T.Kernel(1, threads=64):
                for i in T.Parallel(64):
                    B[i] = int(A[i] + 0.5)  # builtin

        return main

    for target in ("cpu", "sim:sm_90", "reference"):  # it is taken, and means what it says
        out = np.zeros(64, "i4")
        tilelang.compile(build(), target=target)(x, out)
        assert np.array_equal(out, x.astype("i4"))


def test_a_launch_in_brackets():
    @T.prim_func
    def main(A: Vector, B: Vector):
        with T.Kernel(1, threads=64):
            T.copy(A, B)

    kernel = tilelang.compile(main, target="cpu")
    refused(None, ["grid", r"T\.Kernel", "plainly"], lambda: kernel[1, 64](x, y), TypeError)


def test_a_transposed_view():
    @T.prim_func
    def main(A: T.Tensor((8, 16), "float32"), B: T.Tensor((8, 16), "float32")):
        with T.Kernel(1, threads=64):
            T.copy(A, B)

    kernel = tilelang.compile(main, target="cpu")
    view = np.zeros((16, 8), "f4").T
    refused(
        None,
        [r"\bA\b", r"stride|contiguous", r"T\.StridedTensor|contiguous|copy"],
        lambda: kernel(view, np.zeros((8, 16), "f4")),
        ValueError,
    )


def test_an_array_of_float64():
    @T.prim_func
    def main(A: Vector, B: Vector):
        with T.Kernel(1, threads=64):
            T.copy(A, B)

    kernel = tilelang.compile(main, target="cpu")
    refused(None, [r"\bA\b", "float64|f64", "float32|f32"], lambda: kernel(np.zeros(64), y), ValueError)


def test_an_index_of_cuda():
    def build():
        @T.prim_func
        def main(A: Vector, B: Vector):
            with T.Kernel(1, threads=64):
                tx = threadIdx.x  # noqa: F821 # cuda
                B[tx] = A[tx]

    with pytest.raises((tilelang.CompileError, NameError), match="threadIdx.*T.get_thread_b") as caught:
        build()
    assert any("threadIdx.x" in str(entry.statement) for entry in caught.traceback)


def test_a_dim3_of_blocks():
    def build():
        @T.prim_func
        def main(A: Vector, B: Vector):
            with T.Kernel((4, 4), threads=64) as (bx, by):  # dim3
                B[bx * 4 + by] = A[bx * 4 + by]

    refused("dim3", ["Kernel", r"blocks|extent|integer"], build)


def test_a_shape_behind_the_dtype():
    def build():
        @T.prim_func
        def main(A: Vector, B: Vector):
            with T.Kernel(1, threads=64):
                S = T.alloc_shared("float32", (64,))  # order
                T.copy(A, S)
                T.copy(S, B)

    refused("order", ["alloc_shared", "shape"], build)
