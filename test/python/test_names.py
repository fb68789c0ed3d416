"""Names of Python in a kernel: whose a name is, and what is said of one that is used too early or for what it is
not.
"""

import numpy as np
import pytest
import tilelang
from helpers import kernel

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


@pytest.mark.parametrize("function", [
    "def add(a, b):\n    return a + b + 0 * d\n",
    "def add(a, b, c=d):\n    return a + b\n",
    "add = lambda a, b, d=d: a + b\n",
    "def add(a, b):\n    c = lambda d: d\n    return a + b + 0 * d\n",
])
def test_what_a_nested_function_reads_of_the_kernel_still_counts(function, tmp_path):
    with pytest.raises(tilelang.CompileError, match="'d' is bound under a condition"):
        kernel(tmp_path, FOLD.format(function=function))
