"""What people write who come from elsewhere is an error at their line that says what it is called here."""

import inspect
import re

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import FIRST_LINE, failure, kernel
from tilelang.front import idioms

TILES = "x = T.alloc_fragment((40, 64), 'float32')\ns = T.alloc_fragment((40,), 'float32')\n"
HELPERS = """\
def total(x, s):
    T.reduce_sum(x, s, axis=1)

def place(at, value):
    at[0, 0] = value

import functools
import numpy as np
two = 2
table = np.arange(8).reshape(2, 4)

@functools.cache
def cached(x):
    return x

"""
REDUCER = "best = T.alloc_reducer((1,), 'float32', 'max')\n"
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
    "sum of a tensor": ("A.sum()", 1, ["copy a tile of it, T.copy(A[…], tile), and write T.reduce_sum(tile"]),
    "sum of an element": ("A[0, 0].sum()", 1, ["it is one value; of a tile, T.reduce_sum(tile, out, dim)"]),
    "call of a tensor": ("A(0, 0)", 1, ["buffer A is not a function: an element is written A[i, j]"]),
    "index of an element": ("y = A[0, 0][1]", 5, ["an element of A has no elements: all indices"]),
    "lane of a slice": ("y = A[0, 0:4]\nz = y[0]", 5, ['T.cast(A[…], "float32x4")']),
    "barriers": ("y = T.create_barriers(2**31)", 5, ["2147483648 barriers, but a block has 1 to"]),
    "assumption": ("T.assume('n > 3')", 1, ["T.assume takes a condition, T.assume(n > 3), not a text"]),
    "store to so many": ("A[0, 0:n] = 1.0", 1, ["or to a slice of one dimension, of up to 64"]),
    "policy by position": ("T.gemm(x, x, x, T.GemmWarpPolicy.FullRow)", 1, ["transpose_A is True or False"]),
    "transposed as in BLAS": ("T.gemm(x, x, x, transpose_B='N')", 1, ["is True or False, not 'N'"]),
    "cleared": ("T.reduce_sum(x, s, clear='no')", 1, ["T.reduce_sum: clear is True or False, not 'no'"]),
    "flags": ("T.annotate_compile_flags(3)", 1, ["T.annotate_compile_flags cannot use what", "(flags)"]),
    "vectors": ("y = T.Shuffle(True, x[0, 0])", 5, ["T.Shuffle cannot use what it was given"]),
    "coordinates": ("y = T.index_to_coordinates([x, x], (4, 4))", 5, ["cannot use what it was given"]),
    "a set": ("y = T.round(A[0, 0], rounding_mode=set())", 5, ["T.round cannot use what it was given"]),
    "scheduler": ("y = T.PersistentTileScheduler('S', (16, 16))", 5, ["expected 4, got 3", "m_blocks"]),
    "with for if": ("with A[0, 0] > 1: pass", 6, ["`with` opens T.Kernel", "is written `if`"]),
    "for over nothing": ("for y in T.clear(x): pass", 10, ["a `for` runs over range", "not None"]),
    "dynamic of a tile": ("y = T.dynamic(x)", 5, ["is not a name"]),
    "message of an assertion": ("T.device_assert(0, msg=A[0, 0])", 1, ["msg is a text"]),
    "packed in a float": ("y = T.unpack_int(3, A[0, 0], 0, 'int8')", 5, ["bits of an integer"]),
    "index of a row": ("y = A[0][1]", 5, ["a slice of A has no elements: all indices"]),
    "key of a dict": ("y = {n: 1}", 5, ["as a key of a dict", "(x == 1) | (x == 2)"]),
    "get of a dict": ("y = {1: 5}.get(n)", 5, ["as a key of a dict", "(x == 1) | (x == 2)"]),
    "member of a set": ("y = {1, A[0, 0]}", 9, ["a member of a set", "(x == 1) | (x == 2)"]),
    "cached function": ("y = cached(n)", 5, ["an argument of a cached function"]),
    "look-up in a dict": ("y = {1: 5}[n]", 5, ["a Python dict cannot be indexed", "a tensor parameter"]),
    "look-up in an array": ("y = table[n]", 5, ["a Python ndarray cannot be indexed", "a tensor parameter"]),
    "look-up in rows": ("y = table[n, 1]", 5, ["a Python ndarray cannot be indexed", "a tensor parameter"]),
    "index of a list": ("y = [1, 2].index(n)", 5, [".index(…) of a Python list", "T.if_then_else(x == 1"]),
    "count of a list": ("y = (1, 2).count(n)", 5, [".count(…) of a Python tuple"]),
    "sort": ("y = [A[0, 0], A[1, 0]]\ny.sort()", 1, [".sort(…) of a Python list"]),
    "sorted": ("y = sorted([n, 2])", 5, ["lower = T.min(a, b) and upper = T.max(a, b)"]),
    "greatest by key": ("y = max([n, 2], key=abs)", 5, ["max with key=", "T.if_then_else(a < b, a, b)"]),
    "is a number": ("y = n is two", 5, ["`is` asks Python", "values are compared by =="]),
    "is not a value": ("y = n is not A[0, 0]", 5, ["`is not` asks Python", "values are compared by !="]),
    "in a tensor": ("y = 3 in A", 5, ["`in` does not look into a buffer", "T.any_of"]),
    "in a text": ("y = n in 'abc'", 5, ["`in` a str", "(x == 1) | (x == 2)"]),
    "number or": ("y = A[0, 0] or 1", 5, ["`or` gives one of its operands", "T.if_then_else(x != 0, x, y)"]),
    "and number": ("y = n > 0 and 5", 5, ["`and` gives one of its operands", "T.if_then_else(x != 0, x, y)"]),
    "text": ("T.print(f'n = {n}')", 9, ["as a part of a text", "T.print(value, 'text')"]),
    "text with a format": ("y = f'{A[0, 0]:.3f}'", 5, ["as a part of a text"]),
    "text of an assert": ("assert n > 0, f'bad {n}'", 15, ["the message of an `assert` is a plain text"]),
    "format": ("y = '{}'.format(n)", 5, ["as a part of a text"]),
    "text by %": ("y = 'n = %d' % n", 5, ["got str; a text belongs into T.print(value, text)"]),
    "text first": ("T.print('n', n)", 1, ["T.print takes the value first: T.print(value, 'text')"]),
    "digits": ("y = round(A[0, 0], 2)", 5, ["round with a number of digits", "T.round(x * 100) / 100"]),
    "length of a value": ("y = len(n)", 5, ["a value of the kernel has no length", "A.shape"]),
    "float step": ("for i in T.serial(0, 64, 64 / 8): pass", 10, ["the step of a loop is the float 8.0"]),
    "float range": ("for i in range(64 / 8): pass", 10, ["the end of a loop is the float 8.0", "write //"]),
    "float extent": ("for i in T.Parallel(9 / 3): pass", 10, ["extent 0 of T.Parallel is the float 3.0"]),
    "float shape": ("y = T.alloc_shared((8 / 2,), 'int8')", 5, ["the shape is the float 4.0"]),
    "float grid": ("T.Kernel(256 / 32)", 1, ["block extent 0 of T.Kernel is the float 8.0", "write //"]),
    "slice backwards": ("T.copy(A[bx*32:32, :], x)", 1, ["32 - bx*32, but it must be a constant"]),
    "names without brackets": ("with T.Kernel(2, 2) as p, q: pass", 27, ["stand in brackets, as (bx, by)"]),
    "power of integers": ("y = n ** n", 5, ["a constant exponent, from 0 to 64", "T.pow(T.cast("]),
    "negative power": ("y = n ** -1", 5, ["a constant exponent, from 0 to 64"]),
    "power of two": ("y = 2 ** n", 5, ["a power of two is 1 << y"]),
    "wrong contribution": (REDUCER + "best[0] += 1.0", 1, ["best is a reducer of max", "T.max(best[…], x)"]),
    "loop in a comprehension": ("y = [i for i in T.serial(3)]", 17, ["range(n) in a comprehension"]),
    "function of a library": ("y = memoryview(n)", 5, ["memoryview computes while the kernel is built"]),
    "complement of a float": ("y = T.bitwise_not(1.5)", 5, ["`~` takes an integer operand, not 1.5"]),
    "bits of floats": ("y = T.bitwise_and(3, 1.5)", 5, ["`&` takes integer operands, not 1.5"]),
    "shift by a negative number": ("y = T.shift_left(1, -1)", 5, ["a shift by -1", "must not be negative"]),
    "shift by a float": ("y = n << 1.0", 5, ["a shift of int32 by the float 1: the amount must be"]),
    "shift by a float value": ("y = n << T.float32(1)", 5, ["a shift of int32 by float32"]),
    "bits of a float": ("y = T.popcount(1.0)", 5, ["popcount takes an integer, not the float 1"]),
    "dtype first": ("y = T.cast('int8', A[0, 0])", 5, ["the dtype is A[0, 0]", "order is (value, dtype)"]),
    "extent of a tile": ("y = T.alloc_shared((A[0, 0],), 'int8')", 5, ["extent 0 of y is A[0, 0], which"]),
    "returned element": ("return A[0, 0]", 1, ["or its parameters, not A[0, 0]"]),
    "atomic_cas": ("T.atomic_cas(A[0, 0], 1.0, 2.0)", 1, ["no such operation", "nothing compares and exch"]),
    "atomic_sub": ("T.atomic_sub(A[0, 0], 1.0)", 1, ["here that is T.atomic_add(place, -value)"]),
    "atomic_xor": ("T.atomic_xor(A[0, 0], 1)", 1, ["exclusive or does not exist; here are T.atomic_add"]),
    "shuffle of CUDA": ("y = T.__shfl_xor_sync(-1, n, 1)", 5, ["that is T.shfl_xor(value, delta), without"]),
    "mask first": ("y = T.shfl_xor(0xFFFFFFFF, n, 1)", 5, ["(value, delta, width, mask)", "comes last"]),
    "mulhi": ("y = T.mulhi(n, n)", 5, ["T.cast(a, 'int64') * b >> 32"]),
    "sort of a tile": ("T.sort(x)", 1, ["nothing sorts a tile", "T.min and T.max"]),
    "number too large": ("y = T.uint8(n) * 256", 5, ["256 does not fit in uint8; cast the other operand"]),
    "number too small": ("y = T.uint8(n) + -1", 5, ["cast the other operand to a signed type first"]),
    "negative constant": ("y = T.uint32(-1)", 5, ["the number that has its bits is 4294967295"]),
    "field of 33 bits": ("y = T.unpack_int(33, n, 0, 'int64')", 5, ["num_bits is 33", "[1, 32]"]),
    "tuple of a grid": ("k = T.Kernel((4, 4), threads=64)", 5, ["T.Kernel(4, 4, threads=…)", "one tuple"]),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_the_cure_is_said_at_the_line(tmp_path, name):
    body, column, parts = WRONG[name]
    error = failure(tmp_path, TILES + body, before=HELPERS)
    assert error.line == FIRST_LINE + HELPERS.count("\n") + 2 + body.count("\n")
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
    tables = (idioms.NAMES, idioms.ABSENT, idioms.OF_BUFFERS, idioms.OF_VALUES, idioms.CURES)
    said = [text for table in tables for text in table.values()]
    assert {name for text in said for name in re.findall(r"T\.(\w+)", text)} <= {*T.__all__}
    assert not {*idioms.NAMES, *idioms.ABSENT} & set(T.__all__)
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
    with pytest.raises(TypeError, match=r"main\[…\]: .* compiled first, tilelang.compile\(main\)\(x, y\)"):
        made.prim_func[(5,)](np.ones(64, "f4"))
    with pytest.raises(TypeError, match=r"factory\[…\]: .* is called plainly, factory\(x, y\)"):
        factory[1, 64](64)


WRAPS = [("int8", 3), ("int16", 600), ("int32", 1 << 26)]


@pytest.mark.parametrize("dtype, step", WRAPS)
def test_the_type_that_wraps_is_named(dtype, step):
    @T.prim_func
    def main(A: T.Tensor((40000,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            S = T.alloc_shared((256,), "int32")
            S[tx] = 0
            B[tx] = S[T.cast(tx, dtype) * step]

    said = rf"this product exceeds {dtype[3:]} bits: its value is \d+, but \w+ keeps"
    with pytest.raises(tilelang.SimulationError, match=said):
        tilelang.compile(main, target="sim:sm_90").simulate(np.zeros(40000, "i4"), np.zeros(64, "i4"))


def test_dtypes_have_their_names_of_python(tmp_path):
    text = failure(tmp_path, "x = T.alloc_shared((8,), 'int8')\nT.copy(A[0:4, :], x)").text
    assert "the source is A: float32[4, 8] but the destination is x: int8[8]" in text
    text = failure(tmp_path, "y = n / 4").text
    assert text.startswith("`/` takes float operands, not int32:")
    text = failure(tmp_path, "i8 = T.alloc_shared((8,), 'int16')\ni8[9] = 1").text
    assert "outside of i8: int16[8]" in text  # a name of the user's stays what it is


@pytest.mark.parametrize("body", ["T.dp4a(x, x, s)", "T.dp4a(b, b, x)"])
def test_types_that_dp4a_does_not_take(body, tmp_path):
    """Published scripts catch a TypeError."""
    tiles = "x = T.alloc_local((4,), 'float32')\ns = T.alloc_local((1,), 'int32')\n"
    with pytest.raises(TypeError, match="T.dp4a: (A|C) is float32") as error:
        kernel(tmp_path, tiles + "b = T.alloc_local((4,), 'int8')\n" + body)
    assert isinstance(error.value, tilelang.CompileError)
