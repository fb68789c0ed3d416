"""Random functions as combine: what they give on each target, as a macro and as a plain function."""

import random

import numpy as np
import pytest
import tilelang
import tilelang.language as T

TARGETS = ("reference", "cpu", "sim:sm_90")


def key_of(rng, x):
    """A random integer of x, as text, which is one to one on 0 … 255: odd factors, sums, exclusive ors."""
    for _ in range(rng.randint(1, 3)):
        x = rng.choice(
            [
                f"({x} * {rng.randrange(1, 256, 2)} & 255)",
                f"({x} ^ {rng.randrange(256)})",
                f"({x} + {rng.randrange(256)} & 255)",
            ]
        )
    return x


def fold_of(rng):
    """The texts of a macro and of a plain function which give the element of the greater key, and that key.

    Names are used several times, conditions are turned, joined to others that hold, written on both sides.
    """
    key = key_of(rng, "x")
    mine, other = key.replace("x", "a"), key.replace("x", "b")
    plain = f"({mine} > {other})"
    word = plain
    for _ in range(rng.randint(0, 3)):
        sure = rng.choice(["a == a", "b < 256", "a >= 0"])
        both = rng.random() < 0.5
        word = f"({word} and {sure})" if both else f"({word} or not {sure})"
        plain = f"({plain} & ({sure}))" if both else f"({plain} | ~({sure}))"
        if rng.random() < 0.3:
            word, plain = f"(not not {word})", f"(~~{plain})"
    chosen = rng.choice(["a if take else b", "T.if_then_else(take, a, b)", "T.if_then_else(not take, b, a)"])
    macro = f"take = {word}\n    result = {chosen}\n    return result"
    return macro, f"return T.if_then_else({plain}, a, b)", eval(f"lambda x: {key}")


def folded(combine, identity, rows, n):
    @T.prim_func
    def main(X: T.Tensor((rows, n), "int32"), Y: T.Tensor((rows,), "int32")):
        with T.Kernel(1, threads=64):
            s, o = T.alloc_fragment((rows, n), "int32"), T.alloc_fragment((rows,), "int32")
            T.copy(X, s)
            T.reduce(s, o, 1, combine=combine, identity=identity)
            T.copy(o, Y)

    return main


@pytest.mark.parametrize("seed", range(12))
def test_random_folds(seed, tmp_path):
    rng = random.Random(seed)
    macro, plain, key = fold_of(rng)
    file = tmp_path / "folds.py"
    file.write_text(
        f"import tilelang.language as T\n\n\n@T.macro\ndef macro(a, b):\n    {macro}\n\n\n"
        f"def plain(a, b):\n    {plain}\n"
    )
    space = {"__name__": "folds", "__file__": str(file)}
    exec(compile(file.read_text(), str(file), "exec"), space)
    rows, n, target = rng.choice([1, 4]), rng.choice([5, 64, 100]), rng.choice(TARGETS)
    x = np.random.default_rng(seed).integers(0, 256, (rows, n)).astype("i4")
    least = min(range(256), key=key)
    expected = [max(row.tolist(), key=key) for row in x]
    for combine in (space["macro"], space["plain"]):
        y = np.full(rows, -1, "i4")
        tilelang.compile(folded(combine, least, rows, n), target=target)(x, y)
        assert y.tolist() == expected, (combine, target)
