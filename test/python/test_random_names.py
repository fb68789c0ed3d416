"""Random programs that bind names again and again: what a kernel accepts means what Python's own run of the
same text gives; the rest is refused in words that name the cure."""

import random
import re
import textwrap

import numpy as np
import pytest
import tilelang
from helpers import kernel

N = 12
SIGNATURE = f"A: T.Tensor(({N},), 'int32'), B: T.Tensor(({N},), 'int32')"
REFUSALS = re.compile(
    "changes from one iteration to the next|is bound inside a loop|is bound under a condition|has no value "
    "here|is used before it is bound|is a variable, but this loop binds|nothing has been assigned to this|"
    "here the name is bound anew|was written down before"
)
FIRST = "x = 1\ny = A[3]\nkept = (x, A[1])\nv = T.alloc_var('int32', 5)\nw = T.alloc_var('int32', 6)\n"


class Program:
    """One random body, of names x, y, z, kept, variables v, w and loops."""

    def __init__(self, seed):
        self.rng, self.indices, self.loops = random.Random(seed), [], 0
        last = self.rng.choice(["B[0] = (x + y) % 1009\n", "B[0] = x\n", ""])
        first = FIRST + "z = 2\n" * (self.rng.random() < 0.8)
        self.text = first + self.block(3) + last + "B[1] = v\nB[2] = w\n"

    def name(self):
        return self.rng.choice("xyzvw" + "".join(self.indices))

    def value(self):
        a, b = self.name(), self.name()
        forms = (
            a,
            f"({a} + {b}) % 1009",
            f"A[{a} % {N}]",
            f"kept[{self.rng.randrange(2)}]",
            f"({a} * 3 + {self.rng.randrange(9)}) % 1009",
            "7",
        )
        return self.rng.choice(forms)

    def block(self, depth):
        return "".join(self.statement(depth) for _ in range(self.rng.randint(1, 4)))

    def statement(self, depth):
        kind = self.rng.randrange(12 if depth else 7)
        target = self.rng.choice("xyzvw")
        if kind < 3:
            return f"{target} = {self.value()}\n"
        if kind == 3:
            return f"{target} += {self.rng.randrange(5)}\n"
        if kind == 4 and self.rng.random() < 0.5:
            return f"kept = ({self.value()}, B[({self.name()}) % {N}])\n"
        if kind == 4:
            return f"x, y = {self.name()}, {self.name()}\n"
        if kind < 7:
            place = self.rng.choice([*self.indices, "1"])
            return f"B[3 + ({place} + {self.rng.randrange(9)}) % {N - 3}] = {self.value()}\n"
        if kind == 7:
            return f"if {self.rng.choice(['1 > 2', '2 > 1'])}:\n" + self.inner(depth)
        if kind == 8:
            other = "else:\n" + self.inner(depth) if self.rng.random() < 0.5 else ""
            return f"if A[{self.rng.randrange(N)}] > {self.rng.randrange(9)}:\n" + self.inner(depth) + other
        self.loops += 1
        index = self.rng.choice("ijxv" if kind == 9 else "ij")
        taken = index in self.indices
        self.indices += [] if taken else [index]
        loop = self.rng.choice(["range(3)", "range(1, 3)", "(4, 7)", *self.bounds()])
        made = f"for {index} in {loop}:\n" + self.inner(depth)
        if not taken:
            self.indices.remove(index)
        return made

    def bounds(self):
        """Of loops whose bounds read what their bodies may change."""
        place = f"B[{self.rng.randrange(3, N)}]"
        start, other = self.rng.choice(["v", "w", place]), self.rng.choice(["v", "w", place])
        return (
            f"range({start}, {start} + {other} % 5)",
            f"range({start}, {start} + 6, {other} % 3 + 1)",
            f"range({start}, {start} - {other} % 5, -1)",
        )

    def inner(self, depth):
        return textwrap.indent(self.block(depth - 1), "    ")


class PlainT:
    """What the text means to Python."""

    @staticmethod
    def alloc_var(dtype, init):
        return init


def run_by_python(text, a):
    b = [-1] * N
    try:
        exec(
            "def main(A, B, T):\n" + textwrap.indent(text, "    ") + "main(A, B, T)",
            {"A": a, "B": b, "T": PlainT},
        )
    except NameError:
        return None
    return b


@pytest.mark.parametrize("part", range(4))
def test_what_is_accepted_means_what_python_means(part, tmp_path):
    a = [int(x) for x in np.random.default_rng(part).integers(0, 9, N)]
    accepted = 0
    for seed in range(part * 60, part * 60 + 60):
        text = Program(seed).text
        expected = run_by_python(text, a)
        try:
            main = kernel(tmp_path, text, signature=SIGNATURE, launch="T.Kernel(1, threads=1)")
        except tilelang.CompileError as error:
            assert REFUSALS.search(error.text), (text, error)
            continue
        except NameError as error:  # Python's own words on a name that nothing binds, be it never reached
            assert str(error) == "name 'z' is not defined", text
            continue
        assert expected is not None, text
        b = np.full(N, -1, np.int32)
        tilelang.compile(main, target=("reference", "cpu", "sim:sm_80")[seed % 3])(np.array(a, np.int32), b)
        assert list(b) == expected, text
        accepted += 1
    assert accepted >= 10
