"""The truth of a tile, a row or a slice, and what == says of one, is nothing that Python may decide."""

import pytest
import tilelang
import tilelang.language as T
from helpers import FIRST_LINE, failure, kernel

SIGNATURE = "A: T.Tensor((4, 64), 'float32'), B: T.Tensor((4,), 'float32')"
BEFORE = """\
def same(a, b):
    return a == b

def chosen(x):
    return 1.0 if x else 2.0

"""
TILES = (
    "f = T.alloc_shared((1,), 'int32')\ng = T.alloc_local((1, 1), 'int32')\nr = T.alloc_var('float32', 0.0)\n"
)
F, G = "f is a shared buffer of shape (1,), not a value: index it, f[0]", "not a value: index it, g[0, 0]"
ROW, ELEMENT = "the 64 elements of a slice are not a value", "a slice of one element is not a value"
ALL = "A is a global buffer of shape (4, 64), not a value: index it, A[i, j]"
REFUSED = {
    "if f: r = 1": F,
    "if not g: r = 1": G,
    "r = 1.0 if g else 2.0": G,
    "while f: r = 1": F,
    "while f != 0: r = 1": F,
    "assert f, 'flag'": F,
    "if f and A[0, 0] == 0: r = 1": F,
    "if A[0, 0] == 0 or f: r = 1": F,
    "if f == 0: r = 1": F,
    "if 0 == f: r = 1": F,
    "if g != 0: r = 1": G,
    "if 0 < f == 1: r = 1": F,
    "if f in (0, 1): r = 1": F,
    "if 0 in (f, 1): r = 1": F,
    "r = T.if_then_else(f == 0, 1.0, 2.0)": F,
    "r = T.if_then_else(f, 1.0, 2.0)": F,
    "T.device_assert(f)": F,
    "if any([f, g]): r = 1": F,
    "if f == g: r = 1": "; whether both are one buffer is `f is g`",
    "if A: r = 1": "; whether there is one at all is `A is not None`",
    "if A == B: r = 1": ALL,
    "if A[0] == A[1]: r = 1": ROW,
    "if A[0] != A[1]: r = 1": ROW,
    "if A[0]: r = 1": "a slice of A is not a value",
    "if not A[0]: r = 1": ROW,
    "if f[0:1] == 0: r = 1": ELEMENT,
    "if A[0, 0:4] == A[1, 0:4]: r = 1": "the 4 elements of a slice are not a value",
    "if A[0:2] == A[2:4]: r = 1": "only a slice of one dimension and constant length is",
    "r = chosen(f)": F,
    "r = chosen(A[0])": "a slice of A is not a value",
    "if same(f, 0): r = 1": F,
    "if same(A[0], A[1]): r = 1": ROW,
    "if A[0, 0] == [0]: r = 1": "expected a number or a value of the kernel, got list",
}


@pytest.mark.parametrize("body", list(REFUSED))
def test_what_python_would_decide_by_identity(tmp_path, body):
    error = failure(tmp_path, TILES + body, signature=SIGNATURE, before=BEFORE)
    assert REFUSED[body] in error.text
    assert error.line in (
        FIRST_LINE + BEFORE.count("\n") + 3,
        BEFORE.splitlines().index("def chosen(x):") + 2,
    )


def test_what_stays_pythons(tmp_path):
    """Whether there is a tile at all, and which one it is."""
    body = """\
names = {f: 1, g: 2}
B[0] = names[f] * 10 + names[g] + (f in (g, f)) * 100 + (f in names) * 1000
B[1] = (f != None) + 2 * (f == None) + 4 * (A[0] != None)
if f is not None:
    r += B[0]
"""
    text = kernel(tmp_path, TILES + body, signature=SIGNATURE).text
    assert "B[0] = 1112" in text and "B[1] = 5" in text


def test_variables_are_values(tmp_path):
    body = "if r == 0 and not r:\n    r = 1.0 if r else 2.0"
    assert "if r[] == 0.0 and not r[] != 0.0" in kernel(tmp_path, TILES + body, signature=SIGNATURE).text


def test_slices_are_compared_element_by_element(target):
    import numpy as np

    @T.prim_func
    def main(A: T.Tensor((2, 4), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            B[0:4] = T.if_then_else(A[0, 0:4] == A[1, 0:4], 1, 0)

    b = np.zeros(4, np.int32)
    tilelang.compile(main, target=target)(np.array([[1, 2, 3, 4], [1, 0, 3, 5]], np.int32), b)
    np.testing.assert_array_equal(b, [1, 0, 1, 0])
