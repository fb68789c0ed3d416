"""Atomic updates where they stand: what is refused at its line, and how often threads and blocks do one."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import failure, kernel

SIM = "sim:sm_90"  # of the fixture `target`

SIGNATURE = "A: T.Tensor((64, 8), 'float32'), I: T.Tensor((64,), 'int8'), n: T.int32"


@pytest.mark.parametrize("body, words", [
    ("x = T.alloc_var('float32')\nT.atomic_add(x, 1.0)", "x is a variable"),
    ("T.atomic_add(I[0], 1)", "int32"),
    ("T.atomic_or(A[0, 0], 1)", "takes an integer element"),
    ("T.atomic_add(A[0, 0], 1.0, memory_order='strong')", "cannot be `strong`"),
    ("T.atomic_load(A[0, 0], 'release')", "cannot be `release`"),
    ("T.atomic_store(A[0, 0], 1.0, 'acquire')", "cannot be `acquire`"),
    ("x = T.alloc_shared((4, 4), 'float32')\nT.atomic_add(A[0:4, 0:8], x)", "shapes must be equal"),
    ("x = T.alloc_shared((4, 4), 'float32')\nold = T.atomic_add(A[0:4, 0:8], x, return_prev=True)",
     "must be equal"),
    ("T.atomic_add(A[64, 0], 1.0)", "outside"),
])  # fmt: skip
def test_errors(tmp_path, body, words):
    error = failure(tmp_path, body, signature=SIGNATURE)
    assert words in str(error)
    assert error.line == 4 + len(body.splitlines())


BLOCKS, THREADS = 4, 32  # of `kernel`
ONCE_EACH = "T.atomic_add(C[0], 1)", "for k in T.serial(2):\n    T.atomic_add(C[0], 1)"
ONCE_PER_BLOCK = "for _ in T.Parallel(1):\n    T.atomic_add(C[0], 1)", "T.atomic_max(C[0], 4)"


def counted(tmp_path, body, target):
    main = kernel(tmp_path, body, signature="C: T.Tensor((1,), 'int32')")
    c = np.zeros(1, np.int32)
    tilelang.compile(main, target=target)(c)
    return c[0] // BLOCKS


@pytest.mark.parametrize("body", ONCE_EACH)
def test_what_each_thread_does_is_not_done_once(tmp_path, body):
    """Outside of parallel loops every thread runs a statement; one per block would be another result."""
    for target in "cpu", "reference":
        with pytest.raises(tilelang.CompileError, match="not in a T.Parallel loop") as caught:
            counted(tmp_path, body, target)
        assert caught.value.line == 4 + len(body.splitlines())
    times = body.count("serial") + 1
    assert counted(tmp_path, body, "sim:sm_90") == times * THREADS


@pytest.mark.parametrize("body", ONCE_PER_BLOCK)
def test_what_is_done_once_per_block(tmp_path, body, target):
    assert counted(tmp_path, body, target) == 1


def test_an_unused_old_value_still_counts(tmp_path):
    main = kernel(
        tmp_path, "for i in T.Parallel(64):\n    unused = T.atomic_add(A[i, 0], 1.0, return_prev=True)\n"
    )
    a = np.zeros((64, 8), np.float32)
    for target in ("sim:sm_80", "sim:sm_90", "cpu", "reference"):
        tilelang.compile(main, target=target)(a, 0)
    assert (a[:, 0] == 16).all()


def test_an_update_is_a_statement_wherever_it_stands():
    @T.macro
    def add_to(place: T.Ref, value):
        return T.atomic_add(place, value)

    @T.prim_func
    def main(B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(128):
                T.evaluate(T.atomic_add(B[i], 1.0))
                _ = T.atomic_add(B[i], 1.0)
                add_to(B[i], 2.0)
                _ = [T.atomic_add(B[i], 1.0) for _ in range(2)]

    b = np.zeros(128, np.float32)
    tilelang.compile(main, target="cpu")(b)
    assert (b == 6).all()


WHOLE = "all of {0}, of shape (64, 8), which each iteration of this T.Parallel would update by one value: an "


@pytest.mark.parametrize("value", ["A[i, 0]", "1.0", "n", "A[i, 0] * 2"])
@pytest.mark.parametrize("what, named", [("A", "A"), ("S", "S")])
def test_a_whole_tile_by_one_value_of_each_iteration(tmp_path, what, named, value):
    """Each iteration would have updated all elements."""
    body = "S = T.alloc_shared((64, 8), 'float32')\nfor i in T.Parallel(64):\n    T.atomic_add({}, {})"
    error = failure(tmp_path, body.format(what, value), signature=SIGNATURE)
    assert WHOLE.format(named) + f"element is {named}[i, j]" in error.text and error.line == 7


@pytest.mark.parametrize("body", [
    "for i in T.Parallel(64):\n    T.atomic_add(C, 1)",  # a counter, the one element of its tensor
    "for k in T.serial(64):\n    T.atomic_add(C[0:1], 1)",
])  # fmt: skip
def test_one_value_for_a_tile_of_one_element(tmp_path, body, target):
    assert counted(tmp_path, body, target) == 64
