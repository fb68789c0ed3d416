"""T.reduce by a user's own function: one that depends on the order is told, at its line."""

import warnings

import pytest
import tilelang
import tilelang.language as T
from tilelang.front.errors import TilelangWarning


def folded(combine, identity, dtype="float32"):
    @T.prim_func
    def main(X: T.Tensor((8, 64), dtype), Y: T.Tensor((8,), dtype)):
        with T.Kernel(1, threads=64):
            x, y = T.alloc_fragment((8, 64), dtype), T.alloc_fragment((8,), dtype)
            T.copy(X, x)
            T.reduce(x, y, 1, combine=combine, identity=identity)
            T.copy(y, Y)

    return main


def warned(function):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tilelang.compile(function, target="sim:sm_80")
    return [w for w in caught if w.category is TilelangWarning]


TOLD = {
    "a difference": (lambda a, b: a - b, 0, "combine(2, 3) is -1, but combine(3, 2) is 1"),
    "a quotient": (lambda a, b: a / b, 1, "combine(2, 3) is 0.6"),
    "a mean": (
        lambda a, b: (a + b) * 0.5,
        0,
        "combine(combine(2, 2), 3) is 2.5, but combine(2, combine(2, 3))",
    ),
    "the first": (lambda a, b: a, 0, "combine(2, 3) is 2, but combine(3, 2) is 3"),
    "a sum from 1 on": (lambda a, b: a + b, 1, "combine(2, 1) with the identity is 3"),
    "a maximum from 4 on": (lambda a, b: T.max(a, b), 4, "combine(2, 4) with the identity is 4"),
}


@pytest.mark.parametrize("name", TOLD)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_function_that_depends_on_the_order(name, dtype):
    combine, identity, text = TOLD[name]
    (warning,) = warned(folded(combine, identity, dtype))
    assert text in str(warning.message) and "give an associative and commutative" in str(warning.message)
    line = folded.__code__.co_firstlineno + 6
    assert f"reduce on line {line}: " in str(warning.message) and warning.filename == __file__


FINE = {
    "a sum": (lambda a, b: a + b, 0),
    "a product": (lambda a, b: a * b, 1),
    "a maximum": (lambda a, b: T.if_then_else(a > b, a, b), -1e30),
    "both and their product": (lambda a, b: a + b + a * b, 0),
    "a root": (lambda a, b: T.sqrt(a * a + b * b), 0),
}


@pytest.mark.parametrize("name", FINE)
def test_a_function_that_does_not(name):
    assert not warned(folded(*FINE[name]))


def test_of_integers():
    assert len(warned(folded(lambda a, b: a - b, 0, "int32"))) == 1
    assert not warned(folded(lambda a, b: a ^ b, 0, "int32"))
    assert not warned(folded(lambda a, b: T.min(a, b), 2**31 - 1, "int32"))
