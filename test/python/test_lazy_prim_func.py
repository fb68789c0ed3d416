"""T.prim_func(eager_jit=True), T.Tensor[…] by its shape alone, T.Var."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T

SIM = "sim:sm_90"  # of the fixture `target`

N = T.Var("N", "int32")
M = T.Var("M", "int32")


@T.prim_func(eager_jit=True)
def scale(A, B, factor: int = 2):
    """Multiplies."""
    n = T.const("n")
    count = T.ceildiv(n, 32)
    A: T.Tensor[n]
    B: T.Tensor[[n], T.float32]
    with T.Kernel(count, threads=32) as b:
        for i in T.Parallel(32):
            B[b * 32 + i] = A[b * 32 + i] * factor


def test_a_prim_func_that_is_traced_when_it_is_called():
    a, b = np.ones(40, np.float32), np.zeros(40, np.float32)
    func = scale(a, b, factor=3)
    tilelang.compile(func, target="cpu")(a, b)
    assert (b == 3).all() and scale.__doc__ == "Multiplies."
    assert scale(n=40).text == scale.get_tir(n=40).text == scale(a, b).text != func.text
    assert list(scale.signature.parameters) == ["A", "B", "factor"] and scale.orig_func.__name__ == "scale"
    jitted = tilelang.jit(scale, target="cpu")
    jitted(a, b)
    assert (b == 2).all() and jitted.is_eager
    with pytest.raises(tilelang.CompileError, match="n, which T.const declares .* has no value"):
        scale()


def test_a_shape_alone():
    kinds = (
        T.Tensor[256, 4],
        T.Tensor[[256, 4]],
        T.Tensor[(256, 4)],
        T.Tensor[[256, 4], "float32"],
        T.Tensor[256, 4, T.float32],
        T.Buffer[256, 4],
    )
    for kind in kinds:
        assert (kind.shape, kind.dtype) == ((256, 4), "float32")
    assert T.Tensor[256].shape == (256,) and T.Tensor[256, "int8"].shape == (256,)
    assert T.Tensor[4, T.ptr].dtype == "int64" and T.Tensor[4, float].dtype == "float32"
    assert T.Tensor[M, N].shape == (M, N) and T.Tensor[4, np.float16].dtype == "float16"
    strided = T.StridedTensor[[4, 4], [8, 1], "float16"]
    assert (strided.shape, strided.strides, strided.dtype) == ((4, 4), (8, 1), "float16")

    @T.prim_func
    def main(A: T.Tensor[16, 4]):
        with T.Kernel(1, threads=32):
            A[0, 0] = 1

    assert main.params[0].dtype == "float32" and main.params[0].shape == (16, 4)


def test_variables_as_extents():
    @T.prim_func
    def main(A: T.Tensor((N, M * 2), "float32"), B: T.Tensor((M,), "float32"), C: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=32):
            C[0] = N * 100 + M

    c = np.zeros(1, np.float32)
    tilelang.compile(main, target="cpu")(np.zeros((3, 8), np.float32), np.zeros(4, np.float32), c)
    assert c[0] == 304
    assert isinstance(N, T.Var) and N.name == "N" and repr(M) == "M"


def test_an_integer_without_a_value_is_an_extent(target):
    @T.prim_func
    def main(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        with T.Kernel(T.ceildiv(n, 32), threads=32) as bx:
            for i in T.Parallel(32):
                if bx * 32 + i < n:
                    B[bx * 32 + i] = A[bx * 32 + i] + 1

    kernel = tilelang.compile(main, target=target)
    for n in (5, 64, 70):
        a, b = np.random.rand(n).astype(np.float32), np.zeros(n, np.float32)
        kernel(a, b)
        np.testing.assert_array_equal(b, a + 1)


def test_a_float_without_a_value():
    with pytest.raises(tilelang.CompileError, match=r"T.float32\(\) without a value: a constant"):
        T.float32()
