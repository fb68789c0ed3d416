"""T.tile_op: operators of the user's, on every target, and what is said when one is wrong."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import failure, kernel
from tilelang import _core


def scaled(src, factor, offset=0):
    return (src * factor + offset).astype(np.float32)


@T.tile_op
def scale(src: T.read, dst: T.write, factor: T.value, offset=0):
    """dst = src * factor + offset."""
    for i, j in T.Parallel(src.shape[0], src.shape[1]):
        dst[i, j] = src[i, j] * factor + offset


@T.tile_op(eval=scaled)
def scale_eval(src: T.read, dst: T.write, factor: T.value, offset=0):
    for i, j in T.Parallel(src.shape[0], src.shape[1]):
        dst[i, j] = src[i, j] * factor + offset


def staged(src, dst):
    tile = T.alloc_fragment(src.shape, src.dtype)
    T.copy(src, tile)
    for i, j in T.Parallel(*src.shape):
        tile[i, j] = tile[i, j] + dst[i, j]
    T.copy(tile, dst)


@T.tile_op(lower=staged, eval=lambda src, dst: src + dst)
def accumulate(src: T.read, dst: T.update):
    """dst += src, by way of a fragment of its own."""


@T.tile_op
def accumulate_twice(src: T.read, dst: T.update):
    accumulate(src, dst)
    accumulate(src, dst)


def both(operator):
    @T.prim_func
    def main(A: T.Tensor((64, 48), "float32"), C: T.Tensor((64, 48), "float32"), f: T.float32):
        with T.Kernel(2, 2, threads=64) as (bx, by):
            S = T.alloc_shared((3, 32, 24), "float32")
            operator(A[by * 32 : by * 32 + 32, bx * 24 : bx * 24 + 24], S[1, :, :], f, offset=2)
            T.copy(S[1, :, :], C[by * 32, bx * 24])
            accumulate_twice(S[1, :, :], C[by * 32 : by * 32 + 32, bx * 24 : bx * 24 + 24])

    return main


@pytest.mark.parametrize("operator", [scale, scale_eval], ids=["body", "eval"])
def test_runs(target, operator):
    A = np.random.default_rng(0).integers(-9, 9, (64, 48)).astype(np.float32)
    C = np.zeros((64, 48), np.float32)
    tilelang.compile(both(operator), target=target)(A, C, 0.5)
    assert (3 * (A * 0.5 + 2) == C).all()


def test_text_round_trip(target):
    function = both(scale_eval).function
    text = function.text()
    source, tile = "A[by*32 : +32, bx*24 : +24]", "S[1, 0 : +32, 0 : +24]"
    assert f"\n    scale_eval(read {source}, write {tile}, value f) {{offset=2}}:\n" in text
    assert f"\n      accumulate(read {tile}, update {source.replace('A', 'C')}):\n" in text
    again = _core.parse(text)
    assert again.text() == text
    unknown = _core.parse(text.replace("scale_eval(", "nobody(").replace("accumulate(", "nobody_either("))
    A, C = np.ones((64, 48), np.float32), np.zeros((64, 48), np.float32)
    for parsed in (again, unknown):
        C[:] = 0
        _core.compile(parsed, target, {}).launch((A, C, 0.5), 0)
        assert (C == 7.5).all()


def test_the_reference_runs_eval_and_the_rest_the_body():
    """An eval that says otherwise is seen: the two are compared by running both."""

    @T.tile_op(eval=lambda src: src + 1)
    def wrong(src: T.read, dst: T.write):
        T.copy(src, dst)

    @T.prim_func
    def main(A: T.Tensor((32, 32), "int32"), C: T.Tensor((32, 32), "int32")):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((32, 32), "int32")
            wrong(A, S)
            T.copy(S, C)

    A, C = np.full((32, 32), 7, np.int32), np.zeros((32, 32), np.int32)
    for target, value in [("reference", 8), ("cpu", 7), ("sim:sm_80", 7)]:
        tilelang.compile(main, target=target)(A, C)
        assert (value == C).all(), target


def test_thread_level_code_with_an_eval_runs_in_the_reference():
    @T.tile_op(eval=lambda src: src[::-1].copy())
    def reverse(src: T.read, dst: T.write):
        t = T.get_thread_binding()
        dst[t] = src[31 - t]

    @T.prim_func
    def main(A: T.Tensor((32,), "float32"), C: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            S, R = T.alloc_shared((32,), "float32"), T.alloc_shared((32,), "float32")
            T.copy(A, S)
            reverse(S, R)
            T.copy(R, C)

    A, C = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    for target in ("reference", "sim:sm_80"):
        C[:] = 0
        tilelang.compile(main, target=target)(A, C)
        assert (A[::-1] == C).all(), target


def test_options():
    """Options reach the body as they are, and eval as text IR keeps them."""
    seen = []

    def meaning(src, to, word, sizes, flag, nothing=None):
        seen.append((to, word, sizes, flag))
        return src

    @T.tile_op(eval=meaning)
    def cast(src: T.read, dst: T.write, to="float16", word="w", sizes=(1, 2), flag=True, nothing=None):
        assert (sizes, flag, nothing) == ((1, 2), True, None)
        for i in T.Parallel(32):
            dst[i] = T.cast(T.cast(src[i], to), "float32")

    @T.prim_func
    def main(A: T.Tensor((32,), "float32"), C: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            cast(A, C, to=T.float16)

    assert 'cast(read A, write C) {flag=1, sizes=[1, 2], to="float16", word="w"}:' in main.function.text()
    A = np.linspace(0, 1, 32, dtype=np.float32)
    C = np.zeros_like(A)
    tilelang.compile(main, target="reference")(A, C)
    assert (A == C).all() and seen == [("float16", "w", [1, 2], 1)]
    tilelang.compile(main, target="cpu")(A, C)
    assert (A.astype(np.float16) == C).all()


def test_infer_layout():
    rows = T.Layout((32, 32), lambda i, j: i * 40 + j)

    @T.tile_op(infer_layout=lambda src, dst: {dst: rows, src: T.Fragment((32, 32), lambda i, j: (i, j))})
    def spread(src: T.read, dst: T.write):
        T.copy(src, dst)

    def program(annotated):
        @T.prim_func
        def main(A: T.Tensor((32, 32), "float32"), C: T.Tensor((32, 32), "float32")):
            with T.Kernel(1, threads=32):
                S, F = T.alloc_shared((32, 32), "float32"), T.alloc_fragment((32, 32), "float32")
                if annotated:
                    T.annotate_layout({S: annotated})
                T.copy(A, F)
                spread(F, S)
                T.copy(S, C)

        return main

    text = program(None).function.text()
    assert "S = shared f32[32, 32] layout((i, j) -> i*40 + j)" in text
    assert "F = fragment f32[32, 32] layout((i, j, k) -> (i, j))" in text
    assert program(rows).function.text() == text
    A, C = np.random.default_rng(0).random((32, 32), np.float32), np.zeros((32, 32), np.float32)
    tilelang.compile(program(None), target="sim:sm_80")(A, C)
    assert (A == C).all()
    with pytest.raises(tilelang.CompileError) as caught:
        program(T.Layout((32, 32), lambda i, j: i * 33 + j))
    assert caught.value.text == (
        "S has a layout already, (i, j) -> i*33 + j (by T.annotate_layout), and "
        "cannot also have (i, j) -> i*40 + j (by spread): annotate it once"
    )


def test_a_wrong_eval():
    def program(eval):
        @T.tile_op(eval=eval)
        def same(src: T.read, dst: T.write):
            T.copy(src, dst)

        @T.prim_func
        def main(A: T.Tensor((32,), "int32"), C: T.Tensor((32,), "int32")):
            with T.Kernel(1, threads=32):
                same(A, C)

        return tilelang.compile(main, target="reference")

    A, C = np.zeros(32, np.int32), np.zeros(32, np.int32)
    for eval, message in [
        (lambda src: src[:8], "the eval of same gave [8] for C, which is [32]"),
        (lambda src: (src, src), "the eval of same gave 2 arrays, but it writes to 1 operands"),
        (lambda src: src * 0.5, "the eval of same gave floats for C, which is int32"),
        (lambda src: np.array(["x"] * 32), "same: eval gave <U1 for dst, not numbers"),
    ]:
        with pytest.raises(tilelang.CompileError) as caught:
            program(eval)(A, C)
        assert message in caught.value.text
    with pytest.raises(ZeroDivisionError):
        program(lambda src: src // 0 if 1 // 0 else src)(A, C)


OPERATORS = """\
import tilelang.language as T
@T.tile_op
def twice(src: T.read, dst: T.write, factor: T.value = 2, mode=None):
    for i, j in T.Parallel(src.shape[0], src.shape[1]):
        dst[i, j] = src[i, j] * factor
@T.tile_op
def stray(src: T.read, dst: T.write, *, to=None, wrong=None):
    for i, j in T.Parallel(src.shape[0], src.shape[1]):
        dst[i, j] = src[i, j] if wrong is None else wrong[0][i, j]
    if to is not None:
        T.copy(src, to[0])
@T.tile_op
def backwards(src: T.read, dst: T.write):
    T.copy(dst, src)
@T.tile_op(infer_layout=lambda src, dst: 5)
def unlaid(src: T.read, dst: T.write):
    T.copy(src, dst)
"""
S = "S = T.alloc_shared((64, 8), 'float32')\n"
# body, what is said
WRONG = {
    "missing operand": ("twice(A)", "twice: missing a required argument: 'dst'"),
    "unknown option": ("twice(A, S, by=3)", "twice: got an unexpected keyword argument 'by'"),
    "a value for a tile": ("twice(n, S)", "twice: src must be a buffer, a slice of one"),
    "a base element": ("twice(A[0, 0], S)", "twice: src is an element of A: give a slice"),
    "a tile for a value": ("twice(A, S, S)", "S is a shared buffer of shape (64, 8), not a value"),
    "an option that the device knows": ("twice(A, S, mode=n)", "the option mode is a value of the kernel"),
    "an option of no kind": ("twice(A, S, mode={})", "the option mode must be a number, a word, a dtype"),
    "reads another tile": ("stray(A, S, wrong=[S])", "the option wrong must be"),
    "writes to what it reads": (
        "backwards(A, S)",
        "backwards writes to A, a read-only operand: declare it as T.update or T.write",
    ),
    "no dict": ("unlaid(A, S)", "unlaid: infer_layout must give a dict of operands and layouts, not 5"),
}


@pytest.mark.parametrize("body, text", WRONG.values(), ids=WRONG)
def test_wrong_calls(tmp_path, body, text):
    error = failure(tmp_path, S + body, before=OPERATORS)
    assert text in error.text
    assert "kernels_" in error.file


def test_what_a_body_takes_from_outside(tmp_path):
    before = """\
import tilelang.language as T
kept = []
@T.tile_op
def uses(src: T.read, dst: T.write):
    T.copy(src, dst)
    dst[0, 0] = kept[0][0, 0]
@T.tile_op
def changes(src: T.read, dst: T.write):
    T.copy(src, kept[0])
"""
    kept = S + "R = T.alloc_shared((64, 8), 'float32')\nkept.append(R)\n"
    error = failure(tmp_path, kept + "uses(A, S)", before=before)
    assert error.text == "uses reads R, which is not among its operands: make it a parameter, as T.read"
    assert error.line == 6
    error = failure(tmp_path, kept + "changes(A, S)", before=before)
    assert error.text == (
        "changes writes to R, which is not among its operands: make it a parameter, as T.write"
    )


def test_a_default_value(tmp_path):
    inside = kernel(tmp_path, S + "twice(A, S)", before=OPERATORS)
    assert "\n    twice(read A, write S, value 2):\n" in inside.function.text()


def test_outside_of_a_kernel():
    with pytest.raises(tilelang.CompileError, match="scale outside a @T.prim_func"):
        scale(1, 2, 3)


def nothing_written(src: T.read):
    pass


def copy(src: T.read, dst: T.write):
    pass


def block(src: T.read, dst: T.write):
    pass


def exp(src: T.read, dst: T.write):
    pass


def starred(*tiles: T.read):
    pass


@pytest.mark.parametrize("function, options, text", [
    (nothing_written, {}, "T.tile_op: nothing_written writes to nothing: annotate its operands"),
    (copy, {}, "T.tile_op: `copy` is a tile operator of the language: give yours another name"),
    (block, {}, "T.tile_op: `block` has a meaning in text IR: give the operator another name"),
    (exp, {}, "T.tile_op: `exp` has a meaning in text IR"),
    (starred, {}, "T.tile_op: starred takes *tiles: each operand needs a name of its own"),
    (nothing_written, {"eval": 3}, "T.tile_op: eval must be a function, not 3"),
    (nothing_written, {"lower": 3}, "T.tile_op: lower must be a function, not 3"),
    (print, {}, "@T.tile_op decorates a function, not a builtin_function_or_method"),
])  # fmt: skip
def test_wrong_definitions(function, options, text):
    with pytest.raises(tilelang.CompileError) as caught:
        T.tile_op(function, **options)
    assert text in caught.value.text


def test_the_cache_knows_the_body(tmp_path):
    def program(n):
        @T.tile_op
        def add(src: T.read, dst: T.write):
            for i in T.Parallel(32):
                dst[i] = src[i] + n

        @T.prim_func
        def main(A: T.Tensor((32,), "int32"), C: T.Tensor((32,), "int32")):
            with T.Kernel(1):
                add(A, C)

        return _core.compile(main.function, "cpu", {"cache_dir": str(tmp_path)})

    assert [program(n).from_cache for n in (1, 1, 2)] == [False, True, False]
