"""Attention of a server: caches in pages, appended and narrow ones, windows with sinks, splits that meet."""

import math

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from everywhere import TARGETS, blank, check, everywhere, run
from ml_dtypes import bfloat16 as BF16

RNG = np.random.default_rng


# One query for each sequence; its keys lie in pages that a table names, and a sink takes part in the softmax.
def paged(heads, kv_heads, D, page, window):
    group = heads // kv_heads
    R = max(16, group)
    B, pages, width = T.dynamic("B, pages, width")
    scale = 1 / math.sqrt(D)

    @T.prim_func
    def main(
        Q: T.Tensor((B, heads, D), "float16"),
        KV: T.Tensor((pages, 2, page, kv_heads, D), "float16"),
        table: T.Tensor((B, width), "int32"),
        lens: T.Tensor((B,), "int32"),
        sinks: T.Tensor((heads,), "float32"),
        O: T.Tensor((B, heads, D), "float16"),
        LSE: T.Tensor((B, heads), "float32"),
    ):
        with T.Kernel(kv_heads, B, threads=64) as (h, b):
            q = T.alloc_shared((R, D), "float16")
            ks = T.alloc_shared((page, D), "float16")
            vs = T.alloc_shared((page, D), "float16")
            s = T.alloc_fragment((R, page), "float32")
            p = T.alloc_fragment((R, page), "float16")
            acc = T.alloc_fragment((R, D), "float32")
            m, m0, l, part = [T.alloc_fragment((R,), "float32") for _ in range(4)]
            n = lens[b]
            T.clear(q)
            T.copy(Q[b, h * group : (h + 1) * group, :], q[0:group, :])
            T.clear(acc)
            for i in T.Parallel(R):
                m[i] = T.if_then_else(i < group, sinks[h * group + i], 0.0)
                l[i] = 1.0
            first = T.max(n - window, 0) // page
            for t in T.serial(first, T.ceildiv(n, page)):
                pg = table[b, t]
                T.copy(KV[pg, 0, :, h, :], ks)
                T.copy(KV[pg, 1, :, h, :], vs)
                T.gemm(q, ks, s, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullCol)
                T.copy(m, m0)
                for i, j in T.Parallel(R, page):
                    pos = t * page + j
                    s[i, j] = T.if_then_else(
                        (pos < n) and (pos >= n - window), s[i, j] * scale, -T.infinity("float32")
                    )
                T.reduce_max(s, m, dim=1, clear=False)
                for i, j in T.Parallel(R, page):
                    s[i, j] = T.exp(s[i, j] - m[i])
                T.reduce_sum(s, part, dim=1)
                for i in T.Parallel(R):
                    l[i] = l[i] * T.exp(m0[i] - m[i]) + part[i]
                for i, j in T.Parallel(R, D):
                    acc[i, j] *= T.exp(m0[i] - m[i])
                T.copy(s, p)
                T.gemm(p, vs, acc, policy=T.GemmWarpPolicy.FullCol)
            for i, j in T.Parallel(R, D):
                if i < group:
                    O[b, h * group + i, j] = acc[i, j] / l[i]
            for i in T.Parallel(R):
                if i < group:
                    LSE[b, h * group + i] = m[i] + T.log(l[i])

    return main


@everywhere
def test_paged_decode(target):
    rng = RNG(0)
    for heads, groups, D, page, window, lens in (
        (4, 2, 32, 16, 1000, [0, 1, 17, 40]),
        (6, 2, 64, 16, 20, [33, 100]),
        (8, 1, 16, 32, 5, [64]),
    ):
        B, width, share = len(lens), 7, heads // groups
        pages = B * width + 3
        table = rng.permutation(pages)[: B * width].reshape(B, width).astype("i4")
        q = rng.standard_normal((B, heads, D)).astype("f2")
        kv = rng.standard_normal((pages, 2, page, groups, D)).astype("f2")
        sinks = rng.standard_normal(heads).astype("f4")
        o, lse = np.zeros((B, heads, D)), np.zeros((B, heads))
        for b, n in enumerate(lens):
            k, v = (
                kv[table[b], i].reshape(-1, groups, D)[max(0, n - window) : n].astype("f8") for i in (0, 1)
            )
            for h in range(heads):
                s = np.append(k[:, h // share] @ q[b, h].astype("f8") / math.sqrt(D), sinks[h])
                e = np.exp(s - s.max())
                o[b, h], lse[b, h] = e[:-1] @ v[:, h // share] / e.sum(), s.max() + np.log(e.sum())
        found, found_lse = blank(o.shape, "f2"), blank(lse.shape)
        run(
            paged(heads, groups, D, page, window),
            target,
            q,
            kv,
            table,
            np.array(lens, "i4"),
            sinks,
            found,
            found_lse,
        )
        check(found, o, 2e-3)
        check(found_lse, lse, 1e-3)


# The eager dialect: causal attention through a window, with sinks and, if asked for, capped scores.
def swa(Q, K, V, sink, window: int, cap: float = 0.0, bM: int = 16, bN: int = 16):
    H, D = T.const("H, D")
    L = T.dynamic("L")
    Q: T.Tensor((L, H, D), T.float16)
    K: T.Tensor((L, H, D), T.float16)
    V: T.Tensor((L, H, D), T.float16)
    sink: T.Tensor((H,), T.float32)
    O = T.empty((L, H, D), T.float16)
    with T.Kernel(T.ceildiv(L, bM), H, threads=64) as (bx, h):
        q = T.alloc_shared((bM, D))
        ks = T.alloc_shared((bN, D))
        vs = T.alloc_shared((bN, D))
        s = T.alloc_fragment((bM, bN), "float32")
        p = T.alloc_fragment((bM, bN), "float16")
        acc = T.alloc_fragment((bM, D), "float32")
        m, m0, l, r = [T.alloc_fragment((bM,), "float32") for _ in range(4)]
        T.copy(Q[bx * bM : (bx + 1) * bM, h, :], q)
        T.clear(acc)
        T.fill(m, sink[h])
        T.fill(l, 1.0)
        for k in T.serial(T.max(bx * bM - window + 1, 0) // bN, T.ceildiv(T.min((bx + 1) * bM, L), bN)):
            T.copy(K[k * bN : (k + 1) * bN, h, :], ks)
            T.copy(V[k * bN : (k + 1) * bN, h, :], vs)
            T.gemm(q, ks, s, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(bM, bN):
                x = s[i, j] * D**-0.5
                if cap > 0:
                    x = T.tanh(x / cap) * cap
                a, b = bx * bM + i, k * bN + j
                s[i, j] = T.if_then_else((b <= a) & (b > a - window), x, -T.infinity("float32"))
            T.copy(m, m0)
            T.reduce_max(s, m, dim=1, clear=False)
            for i, j in T.Parallel(bM, bN):
                s[i, j] = T.exp(s[i, j] - m[i])
            T.reduce_sum(s, r, dim=1)
            for i in T.Parallel(bM):
                l[i] = l[i] * T.exp(m0[i] - m[i]) + r[i]
            for i, j in T.Parallel(bM, D):
                acc[i, j] *= T.exp(m0[i] - m[i])
            T.copy(s, p)
            T.gemm(p, vs, acc)
        for i, j in T.Parallel(bM, D):
            acc[i, j] = acc[i, j] / l[i]
        T.copy(acc, O[bx * bM : (bx + 1) * bM, h, :])
    return O


@pytest.mark.parametrize("target", TARGETS)
def test_window_with_sinks(target):
    rng, kernel = RNG(1), tilelang.jit(swa, target=target)
    for L, H, D, window, cap in ((40, 2, 16, 7, 0.0), (16, 1, 32, 100, 5.0), (35, 1, 16, 1, 2.0)):
        q, k, v = (rng.standard_normal((L, H, D)).astype("f2") for _ in "qkv")
        sink = rng.standard_normal(H).astype("f4")
        s = np.einsum("ihd,jhd->hij", q.astype("f8"), k.astype("f8")) * D**-0.5
        s = np.tanh(s / cap) * cap if cap else s
        i, j = np.arange(L)[:, None], np.arange(L)
        e = np.where((j <= i) & (j > i - window), np.exp(s), 0)
        w = e / (e.sum(-1, keepdims=True) + np.exp(sink.astype("f8"))[:, None, None])
        check(kernel(q, k, v, sink, window, cap), np.einsum("hij,jhd->ihd", w, v.astype("f8")), 2e-3)


# The three projections, rotated by halves, and appended to a cache at slots of 64 bits; V's cache is strided.
def qkv(H, KH, D, dm, bM):
    n, slots = T.dynamic("n, slots")
    tot = (H + 2 * KH) * D

    @T.prim_func
    def main(
        X: T.Tensor((n, dm), "bfloat16"),
        W: T.Tensor((tot, dm), "bfloat16"),
        bias: T.Tensor((tot,), "float32"),
        pos: T.Tensor((n,), "int64"),
        cs: T.Tensor((2, 128, D // 2), "float32"),
        slot: T.Tensor((n,), "int64"),
        Q: T.Tensor((n, H, D), "bfloat16"),
        Kc: T.Tensor((slots, KH, D), "bfloat16"),
        Vc: T.StridedTensor((slots, KH, D), (KH * D * 2, D * 2, 2), "bfloat16"),
    ):
        with T.Kernel(H + 2 * KH, T.ceildiv(n, bM), threads=64) as (h, by):
            xs = T.alloc_shared((bM, 32), "bfloat16")
            ws = T.alloc_shared((D, 32), "bfloat16")
            acc = T.alloc_fragment((bM, D), "float32")
            tile = T.alloc_shared((bM, D), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(dm, 32), num_stages=2):
                T.copy(X[by * bM, k * 32], xs)
                T.copy(W[h * D, k * 32], ws)
                T.gemm(xs, ws, acc, transpose_B=True)
            for i, j in T.Parallel(bM, D):
                acc[i, j] += bias[h * D + j]
            T.copy(acc, tile)
            if h < H + KH:
                for i, j in T.Parallel(bM, D // 2):
                    r = by * bM + i
                    if r < n:
                        p = pos[r]
                        c, s = cs[0, p, j], cs[1, p, j]
                        a, b = tile[i, j], tile[i, j + D // 2]
                        y0, y1 = a * c - b * s, b * c + a * s
                        if h < H:
                            Q[r, h, j] = y0
                            Q[r, h, j + D // 2] = y1
                        else:
                            if slot[r] >= 0:
                                Kc[slot[r], h - H, j] = y0
                                Kc[slot[r], h - H, j + D // 2] = y1
            else:
                for i, j in T.Parallel(bM, D):
                    r = by * bM + i
                    if r < n and slot[r] >= 0:
                        Vc[slot[r], h - H - KH, j] = tile[i, j]

    return main


@everywhere
def test_qkv_rotary_append(target):
    rng = RNG(2)
    for n, H, G, D, width in ((5, 2, 1, 32, 40), (17, 4, 2, 16, 64), (33, 1, 1, 32, 96)):
        heads, slots = H + 2 * G, 64
        x, w = (rng.standard_normal(s).astype(BF16) for s in ((n, width), (heads * D, width)))
        bias, at = rng.standard_normal(heads * D).astype("f4"), rng.integers(0, 128, n)
        slot = rng.permutation(slots)[:n].astype("i8")
        slot[n // 2] = -1  # not kept
        angle = np.arange(128)[:, None] * 10000.0 ** (-np.arange(D // 2) / (D // 2))
        table = np.stack([np.cos(angle), np.sin(angle)]).astype("f4")
        y = (x.astype("f8") @ w.astype("f8").T + bias).reshape(n, -1, D)
        a, b = y[..., : D // 2], y[..., D // 2 :]
        c, s = (t[at][:, None].astype("f8") for t in table)
        turned = np.concatenate([a * c - b * s, b * c + a * s], -1)
        keys, values = (
            rng.standard_normal((slots, G, D)).astype(BF16),
            rng.standard_normal((slots, G, D, 2)).astype(BF16),
        )
        ek, ev, kept = keys.astype("f8"), values.astype("f8"), slot >= 0
        ek[slot[kept]], ev[slot[kept], ..., 0] = turned[kept, H : H + G], y[kept, H + G :]
        q = np.full((n, H, D), np.nan, BF16)
        run(qkv(H, G, D, width, 16), target, x, w, bias, at, table, slot, q, keys, values[..., 0])
        check(q, turned[:, :H], 5e-3)
        check(keys, ek, 5e-3)
        check(values, ev, 5e-3)


# A cache in four bits, with a scale and a zero point for each group; a second kernel reads it by words.
def kvquant(H, D, G):
    n = T.dynamic("n")

    @T.prim_func
    def main(
        X: T.Tensor((n, H, D), "float16"),
        P: T.Tensor((n, H, D // 2), "uint8"),
        s: T.Tensor((n, H, D // G), "float16"),
        z: T.Tensor((n, H, D // G), "uint8"),
        back: T.Tensor((n, H, D), "float32"),
    ):
        with T.Kernel(H, T.ceildiv(n, 8), threads=64) as (h, b):
            x = T.alloc_fragment((8, D // G, G), "float32")
            hi, lo = [T.alloc_fragment((8, D // G), "float32") for _ in range(2)]
            q = T.alloc_shared((8, D), "uint8")
            for i, g, j in T.Parallel(8, D // G, G):
                x[i, g, j] = T.cast(X[b * 8 + i, h, g * G + j], "float32")
            T.reduce_max(x, hi, dim=2)
            T.reduce_min(x, lo, dim=2)
            for i, g in T.Parallel(8, D // G):
                sc = T.cast(T.max((hi[i, g] - lo[i, g]) / 15.0, 1e-5), "float16")
                zp = T.clamp(T.round(-lo[i, g] / T.cast(sc, "float32")), 0.0, 15.0)
                if b * 8 + i < n:
                    s[b * 8 + i, h, g] = sc
                    z[b * 8 + i, h, g] = T.cast(zp, "uint8")
                hi[i, g] = T.cast(sc, "float32")
                lo[i, g] = zp
            for i, g, j in T.Parallel(8, D // G, G):
                q[i, g * G + j] = T.cast(
                    T.clamp(T.round(x[i, g, j] / hi[i, g]) + lo[i, g], 0.0, 15.0), "uint8"
                )
            for i, j in T.Parallel(8, D // 2):
                if b * 8 + i < n:
                    P[b * 8 + i, h, j] = q[i, 2 * j] | (q[i, 2 * j + 1] << 4)
        with T.Kernel(T.ceildiv(n * H, 16), threads=32) as b:
            Pf = T.view(P, (n * H, D // 8), "uint32")
            for i, j in T.Parallel(16, D):
                r = b * 16 + i
                if r < n * H:
                    c = T.unpack_uint(4, Pf[r, j // 8], j % 8, "int32")
                    t, h = r // H, r % H
                    back[t, h, j] = T.cast(c - T.cast(z[t, h, j // G], "int32"), "float32") * T.cast(
                        s[t, h, j // G], "float32"
                    )

    return main


@everywhere
def test_cache_of_four_bits(target):
    rng = RNG(3)
    for n, H, D, G in ((5, 2, 32, 16), (17, 1, 64, 32), (8, 3, 16, 8)):
        x = (rng.standard_normal((n, H, D)) * 3).astype("f2")
        x[0], x[1, 0] = 1.0, 0.0
        parts = x.astype("f4").reshape(n, H, D // G, G)
        high, low = parts.max(-1), parts.min(-1)
        scale = np.maximum((high - low) / np.float32(15), np.float32(1e-5)).astype("f2")
        wide = scale.astype("f4")
        zero = np.clip(np.rint(-low / wide), 0, 15)
        codes = np.clip(np.rint(parts / wide[..., None]) + zero[..., None], 0, 15)
        q, back = codes.astype("u1").reshape(n, H, D), (codes - zero[..., None]) * wide[..., None]
        found = [
            blank((n, H, D // 2), "u1"),
            blank(scale.shape, "f2"),
            blank(scale.shape, "u1"),
            blank(x.shape),
        ]
        run(kvquant(H, D, G), target, x, *found)
        expected = q[..., ::2] | q[..., 1::2] << 4, scale, zero.astype("u1"), back.reshape(x.shape)
        for one, other in zip(found, expected, strict=True):
            check(one, other)


# Parts of attention that several blocks found, joined by their logarithms; parts without a key are left out.
def merge(S, D):
    B, H = T.dynamic("B, H")

    @T.prim_func
    def main(
        O: T.Tensor((S, B, H, D), "float32"),
        L: T.StridedTensor((S, B, H), (1, H * S, S), "float32"),
        out: T.Tensor((B * H, D), "bfloat16"),
        lse: T.Tensor((B, H), "float32"),
    ):
        with T.Kernel(T.ceildiv(B * H, 4), threads=64) as b:
            m, z = T.alloc_fragment((4,), "float32"), T.alloc_fragment((4,), "float32")
            l = T.alloc_fragment((S, 4), "float32")
            o = T.alloc_fragment((4, D), "float32")
            Of = T.reshape(O, (S, B * H, D))
            lf = T.reshape(lse, (B * H,))
            for s, i in T.Parallel(S, 4):
                r = b * 4 + i
                l[s, i] = T.if_then_else(r < B * H, L[s, r // H, r % H], 0.0)
            T.reduce_max(l, m, dim=0)
            for i in T.Parallel(4):
                m[i] = T.if_then_else(m[i] == -T.infinity("float32"), 0.0, m[i])
            for s, i in T.Parallel(S, 4):
                l[s, i] = T.exp(l[s, i] - m[i])
            T.reduce_sum(l, z, dim=0)
            T.clear(o)
            for s in T.serial(S):
                for i, d in T.Parallel(4, D):
                    o[i, d] += T.if_then_else(l[s, i] > 0, l[s, i] * Of[s, b * 4 + i, d], 0.0)
            for i, d in T.Parallel(4, D):
                o[i, d] = T.if_then_else(z[i] > 0, o[i, d] / z[i], 0.0)
            T.copy(o, out[b * 4, 0])
            for i in T.Parallel(4):
                lf[b * 4 + i] = m[i] + T.log(z[i])

    return main


@everywhere
def test_merge_of_parts(target):
    rng = RNG(4)
    for S, B, H, D in ((3, 2, 3, 16), (5, 1, 2, 40), (2, 5, 2, 8)):
        parts = rng.standard_normal((S, B, H, D)).astype("f4")
        sums = (rng.standard_normal((B, H, S)) * 5).astype("f4")
        sums[0, 0], sums[-1, -1, 0], parts[0, 0, 0] = -np.inf, -np.inf, np.nan
        strided = sums.transpose(2, 0, 1)
        top = np.where(np.isinf(strided.max(0)), 0, strided.max(0)).astype("f8")
        w = np.exp(strided - top)
        total = np.where(w[..., None] > 0, w[..., None] * parts, 0).sum(0)
        expected = total / np.where(w.sum(0) > 0, w.sum(0), 1)[..., None]
        found, lse = np.full((B * H, D), np.nan, BF16), blank((B, H))
        run(merge(S, D), target, parts, strided, found, lse)
        check(found, expected.reshape(B * H, D), 5e-3)
        with np.errstate(divide="ignore"):
            assert np.allclose(lse, top + np.log(w.sum(0)), atol=1e-5)
