"""Attention as users of the published language write it: pages, sparse blocks; kernels run as they are."""

import math

import numpy as np
import tilelang
import tilelang.language as T
from helpers import close, random

LOG2E = 1.44269504


def attention(q, k, v, mask):
    """Of (heads, seq, dim), in float64."""
    scores = np.einsum("hqd,hkd->hqk", q.astype(float), k.astype(float)) / math.sqrt(q.shape[-1])
    scores = np.where(mask, scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return (p / p.sum(-1, keepdims=True)) @ v.astype(float)


def test_pages(target):
    """Rows of a block table choose the tiles; the loop's length is read from a tensor."""

    @tilelang.jit(target=target)
    def paged_attention(Q, KC, VC, table, lens, block_N: int = 16):
        batch, heads, dim, kvh = T.const("batch, heads, dim, kvh")
        pages, page, max_pages = T.const("pages, page, max_pages")
        Q: T.Tensor((batch, heads, dim), T.float16)
        KC: T.Tensor((pages, page, kvh, dim), T.float16)
        VC: T.Tensor((pages, page, kvh, dim), T.float16)
        table: T.Tensor((batch, max_pages), T.int32)
        lens: T.Tensor((batch,), T.int32)
        O = T.empty((batch, heads, dim), T.float16)
        G = heads // kvh
        scale = 1.0 / math.sqrt(dim) * LOG2E
        with T.Kernel(kvh, batch, threads=128) as (hk, bz):
            Q_shared = T.alloc_shared((16, dim), T.float16)
            K_shared = T.alloc_shared((block_N, dim), T.float16)
            V_shared = T.alloc_shared((block_N, dim), T.float16)
            S = T.alloc_fragment((16, block_N), T.float32)
            S_cast = T.alloc_fragment((16, block_N), T.float16)
            acc = T.alloc_fragment((16, dim), T.float32)
            m = T.alloc_fragment((16,), T.float32)
            m_prev = T.alloc_fragment((16,), T.float32)
            total = T.alloc_fragment((16,), T.float32)
            l = T.alloc_fragment((16,), T.float32)
            for i, j in T.Parallel(16, dim):
                Q_shared[i, j] = T.if_then_else(i < G, Q[bz, hk * G + T.min(i, G - 1), j], 0)
            T.clear(acc)
            T.clear(l)
            T.fill(m, -T.infinity(T.float32))
            n = lens[bz]
            for kb in T.Pipelined(T.ceildiv(n, block_N), num_stages=2):
                p = table[bz, kb * block_N // page]
                off = kb * block_N % page
                T.copy(KC[p, off : off + block_N, hk, :], K_shared)
                T.copy(VC[p, off : off + block_N, hk, :], V_shared)
                for i, j in T.Parallel(16, block_N):
                    S[i, j] = T.if_then_else(kb * block_N + j < n, 0, -T.infinity(T.float32))
                T.gemm(Q_shared, K_shared, S, transpose_B=True)
                T.copy(m, m_prev)
                T.reduce_max(S, m, dim=1, clear=False)
                for i, j in T.Parallel(16, block_N):
                    S[i, j] = T.exp2((S[i, j] - m[i]) * scale)
                T.reduce_sum(S, total, dim=1)
                for i in T.Parallel(16):
                    l[i] = l[i] * T.exp2((m_prev[i] - m[i]) * scale) + total[i]
                for i, j in T.Parallel(16, dim):
                    acc[i, j] *= T.exp2((m_prev[i] - m[i]) * scale)
                T.copy(S, S_cast)
                T.gemm(S_cast, V_shared, acc)
            for i, j in T.Parallel(16, dim):
                if i < G:
                    O[bz, hk * G + i, j] = acc[i, j] / l[i]
        return O

    b, h, d, kvh, page, most = 3, 8, 32, 2, 32, 3
    pages = b * most + 2
    q = random(b, h, d, dtype="float16")
    kc, vc = (random(pages, page, kvh, d, dtype="float16", seed=s) for s in (1, 2))
    table = np.random.default_rng(0).permutation(pages)[: b * most].reshape(b, most).astype("int32")
    lens = np.array([1, 50, 96], "int32")
    o = paged_attention(q, kc, vc, table, lens)
    for i in range(b):
        k, v = (
            np.repeat(c[table[i]].reshape(-1, kvh, d)[: lens[i]], h // kvh, 1).swapaxes(0, 1)
            for c in (kc, vc)
        )
        close(o[i], attention(q[i][:, None], k, v, True)[:, 0], 5e-3)


def test_sparse_blocks(target):
    """An array of flags that every thread has, alike, decides over tile operators; the softmax is a macro."""

    @tilelang.jit(out_idx=[4], target=target)
    def blocksparse_flashattn(heads, seq, dim, block_M, block_N):
        scale = (1.0 / dim) ** 0.5 * LOG2E
        shape = (heads, seq, dim)
        blocks = seq // block_N

        @T.macro
        def Softmax(acc_s, acc_s_cast, scores_max, scores_max_prev, scores_scale, scores_sum, logsum):
            T.copy(scores_max, scores_max_prev)
            T.fill(scores_max, -T.infinity("float32"))
            T.reduce_max(acc_s, scores_max, dim=1, clear=False)
            for i in T.Parallel(block_M):
                scores_max[i] = T.max(scores_max[i], scores_max_prev[i])
                scores_scale[i] = T.exp2(scores_max_prev[i] * scale - scores_max[i] * scale)
            for i, j in T.Parallel(block_M, block_N):
                acc_s[i, j] = T.exp2(acc_s[i, j] * scale - scores_max[i] * scale)
            T.reduce_sum(acc_s, scores_sum, dim=1)
            for i in T.Parallel(block_M):
                logsum[i] = logsum[i] * scores_scale[i] + scores_sum[i]
            T.copy(acc_s, acc_s_cast)

        @T.prim_func
        def main(
            Q: T.Tensor(shape, "float16"),
            K: T.Tensor(shape, "float16"),
            V: T.Tensor(shape, "float16"),
            Mask: T.Tensor((heads, seq // block_M, blocks), "bool"),
            Output: T.Tensor(shape, "float16"),
        ):
            with T.Kernel(T.ceildiv(seq, block_M), heads, threads=128) as (bx, by):
                Q_shared = T.alloc_shared([block_M, dim], "float16")
                K_shared = T.alloc_shared([block_N, dim], "float16")
                V_shared = T.alloc_shared([block_N, dim], "float16")
                O_shared = T.alloc_shared([block_M, dim], "float16")
                acc_s = T.alloc_fragment([block_M, block_N], "float32")
                acc_s_cast = T.alloc_fragment([block_M, block_N], "float16")
                acc_o = T.alloc_fragment([block_M, dim], "float32")
                scores_max = T.alloc_fragment([block_M], "float32")
                scores_max_prev = T.alloc_fragment([block_M], "float32")
                scores_scale = T.alloc_fragment([block_M], "float32")
                scores_sum = T.alloc_fragment([block_M], "float32")
                logsum = T.alloc_fragment([block_M], "float32")
                block_mask = T.alloc_local([blocks], "bool")
                T.copy(Q[by, bx * block_M : (bx + 1) * block_M, :], Q_shared)
                T.fill(acc_o, 0)
                T.fill(logsum, 0)
                T.fill(scores_max, -T.infinity("float32"))
                for vj in T.serial(blocks):
                    block_mask[vj] = Mask[by, bx, vj]
                for k in T.Pipelined(blocks, num_stages=1):
                    if block_mask[k] != 0:
                        T.copy(K[by, k * block_N : (k + 1) * block_N, :], K_shared)
                        for i, j in T.Parallel(block_M, block_N):
                            acc_s[i, j] = T.if_then_else(
                                bx * block_M + i >= k * block_N + j, 0, -T.infinity(acc_s.dtype)
                            )
                        T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                        Softmax(
                            acc_s, acc_s_cast, scores_max, scores_max_prev, scores_scale, scores_sum, logsum
                        )
                        for i, j in T.Parallel(block_M, dim):
                            acc_o[i, j] *= scores_scale[i]
                        T.copy(V[by, k * block_N : (k + 1) * block_N, :], V_shared)
                        T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(block_M, dim):
                    acc_o[i, j] /= logsum[i]
                T.copy(acc_o, O_shared)
                T.copy(O_shared, Output[by, bx * block_M : (bx + 1) * block_M, :])

        return main

    h, s, d = 2, 128, 32
    q, k, v = (random(h, s, d, dtype="float16", seed=i) for i in range(3))
    mask = np.random.default_rng(0).random((h, 4, 4)) < 0.5
    mask[:, np.arange(4), np.arange(4)] = True
    o = blocksparse_flashattn(h, s, d, 32, 32)(q, k, v, mask)
    whole = np.repeat(np.repeat(mask, 32, 1), 32, 2) & np.tril(np.ones((s, s), bool))
    close(o, attention(q, k, v, whole), 5e-3)
