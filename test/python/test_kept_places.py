"""Elements and slices that a program keeps, in a list, as an argument, under a name: which they are is
decided where they are written down, also when a variable in their indices changes afterwards."""

import numpy as np
import pytest
import tilelang
from helpers import kernel

MACROS = """
import tilelang.language as T

@T.macro
def later(x, b: T.Ref):
    b = 6
    return x + 0

@T.macro
def copied(x, b: T.Ref, Y):
    b = 0
    T.copy(x, Y)

@T.macro
def first(xs, b: T.Ref):
    b = 6
    return xs[0] + 0
"""
SIGNATURE = "X: T.Tensor((8,), 'int32'), Y: T.Tensor((4,), 'int32')"
# X holds 1, 2, 3, …, and b is 2 at first
KEPT = {
    "argument": ("Y[0] = later(X[b], b)", [3]),
    "slice as an argument": ("copied(X[b : b + 4], b, Y)", [3, 4, 5, 6]),
    "list as an argument": ("Y[0] = first([X[b]], b)", [3]),
    "tuple as an argument": ("Y[0] = first((X[b], X[b + 1]), b)", [3]),
    "list": ("c = [X[b]]\nb = 5\nY[0] = c[0]", [3]),
    "dict": ("c = {'a': X[b]}\nb = 5\nY[0] = c['a']", [3]),
    "nested": ("c = [[b + 1], (X[b],)]\nb = 5\nY[0] = c[0][0]\nY[1] = c[1][0]", [3, 3]),
    "appended": ("c = []\nc.append(X[b])\nc.append((X[b],))\nb = 5\nY[0] = c[0]\nY[1] = c[1][0]", [3, 3]),
    "added": ("c = []\nc += [X[b]]\nb = 5\nY[0] = c[0]", [3]),
    "iterated": ("for e in (X[b], X[b + 1]):\n    b = 5\n    Y[1] = e", [0, 4]),
    "iterated list": ("for e in [X[b], X[b + 1]]:\n    b = 5\n    Y[1] = e", [0, 4]),
    "enumerated": ("for k, e in enumerate((X[b], X[b + 1])):\n    b = 5\n    Y[k] = e", [3, 4]),
    "zipped": ("for k, e in zip((0, 1), [X[b], X[b + 1]]):\n    b = 5\n    Y[k] = e", [3, 4]),
    "comprehension": ("c = [X[b + k] for k in (0, 1)]\nb = 5\nY[0] = c[0]\nY[1] = c[1]", [3, 4]),
    "slice": ("v = X[b : b + 4]\nb = 0\nT.copy(v, Y)", [3, 4, 5, 6]),
    "slice in a list": ("v = [X[b : b + 4]]\nb = 0\nT.copy(v[0], Y)", [3, 4, 5, 6]),
    "one of two": ("v, w = X[b : b + 4], 3\nb = 0\nT.copy(v, Y)", [3, 4, 5, 6]),
    "two names": ("v = w = X[b : b + 4]\nb = 0\nT.copy(v, Y)", [3, 4, 5, 6]),
    "index from memory": ("c = [X[X[b]]]\nb = 0\nY[0] = c[0]", [4]),
    "row of a view": ("v = T.reshape(X, (2, 4))[b - 1]\nb = 1\nT.copy(v, Y)", [5, 6, 7, 8]),
}


@pytest.mark.parametrize("name", KEPT)
def test_the_index_is_read_where_the_place_is_written_down(name, tmp_path):
    body, wanted = KEPT[name]
    body = f"b = T.alloc_var('int32', 2)\n{body}"
    main = kernel(tmp_path, body, SIGNATURE, before=MACROS, launch="T.Kernel(1, threads=1)")
    for target in ("reference", "cpu", "sim:sm_80"):
        y = np.zeros(4, np.int32)
        tilelang.compile(main, target=target)(np.arange(1, 9, dtype=np.int32), y)
        assert list(y) == wanted + [0] * (4 - len(wanted)), target


def test_places_whose_indices_are_numbers_are_left_as_they_are(tmp_path):
    """So that what a kernel computes by its indices stays in them."""
    body = "for i in T.Parallel(4):\n    c = [X[i], X[7 - i]]\n    Y[i] = c[0] + c[1]"
    text = kernel(tmp_path, body, SIGNATURE, launch="T.Kernel(1, threads=32)").script()
    assert "Y[i] = X[i] + X[" in text


def test_a_tuple_holds_variables_themselves(tmp_path):
    body = "b = T.alloc_var('int32', 2)\nc = (X[1], b)\nb = 5\nY[0] = c[1]\n"
    body += "for e in c[1:]:\n    e = 7\nY[1] = b"
    main = kernel(tmp_path, body, SIGNATURE, launch="T.Kernel(1, threads=1)")
    y = np.zeros(4, np.int32)
    tilelang.compile(main, target="reference")(np.arange(1, 9, dtype=np.int32), y)
    assert list(y) == [5, 7, 0, 0]
