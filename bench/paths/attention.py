"""Attention in the published package's style: latent (MLA) decode, decode of a split cache, block-sparse."""

import flash_attention
import numpy as np
import tilelang
import tilelang.language as T
from tilelang.layout import make_swizzled_layout

from .program import FAST, Case, Tensor, blank, softmax

LOG2E = 1.44269504


@tilelang.jit(out_idx=[-1])
def mla_decode(batch, heads, kv_heads, seqlen_kv, dim, pe_dim, block_N, block_H, threads, num_stages, cast):
    """cast: the weights come back from shared memory as a fragment, as older published text has it."""
    scale = (1.0 / (dim + pe_dim)) ** 0.5 * LOG2E
    dtype, accum_dtype = "float16", "float"
    valid_H = min(block_H, heads // kv_heads)

    @T.prim_func
    def main(
        Q: T.Tensor([batch, heads, dim], dtype),
        Q_pe: T.Tensor([batch, heads, pe_dim], dtype),
        KV: T.Tensor([batch, seqlen_kv, kv_heads, dim], dtype),
        K_pe: T.Tensor([batch, seqlen_kv, kv_heads, pe_dim], dtype),
        Output: T.Tensor([batch, heads, dim], dtype),
    ):
        with T.Kernel(heads // valid_H, batch, threads=threads) as (hid, bid):
            Q_shared = T.alloc_shared([block_H, dim], dtype)
            S_shared = T.alloc_shared([block_H, block_N], dtype)
            Q_pe_shared = T.alloc_shared([block_H, pe_dim], dtype)
            KV_shared = T.alloc_shared([block_N, dim], dtype)
            K_pe_shared = T.alloc_shared([block_N, pe_dim], dtype)
            O_shared = T.alloc_shared([block_H, dim], dtype)
            acc_s = T.alloc_fragment([block_H, block_N], accum_dtype)
            acc_s_cast = T.alloc_fragment([block_H, block_N], dtype)
            acc_o = T.alloc_fragment([block_H, dim], accum_dtype)
            scores_max = T.alloc_fragment([block_H], accum_dtype)
            scores_max_prev = T.alloc_fragment([block_H], accum_dtype)
            scores_scale = T.alloc_fragment([block_H], accum_dtype)
            scores_sum = T.alloc_fragment([block_H], accum_dtype)
            logsum = T.alloc_fragment([block_H], accum_dtype)

            cur_kv_head = hid // (heads // kv_heads // valid_H)
            T.use_swizzle(10)
            T.copy(Q[bid, hid * valid_H : (hid + 1) * valid_H, :], Q_shared)
            T.copy(Q_pe[bid, hid * valid_H : (hid + 1) * valid_H, :], Q_pe_shared)
            T.fill(acc_o, 0)
            T.fill(logsum, 0)
            T.fill(scores_max, -T.infinity(accum_dtype))
            for k in T.Pipelined(T.ceildiv(seqlen_kv, block_N), num_stages=num_stages):
                T.copy(KV[bid, k * block_N : (k + 1) * block_N, cur_kv_head, :], KV_shared)
                T.copy(K_pe[bid, k * block_N : (k + 1) * block_N, cur_kv_head, :], K_pe_shared)
                T.clear(acc_s)
                T.gemm(Q_shared, KV_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                T.gemm(Q_pe_shared, K_pe_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                T.copy(scores_max, scores_max_prev)
                T.fill(scores_max, -T.infinity(accum_dtype))
                T.reduce_max(acc_s, scores_max, dim=1, clear=False)
                for i in T.Parallel(block_H):
                    scores_max[i] = T.max(scores_max[i], scores_max_prev[i])
                for i in T.Parallel(block_H):
                    scores_scale[i] = T.exp2(scores_max_prev[i] * scale - scores_max[i] * scale)
                for i, j in T.Parallel(block_H, block_N):
                    acc_s[i, j] = T.exp2(acc_s[i, j] * scale - scores_max[i] * scale)
                T.reduce_sum(acc_s, scores_sum, dim=1)
                T.copy(acc_s, S_shared)
                for i in T.Parallel(block_H):
                    logsum[i] = logsum[i] * scores_scale[i] + scores_sum[i]
                for i, j in T.Parallel(block_H, dim):
                    acc_o[i, j] *= scores_scale[i]
                if cast:
                    T.copy(S_shared, acc_s_cast)
                    T.gemm(acc_s_cast, KV_shared, acc_o, policy=T.GemmWarpPolicy.FullCol)
                else:
                    T.gemm(S_shared, KV_shared, acc_o, policy=T.GemmWarpPolicy.FullCol)
            for i, j in T.Parallel(block_H, dim):
                acc_o[i, j] /= logsum[i]
            T.copy(acc_o, O_shared)
            T.copy(O_shared, Output[bid, hid * valid_H : (hid + 1) * valid_H, :])

    return main


def mla_exact(q, q_pe, kv, k_pe, out):
    q, k = np.concatenate([q, q_pe], -1), np.concatenate([kv, k_pe], -1)[:, :, 0]
    weights = softmax(q @ k.transpose(0, 2, 1) / q.shape[-1] ** 0.5)
    return {4: weights @ kv[:, :, 0]}


def mla_cases(small):
    batch, heads, length, dim, pe = (1, 64, 320, 512, 64) if small else (64, 128, 4096, 512, 64)
    arguments = [
        Tensor((batch, heads, dim)),
        Tensor((batch, heads, pe)),
        Tensor((batch, length, 1, dim)),
        Tensor((batch, length, 1, pe)),
        blank(batch, heads, dim),
    ]
    for label, cast in (("64x64, 256 threads", False), ("64x64, 256 threads, S as a fragment", True)):
        sizes = (batch, heads, 1, length, dim, pe, 64, 64, 256, 2, cast)
        yield Case("mla", label, mla_decode, sizes, arguments, mla_exact, FAST)


@tilelang.jit(out_idx=[6])
def gqa_decode(batch, heads, groups, seqlen_kv, dim, block_N, block_H, num_split, num_stages, threads):
    scale = (1.0 / dim) ** 0.5 * LOG2E
    dtype, accum_dtype = "float16", "float"
    valid_block_H = min(block_H, heads // groups)
    shape_kv, part_shape = [batch, seqlen_kv, groups, dim], [batch, heads, num_split, dim]

    @T.macro
    def split(Q, K, V, mask, glse, Output_partial):
        with T.Kernel(batch, heads // valid_block_H, num_split, threads=threads) as (bid, hid, sid):
            Q_shared = T.alloc_shared([block_H, dim], dtype)
            K_shared = T.alloc_shared([block_N, dim], dtype)
            V_shared = T.alloc_shared([block_N, dim], dtype)
            O_shared = T.alloc_shared([valid_block_H, dim], dtype)
            acc_s = T.alloc_fragment([block_H, block_N], accum_dtype)
            acc_s_cast = T.alloc_fragment([block_H, block_N], dtype)
            mask_local = T.alloc_fragment([block_N], "uint8")
            acc_o = T.alloc_fragment([block_H, dim], accum_dtype)
            scores_max = T.alloc_fragment([block_H], accum_dtype)
            scores_max_prev = T.alloc_fragment([block_H], accum_dtype)
            scores_scale = T.alloc_fragment([block_H], accum_dtype)
            scores_sum = T.alloc_fragment([block_H], accum_dtype)
            logsum = T.alloc_fragment([block_H], accum_dtype)

            cur_kv_head = hid // (heads // groups // valid_block_H)
            T.copy(Q[bid, hid * valid_block_H : hid * valid_block_H + block_H, :], Q_shared)
            T.fill(acc_o, 0)
            T.fill(logsum, 0)
            T.fill(scores_max, -T.infinity(accum_dtype))
            for k in T.Pipelined(T.ceildiv(seqlen_kv // num_split, block_N), num_stages=num_stages):
                start = (seqlen_kv // num_split) * sid + k * block_N
                T.copy(K[bid, start : start + block_N, cur_kv_head, :], K_shared)
                T.copy(mask[bid, start : start + block_N, cur_kv_head], mask_local)
                T.clear(acc_s)
                T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(block_H, block_N):
                    acc_s[i, j] = T.if_then_else(mask_local[j] != 0, acc_s[i, j], -T.infinity(accum_dtype))
                T.copy(scores_max, scores_max_prev)
                T.fill(scores_max, -T.infinity(accum_dtype))
                T.reduce_max(acc_s, scores_max, dim=1, clear=False)
                for i in T.Parallel(block_H):
                    scores_max[i] = T.max(scores_max[i], scores_max_prev[i])
                for i in T.Parallel(block_H):
                    scores_scale[i] = T.exp2(scores_max_prev[i] * scale - scores_max[i] * scale)
                for i, j in T.Parallel(block_H, block_N):
                    acc_s[i, j] = T.exp2(acc_s[i, j] * scale - scores_max[i] * scale)
                T.reduce_sum(acc_s, scores_sum, dim=1)
                for i in T.Parallel(block_H):
                    logsum[i] = logsum[i] * scores_scale[i] + scores_sum[i]
                T.copy(acc_s, acc_s_cast)
                for i, j in T.Parallel(block_H, dim):
                    acc_o[i, j] *= scores_scale[i]
                T.copy(V[bid, start : start + block_N, cur_kv_head, :], V_shared)
                T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_H, dim):
                acc_o[i, j] /= logsum[i]
            for i in T.Parallel(block_H):
                logsum[i] = T.log2(logsum[i]) + scores_max[i] * scale
            for i in T.Parallel(block_H):
                if i < valid_block_H:
                    glse[bid, hid * valid_block_H + i, sid] = logsum[i]
            T.copy(acc_o[:valid_block_H, :], O_shared)
            T.copy(O_shared, Output_partial[bid, hid * valid_block_H : (hid + 1) * valid_block_H, sid, :])

    @T.macro
    def combine(glse, Output_partial, Output):
        with T.Kernel(heads, batch, threads=128) as (by, bz):
            po_local = T.alloc_fragment([dim], dtype)
            o_accum_local = T.alloc_fragment([dim], accum_dtype)
            lse_local = T.alloc_fragment([num_split], accum_dtype)
            lse_local_split = T.alloc_var(accum_dtype)
            lse_logsum_local = T.alloc_var(accum_dtype)
            lse_max_local = T.alloc_fragment([1], accum_dtype)
            scale_local = T.alloc_var(accum_dtype)

            T.clear(o_accum_local)
            lse_logsum_local = 0
            for k in T.Parallel(num_split):
                lse_local[k] = glse[bz, by, k]
            T.reduce_max(lse_local, lse_max_local, dim=0, clear=True)
            for k in T.serial(num_split):
                lse_local_split = glse[bz, by, k]
                lse_logsum_local += T.exp2(lse_local_split - lse_max_local[0])
            lse_logsum_local = T.log2(lse_logsum_local) + lse_max_local[0]
            for k in T.serial(num_split):
                for i in T.Parallel(dim):
                    po_local[i] = Output_partial[bz, by, k, i]
                lse_local_split = glse[bz, by, k]
                scale_local = T.exp2(lse_local_split - lse_logsum_local)
                for i in T.Parallel(dim):
                    o_accum_local[i] += po_local[i] * scale_local
            for i in T.Parallel(dim):
                Output[bz, by, i] = o_accum_local[i]

    @T.prim_func
    def flashattn_gqa_decode_split(
        Q: T.Tensor([batch, heads, dim], dtype),
        K: T.Tensor(shape_kv, dtype),
        V: T.Tensor(shape_kv, dtype),
        mask: T.Tensor([batch, seqlen_kv, groups], "uint8"),
        glse: T.Tensor([batch, heads, num_split], dtype),
        Output_partial: T.Tensor(part_shape, dtype),
        Output: T.Tensor([batch, heads, dim], dtype),
    ):
        split(Q, K, V, mask, glse, Output_partial)
        combine(glse, Output_partial, Output)

    return flashattn_gqa_decode_split


def gqa_decode_exact(q, k, v, mask, glse, part, out):
    share = q.shape[1] // k.shape[2]
    k, v, mask = (np.repeat(x, share, 2) for x in (k, v, mask))
    scores = np.einsum("bhd,bshd->bhs", q, k) / q.shape[-1] ** 0.5
    scores[mask.transpose(0, 2, 1) == 0] = -np.inf
    return {6: np.einsum("bhs,bshd->bhd", softmax(scores), v)}


def gqa_decode_cases(small):
    heads, groups, length, dim, splits = (8, 2, 768, 128, 2) if small else (32, 8, 8192, 128, 8)
    for batch in (1,) if small else (1, 16):
        arguments = [
            Tensor((batch, heads, dim)),
            Tensor((batch, length, groups, dim)),
            Tensor((batch, length, groups, dim)),
            Tensor((batch, length, groups), "uint8", "ints", 0, 2),
            blank(batch, heads, splits),
            blank(batch, heads, splits, dim),
            blank(batch, heads, dim),
        ]
        sizes = (batch, heads, groups, length, dim, 128, 64, splits, 2, 128)
        label = f"batch {batch}, 64x128, 128 threads"
        yield Case("gqa-decode", label, gqa_decode, sizes, arguments, gqa_decode_exact, FAST, bound=4e-3)


@tilelang.jit(out_idx=[4])
def block_sparse_attention(
    batch, heads, seq_len, dim, block_M, block_N, num_stages, threads, is_causal, in_local
):
    """in_local: a row of the mask is copied to an array of each thread, as older published text has it."""
    scale = (1.0 / dim) ** 0.5 * LOG2E
    dtype, accum_dtype = "float16", "float"
    shape, blocks = [batch, heads, seq_len, dim], T.ceildiv(seq_len, block_N)

    @T.macro
    def attend(K, V, Q_shared, K_shared, V_shared, acc_s, acc_s_cast, acc_o, m, logsum, k, bx, by, bz):
        scores_max, scores_max_prev, scores_scale, scores_sum = m
        T.copy(K[bz, by, k * block_N : (k + 1) * block_N, :], K_shared)
        if is_causal:
            for i, j in T.Parallel(block_M, block_N):
                acc_s[i, j] = T.if_then_else(bx * block_M + i >= k * block_N + j, 0, -T.infinity(acc_s.dtype))
        else:
            T.clear(acc_s)
        T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
        T.copy(scores_max, scores_max_prev)
        T.fill(scores_max, -T.infinity(accum_dtype))
        T.reduce_max(acc_s, scores_max, dim=1, clear=False)
        for i in T.Parallel(block_M):
            scores_max[i] = T.max(scores_max[i], scores_max_prev[i])
        for i in T.Parallel(block_M):
            scores_scale[i] = T.exp2(scores_max_prev[i] * scale - scores_max[i] * scale)
        for i, j in T.Parallel(block_M, block_N):
            acc_s[i, j] = T.exp2(acc_s[i, j] * scale - scores_max[i] * scale)
        T.reduce_sum(acc_s, scores_sum, dim=1)
        for i in T.Parallel(block_M):
            logsum[i] = logsum[i] * scores_scale[i] + scores_sum[i]
        T.copy(acc_s, acc_s_cast)
        for i, j in T.Parallel(block_M, dim):
            acc_o[i, j] *= scores_scale[i]
        T.copy(V[bz, by, k * block_N : (k + 1) * block_N, :], V_shared)
        T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)

    @T.prim_func
    def main(
        Q: T.Tensor(shape, dtype),
        K: T.Tensor(shape, dtype),
        V: T.Tensor(shape, dtype),
        BlockSparseMask: T.Tensor([batch, heads, blocks, blocks], "int8"),
        Output: T.Tensor(shape, dtype),
    ):
        with T.Kernel(T.ceildiv(seq_len, block_M), heads, batch, threads=threads) as (bx, by, bz):
            Q_shared = T.alloc_shared([block_M, dim], dtype)
            K_shared = T.alloc_shared([block_N, dim], dtype)
            V_shared = T.alloc_shared([block_N, dim], dtype)
            O_shared = T.alloc_shared([block_M, dim], dtype)
            acc_s = T.alloc_fragment([block_M, block_N], accum_dtype)
            acc_s_cast = T.alloc_fragment([block_M, block_N], dtype)
            acc_o = T.alloc_fragment([block_M, dim], accum_dtype)
            scores_max = T.alloc_fragment([block_M], accum_dtype)
            scores_max_prev = T.alloc_fragment([block_M], accum_dtype)
            scores_scale = T.alloc_fragment([block_M], accum_dtype)
            scores_sum = T.alloc_fragment([block_M], accum_dtype)
            logsum = T.alloc_fragment([block_M], accum_dtype)
            block_mask = T.alloc_local([blocks], "int8")

            T.copy(Q[bz, by, bx * block_M : (bx + 1) * block_M, :], Q_shared)
            T.fill(acc_o, 0)
            T.fill(logsum, 0)
            T.fill(scores_max, -T.infinity(accum_dtype))
            if in_local:
                for vj in T.serial(blocks):
                    block_mask[vj] = BlockSparseMask[bz, by, bx, vj]
            m = (scores_max, scores_max_prev, scores_scale, scores_sum)
            tiles = (Q_shared, K_shared, V_shared, acc_s, acc_s_cast, acc_o, m, logsum)
            loop_range = T.ceildiv((bx + 1) * block_M, block_N) if is_causal else blocks
            for k in T.Pipelined(loop_range, num_stages=num_stages):
                if (block_mask[k] if in_local else BlockSparseMask[bz, by, bx, k]) != 0:
                    attend(K, V, *tiles, k, bx, by, bz)
            for i, j in T.Parallel(block_M, dim):
                acc_o[i, j] /= logsum[i]
            T.copy(acc_o, O_shared)
            T.annotate_layout({O_shared: make_swizzled_layout(O_shared)})
            T.copy(O_shared, Output[bz, by, bx * block_M : (bx + 1) * block_M, :])

    return main


def block_sparse_exact(causal):
    def exact(q, k, v, mask, out):
        length = q.shape[2]
        block = length // mask.shape[-1]
        on = np.repeat(np.repeat(mask, block, 2), block, 3) != 0
        if causal:
            on &= np.tril(np.ones((length, length), bool))
        scores = np.where(on, q @ k.swapaxes(2, 3) / q.shape[-1] ** 0.5, -np.inf)
        return {4: softmax(scores) @ v}

    return exact


def block_sparse_cases(small):
    batch, heads, length = (1, 1, 512) if small else (2, 16, 4096)
    kinds = [(False, False), (True, False), (False, True)]
    for dim in (64, 128):
        for block, threads in ((64, 128), (128, 256)):
            for causal, in_local in kinds if (dim, block) == (64, 64) else kinds[:1]:
                shape, blocks = (batch, heads, length, dim), length // block
                mask = Tensor((batch, heads, blocks, blocks), "int8", "mask")
                arguments = [Tensor(shape), Tensor(shape), Tensor(shape), mask, blank(*shape)]
                sizes = (*shape, block, block, 2, threads, causal, in_local)
                label = f"d {dim}, {block}x{block}, {threads} threads{', causal' * causal}"
                label += ", mask in an array" * in_local
                exact = block_sparse_exact(causal)
                yield Case("block-sparse", label, block_sparse_attention, sizes, arguments, exact, FAST)


def gqa_exact(q, k, v, out):
    return {3: flash_attention.exact(q, k, v, True)}


def gqa_cases(small):
    batch, heads, kv_heads, length, dim = (1, 4, 1, 300, 128) if small else (1, 32, 4, 4096, 128)
    shape, kv_shape = (batch, heads, length, dim), (batch, kv_heads, length, dim)
    arguments = [Tensor(shape), Tensor(kv_shape), Tensor(kv_shape), blank(*shape)]
    for tile in ((128, 128, 256), (128, 64, 128)):
        sizes = (batch, heads, length, length, dim, True, *tile, "float16", kv_heads)
        label = "causal, {}x{}, {} threads".format(*tile)
        yield Case("gqa", label, flash_attention.attention, sizes, arguments, gqa_exact, FAST)


def cases(small):
    for of in (mla_cases, gqa_cases, gqa_decode_cases, block_sparse_cases):
        yield from of(small)
