"""Decoding with fewer heads than the block has rows: what a tile holds beyond them is guarded, in each of the
ways in which published kernels do it.
"""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import close, random

LOG2E = 1.44269504
TARGETS = ["reference", "cpu", "sim:sm_80", "sim:sm_90a"]


def decode(heads, dim, length, block_H, block_N, guard):
    """One new token for each batch: the cache holds keys, which are the values too."""
    rows = min(block_H, heads)
    scale = dim**-0.5 * LOG2E

    @T.prim_func
    def main(
        Q: T.Tensor((2, heads, dim), "float16"),
        KV: T.Tensor((2, length, dim), "float16"),
        O: T.Tensor((2, heads, dim), "float16"),
    ):
        with T.Kernel(heads // rows, 2, threads=128) as (h, b):
            Q_shared = T.alloc_shared((block_H, dim), "float16")
            KV_shared = T.alloc_shared((block_N, dim), "float16")
            few = T.alloc_shared((rows, dim), "float16")
            S = T.alloc_fragment((block_H, block_N), "float32")
            S_cast = T.alloc_shared((block_H, block_N), "float16")
            acc = T.alloc_fragment((block_H, dim), "float32")
            m, before = T.alloc_fragment((block_H,), "float32"), T.alloc_fragment((block_H,), "float32")
            added, total = T.alloc_fragment((block_H,), "float32"), T.alloc_fragment((block_H,), "float32")
            if guard == "rows of the tensor":
                T.copy(Q[b, h * rows : h * rows + block_H, :], Q_shared)
            elif guard == "slices":
                T.copy(Q[b, h * rows : (h + 1) * rows, :], Q_shared[0:rows, :])
            else:
                for i, j in T.Parallel(block_H, dim):
                    if i < T.min(block_H, heads):
                        Q_shared[i, j] = Q[b, h * rows + i, j]
            T.clear(acc)
            T.clear(total)
            T.fill(m, -T.infinity("float32"))
            for k in T.Pipelined(T.ceildiv(length, block_N), num_stages=2):
                T.copy(KV[b, k * block_N : (k + 1) * block_N, :], KV_shared)
                for i, j in T.Parallel(block_H, block_N):
                    S[i, j] = T.if_then_else(k * block_N + j < length, 0, -T.infinity("float32"))
                T.gemm(Q_shared, KV_shared, S, transpose_B=True)
                T.copy(m, before)
                T.reduce_max(S, m, dim=1, clear=False)
                for i, j in T.Parallel(block_H, block_N):
                    S[i, j] = T.exp2((S[i, j] - m[i]) * scale)
                T.reduce_sum(S, added, dim=1)
                for i in T.Parallel(block_H):
                    total[i] = total[i] * T.exp2((before[i] - m[i]) * scale) + added[i]
                for i, j in T.Parallel(block_H, dim):
                    acc[i, j] *= T.exp2((before[i] - m[i]) * scale)
                T.copy(S, S_cast)
                T.gemm(S_cast, KV_shared, acc)
            for i, j in T.Parallel(block_H, dim):
                acc[i, j] /= total[i]
            if guard == "slices":
                T.copy(acc[:rows, :], O[b, h * rows : (h + 1) * rows, :])
            elif guard == "a tile of few rows":
                for i, j in T.Parallel(block_H, dim):
                    if i < rows:
                        few[i, j] = acc[i, j]
                T.copy(few, O[b, h * rows : (h + 1) * rows, :])
            else:
                for i, j in T.Parallel(block_H, dim):
                    if h * rows + i < heads and i < rows:
                        O[b, h * rows + i, j] = acc[i, j]

    return main


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("guard", ["rows of the tensor", "slices", "conditions", "a tile of few rows"])
@pytest.mark.parametrize("heads", [8, 64])
def test_heads_and_rows(heads, guard, target):
    q, kv = random(2, heads, 64, dtype="float16"), random(2, 50, 64, dtype="float16", seed=1)
    o = np.full_like(q, np.nan)
    tilelang.compile(decode(heads, 64, 50, 32, 32, guard), target=target)(q, kv, o)
    scores = np.einsum("bhd,bkd->bhk", q.astype(float), kv.astype(float)) / 8
    p = np.exp(scores - scores.max(-1, keepdims=True))
    close(o, p / p.sum(-1, keepdims=True) @ kv.astype(float), 5e-3)
