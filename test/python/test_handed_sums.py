"""Products that add to one accumulator, which they lay out differently: its sums go to other threads between
them.  Every way to another, with a clear that is known when the kernel runs."""

import itertools

import numpy as np
import pytest
from helpers import close, random
from tilelang import _core

M, N, K = 128, 64, 32
WAYS = {
    "wgmma 2x1": 'instruction="wgmma_m64k16_f16_f32_ss", warpgroups_m=2, warpgroups_n=1',
    "wgmma 1x2": 'instruction="wgmma_m64k16_f16_f32_ss", warpgroups_m=1, warpgroups_n=2',
    "mma 4x2": 'instruction="mma_m16n8k16_f16_f32", warps_m=4, warps_n=2',
    "mma 2x4": 'instruction="mma_m16n8k16_f16_f32", warps_m=2, warps_n=4',
    "fma": 'instruction="fma"',
}


def products(first, second, clears):
    """C = 3 + X·Y + P·Q, or what `clears` leaves of it."""
    left, right = f"f16[{M}, {K}]", f"f16[{K}, {N}]"
    return f"""
func main(X: {left}, Y: {right}, P: {left}, Q: {right}, flag: i32, C: f32[{M}, {N}]):
  kernel main grid(bx: 1) threads(256):
    x = shared {left}
    y = shared {right}
    p = shared {left}
    q = shared {right}
    sums = fragment f32[{M}, {N}]
    copy(X, x)
    copy(Y, y)
    copy(P, p)
    copy(Q, q)
    fill(sums, 3.0)
    gemm(x, y, sums) {{{WAYS[first]}}}
    gemm(p, q, sums) {{{WAYS[second]}, clear_accum={clears}}}
    copy(sums, C)
"""


@pytest.mark.parametrize("first, second", list(itertools.permutations(WAYS, 2)))
def test_clears_known_when_the_kernel_runs(first, second):
    kernel = _core.compile(_core.parse(products(first, second, "(flag == 1)"), "hand.ir"), "sim:sm_90a", {})
    assert "sums_scratch" in kernel.machine_text
    x, y, p, q = (random(*s, dtype="float16", seed=i) for i, s in enumerate(((M, K), (K, N)) * 2))
    one, other = x.astype("float64") @ y.astype("float64"), p.astype("float64") @ q.astype("float64")
    for flag, wanted in ((0, one + 3 + other), (1, other), (2, one + 3 + other)):
        c = np.full((M, N), np.nan, np.float32)
        kernel.launch([x, y, p, q, flag, c], 0)
        close(c, wanted)


@pytest.mark.parametrize("clears, kept", [("1", 0), ("0", 1)])
def test_clears_known_to_the_compiler(clears, kept):
    kernel = _core.compile(_core.parse(products("mma 4x2", "wgmma 1x2", clears), "hand.ir"), "sim:sm_90a", {})
    x, y, p, q = (random(*s, dtype="float16", seed=i) for i, s in enumerate(((M, K), (K, N)) * 2))
    c = np.full((M, N), np.nan, np.float32)
    kernel.launch([x, y, p, q, 0, c], 0)
    close(
        c, kept * (x.astype("float64") @ y.astype("float64") + 3) + p.astype("float64") @ q.astype("float64")
    )
