"""NumPy's numbers and functions, and Python's own, among the values of a kernel."""

import pytest
from helpers import failure, kernel

BEFORE = "import math\nimport numpy as np\n"


@pytest.mark.parametrize("text, plain", [
    ("np.float32(2) * A[0, 0]", "2 * A[0, 0]"),
    ("A[0, 0] / np.float64(2)", "A[0, 0] / 2"),
    ("np.int64(3) - A[0, 0]", "3 - A[0, 0]"),
    ("np.abs(A[0, 0]) + np.pi", "abs(A[0, 0]) + math.pi"),
    ("T.if_then_else(np.float32(2) < A[0, 0], 1, 0)", "T.if_then_else(2 < A[0, 0], 1, 0)"),
    ("T.if_then_else(A[0, 0] != np.int32(2), 1, 0)", "T.if_then_else(A[0, 0] != 2, 1, 0)"),
])  # fmt: skip
def test_numbers_of_numpy_are_numbers(tmp_path, text, plain):
    first, second = (kernel(tmp_path, f"A[0, 0] = {value}", before=BEFORE).text for value in (text, plain))
    assert first == second


@pytest.mark.parametrize("call, mend", [
    ("np.exp(A[0, 0])", "use T.exp"),
    ("np.maximum(A[0, 0], 0)", "use T.max"),
    ("np.cbrt(A[0, 0])", "use the language's own functions"),
    ("np.where(A[0, 0] > 0, 1, 2)", "use T.if_then_else(condition, a, b)"),
    ("np.sum(A)", "use T.reduce_sum"),
    ("math.floor(A[0, 0])", "use T.floor"),
    ("math.gamma(n)", "use the language's own functions"),
    ("math.exp(A[0, 0])", "use T.exp"),
])  # fmt: skip
def test_functions_of_numpy_and_math_are_refused(tmp_path, call, mend):
    error = failure(tmp_path, f"A[1, 1] = {call}", before=BEFORE)
    assert mend in str(error) and "while the kernel is built" in str(error)


def test_arrays_are_no_values(tmp_path):
    error = failure(tmp_path, "A[1, 1] = np.array([1, 2]) * A[0, 0]", before=BEFORE)
    assert "expected a number or a value of the kernel, got ndarray" in str(error)
