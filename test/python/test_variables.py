"""A variable (T.alloc_var) without a first value must be assigned before it is read: what certainly is not is
refused at the line that reads it; what may be is left to the run."""

import numpy as np
import pytest
import tilelang
from helpers import FIRST_LINE, failure, kernel

REFUSED = {
    "a sum": ("x = T.alloc_var('float32')\nfor i in T.serial(4):\n    x += A[i, 0]\nA[0, 0] = x", 2),
    "never assigned": ("x = T.alloc_var('int32')\nA[x, 0] = 1.0", 1),
    "assigned after": ("x = T.alloc_var('float32')\nA[0, 0] = x\nx = 1.0", 1),
    "in a branch": ("x = T.alloc_var('float32')\nif n > 0:\n    A[0, 0] = x", 2),
    "a condition": ("x = T.alloc_var('int32')\nwhile x < 3:\n    x = x + 1", 1),
    "new in each iteration": (
        "for i in T.serial(4):\n    x = T.alloc_var('float32')\n    if i > 0:\n"
        "        A[i, 0] = x\n    x = 1.0",
        3,
    ),
    "in a value": ("x = T.alloc_var('float32')\nA[0, 0] = T.if_then_else(n > 0, x, 0.0)", 1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_read_before_it_is_assigned(name, tmp_path):
    body, line = REFUSED[name]
    error = failure(tmp_path, body)
    assert error.line == FIRST_LINE + line
    assert "x is read here, but nothing has been assigned to this variable before" in str(error)
    assert "T.alloc_var(dtype, init)" in str(error)


ACCEPTED = {
    "assigned first": "x = T.alloc_var('float32')\nx = 2.0\nA[0, 0] = x",
    "assigned in one branch": "x = T.alloc_var('float32')\nif n > 0:\n    x = 2.0\n"
    "if n > 0:\n    A[0, 0] = x",
    "assigned by an earlier iteration": "x = T.alloc_var('float32')\nfor i in T.serial(2):\n"
    "    if i > 0:\n        A[0, 0] = x\n    x = 2.0",
    "in the arm of a later iteration": "x = T.alloc_var('float32')\nfor i in T.serial(2):\n"
    "    A[bx, i] = T.if_then_else(i > 0, x, 1.0)\n    x = 2.0",
    "a loop in a loop": "x = T.alloc_var('float32')\nfor i in T.serial(2):\n    for j in T.serial(2):\n"
    "        if i + j > 0:\n            A[0, 0] = x\n        x = 2.0",
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_may_be_assigned_is_run(name, tmp_path):
    program = kernel(tmp_path, ACCEPTED[name])
    for target in ("reference", "sim:sm_80", "cpu"):
        a = np.zeros((64, 8), np.float32)
        compiled = tilelang.compile(program, target=target)
        compiled(a, 1)
        assert (a == 2).any(), target


# A loop's body, and what it leaves in B: its bounds are what they were before its first turn.
BOUNDS = {
    "start": ("for k in range(v, 5):\n    B[n] = k\n    n += 1\n    v = 0", [2, 3, 4]),
    "start, and a step": ("for k in range(v, 7, 2):\n    B[n] = k\n    n += 1\n    v = 0", [2, 4, 6]),
    "step": ("for k in range(0, 6, v):\n    B[n] = k\n    n += 1\n    v = 1", [0, 2, 4]),
    "downwards": ("for k in range(5, v, -v):\n    B[n] = k\n    n += 1\n    v = 1", [5, 3]),
    "end": ("for k in range(v):\n    B[n] = k\n    n += 1\n    v = 7", [0, 1]),
    "element": ("for k in T.serial(A[0], 5):\n    B[n] = k\n    n += 1\n    A[0] = 0", [3, 4]),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_of_a_loop_that_its_body_changes(name, tmp_path):
    body, wanted = BOUNDS[name]
    body = f"v = T.alloc_var('int32', 2)\nn = T.alloc_var('int32', 0)\n{body}"
    main = kernel(
        tmp_path,
        body,
        "A: T.Tensor((8,), 'int32'), B: T.Tensor((8,), 'int32')",
        launch="T.Kernel(1, threads=1)",
    )
    for target in ("reference", "cpu", "sim:sm_80"):
        b = np.full(8, -1, np.int32)
        tilelang.compile(main, target=target)(np.arange(3, 11, dtype=np.int32), b)
        assert list(b) == wanted + [-1] * (8 - len(wanted)), target
