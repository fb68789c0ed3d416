"""`@tilelang.jit` on a method: `self` is an argument, of which counts what the kernel reads."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T

ONES = np.ones(4, np.float32)


class Model:
    dtype = "float32"

    def __init__(self, m):
        self.m, self.__private, self.step, self.sizes = m, 1, 0, {"bias": 0}

    def bias(self):
        return self.sizes["bias"]

    @tilelang.jit(out_idx=-1, target="reference")
    def lazy(self, n, factor=1):
        @T.prim_func
        def main(A: T.Tensor((n,), self.dtype), B: T.Tensor((n,), self.dtype)):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(n):
                    B[i] = A[i] * self.m * self.__private * factor + self.bias()

        return main

    @tilelang.jit(target="reference")
    def eager(self, A, factor=1):
        n = T.const("n")
        A: T.Tensor((n,), self.dtype)
        B = T.empty((n,), self.dtype)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] * self.m * self.__private * factor + self.bias()
        return B

    @classmethod
    @tilelang.jit(out_idx=-1, target="reference")
    def of_class(cls, n):
        @T.prim_func
        def main(A: T.Tensor((n,), cls.dtype), B: T.Tensor((n,), cls.dtype)):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(n):
                    B[i] = A[i] * 3

        return main

    @tilelang.jit(target="reference")
    @classmethod
    def eager_of_class(cls, A):
        n = T.const("n")
        A: T.Tensor((n,), cls.dtype)
        B = T.empty((n,), cls.dtype)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] * 3
        return B

    @staticmethod
    @tilelang.jit(target="reference")
    def static(A, factor=2):
        n = T.const("n")
        A: T.Tensor((n,), "float32")
        B = T.empty((n,), "float32")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] * factor
        return B

    @tilelang.jit(target="reference")
    @staticmethod
    def jit_of_static(A):
        n = T.const("n")
        A: T.Tensor((n,), "float32")
        B = T.empty((n,), "float32")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] * 5
        return B


class Derived(Model):
    dtype = "float16"

    def bias(self):
        return 100


def lazily(model, **kwargs):
    return model.lazy(4, **kwargs)(ONES.astype(model.dtype))


def eagerly(model, **kwargs):
    return model.eager(ONES.astype(model.dtype), **kwargs)


@pytest.mark.parametrize("run", [lazily, eagerly])
def test_methods_see_their_object(run):
    a, b, derived = Model(2), Model(3), Derived(2)
    assert run(a)[0] == 2 and run(b)[0] == 3 and run(a, factor=4)[0] == 8
    a.m = 8
    assert run(a)[0] == 8 and run(b)[0] == 3
    a._Model__private = 2
    assert run(a)[0] == 16
    a.sizes["bias"] = 1
    assert run(a)[0] == 17
    assert run(derived)[0] == 102 and run(derived).dtype == np.float16


def test_what_a_method_does_not_read_does_not_count():
    model = Model(2)
    first, same = model.lazy(4), model.eager.compile(ONES)
    model.step, model.other = 1, object()
    assert model.lazy(4) is first and model.lazy.compile(4) is first
    assert model.eager.compile(ONES) is same and Model.lazy(model, 4) is first
    assert Model(2).lazy(4) is first


def test_what_else_a_method_has():
    model = Model(2)
    assert "A" in model.lazy.get_kernel_source(4) and model.lazy.get_tir(4).name == "main"
    assert model.eager.get_tir(ONES).name == "eager" and model.eager.compile(n=4)(ONES)[0] == 2
    first, second = model.lazy.par_compile([(4,), {"n": 8}])
    assert first is model.lazy(4) and second is model.lazy(8)
    assert model.lazy.__name__ == "lazy" and Model.lazy.__name__ == "lazy"


def test_methods_of_classes():
    for owner in (Model, Model(1)):
        assert owner.of_class(4)(ONES)[0] == owner.eager_of_class(ONES)[0] == 3
        assert owner.static(ONES)[0] == 2 and owner.static(ONES, factor=7)[0] == 7
        assert owner.jit_of_static(ONES)[0] == 5
    half = ONES.astype(np.float16)
    assert Derived.of_class(4)(half).dtype == Derived.eager_of_class(half).dtype == np.float16
    assert Model.of_class(4)(ONES).dtype == np.float32


def test_a_prim_func_is_no_method():
    with pytest.raises(tilelang.CompileError, match="a prim_func cannot be a method: define it in a method"):

        class Wrong:
            @T.prim_func
            def main(self, A: T.Tensor((4,), "float32")):
                with T.Kernel(1, threads=32):
                    A[0] = 1.0


def test_tuned_methods():
    class Tuned:
        def __init__(self, m):
            self.m = m

        @tilelang.autotune(configs=[{"block": 16}, {"block": 32}], warmup=1, rep=1)
        @tilelang.jit(out_idx=-1, target="reference")
        def lazy(self, n, block=16):
            @T.prim_func
            def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
                with T.Kernel(T.ceildiv(n, block), threads=32) as bx:
                    for i in T.Parallel(block):
                        B[bx * block + i] = A[bx * block + i] * self.m

            return main

    tuned, ones = Tuned(2), np.ones(64, np.float32)
    assert tuned.lazy(64)(ones)[0] == 2
    tuned.m = 8
    assert tuned.lazy(64)(ones)[0] == 8
