"""Routed experts, adapters behind addresses, bags of embeddings, recurrences, persistent blocks."""

import math

import numpy as np
import tilelang.language as T
from everywhere import blank, check, everywhere, run
from ml_dtypes import bfloat16 as BF16

RNG = np.random.default_rng


# Tokens are counted, permuted, multiplied expert by expert, and put back; all counts stay on the device.
def moe(E, topk, K, N, bM, bN, bK):
    n = T.dynamic("n")

    @T.prim_func
    def main(
        X: T.Tensor((n, K), "float16"),
        ids: T.Tensor((n, topk), "int32"),
        wt: T.Tensor((n, topk), "float32"),
        W: T.Tensor((E, K, N), "float16"),
        Y: T.Tensor((n, N), "float32"),
        load: T.Tensor((E,), "int32"),
    ):
        count = T.alloc_global((E,), "int32")
        start = T.alloc_global((E + 1,), "int32")
        tiles = T.alloc_global((E + 1,), "int32")
        row = T.alloc_global((n * topk,), "int32")
        where = T.alloc_global((n, topk), "int32")
        Z = T.alloc_global((n * topk, N), "float16")
        with T.Kernel(1, threads=64):
            for e in T.Parallel(E):
                count[e] = 0
        with T.Kernel(T.ceildiv(n, 32), threads=32) as b:
            for i, k in T.Parallel(32, topk):
                if b * 32 + i < n:
                    T.atomic_add(count[ids[b * 32 + i, k]], 1)
        with T.Kernel(1, threads=64):
            c = T.alloc_shared((E,), "int32")
            s = T.alloc_shared((E,), "int32")
            T.copy(count, c)
            T.copy(c, load)
            T.cumsum(c, s)
            for e in T.Parallel(E):
                start[e + 1] = s[e]
            for e in T.Parallel(E):
                c[e] = T.ceildiv(c[e], bM)
            T.cumsum(c)
            for e in T.Parallel(E):
                tiles[e + 1] = c[e]
                count[e] = 0
            for _ in T.Parallel(1):
                start[0] = 0
                tiles[0] = 0
        with T.Kernel(T.ceildiv(n, 32), threads=32) as b:
            for i, k in T.Parallel(32, topk):
                if b * 32 + i < n:
                    e = ids[b * 32 + i, k]
                    at = start[e] + T.atomic_add(count[e], 1, return_prev=True)
                    row[at] = T.cast(b * 32 + i, "int32")
                    where[b * 32 + i, k] = at
        with T.Kernel(T.ceildiv(N, bN), T.ceildiv(n * topk, bM) + E, threads=64) as (bx, by):
            e = T.alloc_var("int32", 0)
            if by < tiles[E]:
                while tiles[e + 1] <= by:
                    e += 1
                first = start[e] + (by - tiles[e]) * bM
                rows = T.min(start[e + 1] - first, bM)
                xs = T.alloc_shared((bM, bK), "float16")
                ws = T.alloc_shared((bK, bN), "float16")
                acc = T.alloc_fragment((bM, bN), "float32")
                T.clear(acc)
                for k in T.Pipelined(T.ceildiv(K, bK), num_stages=2):
                    for i, j in T.Parallel(bM, bK):
                        xs[i, j] = T.if_then_else(i < rows, X[row[first + i], k * bK + j], 0)
                    T.copy(W[e, k * bK, bx * bN], ws)
                    T.gemm(xs, ws, acc)
                for i, j in T.Parallel(bM, bN):
                    if i < rows:
                        Z[first + i, bx * bN + j] = acc[i, j]
        with T.Kernel(T.ceildiv(N, 32), n, threads=32) as (bx, t):
            for j in T.Parallel(32):
                tot = T.alloc_var("float32", 0.0)
                for k in T.serial(topk):
                    tot += wt[t, k] * T.cast(Z[where[t, k], bx * 32 + j], "float32")
                Y[t, bx * 32 + j] = tot

    return main


@everywhere
def test_experts_with_counts_on_the_device(target):
    rng = RNG(0)
    for n, E, best, K, N in ((5, 4, 2, 20, 24), (40, 8, 2, 33, 40), (70, 3, 1, 64, 16)):
        x, w = rng.standard_normal((n, K)).astype("f2"), rng.standard_normal((E, K, N)).astype("f2")
        ids = np.stack([rng.permutation(E)[:best] for _ in range(n)]).astype("i4")
        ids[ids == 1] = 0  # nobody asks expert 1
        share = rng.random((n, best)).astype("f4")
        exact = sum(
            share[:, e, None] * np.einsum("nk,nkm->nm", x.astype("f8"), w.astype("f8")[ids[:, e]])
            for e in range(best)
        )
        found, load = blank((n, N)), blank(E, "i4")
        run(moe(E, best, K, N, 16, 16, 32), target, x, ids, share, w, found, load)
        check(load, np.bincount(ids.ravel(), minlength=E))
        check(found, exact, 1e-3)


# Each segment of tokens has an adapter of its own, found through a table of addresses, or none.
def sgmv(K, R, N, bM=16):
    n, segs, loras = T.dynamic("n, segs, loras")

    @T.prim_func
    def main(
        X: T.Tensor((n, K), "float16"),
        As: T.Tensor((loras,), T.ptr),
        Bs: T.Tensor((loras,), T.ptr),
        seg: T.Tensor((segs + 1,), "int32"),
        which: T.Tensor((segs,), "int64"),
        rank: T.Tensor((loras,), "int32"),
        scale: T.Tensor((loras,), "float32"),
        Y: T.Tensor((n, N), "float32"),
    ):
        with T.Kernel(segs, T.ceildiv(n, bM), threads=64) as (s, by):
            xs = T.alloc_shared((bM, 32), "float16")
            a = T.alloc_shared((R, 32), "float16")
            mid = T.alloc_fragment((bM, R), "float32")
            mids = T.alloc_shared((bM, R), "float16")
            bt = T.alloc_shared((32, R), "float16")
            acc = T.alloc_fragment((bM, 32), "float32")
            l = which[s]
            first, end = seg[s] + by * bM, seg[s + 1]
            if l >= 0 and first < end:
                A = T.make_tensor(As[l], (R, K), "float16")
                Bt = T.make_tensor(Bs[l], (N, R), "float16")
                T.clear(mid)
                for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
                    T.copy(X[first, k * 32], xs)
                    T.copy(A[0, k * 32], a)
                    T.gemm(xs, a, mid, transpose_B=True)
                for i, j in T.Parallel(bM, R):
                    mids[i, j] = T.if_then_else(j < rank[l], mid[i, j] * scale[l], 0)
                for nb in T.serial(T.ceildiv(N, 32)):
                    T.copy(Bt[nb * 32, 0], bt)
                    T.gemm(mids, bt, acc, transpose_B=True, clear_accum=True)
                    for i, j in T.Parallel(bM, 32):
                        if first + i < end and nb * 32 + j < N:
                            Y[first + i, nb * 32 + j] += acc[i, j]

    return main


def test_adapters_behind_addresses():
    rng = RNG(1)
    for lens, K, R, N in (([3, 20, 1], 40, 16, 33), ([5], 64, 8, 64), ([0, 17], 32, 16, 8)):
        seg = np.concatenate([[0], np.cumsum(lens)]).astype("i4")
        n, L = int(seg[-1]), 3
        down = [rng.standard_normal((R, K)).astype("f2") for _ in range(L)]
        up = [rng.standard_normal((N, R)).astype("f2") for _ in range(L)]
        which = np.array([1, -1, 2])[: len(lens)].astype("i8")
        rank, scale = np.array([R, R // 2, R], "i4"), rng.random(L).astype("f4")
        x, y = rng.standard_normal((n, K)).astype("f2"), rng.standard_normal((n, N)).astype("f4")
        exact = y.astype("f8")
        for s, a in enumerate(which):
            rows = slice(seg[s], seg[s + 1])
            if a >= 0:
                mid = (x[rows].astype("f8") @ down[a].astype("f8").T)[:, : rank[a]] * scale[a]
                exact[rows] += mid @ up[a][:, : rank[a]].astype("f8").T
        tables = [np.array([m.ctypes.data for m in ms], "i8") for ms in (down, up)]
        run(sgmv(K, R, N), "cpu", x, *tables, seg, which, rank, scale, y)
        check(y, exact, 2e-3)


# Rows of a table, weighted, and summed, averaged or their maximum with its place; a padding is passed over.
def bag(D, mode, pad):
    V, n, B = T.dynamic("V, n, B")

    @T.prim_func
    def main(
        W: T.Tensor((V, D), "bfloat16"),
        idx: T.Tensor((n,), "int64"),
        off: T.Tensor((B,), "int64"),
        w: T.Tensor((n,), "float32"),
        O: T.Tensor((B, D), "float32"),
        arg: T.Tensor((B, D), "int64"),
    ):
        with T.Kernel(T.ceildiv(D, 32), B, threads=32) as (bx, b):
            acc = T.alloc_fragment((32,), "float32")
            at = T.alloc_fragment((32,), "int64")
            cnt = T.alloc_var("int64", 0)
            T.fill(acc, -T.infinity("float32") if mode == "max" else 0.0)
            T.fill(at, -1)
            end = T.if_then_else(b + 1 < B, off[b + 1], n)
            for i in T.serial(off[b], end):
                r = idx[i]
                if r == pad:
                    continue
                cnt += 1
                for j in T.Parallel(32):
                    x = T.cast(W[r, bx * 32 + j], "float32") * w[i]
                    if mode == "max":
                        if x > acc[j]:
                            acc[j] = x
                            at[j] = r
                    else:
                        acc[j] += x
            for j in T.Parallel(32):
                if mode == "max":
                    acc[j] = T.if_then_else(cnt > 0, acc[j], 0)
                elif mode == "mean":
                    acc[j] = acc[j] / T.cast(T.max(cnt, 1), "float32")
            T.copy(acc, O[b, bx * 32])
            T.copy(at, arg[b, bx * 32])

    return main


@everywhere
def test_bags_of_embeddings(target):
    rng, pad = RNG(2), 1
    for V, n, D, first in ((50, 20, 40, [0, 0, 7, 20]), (3, 5, 32, [0, 2]), (10, 0, 8, [0])):
        table, at = rng.standard_normal((V, D)).astype(BF16), rng.integers(0, V, n)
        w, B = rng.standard_normal(n).astype("f4"), len(first)
        for mode in ("sum", "mean", "max"):
            exact, place = np.zeros((B, D)), np.full((B, D), -1, "i8")
            for b, (lo, hi) in enumerate(zip(first, [*first[1:], n], strict=True)):
                rows = [i for i in range(lo, hi) if at[i] != pad]
                if rows:
                    x = table[at[rows]].astype("f4") * w[rows, None]
                    exact[b] = getattr(x.astype("f8"), mode)(0)
                    place[b] = at[rows][x.argmax(0)] if mode == "max" else -1
            found, where = blank((B, D)), blank((B, D), "i8")
            run(bag(D, mode, pad), target, table, at, np.array(first, "i8"), w, found, where)
            check(found, exact, 1e-5)
            check(where, place)


# A state-space layer in chunks: within a chunk products of tiles, between chunks the state.
def ssd(H, P, Nst, Ck):
    B, L = T.dynamic("B, L")

    @T.prim_func
    def main(
        x: T.Tensor((B, L, H, P), "float16"),
        dt: T.Tensor((B, L, H), "float32"),
        A: T.Tensor((H,), "float32"),
        Bm: T.Tensor((B, L, Nst), "float16"),
        Cm: T.Tensor((B, L, Nst), "float16"),
        D: T.Tensor((H,), "float32"),
        h0: T.Tensor((B, H, P, Nst), "float32"),
        y: T.Tensor((B, L, H, P), "float32"),
        hT: T.Tensor((B, H, P, Nst), "float32"),
    ):
        with T.Kernel(H, B, threads=64) as (h, b):
            st = T.alloc_fragment((P, Nst), "float32")
            sts = T.alloc_shared((P, Nst), "float16")
            cs = T.alloc_shared((Ck,), "float32")
            d = T.alloc_shared((Ck,), "float32")
            xs = T.alloc_shared((Ck, P), "float16")
            bs = T.alloc_shared((Ck, Nst), "float16")
            c = T.alloc_shared((Ck, Nst), "float16")
            xw = T.alloc_shared((Ck, P), "float16")
            s = T.alloc_fragment((Ck, Ck), "float32")
            sh = T.alloc_shared((Ck, Ck), "float16")
            o = T.alloc_fragment((Ck, P), "float32")
            T.copy(h0[b, h, :, :], st)
            for k in T.serial(T.ceildiv(L, Ck)):
                for i in T.Parallel(Ck):
                    d[i] = dt[b, k * Ck + i, h]
                    cs[i] = dt[b, k * Ck + i, h] * A[h]
                T.cumsum(cs)
                T.copy(x[b, k * Ck : (k + 1) * Ck, h, :], xs)
                T.copy(Bm[b, k * Ck, 0], bs)
                T.copy(Cm[b, k * Ck, 0], c)
                T.copy(st, sts)
                T.gemm(c, sts, o, transpose_B=True, clear_accum=True)
                for i, p in T.Parallel(Ck, P):
                    o[i, p] = o[i, p] * T.exp(cs[i])
                T.gemm(c, bs, s, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(Ck, Ck):
                    sh[i, j] = T.if_then_else(j <= i, s[i, j] * T.exp(cs[i] - cs[j]) * d[j], 0)
                T.gemm(sh, xs, o)
                for i, p in T.Parallel(Ck, P):
                    if k * Ck + i < L:
                        y[b, k * Ck + i, h, p] = o[i, p] + D[h] * T.cast(xs[i, p], "float32")
                for i, p in T.Parallel(Ck, P):
                    xw[i, p] = T.cast(xs[i, p], "float32") * d[i] * T.exp(cs[Ck - 1] - cs[i])
                for p, n in T.Parallel(P, Nst):
                    st[p, n] = st[p, n] * T.exp(cs[Ck - 1])
                T.gemm(xw, bs, st, transpose_A=True)
            T.copy(st, hT[b, h, :, :])

    return main


@everywhere
def test_chunked_scan_of_states(target):
    rng = RNG(3)
    for B, L, H, P, N in ((1, 20, 2, 16, 16), (2, 33, 1, 16, 32), (1, 1, 1, 32, 16)):
        x, dt = rng.standard_normal((B, L, H, P)).astype("f2"), rng.uniform(0.01, 0.3, (B, L, H)).astype("f4")
        a, d = -rng.uniform(0.5, 2, H).astype("f4"), rng.random(H).astype("f4")
        b, c = (rng.standard_normal((B, L, N)).astype("f2") for _ in "bc")
        first = rng.standard_normal((B, H, P, N)).astype("f4")
        h, y = first.astype("f8"), np.zeros((B, L, H, P))
        for t in range(L):
            step = dt[:, t].astype("f8")
            h = h * np.exp(step * a)[..., None, None]
            h = h + (step[..., None] * x[:, t])[..., None] * b[:, t, None, None].astype("f8")
            y[:, t] = np.einsum("bhpn,bn->bhp", h, c[:, t].astype("f8")) + d[:, None] * x[:, t]
        found, last = blank(y.shape), blank(h.shape)
        run(ssd(H, P, N, 16), target, x, dt, a, b, c, d, first, found, last)
        check(found, y, 2e-3)
        check(last, h, 2e-3)


# The gated delta rule, step by step, on sequences that lie end to end; states in slots change in place.
def delta(H, Dk, Dv):
    total, B, slots = T.dynamic("total, B, slots")

    @T.prim_func
    def main(
        q: T.Tensor((total, H, Dk), "float16"),
        k: T.Tensor((total, H, Dk), "float16"),
        v: T.Tensor((total, H, Dv), "float16"),
        g: T.Tensor((total, H), "float32"),
        beta: T.Tensor((total, H), "float16"),
        cu: T.Tensor((B + 1,), "int64"),
        slot: T.Tensor((B,), "int32"),
        S: T.Tensor((slots, H, Dv, Dk), "float32"),
        o: T.Tensor((total, H, Dv), "float16"),
    ):
        with T.Kernel(B, H, threads=64) as (b, h):
            st = T.alloc_fragment((Dv, Dk), "float32")
            tmp = T.alloc_fragment((Dv, Dk), "float32")
            kv = T.alloc_fragment((Dv,), "float32")
            out = T.alloc_fragment((Dv,), "float32")
            kr = T.alloc_shared((Dk,), "float32")
            qr = T.alloc_shared((Dk,), "float32")
            T.copy(S[slot[b], h, :, :], st)
            for t in T.serial(cu[b], cu[b + 1]):
                T.copy(k[t, h, :], kr)
                T.copy(q[t, h, :], qr)
                nk = T.alloc_fragment((1,), "float32")
                sq = T.alloc_fragment((Dk,), "float32")
                for j in T.Parallel(Dk):
                    sq[j] = kr[j] * kr[j]
                T.reduce_sum(sq, nk, dim=0)
                for j in T.Parallel(Dk):
                    kr[j] = kr[j] * T.rsqrt(nk[0] + 1e-6)
                for i, j in T.Parallel(Dv, Dk):
                    st[i, j] *= T.exp(g[t, h])
                    tmp[i, j] = st[i, j] * kr[j]
                T.reduce_sum(tmp, kv, dim=1)
                for i, j in T.Parallel(Dv, Dk):
                    st[i, j] += (
                        T.cast(beta[t, h], "float32") * (T.cast(v[t, h, i], "float32") - kv[i]) * kr[j]
                    )
                for i, j in T.Parallel(Dv, Dk):
                    tmp[i, j] = st[i, j] * qr[j]
                T.reduce_sum(tmp, out, dim=1)
                T.copy(out, o[t, h, :])
            T.copy(st, S[slot[b], h, :, :])

    return main


@everywhere
def test_gated_delta_rule(target):
    rng = RNG(4)
    for lens, H, Dk, Dv in (([3, 0, 5], 2, 16, 32), ([1], 1, 32, 32), ([7, 2], 1, 48, 20)):
        first = np.concatenate([[0], np.cumsum(lens)]).astype("i8")
        n = first[-1]
        q, k, v = (rng.standard_normal((n, H, d)).astype("f2") for d in (Dk, Dk, Dv))
        g, beta = -rng.random((n, H)).astype("f4"), rng.random((n, H)).astype("f2")
        slot, state = (
            rng.permutation(6)[: len(lens)].astype("i4"),
            rng.standard_normal((6, H, Dv, Dk)).astype("f4"),
        )
        exact, o = state.astype("f8"), np.zeros((n, H, Dv))
        for b, s in enumerate(slot):
            for t in range(first[b], first[b + 1]):
                key = k[t].astype("f8")
                key /= np.sqrt((key * key).sum(-1, keepdims=True) + 1e-6)
                exact[s] *= np.exp(g[t].astype("f8"))[:, None, None]
                new = v[t].astype("f8") - np.einsum("hvk,hk->hv", exact[s], key)
                exact[s] += beta[t].astype("f8")[:, None, None] * new[..., None] * key[:, None]
                o[t] = np.einsum("hvk,hk->hv", exact[s], q[t].astype("f8"))
        found = blank(o.shape, "f2")
        run(delta(H, Dk, Dv), target, q, k, v, g, beta, first, slot, state, found)
        check(state, exact, 1e-5)
        check(found, o, 1e-3)


@T.macro
def gelu(x):
    return 0.5 * x * (1.0 + T.erf(x * 0.70710678))


# Blocks that stay on the chip take tiles from a scheduler; each tile is visited once.
def persistent(M, N, K, bM, bN, bK, P, dt):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), dt),
        B: T.Tensor((N, K), dt),
        C: T.Tensor((M, N), "float32"),
        visits: T.Tensor((T.ceildiv(M, bM), T.ceildiv(N, bN)), "int32"),
    ):
        with T.Kernel(P, threads=64) as b:
            s = T.PersistentTileScheduler(T.ceildiv(M, bM), T.ceildiv(N, bN), swizzle_size=2)
            a = T.alloc_shared((bM, bK), dt)
            w = T.alloc_shared((bN, bK), dt)
            acc = T.alloc_fragment((bM, bN), "float32")
            T.annotate_layout({a: T.make_swizzled_layout(a), w: T.make_swizzled_layout(w)})
            s.init(b)
            while s.valid():
                T.clear(acc)
                for k in T.Pipelined(T.ceildiv(K, bK), num_stages=3):
                    T.copy(A[s.m_idx * bM, k * bK], a)
                    T.copy(B[s.n_idx * bN, k * bK], w)
                    T.gemm(a, w, acc, transpose_B=True)
                for i, j in T.Parallel(bM, bN):
                    acc[i, j] = gelu(acc[i, j])
                T.copy(acc, C[s.m_idx * bM, s.n_idx * bN])
                for _ in T.Parallel(1):
                    T.atomic_add(visits[s.m_idx, s.n_idx], 1)
                s.next_tile()

    return main


@everywhere
def test_blocks_that_stay(target):
    rng = RNG(5)
    for M, N, K, P in ((70, 50, 40, 3), (16, 100, 33, 5), (33, 17, 8, 20)):
        a, b = rng.standard_normal((M, K)).astype("f2"), rng.standard_normal((N, K)).astype("f2")
        x = a.astype("f8") @ b.astype("f8").T
        visits, found = np.zeros((-(-M // 32), -(-N // 32)), "i4"), blank((M, N))
        run(persistent(M, N, K, 32, 32, 32, P, "float16"), target, a, b, found, visits)
        check(visits, np.ones_like(visits))
        check(found, 0.5 * x * (1 + np.vectorize(math.erf)(x * 0.70710678)), 1e-5)
