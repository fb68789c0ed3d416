"""Names of Python in a kernel: whose a name is, and what is said of one that is used too early, or for what
it is not.
"""

import sys
import textwrap

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import FIRST_LINE, failure, kernel, load_text

FOLD = """\
x = T.alloc_fragment((1, 32), 'float32')
out = T.alloc_fragment((1,), 'float32')
for j in T.Parallel(32):
    x[0, j] = 0
    if j < 20:
        d = A[j, 0] * 2
        x[0, j] = d

{function}
T.reduce(x, out, 1, combine=add, identity=0)
T.copy(out, A[0:1, 1])
"""
FUNCTIONS = {
    "assigned": "def add(a, b):\n    d = a + b\n    return d\n",
    "of a loop": "def add(a, b):\n    for d in (b,):\n        a = a + d\n    return a\n",
    "of a `with`": "import contextlib\ndef add(a, b):\n    with contextlib.nullcontext(b) as d:\n"
    "        return a + d\n",
    "unpacked": "def add(a, b):\n    (c, *d) = a, b\n    return c + d[0]\n",
    "of a walrus": "def add(a, b):\n    return a + (d := b) + 0 * d\n",
    "a function": "def add(a, b):\n    def d():\n        return a + b\n    return d()\n",
    "a lambda's default": "add = lambda a, b, d=0: a + b + d\n",
    "a handler's": "def add(a, b):\n    try:\n        return a + b\n    except ValueError as d:\n"
    "        print(d)\n",
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_names_of_nested_functions_are_theirs(name, tmp_path):
    body = FUNCTIONS[name]
    before, body = ("import contextlib\n", body.partition("\n")[2]) if "contextlib" in body else ("", body)
    a = np.zeros((64, 8), np.float32)
    a[:, 0] = np.arange(64)
    tilelang.compile(kernel(tmp_path, FOLD.format(function=body), before=before), target="cpu")(a, 1)
    assert a[0, 1] == 2 * sum(range(20))


@pytest.mark.parametrize(
    "function",
    [
        "def add(a, b):\n    return a + b + 0 * d\n",
        "def add(a, b, c=d):\n    return a + b\n",
        "add = lambda a, b, d=d: a + b\n",
        "def add(a, b):\n    c = lambda d: d\n    return a + b + 0 * d\n",
    ],
)
def test_what_a_nested_function_reads_of_the_kernel_still_counts(function, tmp_path):
    with pytest.raises(tilelang.CompileError, match="'d' is bound under a condition"):
        kernel(tmp_path, FOLD.format(function=function))


# body, its line and column, part of the text
UNBOUND = {
    "a tile": (
        "T.copy(A[0:8, 0:8], x)\nx = T.alloc_fragment((8, 8), 'float32')",
        0,
        29,
        "'x' is used before it is bound: line 6 does that; move it above this one",
    ),
    "of a branch": (
        "if A.shape[0] > 100:\n    y = A[0, 0]\nA[1, 0] = y",
        2,
        19,
        "'y' has no value here: line 6, the first to bind it, has not run before",
    ),
    "of a loop without iterations": (
        "for k in []:\n    y = k\nA[1, 0] = y",
        2,
        19,
        "a condition or loop that Python decides",
    ),
    "of a loop's own name": ("for k in []:\n    pass\nA[1, 0] = k", 2, 19, "'k' has no value here"),
    "of itself": ("y = y + A[0, 0]", 0, 13, "'y' has no value here: line 5, the first to bind it"),
    "in an arm": ("A[1, 0] = z if n > 0 else 0.0\nz = A[0, 0]", 0, 19, "'z' is used before it is bound"),
    "in a comprehension": ("w = [z + i for i in [1, 2]]\nz = A[0, 0]", 0, 14, "'z' is used before it"),
    "in a helper": ("def f():\n    return z\nA[1, 0] = f()\nz = A[0, 0]", 1, 20, "'z' is used before"),
}


@pytest.mark.parametrize("name", UNBOUND)
def test_a_name_that_is_not_bound_yet(name, tmp_path):
    body, line, column, text = UNBOUND[name]
    error = failure(tmp_path, body)
    assert isinstance(error, NameError)
    assert text in str(error)
    assert error.line == FIRST_LINE + line
    if sys.version_info >= (3, 11):  # before, Python knows the line alone
        assert error.column == column


def test_a_name_that_a_macro_has_not_bound_yet(tmp_path):
    before = "import tilelang.language as T\n@T.macro\ndef twice(A):\n    A[0, 0] = v\n    v = A[0, 0] * 2\n"
    error = failure(tmp_path, "twice(A)", before=before)
    assert error.line == 4
    assert "'v' is used before it is bound: line 5 does that" in str(error)


def test_a_name_that_is_nowhere_is_pythons_own_error(tmp_path):
    with pytest.raises(NameError, match="'nowhere'") as caught:
        kernel(tmp_path, "A[0, 0] = nowhere")
    assert not isinstance(caught.value, tilelang.CompileError)


# ── factories ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_factory_that_gets_the_array():
    @tilelang.jit(out_idx=[-1], target="cpu")
    def fac(n, dtype="float32"):
        @T.prim_func
        def main(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
            with T.Kernel(T.ceildiv(n, 32), threads=32):
                T.copy(X, Y)

        return main

    x = np.ones(8, np.float32)
    for call in (lambda: fac(x), lambda: fac(n=x), lambda: fac(x, dtype=x), lambda: fac(x, x, x)):
        with pytest.raises(tilelang.CompileError) as caught:
            call()
        assert "'fac' is a factory: it takes what the kernel is built with, but n is an array" in str(
            caught.value
        )
        assert "kernel = fac(n, dtype), and what it returns with the arrays" in str(caught.value)
        assert caught.value.file == __file__
    assert (fac(8)(x) == x).all()


def test_an_array_as_an_extent_or_a_value(tmp_path):
    with pytest.raises(tilelang.CompileError, match="shape must be integers, got an array"):
        T.Tensor((np.ones(8),), "float32")
    error = failure(tmp_path, "A[0, 0] = table", before="import numpy as np\ntable = np.ones(8)\n")
    assert "got ndarray; an array is passed to the compiled kernel, as a tensor" in str(error)


def test_a_factory_takes_an_array_that_it_can_use():
    @tilelang.jit(target="cpu")
    def scaled(table):
        @T.prim_func
        def main(X: T.Tensor((len(table),), "float32")):
            with T.Kernel(1, threads=32):
                for k in T.unroll(len(table)):
                    X[k] = 2.0

        return main

    x = np.zeros(3, np.float32)
    scaled(np.ones(3))(x)
    assert (x == 2).all()


def test_a_factory_without_return():
    @tilelang.jit(target="cpu")
    def fac(n):
        @T.prim_func
        def kernel_of_n(X: T.Tensor((n,), "float32")):
            with T.Kernel(1, threads=32):
                T.clear(X)

    with pytest.raises(
        tilelang.CompileError,
        match="'fac' defines the kernel 'kernel_of_n' but returns nothing: end it with `return kernel_of_n`",
    ):
        fac(8)


# ── block indices ─────────────────────────────────────────────────────────────────────────────────────────

CURE = (
    "b is the tuple of the 2 block indices, as the grid of this T.Kernel has 2 dimensions: write "
    "`as (bx, by)`"
)
USES = {
    "times": ("X[b * 32] = 1.0", "`*` of a tuple"),
    "reflected": ("X[32 * b] = 1.0", "`*` of a tuple"),
    "times a value": ("X[n * b] = 1.0", "`*` of a tuple"),
    "plus": ("T.copy(X[b + 32], X)", "`+` of a tuple"),
    "compared": ("if b == 0:\n    X[0] = 1.0", "`==` of a tuple"),
    "less": ("if b < 1:\n    X[0] = 1.0", "`<` of a tuple"),
    "augmented": ("b += 1\nX[0] = 1.0", "`+` of a tuple"),
    "an index": ("X[b] = 1.0", "X has 1 dimension (shape (64,)) but is given 2 indices"),
    "a value": ("X[0] = T.cast(b, 'float32')", "expected a number or a value of the kernel, got tuple"),
}


def pair(folder, body):
    text = (
        "import tilelang.language as T\n@T.prim_func\n"
        "def main(X: T.Tensor((64,), 'float32'), n: T.int32):\n"
        "    with T.Kernel(2, 2, threads=32) as b:\n" + textwrap.indent(body, " " * 8)
    )
    return load_text(folder, text).main


@pytest.mark.parametrize("name", USES)
def test_the_tuple_of_block_indices_is_no_number(name, tmp_path):
    body, text = USES[name]
    with pytest.raises(tilelang.CompileError) as caught:
        pair(tmp_path, body)
    assert f"{text}: {CURE}" in str(caught.value)
    assert caught.value.line == 5


def test_the_tuple_of_block_indices_is_a_tuple(tmp_path):
    body = "bx, by = b\nc = b + (1,)\nX[b[0] * 2 + b[1]] = by + 2 * bx + c[2]\n"
    x = np.zeros(64, np.float32)
    tilelang.compile(pair(tmp_path, body), target="cpu")(x, 1)
    assert x[:4].tolist() == [1, 2, 3, 4] and not x[4:].any()


def test_a_tuple_of_values_is_not_multiplied(tmp_path):
    error = failure(tmp_path, "place = (bx, n)\nA[place * 2] = 1.0")
    assert (error.line, error.column) == (FIRST_LINE + 1, 11)
    assert "`*` of a tuple is Python's, which repeats it: multiply its elements" in str(error)
    kernel(tmp_path, "A[(bx,) * 2] = 1.0")  # one value, repeated
    kernel(tmp_path, "size = (4, 2) * 2\nA[size[0], size[3]] = 1.0")
