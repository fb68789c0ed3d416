"""Random statements that read, write and atomically update the same tensors and shared tiles in one block:
barriers and fences of the compiler order them, and the result is what NumPy says."""

import random

import numpy as np
import pytest
import tilelang
from helpers import load_text

N = 32
TENSORS, TILES = ("Z0", "Z1", "Z2"), ("s0", "s1")
PROGRAMS = 24


class Program:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.threads = self.rng.choice([1, 32, 64, 96, 128])
        self.lines, self.steps = [], []
        for _ in range(self.rng.randint(4, 9)):
            self.statement(0)

    def statement(self, depth):
        kinds = [self.copy, self.part, self.permuted, self.tile_update, self.update, self.fill]
        kind = self.rng.choice(kinds + [self.loop] * (depth == 0))
        kind(depth)

    def add(self, depth, text, step):
        self.lines += ["    " * depth + line for line in text.split("\n")]
        self.steps.append(step)

    def two(self):
        return self.rng.sample(TENSORS + TILES, 2)

    def copy(self, depth):
        a, b = self.two()
        self.add(depth, f"T.copy({a}, {b})", lambda t: t[b].__setitem__(..., t[a]))

    def part(self, depth):
        a, b = self.two()
        n = self.rng.choice([4, 12, 16])
        i, j = (self.rng.randint(0, N - n) for _ in "ij")
        text = f"T.copy({a}[{i} : {i + n}], {b}[{j} : {j + n}])"
        self.add(depth, text, lambda t: t[b].__setitem__(slice(j, j + n), t[a][i : i + n]))

    def permuted(self, depth):
        a, b = self.two()
        factor, shift = self.rng.choice([1, 5, 7, 11]), self.rng.randrange(N)
        to = (np.arange(N) * factor + shift) % N
        if self.rng.random() < 0.5:
            body, step = f"{b}[(i * {factor} + {shift}) % {N}] = {a}[i]", (to, slice(None))
        else:
            body, step = f"{b}[i] = {a}[(i * {factor} + {shift}) % {N}]", (slice(None), to)
        text = f"for i in T.Parallel({N}):\n    {body}"
        self.add(depth, text, lambda t: t[b].__setitem__(step[0], t[a][step[1]]))

    def tile_update(self, depth):
        a, b = self.two()
        name, ufunc = self.rng.choice([("add", np.add), ("max", np.maximum), ("min", np.minimum)])
        tma = ", use_tma=True" if name == "add" and self.rng.random() < 0.3 else ""
        n = self.rng.choice([8, 20, N])
        i = self.rng.randint(0, N - n)
        text = f"T.atomic_{name}({b}[{i} : {i + n}], {a}[{i} : {i + n}]{tma})"
        part = slice(i, i + n)
        self.add(depth, text, lambda t: t[b].__setitem__(part, ufunc(t[b][part], t[a][part])))

    def update(self, depth):
        a, b = self.two()
        name, ufunc = self.rng.choice([("add", np.add), ("max", np.maximum)])
        factor, places = self.rng.choice([1, 3, 5]), self.rng.choice([1, 7, N])
        text = f"for i in T.Parallel({N}):\n    T.atomic_{name}({b}[(i * {factor}) % {places}], {a}[i])"
        to = (np.arange(N) * factor) % places
        self.add(depth, text, lambda t: ufunc.at(t[b], to, t[a].copy()))

    def fill(self, depth):
        a, value = self.rng.choice(TENSORS + TILES), self.rng.choice([0, 3, -2])
        text = f"T.fill({a}, {value})" if value else f"T.clear({a})"
        self.add(depth, text, lambda t: t[a].__setitem__(..., value))

    def loop(self, depth):
        turns, outer = self.rng.randint(1, 3), self.steps
        self.lines.append(f"for k in T.serial({turns}):")
        self.steps = []
        for _ in range(self.rng.randint(1, 4)):
            self.statement(depth + 1)
        inner, self.steps = self.steps, outer
        self.steps.append(lambda t: [step(t) for _ in range(turns) for step in inner])

    def text(self):
        body = "\n        ".join(self.lines)
        parameters = ", ".join(f'{z}: T.Tensor(({N},), "int32")' for z in TENSORS)
        return f"""
import tilelang.language as T

@T.prim_func
def main({parameters}):
    with T.Kernel(1, threads={self.threads}):
        s0, s1 = T.alloc_shared(({N},), "int32"), T.alloc_shared(({N},), "int32")
        T.fill(s0, 1)
        T.copy(Z0, s1)
        {body}
        T.copy(s0, Z1)
        T.atomic_add(Z2, s1)
"""


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_statements_of_one_block(seed, tmp_path):
    program = Program(seed)
    main = load_text(tmp_path, program.text()).main
    given = {
        z: np.random.default_rng(seed + i).integers(-50, 50, N).astype(np.int32)
        for i, z in enumerate(TENSORS)
    }
    wanted = {
        name: given[name].copy() if name in TENSORS else np.ones(N, np.int32) for name in TENSORS + TILES
    }
    wanted["s1"] = wanted["Z0"].copy()
    for step in program.steps:
        step(wanted)
    wanted["Z1"], wanted["Z2"] = wanted["s0"], wanted["Z2"] + wanted["s1"]
    for target in ("cpu", "sim:sm_80", "sim:sm_90a"):
        tensors = [given[z].copy() for z in TENSORS]
        tilelang.compile(main, target=target)(*tensors)
        for z, got in zip(TENSORS, tensors, strict=True):
            np.testing.assert_array_equal(got, wanted[z], err_msg=f"{target}, {z}\n{program.text()}")
