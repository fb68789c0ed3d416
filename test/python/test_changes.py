"""A list, dict, set or attribute that a loop or branch of the device would change once is refused at the
line; one that is made there may change.
"""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import FIRST_LINE, failure, kernel

BEFORE = """\
import collections
import numpy as np
import tilelang.language as T

HELD = []

class Plan:
    def __init__(self):
        self.parts = []

plan = Plan()

def fresh():
    return {"parts": [], "n": 0}

def held():
    return HELD

@T.macro
def put(into, x):
    own = []
    own.append(x)
    into.append(x)

"""
LINES = BEFORE.count("\n")
LOOPS = {name: f"for i in {text}:\n    " for name, text in {
    "range": "range(4)", "serial": "T.serial(4)", "parallel": "T.Parallel(4)", "unroll": "T.unroll(4)",
    "vectorized": "T.vectorized(4)", "pipelined": "T.Pipelined(4, num_stages=2)",
}.items()} | {"branch": "if A[0, 0] > 0:\n    ", "while": "while A[0, 0] > 0:\n    ",
              "otherwise": "if A[0, 0] > 0:\n    A[0, 0] = 0\nelse:\n    ",
              "Then": "with T.If(A[0, 0] > 0):\n  with T.Then():\n    "}  # fmt: skip


@pytest.mark.parametrize("loop", LOOPS)
def test_a_change_in_a_loop_of_the_device(tmp_path, loop):
    body = "xs = []\n" + LOOPS[loop] + "xs.append(1)"
    error = failure(tmp_path, body, before=BEFORE)
    assert "`.append(…)` changes a list of Python's" in error.text and "T.alloc_local" in error.text
    assert error.line == FIRST_LINE + LINES + body.count("\n")


# what is made before the loop, the change, what the message names
CHANGED = {
    "insert": ("x = [1]", "x.insert(0, 2)", "list"),
    "pop": ("x = [1]", "x.pop()", "list"),
    "next of a generator": ("x = (k for k in (1, 2))", "y = next(x)", "`next(…)` takes from a generator"),
    "next": ("x = iter([1, 2])", "y = next(x)", "`next(…)` takes from a list_iterator"),
    "sort": ("x = [2, 1]", "x.sort()", "list"),
    "item of a list": ("x = [1]", "x[0] = 2", "`[…] = …` changes a list"),
    "item is added to": ("x = {'n': 1}", "x['n'] += 1", "`[…] += …` changes a dict"),
    "key": ("x = {}", "x[1] = 2", "dict"),
    "update": ("x = {}", "x.update(n=2)", "dict"),
    "setdefault": ("x = {}", "x.setdefault('n', 2)", "dict"),
    "set": ("x = set()", "x.add(1)", "set"),
    "deque": ("x = collections.deque()", "x.append(1)", "deque"),
    "counter": ("x = collections.Counter()", "x['n'] += 1", "Counter"),
    "array": ("x = np.zeros(4)", "x[0] = 1", "ndarray"),
    "method of an array": ("x = np.zeros(4)", "x.fill(1)", "ndarray"),
    "of the file": ("", "HELD.append(1)", "list"),
    "given by a helper": ("", "held().append(1)", "list"),
    "in a list": ("x = [[1], [2]]", "x[0].append(1)", "list"),
    "of an object": ("", "plan.parts.append(1)", "list"),
    "in a comprehension": ("x = []", "y = [x.append(k) for k in (1, 2)]", "list"),
    "another name": ("x = []\ny = x", "y.append(1)", "list"),
    "attribute": ("", "plan.depth = 1", "the attribute depth changes in a loop"),
    "attribute of what a call made": ("x = Plan()", "x.depth = 1", "the attribute depth changes"),
}


@pytest.mark.parametrize("name", CHANGED)
def test_what_changes(tmp_path, name):
    first, change, part = CHANGED[name]
    body = f"{first}\nfor i in T.serial(4):\n    {change}".lstrip("\n")
    error = failure(tmp_path, body, before=BEFORE)
    assert part in error.text
    assert error.line == FIRST_LINE + LINES + body.count("\n")


def test_a_change_in_a_macro_is_told_at_its_line(tmp_path):
    error = failure(tmp_path, "xs = []\nfor i in T.serial(4):\n    put(xs, i)", before=BEFORE)
    assert error.line == LINES - 1 and ".append" in error.text


def test_a_list_of_one_loop_in_the_next(tmp_path):
    body = "for k in (0, 1):\n    if A[k, 0] > 0:\n        xs = [k]\n    if A[0, 1] > 0:\n        xs.pop()"
    assert "'xs' is bound under a condition" in failure(tmp_path, body, before=BEFORE).text


HARMLESS = """\
out = []
for k in [0, 1]:
    out.append(A[k, 0])
put(out, A[2, 0])
total = out[0] + out[1] + out[2]
for i in T.serial(4):
    a = []
    a.append(i)
    z = next(iter([i])) + next(k for k in (i, 1))
    a[0] = a[0] + 1
    b = fresh()
    b["parts"].append(2)
    b["n"] += 3
    c = Plan()
    c.parts.append(4)
    c.depth = 5
    d = [0] * 2
    d[1] = 6
    e = sorted([8, 7])
    e.append(9)
    f = [k for k in (1, 2)] + e[:]
    f.pop()
    g = {**b}
    g["m"] = 10
    if A[i, 0] > 100:
        h = {k for k in (1, 2)}
        h.add(3)
    A[i, 1] = a[0] + b["n"] + len(b["parts"]) + c.depth + d[1] + e[2] + len(f) + g["m"]
A[5, 1] = total
"""


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_what_is_made_in_the_loop_may_change(tmp_path, target):
    made = kernel(tmp_path, HARMLESS, before=BEFORE)
    a = np.zeros((64, 8), np.float32)
    a[:3, 0] = 1, 2, 3
    tilelang.compile(made, target=target)(a, 0)
    assert list(a[:6, 1]) == [i + 1 + 3 + 1 + 5 + 6 + 9 + 4 + 10 for i in range(4)] + [0, 6]


@tilelang.jit(target="cpu")
def eager(A):
    A: T.Tensor((4,), T.int32)
    seen = []
    with T.Kernel(1):
        for i in T.serial(4):
            seen.append(i)


@tilelang.jit(target="cpu")
def lazy():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        seen = []
        with T.Kernel(1):
            for i in T.serial(4):
                seen.append(i)

    return main


@pytest.mark.parametrize("build", [lambda: eager(np.zeros(4, np.int32)), lazy], ids=["eager", "lazy"])
def test_both_dialects(build):
    with pytest.raises(tilelang.CompileError, match=r"seen\.append\(i\)"):
        build()


def test_two_names_of_a_dict_are_one_dict(tmp_path):
    made = kernel(tmp_path, "d = {}\ne = d\ne['x'] = n + 1\nA[0, 0] = d['x']")
    assert "A[0, 0] = cast<f32>(" in made.text
