"""The paper's Fig. 7 and Fig. 8, and the accumulators of GEMM, against enumerators that share nothing with
the compiler: layouts are read from the printed program and evaluated by Python."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
TL_OPT = ROOT / "build/release/tl_opt"


def passes(text: str, stop_after: str, tmp_path: Path, target: str = "cuda -arch=sm_80") -> str:
    file = tmp_path / "program.ir"
    file.write_text(text)
    done = subprocess.run(
        [TL_OPT, "--target", target, "--stop-after", stop_after, file], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def layout_of(printed: str, buffer: str):
    """The map of a printed buffer as a Python function of its indices, and the extents it prints."""
    line = next(x for x in printed.splitlines() if re.match(rf"\s*{buffer} = ", x))
    inputs, outputs = re.search(r"layout\(\((.*?)\) -> (.*?)\) elements", line).groups()
    names = [x.split(":")[0].strip() for x in inputs.split(",")]
    extents = [int(x.split(":")[1]) if ":" in x else None for x in inputs.split(",")]
    return eval(f"lambda {', '.join(names)}: {outputs}"), extents  # printed expressions are Python's


def test_figure_7_bias_is_replicated_over_the_threads_of_a_row(tmp_path):
    text = (ROOT / "test/golden/infer_layouts/paper_fig7.ir").read_text().split("# ----")[0]
    printed = passes(text, "infer_layouts", tmp_path)
    bias, extents = layout_of(printed, "D")
    assert extents == [None, 2]
    holders = {(bias(i, copy)[0], i) for i in range(4) for copy in range(2)}
    # C[i, j] lies on thread i*2 + j//2: who computes row i needs D[i].
    assert holders == {(i * 2 + j // 2, i) for i in range(4) for j in range(4)}
    assert {bias(i, copy)[1] for i in range(4) for copy in range(2)} == {0}


def test_figure_8_copy_moves_128_bits_a_thread_without_conflict(tmp_path):
    text = (ROOT / "test/golden/vectorize/paper_fig8.ir").read_text().split("# ----")[0]
    mapped = passes(text, "infer_layouts", tmp_path)
    outputs = re.search(r"loop_lanes=(\d+), loop_layout=\(i: 8, j: 32, k: 1\) -> \((.*?)\)}", mapped)
    assert outputs.group(1) == "8"
    place = eval(f"lambda i, j: ({outputs.group(2)})")
    offset, _ = layout_of(mapped, "A_shared")
    moved = {}
    for i in range(8):
        for j in range(32):
            thread, register = place(i, j)
            moved.setdefault(thread, {})[register] = (i, j)
    assert sorted(moved) == list(range(32))
    for elements in moved.values():
        assert sorted(elements) == list(range(8))
        i, j = elements[0]
        assert all(elements[r] == (i, j + r) for r in range(8)) and j % 8 == 0
        assert [offset(*elements[r]) for r in range(8)] == list(range(offset(i, j), offset(i, j) + 8))
    assert sorted(offset(i, j) for i in range(8) for j in range(32)) == list(range(256))
    # Columns of eight rows lie in eight different groups of four banks: what ldmatrix reads at once.
    for j in range(0, 32, 8):
        assert len({offset(i, j) * 2 % 128 // 16 for i in range(8)}) == 8
    assert "ramp" in passes(text, "vectorize", tmp_path)


def gemm(dtype: str, m: int, n: int, k: int, warps: int, policy: str) -> str:
    return f"""func main(A: {dtype}[{m}, {k}], B: {dtype}[{k}, {n}], C: f32[{m}, {n}]):
  kernel main grid(bx: 1) threads({warps * 32}):
    A_shared = shared {dtype}[{m}, {k}]
    B_shared = shared {dtype}[{k}, {n}]
    C_local = fragment f32[{m}, {n}]
    copy(A, A_shared)
    copy(B, B_shared)
    gemm(A_shared, B_shared, C_local) {{clear_accum=1, policy="{policy}"}}
    copy(C_local, C)
"""


def accumulator(lane: int, register: int) -> tuple[int, int]:
    """Element of the m16n8 accumulator that a lane holds (PTX ISA, mma.m16n8k16)."""
    return lane // 4 + 8 * (register // 2), lane % 4 * 2 + register % 2


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize("policy", ["square", "full_row", "full_col"])
def test_gemm_accumulators(dtype, warps, policy, tmp_path):
    tile = np.array([[accumulator(lane, r) for r in range(4)] for lane in range(32)])
    for m, n in [(64, 64), (64, 256), (128, 128), (256, 64), (256, 128), (256, 256)]:
        printed = passes(gemm(dtype, m, n, 16, warps, policy), "infer_layouts", tmp_path)
        place, _ = layout_of(printed, "C_local")
        i, j = np.meshgrid(np.arange(m), np.arange(n), indexing="ij")
        thread, register = (np.broadcast_to(x, (m, n)) for x in place(i, j, 0))
        per_thread = m * n // (32 * warps)
        assert thread.min() == register.min() == 0
        assert thread.max() == 32 * warps - 1 and register.max() == per_thread - 1
        assert len(np.unique(thread * per_thread + register)) == m * n  # no register holds two
        held = np.empty((32 * warps, per_thread, 2), np.int64)
        held[thread, register] = np.stack([i, j], axis=-1)
        shapes = set()
        for warp in range(warps):
            rows, columns = set(), set()
            for first in range(0, per_thread, 4):
                at = held[warp * 32, first]
                assert at[0] % 16 == 0 and at[1] % 8 == 0
                rows.add(int(at[0]))
                columns.add(int(at[1]))
                assert (held[warp * 32 : warp * 32 + 32, first : first + 4] == at + tile).all()
            assert len(rows) * len(columns) * 4 == per_thread  # a rectangle of instruction tiles
            shapes.add((len(rows) * 16, len(columns) * 8))
        assert len(shapes) == 1
        warp_m, warp_n = shapes.pop()
        if policy == "full_row" and m >= 16 * warps:
            assert warp_n == n
        if policy == "full_col" and n >= 8 * warps:
            assert warp_m == m
