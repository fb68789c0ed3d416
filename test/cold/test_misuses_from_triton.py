"""Mistakes of somebody who comes from Triton or PyTorch: each is an error at the line marked "# here"."""

import textwrap

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from everywhere import refused_here

X = np.random.default_rng(0).standard_normal((40, 64)).astype("f4")

HEAD = """\
import tilelang.language as T

@T.prim_func
def main(A: T.Tensor((40, 64), "float32"), B: T.Tensor((40, 64), "float32")):
    with T.Kernel(40, threads=64) as bx:
        x = T.alloc_fragment((40, 64), "float32")
        s = T.alloc_fragment((40,), "float32")
        a = T.alloc_shared((64, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        T.copy(A, x)
"""
MISTAKES = {
    "arithmetic on whole tiles": ("y = x * 2.0 + 1.0  # here\nT.copy(y, B)", "x", "T.Parallel"),
    "exp of a tile": ("x = T.exp(x)  # here\nT.copy(x, B)", "exp", "T.Parallel"),
    "sum as in Triton": ("y = T.sum(x, axis=1)  # here\nT.copy(y, B)", "sum", "reduce_sum"),
    "axis instead of dim": ("T.reduce_sum(x, s, axis=1)  # here\nT.copy(x, B)", "axis", "dim"),
    "program_id": ("pid = T.program_id(0)  # here\nT.copy(A[pid, :], B[pid, :])", "program_id", "T.Kernel"),
    "gemm as a value": ("T.clear(c)\nc += T.gemm(a, a)  # here", "gemm", "C"),
    "gemm of a transposed view": ("T.clear(c)\nT.gemm(a, a.T, c)  # here", "T", "transpose_B"),
    # Python's last row: either it is that, or it is refused; never another row.
    "negative index": ("for i, j in T.Parallel(40, 64):\n    B[i, j] = A[-41, j]  # here", "-41", "A"),
    "slice with a step": ("T.copy(A[0:40:2, :], B[0:20, :])  # here", "step"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_in_a_kernel(tmp_path, name):
    body, *words = MISTAKES[name]
    refused_here(tmp_path, HEAD + textwrap.indent(body, " " * 8) + "\n", words)


@T.prim_func
def copy_rows(A: T.Tensor((40, 64), "float32"), B: T.Tensor((40, 64), "float32")):
    with T.Kernel(5, threads=64) as bx:
        T.copy(A[bx * 8 : bx * 8 + 8, :], B[bx * 8, 0])


LAUNCHES = {
    "transposed tensor": (
        lambda k: k(np.zeros((64, 40), "f4").T, X.copy()),
        ValueError,
        ["A", "stride", "contiguous"],
    ),
    "float64 array": (lambda k: k(X.astype("f8"), X.copy()), ValueError, ["A", "float32", "float64"]),
    "launch in brackets": (lambda k: k[(5,)](X, X.copy()), TypeError, ["T.Kernel", "grid"]),
}


@pytest.mark.parametrize("name", LAUNCHES)
def test_mistakes_in_a_launch(name):
    launch, kind, words = LAUNCHES[name]
    with pytest.raises(kind) as caught:
        launch(tilelang.compile(copy_rows, target="cpu"))
    for word in words:
        assert word in str(caught.value)
