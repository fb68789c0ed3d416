"""What goes wrong in the eager dialect, and the words and lines of it; which functions are eager."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import close, load_text, random
from test_eager import make_matmul

# ── mistakes ──────────────────────────────────────────────────────────────────────────────────────────

HEAD = """\
import tilelang
import tilelang.language as T

@tilelang.jit(target="reference")
def f(A, B):
    M, N = T.const("M, N")
"""
A4, B4 = "    A: T.Tensor((M, N), 'float32')\n", "    B: T.Tensor((N,), 'float32')\n"
BODY = "    with T.Kernel(M, threads=32) as i:\n        A[i, 0] = 1.0\n"
MISTAKES = {
    "used in arithmetic in an annotation": (
        "    A: T.Tensor((M * 2, N), 'float32')\n" + B4 + BODY,
        7,
        "stand alone as an extent or a stride",
    ),
    "never bound": ("    K = T.const('K')\n" + A4 + B4 + BODY, 7, "nothing gives K a value"),
    "bound to two values": (
        A4 + "    B: T.Tensor((M,), 'float32')\n" + BODY,
        8,
        r"M cannot be both: it is 3 by extent 0 of A \(shape \(3, 4\)\), but 4 by extent 0 of B \(shape",
    ),
    "wrong rank": (
        A4 + "    B: T.Tensor((N, 1), 'float32')\n" + BODY,
        8,
        r"B is annotated with 2 extents, but the tensor passed has 1 extent: its shape is \(4,\)",
    ),
    "tensor used before its annotation": (
        "    with T.Kernel(1, threads=32) as i:\n        A[i, 0] = 1.0\n" + A4 + B4,
        8,
        "A is used before its",
    ),
    "copy before the annotation": (
        "    with T.Kernel(1, threads=32) as i:\n        S = T.alloc_shared((4, 4), 'float32')\n"
        "        T.copy(A, S)\n" + A4 + B4,
        9,
        "A is used before its",
    ),
    "never annotated": (A4 + BODY, 5, "a tensor is passed for B, but no annotation says so"),
    "annotation never executed": (
        A4 + "    if M > 100:\n    " + B4 + BODY,
        5,
        "the annotation of B is never executed",
    ),
    "annotated twice": (A4 + A4 + B4 + BODY, 8, "A has been annotated at line 7 already"),
    "no parameter": (
        A4 + B4 + "    C: T.Tensor((M,), 'float32')\n" + BODY,
        9,
        "C is annotated as a tensor, but is not a parameter",
    ),
    "returns a tile": (
        A4 + B4 + "    with T.Kernel(M, threads=32) as i:\n        S = T.alloc_shared((4,), 'float32')\n"
        "    return S\n",
        11,
        "not the shared tile S",
    ),
    "returns a number": (
        A4 + B4 + BODY + "    return 3\n",
        11,
        "returns tensors made by T.empty, or its parameters, not 3",
    ),
    "output in a kernel": (
        A4 + B4 + "    with T.Kernel(M, threads=32) as i:\n        C = T.empty((4,), 'float32')\n",
        10,
        "T.empty inside a T.Kernel",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(tmp_path, name):
    body, line, words = MISTAKES[name]
    f = load_text(tmp_path, HEAD + body).f
    with pytest.raises(tilelang.CompileError, match=words) as caught:
        f(random(3, 4), random(4))
    assert caught.value.line == line, caught.value
    assert caught.value.__traceback__ is not None


def test_wrong_arguments():
    matmul = make_matmul("reference")
    a = random(4, 4)
    with pytest.raises(TypeError, match=r"matmul\(\) missing a required argument: 'B'; it takes \(A, B, "):
        matmul(a)
    with pytest.raises(
        TypeError, match="got an unexpected keyword argument 'foo', which is neither a parameter nor"
    ):
        matmul(a, a, foo=1)
    with pytest.raises(TypeError, match="got multiple values for argument 'A'"):
        matmul(a, a, A=a)
    with pytest.raises(TypeError, match="argument 1 'B' is a list; a tensor was expected"):
        matmul(a, [1, 2])
    with pytest.raises(TypeError, match="argument 1 'B' is a NoneType"):
        matmul(a, None)
    with pytest.raises((TypeError, ValueError), match="float64|f64"):
        matmul(a, a.astype("float64"))
    with pytest.raises(tilelang.CompileError, match="unknown dtype"):
        matmul(a, a, dtype="float33")


def test_an_output_that_is_never_returned_warns():
    @tilelang.jit(target="reference")
    def f(A):
        A: T.Tensor((4,), T.float32)
        C = T.empty((4,), T.float32)
        with T.Kernel(1, threads=32):
            T.copy(A, C)

    with pytest.warns(tilelang.TilelangWarning, match="C is made by T.empty, but nothing is returned"):
        assert f(random(4)) is None


def test_numbers_of_each_call(target):
    @tilelang.jit(target=target)
    def f(A: T.Tensor((4,), T.float32), s: T.float32, on: T.bool, k: T.int32 = 2):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                A[i] = T.if_then_else(on, s * k, 0.0)

    a = random(4)
    f(a, np.float32(1.5), True)
    assert list(a) == [3] * 4
    f(a, 1.5, False, k=7)
    assert list(a) == [0] * 4
    f(s=2, A=a, on=True, k=7)
    assert list(a) == [14] * 4 and sum(f.counts()) == 1
    assert "main" not in f.get_tir().text


def test_empty_tensors_and_constants_as_numbers():
    matmul = make_matmul("cpu")
    assert matmul(random(0, 8), random(8, 4)).shape == (0, 4)
    np.testing.assert_array_equal(matmul(random(4, 0), random(0, 4)), np.zeros((4, 4)))

    @tilelang.jit(target="reference")
    def f(A):
        M = T.const("M")
        A: T.Tensor((M,), T.float32)
        sizes = {M: "as a key"}
        with T.Kernel(M // M, threads=32):
            for i in T.serial(M - 1):
                A[i] = M * i + M % 3 - (M >> 1) + len(sizes[4])
            A[M - 1] = T.float32(M) + float(M) + M**0.5 + min(M, 3) + (M if M > 2 else 0) + T.max(M, 9)
            A[0] = -M + abs(M) + round(M) + divmod(M, 3)[1] + 2 * M + T.ceildiv(M, 3) + T.cast(M, "float32")

    a = random(4)
    f(a)
    assert list(a) == [4 + 1 + 8 + 2 + 4, 4 + 1 - 2 + 8, 8 + 1 - 2 + 8, 4 + 4 + 2 + 3 + 4 + 9]


def test_a_parameter_that_is_annotated_only_sometimes(tmp_path):
    module = load_text(
        tmp_path,
        """\
        import tilelang
        import tilelang.language as T

        @tilelang.jit(target="cpu")
        def add(A, bias, use: bool):
            A: T.Tensor((4,), T.float32)
            if use:
                bias: T.Tensor((4,), T.float32)
            with T.Kernel(1, threads=32):
                for i in T.Parallel(4):
                    A[i] = A[i] + (bias[i] if use else 1.0)
        """,
    )
    a = np.zeros(4, np.float32)
    module.add(a, np.full(4, 5, np.float32), True)
    assert list(a) == [5] * 4
    with pytest.raises(tilelang.CompileError, match="the annotation of bias is never executed"):
        module.add(a, a, False)


def test_a_tensor_that_may_be_none(target):
    @tilelang.jit(target=target)
    def linear(A, bias=None, scale: int = 2):
        N = T.const("N")
        A: T.Tensor((N,), T.float32)
        if bias is not None:
            bias: T.Tensor((N,), T.float32)
        C = T.empty((N,), T.float32)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                C[i] = A[i] * scale + (bias[i] if bias is not None else 0.0)
        return C

    a, b = random(5), random(5, seed=1)
    close(linear(a), 2 * a)
    close(linear(a, b), 2 * a + b)
    close(linear(a, None, 3), 3 * a)
    close(linear(a, scale=4, bias=b), 4 * a + b)
    assert sum(linear.counts()) == 4 and linear.compile(N=5) is linear.compile(N=5)
    assert [p.name for p in linear.compile(N=5).params] == ["A", "C"]


def test_factories_without_a_prim_func_of_their_own_are_lazy():
    def program(n):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32")):
            with T.Kernel(1, threads=32):
                T.clear(A)

        return main

    @tilelang.jit(target="cpu")
    def factory(n: int, kind: T.int32 = 3):
        assert np.empty((n,)).shape == (n,)
        return program(n)

    assert not factory.is_eager
    a = np.ones(5, np.float32)
    factory(5)(a)
    assert not a.any()


def test_out_idx_is_refused(tmp_path):
    with pytest.raises(tilelang.CompileError, match="eager kernel .*returns its outputs: C = T.empty"):
        load_text(tmp_path, HEAD.replace('(target="reference")', "(out_idx=-1)") + A4 + B4 + BODY)


def test_const_outside_of_the_dialect():
    with pytest.raises(tilelang.CompileError, match="T.const belongs to the eager dialect"):
        T.const("M")

    with pytest.raises(tilelang.CompileError, match="T.const belongs to the eager dialect"):

        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            M = T.const("M")
            with T.Kernel(M, threads=32):
                T.clear(A)


def test_string_annotations(tmp_path):
    module = load_text(
        tmp_path,
        """\
        from __future__ import annotations
        import tilelang
        import tilelang.language as T

        def make(kind, size):
            @tilelang.jit(target="cpu")
            def add(A, B: T.Tensor((size,), kind), block: int = 4):
                A: T.Tensor((size,), kind)
                C = T.empty((8,), "float32")
                with T.Kernel(1, threads=32):
                    for i in T.Parallel(8):
                        C[i] = A[i] + B[i] * block
                return C
            return add
        """,
    )
    a, b = random(8), random(8, seed=1)
    close(module.make(T.float32, 8)(a, b), a + 4 * b)
    c, d = np.arange(8, dtype=np.int32), np.ones(8, np.int32)
    close(module.make("int32", 8)(c, d, block=3), c + 3 * d)


NO_CALLS = {
    "f(a)": "missing a required argument: 'block', a value that the kernel is built with; it takes",
    "f(a, block=3)": "f() missing a required argument: 'B'; it takes (A, B, block, flag, extra)",
    "f(block=3)": "f() missing a required argument: 'A' (and 'B'); it takes",
    "f(a, a, 3, True, 1)": "f() takes 4 positional arguments but 5 were given; it takes (A, B, ",
    "f(a, a, 3, block=4)": "f() got multiple values for argument 'block'; it takes (A, B, ",
    "f(a, a, 3, flga='x')": "f() got an unexpected keyword argument 'flga'; did you mean flag? It takes",
    "f(a, a, 3, flga=4)": "'flga', which is neither a parameter nor a T.const name; did you mean flag?",
    "f.compile(N=8)": "f() missing a required argument: 'block'",
    "f.get_tir(a, a, 3, a, a)": "f() takes 4 positional arguments but 5 were given",
    "f.compile(a, a, 3)(a)": "f() missing a required argument: 'B'; it takes (A: ",
    "f.compile(a, a, 3)(a, a, a)": "f() takes 2 positional arguments but 3 were given; it takes (A: ",
    "f.compile(a, a, 3)(a, A=a)": "f() got multiple values for argument 'A'; it takes (A: ",
    "f.compile(a, a, 3)(a, b=a)": "f() got an unexpected keyword argument 'b'; it takes (A: ",
}


@pytest.mark.parametrize("call", list(NO_CALLS))
def test_calls_that_do_not_fit(call):
    @tilelang.jit(target="reference")
    def f(A, B, block: int, flag=True, *, extra=1):
        N = T.const("N")
        A: T.Tensor((N,), T.float32)
        B: T.Tensor((N,), T.float32)
        with T.Kernel(1, threads=32):
            T.copy(A, B)

    with pytest.raises(TypeError) as error:
        eval(call, {"f": f, "a": random(8)})
    assert NO_CALLS[call] in str(error.value)


def test_a_constant_that_is_misspelt():
    @tilelang.jit(target="reference")
    def f(A):
        Size = T.const("Size")
        A: T.Tensor((Size,), T.float32)
        with T.Kernel(1, threads=32):
            T.clear(A)

    with pytest.raises(tilelang.CompileError, match=r"Siez= was given: did you mean Size\?"):
        f.compile(Siez=8)
