"""The front end: what is written in Python's words is the same program as what is written out.

Each case gives two bodies; their programs must have the same text.
"""

import pytest
import tilelang
import tilelang.language as T
from helpers import kernel, load_text

TWINS = {
    "range is T.serial": (
        "for i in range(4):\n    A[i, 0] = 1.0",
        "for i in T.serial(4):\n    A[i, 0] = 1.0",
    ),
    "range with start and step": (
        "for i in range(1, 8, 2):\n    A[i, 0] = 1.0",
        "for i in T.serial(1, 8, 2):\n    A[i, 0] = 1.0",
    ),
    "a run-time range": (
        "for i in range(n):\n    A[i, 0] = 1.0",
        "for i in T.serial(0, n):\n    A[i, 0] = 1.0",
    ),
    "grid is nested serial loops": (
        "for i, j in T.grid(4, 2):\n    A[i, j] = 1.0",
        "for i in range(4):\n    for j in range(2):\n        A[i, j] = 1.0",
    ),
    "a Python if picks a branch": ("if 3 > 2:\n    A[0, 0] = 1.0\nelse:\n    A[1, 0] = 2.0", "A[0, 0] = 1.0"),
    "elif of Python values": (
        "flag = 2\nif flag == 1:\n    A[1, 0] = 1.0\nelif flag == 2:\n    A[2, 0] = 1.0\n"
        "else:\n    A[3, 0] = 1.0",
        "A[2, 0] = 1.0",
    ),
    "a list is looped over now": ("for i in [1, 2]:\n    A[i, 0] = 1.0", "A[1, 0] = 1.0\nA[2, 0] = 1.0"),
    "enumerate and zip": (
        "for i, (a, b) in enumerate(zip([1, 2], [3, 4])):\n    A[i, a] = float(b)",
        "A[0, 1] = 3.0\nA[1, 2] = 4.0",
    ),
    "break and continue of Python loops": (
        "for i in (1, 2, 3, 4):\n    if i == 2:\n        continue\n"
        "    if i == 4:\n        break\n    A[i, 0] = 1.0",
        "A[1, 0] = 1.0\nA[3, 0] = 1.0",
    ),
    "comprehensions": (
        "xs = [i * 2 for i in range(4) if i % 2]\nd = {i: i + 1 for i in xs}\n"
        "for x in xs:\n    A[x, d[x]] = 1.0",
        "A[2, 3] = 1.0\nA[6, 7] = 1.0",
    ),
    "an ordinary function": (
        "def twice(x):\n    return x * 2 + 1\nA[0, 0] = twice(A[1, 0])",
        "A[0, 0] = A[1, 0] * 2 + 1",
    ),
    "a lambda": ("f = lambda i: i * 2 + 1\nA[f(bx), 0] = 1.0", "A[bx * 2 + 1, 0] = 1.0"),
    "ternary": (
        "A[0, 0] = A[1, 0] if n > 3 else 0.0",
        "A[0, 0] = T.if_then_else(n > 3, A[1, 0], 0.0)",
    ),
    "a ternary of Python": ("A[0, 0] = 1.0 if 2 > 1 else undefined", "A[0, 0] = 1.0"),
    "a chained comparison": ("if 0 < n < 4:\n    A[0, 0] = 1.0", "if 0 < n and n < 4:\n    A[0, 0] = 1.0"),
    "Python decides in and": ("if True and n > 3:\n    A[0, 0] = 1.0", "if n > 3:\n    A[0, 0] = 1.0"),
    "Python decides in or": ("if True or n > 3:\n    A[0, 0] = 1.0", "A[0, 0] = 1.0"),
    "augmented store": ("A[n, 0] += 2.0", "A[n, 0] = A[n, 0] + 2.0"),
    "augmented variable": (
        "v = T.alloc_var('int32', init=1)\nv += 2\nA[v, 0] = 1.0",
        "v = T.alloc_var('int32')\nv = 1\nv = v + 2\nA[v, 0] = 1.0",
    ),
    "unpacking": ("x, y = bx * 2, n + 1\nA[x, y] = 1.0", "x = bx * 2\ny = n + 1\nA[x, y] = 1.0"),
    "nested and starred unpacking": (
        "(a, (b, c)), *d = (1, (2, 3)), 4, 5\nA[a, b] = float(c + sum(d))",
        "A[1, 2] = 12.0",
    ),
    "chained assignment": ("a = b = n + 1\nA[a, b] = 1.0", "a = n + 1\nA[a, a] = 1.0"),
    "negated and inverted": ("A[0, 0] = -A[1, 0]\nA[~(-3), 0] = 1.0", "A[0, 0] = -(A[1, 0])\nA[2, 0] = 1.0"),
    "min and max of Python": ("A[min(n, 3), 0] = 1.0", "A[T.min(n, 3), 0] = 1.0"),
    "abs and power": ("A[0, 0] = abs(A[1, 0]) ** 2.0", "A[0, 0] = T.pow(T.abs(A[1, 0]), 2.0)"),
    "casts": (
        "A[0, 0] = T.float32(n) + float(n)",
        "A[0, 0] = n.astype('float32') + T.Cast(T.float32, n)",
    ),
    "shape and dtype of a buffer": (
        "if A.shape[1] == 8 and A.dtype == 'float32':\n    A[0, 0] = T.cast(0, A.dtype)",
        "A[0, 0] = T.float32(0)",
    ),
    "a whole dimension": (
        "S = T.alloc_shared((8,), 'float32')\nT.copy(A[bx], S)",
        "S = T.alloc_shared((8,), 'float32')\nT.copy(A[bx, :], S)",
    ),
    "slices": (
        "S = T.alloc_shared((4, 8), 'float32')\nT.copy(A[bx * 4 : (bx + 1) * 4, :], S)",
        "S = T.alloc_shared((4, 8), 'float32')\nT.copy(A[bx * 4 : bx * 4 + 4, 0:8], S)",
    ),
    "an ellipsis": (
        "S = T.alloc_shared((64, 4), 'float32')\nT.copy(A[..., 0:4], S)",
        "S = T.alloc_shared((64, 4), 'float32')\nT.copy(A[:, 0:4], S)",
    ),
    "an assert of Python": ("assert 2 > 1, 'never'\nA[0, 0] = 1.0", "A[0, 0] = 1.0"),
    "an annotated value": ("x: T.float32 = n\nA[0, 0] = x", "x = T.cast(n, 'float32')\nA[0, 0] = x"),
}


@pytest.mark.parametrize("name", TWINS)
def test_twins(name, tmp_path):
    left, right = (kernel(tmp_path, body) for body in TWINS[name])
    assert str(left) == str(right)


def test_swap_takes_both_values_first(tmp_path):
    main = kernel(tmp_path, "A[0, 0], A[1, 0] = A[1, 0], A[0, 0]")
    plain = kernel(tmp_path, "t = A[1, 0]\nt_1 = A[0, 0]\nA[0, 0] = t\nA[1, 0] = t_1")
    assert str(main).count("\n") == str(plain).count("\n")
    assert "A[0, 0] = A[1, 0]" not in str(main)


def test_names_of_buffers_and_blocks_are_the_users(tmp_path):
    main = kernel(
        tmp_path, "A_tile = T.alloc_shared((4, 8), 'float32')\nT.clear(A_tile)\nrow = bx + n\nA[row, 0] = 1.0"
    )
    for name in ("A_tile", "row", "bx"):
        assert name in str(main)


def test_macro_is_inlined(tmp_path):
    before = """\
import tilelang.language as T
@T.macro
def put(buf, i, value=2.0, *, add=False):
    if add:
        buf[i, 0] += value
        return i + 1
    buf[i, 0] = value
    return i
"""
    macro = kernel(tmp_path, "j = put(A, 3)\nput(A, j, value=4.0, add=True)", before=before)
    plain = kernel(tmp_path, "A[3, 0] = 2.0\nA[3, 0] += 4.0")
    assert str(macro) == str(plain)


def test_nested_macro_sees_its_surroundings(tmp_path):
    macro = kernel(tmp_path, "@T.macro\ndef put(i):\n    A[i, 0] = T.float32(bx)\nput(1)\nput(2)")
    plain = kernel(tmp_path, "A[1, 0] = T.float32(bx)\nA[2, 0] = T.float32(bx)")
    assert str(macro) == str(plain)


def test_macro_arguments_are_values(tmp_path):
    before = "import tilelang.language as T\n@T.macro\ndef two(A, x):\n    A[0, 0] = x\n    A[1, 0] = x\n"
    macro = kernel(tmp_path, "two(A, T.float32(n) * 2.0)", before=before)
    plain = kernel(tmp_path, "x = T.float32(n) * 2.0\nA[0, 0] = x\nA[1, 0] = x")
    assert str(macro) == str(plain)


def test_buffers_in_a_list(tmp_path):
    main = kernel(
        tmp_path, "S = [T.alloc_local((4,), 'float32') for _ in range(2)]\nfor s in S:\n    s[0] = 1.0"
    )
    assert str(main).count("= local f32[4]") == 2


def test_several_kernels_in_one_function(tmp_path):
    module = load_text(
        tmp_path,
        """\
        import tilelang.language as T

        @T.prim_func
        def main(A: T.Tensor((64,), "float32")):
            for step in range(2):
                with T.Kernel(2, threads=32) as bx:
                    A[bx + step] = 1.0
        """,
    )
    assert str(module.main).count("bx + 1") == 1


def test_variables_may_change_in_loops_and_branches(tmp_path):
    main = kernel(
        tmp_path,
        """
        v = T.alloc_var("int32", init=0)
        for i in range(4):
            v = v + i
            if n > i:
                v -= 1
        A[v, 0] = 1.0
        """,
    )
    assert str(main).count("v[] = ") == 3


def test_names_of_one_iteration_only_are_free(tmp_path):
    main = kernel(
        tmp_path,
        """
        for i in range(4):
            t = A[i, 0]
            A[i, 1] = t
        for i in range(4):
            t = A[i, 2]
            A[i, 3] = t
        """,
    )
    assert str(main)


def test_strided_and_dynamic_tensors(tmp_path):
    m = load_text(
        tmp_path,
        """\
        import tilelang.language as T
        m, k = T.dynamic("m, k")

        @T.prim_func
        def main(A: T.StridedTensor((m, 8), (k, 1), "float32"), B: T.Buffer((m,), "int8")):
            with T.Kernel(T.ceildiv(m, 4), threads=32) as bx:
                A[bx * 4, 0] = T.float32(B[bx])
        """,
    ).main
    assert [p.name for p in m.params] == ["A", "B"]
    assert m.params[1].shape == ("m",)


def test_scalars_by_python_types(tmp_path):
    main = kernel(
        tmp_path,
        "A[0] = s * i if b else 0.0",
        signature="A: T.Tensor((4,)), s: float, i: int, b: bool = True",
    )
    assert [str(p.dtype) for p in main.params] == ["float32", "float32", "int32", "bool"]
    assert main.defaults == {"b": True}


def test_helpers_answer_python_numbers():
    assert T.ceildiv(7, 2) == 4 and T.floordiv(-7, 2) == -4 and T.floormod(-7, 2) == 1
    assert T.truncdiv(-7, 2) == -3 and T.truncmod(-7, 2) == -1
    assert T.max(3, 4) == 4 and T.min(3, 4) == 3
    assert tilelang.cdiv(7, 2) == 4
    assert [tilelang.next_power_of_2(n) for n in (0, 1, 3, 4, 5)] == [1, 1, 4, 4, 8]


def test_dtypes_are_equal_to_their_names():
    assert T.float16 == "float16" and "bfloat16" in (T.float16, T.bfloat16)
    assert T.float == T.float32 != T.float16
    assert {"int8": 1}[T.int8] == 1
    assert str(T.uint8) == "uint8" and T.float64.bits == 64 and T.int16.bytes == 2
    assert T.float32.as_numpy().name == "float32" and T.bfloat16.as_numpy().name == "bfloat16"
    assert float(T.infinity("float16")) == float("inf") and int(T.max_value("int8")) == 127
    assert float(T.max_value("float16")) == 65504 and float(T.min_value("bfloat16")) < -3.3e38


def test_every_name_of_the_language_has_a_docstring():
    plain = {"dtypes", "float", "double", "half", "bool", "bool_"}
    for name in T.__all__:
        if name not in plain and not name.startswith(("int", "uint", "float", "bfloat")):
            assert getattr(T, name).__doc__, name


def test_buffers_of_a_list_have_the_names_that_they_get(tmp_path):
    text = kernel(
        tmp_path,
        """
        for _ in range(1):
            best, total = [T.alloc_fragment((8,), "float32") for _ in range(2)]
            T.clear(best)
            T.clear(total)
        x, y = [T.alloc_shared((8,), "float32") for _ in range(2)]
        T.copy(y, x)
    """,
    ).text
    assert "clear(best)" in text and "clear(total)" in text and "copy(y, x)" in text
