"""Tiles whose dtype the first tile operator decides, and bare tensors."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import failure, kernel

SIGNATURE = ", ".join(
    f"{name}: T.Tensor((64, 64), '{dtype}')"
    for name, dtype in (("A", "float16"), ("I", "int8"), ("F", "float64"))
)
DECIDED = {
    "two integers are a shape": ("X = T.alloc_shared(32, 16)\nT.copy(A[0, 0], X)", "shared f16[32, 16]"),
    "a tuple without a dtype": ("X = T.alloc_shared((32, 16))\nT.copy(I[0, 0], X)", "shared i8[32, 16]"),
    "one dimension": ("X = T.alloc_shared(32)\nT.copy(A[0, 0:32], X)", "shared f16[32]"),
    "the other side of a copy": ("X = T.alloc_shared(32, 16)\nT.copy(X, F[0, 0])", "shared f64[32, 16]"),
    "cleared before": ("X = T.alloc_shared(32, 16)\nT.clear(X)\nT.copy(A[0, 0], X)", "shared f16[32, 16]"),
    "filled before": ("X = T.alloc_shared(32, 16)\nT.fill(X, 3)\nT.copy(I[0, 0], X)", "shared i8[32, 16]"),
    "filled with a value": (
        "X = T.alloc_fragment(32, 16)\nT.fill(X, -T.infinity('float32'))",
        "fragment f32[32, 16]",
    ),
    "accumulator": (
        "P = T.alloc_shared(32, 32)\nX = T.alloc_fragment(32, 32)\nT.clear(X)\nT.copy(A[0, 0], P)\n"
        "T.gemm(P, P, X)",
        "fragment f32[32, 32]",
    ),
    "accumulator of integers": (
        "P = T.alloc_shared(32, 32)\nX = T.alloc_fragment(32, 32)\nT.copy(I[0, 0], P)\nT.gemm(P, P, X)",
        "fragment i32[32, 32]",
    ),
    "the other operand": (
        "P = T.alloc_shared((32, 32), 'float16')\nX = T.alloc_shared(32, 32)\nC = T.alloc_fragment(32, 32)\n"
        "T.gemm(P, X, C)",
        "shared f16[32, 32]",
    ),
    "copied while open": (
        "Y = T.alloc_shared(32, 32)\nX = T.alloc_fragment(32, 32)\nT.clear(Y)\nT.copy(Y, X)\n"
        "T.copy(A[0, 0], Y)",
        "fragment f16[32, 32]",
    ),
    "updated atomically": (
        "X = T.alloc_shared(32, 16)\nT.clear(X)\nT.atomic_add(X, F[0:32, 0:16])",
        "shared f64[32, 16]",
    ),
    "what atomically updates": (
        "X = T.alloc_fragment(32, 16)\nT.clear(X)\nT.atomic_add(A[0, 0], X)",
        "fragment f16[32, 16]",
    ),
    "reduced": (
        "P = T.alloc_fragment((32, 16), 'float32')\nX = T.alloc_fragment(32)\nT.reduce_sum(P, X, dim=1)",
        "fragment f32[32]",
    ),
}


@pytest.mark.parametrize("name", DECIDED)
def test_decided(tmp_path, name):
    body, wanted = DECIDED[name]
    text = kernel(tmp_path, body, signature=SIGNATURE).text
    assert f"X = {wanted}" in text, text


OPEN = {
    "never decided": ("X = T.alloc_shared(32, 16)\nT.clear(X)", 1, "nothing says which dtype X has"),
    "read": (
        "X = T.alloc_shared(32, 16)\ny = X[0, 0] + 1",
        2,
        "reading an element of X, whose dtype is not known",
    ),
    "stored to": (
        "X = T.alloc_shared(32, 16)\nX[0, 0] = 1.0",
        2,
        "a store to an element of X, whose dtype is not",
    ),
    "cleared, then asked for": ("X = T.alloc_shared(32, 16)\nT.clear(X)\ny = X.dtype", 3, "T.clear, and"),
    "cleared, then read": ("X = T.alloc_shared(32, 16)\nT.clear(X)\ny = X[0, 0] + 1", 3, "T.clear, and"),
    "asked for": ("X = T.alloc_shared(32, 16)\ny = X.dtype", 2, "the dtype of X is open"),
    "two open operands": (
        "X = T.alloc_shared(32, 32)\nC = T.alloc_fragment(32, 32)\nT.gemm(X, X, C)",
        3,
        "the dtype of X is not",
    ),
    "reduced while open": (
        "X = T.alloc_fragment(32, 32)\nY = T.alloc_fragment(32)\nT.reduce_sum(X, Y)",
        3,
        "of X and Y is not",
    ),
}


@pytest.mark.parametrize("name", OPEN)
def test_open(tmp_path, name):
    body, line, words = OPEN[name]
    error = failure(tmp_path, body, signature=SIGNATURE)
    assert words in error.text and error.line == line + 4, error


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_softmax_of_rows(target, dtype):
    @tilelang.jit(target=target)
    def softmax(A: T.Tensor, B: T.Tensor):
        M, N = A.shape
        with T.Kernel(M, threads=64) as row:
            x = T.alloc_fragment(1, N)
            top = T.alloc_fragment(1)
            total = T.alloc_fragment(1)
            T.copy(A[row, 0], x)
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(1, N):
                x[i, j] = T.exp(x[i, j] - top[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(1, N):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, B[row, 0])

    for shape in [(3, 40), (1, 7), (5, 64)]:
        a = np.random.default_rng(0).standard_normal(shape).astype(dtype)
        b = np.full(shape, np.nan, dtype)
        softmax(a, b)
        e = np.exp(a.astype("float64") - a.max(1, keepdims=True))
        wanted = e / e.sum(1, keepdims=True)
        assert np.linalg.norm(b - wanted) < {"float16": 3e-3, "float32": 1e-5, "float64": 1e-12}[dtype]


def test_double_precision_is_not_lost_while_open():
    @tilelang.jit(target="cpu")
    def fill(A: T.Tensor):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment(8)
            T.fill(x, 0.1)
            T.copy(x, A)

    a = np.zeros(8)
    fill(a)
    assert a[0] == 0.1
    b = np.zeros(8, np.float16)
    fill(b)
    assert b[0] == np.float16(0.1)
