"""An access that leaves a tile whatever happens is an error at its line; one that is guarded is not.  A tile
that no registers hold is warned of.
"""

import re
import warnings

import numpy as np
import pytest
import tilelang
import tilelang.language as T
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


@pytest.mark.parametrize("target", ["reference", "cpu", "sim:sm_80", "sim:sm_90a"])
def test_places_at_the_ends_of_the_integers(target):
    """Where begin + extent overflows: what lies outside a tensor is 0, and is not stored."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "int32"), p: T.int64, B: T.Tensor((4, 16), "int32"), C: T.Tensor((64,), "int32")
    ):
        with T.Kernel(1, threads=32):
            row = T.alloc_fragment((16,), "int32")
            tile = T.alloc_shared((4, 16), "int32")
            T.copy(A[p : p + 4, 8:24], tile)
            T.copy(tile, B)
            T.fill(row, 3)
            T.copy(row, C[p : p + 16])
            T.atomic_add(C[p : p + 16], row)

    kernel = tilelang.compile(main, target=target)
    a = np.arange(1, 64 * 64 + 1, dtype=np.int32).reshape(64, 64)
    for p in (-(2**63), -(2**63) + 3, -(2**63) + 16, -(2**62), 2**62, 2**63 - 17, 2**63 - 1, -2, 62, 7):
        b, c = np.full((4, 16), 77, np.int32), np.zeros(64, np.int32)
        kernel(a, p, b, c)
        rows = [a[p + i, 8:24] if 0 <= p + i < 64 else np.zeros(16, np.int32) for i in range(4)]
        np.testing.assert_array_equal(b, rows, err_msg=str(p))
        np.testing.assert_array_equal(c, [6 * (p <= i < p + 16) for i in range(64)], err_msg=str(p))


@pytest.mark.parametrize("p", [-(2**63), 2**63 - 1])
def test_a_slice_of_a_tile_at_the_ends_of_the_integers(p):
    @T.prim_func
    def main(B: T.Tensor((16,), "int32"), p: T.int64):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((64,), "int32")
            T.clear(tile)
            T.copy(tile[p : p + 16], B)

    message = r"(is outside|must lie in) \[0, 64\)"
    for target in ("reference", "cpu", "sim:sm_80"):
        with pytest.raises(tilelang.CompileError if target != "cpu" else RuntimeError, match=message):
            tilelang.compile(main, target=target)(np.zeros(16, np.int32), p)
