"""Integers: the type in which operands meet, where operations wrap, what is never assumed of data."""

import re
from pathlib import Path

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import TARGETS, failure

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
NUMERICS = Path(__file__).resolve().parents[2] / "docs" / "numerics.md"


def elementwise(body, count, dtype, out):
    @T.prim_func
    def main(A: T.Tensor((count,), dtype), B: T.Tensor((count,), dtype), C: T.Tensor((count,), out)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(count):
                C[i] = body(A[i], B[i])

    return main


def check(body, a, b, wanted):
    """Every target gives `wanted`, whose dtype is that of the result."""
    program = elementwise(body, len(a), str(a.dtype), str(wanted.dtype))
    for target in TARGETS:
        result = np.zeros(len(a), wanted.dtype)
        tilelang.compile(program, target=target)(a.copy(), b.copy(), result)
        assert np.array_equal(result, wanted), (target, result, wanted)
    tilelang.compile(program, target="cuda -arch=sm_80")


def extremes(dtype):
    info = np.iinfo(dtype)
    numbers = {info.min, info.min + 1, info.max, info.max - 1, info.max // 2 + 1, 0, 1, 2, 3, 5, 100}
    numbers |= {-1, -2, -7, info.min // 2} if info.min else set()
    return sorted(numbers)


def pairs(dtype):
    """Each number with each, as two arrays, and as two lists of Python's exact numbers."""
    numbers = extremes(dtype)
    a, b = [x for x in numbers for _ in numbers], [y for _ in numbers for y in numbers]
    return np.array(a, dtype), np.array(b, dtype), a, b


def wrapped(numbers, dtype):
    info = np.iinfo(dtype)
    size = 2**info.bits
    return np.array([(int(n) - info.min) % size + info.min for n in numbers], dtype)


def truncmod(n, divisor):
    return abs(n) % abs(divisor) * (-1 if n < 0 else 1)


# ── the type in which operands meet ───────────────────────────────────────────────────────────────────
def documented():
    """{(left, right): type} of the table in docs/numerics.md."""
    rows = re.findall(r"^\| (`.*|left.*) \|$", NUMERICS.read_text(), re.M)
    start = next(n for n, row in enumerate(rows) if row.startswith("left"))
    right = re.findall(r"`(\w+)`", rows[start])
    table = {}
    for row in rows[start + 1 : start + 10]:
        left, *types = [cell.strip(" `") for cell in row.split("|")]
        table.update({(left, r): t for r, t in zip(right, types, strict=True)})
    return table


def test_types_meet_as_documented():
    table, found = documented(), {}
    assert len(table) == 9 * 8

    def ask(a, b):
        for left, right in table:
            x, y = T.cast(a, left), T.cast(b, right)
            types = {str(v.dtype) for v in (x + y, x * y, x // y, y % x, x & y, T.min(x, y), T.truncdiv(x, y),
                                            T.if_then_else(a > 0, x, y))}  # fmt: skip
            assert len(types) == 1
            found[left, right] = types.pop()
            assert str((x < y).dtype) == "bool"
            amount = "int32" if right == "int64" else right  # which an index is, too
            assert str((x << y).dtype) == str((x >> y).dtype) == table[left, amount]
        return a

    elementwise(ask, 4, "int32", "int32")
    assert found == table


def test_numbers_of_python_take_the_type_of_the_other(tmp_path):
    def ask(a, b):
        for dtype in INTEGERS:
            x = T.cast(a, dtype)
            values = (x + 1, 1 - x, x * 9, x // 3, 7 % (x | 1), x << 2, 1 << x, x & 0xFF, T.max(x, 3), -x, ~x)
            assert {str(v.dtype) for v in values} == {dtype}
            assert str((x + 1.5).dtype) == "float32"
            assert str((x + True).dtype) == dtype
        return a

    elementwise(ask, 4, "int32", "int32")
    signature = "A: T.Tensor((64, 8), 'int8')"
    assert "200 does not fit" in str(failure(tmp_path, "A[0, 0] = A[0, 1] + 200", signature=signature))
    shifted = str(failure(tmp_path, "A[0, 0] = A[0, 1] << 8", signature=signature))
    assert "a shift of int8 by 8: the amount must lie in [0, 8)" in shifted
    shifted = str(failure(tmp_path, "A[0, 0] = A[0, 1] << T.int16(16)", signature=signature))
    assert "a shift of int16 by 16: the amount must lie in [0, 16)" in shifted


def test_a_comparison_converts_its_operands_first():
    a = np.array([-1, 1], np.int32)
    check(lambda a, b: T.if_then_else(a < T.uint32(1), 1, 0), a, a, np.array([0, 0], np.int32))


def test_a_wide_amount_widens_what_is_shifted():
    a, b = np.array([255, 3, 200], np.uint8), np.array([20, 24, 8], np.uint8)
    wide = a.astype(np.int32)
    check(lambda a, b: a << T.int32(b), a, b, wide << b)
    check(lambda a, b: T.shift_left(a, T.int64(b)) >> 4, a, b, (wide << b) >> 4)
    # an index keeps the 32 bits of a uint32
    c = np.array([0xFFFFFFFF, 5, 1 << 30], np.uint32)
    check(lambda c, d: (c << T.int64(3)) >> T.int64(3), c, c, (c << 3) >> 3)


# ── where operations wrap ─────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
def test_a_wider_use_changes_nothing_about_a_narrow_operation(dtype):
    a, b, x, y = pairs(dtype)
    doubled = wrapped([n << 1 for n in x], dtype)
    sums = wrapped([n + m for n, m in zip(x, y, strict=True)], dtype)
    check(lambda a, b: T.int32(a << 1) + 5, a, b, doubled.astype(np.int32) + 5)
    check(lambda a, b: a << 2, a, b, wrapped([n << 2 for n in x], dtype).astype(np.int64))
    check(lambda a, b: a * 4, a, b, wrapped([n * 4 for n in x], dtype).astype(np.int32))
    check(lambda a, b: (a << 1) | T.int32(1), a, b, doubled.astype(np.int32) | 1)
    check(lambda a, b: T.int64(a + b), a, b, sums.astype(np.int64))
    check(lambda a, b: (a << 1) >> 1, a, b, doubled >> 1)


def shifted_back(bits):
    return (lambda a, b: (a << (bits - 4)) >> (bits - 4)), (lambda n, m, w: w(n << (bits - 4)) >> (bits - 4))


# name: (of a kernel's values, of exact numbers, w wrapping to the type)
WRAPPING = {
    "7/7": (lambda a, b: a * 7 // 7, lambda n, m, w: w(n * 7) // 7),
    "3%3": (lambda a, b: a * 3 % 3, lambda n, m, w: w(n * 3) % 3),
    "shift/4": (lambda a, b: (a << 2) // 4, lambda n, m, w: w(n << 2) // 4),
    "x+1>x": (lambda a, b: T.if_then_else(a + 1 > a, 1, 0), lambda n, m, w: w(n + 1) > n),
    "x-y>0": (lambda a, b: T.if_then_else(a - b > 0, 1, 0), lambda n, m, w: w(n - m) > 0),
    "square": (lambda a, b: a * a // (a | 1), lambda n, m, w: w(n * n) // (n | 1)),
    "middle": (lambda a, b: (a + b) // 2, lambda n, m, w: w(n + m) // 2),
    "product": (lambda a, b: T.truncmod(a * b, 100), lambda n, m, w: truncmod(w(n * m), 100)),
    "minimum": (lambda a, b: T.min(a + 5, a), lambda n, m, w: min(w(n + 5), n)),
}


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", WRAPPING)
def test_data_of_every_width_wrap(dtype, name):
    body, exact = WRAPPING[name]
    a, b, x, y = pairs(dtype)
    one = lambda n: int(wrapped([n], dtype)[0])  # noqa: E731
    check(body, a, b, wrapped([exact(n, m, one) for n, m in zip(x, y, strict=True)], dtype))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_back(dtype):
    body, exact = shifted_back(np.iinfo(dtype).bits)
    a, b, x, _ = pairs(dtype)
    check(body, a, b, wrapped([exact(n, 0, lambda v: int(wrapped([v], dtype)[0])) for n in x], dtype))


def test_a_name_and_an_argument_are_data():
    @T.prim_func
    def main(A: T.Tensor((4,), "int64"), C: T.Tensor((4,), "int64"), s: T.int64):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                x = A[i]
                C[i] = x * 7 // 7 + (s * 3 // 3 - s)

    a, s = np.array([2**62, -(2**63), 5, 2**63 - 1], np.int64), 2**62
    one = lambda n: int(wrapped([n], "int64")[0])  # noqa: E731
    wanted = wrapped([one(n * 7) // 7 + one(s * 3) // 3 - s for n in a.tolist()], "int64")
    for target in TARGETS:
        result = np.zeros(4, np.int64)
        tilelang.compile(main, target=target)(a.copy(), result, s)
        assert np.array_equal(result, wanted), target


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("divisor", [-1, -2, -3, -10, -64, -128])
def test_negative_constant_divisors(dtype, divisor):
    a, b, x, _ = pairs(dtype)
    check(lambda a, b: a // divisor, a, b, wrapped([n // divisor for n in x], dtype))
    check(lambda a, b: a % divisor, a, b, wrapped([n % divisor for n in x], dtype))
    check(lambda a, b: T.truncmod(a, divisor), a, b, wrapped([truncmod(n, divisor) for n in x], dtype))


# ── divisors that are 0 ───────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("division", ["A[0, 1] // 0", "A[0, 1] % 0", "bx % 0", "T.truncmod(A[0, 1], 0)",
                                      "T.truncdiv(bx, 0)", "A[0, 1] // T.int32(0)"])  # fmt: skip
def test_a_constant_divisor_0_is_an_error_where_it_is_written(tmp_path, division):
    error = str(failure(tmp_path, f"B = 1\nA[0, 0] = {division}", signature="A: T.Tensor((64, 8), 'int32')"))
    assert re.search(r"\.py:6:\d+: error: `.*` divides by 0", error)


# What might be simplified to a number, or left out.
DIVISIONS = {
    "0//z": lambda x, z: 0 // z,
    "0%z": lambda x, z: 0 % z,
    "z//z": lambda x, z: z // z,
    "z%z": lambda x, z: z % z,
    "truncdiv": lambda x, z: T.truncdiv(z, z),
    "truncmod": lambda x, z: T.truncmod(0, z),
    "times 0": lambda x, z: x // z * 0,
    "difference": lambda x, z: x // z - x // z,
    "and 0": lambda x, z: x % z & 0,
    "shifted away": lambda x, z: T.if_then_else(x % z < T.max_value("int32"), 1, 1),
    "product": lambda x, z: x * z // z,
}


@pytest.mark.parametrize("name", DIVISIONS)
def test_a_division_by_zero_is_found_whatever_is_made_of_it(target, name):
    program = elementwise(DIVISIONS[name], 4, "int32", "int32")
    kernel = tilelang.compile(program, target=target)
    x, z, result = np.arange(4, dtype=np.int32), np.array([1, 2, -3, 4], np.int32), np.zeros(4, np.int32)
    kernel(x, z, result)
    z[2] = 0
    with pytest.raises(RuntimeError if target == "cpu" else tilelang.CompileError, match="division by zero"):
        kernel(x, z, result)
