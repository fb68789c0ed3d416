"""Random loops whose turns store to one tensor, at places that overlap from turn to turn: the later turn's
values stay, whichever threads store them."""

import random

import numpy as np
import pytest
import tilelang
from helpers import load_text

TURNS, WIDTH = 4, 32
PROGRAMS = 24


class Program:
    """`for k: store tile k at rows begin(k) …` of B, whose rows hold the numbers of the turns."""

    def __init__(self, seed):
        rng = self.rng = random.Random(seed)
        self.threads = rng.choice([32, 64, 96, 128])
        self.rows = rng.choice([3, 4, 7, 16, 64])
        self.step = rng.choice([1, 2, self.rows - 1, self.rows // 2, self.rows])
        self.n = rng.randint(2, TURNS)
        self.table = [rng.randrange(2 * self.rows) for _ in range(TURNS)]
        self.height = TURNS * max(self.step, 2) + 3 * self.rows
        place, self.begin = rng.choice(
            [
                (f"k * {self.step}", lambda k: k * self.step),
                (f"{TURNS * self.step} - k * {self.step}", lambda k: (TURNS - k) * self.step),
                (f"k % 2 * {self.step} + bx", lambda k: k % 2 * self.step),
                (f"k // 2 * {self.step}", lambda k: k // 2 * self.step),
                ("tab[k]", lambda k: self.table[k]),
                (f"v * {self.step}", lambda k: (k + 1) * self.step),
            ]
        )
        self.variable = place.startswith("v")
        self.store, self.tile = rng.choice([self.by_copy, self.by_parallel])(place)
        self.head, self.turns = rng.choice(
            [
                (f"for k in T.serial({TURNS}):", TURNS),
                ("for k in T.serial(n):", self.n),
                (f"for k in T.Pipelined({TURNS}, num_stages={rng.choice([0, 2])}):", TURNS),
                ("while k < n:", self.n),
            ]
        )

    def by_copy(self, place):
        text = f"T.copy({{tile}}, B[{place}, 0])"
        return text, lambda k: self.given[k]

    def by_parallel(self, place):
        i = self.rng.choice(["i", f"({self.rows - 1} - i)"])
        j = self.rng.choice(["j", f"({WIDTH - 1} - j)"])
        guard = self.rng.choice(["", f"if i + j > {self.rng.randrange(self.rows)}:\n    "])
        text = f"for i, j in T.Parallel({self.rows}, {WIDTH}):\n"
        body = f"{guard}B[{place} + {i}, {j}] = {{tile}}[i, j]"
        text += "\n".join("    " + line for line in body.split("\n"))
        least = int(guard.split(">")[1].split(":")[0]) if guard else -1
        rows, columns = np.indices((self.rows, WIDTH))

        def tile(k):
            from_i = rows if i == "i" else self.rows - 1 - rows
            from_j = columns if j == "j" else WIDTH - 1 - columns
            return np.where(from_i + from_j > least, self.given[k][from_i, from_j], np.nan)

        return text, tile

    def text(self):
        scope = self.rng.choice(["shared", "fragment"])
        lines = [f"T.copy(A[k, 0, 0], {scope})"]
        lines += ["v += 1"] * self.variable
        lines += self.store.format(tile=scope).split("\n")
        lines += ["k += 1"] * self.head.startswith("while")
        head = ["k = T.alloc_var('int32', init=0)"] * self.head.startswith("while") + [self.head]
        body = "\n        ".join(head + ["    " + line for line in lines])
        return f"""
import tilelang.language as T

@T.prim_func
def main(
    A: T.Tensor(({TURNS}, {self.rows}, {WIDTH}), "float32"),
    B: T.Tensor(({self.height}, {WIDTH}), "float32"),
    tab: T.Tensor(({TURNS},), "int32"),
    n: T.int32,
):
    with T.Kernel(1, threads={self.threads}) as bx:
        shared = T.alloc_shared(({self.rows}, {WIDTH}), "float32")
        fragment = T.alloc_fragment(({self.rows}, {WIDTH}), "float32")
        v = T.alloc_var("int32", init=0)
        {body}
"""

    def expected(self):
        B = np.zeros((self.height, WIDTH), np.float32)
        for k in range(self.turns):
            tile = self.tile(k)
            at = B[self.begin(k) : self.begin(k) + self.rows]
            at[:] = np.where(np.isnan(tile), at, tile)
        return B


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_turns_that_store_over_each_other(seed, tmp_path):
    program = Program(seed)
    text = program.text()
    main = load_text(tmp_path, text).main
    rng = np.random.default_rng(seed)
    program.given = rng.random((TURNS, program.rows, WIDTH), np.float32)
    table = np.array(program.table, np.int32)
    for target in ("cpu", "sim:sm_80", "sim:sm_90a"):
        B = np.zeros((program.height, WIDTH), np.float32)
        tilelang.compile(main, target=target)(program.given, B, table, program.n)
        np.testing.assert_array_equal(B, program.expected(), err_msg=f"{target}\n{text}")
