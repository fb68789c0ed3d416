"""Integer division: nothing traps where no result is taken; a divisor of 0 that counts is an error."""

import inspect
import os
import subprocess
import sys

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import load

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
N, TILE = 100, 64


# ── programs, each with the elements of its result that count ─────────────────────────────────────────
def ragged(dtype, divide):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, TILE), threads=64) as bx:
            for i in T.Parallel(TILE):
                C[bx * TILE + i] = divide(A[bx * TILE + i], B[bx * TILE + i])

    return main


def named(dtype, divide):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, TILE), threads=64) as bx:
            for i in T.Parallel(TILE):
                b = B[bx * TILE + i]
                q = divide(A[bx * TILE + i], b)
                if q != 100:
                    C[bx * TILE + i] = q

    return main


def under_if(dtype, divide):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(N):
                if B[i] != 0:
                    C[i] = divide(A[i], B[i])

    return main


def if_then_else(dtype, divide):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(N):
                C[i] = T.if_then_else(B[i] == 0, C[i], divide(A[i], B[i]))

    return main


def ternary(dtype, divide):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(N):
                C[i] = divide(A[i], B[i]) if B[i] != 0 else C[i]

    return main


def after_and(dtype, divide):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(N):
                if B[i] != 0 and divide(A[i], B[i]) != 100:
                    C[i] = divide(A[i], B[i])

    return main


def after_or(dtype, divide):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(N):
                if B[i] == 0 or divide(A[i], B[i]) == 100:
                    C[i] = C[i]
                else:
                    C[i] = divide(A[i], B[i])

    return main


def serial(dtype, divide):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(1, threads=64):
            for i in T.serial(N):
                if B[i] != 0 and divide(A[i], B[i]) != 100:
                    C[i] = divide(A[i], B[i])

    return main


def shared_divisor(dtype, divide):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(N // 20, threads=64) as bx:
            for i in T.Parallel(20):
                if B[bx] != 0:
                    C[bx * 20 + i] = divide(A[bx * 20 + i], B[bx])

    return main


PROGRAMS = [ragged, named, under_if, if_then_else, ternary, after_and, after_or, serial, shared_divisor]
DIVISIONS = {
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "truncdiv": T.truncdiv,
    "truncmod": T.truncmod,
}


def expected(name, a, b):
    """In Python's integers, wrapped."""
    size = 2 ** (8 * a.dtype.itemsize)
    results = []
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        quotient = x // y if name in ("//", "%") else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        results.append((quotient if name in ("//", "truncdiv") else x - y * quotient) % size)
    return np.array(results, np.uint64).astype(a.dtype)


def values(dtype, zeros):
    rng = np.random.default_rng(1)
    info = np.iinfo(dtype)
    a = rng.choice(np.array([info.min, info.max, info.min + 1, 0, 1, 7, 100], dtype), N)
    few = [-1, 1, 2, 5, -3] if info.min < 0 else [1, 2, 5]
    return a, rng.choice(np.array(few + [0, 0] * zeros, dtype), N)


def check(program, target):
    """With TL_FULL=1 every division of every type; else each of both with some of the others."""
    for at, dtype in enumerate(INTEGERS):
        for number, (name, divide) in enumerate(DIVISIONS.items()):
            if (at + number + at // 4 + PROGRAMS.index(program)) % 2 and not os.environ.get("TL_FULL"):
                continue
            kernel = tilelang.compile(program(dtype, divide), target=target)
            a, b = values(dtype, program not in (ragged, named))
            c = np.full(N, 100, dtype)
            kernel(a, b, c)
            by = np.repeat(b[: N // 20], 20) if program is shared_divisor else b
            right = np.where(by == 0, 100, expected(name, a, np.where(by == 0, 1, by))).astype(dtype)
            if program is serial or program in (named, after_and, after_or):
                right = np.where(right == 100, 100, right)
            np.testing.assert_array_equal(c, right, f"{program.__name__} {dtype} {name}")


@pytest.mark.parametrize("target", ["reference", "sim:sm_80"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_nothing_traps_where_no_result_is_taken(program, target):
    check(program, target)


def test_nothing_traps_on_the_cpu():
    """A trap would end this process."""
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


# ── a divisor of 0 that counts ────────────────────────────────────────────────────────────────────────
@T.prim_func
def divided(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32"), C: T.Tensor((N,), "int32")):
    with T.Kernel(T.ceildiv(N, TILE), threads=64) as bx:
        for i in T.Parallel(TILE):
            C[bx * TILE + i] = A[bx * TILE + i] // B[bx * TILE + i]


def test_a_division_by_zero_is_an_error_at_its_line(target):
    kernel = tilelang.compile(divided, target=target)
    a, b, c = np.arange(N, dtype=np.int32), np.ones(N, np.int32), np.zeros(N, np.int32)
    b[70] = 0
    lines, first = inspect.getsourcelines(inspect.getmodule(test_nothing_traps_where_no_result_is_taken))
    line = first + next(i for i, text in enumerate(lines, 1) if "A[bx * TILE + i] // B" in text)
    kind = RuntimeError if target == "cpu" else tilelang.CompileError
    with pytest.raises(kind, match=rf"test_division.py:{line}:.*division by zero: .*guard it with an if"):
        kernel(a, b, c)
    b[70] = 3  # and the kernel is none the worse for it
    kernel(a, b, c)
    np.testing.assert_array_equal(c, a // b)


MOVED = """
import tilelang.language as T
@T.prim_func
def main(A: T.Tensor((8,), "int32"), C: T.Tensor((8,), "int32")):
    with T.Kernel(1, threads=8):
        for i in T.Parallel(8):
            C[i] = 7 // A[i]
"""


def test_a_kernel_that_has_moved_in_its_file_names_its_new_line(tmp_path, monkeypatch):
    """Its text is that of the one in the disk cache, whose binary names the old line."""
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    for above in (0, 3):
        file = tmp_path / "moved.py"
        file.write_text("\n" * above + MOVED)
        kernel = tilelang.compile(load(file).main, target="cpu")
        with pytest.raises(RuntimeError, match=rf"moved.py:{7 + above}: division by zero"):
            kernel(np.zeros(8, np.int32), np.zeros(8, np.int32))


@T.prim_func
def counted(A: T.Tensor((N,), "int32"), C: T.Tensor((N,), "int32"), n: T.int32):
    with T.Kernel(1, threads=64):
        C[0] = T.ceildiv(7, n) + A[0]
        if n > 5 and 7 % n == 1:
            C[1] = 1


def test_a_scalar_division_by_zero_is_an_error(target):
    kernel = tilelang.compile(counted, target=target)
    a, c = np.zeros(N, np.int32), np.zeros(N, np.int32)
    kernel(a, c, 2)
    assert c[0] == 4
    with pytest.raises(RuntimeError if target == "cpu" else tilelang.CompileError, match="division by zero"):
        kernel(a, c, 0)


@T.prim_func
def copied(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32"), C: T.Tensor((N,), "int32")):
    with T.Kernel(T.ceildiv(N, TILE), threads=64) as bx:
        a, b = T.alloc_fragment((TILE,), "int32"), T.alloc_fragment((TILE,), "int32")
        T.annotate_safe_value({B: 1})
        T.copy(A[bx * TILE], a)
        T.copy(B[bx * TILE], b)
        for i in T.Parallel(TILE):
            a[i] = a[i] // b[i]
        T.copy(a, C[bx * TILE])


def test_tiles_that_reach_outside_divide_by_the_safe_value(target):
    a, b, c = np.arange(N, dtype=np.int32), np.full(N, 3, np.int32), np.zeros(N, np.int32)
    tilelang.compile(copied, target=target)(a, b, c)
    np.testing.assert_array_equal(c, a // b)


@T.prim_func
def harmless(A: T.Tensor((N,), "int32"), C: T.Tensor((N,), "int32")):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(N):
            C[i] = A[i] // 3 + A[i] % 7 + A[i] // (i + 1) + T.truncdiv(A[i], 1 + (i % 5))


def test_divisors_that_cannot_be_zero_are_not_asked():
    assert "division by zero" not in tilelang.compile(harmless, target="cpu").get_kernel_source()
    assert "division by zero" in tilelang.compile(divided, target="cpu").get_kernel_source()


# ── other operations without a result ─────────────────────────────────────────────────────────────────
@T.prim_func
def wild(A: T.Tensor((N,), "int32"), F: T.Tensor((N,), "float32"), C: T.Tensor((N,), "int32")):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(N):
            if A[i] >= 0 and A[i] < 32 and (1 << A[i]) > 4:
                C[i] = 1 << A[i]
            if F[i] < 1000.0 and T.cast(F[i], "int32") == 3:
                C[i] = T.if_then_else(A[i] >= 0, 1 >> T.min(A[i], 31), T.cast(F[i], "int32"))


def test_shifts_and_casts_count_where_their_condition_holds(target):
    a = np.tile(np.array([-5, 3, 40, 31, 2**31 - 1], np.int32), N // 5)
    f = np.tile(np.array([3.5, 1e30, np.inf, np.nan], np.float32), N // 4)
    c, right = np.zeros(N, np.int32), np.zeros(N, np.int32)
    right[(a == 3) | (a == 31)] = [8, -(2**31)] * (N // 5)
    right[a == 31] = 0  # 1 << 31 is negative
    right[(a == 3)] = 8
    right[f == 3.5] = np.where(a[f == 3.5] < 0, 3, 0)
    tilelang.compile(wild, target=target)(a, f, c)
    np.testing.assert_array_equal(c, right)


if __name__ == "__main__":
    for each in PROGRAMS:
        print(each.__name__, flush=True)  # the last one is the one that trapped
        check(each, "cpu")


# ── rounded up ────────────────────────────────────────────────────────────────────────────────────────
def rounded_up(dtype, count, by):
    @T.prim_func
    def main(A: T.Tensor((count,), dtype), B: T.Tensor((count,), dtype), C: T.Tensor((count,), dtype)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(count):
                a = A[i]
                C[i] = T.ceildiv(a, B[i] if by is None else by)

    return main


@pytest.mark.parametrize("dtype", INTEGERS)
def test_a_quotient_rounded_up(target, dtype):
    """Of every sign, and up to the ends of the type, where a + b - 1 would wrap."""
    ends = np.iinfo(dtype)
    some = {ends.min, ends.min + 1, -100, -9, -7, -1, 0, 1, 7, 9, 100, ends.max - 1, ends.max}
    values = [x for x in sorted(some) if ends.min <= x <= ends.max]
    pairs = [(a, b) for a in values for b in values if b and (a, b) != (ends.min, -1)]
    a, b = np.array(pairs, dtype).T.copy()
    for by in (None, 16, 1, *([-3] if ends.min else [])):
        kept = [(int(x), int(y) if by is None else by) for x, y in zip(a, b, strict=True)]
        c = np.zeros_like(a)
        tilelang.compile(rounded_up(dtype, len(a), by), target=target)(a, b, c)
        assert c.tolist() == [-(-x // y) for x, y in kept], by


def test_lengths_are_rounded_up_by_a_sum():
    """What is known of indices goes by that form."""
    m, n = T.dynamic("m, n")

    @T.prim_func
    def main(A: T.Tensor((m, n), "int32")):
        with T.Kernel(T.ceildiv(m, 64), T.ceildiv(m, n), threads=64) as (bx, by):
            for i in T.serial(T.ceildiv(n - bx, 8)):
                A[bx, i] = T.ceildiv(T.cast(A[0, 0], "int64"), 4) + T.ceildiv(i, 4)

    text = str(main)
    for form in ("(m + 63)//64", "(m + (n - 1))//n", "(n - bx + 7)//8", "(i + 3)//4"):
        assert form in text, text
    assert "%" not in text, text


@pytest.mark.parametrize("kind", ["int32", "uint32", "int64", "int16"])
def test_a_grid_may_be_made_of_scalars(kind):
    """A launch computes what a kernel may: whatever form ceildiv takes there."""

    @T.prim_func
    def main(n: getattr(T, kind), A: T.Tensor((300,), "int32")):
        with T.Kernel(T.ceildiv(n, 64), threads=64) as bx:
            for i in T.Parallel(64):
                if bx * 64 + i < n:
                    A[bx * 64 + i] = 1

    a = np.zeros(300, "i4")
    tilelang.compile(main, target="sim:sm_80")(130, a)
    assert a[:130].all() and not a[130:].any()
    assert tilelang.compile(main, target="cuda -arch=sm_80").get_kernel_source()


def test_floats_are_not_rounded_up_by_ceildiv():
    def main_of():
        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(1, threads=32):
                A[0] = T.ceildiv(A[1], 2)

        return main

    with pytest.raises(tilelang.CompileError, match=r"ceildiv takes two integers, .*T.ceil\(a / b\)"):
        main_of()
