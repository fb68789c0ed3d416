"""Random products and atomic updates on the CPU, whose tiles are in memory of any kind: what NumPy says."""

import random

import numpy as np
import pytest
import tilelang
from helpers import load_text

PROGRAMS, STEPS = 16, 6
UPDATES = {"add": np.add, "max": np.maximum, "min": np.minimum}


class Program:
    """C and D, (m, n), take the products of A and B, and values atomically."""

    def __init__(self, rng):
        self.rng = rng
        self.m, self.n, self.k = (rng.choice([1, 2, 3, 5, 8]) for _ in range(3))
        m, n, k = self.m, self.n, self.k
        self.turned = rng.random() < 0.5, rng.random() < 0.5  # A, B
        self.shapes = {
            "A": (k, m) if self.turned[0] else (m, k),
            "B": (n, k) if self.turned[1] else (k, n),
            "C": (m, n),
            "D": (m, n),
        }
        self.lines, self.steps = [], []
        for _ in range(STEPS):
            rng.choice([self.product, self.product, self.update, self.update_each, self.copy])()

    def does(self, line, step):
        self.lines.append(line)
        self.steps.append(step)

    def product(self):
        name, clear = self.rng.choice("CD"), self.rng.random() < 0.3
        ta, tb = self.turned

        def step(t):
            a, b = t["A"].T if ta else t["A"], t["B"].T if tb else t["B"]
            t[name][...] = a @ b + (0 if clear else t[name])

        self.does(f"T.gemm(A, B, {name}, transpose_A={ta}, transpose_B={tb}, clear_accum={clear})", step)

    def update(self):
        """Of a whole tile, or of some of its rows, which may be one."""
        target, source = self.rng.sample("CD", 2)
        kind = self.rng.choice(list(UPDATES))
        low = self.rng.randrange(self.m)
        rows = slice(low, self.rng.randint(low + 1, self.m))
        text = f"{rows.start}:{rows.stop}, :"

        def step(t):
            t[target][rows] = UPDATES[kind](t[target][rows], t[source][rows])

        self.does(f"T.atomic_{kind}({target}[{text}], {source}[{text}])", step)

    def update_each(self):
        """Several iterations to one element."""
        target, source = self.rng.sample("CD", 2)
        kind, row = self.rng.choice(list(UPDATES)), self.rng.randrange(self.m)

        def step(t):
            for i in range(self.m):
                t[target][row] = UPDATES[kind](t[target][row], t[source][i])

        loops = f"for i, j in T.Parallel({self.m}, {self.n}):"
        self.does(f"{loops}\n            T.atomic_{kind}({target}[{row}, j], {source}[i, j])", step)

    def copy(self):
        target, source = self.rng.sample("CD", 2)
        low, high = self.rng.choice([(-9, 9), (0, 5)])
        self.does(
            f"for i, j in T.Parallel({self.m}, {self.n}):\n"
            f"            {target}[i, j] = T.clamp({source}[i, j], {low}, {high})",
            lambda t: t[target].__setitem__(..., np.clip(t[source], low, high)),
        )

    def text(self):
        params = ", ".join(f'{name}_: T.Tensor({s}, "float32")' for name, s in self.shapes.items())
        allocs = [
            f'{name} = T.alloc_{self.rng.choice(["local", "shared", "fragment"])}({s}, "float32")'
            for name, s in self.shapes.items()
        ]
        loads = [f"T.copy({name}_, {name})" for name in self.shapes]
        stores = [f"T.copy({name}, {name}_)" for name in "CD"]
        body = "\n        ".join([*allocs, *loads, *self.lines, *stores])
        return f"""
import tilelang.language as T

@T.prim_func
def main({params}):
    with T.Kernel(1, threads=32):
        {body}
"""


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_products_and_updates_in_any_memory(tmp_path, seed):
    program = Program(random.Random(seed))
    text = program.text()
    for target in ("reference", "cpu"):
        numbers = np.random.default_rng(seed)
        given = {name: numbers.integers(-2, 3, s).astype(np.float32) for name, s in program.shapes.items()}
        wanted = {name: x.astype(np.float64) for name, x in given.items()}
        for step in program.steps:
            step(wanted)
        tilelang.compile(load_text(tmp_path, text).main, target=target)(*given.values())
        for name in "CD":
            np.testing.assert_array_equal(given[name], wanted[name], err_msg=f"{name} on {target}\n{text}")
