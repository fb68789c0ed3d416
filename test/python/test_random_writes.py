"""Random nests of T.Parallel: where two iterations write different values to one element, the program is
refused and the error names two that do; otherwise all targets compute what the loops say."""

import itertools
import random
import re

import numpy as np
import pytest
import tilelang
from helpers import load_text

TARGETS = ["reference", "cpu", "sim:sm_80", "sim:sm_90a"]
PROGRAMS, AT_ONCE = 320, 40


def number(rng, names):
    """Of the loops: an index, a part of a value."""
    name = rng.choice(names)
    return rng.choice(
        [
            "0",
            name,
            name,
            f"{name} + {rng.randint(1, 3)}",
            f"{name} * {rng.randint(2, 4)} + {rng.choice(names)}",
            f"{rng.choice(names)} + {name}",
            f"{name} // {rng.randint(2, 3)}",
            f"{name} % {rng.randint(2, 4)}",
            f"{name} * 2 + {rng.randint(0, 1)}",
            f"({name} * 3 + {rng.choice(names)}) // 2",
            f"{name} ^ {rng.randint(1, 3)}",
            f"7 - {name}",
        ]
    )


def digits(rng, names, extents):
    """One number of all loops, of which two iterations have the same where a stride is too small."""
    text = names[0]
    for name, extent in zip(names[1:], extents[1:], strict=True):
        text = f"({text}) * {max(1, extent + rng.choice([-1, 0, 0, 1]))} + {name}"
    return text


def store(rng, names, extents):
    """Its index, its value as what is read from A (None: nothing) and what is added, its condition."""
    index = [number(rng, names) for _ in range(rng.choice([1, 2, 2]))]
    if rng.random() < 0.6:  # mostly each iteration's own
        index = rng.choice([[*names], [*names[:-1], f"{names[-1]} // 2"], [digits(rng, names, extents)]])
    way = rng.random()
    read = None if way < 0.35 else number(rng, names)
    if way > 0.85:
        read = index[-1]
    added = rng.choice(["3", "0", number(rng, names)]) if read is None else "0"
    when = rng.choice([None, None, None, f"{number(rng, names)} < 3", f"{number(rng, names)} == 1"])
    return index, read, added, when


class Program:
    def __init__(self, rng):
        self.names = ["i", "j", "k"][: rng.choice([1, 2, 2, 3])]
        self.extents = [rng.choice([2, 3, 4, 8]) for _ in self.names]
        first = store(rng, self.names, self.extents)
        self.stores = [first]
        if rng.random() < 0.4:
            index, read, added, when = store(rng, self.names, self.extents)
            if len(index) != len(first[0]) or rng.random() < 0.5:
                index = [*first[0][:-1], f"{first[0][-1]} + {rng.randint(0, 4)}"]
            self.stores.append((index, read, added, when))

    def shape(self):
        """Room for every index, also under a condition that never holds."""
        reached = [
            [eval(x, {}, dict(zip(self.names, at, strict=True))) for x in index]
            for at in itertools.product(*map(range, self.extents))
            for index, *_ in self.stores
        ]
        return tuple(max(along) + 1 for along in zip(*reached, strict=True))

    def run(self):
        """What is written to each element: {element: [(iteration, (index of A, number))]}."""
        written = {}
        for iteration in itertools.product(*map(range, self.extents)):
            at = dict(zip(self.names, iteration, strict=True))
            for index, read, added, when in self.stores:
                if when is None or eval(when, {}, at):
                    element = tuple(eval(x, {}, at) for x in index)
                    value = (None if read is None else eval(read, {}, at), eval(added, {}, at))
                    written.setdefault(element, []).append((iteration, value))
        return written

    def text(self, shape):
        lines = []
        for index, read, added, when in self.stores:
            value = added if read is None else f"A[{read}]"
            line = f"{{C}}[{', '.join(index)}] = {value}"
            lines += [f"if {when}:", f"    {line}"] if when else [line]
        loops = f"for {', '.join(self.names)} in T.Parallel({', '.join(map(str, self.extents))}):"
        body = "".join(f"            {line}\n" for line in lines)
        return f"""
import tilelang.language as T

@T.prim_func
def main(A: T.Tensor((1024,), "int32"), B: T.Tensor({shape}, "int32"), C: T.Tensor({shape}, "int32")):
    with T.Kernel(1, threads=32):
        S = T.alloc_shared({shape}, "int32")
        T.fill(S, -1)
        {loops}
{body.replace("{C}", "S")}
        T.copy(S, B)
        {loops}
{body.replace("{C}", "C")}
"""


def conflicts(written):
    several = lambda things: len(set(things)) > 1  # noqa: E731
    return {e: by for e, by in written.items() if several(i for i, _ in by) and several(v for _, v in by)}


def named_in(message, names):
    """The iterations and the element of an error."""
    found = re.search(
        r"but iteration (.*?)(?: \(on line \d+\))? and iteration (.*?) write .*\[([-\d, ]+)\]", message
    )
    iterations = [tuple(int(re.search(rf"\b{n} = (-?\d+)", found[g])[1]) for n in names) for g in (1, 2)]
    return iterations, tuple(map(int, found[3].split(", ")))


@pytest.mark.parametrize("start", range(0, PROGRAMS, AT_ONCE))
def test_iterations_write_elements_of_their_own(tmp_path, start):
    refused = 0
    for seed in range(start, start + AT_ONCE):
        program = Program(random.Random(seed))
        written = program.run()
        shape = program.shape()
        text = program.text(shape)
        wrong = conflicts(written)
        try:
            main = load_text(tmp_path, text).main
        except tilelang.CompileError as error:
            assert wrong, (seed, text, str(error))
            (first, second), element = named_in(str(error), program.names)
            values = [{v for i, v in wrong[element] if i == named} for named in (first, second)]
            assert first != second and all(values) and len(values[0] | values[1]) > 1, (
                seed,
                text,
                str(error),
            )
            refused += 1
            continue
        assert not wrong, (seed, text, wrong)
        a = np.arange(2000, 3024).astype(np.int32)
        wanted = np.full(shape, -1, np.int32)
        for element, by in written.items():
            read, added = by[-1][1]
            wanted[element] = added if read is None else a[read]
        for target in TARGETS if seed % 4 == 0 else TARGETS[1:3]:
            b, c = np.zeros(shape, np.int32), np.full(shape, -1, np.int32)
            tilelang.compile(main, target=target)(a, b, c)
            np.testing.assert_array_equal(b, wanted, err_msg=f"{seed} on {target}{text}")
            np.testing.assert_array_equal(c, wanted, err_msg=f"{seed} on {target}{text}")
    assert AT_ONCE // 5 <= refused <= AT_ONCE * 4 // 5
