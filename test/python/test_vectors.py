"""Vectors as values: made by casts, wide loads, packing and shuffles; computed with; stored; in variables."""

import random

import ml_dtypes
import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import failure, kernel, source

ROWS = 64
KINDS = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "int32": np.int32,
         "uint8": np.uint8, "uint32": np.uint32}  # fmt: skip


def numbers(dtype, lanes, seed):
    rng = np.random.default_rng(seed)
    return rng.integers(0 if dtype[0] == "u" else -8, 9, (ROWS, lanes)).astype(KINDS[dtype])


# ── drawn programs: a chain of operations on vectors, beside the same on arrays ───────────────────────
def drawn(seed):
    """(dtype, lanes, steps) and what the steps make of two arrays."""
    rng = random.Random(seed)
    dtype, lanes = rng.choice(list(KINDS)), rng.choice([2, 4, 8])
    steps = []
    for _ in range(rng.randint(2, 6)):
        name = rng.choice(["add", "sub", "mul", "max", "min", "fma", "shuffle", "swap", "bits", "cast",
                           "splat", "lane", "select", "variable", "abs"])  # fmt: skip
        order = [rng.randrange(2 * lanes) for _ in range(lanes)]
        steps.append((name, order, rng.randint(1, 3), rng.randrange(lanes)))
    return dtype, lanes, steps


def on_vectors(dtype, lanes, step, x, y):
    name, order, number, lane = step
    kind = f"{dtype}x{lanes}"
    if name == "add":
        return x + y
    if name == "sub":
        return x - y
    if name == "mul":
        return x * T.cast(number, dtype)
    if name in ("max", "min"):
        return getattr(T, name)(x, y)
    if name == "fma":
        return x * T.Broadcast(T.cast(number, dtype), lanes) + y
    if name == "shuffle":
        return T.Shuffle([x, y], order)
    if name == "swap":
        half = f"{dtype}x{lanes // 2}"
        return T.vectorcombine(kind, T.vectorhigh(half, x), T.vectorlow(half, x))
    if name == "bits":
        size = 8 * KINDS_BYTES[dtype] * lanes
        through = f"uint32x{size // 32}" if size > 32 else "uint32" if size == 32 else "uint8x2"
        return T.reinterpret(T.reinterpret(x, through), kind)
    if name == "cast":
        wide = "float32" if KINDS_BYTES[dtype] < 4 else "int32"
        return T.Cast(kind, x.astype(f"{wide}x{lanes}"))
    if name == "splat":
        return T.Cast(kind, T.extract_lane(x, lane)) + y
    if name == "lane":
        return T.Cast(kind, tuple([x[lane] if n % 2 else y[n] for n in range(lanes)]))
    if name == "select":
        return T.if_then_else(x > y, x, y + T.cast(1, dtype))
    return x if name == "variable" else T.max(x, y)


KINDS_BYTES = {name: np.dtype(kind).itemsize for name, kind in KINDS.items()}


def on_arrays(dtype, step, x, y):
    name, order, number, lane = step
    kind = KINDS[dtype]
    if name == "add" or name == "variable":
        return x + y
    if name == "sub":
        return x - y
    if name == "mul":
        return x * kind(number)
    if name in ("max", "abs"):
        return np.maximum(x, y)
    if name == "min":
        return np.minimum(x, y)
    if name == "fma":
        return x * kind(number) + y
    if name == "shuffle":
        return np.concatenate([x, y], 1)[:, order]
    if name == "swap":
        return np.roll(x, x.shape[1] // 2, 1)
    if name == "splat":
        return x[:, [lane]] + y
    if name == "lane":
        return np.where(np.arange(x.shape[1]) % 2, x[:, [lane]], y)
    if name == "select":
        return np.where(x > y, x, y + kind(1))
    return x


def program(dtype, lanes, steps, parallel):
    kind = f"{dtype}x{lanes}"

    @T.macro
    def body(X, Y, O, r):
        # A tuple of steps is unrolled while the kernel is built.
        x = T.Cast(kind, X[r, 0:lanes]) + T.Cast(kind, 0)
        y = T.reinterpret(Y[r, 0:lanes], kind)
        for step in steps:
            if step[0] == "variable":
                v = T.alloc_var(kind, x)
                v += y
                for n in [*range(lanes)]:
                    v[n] = v[n] + T.cast(0, dtype)
                x, y = v * T.cast(1, dtype), x
            else:
                x, y = on_vectors(dtype, lanes, step, x, y), x
        O[r, 0:lanes] = x

    @T.prim_func
    def main(
        X: T.Tensor((ROWS, lanes), dtype),
        Y: T.Tensor((ROWS, lanes), dtype),
        O: T.Tensor((ROWS, lanes), dtype),
    ):
        with T.Kernel(2, threads=32) as b:
            if parallel:
                for i in T.Parallel(32):
                    body(X, Y, O, b * 32 + i)
            else:
                body(X, Y, O, b * 32 + T.get_thread_binding())

    return main


def wanted(dtype, steps, x, y):
    for step in steps:
        x, y = on_arrays(dtype, step, x, y).astype(KINDS[dtype]), x
    return x


@pytest.mark.parametrize("seed", range(24))
def test_drawn_programs(seed):
    dtype, lanes, steps = drawn(seed)
    x, y = numbers(dtype, lanes, seed), numbers(dtype, lanes, seed + 1000)
    with np.errstate(over="ignore"):
        want = wanted(dtype, steps, x, y)
    for parallel, target in ((True, "reference"), (True, "cpu"), (True, "sim:sm_80"), (False, "sim:sm_90a")):
        out = np.full((ROWS, lanes), 77).astype(KINDS[dtype])
        tilelang.compile(program(dtype, lanes, steps, parallel), target=target)(x, y, out)
        assert np.array_equal(out.astype(np.float64), want.astype(np.float64)), (target, dtype, lanes, steps)


@pytest.mark.parametrize("seed", range(0, 24, 6))
def test_drawn_text(seed):
    dtype, lanes, steps = drawn(seed)
    for chip in ("sm_80", "sm_90a"):
        assert source(program(dtype, lanes, steps, True), f"cuda -arch={chip}")


# ── accesses and instructions ─────────────────────────────────────────────────────────────────────────
def test_wide_loads_and_stores():
    """What T.ldg128 read is taken apart, computed with and stored by one access."""

    @T.prim_func
    def main(
        A: T.Tensor((ROWS, 8), "float16"), O: T.Tensor((ROWS, 8), "float16"), S: T.Tensor((ROWS,), "uint32")
    ):
        with T.Kernel(2, threads=32) as b:
            r = b * 32 + T.get_thread_binding()
            words = T.ldg128(A[r, 0])
            halves = T.reinterpret(words, "float16x8")
            T.stg128(O[r, 0], halves * T.float16(2) + halves)
            S[r] = words[0] ^ words[3]

    a, o, s = numbers("float16", 8, 0), np.zeros((ROWS, 8), np.float16), np.zeros(ROWS, np.uint32)
    for target in ("sim:sm_80", "sim:sm_90a"):
        o[:], s[:] = 0, 0
        tilelang.compile(main, target=target)(a, o, s)
        words = a.view(np.uint32)
        assert np.array_equal(o, a * np.float16(3)) and np.array_equal(s, words[:, 0] ^ words[:, 3])
    text = source(main, "cuda -arch=sm_90a").partition("main_kernel(")[2]
    assert text.count("tl_load<4>") == 1 and text.count("tl_store") == 1
    assert text.count("tl_mul2_f16(") == 4 and text.count("tl_add2_f16(") == 4


@pytest.mark.parametrize("bits", [32, 64, 128, 256])
def test_every_width(bits):
    load, store, count = getattr(T, f"ldg{bits}"), getattr(T, f"stg{bits}"), bits // 32

    @T.prim_func
    def main(A: T.Tensor((ROWS, count), "float32"), O: T.Tensor((ROWS, count), "float32")):
        with T.Kernel(2, threads=32) as b:
            r = b * 32 + T.get_thread_binding()
            values = T.reinterpret(load(A[r, 0]), f"float32x{count}" if count > 1 else "float32")
            store(O[r, 0], T.reinterpret(values + 1.0, f"uint32x{count}" if count > 1 else "uint32"))

    a, o = numbers("float32", count, 3), np.zeros((ROWS, count), np.float32)
    tilelang.compile(main, target="sim:sm_90a")(a, o)
    assert np.array_equal(o, a + 1)
    source(main, "cuda -arch=sm_80")


def test_one_access_and_one_instruction():
    """A slice is one load, a store one store, and two halves are one operation."""

    @T.prim_func
    def main(
        A: T.Tensor((ROWS, 2), "bfloat16"),
        B: T.Tensor((ROWS, 2), "bfloat16"),
        O: T.Tensor((ROWS, 2), "bfloat16"),
    ):
        with T.Kernel(2, threads=32) as b:
            for i in T.Parallel(32):
                r = b * 32 + i
                O[r, 0:2] = T.fma2(A[r, 0:2], T.mul2(B[r, 0:2], A[r, 0:2]), T.abs2(B[r, 0:2]))

    text = source(main, "cuda -arch=sm_90a").partition("main_kernel(")[2]
    assert text.count("tl_load<2>") == 4 and text.count("tl_store") == 1
    assert "tl_fma2_bf16(" in text and "tl_mul2_bf16(" in text and "tl_abs2_bf16(" in text


def test_pairs_of_every_kind(target):
    """add2 and its like take vectors, slices, tuples and numbers, of packed and of other types."""

    @T.prim_func
    def main(
        X: T.Tensor((ROWS, 2), "float32"),
        H: T.Tensor((ROWS, 2), "float16"),
        O: T.Tensor((6, ROWS, 2), "float32"),
    ):
        with T.Kernel(1, threads=64):
            for r in T.Parallel(ROWS):
                x, h = T.Cast("float32x2", X[r, 0:2]), T.Cast("float16x2", H[r, 0:2])
                O[0, r, 0:2] = T.add2(x, X[r, 0:2])
                O[1, r, 0:2] = T.sub2(x, (1.0, X[r, 1]))
                O[2, r, 0:2] = T.mul2(h, T.float16(2)).astype("float32")
                O[3, r, 0:2] = T.Cast("float32x2", T.max2(h, T.min2(h, 0.0)))
                O[4, r, 0:2] = T.fma2(x, x, T.abs2(x))
                O[5, r, 0:2] = T.Cast("float32x2", T.abs2(h) + h)

    x, h = numbers("float32", 2, 1), numbers("float16", 2, 2)
    out = np.full((6, ROWS, 2), np.nan, np.float32)
    tilelang.compile(main, target=target)(x, h, out)
    wide = h.astype(np.float32)
    want = [x + x, np.stack([x[:, 0] - 1, 0 * x[:, 1]], 1), wide * 2, np.maximum(wide, np.minimum(wide, 0)),
            x * x + abs(x), abs(wide) + wide]  # fmt: skip
    for got, expected in zip(out, want, strict=True):
        assert np.array_equal(got, expected)


def test_ramps_and_functions(target):
    @T.prim_func
    def main(
        A: T.Tensor((ROWS, 4), "float32"), O: T.Tensor((ROWS, 4), "float32"), I: T.Tensor((ROWS, 4), "int32")
    ):
        with T.Kernel(1, threads=64):
            for r in T.Parallel(ROWS):
                x = T.Cast("float32x4", A[r, T.Ramp(0, 1, 4)]) + T.Cast("float32x4", 0)
                O[r, 0:4] = T.exp2(x) + T.sqrt(x * x) + T.round(-x)
                I[r, 0:4] = T.ramp(r, 3, 4) * 2 + T.Cast("int32x4", T.Broadcast(T.int32(1), 4))

    a = numbers("float32", 4, 5)
    o, i = np.zeros((ROWS, 4), np.float32), np.zeros((ROWS, 4), np.int32)
    tilelang.compile(main, target=target)(a, o, i)
    assert np.allclose(o, np.exp2(a) + abs(a) - a, rtol=1e-6)
    assert np.array_equal(i, (np.arange(ROWS)[:, None] + 3 * np.arange(4)) * 2 + 1)


def test_variables_keep_their_values(target):
    """A name given to a variable's value does not follow it; a loop of the device changes the variable."""

    @T.prim_func
    def main(A: T.Tensor((ROWS, 4), "float32"), O: T.Tensor((2, ROWS, 4), "float32")):
        with T.Kernel(1, threads=64):
            for r in T.Parallel(ROWS):
                total = T.alloc_var("float32x4", T.Cast("float32x4", 1))
                before = total
                for n in T.serial(4):
                    total += A[r, 0:4]
                    total[0] = total[0] + T.cast(n, "float32")
                O[0, r, 0:4] = total
                O[1, r, 0:4] = before

    a, o = numbers("float32", 4, 6), np.full((2, ROWS, 4), np.nan, np.float32)
    tilelang.compile(main, target=target)(a, o)
    assert np.array_equal(o[0], 1 + 4 * a + np.array([6, 0, 0, 0])) and (o[1] == 1).all()


def test_lanes_are_unpacked_and_walked(target):
    @T.prim_func
    def main(A: T.Tensor((ROWS, 4), "float32"), O: T.Tensor((ROWS, 2), "float32")):
        with T.Kernel(1, threads=64):
            for r in T.Parallel(ROWS):
                four = T.__ldg(A[r, 0:4])
                low, high = T.vectorlow("float32x2", four), T.vectorhigh("float32x2", four)
                a, b = low
                total = T.alloc_var("float32", 0)
                for x in high:
                    total += x * len(four)
                O[r, 0] = a - b
                O[r, 1] = total

    a, o = numbers("float32", 4, 8), np.zeros((ROWS, 2), np.float32)
    tilelang.compile(main, target=target)(a, o)
    assert np.array_equal(o, np.stack([a[:, 0] - a[:, 1], 4 * (a[:, 2] + a[:, 3])], 1))


def test_vectors_live_in_branches_and_loops():
    """What is made of a vector in a branch of the device is made again behind it."""

    @T.prim_func
    def main(A: T.Tensor((ROWS, 8), "float16"), O: T.Tensor((3, ROWS, 8), "float16")):
        with T.Kernel(1, threads=64):
            r = T.get_thread_binding()
            v = T.reinterpret(T.ldg128(A[r, 0]), "float16x8")
            one = T.Cast("float16x8", 1)
            ramp = T.ramp(r, 1, 8)
            if r % 2 == 0:
                O[0, r, 0:8] = v + one
            else:
                O[0, r, 0:8] = v[0] + one
            for n in T.serial(2):
                O[n + 1, r, 0:8] = v * v + T.Cast("float16x8", ramp)
            T.stg128(O[1, r, 0], v + v[1] + one)

    a, o = numbers("float16", 8, 9), np.zeros((3, ROWS, 8), np.float16)
    for target in ("sim:sm_80", "sim:sm_90a"):
        tilelang.compile(main, target=target)(a, o)
        even = np.arange(ROWS)[:, None] % 2 == 0
        assert np.array_equal(o[0], np.where(even, a, a[:, :1]) + 1)
        assert np.array_equal(o[1], a + a[:, 1:2] + 1)
        assert np.array_equal(o[2], a * a + (np.arange(ROWS)[:, None] + np.arange(8)).astype(np.float16))
    source(main, "cuda -arch=sm_90a")


def test_vectors_meet_tiles_atomics_and_instructions():
    """Slices of fragments, choices between slices, atomic updates, dp4a."""

    @T.prim_func
    def main(
        A: T.Tensor((ROWS, 8), "float16"),
        B: T.Tensor((ROWS, 8), "int8"),
        O: T.Tensor((ROWS, 8), "float16"),
        S: T.Tensor((8,), "float32"),
        D: T.Tensor((ROWS,), "int32"),
        M: T.Tensor((4,), "int32"),
    ):
        with T.Kernel(1, threads=64):
            F, G = T.alloc_fragment((ROWS, 8), "float16"), T.alloc_fragment((ROWS, 8), "float16")
            T.copy(A, F)
            for i, p in T.Parallel(ROWS, 4):
                x = T.Cast("float16x2", F[i, 2 * p : 2 * p + 2])
                G[i, 2 * p : 2 * p + 2] = T.add2(x, F[i, 2 * p : 2 * p + 2]) * T.Cast("float16x2", 2)
            T.copy(G, O)
            for i in T.Parallel(ROWS):
                L = T.alloc_local((2,), "float32x4")
                L[0] = T.Cast("float32x4", A[i, 0:4])
                L[1] = T.if_then_else(i < 32, L[0], 0.0)
                T.atomic_add(S[0:4], T.Cast("float32x4", L[1]))
                total = T.alloc_local((1,), "int32")
                total[0] = 0
                T.dp4a(T.Cast("int8x4", B[i, 0:4]), T.reinterpret(B[i, 4:8], "int8x4"), total[0])
                D[i] = total[0]
                T.atomic_max(M[0:4], T.Cast("int32x4", B[i, 0:4]))

    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, (ROWS, 8)).astype(np.float16)
    b = rng.integers(-8, 8, (ROWS, 8)).astype(np.int8)
    for target in ("reference", "cpu", "sim:sm_80", "sim:sm_90a"):
        o, s = np.zeros((ROWS, 8), np.float16), np.zeros(8, np.float32)
        d, m = np.zeros(ROWS, np.int32), np.full(4, -99, np.int32)
        tilelang.compile(main, target=target)(a, b, o, s, d, m)
        assert np.array_equal(o, a * 4)
        assert np.array_equal(s, np.append(a[:32, :4].astype(np.float32).sum(0), [0] * 4))
        assert np.array_equal(d, (b[:, :4].astype(int) * b[:, 4:]).sum(1))
        assert np.array_equal(m, b[:, :4].max(0))
    assert "__dp4a" in source(main, "cuda -arch=sm_90a") and source(main, "cuda -arch=sm_80")


def test_shuffles_between_threads():
    @T.prim_func
    def main(A: T.Tensor((32, 8), "float16"), O: T.Tensor((32, 8), "float16"), P: T.Tensor((32, 3), "int16")):
        with T.Kernel(1, threads=32):
            r = T.get_thread_binding()
            v = T.reinterpret(T.ldg128(A[r, 0]), "float16x8")
            T.stg128(O[r, 0], T.shfl_xor(v, 1))
            P.vstore([r, 0], T.shfl_sync(T.Cast("int32x3", (r, r + 1, 7)), 3).astype("int16x3"))

    a, o, p = numbers("float16", 8, 4)[:32], np.zeros((32, 8), np.float16), np.zeros((32, 3), np.int16)
    for target in ("sim:sm_80", "sim:sm_90a"):
        tilelang.compile(main, target=target)(a, o, p)
        assert np.array_equal(o, a[np.arange(32) ^ 1]) and (p == [3, 4, 7]).all()
    text = source(main, "cuda -arch=sm_90a").partition("main_kernel(")[2]
    assert text.count("tl_shfl_xor_sync(") == 4  # of words, not of halves


PAIR = "T.Cast('float32x2', (1.0, 2.0))"
REFUSED = {
    "x = T.Cast('float32x4', A[0, 0:2]) + T.Cast('float32x4', 0)": "the slice has 2 elements, and float32x4",
    f"A[0, 0] = {PAIR}": "2 values are stored to one element of A: they go to a slice of 2",
    f"A[0, 0:4] = {PAIR}": "2 values are stored to a slice of 4 of A",
    f"x = {PAIR}[2]": "a vector of 2 has the lanes 0 to 1, not 2",
    f"x = {PAIR} + T.Cast('float32x4', (1.0, 2.0, 3.0, 4.0))": "vectors of 2 and of 4 lanes",
    f"x = {PAIR}\nx[0] = 1.0": "cannot be assigned: make it a variable, whose lanes can, v = T.",
    f"x = T.Shuffle([{PAIR}], [2])": "the lanes 0 to 1 together, not 2",
    f"x = T.vectorlow('float32x2', {PAIR})": "dtype is float32x2, but there is 1 lane of float32",
    "x = T.vectorhigh('float32', T.ldg128(A[0, 0])[0])": "of an even number of lanes, not of 1",
    "T.stg128(A[0, 0], T.Cast('float16x4', 1))": "T.stg128 stores 16 bytes, and float16x4 has 8",
    f"if {PAIR}:\n    A[0, 0] = 1.0": "the 2 values of a float32x2 are not one",
    "x = T.Broadcast(1.0, n)": "the number of lanes is a constant from 1 on",
    "x = A[0, T.Ramp(0, 2, 4)]": "an index has stride 1",
}


@pytest.mark.parametrize("body", REFUSED)
def test_refused(tmp_path, body):
    error = failure(tmp_path, body)
    assert REFUSED[body] in str(error), str(error)


@pytest.mark.parametrize("vector", ["T.cast(A[0:4], 'float32x4')", "A[0:4] + 0"])
def test_a_vector_without_a_name_is_taken_apart(vector, tmp_path):
    body = f"a, b, c, d = {vector}\nB[0] = d\nB[1] = a"
    signature = "A: T.Tensor((4,), 'float32'), B: T.Tensor((2,), 'float32')"
    main = kernel(tmp_path, body, signature, launch="T.Kernel(1, threads=1)")
    b = np.zeros(2, np.float32)
    tilelang.compile(main, target="reference")(np.arange(4, dtype=np.float32), b)
    assert list(b) == [3, 0]
