"""T.print, T.device_assert and assert, in every executor; the CUDA text."""

import re

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import kernel as kernel_of


def run(capfd, prim, target, *args):
    tilelang.compile(prim, target=target)(*args)
    return capfd.readouterr().out.splitlines()


def places(lines):
    return [re.sub(r"thread=\(\d+, 0, 0\) ?", "", line) for line in lines]


def program(body, threads=32):
    @T.prim_func
    def main(A: T.Tensor((4, 20), "float32")):
        with T.Kernel(2, threads=threads) as bx:
            body(A, bx)

    return main


def test_values(target, capfd):
    @T.prim_func
    def main(A: T.Tensor((4, 20), "float32"), n: T.int32):
        with T.Kernel(2, threads=32) as bx:
            S = T.alloc_shared((4,), "float32")
            for i in T.Parallel(4):
                S[i] = A[i, 0] + n
            for i in T.Parallel(4):
                if bx == 1:
                    T.print(S[i] * 2, "twice {x}")
                    T.print(S[i])
            T.print(n, warp_id=0)
            T.print(msg="done", warp_group_id=0)

    a = np.arange(80, dtype=np.float32).reshape(4, 20) / 8
    lines = run(capfd, main, target, a, 3)
    shown = places(lines)
    for i in range(4):
        assert f"twice {{x}}: block=(1)  dtype=f32 value={2 * (a[i, 0] + 3):g}".replace("  ", " ") in [
            line.replace("  ", " ") for line in shown
        ]
        assert f"block=(1) buffer=S index=({i}) dtype=f32 value={a[i, 0] + 3:g}" in [
            line.replace("  ", " ") for line in shown
        ]
    assert sum("dtype=i32 value=3" in line for line in lines) == 2
    assert sum(line.startswith("done block=") for line in lines) == 2
    assert len(lines) == 12
    assert all(("thread=(" in line) == target.startswith("sim") for line in lines)


@pytest.mark.parametrize("scope", ["global", "shared", "fragment", "part"])
def test_tiles(scope, target, capfd):
    @T.prim_func
    def main(A: T.Tensor((4, 20), "float16")):
        with T.Kernel(2, threads=64):
            if scope == "global":
                T.print(A, "whole")
            elif scope == "part":
                T.print(A[1:3, 4:12], "whole")
            else:
                X = (T.alloc_shared if scope == "shared" else T.alloc_fragment)((4, 20), "float16")
                T.copy(A, X)
                T.print(X, "whole")

    a = np.random.default_rng(0).standard_normal((4, 20)).astype(np.float16)
    lines = run(capfd, main, target, a)
    seen = {0: {}, 1: {}}
    for line in lines:
        found = re.fullmatch(
            r"whole: block=\((\d)\) (?:thread=\(0, 0, 0\))? ?buffer=(\w+) "
            r"index=\((\d+), (\d+):(\d+)\) dtype=f16 values=(.*)",
            line,
        )
        assert found, line
        assert found[2] == ("A" if scope in ("global", "part") else "X")
        row, first, last = int(found[3]), int(found[4]), int(found[5])
        values = [float(np.float16(word)) for word in found[6].split()]
        assert len(values) == last - first
        for j, value in zip(range(first, last), values, strict=True):
            assert (row, j) not in seen[int(found[1])]
            seen[int(found[1])][row, j] = value
    rows, columns = (range(1, 3), range(4, 12)) if scope == "part" else (range(4), range(20))
    for block in (0, 1):
        assert seen[block] == {(i, j): float(a[i, j]) for i in rows for j in columns}
    assert len(lines) == 2 * (2 if scope == "part" else 8)


def test_filter(capfd):
    """Another warp prints; a value with no filter comes from every thread."""

    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=256):
            S = T.alloc_shared((4,), "int32")
            T.copy(A, S)
            T.print(S, warp_group_id=1, warp_id=2)
            T.print(A[0] + 1)

    lines = run(capfd, main, "sim:sm_80", np.arange(4, dtype=np.int32))
    assert sum("thread=(192, 0, 0) buffer=S" in line for line in lines) == 1
    assert sum("value=1" in line for line in lines) == 256


def test_types(target, capfd):
    types = ("int8", "uint8", "int16", "int64", "uint64", "bool", "float64", "bfloat16", "uint32")

    @T.prim_func
    def main(A: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=32):
            for dtype in types:
                T.print(T.cast(A[0], dtype), dtype, warp_id=0)

    lines = run(capfd, main, target, np.array([-2], np.int32))
    want = {
        "int8": "-2",
        "uint8": "254",
        "int16": "-2",
        "int64": "-2",
        "uint64": str(2**64 - 2),
        "bool": "1",
        "float64": "-2",
        "bfloat16": "-2",
        "uint32": str(2**32 - 2),
    }
    assert {line.split(":")[0]: line.split("value=")[1] for line in lines} == want


def asserting(folder):
    return kernel_of(
        folder,
        """
        S = T.alloc_shared((8,), "int32")
        for i in T.Parallel(8):
            S[i] = I[bx * 8 + i]
        for i in T.Parallel(8):
            assert S[i] >= 0, "an index is negative"
            T.device_assert(S[i] < 64)
            B[bx * 8 + i] = A[S[i], 0]
        """,
        signature="A: T.Tensor((64, 8), 'float32'), I: T.Tensor((32,), 'int32'), "
        "B: T.Tensor((32,), 'float32')",
    )


def test_asserts(target, tmp_path):
    kernel = tilelang.compile(asserting(tmp_path), target=target)
    a = np.random.default_rng(0).standard_normal((64, 8)).astype(np.float32)
    index = np.random.default_rng(1).integers(0, 64, 32).astype(np.int32)
    out = np.full(32, np.nan, np.float32)
    kernel(a, index, out)
    assert np.array_equal(out, a[index, 0])
    cases = ((-1, "assertion failed: an index is negative", 9), (64, "assertion failed", 10))
    for wrong, text, line in cases:
        bad = index.copy()
        bad[13] = wrong
        with pytest.raises(RuntimeError if target == "cpu" else tilelang.CompileError) as caught:
            kernel(a, bad, out)
        assert text in str(caught.value) and f".py:{line}:" in str(caught.value)
        kernel(a, index, out)  # the next call is as good as new


def test_asserts_on_python_values(tmp_path):
    with pytest.raises(tilelang.CompileError, match="assertion failed: too small"):
        kernel_of(tmp_path, 'assert bx.dtype.bits == 3, "too small"')


def test_text_ir(tmp_path):
    from tilelang import _core

    text = asserting(tmp_path).text
    assert "device_assert(" in text and '"an index is negative"' in text
    assert _core.parse(text).text() == text
    shown = kernel_of(tmp_path, 'T.print(A, "{a} %d")').text
    assert _core.parse(shown).text() == shown and "elected(" in shown


@pytest.mark.parametrize("chip", ["sm_80", "sm_90"])
def test_cuda_text(chip, tmp_path):
    shown = kernel_of(
        tmp_path,
        """
        S = T.alloc_fragment((64, 8), "float32")
        T.copy(A, S)
        T.print(S, "100%")
        T.print(A[bx, 0])
        T.print(n)
        """,
    )
    source = tilelang.compile(shown, target=f"cuda -arch={chip}").get_kernel_source()
    assert "vprintf(const char*" in source and '"100%%: block=(%lld' in source
    source = tilelang.compile(asserting(tmp_path), target=f"cuda -arch={chip}").get_kernel_source()
    assert "trap;" in source and "assertion failed: an index is negative" in source
