"""A tile operator or a T.Parallel loop whose place the thread's number names: each thread does all of it."""

import numpy as np
import pytest
import tilelang
from helpers import kernel, load_text

ONE = 'X = T.alloc_local((1,), "int32"); X[0] = A[tx, 0]; '
FOUR = 'X = T.alloc_local((4,), "int32"); T.copy(A[tx, :], X); '
SHARED = 'S = T.alloc_shared((32, 4), "int32"); '


def columns(*which):
    def step(a, b):
        b[:, which] = a[:, which]

    return step


def everywhere(values):
    def step(a, b):
        b[...] = values(a)

    return step


CASES = {
    "one element": (ONE + "T.copy(X, B[tx, 0:1])", columns(0)),
    "of two dimensions": (
        'X = T.alloc_local((1, 1), "int32"); T.copy(A[tx : tx + 1, 0:1], X); T.copy(X, B[tx : tx + 1, 0:1])',
        columns(0),
    ),
    "an element's place": (ONE + "T.copy(X, B[tx, 0])", columns(0)),
    "a slice of one": (FOUR + "T.copy(X[2:3], B[tx, 2:3])", columns(2)),
    "an element of several": (FOUR + "T.copy(X[2], B[tx, 2])", columns(2)),
    "to a shared tile": (
        ONE + SHARED + "T.copy(X, S[tx, 0:1]); T.copy(S[:, 0:1], B[:, 0:1])",
        columns(0),
    ),
    "from a shared tile": (
        ONE + SHARED + "T.copy(A, S); T.copy(S[tx, 1:2], X); T.copy(X, B[tx, 1:2])",
        columns(1),
    ),
    "reduced to one": (
        FOUR + 'R = T.alloc_local((1,), "int32"); T.reduce_sum(X, R, dim=0); T.copy(R, B[tx, 0:1])',
        lambda a, b: b.__setitem__((..., 0), a.sum(1)),
    ),
    "fill and clear": (
        'X = T.alloc_local((1,), "int32"); T.fill(X, tx); T.copy(X, B[tx, 0:1]); '
        "T.clear(X); T.copy(X, B[tx, 1:2])",
        lambda a, b: b.__setitem__((..., 0), np.arange(32)),
    ),
    "an update of one": (ONE + "T.atomic_add(B[tx, 0:1], X)", columns(0)),
    "updates": (FOUR + "T.atomic_add(B[tx, :], X)", everywhere(lambda a: a)),
    "updates by the accelerator": (
        FOUR + "T.atomic_add(B[tx, :], X, use_tma=True)",
        everywhere(lambda a: a),
    ),
    "fill of a row": ("T.fill(B[tx, :], 5)", everywhere(lambda a: 5)),
    "fill of one by a variable": (ONE + "T.fill(B[tx, :], X[0])", everywhere(lambda a: a[:, :1])),
    "between tensors": ("T.copy(A[tx, :], B[tx, :])", everywhere(lambda a: a)),
    "between tensors and tiles": (
        SHARED + "T.copy(A[tx, :], S[tx, :]); T.copy(S[tx, :], B[tx, :])",
        everywhere(lambda a: a),
    ),
    "by a name": (
        FOUR + "r = 31 - tx; T.copy(A[r, :], X); T.copy(X, B[r, :])",
        everywhere(lambda a: a),
    ),
    "by a variable": (
        FOUR + 'r = T.alloc_var("int32"); r = tx; T.copy(X, B[r, :])',
        everywhere(lambda a: a),
    ),
    "a loop of one": (ONE + "\nfor i in T.Parallel(1):\n    B[tx, i] = X[i]", columns(0)),
    "a loop of one by a variable": (
        'v = T.alloc_var("int32"); v = A[tx, 0]; \nfor i in T.Parallel(1):\n    B[tx, i] = v',
        columns(0),
    ),
    "a loop of one value": (
        ONE + "\nfor i in T.Parallel(4):\n    B[tx, i] = X[0]",
        everywhere(lambda a: a[:, :1]),
    ),
    "a loop of updates": (
        FOUR + "\nfor i in T.Parallel(4):\n    T.atomic_add(B[tx, i], X[i])",
        everywhere(lambda a: a),
    ),
    "a loop under a condition": (
        "if tx < 32:\n    for i in T.Parallel(4):\n        B[tx, i] = A[tx, i]",
        everywhere(lambda a: a),
    ),
    "an operator under a condition": (
        ONE + "\nif tx % 3 < 3:\n    T.copy(X, B[tx, 0:1])",
        columns(0),
    ),
}  # fmt: skip


def program(text):
    body = text.replace("; ", "\n").replace("\n", "\n        ")
    return f"""
import tilelang.language as T

@T.prim_func
def main(A: T.Tensor((32, 4), "int32"), B: T.Tensor((32, 4), "int32")):
    with T.Kernel(1, threads=32):
        tx = T.get_thread_binding()
        {body}
"""


@pytest.mark.parametrize("target", ["sim:sm_80", "sim:sm_90a"])
@pytest.mark.parametrize("case", CASES)
def test_each_thread_does_all(tmp_path, case, target):
    text, step = CASES[case]
    a = np.random.default_rng(0).permutation(128).astype(np.int32).reshape(32, 4) + 1
    b, want = np.zeros_like(a), np.zeros_like(a)
    step(a, want)
    tilelang.compile(load_text(tmp_path, program(text)).main, target=target)(a, b)
    np.testing.assert_array_equal(b, want)


def test_what_no_number_names_is_done_once(tmp_path):
    """As in the reference: an array holds the same in every thread, and the operator is done once."""
    text = 'X = T.alloc_local((4,), "int32"); T.fill(X, 3); T.atomic_add(B[0, :], X)'
    for target in ("reference", "cpu", "sim:sm_80", "sim:sm_90a"):
        a, b = np.zeros((32, 4), np.int32), np.zeros((32, 4), np.int32)
        source = program(text).replace("tx = T.get_thread_binding()", "pass")
        tilelang.compile(load_text(tmp_path, source).main, target=target)(a, b)
        assert (b[0] == 3).all() and (b[1:] == 0).all(), target


@pytest.mark.parametrize(
    "copy", ["T.copy(A[tx, :], S)", "row = tx * 2\n    T.copy(A[row, :], F)", "T.copy(S2[tx, :], F)"]
)
def test_a_part_that_each_thread_names_for_what_all_have(tmp_path, copy):
    body = (
        "tx = T.get_thread_binding()\nS = T.alloc_shared((8,), 'float32')\n"
        "F = T.alloc_fragment((8,), 'float32')\nS2 = T.alloc_shared((64, 8), 'float32')\n"
        f"T.clear(S2)\nif True:\n    {copy}\nT.clear(S)"
    )
    main = kernel(tmp_path, body)
    with pytest.raises(
        tilelang.CompileError, match="all threads of the block work on one part of .* together"
    ):
        tilelang.compile(main, target="sim:sm_80")


@pytest.mark.parametrize(
    "lines",
    [
        "for i in T.Parallel(tx):\n    A[0, i] = 1",
        "for i, j in T.Parallel(2, tx // 8 + 1):\n    A[i, j] = 1",
        "T.copy(S[0 : tx + 1], A[0, 0 : tx + 1])",
        "T.fill(S[0 : tx + 1], 1)",
        "v = T.alloc_var('int32', init=2)\nif tx > 3:\n    v = 7\nfor i in T.Parallel(v):\n    A[0, i] = 1",
    ],
)
def test_how_many_elements_all_threads_divide(tmp_path, lines):
    """Each would take its part of another number; an extent that is the same in all threads may be computed
    from their numbers, and an array of a thread's own is cleared as far as each likes."""
    head = "tx = T.get_thread_binding()\nS = T.alloc_shared((64,), 'float32')\nT.clear(S)\n"
    with pytest.raises(tilelang.CompileError, match="depends on .*threads of the block, which must agree"):
        tilelang.compile(kernel(tmp_path, head + lines), target="sim:sm_80")
    own = "L = T.alloc_local((64,), 'float32')\nT.clear(L[0 : tx + 1])\nA[tx, 0] = L[0]"
    agreed = "for i in T.Parallel(tx // 64 + 4):\n    A[0, i] = 1"
    for body in (own, agreed):
        tilelang.compile(kernel(tmp_path, head + body), target="sim:sm_80")
