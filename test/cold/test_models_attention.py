"""Attention over windows and pages, rotary embeddings, projections with an activation."""

import math

import numpy as np
import pytest
import tilelang.language as T
from everywhere import blank, check, everywhere, run
from ml_dtypes import bfloat16 as BF16


# Attention through a sliding window, with soft-capped scores, ALiBi and grouped queries, of any float type.
def attn(B, H, G, NQ, NK, D, window, cap, dtype, bM=32, bN=32, threads=64, stages=2):
    share = H // G
    sm = 1 / math.sqrt(D)
    past = NK - NQ

    @T.prim_func
    def main(
        Q: T.Tensor((B, NQ, H, D), dtype),
        K: T.Tensor((B, NK, G, D), dtype),
        V: T.Tensor((B, NK, G, D), dtype),
        slopes: T.Tensor((H,), "float32"),
        O: T.Tensor((B, NQ, H, D), dtype),
        LSE: T.Tensor((B, H, NQ), "float32"),
    ):
        with T.Kernel(T.ceildiv(NQ, bM), H, B, threads=threads) as (bx, by, bz):
            Qs = T.alloc_shared((bM, D), dtype)
            Ks = T.alloc_shared((bN, D), dtype)
            Vs = T.alloc_shared((bN, D), dtype)
            T.annotate_layout({Qs: T.make_swizzled_layout(Qs), Ks: T.make_swizzled_layout(Ks)})
            S = T.alloc_fragment((bM, bN), "float32")
            P = T.alloc_fragment((bM, bN), dtype)
            acc = T.alloc_fragment((bM, D), "float32")
            m = T.alloc_fragment((bM,), "float32")
            m0 = T.alloc_fragment((bM,), "float32")
            l = T.alloc_fragment((bM,), "float32")
            r = T.alloc_fragment((bM,), "float32")
            T.copy(Q[bz, bx * bM : (bx + 1) * bM, by, :], Qs)
            T.clear(acc)
            T.clear(l)
            T.fill(m, -1e30)
            lo = T.max(0, (bx * bM + past - window) // bN)
            hi = T.ceildiv(T.min(NK, (bx + 1) * bM + past), bN)
            for kk in T.Pipelined(hi - lo, num_stages=stages):
                k = kk + lo
                T.copy(K[bz, k * bN : (k + 1) * bN, by // share, :], Ks)
                T.copy(V[bz, k * bN : (k + 1) * bN, by // share, :], Vs)
                T.gemm(Qs, Ks, S, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(bM, bN):
                    qi = bx * bM + i + past
                    kj = k * bN + j
                    x = S[i, j] * sm
                    x = T.tanh(x / cap) * cap
                    x = x + slopes[by] * T.cast(kj - qi, "float32")
                    S[i, j] = T.if_then_else(
                        (kj <= qi) & (qi - kj <= window) & (kj < NK), x, -T.infinity("float32")
                    )
                T.copy(m, m0)
                T.reduce_max(S, m, dim=1, clear=False)
                for i, j in T.Parallel(bM, bN):
                    S[i, j] = T.exp(S[i, j] - m[i])
                T.reduce_sum(S, r, dim=1)
                for i in T.Parallel(bM):
                    l[i] = l[i] * T.exp(m0[i] - m[i]) + r[i]
                for i, j in T.Parallel(bM, D):
                    acc[i, j] *= T.exp(m0[i] - m[i])
                T.copy(S, P)
                T.gemm(P, Vs, acc, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(bM, D):
                acc[i, j] /= l[i]
            T.copy(acc, O[bz, bx * bM : (bx + 1) * bM, by, :])
            for i in T.Parallel(bM):
                if bx * bM + i < NQ:
                    LSE[bz, by, bx * bM + i] = m[i] + T.log(l[i])

    return main


def windowed(q, k, v, slopes, window, cap):
    B, NQ, H, D = q.shape
    NK, G = k.shape[1:3]
    q, k, v = (x.astype("f8") for x in (q, k, v))
    out, lse = np.empty(q.shape), np.empty((B, H, NQ))
    i, j = np.arange(NQ)[:, None] + NK - NQ, np.arange(NK)
    for b, h in np.ndindex(B, H):
        s = np.tanh(q[b, :, h] @ k[b, :, h * G // H].T / math.sqrt(D) / cap) * cap + float(slopes[h]) * (
            j - i
        )
        s[(j > i) | (i - j > window)] = -np.inf
        top = s.max(1, keepdims=True)
        e = np.exp(s - top)
        out[b, :, h] = e @ v[b, :, h * G // H] / e.sum(1, keepdims=True)
        lse[b, h] = (top + np.log(e.sum(1, keepdims=True)))[:, 0]
    return out, lse


@pytest.mark.parametrize(
    "B, H, G, NQ, NK, D, window, dtype, bound",
    [
        (1, 4, 2, 37, 70, 32, 20, "f2", 2e-3),
        (2, 2, 1, 33, 33, 16, 1000, BF16, 1e-2),
        (1, 2, 2, 1, 97, 64, 5, "f4", 1e-5),
        (1, 1, 1, 65, 65, 32, 0, "f2", 2e-3),
    ],
)
@everywhere
def test_window_attention(target, B, H, G, NQ, NK, D, window, dtype, bound):
    dtype, rng = np.dtype(dtype), np.random.default_rng(0)
    q, k, v = (rng.standard_normal(s).astype(dtype) for s in ((B, NQ, H, D), (B, NK, G, D), (B, NK, G, D)))
    slopes = (2.0 ** -np.arange(1, H + 1)).astype("f4")
    out, lse = np.full(q.shape, np.nan, dtype), blank((B, H, NQ))
    run(attn(B, H, G, NQ, NK, D, window, 20.0, dtype.name), target, q, k, v, slopes, out, lse)
    expected = windowed(q, k, v, slopes, window, 20.0)
    check(out, expected[0], bound)
    check(lse, expected[1], bound)


# Decoding with pages of keys and values, whose splits leave their statistics to a second kernel.
def paged(H, G, D, page, splits, dtype="float16", threads=64):
    share = H // G
    sm = math.log2(math.e) / math.sqrt(D)
    batch, pages, width = T.dynamic("batch, pages, width")

    @T.prim_func
    def main(
        Q: T.Tensor((batch, H, D), dtype),
        KC: T.Tensor((pages, page, G, D), dtype),
        VC: T.Tensor((pages, page, G, D), dtype),
        table: T.Tensor((batch, width), "int32"),
        lens: T.Tensor((batch,), "int32"),
        O: T.Tensor((batch, H, D), dtype),
    ):
        part = T.alloc_global((batch, H, splits, D), "float32")
        stat = T.alloc_global((batch, H, splits, 2), "float32")
        with T.Kernel(splits, G, batch, threads=threads) as (bs, bg, bb):
            Qs = T.alloc_shared((16, D), dtype)
            Ks = T.alloc_shared((page, D), dtype)
            Vs = T.alloc_shared((page, D), dtype)
            S = T.alloc_fragment((16, page), "float32")
            P = T.alloc_fragment((16, page), dtype)
            acc = T.alloc_fragment((16, D), "float32")
            m, m0, l, r = [T.alloc_fragment((16,), "float32") for _ in range(4)]
            for i, j in T.Parallel(16, D):
                Qs[i, j] = T.if_then_else(i < share, Q[bb, T.min(bg * share + i, H - 1), j], 0)
            T.clear(acc)
            T.clear(l)
            T.fill(m, -T.infinity("float32"))
            n = lens[bb]
            used = T.ceildiv(n, page)
            per = T.ceildiv(used, splits)
            for p in T.Pipelined(T.min(per, T.max(used - bs * per, 0)), num_stages=2):
                pg = table[bb, bs * per + p]
                T.copy(KC[pg, 0:page, bg, :], Ks)
                T.copy(VC[pg, 0:page, bg, :], Vs)
                T.gemm(Qs, Ks, S, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(16, page):
                    S[i, j] = T.if_then_else(
                        (bs * per + p) * page + j < n, S[i, j] * sm, -T.infinity("float32")
                    )
                T.copy(m, m0)
                T.reduce_max(S, m, dim=1, clear=False)
                for i, j in T.Parallel(16, page):
                    S[i, j] = T.exp2(S[i, j] - m[i])
                T.reduce_sum(S, r, dim=1)
                for i in T.Parallel(16):
                    l[i] = l[i] * T.exp2(m0[i] - m[i]) + r[i]
                for i, j in T.Parallel(16, D):
                    acc[i, j] *= T.exp2(m0[i] - m[i])
                T.copy(S, P)
                T.gemm(P, Vs, acc, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(16, D):
                if i < share:
                    part[bb, bg * share + i, bs, j] = acc[i, j]
            for i in T.Parallel(16):
                if i < share:
                    stat[bb, bg * share + i, bs, 0] = m[i]
                    stat[bb, bg * share + i, bs, 1] = l[i]
        with T.Kernel(H, batch, threads=32) as (bh, bb):
            out = T.alloc_fragment((D,), "float32")
            best = T.alloc_var("float32", init=-float("inf"))
            total = T.alloc_var("float32", init=0.0)
            for s in T.serial(splits):
                best = T.max(best, stat[bb, bh, s, 0])
            T.clear(out)
            for s in T.serial(splits):
                w = T.exp2(stat[bb, bh, s, 0] - best)
                total += w * stat[bb, bh, s, 1]
                for j in T.Parallel(D):
                    out[j] += w * part[bb, bh, s, j]
            for j in T.Parallel(D):
                O[bb, bh, j] = out[j] / total

    return main


@everywhere
def test_paged_decode(target):
    H, G, D, page = 8, 2, 32, 16
    kernel, rng = paged(H, G, D, page, 3), np.random.default_rng(1)
    for lengths in ([5, 48, 17], [1], [100, 64]):
        pages = [-(-n // page) for n in lengths]
        table = np.full((len(lengths), max(pages) + 1), -7, "i4")
        order = iter(rng.permutation(sum(pages) + 2))
        for row, n in zip(table, pages, strict=True):
            row[:n] = [next(order) for _ in range(n)]
        q = rng.standard_normal((len(lengths), H, D)).astype("f2")
        kc, vc = (rng.standard_normal((sum(pages) + 2, page, G, D)).astype("f2") for _ in range(2))
        expected, out = np.empty(q.shape), blank(q.shape, "f2")
        for b, n in enumerate(lengths):
            k, v = (x[table[b, : pages[b]]].reshape(-1, G, D)[:n].astype("f8") for x in (kc, vc))
            for h in range(H):
                s = k[:, h * G // H] @ q[b, h].astype("f8") / math.sqrt(D)
                p = np.exp(s - s.max())
                expected[b, h] = p @ v[:, h * G // H] / p.sum()
        run(kernel, target, q, kc, vc, table, np.array(lengths, "i4"), out)
        check(out, expected, 2e-3)


# Rotary embeddings of neighbours or of halves, by a view or another shape of one tile.
def rope(S, H, D, base, dtype, interleaved):
    half = D // 2

    @T.prim_func
    def main(X: T.Tensor((S, H, D), dtype), pos: T.Tensor((S,), "int64"), Y: T.Tensor((S, H, D), dtype)):
        with T.Kernel(T.ceildiv(S, 8), threads=128) as b:
            xs = T.alloc_shared((8, H, D), "float32")
            T.copy(X[b * 8 : (b + 1) * 8, :, :], xs)
            xv = T.view(xs, (8, H, half, 2)) if interleaved else T.reshape(xs, (8, H, 2, half))
            for i, h, j in T.Parallel(8, H, half):
                if b * 8 + i < S:
                    ang = T.cast(pos[b * 8 + i], "float32") * T.exp2(
                        T.cast(j, "float32") * (-2.0 * math.log2(base) / D)
                    )
                    c, s = T.cos(ang), T.sin(ang)
                    if interleaved:
                        u = T.alloc_var("float32", init=xv[i, h, j, 0])
                        w = T.alloc_var("float32", init=xv[i, h, j, 1])
                        xv[i, h, j, 0] = u * c - w * s
                        xv[i, h, j, 1] = u * s + w * c
                    else:
                        u = T.alloc_var("float32", init=xv[i, h, 0, j])
                        w = T.alloc_var("float32", init=xv[i, h, 1, j])
                        xv[i, h, 0, j] = u * c - w * s
                        xv[i, h, 1, j] = u * s + w * c
            T.copy(xs, Y[b * 8 : (b + 1) * 8, :, :])

    return main


@pytest.mark.parametrize(
    "S, H, D, interleaved, dtype, bound",
    [(13, 3, 16, True, BF16, 1e-2), (8, 2, 6, False, "f2", 1e-3), (1, 1, 10, True, "f4", 1e-4)],
)
@everywhere
def test_rope(target, S, H, D, interleaved, dtype, bound):
    dtype, rng = np.dtype(dtype), np.random.default_rng(2)
    x, pos = rng.standard_normal((S, H, D)).astype(dtype), rng.integers(0, 500, S)
    angle = pos[:, None, None] * 10000.0 ** (-2 * np.arange(D // 2) / D)
    one, two = (
        (np.s_[..., ::2], np.s_[..., 1::2]) if interleaved else (np.s_[..., : D // 2], np.s_[..., D // 2 :])
    )
    u, w = x[one].astype("f8"), x[two].astype("f8")
    expected, out = np.empty(x.shape), np.full(x.shape, np.nan, dtype)
    expected[one], expected[two] = (
        u * np.cos(angle) - w * np.sin(angle),
        u * np.sin(angle) + w * np.cos(angle),
    )
    run(rope(S, H, D, 10000.0, dtype.name, interleaved), target, x, pos, out)
    check(out, expected, bound)


# Queries, keys and values by one kernel, with a bias and an activation that is an argument of the factory.
def qkv(K, N, act, dtype, bM=32, bN=32, bK=32):
    M = T.dynamic("M")

    @T.prim_func
    def main(
        X: T.Tensor((M, K), dtype),
        W: T.Tensor((3, N, K), dtype),
        bias: T.Tensor((3 * N,), "float32"),
        q: T.Tensor((M, N), dtype),
        k: T.Tensor((M, N), dtype),
        v: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, bN), T.ceildiv(M, bM), 3, threads=128) as (bx, by, bz):
            T.use_swizzle(2)
            Xs = T.alloc_shared((bM, bK), dtype)
            Ws = T.alloc_shared((bN, bK), dtype)
            acc = T.alloc_fragment((bM, bN), "float32")
            for i, j in T.Parallel(bM, bN):
                acc[i, j] = T.if_then_else(bx * bN + j < N, bias[bz * N + T.min(bx * bN + j, N - 1)], 0)
            for kk in T.Pipelined(T.ceildiv(K, bK), num_stages=3):
                T.copy(X[by * bM, kk * bK], Xs)
                T.copy(W[bz, bx * bN : (bx + 1) * bN, kk * bK : (kk + 1) * bK], Ws)
                T.gemm(Xs, Ws, acc, transpose_B=True)
            for i, j in T.Parallel(bM, bN):
                acc[i, j] = act(acc[i, j])
            if bz == 0:
                T.copy(acc, q[by * bM, bx * bN])
            elif bz == 1:
                T.copy(acc, k[by * bM, bx * bN])
            else:
                T.copy(acc, v[by * bM, bx * bN])

    return main


ACTIVATIONS = {
    "gelu": (
        lambda x: 0.5 * x * (1 + T.erf(x * math.sqrt(0.5))),
        np.vectorize(lambda x: 0.5 * x * (1 + math.erf(x * math.sqrt(0.5)))),
    ),
    "silu": (lambda x: x * T.sigmoid(x), lambda x: x / (1 + np.exp(-x))),
}


@pytest.mark.parametrize("name, K, N", [("gelu", 40, 37), ("silu", 33, 64)])
@everywhere
def test_fused_qkv(target, name, K, N):
    act, expected = ACTIVATIONS[name]
    kernel, rng = qkv(K, N, act, "float16"), np.random.default_rng(3)
    for M in (1, 33, 64):
        x, w = (rng.standard_normal((M, K)) / 3).astype("f2"), rng.standard_normal((3, N, K)).astype("f2")
        bias, outs = rng.standard_normal(3 * N).astype("f4"), [blank((M, N), "f2") for _ in range(3)]
        run(kernel, target, x, w, bias, *outs)
        for part, out in enumerate(outs):
            sums = x.astype("f8") @ w[part].astype("f8").T + bias[part * N : (part + 1) * N]
            check(out, expected(sums), 2e-3)
