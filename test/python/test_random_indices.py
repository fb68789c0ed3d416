"""Random indices below 0, known at run time: what counts from the end, as NumPy says, and what is padding."""

import itertools
import random

import numpy as np
import pytest
import tilelang
from helpers import in_turn, load_text

TARGETS = ("reference", "cpu", "sim:sm_80", "sim:sm_90a")
FAR = 10**6  # where a variable of one value would get to
SIZE = 24

PROGRAM = """
import tilelang.language as T
n = {n}
@T.prim_func
def main(A: T.Tensor((n,), "float32"), O: T.Tensor(({blocks}, {turns}, {lanes}, {width}), "float32")):
    with T.Kernel({blocks}, threads=32) as bx:
        S = T.alloc_{scope}(({width},), "float32")
        for k in {loop}:
            {name}
            {body}
"""
READ = """for i in T.Parallel({lanes}):
                O[bx, {turn}, i, 0] = -1
                {condition}O[bx, {turn}, i, 0] = A[{index}]"""
COPY = """T.copy(A[{index} : {index} + {width}], S)
            T.copy(S, O[bx, {turn}, 0, :])"""
BASE = """T.copy(A[{index}], S)
            T.copy(S, O[bx, {turn}, 0, :])"""


class Index:
    """A sum over bx, k and i; what it is for the values of these."""

    def __init__(self, rng, with_lanes):
        self.blocks, self.turns = rng.choice([1, 1, 2, 3]), rng.choice([1, 2, 3])
        self.lanes = rng.choice([1, 2, 4]) if with_lanes else 1
        self.start, self.step = rng.choice([(0, 1), (0, 1), (2, 1), (0, 2), (-6, 2), (-1, -1)])
        factors = [rng.choice([0, 1, 2, -1, -2, 4]) for _ in "bki"]
        self.name = rng.random() < 0.4
        self.k = rng.choice(["{}", "{}", "({} // 2)", "({} % 3)"]).format("k")
        parts = [
            f"{c} * {v}" for c, v in zip(factors, ("bx", "s" if self.name else self.k, "i"), strict=True)
        ]
        parts = parts if with_lanes else parts[:2]
        constant = rng.choice([-1, -1, -2, -8, -12, -SIZE, 0, 3])
        self.text = " + ".join(rng.sample([str(constant), *parts], len(parts) + 1))
        self.below = rng.choice([None, 1, max(1, self.lanes // 2)]) if with_lanes else None

    def turn_values(self):
        return [self.start + t * self.step for t in range(self.turns)]

    def at(self, bx, k, i):
        return eval(self.text, {"bx": bx, "k": k, "i": i, "s": eval(self.k, {"k": k})})

    def counts_from_end(self):
        """Is it below 0 for all values, and would it be for more of a variable that has only one?"""

        def values(all_of, first=0, step=1):
            return [*all_of, first + FAR * step] if len(all_of) == 1 and first >= 0 else list(all_of)

        turns = self.turn_values()
        if self.turns == 1 and self.start >= 0:
            turns.append(self.start + FAR * self.step)
        lanes = range(self.below) if self.below else values(range(self.lanes))
        return all(self.at(*v) < 0 for v in itertools.product(values(range(self.blocks)), turns, lanes))


def element(a, at, counted):
    at += len(a) if counted else 0
    return a[at] if 0 <= at < len(a) else 0


@pytest.mark.parametrize("seed", range(60))
def test_random_indices(seed, tmp_path):
    rng = random.Random(seed)
    form = rng.choice([READ, READ, READ, COPY, BASE])
    index, width = Index(rng, form is READ), 1 if form is READ else rng.choice([2, 4])
    loop = f"T.serial({index.start}, {index.start + index.turns * index.step}, {index.step})"
    turn = f"(k - {index.start}) // {index.step}"
    body = form.format(index=index.text, turn=turn, lanes=index.lanes, width=width,
                       condition=f"if i < {index.below}: " if index.below else "")  # fmt: skip
    text = PROGRAM.format(
        n=rng.choice([str(SIZE), 'T.dynamic("n")']), blocks=index.blocks, turns=index.turns,
        lanes=index.lanes, width=width, scope=rng.choice(["shared", "fragment"]), loop=loop, body=body,
        name=f"s = {index.k}" if index.name else "",
    )  # fmt: skip
    counted = index.counts_from_end()
    a = np.random.default_rng(seed).standard_normal(SIZE).astype(np.float32)
    shape = (index.blocks, index.turns, index.lanes, width)
    want = np.full(shape, -1, np.float32)
    for bx, (t, k), i, w in itertools.product(
        range(index.blocks), enumerate(index.turn_values()), range(index.below or index.lanes), range(width)
    ):
        want[bx, t, i, w] = element(a, index.at(bx, k, i) + w, counted)
    for target in in_turn(TARGETS, seed):
        got = np.full(shape, np.nan, np.float32)
        tilelang.compile(load_text(tmp_path, text).main, target=target)(a, got)
        np.testing.assert_array_equal(got, want, err_msg=f"{target}\n{text}")
