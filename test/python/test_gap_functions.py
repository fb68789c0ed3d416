"""Functions of the language by the published names of their parameters, and results of narrow integers."""

import math

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import random, run
from tilelang.cuda import intrinsics

SIM = "sim:sm_90"


def of_elements(function, inputs, output, n=64):
    """The program that applies `function` element by element; inputs and output are dtypes."""
    if len(inputs) == 1:

        @T.prim_func
        def main(A: T.Tensor((n,), inputs[0]), C: T.Tensor((n,), output)):
            with T.Kernel(1, threads=64):
                for i in T.Parallel(n):
                    C[i] = function(A[i])
    else:

        @T.prim_func
        def main(A: T.Tensor((n,), inputs[0]), B: T.Tensor((n,), inputs[1]), C: T.Tensor((n,), output)):
            with T.Kernel(1, threads=64):
                for i in T.Parallel(n):
                    C[i] = function(A[i], B[i])

    return main


# ── 8- and 16-bit integers ────────────────────────────────────────────────────────────────────────────

NARROW = {
    "left": (lambda x: T.reinterpret(x << T.uint16(8), T.float16), np.uint16, np.float16,
             lambda x: (x << 8).view(np.float16)),
    "or and": (lambda x: T.reinterpret(x | (x & T.uint16(0x7F)), T.float16), np.uint16, np.float16,
               lambda x: (x | (x & 0x7F)).view(np.float16)),
    "parts": (lambda x: T.reinterpret((x & T.uint16(0x8000)) | ((x >> T.uint16(1)) & T.uint16(0x3FFF)),
                                      "float16"),
              np.uint16, np.float16, lambda x: ((x & 0x8000) | (x >> 1 & 0x3FFF)).view(np.float16)),
    "bytes": (lambda x: T.reinterpret(x >> T.uint8(1), T.int8), np.uint8, np.int8,
              lambda x: (x >> 1).view(np.int8)),
    "not": (lambda x: T.reinterpret(~x, T.int16), np.uint16, np.int16, lambda x: (~x).view(np.int16)),
    "xor": (lambda x: T.reinterpret(x ^ T.uint8(0x88), T.int8), np.uint8, np.int8,
            lambda x: (x ^ np.uint8(0x88)).view(np.int8)),
    "product": (lambda x: T.reinterpret(x * x, T.int8), np.uint8, np.int8, lambda x: (x * x).view(np.int8)),
}  # fmt: skip


@pytest.mark.parametrize("case", NARROW)
def test_results_of_narrow_integers(case):
    function, source, result, expected = NARROW[case]
    a = np.random.default_rng(0).integers(0, np.iinfo(source).max, 64, source, endpoint=True)
    program = of_elements(function, [np.dtype(source).name], np.dtype(result).name)
    for target in ("cpu", "reference", SIM):
        c = np.zeros(64, result)
        run(program, target, a, c)
        assert np.array_equal(c.view(source), expected(a).view(source)), target
    for chip in ("sm_80", "sm_90"):
        assert "__global__" in tilelang.compile(program, target=f"cuda -arch={chip}").get_kernel_source()


# ── names of parameters ───────────────────────────────────────────────────────────────────────────────

BY_NAME = {
    "if_then_else": (lambda a, b: T.if_then_else(a > b, t=a, f=b), np.maximum),
    "if_then_else span": (lambda a, b: T.if_then_else(cond=a > b, t=a, f=b, span=None), np.maximum),
    "ceildiv": (lambda a, b: T.ceildiv(lhs=a, rhs=b), lambda a, b: -(-a // b)),
    "ceildiv span": (lambda a, b: T.ceildiv(a, b, span=None), lambda a, b: -(-a // b)),
    "cdiv": (lambda a, b: T.cdiv(a, b), lambda a, b: -(-a // b)),
    "floordiv": (lambda a, b: T.floordiv(a=a, b=b, span=None), lambda a, b: a // b),
    "floormod": (lambda a, b: T.floormod(a, b, None), lambda a, b: a % b),
    "truncdiv": (lambda a, b: T.truncdiv(a=-a, b=b, span=None), lambda a, b: -(a // b)),
    "truncmod": (lambda a, b: T.truncmod(a=-a, b=b, span=None), lambda a, b: -(a % b)),
    "shift_left": (lambda a, b: T.shift_left(x=a, y=b % 4), lambda a, b: a << b % 4),
    "shift_right": (lambda a, b: T.shift_right(x=a, y=b % 4, span=None), lambda a, b: a >> b % 4),
    "bitwise_and": (lambda a, b: T.bitwise_and(x=a, y=b, span=None), lambda a, b: a & b),
    "bitwise_or": (lambda a, b: T.bitwise_or(x=a, y=b), lambda a, b: a | b),
    "bitwise_xor": (lambda a, b: T.bitwise_xor(x=a, y=b, span=None), lambda a, b: a ^ b),
    "bitwise_not": (lambda a, b: T.bitwise_not(x=a, span=None) + b, lambda a, b: ~a + b),
    "align_up": (lambda a, b: T.align_up(x=a, y=b), lambda a, b: -(-a // b) * b),
    "abs": (lambda a, b: T.abs(x=b - a, span=None), lambda a, b: np.abs(b - a)),
    "Select": (lambda a, b: T.Select(condition=a < b, true_value=a, false_value=b, span=None), np.minimum),
    "Cast": (lambda a, b: T.Cast("int32", a, None, None) + T.Cast(dtype="int32", value=b, annotations=None),
             lambda a, b: a + b),
    "likely": (lambda a, b: T.if_then_else(T.likely(a > b), a, b), np.maximum),
}  # fmt: skip


@pytest.mark.parametrize("case", BY_NAME)
def test_parameters_by_name(target, case):
    function, expected = BY_NAME[case]
    rng = np.random.default_rng(0)
    a, b = (rng.integers(1, 100, 64).astype(np.int32) for _ in range(2))
    c = np.zeros(64, np.int32)
    run(of_elements(function, ["int32", "int32"], "int32"), target, a, b, c)
    assert np.array_equal(c, expected(a, b))


FLOATS = {
    "ceil": np.ceil, "floor": np.floor, "trunc": np.trunc, "isnan": np.isnan, "isinf": np.isinf,
    "isfinite": np.isfinite, "abs": np.abs, "nearbyint": np.rint, "round": np.rint, "fabs": np.abs,
}  # fmt: skip


@pytest.mark.parametrize("name", FLOATS)
def test_a_place_may_be_given(target, name):
    def function(x):
        return T.cast(getattr(T, name)(x=x, span=None), "float32")

    a = (random(64) * 3).astype(np.float32)
    a[:4] = [0.5, -1.5, np.inf, np.nan]
    c = np.zeros(64, np.float32)
    run(of_elements(function, ["float32"], "float32"), target, a, c)
    np.testing.assert_array_equal(c, FLOATS[name](a).astype(np.float32))


TWO_FLOATS = {
    "atan2": (("x1", "x2"), np.arctan2), "copysign": (("x1", "x2"), np.copysign),
    "hypot": (("x1", "x2"), np.hypot), "nextafter": (("x1", "x2"), np.nextafter),
    "fmod": (("x", "y"), np.fmod), "pow": (("x", "y"), None),
}  # fmt: skip


@pytest.mark.parametrize("name", TWO_FLOATS)
def test_functions_of_two_floats(target, name):
    (first, second), expected = TWO_FLOATS[name]
    a, b = random(64), random(64, seed=1)
    if expected is None:
        a, expected = np.abs(a), np.power
    c = np.zeros(64, np.float32)

    def function(x, y):
        return getattr(T, name)(**{first: x, second: y})

    run(of_elements(function, ["float32", "float32"], "float32"), target, a, b, c)
    np.testing.assert_allclose(c, expected(a, b), rtol=1e-5, atol=1e-6)


def test_ldexp(target):
    a, e = random(64), np.random.default_rng(1).integers(-8, 9, 64).astype(np.int32)
    c = np.zeros(64, np.float32)
    run(of_elements(lambda x, n: T.ldexp(x, n), ["float32", "int32"], "float32"), target, a, e, c)
    assert np.array_equal(c, np.ldexp(a, e))


def test_fma_and_intrinsics_by_name(target):
    a, b, c = random(64), random(64, seed=1), np.zeros(64, np.float32)
    run(of_elements(lambda x, y: T.fma(x=x, y=y, z=x), ["float32", "float32"], "float32"), target, a, b, c)
    np.testing.assert_allclose(c, a * b + a, rtol=1e-6, atol=1e-6)
    a = np.abs(a)
    run(of_elements(lambda x: T.call_intrin("float32", "tirx.sqrt", x), ["float32"], "float32"), target, a, c)
    np.testing.assert_allclose(c, np.sqrt(a), rtol=1e-6)


def test_numbers_outside_of_kernels():
    assert tilelang.next_power_of_2(x=5) == 8 == tilelang.math.next_power_of_2(x=8)
    assert tilelang.cdiv(a=7, b=2) == 4 == T.ceildiv(lhs=7, rhs=2) == tilelang.math.cdiv(7, 2)


# ── T.gemm, T.view, layouts ───────────────────────────────────────────────────────────────────────────


def test_gemm_by_position(target):
    half, single = T.Tensor((32, 32), "float16"), T.Tensor((32, 32), "float32")

    @T.prim_func
    def main(A: half, B: half, C: single):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((32, 32), "float16"), T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.fill(c, 7)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, True, True, T.GemmWarpPolicy.FullRow, True, None, None)
            T.copy(c, C)

    a, b = random(32, 32).astype(np.float16), random(32, 32, seed=1).astype(np.float16)
    c = np.zeros((32, 32), np.float32)
    run(main, target, a, b, c)
    np.testing.assert_allclose(c, a.T.astype(np.float32) @ b.T.astype(np.float32), rtol=1e-2, atol=1e-2)


def test_a_view_with_strides(target):
    @T.prim_func
    def main(A: T.Tensor((8, 4), "float32"), B: T.Tensor((4, 8), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8, 4), "float32")
            T.copy(A, tile)
            turned = T.view(tile, (4, 8), strides=(8, 1))
            for i, j in T.Parallel(4, 8):
                B[i, j] = turned[i, j]

    a, b = random(8, 4), np.zeros((4, 8), np.float32)
    run(main, target, a, b)
    assert np.array_equal(b, a.reshape(4, 8))


def test_a_view_in_another_order():
    """A view shows the same bytes in the same order; T.transpose turns a tile."""
    with pytest.raises(tilelang.CompileError, match=r"strides \(1, 4\), but a view of shape \(4, 8\)"):

        @T.prim_func
        def main(A: T.Tensor((8, 4), "float32")):
            with T.Kernel(1, threads=32):
                T.view(T.alloc_shared((8, 4), "float32"), (4, 8), strides=(1, 4))


def test_a_layout_for_other_elements():
    layout = T.Layout([8, 16], lambda i, j: (j, i))
    same = layout.reshape([16, 8])
    assert same.get_input_shape() == [16, 8]
    assert list(same.map_forward_index([1, 2])) == list(layout.map_forward_index([0, 10]))
    # Sixteen elements of a half as many bits stand where eight stood.
    wide = T.Layout([8, 8], lambda i, j: i * 8 + j).reshape([8, 16], rescale_num=2, rescale_den=1)
    assert wide.get_input_shape() == [8, 16]
    assert math.prod(wide.get_output_shape()) == 128
    assert wide.is_equal(T.Layout([8, 8], lambda i, j: i * 8 + j).reshape([8, 16], 2, 1))


def test_swizzles_of_a_row():
    seen = [intrinsics.get_swizzle_layout(3, c, 64, "float16") for c in range(64)]
    assert sorted(c for _, c in seen) == list(range(64)) and {r for r, _ in seen} == {3}
    assert seen == [intrinsics.get_swizzle_layout(3, c, 64, "float16", swizzle_bytes=None) for c in range(64)]
    for size in (32, 64, 128):
        row = [
            intrinsics.get_swizzle_layout(
                row_idx=3, col_idx=c, row_size=64, dtype="float16", swizzle_bytes=size
            )
            for c in range(64)
        ]
        assert sorted(c for _, c in row) == list(range(64))
        # Only chunks of sixteen bytes within `size` bytes change places.
        assert all(c // (size // 2) == place // (size // 2) for c, (_, place) in enumerate(row))
        assert all(c % 8 == place % 8 for c, (_, place) in enumerate(row))


def test_where_an_accumulator_lies():
    from tilelang.cuda.intrinsics.layout.utils import mma_store_index_map

    places = {tuple(mma_store_index_map(thread_id=t, local_id=r)) for t in range(32) for r in range(8)}
    assert places == {(i, j) for i in range(16) for j in range(16)}
    assert tuple(mma_store_index_map(thread_id=5, local_id=0)) == (1, 2)
    assert tuple(intrinsics.mma_store_index_map(thread_id=5, local_id=3)) == (9, 3)


# ── foreign functions ─────────────────────────────────────────────────────────────────────────────────

SOURCE = """
__device__ int doubled(const int* from, int* to, int n) {
  for (int i = 0; i < n; ++i) to[i] = 2 * from[i];
  return 0;
}
"""


@pytest.mark.parametrize("form", ["data", "access_ptr", "access_ptr offset", "address_of"])
def test_a_buffer_is_an_argument(form):
    def pointer(buffer, mask):
        return {
            "data": lambda: buffer.data,
            "access_ptr": lambda: buffer.access_ptr(mask),
            "access_ptr offset": lambda: buffer.access_ptr(mask, offset=4),
            "address_of": lambda: T.address_of(obj=buffer[0], span=None),
        }[form]()

    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=1):
            T.import_source(SOURCE)
            T.evaluate(T.call_extern("int32", "doubled", pointer(A, "r"), pointer(B, "rw"), 8))

    source = tilelang.compile(main, target="cuda -arch=sm_90").get_kernel_source()
    call = next(line for line in source.splitlines() if "doubled(" in line and "__device__" not in line)
    assert call.count("A") and call.count("B") and ", 8" in call
    assert ("4" in call.partition("doubled(")[2].partition(")")[0]) == (form == "access_ptr offset")


def test_the_end_of_a_thread():
    @T.prim_func
    def main(B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            if tx >= 32:
                T.evaluate(T.ret(0))
            B[tx] = tx + 1

    b = np.zeros(64, np.int32)
    run(main, SIM, b)
    assert np.array_equal(b, np.where(np.arange(64) < 32, np.arange(1, 65), 0))


def test_a_value_that_nobody_reads():
    """T.undef stands for one, or says that there is none."""
    try:

        @T.prim_func
        def main(B: T.Tensor((64,), "int32")):
            with T.Kernel(1, threads=64):
                unread = T.alloc_var("int32", T.undef())
                for i in T.Parallel(64):
                    unread = i
                    B[i] = unread + 1
    except tilelang.CompileError as error:
        assert "T.undef" in str(error) and "nobody" in str(error)
        return
    b = np.zeros(64, np.int32)
    run(main, SIM, b)
    assert np.array_equal(b, np.arange(1, 65))
