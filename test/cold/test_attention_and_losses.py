"""Routing, attention over windows and pages, losses, scans, scatters."""

import numpy as np
import tilelang.language as T
from everywhere import blank, check, everywhere, run
from ml_dtypes import bfloat16 as BF16


# MoE: the two best experts of a token and their weights, counts, offsets, and the tokens in order of experts.
def moe_route(E, D, bt=16, longest=64):
    n = T.dynamic("n")

    @T.prim_func
    def main(
        logits: T.Tensor((n, E), "float32"),
        X: T.Tensor((n, D), "float16"),
        expert: T.Tensor((n, 2), "int32"),
        weight: T.Tensor((n, 2), "float32"),
        offsets: T.Tensor((E + 1,), "int32"),
        place: T.Tensor((n, 2), "int32"),
        Xp: T.Tensor((2 * n, D), "float16"),
    ):
        counts = T.alloc_global((E,), "int32")
        with T.Kernel(1, threads=32):
            for e in T.Parallel(E):
                counts[e] = 0
        with T.Kernel(T.ceildiv(n, bt), threads=64) as bx:
            p = T.alloc_fragment((bt, E), "float32")
            which = T.alloc_fragment((bt, E), "int32")
            top = T.alloc_fragment((bt,), "float32")
            at = T.alloc_fragment((bt,), "int32")
            first = T.alloc_fragment((bt,), "float32")
            T.copy(logits[bx * bt, 0], p)
            for rank in range(2):
                T.reduce_max(p, top, dim=1)
                for i, e in T.Parallel(bt, E):
                    which[i, e] = T.if_then_else(p[i, e] == top[i], e, E)
                T.reduce_min(which, at, dim=1)
                for i, e in T.Parallel(bt, E):
                    if e == at[i]:
                        p[i, e] = -T.infinity("float32")
                if rank == 0:
                    T.copy(top, first)
                for i in T.Parallel(bt):
                    if bx * bt + i < n:
                        expert[bx * bt + i, rank] = at[i]
                        T.atomic_add(counts[at[i]], 1)
            for i, r in T.Parallel(bt, 2):
                other = T.exp(top[i] - first[i])
                weight[bx * bt + i, r] = T.Select(r == 0, 1.0, other) / (1.0 + other)
        with T.Kernel(1, threads=32):
            scan = T.alloc_shared((E,), "int32")
            T.copy(counts, scan)
            T.cumsum(scan)
            offsets[0] = 0
            T.copy(scan, offsets[1 : E + 1])
        with T.Kernel(T.ceildiv(2 * n, bt), threads=64) as bx:
            flat = T.reshape(expert, (2 * n,))
            same = T.alloc_fragment((bt, longest), "int32")
            part = T.alloc_fragment((bt,), "int32")
            before = T.alloc_fragment((bt,), "int32")
            T.clear(before)
            for k in T.serial(T.ceildiv(2 * n, longest)):
                for i, j in T.Parallel(bt, longest):
                    me, it = bx * bt + i, k * longest + j
                    hit = (it < me) & (it < 2 * n) & (flat[it] == flat[me])
                    same[i, j] = T.cast(hit, "int32")
                T.reduce_sum(same, part, dim=1)
                for i in T.Parallel(bt):
                    before[i] += part[i]
            for i in T.Parallel(bt):
                me = bx * bt + i
                if me < 2 * n:
                    place[me // 2, me % 2] = offsets[flat[me]] + before[i]
        with T.Kernel(n, 2, threads=32) as (token, r):
            to = place[token, r]
            T.copy(X[token, :], Xp[to, :])

    return main


@everywhere
def test_moe_route(target):
    n, E, D, rng = 45, 6, 20, np.random.default_rng(8)
    logits = rng.integers(-3, 4, (n, E)).astype("f4")  # many are equal
    x = rng.standard_normal((n, D)).astype("f2")
    expert, weight, offsets = blank((n, 2), "i4"), blank((n, 2)), blank(E + 1, "i4")
    place, xp = blank((n, 2), "i4"), blank((2 * n, D), "f2")
    run(moe_route(E, D), target, logits, x, expert, weight, offsets, place, xp)
    best = np.argsort(-logits, 1, kind="stable")[:, :2]
    w = np.exp(np.take_along_axis(logits, best, 1).astype("f8"))
    assert np.array_equal(expert, best)
    check(weight, w / w.sum(1, keepdims=True), 1e-6)
    assert np.array_equal(offsets, np.concatenate([[0], np.cumsum(np.bincount(best.ravel(), minlength=E))]))
    order = np.argsort(best.ravel(), kind="stable")
    assert np.array_equal(place.ravel()[order], np.arange(2 * n))
    assert np.array_equal(xp, np.repeat(x, 2, 0)[order])


# Causal attention through a sliding window, grouped queries, soft-capped scores; 48 wide.
def window_attention(L, H, G, D, window, cap, bM=32, bN=16):
    scale = D**-0.5

    @T.prim_func
    def main(
        Q: T.Tensor((L, H, D), "float16"),
        K: T.Tensor((L, G, D), "float16"),
        V: T.Tensor((L, G, D), "float16"),
        O: T.Tensor((L, H, D), "float16"),
        lse: T.Tensor((H, L), "float32"),
    ):
        with T.Kernel(T.ceildiv(L, bM), H, threads=64) as (bx, h):
            q, k = T.alloc_shared((bM, D), "float16"), T.alloc_shared((bN, D), "float16")
            v = T.alloc_shared((bN, D), "float16")
            s = T.alloc_fragment((bM, bN), "float32")
            w = T.alloc_fragment((bM, bN), "float16")
            o = T.alloc_fragment((bM, D), "float32")
            top, old = T.alloc_fragment((bM,), "float32"), T.alloc_fragment((bM,), "float32")
            total, part = T.alloc_fragment((bM,), "float32"), T.alloc_fragment((bM,), "float32")
            T.copy(Q[bx * bM : (bx + 1) * bM, h, :], q)
            T.clear(o)
            T.clear(total)
            T.fill(top, -1e30)
            start = T.max(0, bx * bM - window + 1) // bN
            stop = T.ceildiv(T.min(L, (bx + 1) * bM), bN)
            for n in T.Pipelined(start, stop, num_stages=2):
                T.copy(K[n * bN : (n + 1) * bN, h // (H // G), :], k)
                T.copy(V[n * bN : (n + 1) * bN, h // (H // G), :], v)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(top, old)
                for i, j in T.Parallel(bM, bN):
                    row, column = bx * bM + i, n * bN + j
                    seen = (column <= row) & (row - column < window) & (column < L)
                    capped = cap * T.tanh(s[i, j] * (scale / cap))
                    s[i, j] = T.if_then_else(seen, capped, -T.infinity("float32"))
                T.reduce_max(s, top, dim=1, clear=False)
                for i, j in T.Parallel(bM, bN):
                    s[i, j] = T.exp(s[i, j] - top[i])
                T.reduce_sum(s, part, dim=1)
                for i in T.Parallel(bM):
                    total[i] = total[i] * T.exp(old[i] - top[i]) + part[i]
                for i, d in T.Parallel(bM, D):
                    o[i, d] = o[i, d] * T.exp(old[i] - top[i])
                T.copy(s, w)
                T.gemm(w, v, o, policy=T.GemmWarpPolicy.FullRow)
            for i, d in T.Parallel(bM, D):
                o[i, d] /= total[i]
            T.copy(o, O[bx * bM : (bx + 1) * bM, h, :])
            for i in T.Parallel(bM):
                lse[h, bx * bM + i] = top[i] + T.log(total[i])

    return main


@everywhere
def test_window_attention(target):
    L, H, G, D, window, cap, rng = 75, 4, 2, 48, 21, 5.0, np.random.default_rng(9)
    q, k, v = (rng.standard_normal((L, n, D)).astype("f2") for n in (H, G, G))
    o, lse = blank((L, H, D), "f2"), blank((H, L))
    run(window_attention(L, H, G, D, window, cap), target, q, k, v, o, lse)
    at = np.arange(L)
    seen = (at <= at[:, None]) & (at[:, None] - at < window)
    q64, k64, v64 = q.astype("f8"), np.repeat(k, H // G, 1).astype("f8"), np.repeat(v, H // G, 1).astype("f8")
    s = np.where(seen, cap * np.tanh(np.einsum("ihd,jhd->hij", q64, k64) * D**-0.5 / cap), -np.inf)
    w = np.exp(s)
    check(lse, np.log(w.sum(2)), 1e-3)
    check(o, np.einsum("hij,jhd->ihd", w / w.sum(2, keepdims=True), v64), 1e-3)


# New keys and values go into a paged cache (slot -1: none), then one query per sequence attends to its pages.
def append(H, D, pages, page):
    n = T.dynamic("n")
    Cache = T.Tensor((pages, page, H, D), "float16")

    @T.prim_func
    def main(
        Kn: T.Tensor((n, H, D), "float32"),
        Vn: T.Tensor((n, H, D), "float32"),
        slots: T.Tensor((n,), "int64"),
        KC: Cache,
        VC: Cache,
    ):
        with T.Kernel(n, threads=64) as token:
            slot = slots[token]
            if slot >= 0:
                for h, d in T.Parallel(H, D):
                    KC[slot // page, slot % page, h, d] = Kn[token, h, d]
                T.copy(Vn[token, :, :], VC[slot // page, slot % page, :, :])

    return main


def paged(B, H, D, pages, page, most):
    Cache = T.Tensor((pages, page, H, D), "float16")

    @T.prim_func
    def main(
        Q: T.Tensor((B, H, D), "float16"),
        KC: Cache,
        VC: Cache,
        table: T.Tensor((B, most), "int32"),
        lengths: T.Tensor((B,), "int32"),
        O: T.Tensor((B, H, D), "float32"),
    ):
        with T.Kernel(H, B, threads=64) as (h, b):
            k = T.alloc_shared((page, D), "float16")
            both = T.alloc_fragment((page, D), "float32")
            s = T.alloc_fragment((page,), "float32")
            top, part = T.alloc_fragment((1,), "float32"), T.alloc_fragment((1,), "float32")
            o, add = T.alloc_fragment((D,), "float32"), T.alloc_fragment((D,), "float32")
            total, old, factor = (T.alloc_var("float32", 0.0) for _ in range(3))
            T.clear(o)
            T.fill(top, -T.infinity("float32"))
            for n in T.serial(T.ceildiv(lengths[b], page)):
                T.copy(KC[table[b, n], :, h, :], k)
                for i, d in T.Parallel(page, D):
                    both[i, d] = T.cast(k[i, d], "float32") * Q[b, h, d]
                T.reduce_sum(both, s, dim=1)
                for i in T.Parallel(page):
                    s[i] = T.if_then_else(n * page + i < lengths[b], s[i] * D**-0.5, -T.infinity("float32"))
                old = top[0]
                T.reduce_max(s, top, dim=0, clear=False)
                factor = T.exp(old - top[0])
                for i in T.Parallel(page):
                    s[i] = T.exp(s[i] - top[0])
                T.reduce_sum(s, part, dim=0)
                total = total * factor + part[0]
                for i, d in T.Parallel(page, D):
                    inside = n * page + i < lengths[b]
                    both[i, d] = T.if_then_else(inside, s[i] * VC[table[b, n], i, h, d], 0.0)
                T.reduce_sum(both, add, dim=0)
                for d in T.Parallel(D):
                    o[d] = o[d] * factor + add[d]
            for d in T.Parallel(D):
                O[b, h, d] = T.if_then_else(lengths[b] > 0, o[d] / total, 0.0)

    return main


@everywhere
def test_paged_attention(target):
    B, H, D, page, pages, most, rng = 3, 2, 24, 8, 9, 4, np.random.default_rng(10)
    lengths = np.array([19, 0, 8], "i4")
    table = np.full((B, most), 2**30, "i4")
    table[0, :3], table[2, :1] = (7, 2, 5), (3,)
    tokens = [(b, t) for b in range(B) for t in range(lengths[b])]
    slots = np.array([table[b, t // page] * page + t % page for b, t in tokens] + [-1, -1], "i8")
    kn, vn = (rng.standard_normal((len(slots), H, D)).astype("f4") for _ in range(2))
    kc, vc = blank((pages, page, H, D), "f2"), blank((pages, page, H, D), "f2")
    run(append(H, D, pages, page), target, kn, vn, slots, kc, vc)
    for cache, new in ((kc, kn), (vc, vn)):
        expected = np.full((pages * page, H, D), np.nan, "f2")
        expected[slots[:-2]] = new[:-2]
        assert np.array_equal(cache, expected.reshape(cache.shape), equal_nan=True)
    q, o = rng.standard_normal((B, H, D)).astype("f2"), blank((B, H, D))
    run(paged(B, H, D, pages, page, most), target, q, kc, vc, table, lengths, o)
    expected = np.zeros((B, H, D))
    for b in range(B):
        rows = [i for i, (owner, _) in enumerate(tokens) if owner == b]
        if rows:
            k, v = kn[rows].astype("f2").astype("f8"), vn[rows].astype("f2").astype("f8")
            w = np.exp(np.einsum("hd,thd->ht", q[b].astype("f8"), k) * D**-0.5)
            expected[b] = np.einsum("ht,thd->hd", w / w.sum(1, keepdims=True), v)
    check(o, expected, 1e-5)


# Cross entropy with label smoothing and z-loss; the gradient takes the place of the logits.
def smooth_cross_entropy(M, N, smooth, z, bN=64, rows=4):
    @T.prim_func
    def main(
        X: T.Tensor((M, N), "bfloat16"),
        labels: T.Tensor((M,), "int64"),
        loss: T.Tensor((M,), "float32"),
        mean: T.Tensor((1,), "float32"),
        valid: T.int32,
    ):
        with T.Kernel(T.ceildiv(M, rows), threads=128) as bx:
            x = T.alloc_fragment((rows, bN), "float32")
            top, old = T.alloc_fragment((rows,), "float32"), T.alloc_fragment((rows,), "float32")
            total, part = T.alloc_fragment((rows,), "float32"), T.alloc_fragment((rows,), "float32")
            plain, all_x = T.alloc_fragment((rows,), "float32"), T.alloc_fragment((rows,), "float32")
            here = T.alloc_fragment((rows,), "float32")
            T.fill(top, -3e38)
            T.clear(total)
            T.clear(all_x)
            for n in T.serial(0, T.ceildiv(N, bN)):
                T.copy(X[bx * rows, n * bN], x)
                T.reduce_sum(x, plain, dim=1)
                for i, j in T.Parallel(rows, bN):
                    if n * bN + j >= N:
                        x[i, j] = -T.infinity("float32")
                T.copy(top, old)
                T.reduce_max(x, top, dim=1, clear=False)
                for i, j in T.Parallel(rows, bN):
                    x[i, j] = T.exp(x[i, j] - top[i])
                T.reduce_sum(x, part, dim=1)
                for i in T.Parallel(rows):
                    all_x[i] += plain[i]
                    total[i] = total[i] * T.exp(old[i] - top[i]) + part[i]
            for i in T.Parallel(rows):
                row = bx * rows + i
                here[i] = 0
                if row < M:
                    lse = top[i] + T.log(total[i])
                    label = labels[row]
                    if label >= 0:
                        right = T.cast(X[row, label], "float32")
                        here[i] = lse - (1 - smooth) * right - smooth * all_x[i] / N + z * lse * lse
                    loss[row] = here[i]
                    T.atomic_add(mean[0], here[i] / T.cast(valid, "float32"))
            for n in T.serial(T.ceildiv(N, bN)):
                for i, j in T.Parallel(rows, bN):
                    row, at = bx * rows + i, n * bN + j
                    if row < M and at < N:
                        lse = top[i] + T.log(total[i])
                        p = T.exp(T.cast(X[row, at], "float32") - lse)
                        hit = T.if_then_else(labels[row] == at, 1 - smooth, 0.0)
                        g = (p * (1 + 2 * z * lse) - hit - smooth / N) / T.cast(valid, "float32")
                        X[row, at] = T.if_then_else(labels[row] < 0, 0.0, g)

    return main


@everywhere
def test_smooth_cross_entropy(target):
    M, N, smooth, z, rng = 11, 203, 0.1, 1e-3, np.random.default_rng(11)
    x = (3 * rng.standard_normal((M, N))).astype(BF16)
    labels = rng.integers(0, N, M)
    labels[3] = labels[8] = -100
    wide, loss, mean, valid = x.astype("f8"), blank(M), np.zeros(1, "f4"), int((labels >= 0).sum())
    run(smooth_cross_entropy(M, N, smooth, z), target, x, labels, loss, mean, valid)
    lse = np.log(np.exp(wide).sum(1))
    target_p = np.full((M, N), smooth / N)
    target_p[np.arange(M), labels] += 1 - smooth
    expected = np.where(labels < 0, 0, lse - (target_p * wide).sum(1) + z * lse**2)
    grad = (np.exp(wide - lse[:, None]) * (1 + 2 * z * lse[:, None]) - target_p) / valid
    check(loss, expected, 1e-5), check(mean, [expected.sum() / valid], 1e-5)
    check(x, np.where(labels[:, None] < 0, 0, grad), 5e-3)


# Weighted cumulative sums along time, h[t] = a[t] * h[t - 1] + x[t], by chunks; the same by T.cumsum of logs.
def weighted_cumsum(Tn, D, chunk=16, bD=16):
    @T.prim_func
    def main(
        A: T.Tensor((Tn, D), "float32"),
        X: T.Tensor((Tn, D), "float32"),
        H: T.Tensor((Tn, D), "float32"),
        S: T.Tensor((Tn, D), "float32"),
        R: T.Tensor((Tn, D), "float32"),
    ):
        with T.Kernel(T.ceildiv(D, bD), threads=32) as bx:
            a, x = T.alloc_shared((chunk, bD), "float32"), T.alloc_shared((chunk, bD), "float32")
            logs = T.alloc_fragment((chunk, bD), "float32")
            state, h = T.alloc_fragment((bD,), "float32"), T.alloc_fragment((bD,), "float32")
            T.clear(state)
            T.clear(h)
            for c in T.serial(T.ceildiv(Tn, chunk)):
                T.copy(A[c * chunk, bx * bD], a)
                T.copy(X[c * chunk, bx * bD], x)
                for t in T.serial(chunk):  # one after another
                    for d in T.Parallel(bD):
                        h[d] = a[t, d] * h[d] + x[t, d]
                        H[c * chunk + t, bx * bD + d] = h[d]
                for t, d in T.Parallel(chunk, bD):  # all at once: h[t] = e^L[t] (sum of e^-L[s] x[s] + h[-1])
                    logs[t, d] = T.if_then_else(c * chunk + t < Tn, T.log(a[t, d]), 0.0)
                T.cumsum(logs, dim=0)
                for t, d in T.Parallel(chunk, bD):
                    x[t, d] *= T.exp(-logs[t, d])
                T.cumsum(x, dim=0)
                for t, d in T.Parallel(chunk, bD):
                    x[t, d] = (x[t, d] + state[d]) * T.exp(logs[t, d])
                T.copy(x, S[c * chunk, bx * bD])
                for d in T.Parallel(bD):
                    state[d] = x[chunk - 1, d]
                T.copy(a, x)
                T.cumsum(x, dim=1, reverse=True)
                T.copy(x, R[c * chunk, bx * bD])

    return main


@everywhere
def test_weighted_cumsum(target):
    Tn, D, rng = 37, 21, np.random.default_rng(12)
    a, x = rng.uniform(0.5, 1, (Tn, D)).astype("f4"), rng.standard_normal((Tn, D)).astype("f4")
    h, s, r = blank((Tn, D)), blank((Tn, D)), blank((Tn, D))
    run(weighted_cumsum(Tn, D), target, a, x, h, s, r)
    expected, state = np.empty((Tn, D)), np.zeros(D)
    for t in range(Tn):
        expected[t] = state = a[t].astype("f8") * state + x[t]
    check(h, expected, 1e-6), check(s, expected, 1e-5)
    parts = [np.cumsum(a[:, d : d + 16].astype("f8")[:, ::-1], 1)[:, ::-1] for d in range(0, D, 16)]
    check(r, np.concatenate(parts, 1), 1e-6)


# Embedding backward: rows of the gradient added to the rows that tokens name, but for the padding token.
def embedding_backward(V, D, pad, block=16):
    n = T.dynamic("n")

    @T.prim_func
    def main(
        tokens: T.Tensor((n,), "int64"),
        dY: T.Tensor((n, D), "bfloat16"),
        dW: T.Tensor((V, D), "float32"),
        seen: T.Tensor((V,), "uint32"),
    ):
        with T.Kernel(T.ceildiv(n, block), threads=64) as bx:
            for i, d in T.Parallel(block, D):
                at = bx * block + i
                if at < n:  # noqa: SIM102
                    if tokens[at] != pad:
                        T.atomic_add(dW[tokens[at], d], T.cast(dY[at, d], "float32"), memory_order="relaxed")
            for i in T.Parallel(block):
                if bx * block + i < n:
                    T.atomic_or(seen[tokens[bx * block + i]], T.uint32(1) << T.cast(i % 32, "uint32"))

    return main


@everywhere
def test_embedding_backward(target):
    V, D, n, pad, rng = 13, 10, 75, 4, np.random.default_rng(13)
    tokens = rng.integers(0, V, n)
    dy = rng.standard_normal((n, D)).astype(BF16)
    dw, seen = np.zeros((V, D), "f4"), np.zeros(V, "u4")
    run(embedding_backward(V, D, pad), target, tokens, dy, dw, seen)
    expected, bits = np.zeros((V, D)), np.zeros(V, "u4")
    for i, t in enumerate(tokens):
        bits[t] |= np.uint32(1 << (i % 16))
        expected[t] += dy[i].astype("f8") * (t != pad)
    check(dw, expected, 1e-6)
    assert np.array_equal(seen, bits)
