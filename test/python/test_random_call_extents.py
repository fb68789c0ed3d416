"""Random operators on tiles whose extents only the call knows, and on parts of them: what NumPy says."""

import random

import numpy as np
import pytest
import tilelang
from helpers import load_text

PROGRAMS = 12
BLOCKS, STEPS = 3, 7


class Program:
    """Tiles X and Y, (m, width), whose m comes with the call, and each block's length n = L[bx] <= m."""

    def __init__(self, rng):
        self.rng, self.width = rng, rng.choice([4, 8, 16, 24])
        self.lines, self.steps = [], []
        for _ in range(STEPS):
            rng.choice([self.fill, self.copy, self.copy, self.add, self.turn])()

    def part(self):
        """The beginning and the end of rows, as text and by m and n; the length of the part, by a name."""
        return self.rng.choice([
            ("0", "m", lambda m, n: slice(0, m), "m"),
            ("0", "n", lambda m, n: slice(0, n), "n"),
            ("m - n", "m", lambda m, n: slice(m - n, m), "n"),
            ("n", "m", lambda m, n: slice(n, m), "m - n"),
            ("0", "m - n", lambda m, n: slice(0, m - n), "m - n"),
            ("n // 2", "n", lambda m, n: slice(n // 2, n), "n - n // 2"),
        ])  # fmt: skip

    def columns(self):
        low = self.rng.choice([0, 0, 3])
        return low, self.rng.choice([self.width, self.width, low + 1])

    def fill(self):
        name, value = self.rng.choice("XY"), self.rng.choice([0, 5, -2])
        (low, high, rows, _), (a, b) = self.part(), self.columns()
        text = f"{name}[{low}:{high}, {a}:{b}]"
        self.lines.append(f"T.fill({text}, {value})" if value else f"T.clear({text})")
        self.steps.append(lambda t, m, n: t[name].__setitem__((rows(m, n), slice(a, b)), value))

    def copy(self):
        source, target = self.rng.sample("XY", 2)
        one = self.part()
        other = self.part()
        while other[3] != one[3]:
            other = self.part()
        a, b = self.columns()
        self.lines.append(
            f"T.copy({source}[{one[0]}:{one[1]}, {a}:{b}], {target}[{other[0]}:{other[1]}, {a}:{b}])"
        )

        def step(t, m, n):
            t[target][other[2](m, n), a:b] = t[source][one[2](m, n), a:b]

        self.steps.append(step)

    def add(self):
        self.lines.append(f"for i, j in T.Parallel(m, {self.width}):\n            X[i, j] += Y[i, j] * 2 + 1")
        self.steps.append(lambda t, m, n: t["X"].__iadd__(t["Y"] * 2 + 1))

    def turn(self):
        self.lines.append(
            f"for i, j in T.Parallel(m, {self.width}):\n            Y[i, j] = X[m - 1 - i, j] + n"
        )
        self.steps.append(lambda t, m, n: t["Y"].__setitem__(..., t["X"][::-1] + n))

    def text(self):
        body = "\n        ".join(self.lines)
        shape = f'T.Tensor(({BLOCKS}, m, {self.width}), "float32")'
        return f"""
import tilelang.language as T
m = T.dynamic("m")

@T.prim_func
def main(L: T.Tensor(({BLOCKS},), "int32"), A: {shape}, B: {shape}):
    T.assume(m <= 16)
    with T.Kernel({BLOCKS}, threads=32) as bx:
        X, Y = T.alloc_shared((m, {self.width}), "float32"), T.alloc_shared((m, {self.width}), "float32")
        n = L[bx]
        T.copy(A[bx, :, :], X)
        T.copy(B[bx, :, :], Y)
        {body}
        T.copy(X, A[bx, :, :])
        T.copy(Y, B[bx, :, :])
"""


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_tiles_of_the_extents_of_a_call(tmp_path, seed):
    rng = random.Random(seed)
    program = Program(rng)
    calls = [[m, *(rng.choice([0, 1, m, rng.randint(0, m)]) for _ in range(BLOCKS))] for m in (1, 13, 16)]
    numbers = np.random.default_rng(seed)
    main = load_text(tmp_path, program.text()).main
    for target in ("cpu", "sim:sm_80", "sim:sm_90a"):
        kernel = tilelang.compile(main, target=target)
        for m, *lengths in calls:
            a, b = (numbers.integers(-9, 10, (BLOCKS, m, program.width)).astype(np.float32) for _ in "XY")
            wanted = [
                {"X": x.astype(np.float64), "Y": y.astype(np.float64)} for x, y in zip(a, b, strict=True)
            ]
            for tiles, n in zip(wanted, lengths, strict=True):
                for step in program.steps:
                    step(tiles, m, n)
            kernel(np.array(lengths, np.int32), a, b)
            said = f"{target}, seed {seed}, m = {m}, n = {lengths}\n{program.text()}"
            for got, name in ((a, "X"), (b, "Y")):
                np.testing.assert_array_equal(got, [tiles[name] for tiles in wanted], err_msg=said)
