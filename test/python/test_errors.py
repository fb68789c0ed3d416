"""What is wrong is said at the user's line, with a caret, and with what to do instead."""

import pytest
import tilelang
import tilelang.language as T
from helpers import FIRST_LINE, INDENT, SIGNATURE, failure, kernel, load_text

S = "S = T.alloc_shared((64, 8), 'float32')\n"

# body, line within it, column within it, part of the text
WRONG = {
    "unknown name": ("T.coppy(A, A)", 1, 1, "did you mean T.copy?"),
    "name of a later version": (
        "T.create_tma_descriptor(A)",
        1,
        1,
        "T.create_tma_descriptor needs descriptors",
    ),
    "Blackwell": ("T.tcgen05_gemm(A, A)", 1, 1, "needs sm_100"),
    "missing argument": ("T.copy(A)", 1, 1, "missing 1 required positional argument: 'dst'"),
    "unknown keyword": ("T.clear(A, fast=True)", 1, 1, "unexpected keyword argument 'fast'"),
    "option of a later version": (
        "T.gemm(A, A, A, mbar=A)",
        1,
        1,
        "mbar is what the tensor cores of later chips arrive at",
    ),
    "carried by a device loop": (
        "x = 0\nfor i in range(4):\n    x = x + 1\n    A[x, 0] = 1.0",
        3,
        5,
        "T.alloc_var",
    ),
    "augmented in a device loop": (
        "x = 0\nfor i in range(4):\n    x += 1",
        3,
        5,
        "from one iteration to the next",
    ),
    "ping-pong of buffers": (
        S + "R = T.alloc_shared((64, 8), 'float32')\na, b = S, R\nfor i in range(4):\n"
        "    T.clear(a)\n    a, b = b, a",
        6,
        5,
        "'a' changes from one iteration to the next",
    ),
    "escapes a device loop": ("for i in range(4):\n    y = i\nA[y, 0] = 1.0", 2, 5, "read after it"),
    "loop index after the loop": ("for i in range(4):\n    pass\nA[i, 0] = 1.0", 1, 5, "read after it"),
    "escapes a device branch": ("o = 0\nif n > 3:\n    o = 1\nA[o, 0] = 1.0", 3, 5, "a if condition else b"),
    "break": ("for i in T.Parallel(4):\n    break", 2, 5, "`break` in a parallel loop"),
    "continue under a condition": ("for i in [1]:\n    if n > 3:\n        continue", 3, 9, "'continue'"),
    "value returned": ("return 3", 1, 1, "returns tensors made by T.empty"),
    "try": ("try:\n    pass\nfinally:\n    pass", 1, 1, "'try' has no meaning"),
    "class": ("class X:\n    pass", 1, 1, "a class cannot be defined"),
    "global": ("global g", 1, 1, "'global'"),
    "del": ("x = 1\ndel x", 2, 1, "'del'"),
    "import": ("import os", 1, 1, "'import'"),
    "yield": ("x = lambda: (yield)", 1, 14, "'yield'"),
    "match": ("match n:\n    case 1:\n        pass", 1, 1, "use if and elif"),
    "walrus": ("A[(i := 3), 0] = 1.0", 1, 4, "':='"),
    "attribute": ("A.foo = 3", 1, 1, "attributes of the kernel's values cannot be assigned"),
    "for-else": ("for i in [1]:\n    pass\nelse:\n    pass", 4, 5, "'else' after a loop"),
    "loop targets": ("for i, j, k in T.Parallel(4, 4):\n    pass", 1, 16, "2 indices"),
    "loop in a comprehension": ("x = [i for i in T.serial(3)]", 1, 17, "@T.macro"),
    "list by device index": ("xs = [1, 2]\ny = xs[bx]", 2, 5, "pass the table as a tensor parameter"),
    "tensor in the body": ("x: T.Tensor((3,), 'float32')", 1, 1, "eager function"),
    "negative index": ("A[-999, 0] = 1.0", 1, 1, "index -999 of A is outside: it counts from the end of"),
    "slice with a step": (S + "T.copy(A[0:64:2, :], S)", 2, 8, "has a step"),
    "empty slice": (S + "T.copy(A[4:4, :], S)", 2, 8, "is empty"),
    "store to a slice": ("A[0:4, 0:8] = 1.0", 1, 1, "T.Parallel"),
    "too many indices": ("A[0, 0, 0] = 1.0", 1, 1, "2 dimensions"),
    "float index": ("A[0, 1.5] = 1.0", 1, 1, "must be an integer"),
    "buffer as a value": ("x = A + 1", 1, 5, "index it, A[i, j]"),
    "slice as a value": ("x = A[0:4] + 1", 1, 5, "is not a value"),
    "stale element": ("t = [A[0, 0]]\nA[0, 0] = 2.0\nA[1, 0] = t[0]", 3, 1, "give its value a name first"),
    "matmul operator": ("x = n @ n", 1, 5, "T.gemm"),
    "plain function decides": ("def f(x):\n    return 1 if x > 2 else 2\nA[f(n), 0] = 1.0", 2, 17, "T.macro"),
    "iterating a buffer": ("for a in A:\n    pass", 1, 10, "cannot iterate"),
    "false assert": ("assert 1 > 3, 'tile'", 1, 1, "assertion failed: tile"),
    "kernel in a kernel": ("with T.Kernel(3) as by:\n    pass", 1, 6, "inside a T.Kernel"),
    "unknown dtype": ("T.alloc_shared((64, 8), 'flot32')", 1, 1, "did you mean float32?"),
    "later dtype": ("T.alloc_shared((64, 8), 'float6_e3m2fn')", 1, 1, "it needs sm_100"),
    "shape without dtype": ("T.alloc_shared(64, 8)", 1, 1, "nothing says which dtype shared has"),
    "run-time tile": ("T.alloc_shared((n, n), 'float32')", 1, 1, "nothing says how much it is at most"),
    "policy": (S + "T.gemm(S, S, S, policy='x')", 2, 1, "T.GemmWarpPolicy"),
    "stages": ("for k in T.Pipelined(4, num_stages=-1):\n    pass", 1, 10, "num_stages"),
    "rounding": ("A[0, 0] = T.cast(n, 'float32', round='rz')", 1, 11, "rounded to nearest only"),
    "infinity of an int": ("A[0, 0] = T.infinity('int32')", 1, 11, "T.max_value"),
    "value in place of a tile": ("T.clear(n)", 1, 1, "must be a buffer"),
    "inner extents of a gemm": (
        "X = T.alloc_shared((128, 32), 'float16')\nY = T.alloc_shared((64, 128), 'float16')\n"
        "Z = T.alloc_fragment((128, 128), 'float32')\nT.gemm(X, Y, Z)",
        4,
        1,
        "32",
    ),
    "shapes of a copy": (S + "R = T.alloc_shared((32, 8), 'float32')\nT.copy(S, R)", 3, 1, "64"),
}


@pytest.mark.parametrize("name", WRONG)
def test_diagnostics(name, tmp_path):
    body, line, column, text = WRONG[name]
    error = failure(tmp_path, body)
    assert text in error.text
    assert error.line == FIRST_LINE + line - 1
    assert error.column == INDENT + column
    head, source, caret = str(error).split("\n")[:3]
    assert head.startswith(f"{error.file}:{error.line}:{error.column}: error: {error.text[:20]}")
    assert source.strip() == body.split("\n")[line - 1].strip()
    assert caret.index("^") == 2 + error.column - 1


SIGNATURES = {
    "A": "has no annotation",
    "A: T.Tensor": "eager function",
    "A: 3": "must be T.Tensor",
    "A: T.Tensor((3, 'x'), 'float32')": "must be integers",
    "A: T.Tensor((3, -1), 'float32')": "less than 0",
    "A: T.Tensor[[3, 4], 'float33']": "unknown dtype",
    "*A": "a @T.macro may have *args",
    "A: 'T.Tensor((K, 4))'": "NameError: name 'K' is not defined",
}


@pytest.mark.parametrize("signature", SIGNATURES)
def test_signatures(signature, tmp_path):
    error = failure(tmp_path, "pass", signature=signature)
    assert SIGNATURES[signature] in error.text
    assert error.line == 3


def test_no_source_text():
    scope = {}
    with pytest.raises(tilelang.CompileError, match="define it in a file"):
        exec("import tilelang.language as T\n@T.prim_func\ndef main(A: T.Tensor((3,))):\n  pass\n", scope)


def test_a_lambda_is_no_kernel():
    with pytest.raises(tilelang.CompileError, match="a lambda"):
        T.prim_func(lambda A: None)


def test_outside_a_kernel(tmp_path):
    with pytest.raises(tilelang.CompileError, match="outside a @T.prim_func"):
        T.alloc_shared((3,), "float32")
    with pytest.raises(tilelang.CompileError, match="outside a T.Kernel"):
        load_text(
            tmp_path,
            """\
            import tilelang.language as T
            @T.prim_func
            def main(A: T.Tensor((3,))):
                T.clear(A)
            """,
        )


def test_unknown_names_are_attribute_errors():
    assert not hasattr(T, "alloc_sharde") and hasattr(T, "alloc_barrier")
    with pytest.raises(tilelang.CompileError) as caught:
        _ = T.alloc_sharde
    assert caught.value.file == __file__ and "T.alloc_shared" in caught.value.text


def test_errors_in_python_stay_pythons(tmp_path):
    with pytest.raises(ZeroDivisionError) as caught:
        kernel(tmp_path, "x = 1 // 0")
    entry = [e for e in caught.traceback if "kernels_" in str(e.path)][-1]
    assert entry.lineno + 1 == FIRST_LINE


def test_errors_in_macros_point_into_the_macro(tmp_path):
    before = "import tilelang.language as T\n@T.macro\ndef m(A):\n    T.coppy(A)\n"
    error = failure(tmp_path, "m(A)", before=before)
    assert error.line == 4


def test_thread_level_code_on_the_cpu(tmp_path):
    main = kernel(tmp_path, "T.sync_threads()\nA[T.get_thread_binding(), 0] = 1.0")
    for target in ("cpu", "reference"):
        with pytest.raises(tilelang.CompileError, match="thread-level code"):
            tilelang.compile(main, target=target)


def test_a_tile_too_large_for_shared_memory(tmp_path):
    main = kernel(tmp_path, "S = T.alloc_shared((1024, 1024), 'float32')\nT.clear(S)\nA[0, 0] = S[0, 0]")
    with pytest.raises(tilelang.CompileError, match=r"shared"):
        tilelang.compile(main, target="cuda -arch=sm_80")


def test_unknown_target(tmp_path):
    main = kernel(tmp_path, "A[0, 0] = 1.0", signature=SIGNATURE)
    with pytest.raises(tilelang.CompileError, match="cuda") as caught:
        tilelang.compile(main, target="vulkan")
    assert "vulkan" in str(caught.value)


NAMED = """\
S = T.alloc_shared((64, 64), 'float32')
V = T.alloc_shared((64,), 'float32')
F = T.alloc_fragment((64, 64), 'float32')
"""
IN_PYTHONS_NAMES = {
    "H = T.alloc_shared((32, 64), 'float16')\nG = T.alloc_shared((16, 64), 'float16')\n"
    "D = T.alloc_fragment((32, 16), 'float32')\nT.gemm(H, G, D)": "did you mean transpose_B=True?",
    "H = T.alloc_shared((64, 32), 'float16')\nG = T.alloc_shared((64, 16), 'float16')\n"
    "D = T.alloc_fragment((32, 16), 'float32')\nT.gemm(H, G, D)": "did you mean transpose_A=True?",
    "H = T.alloc_shared((32, 64), 'float16')\nG = T.alloc_shared((64, 16), 'float16')\n"
    "D = T.alloc_fragment((32, 16), 'float32')\nT.gemm(H, G, D, transpose_B=True)": (
        "did you mean transpose_B=False?"
    ),
    "H = T.alloc_shared((64, 16), 'float16')\nG = T.alloc_shared((64, 16), 'float16')\n"
    "D = T.alloc_fragment((16, 16), 'float32')\nT.gemm(H, G, D)": "did you mean transpose_A=True?",
    "H = T.alloc_shared((16, 64), 'float16')\nG = T.alloc_shared((32, 16), 'float16')\n"
    "D = T.alloc_fragment((64, 32), 'float32')\nT.gemm(H, G, D)": (
        "did you mean transpose_A=True, transpose_B=True?"
    ),
    "H = T.alloc_shared((64, 32), 'float16')\nG = T.alloc_shared((64, 16), 'float16')\n"
    "D = T.alloc_fragment((64, 16), 'float32')\nT.gemm(H, G, D)": (
        "no transposes make them fit: beside this A and C, B is [32, 16], or [16, 32] with transpose_B=True"
    ),
    "H = T.alloc_shared((64, 32), 'float16')\nG = T.alloc_shared((32, 16), 'float16')\n"
    "D = T.alloc_fragment((16, 64), 'float32')\nT.gemm(H, G, D)": (
        "op(A) · op(B) is [64, 16], so C must be [64, 16]"
    ),
    "T.reduce(S, F, dim=0, combine=lambda a, b: a + b, identity=0.0)": (
        "reduce: buffer is S: float32[64, 64] and dim 0, so out must be"
    ),
    "T.atomic_add(S, V)": "atomic_add: ",
    "T.copy(S, A)": (
        "; say where the tile begins, T.copy(S, A[by * 64, bx * 64]): elements outside of A are dropped"
    ),
    "T.copy(F, A)": "T.copy(F, A[by * 64, bx * 64])",
    "T.copy(A, S)": (
        "; say where the tile begins, T.copy(A[by * 64, bx * 64], S): elements outside of A are 0"
    ),
    "T.copy(B, V)": "T.copy(B[bx * 64], V)",
}


@pytest.mark.parametrize("line", IN_PYTHONS_NAMES)
def test_hints_have_the_names_of_python(line, tmp_path):
    signature = "A: T.Tensor((40, 40), 'float32'), B: T.Tensor((40,), 'float32')"
    error = failure(tmp_path, NAMED + line, signature=signature)
    assert IN_PYTHONS_NAMES[line] in error.text
    for internal in ("trans_a", "trans_b", "reduce_by", "atomic_add_tile"):
        assert internal not in error.text


def test_what_the_hint_of_a_copy_says_works(tmp_path):
    import numpy as np

    signature = "A: T.Tensor((40, 40), 'float32'), B: T.Tensor((40, 40), 'float32')"
    body = NAMED + "by = 0\nT.copy(A[by * 64, by * 64], S)\nT.copy(S, B[by * 64, by * 64])"
    main = kernel(tmp_path, body, signature=signature)
    a = np.random.default_rng(0).standard_normal((40, 40), np.float32)
    for target in ("cpu", "reference", "sim:sm_80"):
        b = np.zeros_like(a)
        tilelang.compile(main, target=target)(a, b)
        np.testing.assert_array_equal(a, b)


def test_a_part_of_a_tensor_is_not_told_where_it_begins(tmp_path):
    body = "S = T.alloc_shared((4, 4), 'float32')\nT.copy(S, A[0:8, 0:8])"
    assert "say where" not in failure(tmp_path, body).text
