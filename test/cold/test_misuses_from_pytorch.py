"""Mistakes of somebody who comes from PyTorch and JAX: each is an error at the line marked "# here"."""

import textwrap

import numpy as np
import pytest
import tilelang
from everywhere import refused_here

HEAD = """\
import math
import numpy as np
import tilelang.language as T

@T.prim_func
def main(X: T.Tensor((32, 64), "float32"), H: T.Tensor((32, 64), "float16"),
         Y: T.Tensor((32, 64), "float32")):
    with T.Kernel(1, threads=128) as bx:
        x = T.alloc_fragment((32, 64), "float32")
        row = T.alloc_fragment((32,), "float32")
        a = T.alloc_shared((32, 64), "float16")
        b = T.alloc_shared((32, 64), "bfloat16")
        c = T.alloc_fragment((32, 32), "float32")
        T.copy(X, x)
        T.copy(H, a)
"""
MISTAKES = {
    "a function of math": (
        "for i, j in T.Parallel(32, 64):\n    Y[i, j] = math.exp(X[i, j])  # here",
        "T.exp",
    ),
    "np.where": (
        "for i, j in T.Parallel(32, 64):\n    Y[i, j] = np.where(X[i, j] > 0, X[i, j], 0)  # here",
        "T.if_then_else",
    ),
    "a row is broadcast by its name": (
        "for i, j in T.Parallel(32, 64):\n    x[i, j] = x[i, j] - row  # here",
        r"row\[i\]",
    ),
    "a reduction gives its result": ("row = T.reduce_sum(x, dim=1)  # here", "out"),
    "a dimension that is not there": ("T.reduce_sum(x, row, dim=-3)  # here", "dim is -3", r"\[-2, 2\)"),
    "rows are summed along the wrong dimension": ("T.reduce_sum(x, row, dim=0)  # here", "dim 0", r"\[64\]"),
    "weights lie as nn.Linear has them": ("T.gemm(a, a, c, clear_accum=True)  # here", "transpose_B=True"),
    "operands of two types": ("T.gemm(a, b, c, transpose_B=True)  # here", "float16", "bfloat16"),
    "a tensor is multiplied as it is": (
        "T.gemm(H, H, c, transpose_B=True, clear_accum=True)  # here",
        "H",
        "copy",
    ),
    "the operator for matrices": ("c += a @ a  # here", "T.gemm"),
    "integers divided by a slash": ("for i in T.Parallel(32):\n    row[i] = i / 2  # here", "//", "cast"),
    "sums in one T.Parallel": (
        "T.clear(row)\nfor i, j in T.Parallel(32, 64):\n    row[i] += x[i, j]  # here",
        "T.reduce_sum",
        "T.alloc_reducer",
    ),
    "a reducer is not finalised": (
        "r = T.alloc_reducer((64,), 'float32')\nT.clear(r)\nfor i, j in T.Parallel(32, 64):\n"
        "    r[j] += x[i, j]\nT.copy(r, Y[0, :])  # here",
        r"T\.finalize_reducer\(r\)",
    ),
    "a sum in a reducer of maxima": (
        "r = T.alloc_reducer((64,), 'float32', op='max')\nT.reducer_init(r)\n"
        "for i, j in T.Parallel(32, 64):\n    r[j] += x[i, j]  # here",
        "T.max",
    ),
    "a number that a loop changes": (
        "m = -math.inf\nfor j in T.serial(64):\n    m = T.max(m, X[0, j])  # here\nY[0, 0] = m",
        "T.alloc_var",
    ),
    "a list that a loop fills": (
        "rows = []\nfor j in range(4):\n    rows.append(X[0, j])  # here",
        "T.alloc_local",
    ),
    "a tile is cut by chunk": ("gate, up = x.chunk(2, dim=-1)  # here", "chunk", r"\.shape"),
    "an element is cast by to": (
        "for i in T.Parallel(32):\n    row[i] = H[i, 0].to('float32')  # here",
        "T.cast",
    ),
    "a slice is assigned": ("a[:, :] = H[:, :]  # here", "T.copy"),
    "tile operators in T.Parallel": (
        "for i in T.Parallel(32):\n    row[i] = 0.0\n    T.copy(X[i, 0:64], Y[i, 0:64])  # here",
        "move it out of the loop",
    ),
    "a text with a value of the device": ("T.print(f'x0 = {X[0, 0]}')  # here", "T.print"),
    "atomic sums of bytes": (
        "s = T.alloc_shared((4,), 'uint8')\nT.clear(s)\n"
        "for i in T.Parallel(32):\n    T.atomic_add(s[0], 1)  # here",
        "uint8",
        "int32",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_in_a_kernel(tmp_path, name):
    body, *words = MISTAKES[name]
    refused_here(tmp_path, HEAD + textwrap.indent(body, " " * 8) + "\n", words)


CALLS = {
    "a type that is not converted": (("f4", "f4", "f4"), 7, "H.*float16.* was expected.*astype"),
    "no whole number": (("f4", "f2", "f4"), 7.5, "'n' is the number 7.5 .* int32"),
    "a number too large": (("f4", "f2", "f4"), 2**31, "'n' is 2147483648, which int32 cannot hold"),
    "a tensor for a number": (("f4", "f2", "f4"), np.zeros(1), "'n' is a ndarray; a number of type int32"),
}


@pytest.mark.parametrize("name", CALLS)
def test_mistakes_in_a_call(tmp_path, name):
    dtypes, n, words = CALLS[name]
    file = tmp_path / "kernel.py"
    file.write_text(HEAD.replace("Y: T.", "n: T.int32, Y: T."))
    space = {"__name__": "kernel", "__file__": str(file)}
    exec(compile(file.read_text(), str(file), "exec"), space)
    x, h, y = (np.zeros((32, 64), dtype) for dtype in dtypes)
    with pytest.raises(ValueError, match=words):
        tilelang.compile(space["main"], target="cpu")(x, h, n, y)


def test_the_output_is_the_input(tmp_path):
    file = tmp_path / "kernel.py"
    file.write_text(HEAD + "        T.copy(x, Y)\n")
    space = {"__name__": "kernel", "__file__": str(file)}
    exec(compile(file.read_text(), str(file), "exec"), space)
    x, h = np.zeros((32, 64), "f4"), np.zeros((32, 64), "f2")
    with pytest.raises(ValueError, match="'Y' is written, but shares memory with argument 0 'X'"):
        tilelang.compile(space["main"], target="cpu")(x, h, x)
