"""Tiles stored at places that a call, a tensor, a loop or a variable says, before, at and behind the edges of
their tensor: by the accelerator or by threads, what lies inside is stored, and nothing else is touched."""

import random

import numpy as np
import pytest
import tilelang
from helpers import load_text

TARGET = "sim:sm_90a"
PROGRAMS = 120
ROWS, COLUMNS, BLOCKS, TURNS = 16, 32, 2, 2

# Where the tile begins: what is added up, and what is made of it.
TERMS = ["p", "p", "tab[b]", "tab[b]", "p * b", "b * 16", "k * 8", "named", "kept", "place[0]", "p % 7",
         "q", 'T.cast(p, "int64") * 2147483648']  # fmt: skip
FORMS = ["{}", "{}", "{} - 4", "{} + 5", "T.max({}, b - 3)", "T.min({}, 6)", "({}) // 2", "({}) % 9 - 4",
         'T.cast({}, "int64")', "T.if_then_else(p > 0, {}, 1 - b)", "-({})"]  # fmt: skip
STORES = {
    "copy": ("float16", "T.copy(s, Y[{at}])"),
    "copy of a part": ("float16", "T.copy(s[0:{r}, :], Y[{at}])"),
    "copy under a condition": ("float16", "if p >= 0:\n        T.copy(s, Y[{at}])"),
    "atomic": ("float32", "T.atomic_add(Y[{at}], s, use_tma=True)"),
    "atomic of a fragment": ("float32", "T.atomic_add(Y[{at}], f, use_tma=True)"),
}


def place(rng):
    chosen = rng.sample(TERMS, rng.choice([1, 1, 2]))
    return rng.choice(FORMS).format(" + ".join(rng.choice(FORMS).format(t) for t in chosen))


def indices(rng, unit):
    """Of the rows and the columns, of which at least one is not known to lie inside."""
    rows, columns = place(rng), f"({place(rng)}) * {unit}"
    return rng.choice([(rows, columns), (rows, "0"), (rows, f"b * {unit}"), ("b * 8", columns)])


HEAD = """
import tilelang.language as T

@T.prim_func
def main(X: T.Tensor(({rows}, {columns}), "{dtype}"), tab: T.Tensor(({blocks},), "int32"), p: T.int32,
         q: T.uint32, Y: T.Tensor(({blocks}, {turns}, 24, 48), "{dtype}")):
    with T.Kernel({blocks}, threads=32) as b:
        s = T.alloc_shared(({rows}, {columns}), "{dtype}")
        f = T.alloc_fragment(({rows}, {columns}), "{dtype}")
        place = T.alloc_{scope}((1,), "int32")
        kept = T.alloc_var("int32")
        T.copy(X, s)
        T.copy(s, f)
        named = tab[b] - p
        kept = p + 2
        T.fill(place, p)
        k = 1
"""


def program(rng):
    kind = rng.choice(list(STORES))
    dtype, store = STORES[kind]
    rows, columns = indices(rng, 8 if dtype == "float16" else 4)
    shape = {"rows": ROWS, "columns": COLUMNS, "blocks": BLOCKS, "turns": TURNS}
    head = HEAD.format(**shape, dtype=dtype, scope=rng.choice(["shared", "fragment"]))
    line = store.format(at=f"b, k, {rows}, {columns}", r=rng.choice([8, 12, 15]))
    loop = rng.choice([f"for k in T.serial({TURNS}):", "if True:"])
    return dtype, f"{head}        {loop}\n            " + line.replace("\n", "\n        ")


def results(text, target, tmp_path, x, dtype):
    """Of several calls."""
    kernel = tilelang.compile(load_text(tmp_path, text).main, target=target)
    for p, tab in [(3, [0, 5]), (-3, [-7, 2]), (0, [-40, 30]), (-20, [1, -1])]:
        y = np.full((BLOCKS, TURNS, 24, 48), 7, dtype)
        kernel(x, np.array(tab, np.int32), p, 2, y)
        yield y


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_stores(tmp_path, seed):
    dtype, text = program(random.Random(seed))
    x = np.random.default_rng(seed).integers(1, 5, (ROWS, COLUMNS)).astype(dtype)
    wanted = results(text, "reference", tmp_path, x, dtype)
    for got, right in zip(results(text, TARGET, tmp_path, x, dtype), wanted, strict=True):
        assert np.array_equal(got, right), text
