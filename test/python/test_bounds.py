"""An access that leaves a tile whatever happens is an error at its line; one that is guarded is not.  A tile
that no registers hold is warned of.
"""

import re
import warnings

import numpy as np
import pytest
import tilelang
from helpers import failure, kernel
from tilelang.front import registers

SIGNATURE = "A: T.Tensor((64,), 'float32'), n: T.int32"
HEAD = "s = T.alloc_shared((32,), 'float32')\nT.clear(s)\n"


@pytest.mark.parametrize("body,index,value", [
    ("for i in T.serial(4):\n    A[i] = s[i + 32]", "i \\+ 32", 35),
    ("for i in T.Parallel(64):\n    s[i] = 0", "i", 63),
    ("for i in T.Parallel(4):\n    A[i] = s[i - 1]", "i - 1", -1),
    ("for i, j in T.Parallel(4, 8):\n    s[i * 16 + j] = A[j]", "i\\*16 \\+ j", 55),
    ("for i in T.Parallel(66):\n    A[i % 32] = s[i // 2]", "i//2", 32),
    ("for k in T.serial(2):\n    T.copy(A[0:32], s[k * 32:k * 32 + 32])", "k\\*32", 63),
    ("for k in T.serial(2):\n    T.atomic_add(s[k * 32], 1.0)", "k\\*32", 32),
    ("for k in T.serial(2):\n    x = k * 31 + 1\n    A[k] = s[x]", "x|k\\*31 \\+ 1", 32),
])  # fmt: skip
def test_what_leaves_a_tile(tmp_path, body, index, value):
    error = failure(tmp_path, HEAD + body, signature=SIGNATURE)
    limit = "indices begin at 0" if value < 0 else "its extent is 32"
    assert f"of dimension 0 of s becomes {value}, but {limit}" in str(error), str(error)
    assert re.search(f"the index ({index}) of", str(error)), str(error)
    assert error.line == 4 + len((HEAD + body).splitlines())


@pytest.mark.parametrize("body", [
    "for i in T.Parallel(64):\n    if i < 32:\n        s[i] = 1",
    "for i in T.serial(4):\n    if i > 10:\n        A[0] = s[i + 32]",
    "for i in T.Parallel(64):\n    A[i] = T.if_then_else(i < 32, s[i], 1.0)",
    "for i in T.Parallel(64):\n    if i < 32 and s[i] == 0:\n        A[i] = 1",
    "for i in T.serial(64):\n    if i == 32:\n        break\n    A[i] = s[i]",
    "for i in T.serial(n):\n    A[i] = s[i]",
    "x = T.alloc_fragment((64,), 'float32')\nfor i in T.Parallel(64):\n    x[i] = A[i + 32]",
    "for i in T.serial(64):\n    A[i % 32] = s[i % 32]",
    "for i in T.serial(0):\n    A[i] = s[i + 32]",
])  # fmt: skip
def test_what_is_guarded(tmp_path, body):
    main = kernel(tmp_path, HEAD + body, signature=SIGNATURE)
    a, b = np.arange(64, dtype="float32"), np.arange(64, dtype="float32")
    report = tilelang.compile(main, target="sim:sm_80").simulate(a, 32)
    tilelang.compile(main, target="reference")(b, 32)
    assert np.array_equal(a, b) and not report.findings


def test_a_tile_that_registers_do_not_hold(tmp_path):
    body = (
        "a = T.alloc_fragment((128, 65), 'float32')\nb = T.alloc_local((300,), 'float16')\n"
        "c = T.alloc_fragment((128, 63), 'float32')\nd = T.alloc_local((256,), 'float32')\nT.clear(a)"
    )
    main = kernel(tmp_path, body, signature=SIGNATURE)
    with pytest.warns(tilelang.TilelangWarning) as caught:
        registers.warn(main.large, "cuda -arch=sm_80")
    assert [w.lineno for w in caught] == [5, 8]
    assert "a: float32[128, 65] takes 260 registers of each of the 32 threads" in str(caught[0].message)
    assert "d: float32[256] takes 256 registers of a thread, but there are 255" in str(caught[1].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        registers.warn(main.large, "sim:sm_80")  # has as many as it needs
        registers.warn(main.large, "hip -mcpu=gfx942")
        registers.warn(main.large, "cpu")
    main = kernel(tmp_path, "d = T.alloc_local((520,), 'float32')", signature=SIGNATURE)
    with pytest.warns(tilelang.TilelangWarning, match="520 registers of a thread, but there are 512"):
        registers.warn(main.large, "hip -mcpu=gfx942")
