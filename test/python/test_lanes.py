"""Elements of several lanes, float16x2: one more dimension, whose elements are accessed and computed with at
once.
"""

import numpy as np
import pytest
import tilelang
import tilelang.language as T


def numbers(*shape, dtype=np.float16):
    return (np.arange(np.prod(shape)) % 7).reshape(shape).astype(dtype)


@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_tensors_of_lanes(target, lanes):
    dtype = T.float16.with_lanes(lanes)

    @T.prim_func
    def main(A: T.Tensor((64,), dtype), B: T.Tensor((64,), dtype), C: T.Tensor((64,), dtype)):
        with T.Kernel(2, threads=32) as b:
            for i in T.Parallel(32):
                C[b * 32 + i] = A[b * 32 + i] * T.float16(2) + B[b * 32 + i] - dtype(1)

    assert [p.shape for p in main.params] == [(64, lanes)] * 3 and main.params[0].dtype is T.float16
    a, b, c = numbers(64, lanes), numbers(64, lanes)[::-1].copy(), np.zeros((64, lanes), np.float16)
    tilelang.compile(main, target=target)(a, b, c)
    np.testing.assert_array_equal(c, a * 2 + b - 1)


def test_one_access():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32x4"), B: T.Tensor((64,), "float32x4")):
        with T.Kernel(2, threads=32) as b:
            for i in T.Parallel(32):
                B[b * 32 + i] = A[b * 32 + i] + A[b * 32 + i]

    source = tilelang.compile(main, target="cuda -arch=sm_90").get_kernel_source()
    source = source.partition("main_kernel(")[2]
    assert "tl_load<4>" in source and "tl_store(&B" in source


def test_tiles_views_and_casts(target):
    @T.prim_func
    def main(
        A: T.Tensor((32,), "float16x4"), B: T.Tensor((32,), "float32x4"), C: T.Tensor((32, 2), "float16x2")
    ):
        with T.Kernel(1, threads=32):
            shared = T.alloc_shared((32,), "float16x4")
            local = T.alloc_local((2,), "float32x4")
            T.copy(A, shared)
            pairs = T.view(shared, (32, 2), "float16x2")
            T.copy(pairs, C)
            for i in T.Parallel(32):
                local[0] = T.cast(shared[i], "float32x4")
                local[1] = local[0] * T.cast(0.5, "float32x4")
                B[i] = local[1] + shared[i].astype(T.float32x4)

    a, b, c = numbers(32, 4), np.zeros((32, 4), np.float32), np.zeros((32, 2, 2), np.float16)
    tilelang.compile(main, target=target)(a, b, c)
    np.testing.assert_array_equal(b, a.astype(np.float32) * 1.5)
    np.testing.assert_array_equal(c, a.reshape(32, 2, 2))


def test_eager_outputs_strides_and_addresses():
    @tilelang.jit(target="cpu")
    def f(A, p: T.ptr):
        N = T.const("N")
        A: T.StridedTensor((N,), (2,), "float32x2")
        out = T.empty((N,), "float32x2")
        B = T.make_tensor(p, (N,), "float32x2")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                out[i] = A[i] * 2 + B[i]
        return out

    wide = numbers(8, 4, dtype=np.float32)
    b = numbers(8, 2, dtype=np.float32)
    np.testing.assert_array_equal(f(wide[:, :2], b), wide[:, :2] * 2 + b)


def test_lanes_one_by_one(target):
    @T.prim_func
    def main(A: T.Tensor((32,), "float32x4"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                B[i] = T.extract_lane(A[i] * 2, 0) + A[i, 1] - T.extract_lane(A[i, 0:2], 1)

    a, b = numbers(32, 4, dtype=np.float32), np.zeros(32, np.float32)
    tilelang.compile(main, target=target)(a, b)
    np.testing.assert_array_equal(b, a[:, 0] * 2)
    with refused("T.extract_lane: 4 elements have the lanes 0 to 3, not 4"):

        @T.prim_func
        def beyond(A: T.Tensor((32,), "float32x4")):
            with T.Kernel(1, threads=32):
                A[0, 0] = T.extract_lane(A[0], 4)


def test_packed_lanes():
    kind = T.Tensor((8,), "int4x8")
    assert kind.shape == (8, 8) and kind.dtype is T.int4


def refused(words):
    return pytest.raises(tilelang.CompileError, match=words)


def test_what_has_one_lane():
    with refused(
        r"a value has one lane, and float16x2 has 2: only tensors and tiles have such elements, as "
        r"one more dimension, T.alloc_local\(\(2,\), 'float16'\)"
    ):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32"), x: T.float16x2):
            with T.Kernel(1, threads=32):
                A[0] = 1

    with refused("a value has one lane, and float32x2 has 2"):

        @T.prim_func
        def variable(A: T.Tensor((8,), "float32")):
            with T.Kernel(1, threads=32):
                T.alloc_var("float32x2")

    with refused("the slice has 2 elements, and float32x4 has 4 lanes"):

        @T.prim_func
        def cast(A: T.Tensor((8,), "float16x2"), B: T.Tensor((8,), "float32x4")):
            with T.Kernel(1, threads=32):
                B[0] = T.cast(A[0], "float32x4")

    with refused("a slice of 2 elements is stored to one of 4 of B"):

        @T.prim_func
        def store(A: T.Tensor((8,), "float16x2"), B: T.Tensor((8,), "float16x4")):
            with T.Kernel(1, threads=32):
                B[0] = A[0]
