"""The mutated kernels whose warpgroups have their parts by hand: the two examples, with few and small tiles.
They have 384 threads, and one size each: a block with several tiles, of more steps than a ring has slots.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import tilelang
from tile_kernels import nan

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
import attention_warpgroups  # noqa: E402
import flash_attention  # noqa: E402
import gemm_warpgroups  # noqa: E402


def machine_text(function, pass_configs=None):
    return tilelang.compile(function, target="sim:sm_90a", pass_configs=pass_configs)._kernel.machine_text


def gemm(transpose_B):
    """One block, two tiles of C of three steps each, in a ring of two slots."""
    M, N, K = 136, 64, 40

    def make(threads):
        small = {"block_N": 64, "block_K": 16, "part": 32, "slots": 2, "blocks": 1}
        return machine_text(gemm_warpgroups.gemm.get_tir(M, N, K, transpose_B, **small))

    def inputs(rng, size):
        a = rng.standard_normal((M, K)).astype(np.float16)
        b = rng.standard_normal((N, K) if transpose_B else (K, N)).astype(np.float16)
        return [a, b, nan(M, N, dtype=np.float16)]

    def exact(a, b, c):
        b = b.astype(np.float64)
        return {2: a.astype(np.float64) @ (b.T if transpose_B else b)}

    return make, (0,), inputs, exact


def attention(causal):
    """One block of one head: five tiles of keys, in rings of two slots."""
    queries, keys, dim = 72, 76, 32  # so that both consumers see some of the last tile, where causal

    def make(threads):
        function = attention_warpgroups.attention.get_tir(1, 1, queries, keys, dim, causal, block_N=16)
        return machine_text(function, flash_attention.FAST)

    def inputs(rng, size):
        q, k, v = (rng.standard_normal((1, 1, n, dim)).astype(np.float16) for n in (queries, keys, keys))
        return [q, k, v, nan(1, 1, queries, dim, dtype=np.float16)]

    def exact(q, k, v, o):
        return {3: flash_attention.exact(q, k, v, causal)}

    return make, (0,), inputs, exact
