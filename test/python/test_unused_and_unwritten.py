"""Functions that do nothing are told so; what would give garbage is an error."""

import numpy as np
import pytest
import tilelang
from helpers import failure, kernel, load_text

HEAD = "import tilelang\nimport tilelang.language as T\n"
NO_KERNEL = {
    "prim_func": "@T.prim_func\ndef f(A: T.Tensor((8,), 'float32')):\n    assert A.shape[0] == 8\n",
    "eager": "@tilelang.jit(target='{}')\ndef f(A):\n    A: T.Tensor((8,), 'float32')\n",
    "eager that gives its parameter": (
        "@tilelang.jit(target='{}')\ndef f(A):\n    A: T.Tensor((8,), 'float32')\n    return A\n"
    ),
}


@pytest.mark.parametrize("form", NO_KERNEL)
def test_a_function_without_a_kernel(form, tmp_path, target):
    a = np.arange(8, dtype=np.float32)
    with pytest.warns(tilelang.TilelangWarning, match="this function has no T.Kernel") as told:
        f = load_text(tmp_path, HEAD + NO_KERNEL[form].format(target)).f
        result = (tilelang.compile(f, target=target) if form == "prim_func" else f)(a)
    assert {warning.lineno for warning in told} == {4}
    assert np.array_equal(a, np.arange(8)) and (result is a) == (form == "eager that gives its parameter")


UNWRITTEN = {  # what it returns, the body, what is said
    "no kernel": ("    B = T.empty((8,), 'float32')\n    return B\n", "has no kernel"),
    "a kernel that does nothing": (
        "    B = T.empty((8,), 'float32')\n    with T.Kernel(1):\n        pass\n    return B\n",
        "f returns B, which T.empty has made and no kernel writes to",
    ),
    "a kernel that writes elsewhere": (
        "    B = T.empty((8,), 'float32')\n    with T.Kernel(1):\n        A[0] = 1.0\n    return B\n",
        "f returns B, which T.empty has made and no kernel writes to",
    ),
}


@pytest.mark.parametrize("case", UNWRITTEN)
def test_what_nothing_writes_is_not_returned(case, tmp_path, target):
    body, said = UNWRITTEN[case]
    text = f"@tilelang.jit(target='{target}')\ndef f(A: T.Tensor((8,), 'float32')):\n"
    f = load_text(tmp_path, HEAD + text + body).f
    with pytest.raises(tilelang.CompileError, match=said):
        f(np.zeros(8, np.float32))


UNBOUND = {
    "before": ("A[0, 0] = x\nx = 1.0", "'x' is used before it is bound: line 6 does that"),
    "left out by Python": ("if 1 > 2:\n    x = 1.0\nA[0, 0] = x", "'x' has no value here: line 6"),
    "left out by the device": ("if n > 2:\n    x = 1.0\nA[0, 0] = x", "'x' is bound under a condition"),
    "in a loop of the device": ("for i in range(3):\n    x = 1.0\nA[0, 0] = x", "'x' is bound inside a loop"),
    "a variable": ("x = T.alloc_var('float32')\nA[0, 0] = x", "nothing has been assigned to this variable"),
}


@pytest.mark.parametrize("case", UNBOUND)
def test_names_read_before_they_mean_anything(case, tmp_path):
    body, said = UNBOUND[case]
    assert said in failure(tmp_path, body).text


def test_a_name_on_a_path_that_python_leaves_out(tmp_path):
    """Nothing is said of it: the path is not built."""
    main = kernel(
        tmp_path, "if 1 > 2:\n    A[0, 0] = never\nfor i in []:\n    A[0, 0] = never\nA[0, 0] = 1.0"
    )
    a = np.zeros((64, 8), np.float32)
    tilelang.compile(main, target="cpu")(a, 1)
    assert a[0, 0] == 1
