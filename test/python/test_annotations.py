"""Annotations that Python leaves as strings are evaluated where they were written."""

import pytest
import tilelang
from helpers import load_text

FUTURE = "from __future__ import annotations\n"

PLAIN = """\
import tilelang.language as T

def factory(M, dtype):
    N = M * 2
    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), s: T.float32):
        with T.Kernel(2, threads=32) as bx:
            A[bx, 0] = s
    return main
"""


def test_names_that_only_the_factory_knows(tmp_path):
    plain, future = load_text(tmp_path, PLAIN), load_text(tmp_path, FUTURE + PLAIN)
    assert str(future.factory(8, "float32")) == str(plain.factory(8, "float32"))
    assert future.factory(8, "float32").params[0].shape == (8, 16)


def test_quoted_annotations(tmp_path):
    quoted = PLAIN.replace("T.Tensor((M, N), dtype)", '"T.Tensor((M, N), dtype)"')
    expected = str(load_text(tmp_path, PLAIN).factory(8, "float32"))
    with pytest.raises(
        tilelang.CompileError, match="M"
    ):  # not captured: Python itself could not see it from outside
        load_text(
            tmp_path, "import tilelang.language as T\n@T.prim_func\ndef f(A: 'T.Tensor((M, 2))'):\n    pass\n"
        )
    assert str(load_text(tmp_path, quoted).factory(8, "float32")) == expected
    assert str(load_text(tmp_path, FUTURE + quoted).factory(8, "float32")) == expected


def test_language_imported_in_the_factory(tmp_path):
    text = PLAIN.replace("import tilelang.language as T\n\n", "").replace(
        "    N = M * 2\n", "    import tilelang.language as T\n    N = M * 2\n"
    )
    assert load_text(tmp_path, FUTURE + text).factory(8, "float32").params[0].shape == (8, 16)


def test_two_factories_deep(tmp_path):
    text = (
        FUTURE
        + """
import tilelang.language as T

def outer(M):
    def inner(N):
        @T.prim_func
        def main(A: T.Tensor((M, N), "float32")):
            with T.Kernel(2, threads=32) as bx:
                A[bx, 0] = 1.0
        return main
    return inner(M + 1)
"""
    )
    assert load_text(tmp_path, text).outer(4).params[0].shape == (4, 5)


def test_a_name_that_is_nowhere(tmp_path):
    with pytest.raises(tilelang.CompileError) as caught:
        load_text(tmp_path, FUTURE + PLAIN.replace("(M, N)", "(M, Q)")).factory(8, "float32")
    assert "NameError: name 'Q' is not defined" in caught.value.text
    assert caught.value.line == 7 and "A: T.Tensor" in str(caught.value)
