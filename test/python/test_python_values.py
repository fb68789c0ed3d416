"""Python's own words on values of the kernel mean what they mean on numbers: `in`, divmod, any, `**`."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import FIRST_LINE, failure, kernel, load_text

SIGNATURE = "A: T.Tensor((64,), 'int32'), F: T.Tensor((64,), 'float32'), B: T.Tensor((64,), 'int32')"
NUMBERS = np.arange(-32, 32, dtype=np.int32)
FLOATS = (NUMBERS / 4).astype(np.float32)  # halves among them

# an expression of x, an int32, and y, a float32, and of what is known while the kernel is built
SAID = {
    "in a tuple": "x in (1, 2, 3)",
    "in a list": "x in [5, -5]",
    "in a set": "x in {1, -7}",
    "in the keys of a dict": "x in {4: 'a', -4: 'b'}",
    "in nothing": "x in ()",
    "not in": "x not in (1, 2)",
    "in a range": "x in range(3, 9)",
    "in a range with a step": "x in range(-9, 9, 4)",
    "in a range backwards": "x in range(9, -9, -4)",
    "in none": "x in (None, 'a', 7)",
    "number in values": "3 in [x, x + 1, 9]",
    "float in": "y in (0.5, -1.25)",
    "is None": "x is None",
    "is not None": "x is not None",
    "divmod": "divmod(x, 5)[0] * 100 + divmod(x, 5)[1]",
    "divmod of a number": "sum(divmod(40, x * x + 1))",
    "any": "any(x > k for k in (3, 20))",
    "all": "all([x > -5, x < 5, True])",
    "all of none": "all([x > -5, False])",
    "any of numbers": "any([0, 1])",
    "round": "round(y)",
    "round of an integer": "round(x)",
    "abs": "abs(x)",
    "int": "int(y)",
    "square": "x ** 2",
    "cube": "x ** 3",
    "fifth power": "pow(x, 5)",
    "power 0": "x ** 0",
    "sum of a generator": "sum(x * k for k in (1, 2, 3))",
    "max of several": "max(x, 3, -x)",
    "chain": "-3 <= x < 7",
    "not": "not x",
    "and of truths": "(x > 1) and (x < 7)",
    "or of None": "None or x",
    "length": "len(A) + len([x, x])",
}


@pytest.mark.parametrize("name", SAID)
def test_as_in_python(tmp_path, name, target):
    body = f"for i in T.Parallel(64):\n    x = A[i]\n    y = F[i]\n    B[i] = T.cast({SAID[name]}, 'int32')"
    made = kernel(tmp_path, body, signature=SIGNATURE)
    out = np.zeros(64, np.int32)
    tilelang.compile(made, target=target)(NUMBERS, FLOATS, out)
    names = {"A": NUMBERS}
    expected = [
        eval(SAID[name], {**names, "x": int(x), "y": float(y)}) for x, y in zip(NUMBERS, FLOATS, strict=True)
    ]
    assert list(out) == [int(np.int32(e)) for e in expected]


def test_the_same_in_a_plain_function_and_a_macro(tmp_path):
    module = load_text(
        tmp_path,
        """\
        import tilelang, tilelang.language as T

        def digits(x):
            tens, ones = divmod(x, 10)
            return tens ** 2 + round(ones)

        @T.macro
        def known(x):
            return x in (3, 12)

        @tilelang.jit(target="cpu")
        def f(A):
            A: T.Tensor((64,), T.int32)
            B = T.empty((64,), T.int32)
            with T.Kernel(1):
                for i in T.Parallel(64):
                    B[i] = digits(A[i]) + T.if_then_else(known(A[i]), 1000, 0)
            return B
        """,
    )
    expected = [(x // 10) ** 2 + x % 10 + 1000 * (x in (3, 12)) for x in NUMBERS.tolist()]
    assert list(module.f(NUMBERS)) == expected


def test_keys_that_python_knows(tmp_path):
    body = "names = {A: 1, B: 2}\nB[0] = names[B] + {3: 4}[T.int32(3)] + (T.int32(5) in {5, 6})"
    assert "B[0] = 7" in kernel(tmp_path, body, signature=SIGNATURE).text
    assert T.dynamic("m") not in {T.dynamic("m"): 1}


def test_a_set_in_a_plain_function(tmp_path):
    error = failure(
        tmp_path,
        "B[0] = known(A[0])",
        signature=SIGNATURE,
        before="def known(x):\n    return x in {1, 2}\n\n",
    )
    assert "as a key of a dict, a member of a set" in error.text


def test_tiles_are_objects(tmp_path):
    body = "B[0] = (A in [B, A]) + 2 * (A is B) + 4 * (A is not B) + 8 * (A != None)"
    assert "B[0] = 13" in kernel(tmp_path, body, signature=SIGNATURE).text


def test_a_text_without_values(tmp_path):
    text = kernel(tmp_path, "T.print(f'{A.name} {A.shape[0]:>4}')", signature=SIGNATURE).text
    assert '"A   64 block=' in text


PRINTED = """\
k = 3
S = T.alloc_shared((4, 8), 'float16')
x = bx * 2
print('known', k, T.int32(k) + 1, k * 2.5, S, A.shape, sep='|')
print('known too: %d' % k, f'{k:>3}', str(k), S[0:2, :])
print(x, A[bx] + 1, S[0, k])
print(f'{x} and {x + 1:>8} but {k}')
"""


def test_print_shows_what_is_known_and_how_the_rest_is_computed(tmp_path, capsys):
    with pytest.warns(tilelang.TilelangWarning, match="prints how a value is computed, once") as told:
        kernel(tmp_path, PRINTED, signature="A: T.Tensor((64,), 'int32')")
    assert capsys.readouterr().out.splitlines() == [
        "known|3|4|7.5|S: shared float16[4, 8]|(64,)",
        "known too: 3   3 3 S[0 : 0 + 2, 0 : 0 + 8]",
        "x A[bx] + 1 S[0, 3]",
        "x and x + 1 but 3",
    ]
    # the two lines that print what is not known
    assert sorted({w.lineno - FIRST_LINE for w in told}) == [5, 6]
