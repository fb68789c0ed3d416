"""Scans in the published package's style: Mamba-2's chunk scan and state, linear attention, retention."""

import linear_attention
import numpy as np
import tilelang
import tilelang.language as T
from tilelang.layout import make_swizzled_layout

from .program import FAST, Case, Tensor, blank

P = 1.44269504


@tilelang.jit(out_idx=[7])
def chunk_scan_fwd(
    batch, seqlen, chunk_size, ngroups, nheads, headdim, dstate, block_M, block_N, block_K, block_Dstate,
    num_stages, threads, annotated
):  # fmt: skip
    """annotated: the layouts and the registers are given as the published text gives them."""
    dtype, accum_dtype = "float16", "float"
    nchunks = T.ceildiv(seqlen, chunk_size)
    per_chunk = (batch, nheads, nchunks, chunk_size)

    @T.macro
    def weigh(cb_local, dA_cs_m_local, dA_cs_k_local, dt_local, m_idx, k):
        for i, j in T.Parallel(block_M, block_K):
            cb_local[i, j] = cb_local[i, j] * T.exp2(dA_cs_m_local[i] * P - dA_cs_k_local[j] * P)
        for i, j in T.Parallel(block_M, block_K):
            cb_local[i, j] *= dt_local[j]
        for i, j in T.Parallel(block_M, block_K):
            cb_local[i, j] = T.if_then_else(m_idx * block_M + i >= k * block_K + j, cb_local[i, j], 0)

    @T.macro
    def scale_rows(acc_o, scale_m_local):
        for i, j in T.Parallel(block_M, block_N):
            acc_o[i, j] *= scale_m_local[i]

    @T.macro
    def add_residual(acc_o, x_residual_shared, x_residual_local, D_local, D, bz):
        D_local[0] = D[bz]
        T.copy(x_residual_shared, x_residual_local)
        for i, j in T.Parallel(block_M, block_N):
            acc_o[i, j] += x_residual_local[i, j] * D_local[0]

    @T.prim_func
    def main(
        cb: T.Tensor((batch, nchunks, ngroups, chunk_size, chunk_size), dtype),
        x: T.Tensor((batch, seqlen, nheads, headdim), dtype),
        dt: T.Tensor(per_chunk, dtype),
        dA_cumsum: T.Tensor(per_chunk, dtype),
        C: T.Tensor((batch, seqlen, ngroups, dstate), dtype),
        prev_states: T.Tensor((batch, nchunks, nheads, headdim, dstate), dtype),
        D: T.Tensor((nheads,), dtype),
        Output: T.Tensor((batch, seqlen, nheads, headdim), dtype),
    ):
        tiles = T.ceildiv(chunk_size, block_M) * T.ceildiv(headdim, block_N)
        with T.Kernel(nheads, tiles, batch * nchunks, threads=threads) as (bz, bx, by):
            acc_o = T.alloc_fragment((block_M, block_N), accum_dtype)
            acc_o_shared = T.alloc_shared((block_M, block_N), dtype)
            cb_shared = T.alloc_shared((block_M, block_K), dtype)
            cb_local = T.alloc_fragment((block_M, block_K), dtype)
            dA_cs_k_shared, dt_shared = [T.alloc_shared((block_K), dtype) for _ in range(2)]
            dA_cs_k_local, dt_local = [T.alloc_fragment((block_K), accum_dtype) for _ in range(2)]
            dA_cs_m_shared = T.alloc_shared((block_M), dtype)
            dA_cs_m_local, scale_m_local = [T.alloc_fragment((block_M), accum_dtype) for _ in range(2)]
            x_shared = T.alloc_shared((block_K, block_N), dtype)
            C_shared = T.alloc_shared((block_M, block_Dstate), dtype)
            prev_state_shared = T.alloc_shared((block_N, block_Dstate), dtype)
            x_residual_shared = T.alloc_shared((block_M, block_N), dtype)
            D_local = T.alloc_fragment((1), accum_dtype)
            x_residual_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            b, c, group = by % batch, by // batch, bz // (nheads // ngroups)
            m_idx, n_idx = bx // T.ceildiv(headdim, block_N), bx % T.ceildiv(headdim, block_N)
            m, n = slice(m_idx * block_M, (m_idx + 1) * block_M), n_idx * block_N
            rows = slice(c * chunk_size + m_idx * block_M, c * chunk_size + (m_idx + 1) * block_M)
            if annotated:
                given = acc_o_shared, cb_shared, x_residual_shared
                T.annotate_layout({tile: make_swizzled_layout(tile) for tile in given})
                T.no_set_max_nreg()

            T.copy(dA_cumsum[b, bz, c, m], dA_cs_m_shared)
            T.copy(dA_cs_m_shared, dA_cs_m_local)
            T.clear(acc_o)
            for i in T.Parallel(block_M):
                scale_m_local[i] = T.exp2(dA_cs_m_local[i] * P)
            T.copy(C[b, rows, group, 0:block_Dstate], C_shared)
            T.copy(prev_states[b, c, bz, n : n + block_N, 0:block_Dstate], prev_state_shared)
            T.gemm(C_shared, prev_state_shared, acc_o, transpose_B=True)
            scale_rows(acc_o, scale_m_local)
            for k in T.Pipelined(T.ceildiv((m_idx + 1) * block_M, block_K), num_stages=num_stages):
                T.copy(cb[b, c, group, m, k * block_K : (k + 1) * block_K], cb_shared)
                T.copy(cb_shared, cb_local)
                T.copy(dA_cumsum[b, bz, c, k * block_K : (k + 1) * block_K], dA_cs_k_shared)
                T.copy(dA_cs_k_shared, dA_cs_k_local)
                T.copy(dt[b, bz, c, k * block_K : (k + 1) * block_K], dt_shared)
                T.copy(dt_shared, dt_local)
                weigh(cb_local, dA_cs_m_local, dA_cs_k_local, dt_local, m_idx, k)
                first = c * chunk_size + k * block_K
                T.copy(x[b, first : first + block_K, bz, n : n + block_N], x_shared)
                T.gemm(cb_local, x_shared, acc_o)
            T.copy(x[b, rows, bz, n : n + block_N], x_residual_shared)
            add_residual(acc_o, x_residual_shared, x_residual_local, D_local, D, bz)
            T.copy(acc_o, acc_o_shared)
            T.copy(acc_o_shared, Output[b, rows, bz, n : n + block_N])

    return main


def chunk_scan_exact(cb, x, dt, a, C, states, D, out):
    batch, length, heads, dim = x.shape
    chunks, chunk = dt.shape[2:]
    share = heads // C.shape[2]
    cut = lambda t: t.reshape(batch, chunks, chunk, t.shape[2], -1)
    decay = np.tril(np.exp(np.minimum(a[..., :, None] - a[..., None, :], 0)))  # b, h, c, m, l
    weights = np.repeat(cb, share, 2).transpose(0, 2, 1, 3, 4) * decay * dt[..., None, :]
    y = np.einsum("bhcml,bclhp->bcmhp", weights, cut(x))
    past = np.einsum("bcmhn,bchpn->bcmhp", np.repeat(cut(C), share, 3), states)
    y += past * np.exp(a).transpose(0, 2, 3, 1)[..., None]
    return {7: y.reshape(x.shape) + D[:, None] * x}


@tilelang.jit(out_idx=[4])
def chunk_state_fwd(
    batch, seqlen, chunk_size, ngroups, nheads, headdim, dstate, block_M, block_N, block_K, num_stages,
    threads, transpose_A
):  # fmt: skip
    """transpose_A: the scaled tile is multiplied as it lies, transposed by the gemm, not by the loop."""
    dtype, accum_dtype = "float16", "float"
    nchunks = T.ceildiv(seqlen, chunk_size)
    per_chunk = (batch, nheads, nchunks, chunk_size)

    @T.prim_func
    def main(
        B: T.Tensor((batch, seqlen, ngroups, dstate), dtype),
        x: T.Tensor((batch, seqlen, nheads, headdim), dtype),
        dt: T.Tensor(per_chunk, dtype),
        dA_cumsum: T.Tensor(per_chunk, dtype),
        Output: T.Tensor((batch, nchunks, nheads, headdim, dstate), dtype),
    ):
        tiles = T.ceildiv(headdim, block_M) * T.ceildiv(dstate, block_N)
        with T.Kernel(nheads, tiles, batch * nchunks, threads=threads) as (bz, bx, by):
            x_shared = T.alloc_shared((block_K, block_M), dtype)
            x_local = T.alloc_fragment((block_K, block_M), dtype)
            xt_local = T.alloc_fragment((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            dt_shared = T.alloc_shared((block_K), dtype)
            dA_cumsum_shared = T.alloc_shared((block_K), dtype)
            acc_o = T.alloc_fragment((block_M, block_N), accum_dtype)
            acc_o_shared = T.alloc_shared((block_M, block_N), dtype)
            scale = T.alloc_fragment((block_K), accum_dtype)
            dA_cs_last = T.alloc_fragment((1), accum_dtype)
            dA_cumsum_local = T.alloc_fragment((block_K), accum_dtype)
            dt_local = T.alloc_fragment((block_K), accum_dtype)

            b, c = by % batch, by // batch
            m, n = bx // T.ceildiv(dstate, block_N) * block_M, bx % T.ceildiv(dstate, block_N) * block_N
            T.annotate_layout({tile: make_swizzled_layout(tile) for tile in (x_shared, acc_o_shared)})
            dA_cs_last[0] = dA_cumsum[b, bz, c, chunk_size - 1]
            T.clear(acc_o)
            for k in T.Pipelined(T.ceildiv(chunk_size, block_K), num_stages=num_stages):
                first, part = c * chunk_size + k * block_K, slice(k * block_K, (k + 1) * block_K)
                T.copy(x[b, first : first + block_K, bz, m : m + block_M], x_shared)
                T.copy(dA_cumsum[b, bz, c, part], dA_cumsum_shared)
                T.copy(dt[b, bz, c, part], dt_shared)
                T.copy(dA_cumsum_shared, dA_cumsum_local)
                T.copy(dt_shared, dt_local)
                for i in T.Parallel(block_K):
                    scale[i] = T.exp2(dA_cs_last[0] * P - dA_cumsum_local[i] * P) * dt_local[i]
                T.copy(x_shared, x_local)
                T.copy(B[b, first : first + block_K, bz // (nheads // ngroups), n : n + block_N], B_shared)
                if transpose_A:
                    for i, j in T.Parallel(block_K, block_M):
                        x_local[i, j] *= scale[i]
                    T.gemm(x_local, B_shared, acc_o, transpose_A=True)
                else:
                    for i, j in T.Parallel(block_M, block_K):
                        xt_local[i, j] = x_local[j, i] * scale[j]
                    T.gemm(xt_local, B_shared, acc_o)
            T.copy(acc_o, acc_o_shared)
            T.copy(acc_o_shared, Output[b, c, bz, m : m + block_M, n : n + block_N])

    return main


def chunk_state_exact(B, x, dt, a, out):
    batch, length, heads, _ = x.shape
    chunks, chunk = dt.shape[2:]
    cut = lambda t: np.repeat(t.reshape(batch, chunks, chunk, t.shape[2], -1), heads // t.shape[2], 3)
    weight = np.exp(a[..., -1:] - a) * dt
    return {4: np.einsum("bclhp,bhcl,bclhn->bchpn", cut(x), weight, cut(B))}


def mamba_cases(small):
    batch, heads, length, chunk, dim, state = (
        (1, 2, 512, 256, 64, 128) if small else (8, 80, 4096, 256, 64, 128)
    )
    chunks, sizes = length // chunk, (batch, length, chunk, 1, heads, dim, state)
    x, outer = Tensor((batch, length, heads, dim)), Tensor((batch, length, 1, state))
    per_chunk = (batch, heads, chunks, chunk)
    dt = Tensor(per_chunk, kind="uniform", low=0.01, high=0.1)
    decay = Tensor(per_chunk, kind="decay", high=0.05)
    states = (batch, chunks, heads, dim, state)
    scan = [Tensor((batch, chunks, 1, chunk, chunk)), x, dt, decay, outer, Tensor(states), Tensor((heads,))]
    scan.append(blank(batch, length, heads, dim))
    for threads, annotated in ((128, True), (256, True), (128, False), (256, False)):
        label = f"128x64x64, {threads} threads{', layouts given' * annotated}"
        tiles = (128, 64, 64, 128, 2, threads, annotated)
        yield Case("chunk-scan", label, chunk_scan_fwd, sizes + tiles, scan, chunk_scan_exact, FAST)
    arguments = [outer, x, dt, decay, blank(*states)]
    for transpose_A in (False, True):
        label = f"64x128x64, 128 threads, {'transpose_A' if transpose_A else 'transposed by a loop'}"
        tiles = (64, 128, 64, 4, 128, transpose_A)
        yield Case("chunk-state", label, chunk_state_fwd, sizes + tiles, arguments, chunk_state_exact, FAST)


@tilelang.jit(out_idx=[3, 4])
def retention_fwd(B, S, H, DK, DV, chunk_size, BK, BV, num_stages, threads, decays):
    """decays: retention; else linear attention.  The parts of K's columns are summed up by the caller."""
    scale, dtype, accum_dtype = DK**-0.5, "float16", "float"
    NK, NV, NT = tilelang.cdiv(DK, BK), tilelang.cdiv(DV, BV), tilelang.cdiv(S, chunk_size)

    @T.prim_func
    def main(
        Q: T.Tensor([B, S, H, DK], dtype),
        K: T.Tensor([B, S, H, DK], dtype),
        V: T.Tensor([B, S, H, DV], dtype),
        O: T.Tensor([NK, B, S, H, DV], accum_dtype),
        final_state: T.Tensor([B, H, DK, DV], accum_dtype),
    ):
        with T.Kernel(NV, NK, B * H, threads=threads) as (i_v, i_k, i_bh):
            i_b, i_h = i_bh // H, i_bh % H
            log_decay = T.alloc_var("float32")
            log_decay = T.log2(1 - T.exp2(-5.0 - 1.0 * i_h)) if decays else 0.0
            columns = slice(i_v * BV, (i_v + 1) * BV)
            q, k = T.alloc_shared([chunk_size, BK], dtype), T.alloc_shared([chunk_size, BK], dtype)
            v = T.alloc_shared([chunk_size, BV], dtype)
            h = T.alloc_fragment([BK, BV], accum_dtype)
            h_shared = T.alloc_shared([BK, BV], dtype)
            s = T.alloc_fragment([chunk_size, chunk_size], accum_dtype)
            s_shared = T.alloc_shared([chunk_size, chunk_size], dtype)
            o = T.alloc_fragment([chunk_size, BV], accum_dtype)

            T.use_swizzle(10)
            T.clear(h)
            for i in T.Pipelined(0, NT, num_stages=num_stages):
                at = slice(i * chunk_size, (i + 1) * chunk_size)
                for row, col in T.Parallel(chunk_size, BK):
                    q[row, col] = Q[i_b, i * chunk_size + row, i_h, i_k * BK + col] * scale
                T.copy(K[i_b, at, i_h, i_k * BK : (i_k + 1) * BK], k)
                T.copy(V[i_b, at, i_h, columns], v)
                T.gemm(q, k, s, clear_accum=True, transpose_B=True)
                for row, col in T.Parallel(chunk_size, chunk_size):
                    weight = T.exp2((row - col) * log_decay) if decays else 1.0
                    s_shared[row, col] = T.if_then_else(row >= col, s[row, col] * weight, 0)
                T.copy(h, h_shared)
                T.gemm(q, h_shared, o, clear_accum=True)
                if decays:
                    for row, col in T.Parallel(chunk_size, BV):
                        o[row, col] *= T.exp2((row + 1) * log_decay)
                T.gemm(s_shared, v, o)
                if decays:
                    for row, col in T.Parallel(chunk_size, BV):
                        v[row, col] = v[row, col] * T.exp2((chunk_size - row - 1) * log_decay)
                    for row, col in T.Parallel(BK, BV):
                        h[row, col] *= T.exp2(chunk_size * log_decay)
                T.copy(o, O[i_k, i_b, at, i_h, columns])
                T.gemm(k, v, h, transpose_A=True)
            T.copy(h, final_state[i_b, i_h, i_k * BK : (i_k + 1) * BK, columns])

    return main


def retention_exact(decays):
    def exact(q, k, v, out, final):
        length, heads, parts = q.shape[1], q.shape[2], out.shape[0]
        rate = np.log2(1 - 2.0 ** (-5 - np.arange(heads))) if decays else np.zeros(heads)
        at = np.arange(length)
        weights = np.tril(2.0 ** (rate[:, None, None] * np.maximum(at[:, None] - at, 0)))
        q = q * q.shape[-1] ** -0.5
        q, k = (x.reshape(*x.shape[:3], parts, -1) for x in (q, k))
        scores = np.einsum("bihnd,bjhnd->nbhij", q, k) * weights
        state = np.einsum("bjhnd,bjhe,hj->bhnde", k, v, 2.0 ** (rate[:, None] * (length - 1 - at)))
        return {3: np.einsum("nbhij,bjhe->nbihe", scores, v), 4: state.reshape(final.shape)}

    return exact


def linear_exact(q, k, v, out):
    return {3: linear_attention.exact(q, k, v)}


def linear_cases(small):
    batch, heads, length, dim = (1, 2, 320, 128) if small else (4, 16, 4096, 128)
    shape = (batch, length, heads, dim)
    inputs = [Tensor(shape)] * 3
    for threads in (128, 256):
        sizes = (batch, heads, length, dim, 64, 64, threads)
        arguments = [*inputs, blank(*shape)]
        label = f"chunks of 64, 64 columns of V, {threads} threads"
        yield Case("linear", label, linear_attention.linear_attention, sizes, arguments, linear_exact)
    final = blank(batch, heads, dim, dim, dtype="float32")
    for decays, width in ((False, 64), (False, 128), (True, 64)):
        outputs = [blank(dim // width, *shape, dtype="float32"), final]
        sizes = (batch, length, heads, dim, dim, 64, width, 64, 2, 128, decays)
        label = (
            f"{'retention' if decays else 'published'}, chunks of 64, {width}x64 of the state, 128 threads"
        )
        yield Case("linear", label, retention_fwd, sizes, inputs + outputs, retention_exact(decays), FAST)


def cases(small):
    yield from mamba_cases(small)
    yield from linear_cases(small)
