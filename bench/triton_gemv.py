"""The Triton GEMV that bench/gemv_gpu.py measures against: a program sums rows of A, piece by piece."""

import triton
import triton.language as tl


@triton.jit
def kernel(a, x, y, m, k, BM: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    sums = tl.zeros((BM, BK), dtype=tl.float32)
    for start in range(0, k, BK):
        at = start + tl.arange(0, BK)
        inside = at < k
        part = tl.load(a + rows[:, None] * k + at[None, :], (rows < m)[:, None] & inside[None, :], other=0.0)
        sums += part.to(tl.float32) * tl.load(x + at, inside, other=0.0).to(tl.float32)[None, :]
    tl.store(y + rows, tl.sum(sums, 1).to(y.dtype.element_ty), rows < m)
