"""T.const names that are used before an annotation binds them, or given by keyword."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import load_text
from tilelang.jit import eager

CPU = tilelang.jit(target="cpu")


def zeros(*shape):
    return np.zeros(shape, np.float32)


def numbers(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1


def fill(out, value):
    """A kernel's body that stores a number."""
    with T.Kernel(1, threads=32):
        out[0] = value


# ── above the annotation ──────────────────────────────────────────────────────────────────────────────

FORMS = {
    "arithmetic": ("x = K // 2 + (M << 1) - 2 * M", "x", 4 // 2),
    "ceildiv": ("x = T.ceildiv(M, 2)", "x", 2),
    "assert": ("assert K % 2 == 0, 'odd'\n    x = 1", "x", 1),
    "if": ("x = 1\n    if M > 100:\n        x = 7\n    elif K == 4:\n        x = 5", "x", 5),
    "conditional": ("x = 9 if M < K else 8", "x", 9),
    "inverse": ("x = 1.0 / M", "x", np.float32(1 / 3)),
    "list": ("shape = [M, K // 2]\n    x = shape[0] * shape[1]", "x", 6),
    "range": ("x = sum([i for i in range(K)])", "x", 6),
    "float": ("x = float(M) ** 0.5", "x", np.float32(3**0.5)),
    "text": ("x = len(f'{K}{M}')", "x", 2),
    "dict": ("x = {3: 11, 4: 12}[K]", "x", 12),
    "helper": ("x = helper(M, K)", "x", 34),
    "min and max": ("x = min(M, K) * 10 + max(M, K)", "x", 34),
}


@pytest.mark.parametrize("name", FORMS)
def test_used_above(tmp_path, name):
    before, value, expected = FORMS[name]
    f = load_text(
        tmp_path,
        f"""\
import tilelang
import tilelang.language as T

def helper(m, k):
    return m * 10 + k

@tilelang.jit(target="cpu")
def f(A, out):
    M, K = T.const("M, K")
    {before}
    A: T.Tensor((M, K), "float32")
    out: T.Tensor((1,), "float32")
    with T.Kernel(1, threads=32):
        out[0] = {value}
""",
    ).f
    out = zeros(1)
    f(zeros(3, 4), out)
    assert out[0] == expected
    f(zeros(3, 4), out)
    assert sum(f.counts()) == 1 and f.find((zeros(3, 4), out)) is not None


def test_another_shape_is_another_kernel():
    @CPU
    def f(A, out):
        M = T.const("M")
        half = M // 2
        A: T.Tensor((M,), "float32")
        out: T.Tensor((1,), "float32")
        with T.Kernel(1, threads=32):
            out[0] = half

    for n in (8, 20, 8):
        out = zeros(1)
        f(zeros(n), out)
        assert out[0] == n // 2


def test_outputs_and_derived_extents_above():
    @CPU
    def f(Scales, A):
        M, K = T.const("M, K")
        groups = K // 2
        Scales: T.Tensor([M, groups], "float32")
        out = T.empty((M, K), "float32")
        A: T.Tensor((M, K), "float32")
        with T.Kernel(T.ceildiv(M, 2), threads=32) as b:
            for i, k in T.Parallel(2, K):
                out[b * 2 + i, k] = A[b * 2 + i, k] * Scales[b * 2 + i, k // 2]
        return out

    a, scales = numbers(5, 4), numbers(5, 2)
    np.testing.assert_array_equal(f(scales, a), a * scales.repeat(2, 1))
    with pytest.raises(Exception, match="Scales"):
        f(numbers(5, 3), a)


ANNOTATIONS = {
    "call": ("", "A: T.Tensor((M, K), 'float32')"),
    "list": ("", "A: T.Tensor([M, K], 'float32')"),
    "keywords": ("", "A: T.Tensor(dtype='float32', shape=(M, K))"),
    "index": ("", "A: T.Tensor[[M, K], 'float32']"),
    "flat index": ("", "A: T.Tensor[M, K, 'float32']"),
    "shape alone": ("", "A: T.Tensor[M, K]"),
    "buffer": ("", "A: T.Buffer((M, K), 'float32')"),
    "variable": ("shape = [M, K]", "A: T.Tensor(shape, 'float32')"),
    "variable, index": ("shape = [M, K]", "A: T.Tensor[shape, 'float32']"),
    "tuple of it": ("shape = [M, K]", "A: T.Tensor(tuple(shape), 'float32')"),
    "sum": ("tail = (K,)", "A: T.Tensor((M,) + tail, 'float32')"),
    "star": ("tail = (K,)", "A: T.Tensor((M, *tail), 'float32')"),
    "grown": ("shape = [M]\n    shape += [K]", "A: T.Tensor(shape, 'float32')"),
    "turned": ("shape = [K, M]", "A: T.Tensor((shape[1], shape[-2]), 'float32')"),
    "slice": ("shape = [K, M, K]", "A: T.Tensor(shape[1:], 'float32')"),
    "renamed": ("rows, columns = M, K", "A: T.Tensor((rows, columns), 'float32')"),
    "annotation of its own": ("kind = T.Tensor((M, K), 'float32')", "A: kind"),
    "condition": (
        "",
        "if flag:\n        A: T.Tensor((M, K), 'float32')\n    else:\n        A: T.Tensor((K, M), 'float32')",
    ),
    "other condition": (
        "",
        "if not flag:\n        A: T.Tensor((K, M), 'float32')\n    else:\n"
        "        A: T.Tensor((M, K), 'float32')",
    ),
    "shape by condition": ("shape = (M, K) if flag else (K, M)", "A: T.Tensor(shape, 'float32')"),
    "strides": ("", "A: T.StridedTensor((3, 4), (K, 1), 'float32')\n    out: T.Tensor((M,), 'float32')"),
    "a helper makes it": ("", "A: T.Tensor(helper(M, K), 'float32')"),
    "a helper annotates": ("", "A: helper_kind(M, K)"),
    "a dictionary": ("shapes = {'A': (M, K)}", "A: T.Tensor(shapes['A'], 'float32')"),
}


@pytest.mark.parametrize("name", ANNOTATIONS)
def test_forms_of_annotations(tmp_path, name):
    """M and K are used above whatever binds them."""
    before, annotation = ANNOTATIONS[name]
    out = "" if "out:" in annotation else "out: T.Tensor((3,), 'float32')"
    f = load_text(
        tmp_path,
        f"""\
import tilelang
import tilelang.language as T

def helper(m, k):
    return [m, k]

def helper_kind(m, k):
    return T.Tensor((m, k), "float32")

@tilelang.jit(target="cpu")
def f(A, out, flag=True):
    M, K = T.const("M, K")
    assert M == 3
    x = K * 100 + M
    {before}
    {annotation}
    {out}
    with T.Kernel(1, threads=32):
        out[0] = x + A[M - 1, K - 1]
""",
    ).f
    out = zeros(3)
    for _ in range(2):
        f(numbers(3, 4), out)
        assert out[0] == 403 + 12
    assert sum(f.counts()) == 1


@pytest.mark.parametrize("shape", [(3, 5), (5, 3)])
def test_a_condition_decides_which_annotation(shape, monkeypatch):
    """The first guess may be wrong: the trace begins again with what the annotation binds."""
    begun, start = [], eager.Session.start
    monkeypatch.setattr(eager.Session, "start", lambda self, trace: begun.append(1) or start(self, trace))

    @CPU
    def f(A, out, turned: bool):
        M, K = T.const("M K")
        m = M * 10
        if turned:
            A: T.Tensor((K, M), "float32")
        else:
            A: T.Tensor((M, K), "float32")
        out: T.Tensor((1,), "float32")
        with T.Kernel(1, threads=32):
            out[0] = m + K

    out = zeros(1)
    for turned in (False, True, False):
        f(zeros(*shape), out, turned)
        m, k = shape[::-1] if turned else shape
        assert out[0] == m * 10 + k
    assert len(begun) == 3  # 2 of the first call, of which the guess was the other annotation's


def test_an_assertion_of_the_user_fails_as_it_stands(tmp_path):
    f = load_text(
        tmp_path,
        """\
import tilelang
import tilelang.language as T

@tilelang.jit(target="cpu")
def f(A, block: int = 8):
    K = T.const("K")
    assert K % block == 0, f"{K} is no multiple of {block}"
    A: T.Tensor((K,), "float32")
    with T.Kernel(1, threads=32):
        A[0] = 1
""",
    ).f
    f(zeros(16))
    with pytest.raises(Exception, match="20 is no multiple of 8"):
        f(zeros(20))


def test_names_of_variables_and_of_consts_differ():
    @CPU
    def f(A, B, out):
        K, M = T.const("rows, columns")
        M = M * 2  # no T.const name any more
        x = K * 100 + M
        columns = T.const("columns")
        A: T.Tensor((K, columns), "float32")
        B: T.Tensor((M,), "float32")
        out: T.Tensor((1,), "float32")
        with T.Kernel(1, threads=32):
            out[0] = x

    out = zeros(1)
    f(zeros(3, 4), zeros(8), out)
    assert out[0] == 308
    with pytest.raises(Exception, match="B"):
        f(zeros(3, 4), zeros(9), out)


def test_helpers_and_macros():
    @T.macro
    def store(out, n):
        out[0] = n + T.ceildiv(n, 2)

    def twice(n):
        return n * 2

    @CPU
    def f(A, out):
        M = T.const("M")
        double = twice(M)

        @T.macro
        def inner(out, n):
            store(out, n)
            out[1] = n * M

        A: T.Tensor((M,), "float32")
        out: T.Tensor((2,), "float32")
        with T.Kernel(1, threads=32):
            inner(out, double)

    out = zeros(2)
    f(zeros(3), out)
    assert list(out) == [9, 18]


def test_a_method():
    class Model:
        scale = 3

        @tilelang.jit(target="cpu")
        def run(self, A, out):
            N = T.const("N")
            x = N * self.scale
            A: T.Tensor((N,), "float32")
            out: T.Tensor((1,), "float32")
            with T.Kernel(1, threads=32):
                out[0] = x

    out = zeros(1)
    Model().run(zeros(5), out)
    assert out[0] == 15


# ── what goes wrong ───────────────────────────────────────────────────────────────────────────────────

HEAD = """\
import tilelang
import tilelang.language as T

@tilelang.jit(target="reference")
def f(A, B=None):
    M, K = T.const("M, K")
"""
WRONG = {
    "two tensors disagree": (
        "    x = M * 2\n    A: T.Tensor((M, K), 'float32')\n    B: T.Tensor((M,), 'float32')\n",
        9,
        r"M cannot be both: it is 3 by extent 0 of A \(shape \(3, 4\)\), but 5 by extent 0 of B",
    ),
    "an assertion of a guess": (
        "    assert M == K\n    A: T.Tensor((M, K), 'float32')\n    B: T.Tensor((5,), 'float32')\n",
        7,
        "assert",
    ),
    "no bare extent": (
        "    x = M * 2\n    A: T.Tensor((M * 2, K), 'float32')\n    B: T.Tensor((5,), 'float32')\n",
        7,
        r"M, which T.const declares at line 6, has no value: no annotation of a tensor binds it, in which it "
        r"must stand alone as an extent or a stride, A: T.Tensor\(\(M, ...\), dtype\); or give it by "
        r"keyword, f\(..., M=64\)",
    ),
    "an annotation that does not run": (
        "    x = M * 2\n    A: T.Tensor((3, K), 'float32')\n    if x > 100:\n"
        "        B: T.Tensor((M,), 'float32')\n",
        6,
        "nothing gives M a value",
    ),
    "an annotation that does not run, of a tensor that is declared": (
        "    x = M * 2\n    if x > 100:\n        A: T.Tensor((M, K), 'float32')\n    else:\n"
        "        A: T.Tensor((3, K), 'float32')\n    B: T.Tensor((5,), 'float32')\n"
        "    with T.Kernel(1, threads=32):\n        B[0] = x\n",
        6,
        "nothing gives M a value",
    ),
    "an annotation that the value itself forbids": (
        "    if M == 3:\n        A: T.Tensor((3, K), 'float32')\n        B: T.Tensor((M,), 'float32')\n"
        "    else:\n        A: T.Tensor((M, K), 'float32')\n        B: T.Tensor((5,), 'float32')\n",
        11,
        "M cannot be both: it is 5 by its use before that, but 3 by extent 0 of A",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors(tmp_path, name):
    body, line, words = WRONG[name]
    f = load_text(tmp_path, HEAD + body).f
    with pytest.raises(tilelang.CompileError, match=words) as caught:
        f(zeros(3, 4), zeros(5))
    assert caught.value.line == line, caught.value


def test_a_tensor_that_is_not_given(tmp_path):
    f = load_text(tmp_path, HEAD + "    x = M * 2\n    A: T.Tensor((M, K), 'float32')\n").f
    with pytest.raises(
        tilelang.CompileError,
        match="M, which T.const declares at line 6, has no value: it is extent 0 of A, which is not given",
    ):
        f.compile(K=3)


# ── by keyword ────────────────────────────────────────────────────────────────────────────────────────


@tilelang.jit(target="cpu")
def scaled(A, out):
    M, S = T.const("M, S")
    x = M * S
    A: T.Tensor((M,), "float32")
    out: T.Tensor((1,), "float32")
    with T.Kernel(1, threads=32):
        out[0] = x


def test_given_by_keyword():
    out = zeros(1)
    for s in (2, 3, 2, np.int64(5)):
        scaled(zeros(4), out, S=s)
        assert out[0] == 4 * s
    scaled(zeros(4), out, M=4, S=7)
    assert out[0] == 28
    with pytest.raises(
        tilelang.CompileError, match="M cannot be both: it is 5 by the keyword M, but 4 by extent 0 of A"
    ):
        scaled(zeros(4), out, M=5, S=7)
    with pytest.raises(tilelang.CompileError, match=r"S, .*give it by keyword, scaled\(..., S=64\)"):
        scaled(zeros(4), out)
    with pytest.raises(
        TypeError, match="unexpected keyword argument 'Q', which is neither a parameter nor a T.const"
    ):
        scaled(zeros(4), out, S=1, Q=2)
    with pytest.raises(TypeError, match="unexpected keyword argument 'dtype'"):
        scaled(zeros(4), out, S=1, dtype="float32")


def test_keywords_are_part_of_the_key():
    a, out = zeros(4), zeros(1)
    for s in (11, 12):
        assert scaled.find((a, out, "S", s)) is None
        scaled(a, out, S=s)
        assert scaled.find((a, out, "S", s)) is scaled.compile(a, out, S=s)
    assert scaled.find((a, out)) is None
    for names in (("M", "S"), ("S", "M")):  # in any order; names that Python made at run time
        scaled(a, out, **{"".join(["", name]): 4 for name in names})
        assert out[0] == 16
    scaled(a, **{"".join(["o", "ut"]): out}, S=True)
    assert out[0] == 4
    with pytest.raises(TypeError, match="got multiple values for argument 'out'"):
        scaled(a, out, **{"".join(["o", "ut"]): out}, S=1)
    with pytest.raises(TypeError, match="one value for each name, then pairs"):
        scaled.find((a, out, "S"))


def test_given_to_compile_and_its_kin():
    kernel = scaled.compile(M=4, S=3)
    assert scaled.compile(M=4, S=3) is kernel and scaled.compile(M=4, S=2) is not kernel
    out = zeros(1)
    kernel(zeros(4), out)
    assert out[0] == 12
    assert scaled.get_tir(M=4, S=3).text == kernel.prim_func.text
    assert scaled.get_kernel_source(M=4, S=3) == kernel.get_kernel_source()
    two = scaled.par_compile([{"M": 4, "S": 3}, {"M": 5, "S": 3}])
    assert two[0] is kernel and two[1].params[0].shape == (5,)
    assert scaled.compile(zeros(4), out, S=3).params[0].shape == (4,)


def test_autotuned():
    @tilelang.autotune(configs=[{"block": 8}, {"block": 16}], warmup=0, rep=1)
    @tilelang.jit(target="cpu")
    def f(A, block: int = 4):
        N, S = T.const("N, S")
        count = T.ceildiv(N, block)
        A: T.Tensor((N,), T.float32)
        B = T.empty((N,), T.float32)
        with T.Kernel(count, threads=32) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] * S
        return B

    a = numbers(33)
    np.testing.assert_array_equal(f(a, S=2), a * 2)
    np.testing.assert_array_equal(f(a, S=3), a * 3)
    np.testing.assert_array_equal(f(a, block=3, S=4), a * 4)
    assert f.compile(a, S=2).config["block"] in (8, 16)
    assert f.compile(N=64, S=2).params[0].shape == (64,)
    assert "8" in f.get_kernel_source(N=64, S=2, block=8)
