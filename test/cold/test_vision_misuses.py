"""Mistakes in kernels of images, of people who know Numba and JAX: each is an error at the line "# here"."""

import textwrap

import pytest
from everywhere import refused_here, warned_of_here

HEAD = """\
import numpy as np
import tilelang.language as T

def relu(v):
    if v > 0:  # of Python
        return v
    return 0.0

at_least_3 = lambda v: max(v, 3)  # of two

@T.macro
def clip(v):
    if v > 2:
        return v * 2  # early
    return v

@T.prim_func
def main(X: T.Tensor((16, 32), "float32"), P: T.Tensor((16, 32), "uint8"), N: T.Tensor((16, 16), "int4"),
         Y: T.Tensor((16, 32), "float32")):
    with T.Kernel(2, 2, threads=64) as (bx, by):
        x = T.alloc_fragment((16, 32), "float32")
        near = T.alloc_shared((18, 34), "float32")
        s = T.alloc_shared((32,), "float32")
        counts = T.alloc_fragment((16,), "int32")
        T.copy(X, x)
        T.copy(X[-1 + by, bx], near)
        T.copy(X[0, :], s)
"""
MISTAKES = {
    "every second pixel": ("T.copy(X[0, ::2], s[0:16])  # here", "step", "T.Parallel"),
    "an image flipped": ("T.copy(X[0, ::-1], s)  # here", "step"),
    "rows and columns in two pairs of brackets": (
        "for i in T.Parallel(16):\n    counts[i] = P[i][0]  # here",
        "one pair of brackets",
    ),
    "a prefix sum in one loop": (
        "for i in T.Parallel(31):\n    s[i + 1] = s[i + 1] + s[i]  # here",
        "reads an element of s",
        "T.serial",
    ),
    "a window beyond the halo": (
        "for i, j in T.Parallel(16, 32):\n    x[i, j] = near[i + 3, j]  # here",
        "becomes 18",
        "extent is 18",
    ),
    "a comparison binds less than &": (
        "for i in T.Parallel(32):\n    Y[0, i] = T.if_then_else(s[i] > 1 & s[i] < 3, 1.0, 0.0)  # here",
        "`&` takes integer or bool operands, not float32",
    ),
    "jnp.where": (
        "for i, j in T.Parallel(16, 32):\n    Y[i, j] = T.where(x[i, j] > 0, x[i, j], 0.0)  # here",
        "T.if_then_else",
    ),
    "zeros of a shape": ("acc = T.zeros((16, 32), 'float32')  # here", "T.alloc_fragment"),
    "the axis of a sum": ("T.reduce_sum(x, s, axis=0)  # here", "'axis'", "did you mean dim"),
    "the result comes first": ("T.reduce_max(s, x, dim=1)  # here", "dim is 1", "1 dimension"),
    "a maximum is contributed to by +=": (
        "r = T.alloc_reducer((1,), 'float32', op='max')\nT.fill(r, -1e9)\n"
        "for i in T.Parallel(32):\n    r[0] += s[i]  # here",
        "reducer of max",
        "T.max",
    ),
    "a reducer that nobody has opened": (
        "r = T.alloc_reducer((1,), 'float32')\nfor i in T.Parallel(32):\n    r[0] += s[i]  # here",
        "not been opened",
        "T.clear",
    ),
    "the sum of a histogram in registers": (
        "T.clear(counts)\nfor i, j in T.Parallel(16, 32):\n    T.atomic_add(counts[i], 1)  # here",
        "registers",
        "shared",
    ),
    "a name of the last turn": (
        "for i in T.serial(32):\n    last = s[i]  # here\nT.fill(near, last)",
        "T.alloc_var",
    ),
    "a search that ends in else": (
        "for i in T.serial(32):\n    if s[i] > 1:\n        break\nelse:\n    s[0] = 0  # here",
        "'else' after a loop",
    ),
    "the next pixel in a loop over all": (
        "for i in T.Parallel(32):\n    if s[i] < 0:\n        continue  # here\n    Y[0, i] = s[i]",
        "guard",
        "T.serial",
    ),
    "a whole image is scaled": ("x = x * 0.5  # here", r"x\[i", "T.Parallel"),
    "a byte and a number beyond it": (
        "for i, j in T.Parallel(16, 32):\n    Y[i, j] = P[i, j] + 300  # here",
        "300 does not fit in uint8",
        "cast",
    ),
    "an integer power of data": (
        "for i, j in T.Parallel(16, 32):\n    Y[i, j] = 2 ** P[i, j]  # here",
        "1 << y",
    ),
    "tiles of half a pixel": ("half = T.alloc_shared((16 / 2, 32), 'float32')  # here", "//|integer"),
    "a block has one index": ("T.copy(X[by, bx, 0], s)  # here", "2 dimensions", "3 indices"),
    "numbers before their seed": (
        "for i in T.Parallel(32):\n    Y[0, i] = T.rng_rand_float()  # here",
        r"before T\.rng_init",
    ),
    "two places of one layout": (
        "T.annotate_layout({near: T.Layout((18, 34), lambda i, j: i * 32 + j)})  # here",
        "in one place",
    ),
    "a row moves along itself": ("T.copy(s[0:30], s[2:32])  # here", "in common", "another buffer"),
    "a loop that never steps": ("for i in range(0, 32, 0):  # here\n    Y[0, i] = s[i]", "step"),
    "half a byte too much": (
        "q = T.alloc_shared((4, 7), 'int4')\nT.clear(q)  # here",
        "7 elements",
        "even last extent",
    ),
    "a transpose of half bytes": (
        "q = T.alloc_shared((16, 16), 'int4')\nT.transpose(N, q)  # here",
        "two elements per byte",
        "int8",
    ),
    "a copy to an odd place": (
        "q = T.alloc_shared((16, 16), 'int4')\nT.copy(N[0:16, 0:8], q[0:16, 3:11])  # here",
        "begins at 3",
        "even",
    ),
    "compared with None": (
        "for i in T.Parallel(32):\n    Y[0, i] = 1.0 if s[i] == None else 0.0  # here",
        "None",
        "is not None",
    ),
    "a fragment whose threads nobody can compute": (
        "g = T.alloc_fragment((24, 16), 'float32')\n"
        "T.annotate_layout({g: T.Fragment((24, 16), lambda i, j: "
        "((i + j * 3) % 8 * 4 + j % 4, i // 8 * 4 + j // 4))})  # here",
        "digits",
    ),
    "a fragment of more threads than there are": (
        "g = T.alloc_fragment((128,), 'float32')\n"
        "T.annotate_layout({g: T.Fragment((128,), lambda i: (i, 0))})  # here",
        "128 threads",
        "64",
    ),
    "a carried sum that is stored": (
        "v = T.alloc_var('float32', 0.0)\n"
        "for i in T.Parallel(32):\n    v = v + s[i]  # here\n    Y[0, i] = v",
        "another iteration",
        "T.serial",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_in_a_kernel(tmp_path, name):
    body, *words = MISTAKES[name]
    refused_here(tmp_path, HEAD + textwrap.indent(body, " " * 8) + "\n", words)


BEYOND = {
    "a mask beyond half precision": (
        "h = T.alloc_shared((32,), 'float16')\nT.fill(h, -1e9)  # here",
        "-1000000000 does not fit in float16",
        "65504",
        'T.infinity\\("float16"\\)',
    ),
    "a sum beyond half precision": (
        "h = T.alloc_shared((32,), 'float16')\nT.copy(s, h)\n"
        "for i in T.Parallel(32):\n    h[i] = h[i] + 70000  # here",
        "float16",
        "cast the other operand",
    ),
    "a choice beyond half precision": (
        "h = T.alloc_shared((32,), 'float16')\nT.copy(s, h)\n"
        "for i in T.Parallel(32):\n    h[i] = T.if_then_else(h[i] > 5, h[i], -1e9)  # here",
        "float16",
    ),
}


@pytest.mark.parametrize("name", BEYOND)
def test_numbers_beyond_half_precision_are_said(tmp_path, name):
    body, *words = BEYOND[name]
    warned_of_here(tmp_path, HEAD + textwrap.indent(body, " " * 8) + "\n", words)


def test_a_function_of_python_decides(tmp_path):
    text = HEAD.replace("# of Python", "# here")
    text += "        for i, j in T.Parallel(16, 32):\n            Y[i, j] = relu(x[i, j])\n"
    called = len(text.splitlines())
    refused_here(tmp_path, text, ["T.if_then_else", "@T.macro", f"which line {called} calls"])


def test_a_lambda_takes_the_larger_one(tmp_path):
    text = HEAD.replace("# of two", "# here")
    text += "        for i in T.Parallel(32):\n            Y[0, i] = at_least_3(s[i])\n"
    refused_here(tmp_path, text, ["T.max", f"which line {len(text.splitlines())} calls"])


def test_a_macro_returns_at_its_end(tmp_path):
    text = HEAD.replace("# early", "# here") + "        Y[0, 0] = clip(X[0, 0])\n"
    refused_here(tmp_path, text, ["T.alloc_var"])
