"""Random tile operators on arrays of several dimensions: each thread's own on GPUs; on the CPU, memory of any
kind.  All of them compute what NumPy says."""

import random

import numpy as np
import pytest
import tilelang
from helpers import load_text

PROGRAMS, STEPS = 32, 8
# How a dimension is folded, and how the result joins what was there (clear=False).
FOLDS = {
    "sum": (lambda x, d: x.sum(d), np.add),
    "max": (lambda x, d: x.max(d), np.maximum),
    "min": (lambda x, d: x.min(d), np.minimum),
    "abssum": (lambda x, d: np.abs(x).sum(d), np.add),
    "absmax": (lambda x, d: np.abs(x).max(d), np.maximum),
    "bitand": (lambda x, d: np.bitwise_and.reduce(x, d), np.bitwise_and),
    "bitor": (lambda x, d: np.bitwise_or.reduce(x, d), np.bitwise_or),
    "bitxor": (lambda x, d: np.bitwise_xor.reduce(x, d), np.bitwise_xor),
}


class Program:
    """Arrays X and Y of one shape, and one for each dimension that they are reduced along."""

    def __init__(self, rng):
        self.rng = rng
        self.shape = tuple(rng.randint(1, 5) for _ in range(rng.choice([2, 3, 3])))
        self.shapes = {"X": self.shape, "Y": self.shape}
        for d in range(len(self.shape)):
            self.shapes[f"R{d}"] = (*self.shape[:d], *self.shape[d + 1 :])
        self.lines, self.steps = [], []
        for _ in range(STEPS):
            rng.choice([self.fill, self.copy, self.copy, self.reduce, self.reduce, self.add])()

    def does(self, line, step):
        self.lines.append(line)
        self.steps.append(step)

    def part(self, name):
        """All of an array, or what one index of one dimension leaves; as text and as an index."""
        shape, rng = self.shapes[name], self.rng
        if rng.random() < 0.5 or len(shape) < 2:
            return name, (...,), shape
        d = rng.randrange(len(shape))
        at = rng.randrange(shape[d])
        text = ", ".join(str(at) if k == d else ":" for k in range(len(shape)))
        index = tuple(at if k == d else slice(None) for k in range(len(shape)))
        return f"{name}[{text}]", index, (*shape[:d], *shape[d + 1 :])

    def fill(self):
        name = self.rng.choice(list(self.shapes))
        text, at, _ = self.part(name)
        value = self.rng.choice([0, 7, -3])
        line = f"T.fill({text}, {value})" if value else f"T.clear({text})"
        self.does(line, lambda m: m[name].__setitem__((slice(None), *at), value))

    def copy(self):
        while True:
            source, target = self.rng.sample(list(self.shapes), 2)
            (one, at, shape), (other, to, wanted) = self.part(source), self.part(target)
            if shape == wanted:
                break
        self.does(
            f"T.copy({one}, {other})",
            lambda m: m[target].__setitem__((slice(None), *to), m[source][(slice(None), *at)]),
        )

    def reduce(self):
        name, kind, d = (
            self.rng.choice("XY"),
            self.rng.choice(list(FOLDS)),
            self.rng.randrange(len(self.shape)),
        )
        clear = self.rng.random() < 0.6
        fold, join = FOLDS[kind]

        def step(m):
            found = fold(m[name], d + 1)
            m[f"R{d}"][...] = found if clear else join(m[f"R{d}"], found)

        self.does(f"T.reduce_{kind}({name}, R{d}, dim={d}, clear={clear})", step)

    def add(self):
        index = ", ".join("ijk"[: len(self.shape)])
        loops = f"for {index} in T.grid({', '.join(map(str, self.shape))}):"
        self.does(
            f"{loops}\n            X[{index}] += Y[{index}] * 2 + 1",
            lambda m: m["X"].__iadd__(m["Y"] * 2 + 1),
        )

    def text(self, threads, scopes):
        tensors = {name: (threads, *shape) for name, shape in self.shapes.items()}
        params = ", ".join(f'{n}_: T.Tensor({s}, "int32")' for n, s in tensors.items())
        allocs = [
            f'{n} = T.alloc_{scopes[n]}({s if len(s) > 1 else f"({s[0]},)"}, "int32")'
            for n, s in self.shapes.items()
        ]
        here = "tx = T.get_thread_binding()" if threads > 1 else "tx = 0"
        loads = [f"T.copy({n}_[tx, {', '.join(':' * len(s))}], {n})" for n, s in self.shapes.items()]
        stores = [f"T.copy({n}, {n}_[tx, {', '.join(':' * len(s))}])" for n, s in self.shapes.items()]
        body = "\n        ".join([here, *allocs, *loads, *self.lines, *stores])
        return f"""
import tilelang.language as T

@T.prim_func
def main({params}):
    with T.Kernel(1, threads={threads}):
        {body}
"""


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_operators_on_own_arrays(tmp_path, seed):
    rng = random.Random(seed)
    program = Program(rng)
    of_threads = dict.fromkeys(program.shapes, "local")
    of_any_kind = {name: rng.choice(["local", "shared", "fragment"]) for name in program.shapes}
    for target, threads, scopes in [
        ("sim:sm_80", 32, of_threads),
        ("sim:sm_90a", 32, of_threads),
        ("reference", 1, of_any_kind),
        ("cpu", 1, of_any_kind),
    ]:
        text = program.text(threads, scopes)
        kernel = tilelang.compile(load_text(tmp_path, text).main, target=target)
        numbers = np.random.default_rng(seed)
        memory = {n: numbers.integers(-9, 10, (threads, *s), "i4") for n, s in program.shapes.items()}
        wanted = {n: x.copy() for n, x in memory.items()}
        for step in program.steps:
            step(wanted)
        kernel(*memory.values())
        for name, x in memory.items():
            np.testing.assert_array_equal(x, wanted[name], err_msg=f"{name} on {target}\n{text}")
