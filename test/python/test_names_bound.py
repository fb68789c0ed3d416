"""What a Python name of a kernel means after it is bound again: by a loop, by an assignment to the name of a
tensor, by the loops over *args of a macro, in one branch and in the other."""

import re
import warnings

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import FIRST_LINE, INDENT, failure, kernel

VAR = "i = T.alloc_var('int32', 100)\n"
LOOPS = {
    "range": "for i in range(4):\n    A[0, i] = 1.0\nA[i, 0] = 1.0",
    "T.Parallel": "for j, i in T.Parallel(4, 4):\n    A[j, i] = 1.0\nA[i, 0] = 1.0",
    "a tuple of indices": "for i in T.grid(4, 4):\n    A[i[0], i[1]] = 1.0\nA[i, 0] = 1.0",
    "read by the next iteration": (
        "for k in range(4):\n    A[i, 0] = 1.0\n    for i in range(4):\n        A[0, i] = 1.0"
    ),
    "under a condition": "if n > 3:\n    for i in range(4):\n        A[0, i] = 1.0\nA[i, 0] = 1.0",
}


@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_takes_the_name_of_a_variable(loop, tmp_path):
    error = failure(tmp_path, VAR + LOOPS[loop])
    lines = (VAR + LOOPS[loop]).split("\n")
    line = next(n for n, text in enumerate(lines) if "for" in text and "i in" in text)
    assert error.line == FIRST_LINE + line
    assert error.text == (
        "'i' is a variable, but this loop binds the name to its index, which ends with the loop, and i is "
        "read after it: give the index another name, `for k in …`, and assign i = k in the loop"
    )


def test_a_variable_is_itself_again_after_the_loop(target):
    @T.prim_func
    def main(O: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=1):
            i = T.alloc_var("int32", 100)
            for i in range(4):
                O[i] = i
            i = 7
            O[4] = i
            for i in (5, 6):  # Python's loop
                O[i] = i
            O[7] = i

    out = np.full(8, -1, np.int32)
    tilelang.compile(main, target=target)(out)
    assert list(out) == [0, 1, 2, 3, 7, 5, 6, 6]


TILE = "x = T.alloc_fragment((64, 8), 'float32')\n"
TAKEN = "`A = …` gives another meaning to the name, and writes nothing to the tensor A: "
ELEMENTS = "write to its elements, `for i, j in T.Parallel(…): A[i, j] = …`"
REBOUND = {  # the body, whose last line is the mistake, and what it is told
    "a tile": (TILE + "A = x", "T.copy(x, A) writes to it"),
    "a part of a tile": (TILE + "A = x[0:4, :]", "T.copy(x[…], A) writes to it"),
    "an element": (TILE + "for i, j in T.Parallel(64, 8):\n    A = x[i, j]", "T.copy(x[…], A) writes to it"),
    "a value": (TILE + "for i, j in T.Parallel(64, 8):\n    A = x[i, j] * 2", ELEMENTS),
    "a number": ("A = 0.0", ELEMENTS),
    "several names": (TILE + "A, m = x, 3", "T.copy(x, A) writes to it"),
    "a chain": (TILE + "y = A = x", "T.copy(x, A) writes to it"),
    "under a condition": (TILE + "if n > 3:\n    A = x", "T.copy(x, A) writes to it"),
}


@pytest.mark.parametrize("case", REBOUND)
def test_an_assignment_to_the_name_of_a_tensor(case, tmp_path):
    body, cure = REBOUND[case]
    error = failure(tmp_path, body)
    assert error.text == TAKEN + cure
    assert error.line == FIRST_LINE + body.count("\n")
    assert error.column == INDENT + 1 + 4 * body.split("\n")[-1].startswith(" ")


def test_an_assignment_to_the_name_of_a_macros_tile(tmp_path):
    macro = "import tilelang.language as T\n@T.macro\ndef double(x, y):\n    y = x\n"
    error = failure(tmp_path, TILE + "double(A, x)", before=macro)
    assert (error.line, error.text) == (
        4,
        "`y = …` gives another meaning to the name, and writes nothing to the fragment tile y: T.copy(A, y) "
        "writes to it",
    )


def test_a_tensor_that_loses_its_name_unused(tmp_path):
    body = "A = T.alloc_shared((64, 8), 'float32')\nT.clear(A)"
    with pytest.warns(tilelang.TilelangWarning, match=re.escape(TAKEN)) as told:
        kernel(tmp_path, body)
    (warning,) = told
    assert warning.lineno == FIRST_LINE
    assert str(warning.message).endswith(
        "give the other buffer a name of its own; nothing in this kernel uses it"
    )


def test_names_that_may_be_bound_again(target):
    """Views of the tensor, tiles that take its place once it was copied, numbers, and what closures read."""

    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32"), n: T.int32):
        with T.Kernel(1, threads=32):
            B = T.reshape(B, (2, 4))
            x = T.alloc_shared((8,), "float32")
            T.copy(A, x)
            A = x
            n = n + 1

            def at(i):
                return A[i] * n

            for i in T.Parallel(8):
                B[i // 4, i % 4] = at(i)

    a = np.random.default_rng(0).standard_normal(8).astype(np.float32)
    b = np.full(8, np.nan, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tilelang.compile(main, target=target)(a, b, 2)
    assert np.array_equal(b, a * 3)


# ── *args and **kwargs of macros ──────────────────────────────────────────────────────────────────────
@T.macro
def scaled(x, *factors, add=0.0, **more):
    for factor in factors:
        for i in T.Parallel(16):
            x[i] = x[i] * factor
    for i in T.Parallel(16):
        x[i] += add + more["offset"] + len(factors)


@T.macro
def forwarded(*args, **kwargs):
    scaled(*args, **kwargs)


@T.macro
def assigned(*places: T.Ref, **values):
    for place, value in zip(places, values.values(), strict=True):
        place = value  # noqa: F841
    for place in places:
        place += 1


@T.macro
def total(*parts):
    return sum(parts[1:], parts[0])


def test_stars_of_macros(target):
    @T.prim_func
    def main(A: T.Tensor((16,), "float32"), O: T.Tensor((16,), "float32"), P: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((16,), "float32")
            T.copy(A, x)
            scaled(x, 2.0, 3.0, add=1.0, offset=0.5)
            forwarded(x, offset=2.0)
            T.copy(x, O)
        with T.Kernel(1, threads=1):
            v = T.alloc_var("float32", 0.0)
            assigned(P[1], v, first=5.0, second=A[2])
            P[0] = v
            P[2] = total(v, A[3], 1.0)
            P[3] = total(A[4])

    a = np.random.default_rng(1).standard_normal(16).astype(np.float32)
    o, p = np.full(16, np.nan, np.float32), np.full(4, np.nan, np.float32)
    tilelang.compile(main, target=target)(a, o, p)
    wanted = 6 * a.astype(np.float64) + 1.5 + 2 + 2
    assert np.linalg.norm(o - wanted) <= 1e-6 * np.linalg.norm(wanted)
    assert np.allclose(p, [a[2] + 1, 6, a[2] + 2 + a[3], a[4]], rtol=1e-6)


def test_variables_of_a_python_loop_over_pairs(target):
    """An assignment to the name of a variable stores to it, also where a loop gives several names."""

    @T.prim_func
    def main(O: T.Tensor((2,), "int32")):
        with T.Kernel(1, threads=1):
            a, b = T.alloc_var("int32", 1), T.alloc_var("int32", 2)
            for _ in range(3):
                for v, n in zip((a, b), (10, 20), strict=True):
                    v = v + n  # noqa: F841
            O[0] = a
            O[1] = b

    out = np.zeros(2, np.int32)
    tilelang.compile(main, target=target)(out)
    assert list(out) == [31, 62]


def test_stars_of_kernels(tmp_path):
    error = failure(tmp_path, "pass", signature="A: T.Tensor((3,), 'float32'), **more")
    assert error.text == (
        "a kernel names its parameters, each a tensor or a number that a call passes, but 'more' takes any "
        "number: write one for each; a @T.macro may have *args and **kwargs"
    )
    assert (error.line, error.column) == (3, 42)


def test_how_objects_of_a_kernel_print(tmp_path, capsys):
    """No message, and no debugger, shows an address."""
    body = "S = T.alloc_shared((4, 8), 'float16')\nprint([n, A, A[bx, 0], A[1, 0] * n, S[2, 0:4]])\nT.ws(S)"
    error = failure(tmp_path, body)
    assert capsys.readouterr().out == ("[n, A: global float32[64, 8], A[bx, 0], t, S[2, 0 : 0 + 4]]\n")
    assert "object at" not in error.text


PER_ITERATION = {
    "bound again": "x = A[0]\nfor i in range(8):\n    x = A[i]\n    B[i] = x",
    "in a pipeline": "for i in T.Pipelined(8, num_stages=2):\n    x = A[i] * 2\n    x = x + 1\n    B[i] = x",
    "several names": "for i in range(8):\n    x, y = A[i], i\n    x, y = y, x\n    B[i] = y + x",
    "another name of it": "for i in range(8):\n    x = A[i]\n    y = x\n    x += 1\n    B[i] = x * 100 + y",
    "in two loops": "for i in range(8):\n    B[i] = A[i]\nfor i in range(8):\n    x = B[i]\n    B[i] = x + 1",
    "in a branch": "for i in range(8):\n    B[i] = 0.0\n    if i > 3:\n        x = A[i]\n        B[i] = x",
    "while": "k = T.alloc_var('int32', 0)\nwhile k < 8:\n    x = A[k]\n    B[k] = x\n    k = k + 1",
    "a tile": "for i in range(8):\n    t = T.alloc_local((1,), 'float32')\n    t[0] = A[i]\n    B[i] = t[0]",
}


@pytest.mark.parametrize("case", PER_ITERATION)
def test_a_name_bound_again_in_each_iteration(case, tmp_path, target):
    """After the loop nothing reads the last of them."""
    body = PER_ITERATION[case]
    main = kernel(
        tmp_path,
        body,
        signature="A: T.Tensor((8,), 'float32'), B: T.Tensor((8,), 'float32')",
        launch="T.Kernel(1, threads=1)",
    )
    a, b = np.random.default_rng(0).standard_normal(8).astype(np.float32), np.full(8, np.nan, np.float32)
    tilelang.compile(main, target=target)(a, b)
    i = np.arange(8)
    wanted = {
        "in a pipeline": 2 * a + 1,
        "several names": a + i,
        "another name of it": (a + 1) * 100 + a,
        "in two loops": a + 1,
        "in a branch": np.where(i > 3, a, 0),
    }
    assert np.allclose(b, wanted.get(case, a), rtol=1e-5, atol=1e-5)


# Both branches are built one after the other; to the second, names are what they were before the `if`.
BRANCHES = {
    "a number": ("x = 1\nif A[0] > 0:\n    x = 7\n    B[1] = x\nelse:\n    B[0] = x", [1, -1]),
    "a value": ("x = A[1]\nif A[0] > 0:\n    x = A[2] + 1\n    B[1] = x\nelse:\n    B[0] = x", [1, -1]),
    "elif": ("x = 1\nif A[0] > 0:\n    x = 7\nelif A[1] > x:\n    x = 8\nelse:\n    B[0] = x", [1, -1]),
    "in a loop": (
        "x = 1\nif A[0] > 0:\n    for x in (3, 4):\n        B[1] = x\nelse:\n    B[0] = x",
        [1, -1],
    ),
    "a tuple": ("x, y = 1, 2\nif A[0] > 0:\n    x, y = y, x\nelse:\n    B[0], B[1] = x, y", [1, 2]),
}


@pytest.mark.parametrize("name", BRANCHES)
def test_what_one_branch_binds_the_other_does_not_see(name, tmp_path):
    body, wanted = BRANCHES[name]
    main = kernel(
        tmp_path,
        body,
        "A: T.Tensor((4,), 'int32'), B: T.Tensor((2,), 'int32')",
        launch="T.Kernel(1, threads=1)",
    )
    b = np.full(2, -1, np.int32)
    tilelang.compile(main, target="reference")(np.arange(4, dtype=np.int32), b)
    assert list(b) == wanted


def test_what_one_branch_alone_binds(tmp_path):
    text = "if A[0, 0] > 0:\n    x = 7\n    A[0, 1] = x\nelse:\n    A[0, 0] = x"
    with pytest.raises(NameError, match="'x' has no value here"):
        kernel(tmp_path, text)


# What becomes of a variable's name in a loop or branch of the device, where it is read afterwards.
FIVE = "v = T.alloc_var('int32', 5)\n"
SEVEN = "    v = T.alloc_var('int32', 7)\nA[v, 0] = 1"
ELSEWHERE = {
    "a loop of Python": FIVE + "if A[0, 0] > 0:\n    for v in (4, 7):\n        v = 3\nA[v, 0] = 1",
    "another variable": FIVE + "if A[0, 0] > 0:\n" + SEVEN,
    "the next iteration": FIVE
    + "for i in T.serial(2):\n    A[v, 0] = 1\n    for v in (4, 7):\n        A[v, i] = 2",
    "while": FIVE + "while A[0, 0] > 0:\n" + SEVEN,
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_variable_that_becomes_something_else(name, tmp_path):
    assert (
        "'v' is a variable (T.alloc_var) before the loop or branch" in failure(tmp_path, ELSEWHERE[name]).text
    )
