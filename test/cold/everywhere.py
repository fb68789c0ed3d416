"""What the tests of this folder share.  They are kernels and mistakes of people who knew the documents alone:
what they expect, a user expects.

Each kernel runs on one target, the kernels of a file on all in turn; with TL_FULL=1 each runs on all.
"""

import itertools
import os

import numpy as np
import pytest
import tilelang

TARGETS = ("cpu", "sim:sm_90", "reference")
_turns = {}


def everywhere(test):
    """`test(target)`, on its file's next target, or on all."""
    turn = next(_turns.setdefault(test.__module__, itertools.count()))
    chosen = TARGETS if os.environ.get("TL_FULL") else [TARGETS[turn % len(TARGETS)]]
    return pytest.mark.parametrize("target", chosen)(test)


def blank(shape, dtype="float32"):
    """An output that nobody has written: NaN, or an integer that nobody means."""
    dtype = np.dtype(dtype)
    return np.full(shape, np.iinfo(dtype).max - 7 if dtype.kind in "iu" else np.nan, dtype)


def run(function, target, *arguments):
    return tilelang.compile(function, target=target)(*arguments)


def check(found, expected, bound=0.0):
    """Equal, or with a bound near in the relative norm of the error."""
    if not bound:
        assert np.array_equal(found, expected), (found, expected)
        return
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    assert found.shape == expected.shape
    assert np.isfinite(found).all(), f"{(~np.isfinite(found)).sum()} elements are not finite"
    error = np.linalg.norm(found - expected) / (np.linalg.norm(expected) or 1.0)
    assert error <= bound, f"relative error {error:.2e}, at most {bound:.0e}"
