"""The forms of the language that the front end accepts, in small kernels."""

import warnings

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import close, random

# ── small forms ───────────────────────────────────────────────────────────────────────────────────────


def test_gather_by_an_index_tensor(target):
    @tilelang.jit(target=target)
    def gather(table, index):
        V, D, N = T.const("V, D, N")
        table: T.Tensor((V, D), T.float32)
        index: T.Tensor((N,), T.int32)
        out = T.empty((N, D), T.float32)
        with T.Kernel(N, threads=32) as n:
            row = index[n]
            for d in T.Parallel(D):
                out[n, d] = table[row, d]
        return out

    table, index = random(9, 20), np.array([3, 0, 8, 3], np.int32)
    np.testing.assert_array_equal(gather(table, index), table[index])


def test_convolution_by_coordinates(target):
    @tilelang.jit(target=target)
    def pool(X, size: int = 2):
        H, W = T.const("H, W")
        X: T.Tensor((H, W), T.float32)
        shape = (H // size, W // size)
        Y = T.empty(shape, T.float32)
        with T.Kernel(1, threads=32):
            for flat in T.Parallel(shape[0] * shape[1]):
                i, j = T.index_to_coordinates(flat, shape)
                Y[i, j] = T.max(
                    T.max(X[i * size, j * size], X[i * size, j * size + 1]),
                    T.max(X[i * size + 1, j * size], X[i * size + 1, j * size + 1]),
                )
        return Y

    x = random(8, 12)
    np.testing.assert_array_equal(pool(x), x.reshape(4, 2, 6, 2).max((1, 3)))
    assert T.index_to_coordinates(23, (2, 3, 4)) == [1, 2, 3]


def test_python_in_a_kernel(target):
    @tilelang.jit(target=target)
    def f(A, flag: bool = True):
        n = T.const("n")
        A: T.Tensor((n,), "int32")
        B = T.empty((n,), dtype=T.int32)
        assert n % 2 == 0, "n must be even"
        with T.Kernel(1, threads=1):
            lo, hi = T.alloc_var("int32"), T.alloc_var(T.int32, init=0)
            lo = A[0]
            lo, hi = hi, lo
            for i in range(n):
                if 0 < i <= 3 and flag or i == n - 1:
                    hi += i
                elif not flag:
                    hi -= 1
                else:
                    B[i] = lo if i % 2 == 0 else A[i]
                hi ^= 1
            x = y = hi + 1
            B[1], B[2] = x, -y
            B[3] = (x if flag else y) // 2 if n > 2 else 0
            B[n - 1] = A[0].astype("int32") + B.shape[0] + A.dtype.bits // A.dtype.bytes
        return B

    def expected(a, flag):
        n, b = len(a), [None] * len(a)
        lo, hi = 0, a[0]
        for i in range(n):
            if 0 < i <= 3 and flag or i == n - 1:
                hi += i
            elif not flag:
                hi -= 1
            else:
                b[i] = lo if i % 2 == 0 else a[i]
            hi ^= 1
        b[1], b[2], b[3] = hi + 1, -(hi + 1), (hi + 1) // 2
        b[n - 1] = a[0] + n + 8
        return b

    a = np.arange(5, 13, dtype=np.int32)
    for flag in (True, False):
        got, wanted = f(a, flag=flag), expected(a.tolist(), flag)
        assert [int(x) for x, w in zip(got, wanted, strict=True) if w is not None] == [
            w for w in wanted if w is not None
        ]
    with pytest.raises(tilelang.CompileError, match="n must be even"):
        f(np.zeros(3, np.int32))


@pytest.mark.filterwarnings("ignore::tilelang.TilelangWarning")
def test_spellings_of_dtypes(target):
    torch = pytest.importorskip("torch")
    for spelling in ("float16", T.float16, torch.float16, np.float16, "half", T.half):

        @tilelang.jit(target=target)
        def f(A, dtype=spelling):
            A: T.Tensor((4,), dtype)
            B = T.empty((4,), dtype)
            with T.Kernel(1, threads=32):
                x = T.alloc_fragment((4,), dtype)
                T.copy(A, x)
                for i in T.Parallel(4):
                    B[i] = T.cast(x[i].astype(T.float), dtype) + T.float16(1)
            return B

        assert list(f(np.ones(4, np.float16))) == [2] * 4
    assert T.float16.bits == 16 and T.float16.bytes == 2 and T.dtype is type(T.float16)
    assert T.float is T.float32 and T.float32.as_torch() is torch.float32


def test_a_name_may_be_bound_again():
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(1):
                x, y = A[0], 7
                x = x + 1
                x += y
                for i in T.serial(1, 3):
                    seen = A[i] > 0
                    seen = seen & (A[i] < 9)
                    A[i] = T.if_then_else(seen, x, 0)

    a = np.array([1, 5, 9, 0], np.int32)
    tilelang.compile(main, target="reference")(a)
    assert list(a) == [1, 9, 0, 0]


def test_a_kernel_in_a_class_and_module_level_names():
    class Operator:
        def __init__(self, n, dtype):
            self.n, self.dtype = n, dtype
            self.kernel = tilelang.compile(self.program(), out_idx=-1, target="cpu")

        def program(self):
            n, dtype = self.n, self.dtype

            @T.prim_func
            def main(A: T.Buffer((n,), dtype), B: T.Buffer((self.n,), self.dtype)):
                with T.Kernel(T.ceildiv(n, 8), threads=8) as bx:
                    for i in T.Parallel(8):
                        B[bx * 8 + i] = A[bx * 8 + i] * self.n

            return main

        def __call__(self, a):
            return self.kernel(a)

    a = random(20)
    close(Operator(20, "float32")(a), a * 20)


def test_texts_compile_for_gpus():
    for chip in ("sm_80", "sm_90"):

        @tilelang.jit(target=f"cuda -arch={chip}")
        def scale(A, B, by: T.float32):
            M, N = T.const("M, N")
            A: T.Tensor((M, N), T.float16)
            B: T.Tensor((M, N), T.float16)
            with T.Kernel(M, threads=128) as row:
                x = T.alloc_fragment((N,), T.float16)
                T.copy(A[row, :], x)
                for i in T.Parallel(N):
                    x[i] = x[i] * T.cast(by, T.float16)
                T.copy(x, B[row, :])

        assert "__global__" in scale.compile(M=32, N=256).get_kernel_source()
