"""When what a program writes is evaluated: values and bounds of a tile operator before it writes anything, an
arm of `and`, `or` and `a if c else b` where it is taken, an element that a name holds where that was made."""

import numpy as np
import pytest
import tilelang
from helpers import failure, kernel

TARGETS = ("reference", "cpu", "sim:sm_80", "sim:sm_90a")
SIGNATURE = "X: T.Tensor((64,), 'int32'), Y: T.Tensor((64,), 'int32')"
# X holds 0, 1, 2, …; s, of each scope, holds the same
BEFORE = "s = T.alloc_{}((64,), 'int32')\nT.copy(X, s)\n"
x = np.arange(64)
OPERATORS = {
    "fill": ("T.fill(s, s[4] + 1)", np.full(64, 5)),
    "part": ("T.fill(s[2:60], s[4] + 1)", np.where((x >= 2) & (x < 60), 5, x)),
    "clamp": ("T.clamp(s, s[4], s[7])", x.clip(4, 7)),
    "tensor": ("T.fill(X, X[4] + 1)\nT.copy(X, s)", np.full(64, 5)),
    "element of another": (
        "f = T.alloc_fragment((64,), 'int32')\nT.copy(X, f)\nT.fill(s, f[X[9]])",
        np.full(64, 9),
    ),
}


@pytest.mark.parametrize("scope", ["shared", "fragment"])
@pytest.mark.parametrize("name", OPERATORS)
def test_values_of_operators(name, scope, tmp_path):
    body, wanted = OPERATORS[name]
    main = kernel(
        tmp_path, f"{BEFORE.format(scope)}{body}\nT.copy(s, Y)", SIGNATURE, launch="T.Kernel(1, threads=32)"
    )
    for target in TARGETS:
        y = np.full(64, -1, np.int32)
        tilelang.compile(main, target=target)(x.astype(np.int32), y)
        np.testing.assert_array_equal(y, wanted, err_msg=target)


PARTS = {
    "source": ("T.copy(X[s[7] : s[7] + 32], s[0:32])", np.concatenate([x[7:39], x[32:]])),
    "destination": ("T.copy(X[0:32], s[s[7] : s[7] + 32])", np.concatenate([x[:7], x[:32], x[39:]])),
}


@pytest.mark.parametrize("name", PARTS)
def test_bounds_of_parts(name, tmp_path):
    body, wanted = PARTS[name]
    main = kernel(
        tmp_path,
        f"{BEFORE.format('shared')}{body}\nT.copy(s, Y)",
        SIGNATURE,
        launch="T.Kernel(1, threads=32)",
    )
    for target in TARGETS:
        y = np.full(64, -1, np.int32)
        tilelang.compile(main, target=target)(x.astype(np.int32), y)
        np.testing.assert_array_equal(y, wanted, err_msg=target)


UPDATE = "T.atomic_add(C[0], 1, return_prev=True)"
ARMS = {  # which of 64 iterations take the arm with the update
    "and": (f"if X[i] < 4 and {UPDATE} >= 0:\n        Y[i] = 1", 4, x < 4),
    "or": (f"if X[i] < 4 or {UPDATE} < 0:\n        Y[i] = 1", 60, x < 4),
    "several": (f"if X[i] > 1 and X[i] < 4 and {UPDATE} >= 0:\n        Y[i] = 1", 2, (x > 1) & (x < 4)),
    "if else": (f"Y[i] = T.min({UPDATE}, 0) if X[i] < 4 else 7", 4, np.where(x < 4, 0, 7)),
    "else": (f"Y[i] = 7 if X[i] < 4 else T.min({UPDATE}, 0)", 60, np.where(x < 4, 7, 0)),
    "nested": (
        f"Y[i] = (T.min({UPDATE}, 0) if X[i] < 2 else 5) if X[i] < 4 else 7",
        2,
        np.where(x < 2, 0, np.where(x < 4, 5, 7)),
    ),
    "no effect": ("if X[i] < 4 and X[63 - i] > 0:\n        Y[i] = 1", 0, x < 4),
    "inside a tile": (
        "if i < 16 and T.atomic_add(s[i], 1, return_prev=True) == 0:\n        Y[i] = 1",
        0,
        x < 16,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ARMS)
def test_arms_are_evaluated_where_they_are_taken(name, tmp_path):
    body, count, wanted = ARMS[name]
    body = (
        "s = T.alloc_shared((16,), 'int32')\nT.clear(s)\nfor i in T.Parallel(64):\n    Y[i] = 0\n"
        f"    {body}\nT.copy(s, Y[64:80])"
    )
    signature = "X: T.Tensor((64,), 'int32'), C: T.Tensor((1,), 'int32'), Y: T.Tensor((80,), 'int32')"
    main = kernel(tmp_path, body, signature, launch="T.Kernel(1, threads=32)")
    for target in TARGETS:
        c, y = np.zeros(1, np.int32), np.full(80, -1, np.int32)
        tilelang.compile(main, target=target)(x.astype(np.int32), c, y)
        assert c[0] == count, target
        np.testing.assert_array_equal(y[:64], wanted, err_msg=target)


def test_an_older_element_in_a_loop_that_changes_it(tmp_path):
    body = "kept = [A[1, 0]]\nfor k in T.serial(3):\n    A[k + 2, 0] = kept[0]\nA[0, 0] = 1"
    error = failure(tmp_path, body.rsplit("\n", 1)[0])
    assert (
        "an element of A was written down before this loop, and is used in it above this statement"
        in error.text
    )
    assert "give its value a name before the loop (x = A[...])" in error.text


def test_one_variable_for_two_names(tmp_path):
    assert "one T.alloc_var for several names" in failure(tmp_path, "v = w = T.alloc_var('int32', 0)").text


def test_defaults_of_a_function_are_evaluated_where_it_is_made(tmp_path):
    body = "b = T.alloc_var('int32', 2)\ndef h(p, q=b):\n    return p + q\nb = 5\nY[0] = h(X[1])"
    main = kernel(tmp_path, body, SIGNATURE, launch="T.Kernel(1, threads=1)")
    y = np.zeros(64, np.int32)
    tilelang.compile(main, target="reference")(x.astype(np.int32), y)
    assert y[0] == 3


MACROS = """
import tilelang.language as T

@T.macro
def after(c: T.Ref):
    c += 5
    return c

@T.macro
def both(a, b):
    return a * 100 + b
"""
OPERANDS = {  # of expressions with a macro that changes what stands left of it; c is 1 at first, Y[0] 3
    "sum": ("Y[1] = c + after(c)", 7),
    "expression": ("Y[1] = (c * 2 + 1) + after(c)", 9),
    "comparison": ("Y[1] = T.if_then_else(c < after(c), 1, 0)", 1),
    "variable": ("c += after(c)\nY[1] = c", 7),
    "element": ("Y[0] += after(Y[0])\nY[1] = Y[0]", 11),
    "place": ("Y[c] = 20\nY[c] += after(c)", 26),
    "elements": ("Y[1] = Y[0] * 2 + after(Y[0])", 14),
    "right side": ("Y[after(c) - 5] = c", 1),
    "argument": ("Y[1] = both(c + 0, after(c))", 106),
}


@pytest.mark.parametrize("name", OPERANDS)
def test_operands_are_read_from_the_left(name, tmp_path):
    body, wanted = OPERANDS[name]
    body = f"c = T.alloc_var('int32', 1)\nY[0] = 3\n{body}"
    main = kernel(tmp_path, body, SIGNATURE, before=MACROS, launch="T.Kernel(1, threads=1)")
    for target in TARGETS[:3]:
        y = np.full(64, -1, np.int32)
        tilelang.compile(main, target=target)(x.astype(np.int32), y)
        assert y[1] == wanted, target


def test_a_variable_as_an_argument_before_a_macro_that_changes_it(tmp_path):
    body = "c = T.alloc_var('int32', 1)\nY[0] = both(c, after(c))"
    with pytest.raises(tilelang.CompileError, match="give its value a name first"):
        kernel(tmp_path, body, SIGNATURE, before=MACROS)
