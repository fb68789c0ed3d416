"""What people write who come from elsewhere is an error at their line that says what it is called here."""

import inspect
import re

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import FIRST_LINE, failure, kernel
from tilelang import idioms

TILES = "x = T.alloc_fragment((40, 64), 'float32')\ns = T.alloc_fragment((40,), 'float32')\n"
HELPERS = """\
def total(x, s):
    T.reduce_sum(x, s, axis=1)

def place(at, value):
    at[0, 0] = value

"""
LOOP = "`for i, j in T.Parallel(40, 64): x[i, j] = …`"

# body after TILES, column in its last line, parts of the text
WRONG = {
    "transposed": ("T.gemm(x, x.T, s)", 11, ["the fragment buffer x has no", "transpose_B=True"]),
    "mean": ("x.mean(1)", 1, ["write T.reduce_sum(x, out, dim)", "division"]),
    "max": ("x.max(1)", 1, ["write T.reduce_max(x, out, dim)"]),
    "reshape": ("y = x.reshape(64, 40)", 5, ["write T.reshape(x, shape)"]),
    "view": ("y = x.view(64, 40)", 5, ["write T.view(x, shape, dtype)"]),
    "copy": ("y = x.copy()", 5, ["write T.copy(x, other)"]),
    "to": ("y = x.to('float16')", 5, ["write T.copy(x, other)", "T.cast(x[…], dtype)"]),
    "astype": ("y = x.astype('float16')", 5, ["T.copy into a buffer of that dtype"]),
    "of a slice": ("x[0:4, :].sum()", 1, ["a slice of x has no", "T.reduce_sum(x[…], out, dim)"]),
    "function of a tile": ("y = x.exp()", 5, ["T.exp takes one element, x[…]"]),
    "function of a value": ("y = (A[0, 0] + 1).exp()", 5, ["a value of the kernel has no", "T.exp(value)"]),
    "function of an element": ("y = A[0, 0].sqrt()", 5, ["an element of A has no", "T.sqrt(A[…])"]),
    "unknown attribute": ("y = x.colour", 5, ["it has .shape, .dtype, .scope and .name"]),
    "tile arithmetic": ("y = x * 2.0", 5, ["x is a fragment buffer of shape (40, 64), not a value", LOOP]),
    "function of a whole tile": ("y = T.exp(x)", 5, ["not a value", LOOP]),
    "tensor arithmetic": ("y = A + 1", 5, ["`for i, j in T.Parallel(…): A[i, j] = …`"]),
    "vector arithmetic": ("y = s + 1", 5, ["`for i in T.Parallel(40): s[i] = …`"]),
    "sum": ("T.sum(x, axis=1)", 1, ["T.sum: there is no such name", "T.reduce_sum(tile, out, dim)"]),
    "where": ("y = T.where(n > 0, 1, 0)", 5, ["T.if_then_else(condition, a, b)"]),
    "program_id": ("p = T.program_id(0)", 5, ["with T.Kernel(gx, gy) as (bx, by)"]),
    "threadIdx": ("p = T.threadIdx.x", 5, ["T.get_thread_binding(0)", "T.Parallel"]),
    "dot": ("T.dot(x, x)", 1, ["T.gemm(A, B, C)"]),
    "zeros": ("y = T.zeros((8, 8), 'float32')", 5, ["T.alloc_fragment", "T.clear"]),
    "axis": ("T.reduce_sum(x, s, axis=1)", 1, ["'axis'; did you mean dim? It takes (buffer, out, dim=-1"]),
    "keepdim": ("T.reduce_sum(x, s, dim=1, keepdim=True)", 1, ["'keepdim'", "out says", "(m, 1)"]),
    "misspelt": ("T.copy(A, x, coalesced_widht=4)", 1, ["did you mean coalesced_width?"]),
    "count": ("T.copy(A, x, 64)", 1, ["positional arguments but 3 were given; it takes (src, dst, *"]),
    "missing": ("T.copy(A)", 1, ["T.copy missing 1 required positional", "it takes (src, dst"]),
    "a helper's own": ("place(x)", 1, ["place missing 1 required", "it takes (at, value)"]),
    "tuple of a grid": ("k = T.Kernel((4, 4), threads=64)", 5, ["T.Kernel(4, 4, threads=…)", "one tuple"]),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_the_cure_is_said_at_the_line(tmp_path, name):
    body, column, parts = WRONG[name]
    error = failure(tmp_path, TILES + body, before=HELPERS)
    assert error.line == FIRST_LINE + HELPERS.count("\n") + 2
    assert error.column == 8 + column
    for part in parts:
        assert part in error.text, error.text


def test_a_call_in_a_plain_function_is_told_at_its_own_line(tmp_path):
    error = failure(tmp_path, TILES + "total(x, s)", before=HELPERS)
    assert error.line == 2 and "did you mean dim?" in error.text


def test_a_macro_is_called_as_it_is_defined(tmp_path):
    before = "import tilelang.language as T\n@T.macro\ndef put(at, value):\n    at[0, 0] = value\n\n"
    error = failure(tmp_path, "put(A)", before=before)
    assert error.text == "put missing 1 required positional argument: 'value'; it takes (at, value)"
    assert error.line == FIRST_LINE + before.count("\n")


def test_errors_of_other_functions_stay_theirs(tmp_path):
    before = "def copy(a, b):\n    pass\n\ndef once(x):\n    copy(x)\n\ndef add(x):\n    x + {}\n\n"
    for body in ("once(A)", "add(1)"):
        with pytest.raises(TypeError) as caught:
            kernel(tmp_path, body, before=before)
        assert not isinstance(caught.value, tilelang.CompileError)


def test_attributes_can_be_asked_for(tmp_path):
    body = "if hasattr(A, 'T') or getattr(A, 'mean', None) or hasattr(A[0, 0] + 1, 'to'):\n    A[0, 0] = 1.0"
    assert "A[0, 0]" not in kernel(tmp_path, body).text


def test_the_tables_name_what_is_there():
    tables = (idioms.NAMES, idioms.OF_BUFFERS, idioms.OF_VALUES, idioms.CURES)
    said = [text for table in tables for text in table.values()]
    assert {name for text in said for name in re.findall(r"T\.(\w+)", text)} <= {*T.__all__}
    assert not set(idioms.NAMES) & set(T.__all__)
    functions = [getattr(T, name) for name in T.__all__ if inspect.isfunction(getattr(T, name))]
    taken = {name for function in [*functions, T.Kernel] for name in inspect.signature(function).parameters}
    assert set(idioms.KEYWORDS.values()) <= taken


@tilelang.jit(target="cpu")
def factory(n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            T.clear(A)

    return main


def test_a_launch_in_brackets():
    made = factory(64)
    with pytest.raises(TypeError, match=r"main\[…\]: the grid stands in the kernel, `with T.Kernel\(gx, gy"):
        made[(5,)](np.ones(64, "f4"))
    with pytest.raises(TypeError, match=r"factory\[…\]: .* is called plainly, factory\(x, y\)"):
        factory[1, 64](64)


WRAPS = [("int8", 3, "i8"), ("int16", 600, "i16"), ("int32", 1 << 26, "i32")]


@pytest.mark.parametrize("dtype, step, brief", WRAPS)
def test_the_type_that_wraps_is_named(dtype, step, brief):
    @T.prim_func
    def main(A: T.Tensor((40000,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            S = T.alloc_shared((256,), "int32")
            S[tx] = 0
            B[tx] = S[T.cast(tx, dtype) * step]

    said = rf"this product exceeds {brief[1:]} bits: it is \d+, of which {brief} keeps"
    with pytest.raises(tilelang.SimulationError, match=said):
        tilelang.compile(main, target="sim:sm_90").simulate(np.zeros(40000, "i4"), np.zeros(64, "i4"))
