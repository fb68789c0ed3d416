"""What the tests of this folder share.  They are kernels and mistakes of people who knew the documents alone:
what they expect, a user expects.

Each kernel runs on one target, the kernels of a file on all in turn; with TL_FULL=1 each runs on all.
"""

import itertools
import os
import re

import numpy as np
import pytest
import tilelang

TARGETS = ("cpu", "sim:sm_90", "reference")
_turns = {}
# Thread-level code.
by_threads = pytest.mark.parametrize("target", ["sim:sm_90"])


def everywhere(test):
    """`test(target)`, on its file's next target, or on all."""
    turn = next(_turns.setdefault(test.__module__, itertools.count()))
    chosen = TARGETS if os.environ.get("TL_FULL") else [TARGETS[turn % len(TARGETS)]]
    return pytest.mark.parametrize("target", chosen)(test)


def blank(shape, dtype="float32"):
    """An output that nobody has written: NaN, or an integer that nobody means."""
    dtype = np.dtype(dtype)
    return np.full(shape, np.iinfo(dtype).max - 7 if dtype.kind in "iu" else np.nan, dtype)


def extremes(rng, shape, dtype):
    """Random integers of the whole range, the first of them the ends of it."""
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    ends = np.array([info.min, info.max, 0, 1, info.max - 1, info.min + 1], dtype)[: x.size]
    x.reshape(-1)[: len(ends)] = ends
    return x


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


def _said_here(folder, text, words, catch):
    """What running the text says is at its line marked "# here", in these words (patterns)."""
    file = folder / "mistake.py"
    file.write_text(text)
    here = next(n for n, line in enumerate(text.splitlines(), 1) if line.endswith("# here"))
    space = {"__name__": "mistake", "__file__": str(file)}
    with catch as caught:
        exec(compile(text, str(file), "exec"), space)
        tilelang.compile(space["main"], target="sim:sm_90")
    place, message = _place_of(caught)
    assert place == here, f"not at line {here}: {message}"
    for word in words:
        assert re.search(word, message), message
    assert "internal" not in message.lower()


def _place_of(caught):
    if isinstance(caught, pytest.WarningsRecorder):
        return caught[0].lineno, str(caught[0].message)
    place = re.search(r"\.py:(\d+)", str(caught.value))
    return place and int(place.group(1)), str(caught.value)


def refused_here(folder, text, words):
    """The text of a kernel `main` is refused at its line marked "# here", in these words (patterns)."""
    _said_here(folder, text, words, pytest.raises(tilelang.CompileError))


def warned_of_here(folder, text, words):
    """The text of a kernel `main` compiles, with a warning there, in these words."""
    _said_here(folder, text, words, pytest.warns(tilelang.TilelangWarning))
