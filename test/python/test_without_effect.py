"""Statements that do nothing, loops without an iteration and lost assignments are warned of at their line."""

import warnings

import pytest
import tilelang
from helpers import FIRST_LINE, kernel

BEFORE = """\
import tilelang.language as T

@T.macro
def inc(v):
    v += 1

@T.macro
def put(v):
    v = v * 2

@T.macro
def put_in_branch(v, n):
    if n > 0:
        v = v * 2

@T.macro
def more(v):
    v += 1
    return v

@T.macro
def ref(v: T.Ref):
    v += 1

def listed(items):
    items.append(1)
    return items

"""
LOST = "the new value of v is lost: v is a parameter of this macro"
NONE, IDLE = "so has no iteration: ", "has no effect: "
WARNED = {
    "T.sync_threads": "`T.sync_threads` has no effect: a name alone calls nothing",
    "inc": "`inc` has no effect: a name alone calls nothing; a call is inc()",
    "A[1, 0] == A[0, 0]": "== compares; an assignment is A[1, 0] = A[0, 0]",
    "A[1, 0] != A[0, 0]": IDLE,
    "A[0, 0] * 2": "`A[0, 0] * 2` has no effect: nothing takes its value",
    "A[0, 0]": IDLE,
    "-n": IDLE,
    "not n": IDLE,
    "n > 0 and n < 4": IDLE,
    "(A[0, 0], n)": IDLE,
    "T.max(A[0, 0], 0.0)": "T.max(…) has no effect: it gives a value, and nothing takes it",
    "T.cast(n, 'float32')": "T.cast(…) has no effect",
    "T.Parallel(64)": "a loop is opened by a statement, `for i in T.Parallel(…):`",
    "for i in T.Pipelined(4, 2): A[i, 0] = 1.0": "is a keyword, T.Pipelined(4, num_stages=2)",
    "for i in T.serial(64, 0): A[i, 0] = 1.0": NONE + "to count down give a step, (64, 0, -1)",
    "for i in range(64, 0): A[i, 0] = 1.0": NONE + "to count down give a step",
    "for i in T.unroll(0, 64, -1): A[i, 0] = 1.0": NONE + "a step of -1 counts down",
    "for i in T.vectorized(4, 0): A[i, 0] = 1.0": NONE,
    "inc(A[0, 0])": LOST,
    "x = T.alloc_var('float32', 0.0)\ninc(x)": LOST,
    "put(A[0, 0])": LOST,
    "put_in_branch(A[0, 0], n)": LOST,
}


def told(folder, body):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernel(folder, body, before=BEFORE)
    return [w for w in caught if w.category is tilelang.TilelangWarning]


@pytest.mark.parametrize("body", list(WARNED))
def test_what_does_nothing(tmp_path, body):
    (said,) = told(tmp_path, body)
    assert WARNED[body] in str(said.message)
    in_macro = {"inc": 4, "put": 8, "put_in_branch": 13}
    lost = next(
        (line for name, line in in_macro.items() if WARNED[body] == LOST and f"{name}(" in body), None
    )
    assert said.lineno == (lost + 1 if lost else FIRST_LINE + BEFORE.count("\n") + body.count("\n"))


QUIET = [
    "'a text'",
    "...",
    "T.sync_threads()",
    "listed([])",
    "[listed([k]) for k in range(2)]",
    "A.shape[0] == 64 and T.sync_threads()",
    "T.sync_threads() if A.shape[0] == 64 else None",
    "T.atomic_add(A[0, 0], 1.0)",
    "more(A[0, 0])",
    "A[0, 0] = more(A[0, 0])",
    "ref(A[0, 0])",
    "inc(1)",
    "for i in T.serial(4, 4): A[i, 0] = 1.0",
    "for i in T.serial(4, 0, -1): A[i, 0] = 1.0",
    "for i in T.serial(n, 0): A[i, 0] = 1.0",
]


@pytest.mark.parametrize("body", QUIET)
def test_what_may_stand_there(tmp_path, body):
    assert not told(tmp_path, body)
