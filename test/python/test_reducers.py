"""Reducers: their order is checked where they are written, narrow ones are summed in float32; and what is
near to them: regions that overlap, loops that cannot stand in one another, iterations that depend on
others."""

import ml_dtypes
import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import FIRST_LINE, failure, kernel, run

NUMPY = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float8_e4m3fn": ml_dtypes.float8_e4m3fn}


# ── parts are kept in float32 ───────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("n", [64, 1024])
def test_sums_are_rounded_once(dtype, n, target):
    @T.prim_func
    def main(A: T.Tensor((8, n), "float32"), B: T.Tensor((8,), dtype)):
        with T.Kernel(1, threads=128) as _:
            o = T.alloc_reducer((8,), dtype)
            T.clear(o)
            for i, j in T.Parallel(8, n):
                o[i] += A[i, j]
            T.finalize_reducer(o, B)

    a = (np.random.default_rng(0).integers(1, 64, (8, n)) / 2**12).astype("float32")  # any order is exact
    b = np.zeros(8, NUMPY[dtype])
    run(main, target, a, b)
    assert np.array_equal(b, a.sum(1, dtype=np.float64).astype(np.float32).astype(NUMPY[dtype]))


# What a reducer begins with by itself changes no contribution, whatever the dtype.
NEUTRAL = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum, "bitand": np.bitwise_and,
           "bitor": np.bitwise_or, "bitxor": np.bitwise_xor}  # fmt: skip
WHOLE = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def reducer_of(op, dtype):
    @T.prim_func
    def main(A: T.Tensor((40,), dtype), B: T.Tensor((1,), dtype)):
        with T.Kernel(1, threads=32):
            o = T.alloc_reducer((1,), dtype, op=op)
            T.reducer_init(o)
            for i in T.Parallel(40):
                T.reducer_update(o[0], A[i])
            T.finalize_reducer(o, B)

    return main


@pytest.mark.parametrize("op", NEUTRAL)
def test_what_a_reducer_begins_with(op, target):
    bits = op.startswith("bit")
    for dtype in (*WHOLE, *(("bool",) if bits else ("float16", "float32", "float64"))):
        kind = np.dtype(dtype)
        low, high = (np.iinfo(kind).min, np.iinfo(kind).max) if kind.kind in "iu" else (0, 1)
        for same in {low, high, 1}:
            a = np.full(40, 1 if op in ("sum", "prod") else same, kind)
            a[7] = a[7] if op != "bitand" else a[7] & np.array(1, kind)
            b = np.zeros(1, kind)
            run(reducer_of(op, dtype), target, a, b)
            assert b[0] == NEUTRAL[op].reduce(a, dtype=kind), (dtype, same)


def test_every_way_to_contribute(target):
    @T.prim_func
    def main(A: T.Tensor((8, 64), "float16"), B: T.Tensor((8,), "float16"), C: T.Tensor((8,), "float16")):
        with T.Kernel(1, threads=64) as _:
            o = T.alloc_reducer((8,), "float16")
            T.fill(o, 1.0)
            for i, j in T.Parallel(8, 64):
                o[i] -= A[i, j]
            for i, j in T.Parallel(8, 64):
                o[i] = A[i, j] + o[i] + A[i, j]
            for k in T.serial(2):
                if k == 0:
                    for i, j in T.Parallel(8, 64):
                        if j % 2 == 0:
                            T.reducer_update(o[i], A[i, j])
            for i, j in T.Parallel(8, 64):
                o[i] = T.if_then_else(j < 8, o[i] + A[i, j], o[i])
            T.finalize_reducer(o, B)
            T.clear(o)  # and again
            for i, j in T.Parallel(8, 64):
                o[i] += A[i, j] * A[i, j]
            T.finalize_reducer(o, C)

    a = (np.random.default_rng(0).integers(-8, 9, (8, 64)) / 8).astype("float16")
    b, c, x = np.zeros(8, "float16"), np.zeros(8, "float16"), a.astype(np.float64)
    run(main, target, a, b, c)
    assert np.array_equal(b, (1 + x.sum(1) + x[:, ::2].sum(1) + x[:, :8].sum(1)).astype("float16"))
    assert np.array_equal(c, (x * x).sum(1).astype("float16"))


# ── the order ───────────────────────────────────────────────────────────────────────────────────────────
OPEN = "o = T.alloc_reducer((8,), 'float32')\nT.clear(o)\n"
GIVE = "for i in T.Parallel(8):\n    o[i] += A[i, 0]\n"
# The statement that is refused stands in the line that begins with a tab.
OPENED = {
    GIVE + "\tT.copy(o, A[0, 0:8])\nT.finalize_reducer(o)": "finalised since it was opened on line 6",
    "for i in T.Parallel(8):\n    \tA[i, 0] = o[i]\nT.finalize_reducer(o)": (
        "each thread has a part of its value"
    ),
    "\tx = o[0] + 1.0\nT.finalize_reducer(o)": "T.finalize_reducer(o) combines them",
    "\tT.clear(o)\nT.finalize_reducer(o)": "it is open since line 6",
    "T.finalize_reducer(o)\n\tT.finalize_reducer(o)": "has been finalised before, on line 7",
    "for k in T.serial(2):\n    \tT.finalize_reducer(o)": "was opened outside of it, on line 6",
    "for i in T.Parallel(8):\n    \to[i] = A[i, 0]\nT.finalize_reducer(o)": "can only contribute",
    "for i in T.Parallel(8):\n    \to[i] = o[7 - i] + A[i, 0]\nT.finalize_reducer(o)": "o[…] += x",
    "for i in T.Parallel(8):\n    \to[i] = A[i, 0] - o[i]\nT.finalize_reducer(o)": "opened on line 6",
    "for i in T.Parallel(8):\n    \to[i] *= 2.0\nT.finalize_reducer(o)": "T.reducer_update(o[…], x)",
    "T.finalize_reducer(o)\nfor i in T.Parallel(8):\n    \to[i] += 1.0": (
        "finalised, on line 7: open it again"
    ),
    "T.finalize_reducer(o)\nfor i in T.Parallel(8):\n    \to[i] = 1.0": (
        "finalised, on line 7: open it again"
    ),
    "\tT.copy(A[0, 0:8], o)\nT.finalize_reducer(o)": "write to it as a whole",
    "\tT.atomic_add(o[0], 1.0)\nT.finalize_reducer(o)": "has a part of its value, so it has no address",
}
REFUSED = {
    "o = T.alloc_reducer((8,), 'float32')\nfor i in T.Parallel(8):\n    \to[i] += A[i, 0]\nT.clear(o)\n"
    "T.finalize_reducer(o)": "must come before the first contribution",
    "o = T.alloc_reducer((8,), 'float32')\nif n > 0:\n    \tT.clear(o)\nT.finalize_reducer(o)": (
        "never finalised in the"
    ),
    "o = T.alloc_reducer((8,), 'float32')\nfor k in T.serial(2):\n    T.clear(o)\n    T.finalize_reducer(o)\n"
    "\tT.copy(o, A[0, 0:8])": "finalised on line 8, within a loop or branch that has ended",
    "o = T.alloc_reducer((8,), 'float32', 'bitor')\n\tT.clear(o)\nT.finalize_reducer(o)": (
        "`bitor` does not combine"
    ),
    "\tT.copy(A[0:8, 0:4], A[4:12, 2:6])": "src is A[0:8, 0:4] and dst is A[4:12, 2:6]",
    "L = T.alloc_local((8,), 'float32')\nfor i in T.vectorized(7):\n    \tL[i + 1] = L[i] + 1.0": (
        "the iterations of T.vectorized run in any order, but iteration i = 1 reads"
    ),
}

SHARED = "S = T.alloc_shared((256,), 'float32')\nT.clear(S)\n"
OVERLAP = {
    "\tT.copy(S[0:255], S[1:256])": "src is S[0:255] and dst is S[1:256], which have elements in common",
    "for k in T.serial(4):\n    \tT.copy(S[k:k + 8], S[k + 7:k + 15])": "elements in common",
    "V = T.view(S, (512,), 'float16')\n\tT.copy(V[0:8], S[2:10])": "src is V[0:8] and dst is S[2:10]",
    "V = T.reshape(S, (16, 16))\n\tT.reduce_sum(V, S[0:16], dim=1)": "elements in common",
    "V = T.reshape(S, (16, 16))\nW = T.reshape(S, (16, 16))\n\tT.transpose(V, W)": "elements in common",
    "V = T.reshape(S, (2, 128))\n\tT.cumsum(V[0, :], S[100:228])": "elements in common",
    "\tT.atomic_add(S[0:100], S[50:150])": "dst is S[0:100]",
    "for i in T.Parallel(255):\n    \tS[i] = S[i + 1]": (
        "iteration i = 0 reads an element of S that iteration i = 1"
    ),
    "for i in T.Parallel(256):\n    \tS[i] = S[255 - i]": "run in any order",
    "for i, j in T.Parallel(64, 8):\n    \tS[i * 4 + j // 2] = A[i, j]": (
        "iteration i = 0, j = 0 and iteration i = 0, j = 1 write different values to S[0]: let the loop "
    ),
    "for i, j in T.Parallel(64, 8):\n    \tS[i] = A[i, j]": "T.serial, reduce over it (T.reduce_sum, …)",
    "for i in T.Parallel(64):\n    S[i] = 1.0\n    \tS[i + 1] = 2.0": "write different values to S[1]",
    "for k in T.serial(8):\n    for i in T.Parallel(8):\n        \tS[k * 9 + i + 1] = S[k * 9 + i]": (
        "T.serial"
    ),
}
NESTS = {
    "for i in T.Parallel(4):\n    S[i] = 1.0\n    \tT.clear(S)": (
        "the tile operator clear is used in the T.Parallel loop on line 7, each of whose iterations"
    ),
    "for i in T.Parallel(4, coalesced_width=2):\n    \tT.clear(S)": "all threads of the block carry",
    "for i in T.vectorized(4):\n    \tT.fill(S, 1.0)": "whose iterations are lanes of one thread",
    "for i in T.vectorized(4):\n    \tfor j in T.vectorized(4):\n        S[i * 4 + j] = 1.0": (
        "make one of the two"
    ),
    "for i in T.vectorized(4):\n    \tfor j in T.Parallel(4):\n        S[i * 4 + j] = 1.0": (
        "T.Parallel for both"
    ),
    "for i in T.Parallel(4):\n    S[i] = 0.0\n    \tfor j in T.Parallel(4):\n        S[j] = 1.0": (
        "T.Parallel(m, n)"
    ),
    "for i in T.Parallel(4):\n    \tfor j in T.Pipelined(4, order=[0]):\n        S[i] = 1.0": "use T.serial",
    "for i in T.Parallel(4):\n    \tD = T.alloc_shared((4,), 'float32')\n    S[i] = 1.0": "D is allocated",
    "for i in T.Parallel(4):\n    S[i] = 1.0\n    \tT.sync_threads()": "do not reach it together",
}
REFUSED |= {OPEN + rest: said for rest, said in OPENED.items()}
REFUSED |= {SHARED + rest: said for rest, said in (OVERLAP | NESTS).items()}


@pytest.mark.parametrize("body", REFUSED)
def test_refused_at_its_line(tmp_path, body):
    at = next(k for k, line in enumerate(body.split("\n")) if "\t" in line)
    error = failure(tmp_path, body.replace("\t", ""))
    assert REFUSED[body] in str(error)
    assert error.line == FIRST_LINE + at


def test_text_hears_the_same():
    text = """\
func main(A: f32[8, 64], B: f32[8]):
  kernel main grid(b: 1) threads(64):
    o = local f32[8] reducer("sum")
    fill(o, 0.0)
    for i in parallel(8):
      for j in parallel(64):
        o[i] = o[i] + A[i, j]
    copy(o, B)
    finalize_reducer(o)
"""
    with pytest.raises(tilelang.CompileError, match="o is read here, but it is a reducer that has not been"):
        tilelang._core.parse(text)


# ── what is right stays so ──────────────────────────────────────────────────────────────────────────────
def test_parts_of_one_tile(target):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((3, 64), "float32"), n: T.int32):
        with T.Kernel(1, threads=32) as _:
            S, U, V = (T.alloc_shared((64,), "float32") for _ in range(3))
            for X in (S, U, V):
                T.copy(A, X)
            T.copy(S[0:32], S[32:64])
            T.copy(S[0:8], S[0:8])
            T.copy(U[n : n + 48], U[3:51])  # they meet, as the call says
            for k in T.serial(4):
                T.copy(V[k : k + 16], V[2 * k : 2 * k + 16])
            for i in T.Parallel(32):
                if i % 2 == 0:
                    S[i] = S[i + 1]
            T.copy(S, B[0, :])
            T.copy(U, B[1, :])
            T.copy(V, B[2, :])

    a, want = np.arange(64, dtype="float32"), np.stack([np.arange(64, dtype="float32")] * 3)
    want[0, 32:] = want[0, :32]
    want[0, :32:2] = want[0, 1:32:2]
    for n in (0, 1, 3, 9):
        b, moved = np.zeros((3, 64), "float32"), want.copy()
        moved[1, 3:51] = want[1, n : n + 48]
        for k in range(4):
            moved[2, 2 * k : 2 * k + 16] = moved[2, k : k + 16].copy()
        run(main, target, a, b, n)
        assert np.array_equal(b, moved), n


def test_names_in_the_head_of_a_nest(tmp_path):
    body = "for i in T.Parallel(8):\n    row = i + 1\n    for j in T.Parallel(8):\n        A[row, j] = 0.0"
    a = np.ones((64, 8), "float32")
    run(kernel(tmp_path, body), "cpu", a, 0)
    assert not a[1:9].any() and a[:1].all() and a[9:].all()
