"""What is said of loops, teams, allocations, assertions and folds that are not written as here."""

import re

import pytest
import tilelang
import tilelang.language as T
from helpers import failure, kernel

SIGNATURE = "A: T.Tensor((64, 64), 'float32'), X: T.Tensor((64,), 'float32x4'), n: T.int32"
SLOTS = "num_stages is a value of the kernel, but it says how many slots each tile gets"
ROLES = "a team is given by numbers of warp groups, T.ws(0) for the first 128 threads"
TUPLE = "i is the tuple of the 2 indices of its loop: write `for i0, i1 in …`"
SAID = {
    "for k in T.Pipelined(4, num_stages=n):\n    A[k, 0] = 1.0": SLOTS,
    "for k in T.Pipelined(4, num_stages=A[0, 0]):\n    A[k, 0] = 1.0": SLOTS,
    "with T.ws('producer'):\n    A[0, 0] = 1.0": ROLES,
    "with T.ws(0, 'consumer'):\n    A[0, 0] = 1.0": ROLES,
    "for i in T.Parallel(64, 64):\n    A[i, 0] = 1.0": TUPLE,
    "for i in T.Parallel(64, 64):\n    A[0, 0] = i": TUPLE,
    "for i in T.Parallel(64, 64):\n    A[0, 0] = i * 2": TUPLE,
    "S = T.alloc_shared(64, 64, 64)": "several extents stand in a tuple, T.alloc_shared((m, n, 64), dtype)",
    "S = T.alloc_shared(64, 64, dtype='float16')": "extents stand in a tuple, T.alloc_shared((m, n), dtype)",
    "assert A.shape[0] == 32": "assertion failed (A.shape[0] is 64)",
    "m = A.shape[0]\nassert m > 3 and m == 32, 'bad'": "assertion failed: bad (m is 64)",
    "assert 1 < A.shape[0] < len(A.shape)": "assertion failed (A.shape[0] is 64, len(A.shape) is 2)",
    "assert A.dtype == 'float16'": "assertion failed (A.dtype is T.float32)",
    "assert A.shape[1] == 8 and A.shape[7] == 8": "assertion failed (A.shape[1] is 64)",
    "A[0, 0] = A[1, 0] % 2.0": "`%` takes integer operands, not float32: of floats T.fmod(x, y)",
    "A[0, 0] = A[1, 0] // 2.0": "`//` takes integer operands, not float32: of floats it is T.floor(x / y)",
    "v = T.alloc_var('float32', 0.0)\nv %= 2": "of floats T.fmod(x, y)",
    "A[0, 0] = X[0].sum()": "a vector has no attribute 'sum': its lanes are numbers, v[0] + v[1] + …",
    "v = X[0]\nA[0, 0] = v.max()": "attribute 'max': its lanes are numbers, T.max(v[0], v[1])",
    "A[0, 0] = T.sum(X[0])": "of the lanes of a vector v[0] + v[1] + …",
    "v = X[0]\nT.reduce_sum(v, A)": "not a vector of 4 values: what is folded of its lanes is written out",
    "for i in T.Parallel(0, 64, 2):\n    A[i] = 1.0": "i is a tuple, as the 3 arguments of T.Par",
    "for i in T.Pipelined(4, num_stages='2'):\n    A[i, 0] = 1.0": "not '2', which is a str",
    "A[0, 0] = T.if_then_else(X[0][0] > 3.0 and (X[0][1] & 1) > 0, 1, 0)": (
        "`&` takes integer or bool operands, not float32; it binds before comparisons, which stand in "
        "brackets beside it, (a > 3) & (b < 9)"
    ),
    "if n > 0:\n    S = T.alloc_shared((64,), 'float32')\nT.clear(S)": "a tile is allocated before the `if`",
    "v = T.reinterpret(T.ldg128(A[0, 0]), 'float32x4')\nfor i in T.unroll(4):\n    A[i, 0] = v[i]": (
        "4 values have the lanes 0 to 3, each a constant, not i: let Python run the loop, `for i in [*ran"
    ),
    "A[0, 0] = A[1, 0] + 2**70": "the number 1180591620717411303424 does not fit in 64 bits",
    "A[0, 0] = T.int64(-(2**63) - 1)": "the number -9223372036854775809 does not fit in 64 bits",
    "for i in T.serial(2**70):\n    A[0, 0] = 1.0": "does not fit in 64 bits",
    "A[2**65, 0] = 1.0": "does not fit in 64 bits",
    "T.fill(A[0:4, 0:4], 2**70)": "does not fit in 64 bits",
    "S = T.alloc_shared((2**70,), 'int8')": "does not fit in 64 bits",
    "S = T.alloc_shared(('64',), 'int8')": "known while the kernel is built, not '64', which is a str",
    "for i in T.serial('64'):\n    A[i, 0] = 1.0": "got str '64': without the quotes it is a number",
    "T.reduce_sum(A, A, dim='1')": "must be an integer known while the kernel is built, not '1', ",
    "S = T.alloc_barrier('64')": "known while the kernel is built, not '64', which is a str",
    "y = T.vectorhigh('float16x4', X[0])": "dtype is float16x4, but there are 2 lanes of float32",
}  # fmt: skip
IN_BRACKETS = "comparisons that are joined stand in brackets, (a > 3) {0} (b < 9)"


@pytest.mark.parametrize("body, sign", [
    ("A[0, 0] = T.if_then_else(n > 3 & n < 9, 1, 0)", "&"),
    ("if n == 1 | n == 2: A[0, 0] = 1.0", "|"),
])  # fmt: skip
def test_bits_between_comparisons(tmp_path, body, sign):
    """Of integers it has a meaning, a > (3 & b) < 9, which nobody means."""
    with pytest.warns(tilelang.TilelangWarning, match=re.escape(IN_BRACKETS.format(sign))):
        kernel(tmp_path, body, signature=SIGNATURE)


def test_a_vector_in_a_loop_of_pythons(tmp_path):
    body = "v = T.reinterpret(T.ldg128(A[0, 0]), 'float32x4')\nfor i in [*range(4)]:\n    A[i, 0] = v[i]"
    assert "A[3, 0] = " in kernel(tmp_path, body, signature=SIGNATURE).text


CLOSURE = "s = T.alloc_var('float32', 0.0)\n@T.macro\ndef add(v{}):\n    s += v\nadd(A[0, 0]{})\nA[0, 0] = s"


def test_a_macro_that_changes_a_variable_around_it(tmp_path):
    error = failure(tmp_path, CLOSURE.format("", ""), signature=SIGNATURE)
    assert (
        "in a @T.macro that changes a variable of its caller, make it a parameter, `s: T.Ref`" in error.text
    )
    assert error.line == 8
    assert "s[] = s[] + " in kernel(tmp_path, CLOSURE.format(", s: T.Ref", ", s"), signature=SIGNATURE).text


def test_threads_are_a_number():
    said = "threads must be positive integers known while the kernel is built, not '64', which is a str"
    with pytest.raises(tilelang.CompileError, match=said):

        @T.prim_func
        def main(A: T.Tensor((64,), "float32")):
            with T.Kernel(1, threads="64"):
                T.clear(A)


@pytest.mark.parametrize("body", list(SAID))
def test_what_is_said(tmp_path, body):
    error = failure(tmp_path, body, signature=SIGNATURE, launch="T.Kernel(1, threads=128)")
    assert SAID[body] in str(error)


def test_extents_without_a_tuple_and_a_dtype(tmp_path):
    body = "S = T.alloc_shared(64, 32, 'float16')\nL = T.alloc_local(4, 8, T.int32)\nT.clear(S)\nT.clear(L)"
    text = kernel(tmp_path, body, signature=SIGNATURE).function.text()
    assert "S = shared f16[64, 32]" in text and "L = local i32[4, 8]" in text


def test_all_indices_in_one_name(target):
    @T.prim_func
    def main(A: T.Tensor((8, 4), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8, 4):
                A[i] = i[0] * 10 + i[1]

    import numpy as np

    a = np.zeros((8, 4), np.int32)
    tilelang.compile(main, target=target)(a)
    np.testing.assert_array_equal(a, np.arange(8)[:, None] * 10 + np.arange(4))
