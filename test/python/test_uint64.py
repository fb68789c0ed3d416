"""Numbers from 2^63 to 2^64 - 1: constants, arguments and tensors of uint64, on every executor."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import assert_round_trip, failure

BIG = 2**63 + 12345
NUMBERS = np.array([0, 1, 5, 2**62, 2**63 - 1, BIG, BIG + 1, 2**64 - 1], np.uint64)
TARGETS = ["reference", "sim:sm_80", "sim:sm_90", "cpu"]
u = np.uint64


def elementwise(body, dtype):
    @T.prim_func
    def main(A: T.Tensor((8,), "uint64"), B: T.Tensor((8,), dtype)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i] = body(A[i])

    return main


def choose(c, a, b):
    return T.if_then_else(c, a, b)


# name: (of a kernel's value, of NumPy's array, dtype of the result)
CASES = {
    "sum": (lambda a: a + T.uint64(BIG), lambda a: a + u(BIG), "uint64"),
    "xor": (lambda a: a ^ BIG, lambda a: a ^ u(BIG), "uint64"),
    "product": (lambda a: a * 0xCBF29CE484222325, lambda a: a * u(0xCBF29CE484222325), "uint64"),
    "constant": (lambda a: BIG, lambda a: np.full(8, BIG, u), "uint64"),
    "above": (lambda a: choose(a > BIG, 1, 0), lambda a: a > u(BIG), "int32"),
    "not below": (lambda a: choose(a >= BIG, 1, 0), lambda a: a >= u(BIG), "int32"),
    "division": (lambda a: a // BIG + BIG // (a | 1), lambda a: a // u(BIG) + u(BIG) // (a | u(1)),
                 "uint64"),
    "remainder": (lambda a: a % BIG + BIG % (a | 1), lambda a: a % u(BIG) + u(BIG) % (a | u(1)), "uint64"),
    "right": (lambda a: T.uint64(BIG) >> (a & 31), lambda a: u(BIG) >> (a & u(31)), "uint64"),
    "left": (lambda a: T.uint64(BIG) << (a & 7), lambda a: u(BIG) << (a & u(7)), "uint64"),
    "minimum": (lambda a: T.min(a, BIG), lambda a: np.minimum(a, u(BIG)), "uint64"),
    "maximum": (lambda a: T.max(a, BIG), lambda a: np.maximum(a, u(BIG)), "uint64"),
    "clamp": (lambda a: T.clamp(a, 3, BIG), lambda a: np.clip(a, u(3), u(BIG)), "uint64"),
    "largest": (lambda a: T.max_value("uint64") - a, lambda a: u(2**64 - 1) - a, "uint64"),
    "choice": (lambda a: choose(a > 4, BIG, a), lambda a: np.where(a > 4, u(BIG), a), "uint64"),
    "to double": (lambda a: T.cast(a, "float64") * BIG, lambda a: a.astype(np.float64) * float(BIG),
                  "float64"),
    "to single": (lambda a: T.cast(a, "float32"), lambda a: a.astype(np.float32), "float32"),
    "from double": (lambda a: T.cast(T.cast(a, "float64") * 0.5, "uint64"),
                    lambda a: (a.astype(np.float64) * 0.5).astype(u), "uint64"),
    "constant from double": (lambda a: T.cast(T.float64(1.5e19), "uint64"),
                             lambda a: np.full(8, 15 * 10**18, u), "uint64"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_expressions(name):
    body, wanted, dtype = CASES[name]
    program = elementwise(body, dtype)
    assert_round_trip(str(program))
    with np.errstate(over="ignore"):
        wanted = np.asarray(wanted(NUMBERS)).astype(dtype)
    for target in TARGETS:
        result = np.zeros(8, dtype)
        tilelang.compile(program, target=target)(NUMBERS.copy(), result)
        assert np.array_equal(result, wanted), target
    tilelang.compile(program, target="cuda -arch=sm_80")


def test_conversions_to_floats_round_once():
    numbers = np.array([2**60 + 2**36 + 1, 2**63 + 2**39 + 1, 2**63 + 2**55 + 1, 2**63 + 2**55 - 1], u)

    @T.prim_func
    def main(A: T.Tensor((4,), "uint64"), B: T.Tensor((4,), "float32"), C: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                B[i] = A[i]
                C[i] = T.cast(T.cast(A[i], "bfloat16"), "float32")

    for target in TARGETS:
        b, c = np.zeros(4, np.float32), np.zeros(4, np.float32)
        tilelang.compile(main, target=target)(numbers, b, c)
        assert b.tolist() == [2.0**60 + 2**37, 2.0**63 + 2**40, 2.0**63 + 2**55, 2.0**63 + 2**55], target
        assert c.tolist() == [2.0**60, 2.0**63, 2.0**63 + 2**56, 2.0**63], target


@pytest.mark.parametrize("target", TARGETS)
def test_tile_operators(target):
    @T.prim_func
    def main(A: T.Tensor((8,), "uint64"), B: T.Tensor((8, 8), "uint64"), C: T.Tensor((2,), "uint64")):
        with T.Kernel(1, threads=32):
            T.annotate_safe_value({A: BIG})
            filled, part = T.alloc_fragment((8,), "uint64"), T.alloc_shared((8,), "uint64")
            all, top = T.alloc_fragment((8,), "uint64"), T.alloc_fragment((1,), "uint64")
            T.fill(filled, BIG)
            T.copy(filled, B[0, 0:8])
            T.copy(A[4:12], part)
            T.copy(part, B[1, 0:8])
            T.copy(A, all)
            T.reduce_max(all, top, dim=0)
            T.copy(top, C[0:1])
            T.reduce_min(all, top, dim=0)
            T.copy(top, C[1:2])
            T.clamp(all, 3, BIG)
            T.copy(all, B[2, 0:8])
            for i in T.Parallel(8):
                v = T.alloc_var("uint64", init=BIG)
                v = v | A[i]
                B[3, i] = v
                T.atomic_max(B[4, i], BIG)
                T.atomic_add(B[5, i], BIG)

    b, c = np.ones((8, 8), u), np.zeros(2, u)
    tilelang.compile(main, target=target)(NUMBERS[::-1].copy(), b, c)
    back = NUMBERS[::-1]
    assert (b[0] == BIG).all() and (b[4] == BIG).all() and (b[5] == BIG + 1).all()
    assert b[1].tolist() == back[4:].tolist() + [BIG] * 4
    assert np.array_equal(b[2], np.clip(back, u(3), u(BIG))) and np.array_equal(b[3], back | u(BIG))
    assert c.tolist() == [2**64 - 1, 0]


@pytest.mark.parametrize("target", TARGETS)
def test_arguments(target):
    @T.prim_func
    def main(A: T.Tensor((8,), "uint64"), s: T.uint64, f: T.float32, B: T.Tensor((8,), "uint64")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i] = T.if_then_else(A[i] >= s, A[i] - s, s // 3 + A[i]) + T.cast(f > 1e19, "uint64")

    kernel = tilelang.compile(main, target=target)
    for s in (BIG, 2**64 - 1, u(BIG), 5):
        b = np.zeros(8, u)
        kernel(NUMBERS, s, 2**64 - 1, b)
        assert np.array_equal(b, np.where(u(s) <= NUMBERS, NUMBERS - u(s), u(s) // u(3) + NUMBERS) + u(1))
    for wrong in (-1, 2**64):
        refused = "argument 1 's' is .*(uint64 cannot hold|does not fit in 64 bits)"
        with pytest.raises(Exception, match=refused):
            kernel(NUMBERS, wrong, 1.0, np.zeros(8, u))


@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_arguments_of_other_types(dtype):
    @T.prim_func
    def main(s: getattr(T, dtype), B: T.Tensor((8,), "int64")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i] = s

    with pytest.raises(Exception, match=f"argument 0 's' is {BIG}, which int.. cannot hold"):
        tilelang.compile(main, target="cpu")(BIG, np.zeros(8, np.int64))


def test_sizes_are_less():
    @T.prim_func
    def main(s: T.uint64, B: T.Tensor((8,), "int64")):
        with T.Kernel(s % 7 + 1, threads=32) as bx:
            B[0] = bx

    with pytest.raises(Exception, match=f"'s' is {BIG}, but sizes are computed from it"):
        tilelang.compile(main, target="cpu")(BIG, np.zeros(8, np.int64))


@pytest.mark.parametrize("body, text", [
    ("A[bx, 0] = T.cast(n, 'int64') + 9223372036854775808", "9223372036854775808 does not fit in int64"),
    ("A[9223372036854775808, 0] = 1", "less than 2^63"),
    ("A[T.uint64(9223372036854775808), 0] = 1", "less than 2^63"),
    ("A[bx, 0] = T.uint64(1) << 9223372036854775808", "the amount must lie in [0, 64)"),
])  # fmt: skip
def test_mistakes(tmp_path, body, text):
    assert text in failure(tmp_path, body).text
