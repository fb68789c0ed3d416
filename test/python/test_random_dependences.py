"""Random statements that read, write and atomically update the same tensors and shared tiles in one block,
also under conditions on the block and on a number of the call: barriers and fences of the compiler order
them, and the result is what NumPy says."""

import random

import numpy as np
import pytest
import tilelang
from helpers import load_text

BLOCKS = 3
TENSORS, TILES = ("Z0", "Z1", "Z2"), ("s0", "s1")
PROGRAMS = 40


class Meanings:
    """What the functions of an index mean to NumPy."""

    min, max = staticmethod(np.minimum), staticmethod(np.maximum)
    if_then_else = staticmethod(np.where)


def gathered_from(index, count, n):
    return np.broadcast_to(eval(index, {"T": Meanings, "i": np.arange(count), "n": n}), (count,))


class Program:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.threads = self.rng.choice([1, 32, 64, 96, 128])
        self.n = self.rng.choice(
            [32, 32, 96, 256]
        )  # elements of a row: some, for each thread, one or several
        self.lines, self.steps = [], []
        for _ in range(self.rng.randint(4, 9)):
            self.statement(0)

    def statement(self, depth):
        kinds = [
            self.copy,
            self.part,
            self.permuted,
            self.gathered,
            self.tile_update,
            self.update,
            self.told,
            self.fill,
        ]
        kind = self.rng.choice(kinds + [self.loop, self.condition] * (depth < 2))
        kind(depth)

    def add(self, depth, text, step):
        self.lines += ["    " * depth + line for line in text.split("\n")]
        self.steps.append(step)

    def at(self, name, index):
        return f"{name}[bx, {index}]" if name in TENSORS else f"{name}[{index}]"

    def two(self):
        return self.rng.sample(TENSORS + TILES, 2)

    def copy(self, depth):
        a, b = self.two()
        whole = f"0:{self.n}"
        self.add(
            depth, f"T.copy({self.at(a, whole)}, {self.at(b, whole)})", lambda t: t[b].__setitem__(..., t[a])
        )

    def part(self, depth):
        a, b = self.two()
        n = self.rng.choice([4, 12, 16])
        i, j = (self.rng.randint(0, self.n - n) for _ in "ij")
        source, target = self.at(a, f"{i} : {i + n}"), self.at(b, f"{j} : {j + n}")
        text = f"T.copy({source}, {target})"
        self.add(depth, text, lambda t: t[b].__setitem__(slice(j, j + n), t[a][i : i + n]))

    def permuted(self, depth):
        a, b = self.two()
        factor, shift, times = (
            self.rng.choice([1, 5, 7, 11]),
            self.rng.randrange(self.n),
            self.rng.choice([0, 0, 3]),
        )
        index = (
            f"(i * {factor} + {shift} + n * {times}) % {self.n}"
            if times
            else f"(i * {factor} + {shift}) % {self.n}"
        )
        place = lambda t: (np.arange(self.n) * factor + shift + t["n"] * times) % self.n
        if self.rng.random() < 0.5:
            body, step = f"{self.at(b, index)} = {self.at(a, 'i')}", lambda t: (place(t), slice(None))
        else:
            body, step = f"{self.at(b, 'i')} = {self.at(a, index)}", lambda t: (slice(None), place(t))
        text = f"for i in T.Parallel({self.n}):\n    {body}"
        self.add(depth, text, lambda t: t[b].__setitem__(step(t)[0], t[a][step(t)[1]]))

    def gathered(self, depth):
        """Whatever place each element comes from, at once or by way of a fragment."""
        a, b = self.two()
        number, period = self.rng.randint(1, 9), self.rng.choice([2, 3, 4, 7, 8, self.n])
        form = self.rng.choice(
            ["i", "-i", "i // 2", "i // 3", "i ^ 1", "i & -4", "i * i", "T.min(i, 5)", "T.max(i, n)", "i + n",
             "T.if_then_else(i < 9, i, n)", "i % 3", "7", "n"]
        )  # fmt: skip
        index = f"({form} + {number}) % {period}"
        place = lambda t: gathered_from(index, self.n, t["n"])
        first, then = self.at(b, "i"), []
        if self.rng.random() < 0.5:
            first, then = "f[i]", [f"T.copy(f, {self.at(b, f'0:{self.n}')})"]
        loop = [f"for i in T.Parallel({self.n}):", f"    {first} = {self.at(a, index)}"]
        self.add(depth, "\n".join(loop + then), lambda t: t[b].__setitem__(..., t[a][place(t)]))

    def tile_update(self, depth):
        a, b = self.two()
        name, ufunc = self.rng.choice([("add", np.add), ("max", np.maximum), ("min", np.minimum)])
        tma = ", use_tma=True" if name == "add" and self.rng.random() < 0.3 else ""
        n = self.rng.choice([8, 20, self.n])
        i = self.rng.randint(0, self.n - n)
        source, target = (self.at(x, f"{i} : {i + n}") for x in (a, b))
        text = f"T.atomic_{name}({target}, {source}{tma})"
        part = slice(i, i + n)
        self.add(depth, text, lambda t: t[b].__setitem__(part, ufunc(t[b][part], t[a][part])))

    def update(self, depth):
        a, b = self.two()
        name, ufunc = self.rng.choice([("add", np.add), ("max", np.maximum), ("min", np.minimum)])
        factor, places = self.rng.choice([1, 3, 5]), self.rng.choice([1, 7, self.n])
        place = self.at(b, f"(i * {factor}) % {places}")
        text = f"for i in T.Parallel({self.n}):\n    T.atomic_{name}({place}, {self.at(a, 'i')})"
        to = (np.arange(self.n) * factor) % places
        self.add(depth, text, lambda t: ufunc.at(t[b], to, t[a].copy()))

    def told(self, depth):
        """Each element by one thread, so that what was there before is known."""
        a, b = self.two()
        name, ufunc = self.rng.choice([("add", np.add), ("max", np.maximum), ("min", np.minimum)])
        shift, value = self.rng.randrange(self.n), self.rng.randint(-9, 9)
        place = self.at(b, f"(i + {shift}) % {self.n}")
        text = (
            f"for i in T.Parallel({self.n}):\n"
            f"    {self.at(a, 'i')} = T.atomic_{name}({place}, {value}, return_prev=True)"
        )
        to = (np.arange(self.n) + shift) % self.n

        def step(t):
            t[a][:] = t[b][to]
            t[b][to] = ufunc(t[b][to], value)

        self.add(depth, text, step)

    def fill(self, depth):
        a, value = self.rng.choice(TENSORS + TILES), self.rng.choice([0, 3, -2])
        part = self.at(a, f"0:{self.n}")
        text = f"T.fill({part}, {value})" if value else f"T.clear({part})"
        self.add(depth, text, lambda t: t[a].__setitem__(..., value))

    def inner(self, depth, head):
        outer, self.steps = self.steps, []
        self.lines.append("    " * depth + head)
        for _ in range(self.rng.randint(1, 4)):
            self.statement(depth + 1)
        inner, self.steps = self.steps, outer
        return inner

    def loop(self, depth):
        turns = self.rng.randint(1, 3)
        inner = self.inner(depth, f"for k{depth} in T.serial({turns}):")
        self.steps.append(lambda t: [step(t) for _ in range(turns) for step in inner])

    def condition(self, depth):
        name, sign = self.rng.choice(["bx", "n"]), self.rng.choice(["==", "<", ">="])
        n = self.rng.randrange(BLOCKS)
        inner = self.inner(depth, f"if {name} {sign} {n}:")
        holds = {"==": int.__eq__, "<": int.__lt__, ">=": int.__ge__}[sign]
        self.steps.append(lambda t: [step(t) for step in inner if holds(t[name], n)])

    def text(self):
        body = "\n        ".join(self.lines)
        parameters = ", ".join(f'{z}: T.Tensor(({BLOCKS}, {self.n}), "int32")' for z in TENSORS)
        return f"""
import tilelang.language as T

@T.prim_func
def main({parameters}, n: T.int32):
    with T.Kernel({BLOCKS}, threads={self.threads}) as bx:
        s0, s1 = T.alloc_shared(({self.n},), "int32"), T.alloc_shared(({self.n},), "int32")
        f = T.alloc_fragment(({self.n},), "int32")
        T.fill(s0, 1)
        T.copy(Z0[bx, 0:{self.n}], s1)
        {body}
        T.copy(s0, Z1[bx, 0:{self.n}])
        T.atomic_add(Z2[bx, 0:{self.n}], s1)
"""


def run_by_numpy(program, row, bx, n):
    """What block bx does to its row of each tensor."""
    t = {**row, "s0": np.ones(program.n, np.int32), "s1": row["Z0"].copy(), "bx": bx, "n": n}
    for step in program.steps:
        step(t)
    t["Z1"][:] = t["s0"]
    t["Z2"] += t["s1"]


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_statements_of_one_block(seed, tmp_path):
    program = Program(seed)
    main = load_text(tmp_path, program.text()).main
    numbers, n = np.random.default_rng(seed), seed % BLOCKS
    given = {z: numbers.integers(-50, 50, (BLOCKS, program.n)).astype(np.int32) for z in TENSORS}
    wanted = {z: a.copy() for z, a in given.items()}
    for bx in range(BLOCKS):
        run_by_numpy(program, {z: a[bx] for z, a in wanted.items()}, bx, n)
    for target in ("cpu", "sim:sm_80", "sim:sm_90a"):
        tensors = [given[z].copy() for z in TENSORS]
        tilelang.compile(main, target=target)(*tensors, n)
        for z, got in zip(TENSORS, tensors, strict=True):
            np.testing.assert_array_equal(got, wanted[z], err_msg=f"{target}, {z}\n{program.text()}")
