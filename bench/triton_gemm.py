"""The Triton GEMM that bench/gemm_gpu.py measures against: written in the manner of Triton's own tutorial."""

import triton
import triton.language as tl


@triton.jit
def kernel(
    a,
    b,
    c,
    m,
    n,
    k,
    stride_a,
    stride_b,
    stride_bn,
    stride_c,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
):
    tile = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(m, BM), tl.cdiv(n, BN)
    first = tile // (GROUP * tiles_n) * GROUP
    rows = min(tiles_m - first, GROUP)
    i = first + tile % (GROUP * tiles_n) % rows
    j = tile % (GROUP * tiles_n) // rows
    at_m, at_n, at_k = i * BM + tl.arange(0, BM), j * BN + tl.arange(0, BN), tl.arange(0, BK)
    at_a = a + at_m[:, None] * stride_a + at_k[None, :]
    at_b = b + at_k[:, None] * stride_b + at_n[None, :] * stride_bn
    sum_ = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, tl.cdiv(k, BK)):
        sum_ = tl.dot(tl.load(at_a), tl.load(at_b), sum_)
        at_a += BK
        at_b += BK * stride_b
    tl.store(c + at_m[:, None] * stride_c + at_n[None, :], sum_.to(c.dtype.element_ty))
