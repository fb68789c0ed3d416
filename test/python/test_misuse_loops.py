"""What is said of loops, teams, allocations, assertions and folds that are not written as here."""

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
}  # fmt: skip


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
