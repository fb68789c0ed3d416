"""Addresses: parameters that are pointers, tables of addresses, tensors made from them, addresses of
elements.
"""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import assert_round_trip, failure

CHIPS = ["cuda -arch=sm_80", "cuda -arch=sm_90"]


def address(array):
    return array.__array_interface__["data"][0]


def add(M, N, outside):
    """C = A + B, all given as pointers; made before or within the kernel."""

    @T.prim_func
    def main(a: T.ptr, b: T.ptr(T.float32), c: T.ptr(T.float32), m: T.int32):
        if outside:
            A = T.make_tensor(a, (m, N), "float32")
            B = T.make_tensor(b, (m, N), "float32")
        with T.Kernel(T.ceildiv(N, 32), T.ceildiv(m, 16), threads=32) as (bx, by):
            if not outside:
                A = T.make_tensor(a, (m, N), "float32")
                B = T.make_tensor(b, (m, N), "float32", strides=(N, 1))
            C = T.make_tensor(c, (m, N), "float32")
            tile, other = T.alloc_fragment((16, 32), "float32"), T.alloc_shared((16, 32), "float32")
            T.copy(A[by * 16, bx * 32], tile)
            T.copy(B[by * 16, bx * 32], other)
            for i, j in T.Parallel(16, 32):
                tile[i, j] += other[i, j]
            T.copy(tile, C[by * 16, bx * 32])

    return main


@pytest.mark.parametrize("outside", [True, False])
@pytest.mark.parametrize("shape", [(16, 32), (33, 50), (1, 7)])
def test_pointer_parameters(shape, outside, target):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    c = np.full(shape, np.nan, np.float32)
    tilelang.compile(add(*shape, outside), target=target)(a, b, c, shape[0])
    assert np.array_equal(c, a + b)


def test_pointers_are_numbers_too():
    shape = (4, 8)
    a, b, c = (np.full(shape, x, np.float32) for x in (1, 2, np.nan))
    compiled = tilelang.compile(add(*shape, True), target="cpu")
    compiled(address(a), address(b), address(c), 4)
    assert (c == 3).all()
    with pytest.raises(tilelang._core.ArgumentError, match="a tensor or its address was expected"):
        compiled(1.5, b, c, 4)


@pytest.mark.parametrize("target", ["sim:sm_80", "reference"])
def test_the_executors_reach_tensor_arguments_only(target):
    a = np.ones((4, 8), np.float32)
    compiled = tilelang.compile(add(4, 8, True), target=target)
    with pytest.raises(tilelang.CompileError, match="is not in a tensor argument"):
        compiled(address(a), a + 1, np.zeros((4, 8), np.float32), 4)


def table(G, N, spelling):
    """Out[g] = the sum of the tensor whose address stands in the table."""

    @T.prim_func
    def main(P: T.Tensor((G, 2), "int64"), X: T.Tensor((G, N), "float32"), O: T.Tensor((G, N), "float32")):
        with T.Kernel(G, threads=32) as g:
            if spelling == "ptr":
                A = T.make_tensor(T.ptr(T.float32)(P[g, 1]), (N,), "float32")
            else:
                A = T.make_tensor_from_addr(P[g, 1], (N,), "float32")
            for i in T.Parallel(N):
                O[g, i] = A[i] * 2

    return main


@pytest.mark.parametrize("spelling", ["ptr", "from_addr"])
def test_tables_of_addresses(spelling, target):
    G, N = 5, 24
    x = np.random.default_rng(1).standard_normal((G, N)).astype(np.float32)
    order = [3, 0, 4, 1, 2]
    p = np.array([[0, address(x) + g * N * 4] for g in order], np.int64)
    o = np.full((G, N), np.nan, np.float32)
    tilelang.compile(table(G, N, spelling), target=target)(p, x, o)
    assert np.array_equal(o, 2 * x[order])


@pytest.mark.parametrize("target", CHIPS)
def test_cuda_text_compiles(target):
    for function in (add(64, 64, True), add(64, 64, False), table(4, 64, "ptr")):
        text = tilelang.compile(function, target=target).get_kernel_source()
        assert "float* const A = (float*)(" in text and "__restrict__" not in text


def test_text_ir_round_trips():
    for function in (add(16, 16, True), table(4, 8, "ptr")):
        text = function.function.text()
        assert "base=" in text
        assert_round_trip(text)


@pytest.mark.parametrize("outside", [True, False])
def test_an_address_is_divisible_by_16(target, outside):
    pool, c = np.zeros(1024, "f4"), np.zeros((1, 8), "f4")
    offset = -address(pool) % 16 + 4
    x, told = np.frombuffer(pool.data, "f4", 8, offset), "of A .T.make_tensor. is not divisible by 16"
    with pytest.raises((tilelang.CompileError, RuntimeError), match=told):
        tilelang.compile(add(1, 8, outside), target=target)(x, c, c.copy(), 1)
    p = np.array([[0, address(pool) + offset]], np.int64)
    with pytest.raises((tilelang.CompileError, RuntimeError), match=told):
        o = np.zeros((1, 8), "f4")
        tilelang.compile(table(1, 8, "ptr"), target=target)(p, pool[:8].reshape(1, 8), o)


@pytest.mark.parametrize("target", CHIPS)
def test_a_gpu_checks_the_address(target):
    for function in (add(64, 64, True), table(4, 64, "ptr")):
        text = tilelang.compile(function, target=target).get_kernel_source()
        assert "tl_assert(" in text and "is not divisible by 16" in text


SIGNATURE = "A: T.Tensor((64, 8), 'float32'), n: T.int32, p: T.ptr(T.float32)"


@pytest.mark.parametrize("body, words", [
    ("B = T.make_tensor(n, (4,), 'float32')", "an address is a T.ptr parameter or an integer of 64 bits"),
    ("k = A[0, 0].astype('int64')\nB = T.make_tensor(p, (k,), 'float32')", "must be known when"),
    ("x = T.alloc_fragment((8,), 'float16')\nT.call_extern('void', 'f', T.address_of(x[0]))", "no address"),
    ("T.access_ptr(A, 'x')", "access_type is 'r', 'w' or 'rw'"),
    ("T.access_ptr(A[60, 0], 'r', offset=20, extent=16)", "elements 500 to 515 of A, which has 512"),
    ("T.make_tensor(p, (4, 4), 'float32', strides=(4,))", "2 extents but 1 strides"),
])  # fmt: skip
def test_errors(tmp_path, body, words):
    error = failure(tmp_path, body, signature=SIGNATURE)
    assert words in str(error)
    assert error.line == 4 + len(body.splitlines())


def test_only_global_pointers_are_parameters():
    with pytest.raises(tilelang.CompileError, match="only pointers to global memory"):
        T.ptr(T.float32, "shared")


def test_a_kernel_with_pointers_shows_itself():
    compiled = tilelang.compile(add(16, 32, True), target="cpu")
    assert "a: handle" in repr(compiled)


@pytest.mark.parametrize(
    "written", ["p + 16", "16 * p", "-p", "p == 0", "p << 1", "T.exp(p)", "T.if_then_else(p, 1, 2)"]
)
def test_an_address_is_no_number(tmp_path, written):
    error = failure(tmp_path, f"x = {written}", signature="p: T.ptr")
    assert "an address cannot be used in arithmetic" in error.text and "A[16]" in error.text
