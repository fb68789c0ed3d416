"""Operators from one part of a tile to another: apart they do what they do between two tiles; where only the
call tells, all is read first; where they certainly have elements in common they are refused."""

import random

import numpy as np
import pytest
import tilelang
from helpers import load_text

TARGETS = ("reference", "cpu", "sim:sm_80", "sim:sm_90a")
PROGRAMS = 80
SHAPE = (3, 20, 24)


def folded(fold):
    return lambda x: fold(x, 1)


# Of a part of m rows of n: what it becomes, and the shape of that.
OPERATORS = {
    "T.copy({a}, {b})": (lambda x: x, lambda m, n: (m, n)),
    "T.transpose({a}, {b})": (np.transpose, lambda m, n: (n, m)),
    "T.cumsum({a}, {b}, dim=1)": (folded(np.cumsum), lambda m, n: (m, n)),
    "T.cummax({a}, {b}, dim=1)": (folded(np.maximum.accumulate), lambda m, n: (m, n)),
    "T.cumsum({a}, {b}, dim=1, reverse=True)": (
        lambda x: np.cumsum(x[:, ::-1], 1)[:, ::-1], lambda m, n: (m, n)),
    "T.reduce_sum({a}, {b}, dim=1)": (lambda x: x.sum(1, keepdims=True), lambda m, n: (m, 1)),
}  # fmt: skip


def program(rng):
    """Its text, the operator, the slices, the call's p, and whether their distance is certain."""
    operator = rng.choice(list(OPERATORS))
    m, n = rng.randint(2, 10), rng.randint(2, 10)
    shapes = (m, n), OPERATORS[operator][1](m, n)
    scopes = ["shared", "shared", "fragment"] + ["local"] * ("cum" not in operator)
    scope = "shared" if "reduce" in operator else rng.choice(scopes)
    p = rng.randint(0, 2)
    parts, texts, names = [], [], []
    for shape in shapes:
        plane = rng.choice([0, 1, p])
        begin = [rng.choice([0, e - s, rng.randint(0, e - s)]) for s, e in zip(shape, SHAPE[1:], strict=True)]
        where, rows = str(plane), str(begin[0])
        if plane == p and rng.random() < 0.4:
            where = "p"
        elif rng.random() < 0.3:
            rows = f"q + {begin[0]}"
        parts.append((plane, slice(begin[0], begin[0] + shape[0]), slice(begin[1], begin[1] + shape[1])))
        names.append((where == "p", "q" in rows))  # q + 1 may wrap: what distance q + 2 has is not certain
        texts.append(f"D[{where}, {rows} : {rows} + {shape[0]}, {begin[1]} : {begin[1] + shape[1]}]")
    text = f"""
import tilelang.language as T

@T.prim_func
def main(X: T.Tensor({SHAPE}, "int32"), p: T.int32, q: T.int32, Y: T.Tensor({SHAPE}, "int32")):
    with T.Kernel(1, threads={rng.choice([32, 64, 96])}):
        D = T.alloc_{scope}({SHAPE}, "int32")
        T.copy(X, D)
        {operator.format(a=texts[0], b=texts[1])}
        T.copy(D, Y)
"""
    return text, operator, parts, p, names[0] == names[1] and not names[0][1]


def meet(a, b):
    marks = np.zeros(SHAPE, bool)
    marks[a] = True
    return bool(marks[b].any())


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_parts_of_a_tile(tmp_path, seed):
    text, operator, (a, b), p, certain = program(random.Random(seed))
    in_place = a == b and "transpose" not in operator
    if certain and meet(a, b) and not in_place:
        with pytest.raises(tilelang.CompileError, match="have elements in common"):
            load_text(tmp_path, text)
        return
    main = load_text(tmp_path, text).main
    x = np.random.default_rng(seed).integers(-99, 99, SHAPE).astype(np.int32)
    wanted = x.copy()
    wanted[b] = OPERATORS[operator][0](x[a])
    for target in TARGETS:
        y = np.full(SHAPE, 7, np.int32)
        tilelang.compile(main, target=target)(x, p, 0, y)
        assert np.array_equal(y, wanted), (target, text)
