"""What chooses the next token: drafts verified, a nucleus, Gumbel noise, selection by digits, a gate."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from everywhere import TARGETS, blank, check, everywhere, run
from ml_dtypes import bfloat16 as BF16

RNG = np.random.default_rng


# Drafted tokens are kept until one is rejected; then one is drawn of what the draft gave too little.
def verify(K, V, VP):
    B = T.dynamic("B")

    @T.prim_func
    def main(
        draft: T.Tensor((B, K), "int32"),
        q: T.Tensor((B, K, V), "float32"),
        p: T.Tensor((B, K + 1, V), "float32"),
        u: T.Tensor((B, K), "float32"),
        w: T.Tensor((B,), "float32"),
        out: T.Tensor((B, K + 1), "int64"),
        count: T.Tensor((B,), "int32"),
    ):
        with T.Kernel(B, threads=64) as b:
            n = T.alloc_var("int32", 0)
            live = T.alloc_var("bool", True)
            res = T.alloc_shared((VP,), "float32")
            cum = T.alloc_shared((VP,), "float32")
            total = T.alloc_fragment((1,), "float32")
            pick = T.alloc_fragment((1,), "int32")
            below = T.alloc_fragment((VP,), "int32")
            for i in T.serial(K):
                if live:
                    tok = draft[b, i]
                    if u[b, i] * q[b, i, tok] < p[b, i, tok]:
                        n += 1
                    else:
                        live = False
            for v in T.Parallel(VP):
                if n < K:
                    res[v] = T.if_then_else(v < V, T.max(p[b, n, v] - q[b, n, v], 0.0), 0.0)
                else:
                    res[v] = T.if_then_else(v < V, p[b, n, v], 0.0)
            T.cumsum(res, cum)
            T.reduce_sum(res, total, dim=0)
            for v in T.Parallel(VP):
                below[v] = T.cast((cum[v] <= w[b] * total[0]) and (v < V - 1), "int32")
            T.reduce_sum(below, pick, dim=0)
            for i in T.Parallel(K + 1):
                if i < n:
                    out[b, i] = T.cast(draft[b, T.min(i, K - 1)], "int64")
                elif i == n:
                    out[b, i] = T.cast(pick[0], "int64")
                else:
                    out[b, i] = -1
            for _ in T.Parallel(1):
                count[b] = n + 1

    return main


@everywhere
def test_verification_of_drafts(target):
    rng = RNG(0)
    for B, K, V in ((3, 4, 37), (1, 1, 64), (5, 3, 100)):
        p, q = (
            np.round(rng.dirichlet(np.ones(V) * 0.3, (B, n)) * 4096) / 4096 for n in (K + 1, K)
        )  # sums are exact
        q[0] = p[0, :K]
        draft = rng.integers(0, V, (B, K)).astype("i4")
        draft[0] = p[0, :K].argmax(1)
        u, w = rng.random((B, K)).astype("f4"), rng.random(B).astype("f4")
        out, count = np.full((B, K + 1), -1, "i8"), np.zeros(B, "i4")
        p, q = p.astype("f4"), q.astype("f4")
        for b in range(B):
            n = 0
            while n < K and u[b, n] * q[b, n, draft[b, n]] < p[b, n, draft[b, n]]:
                n += 1
            rest = np.cumsum(np.maximum(p[b, n] - q[b, n], 0) if n < K else p[b, n])
            out[b, :n], out[b, n], count[b] = draft[b, :n], min((rest <= w[b] * rest[-1]).sum(), V - 1), n + 1
        found, number = blank((B, K + 1), "i8"), blank(B, "i4")
        run(verify(K, V, 128), target, draft, q, p, u, w, found, number)
        check(found, out)
        check(number, count)


# The eager dialect: probabilities in falling order, summed up to the nucleus, scattered back by their places.
def topp_mask(P, order, top_p: float = 0.9, min_p: float = 0.0, rows: int = 2):
    M, N = T.const("M, N")
    P: T.Tensor((M, N), T.float32)
    order: T.Tensor((M, N), T.int64)
    out = T.empty((M, N), T.float32)
    kept = T.empty((M,), T.int32)
    W = tilelang.next_power_of_2(N)
    with T.Kernel(T.ceildiv(M, rows), threads=64) as bx:
        x = T.alloc_shared((rows, W), "float32")
        c = T.alloc_shared((rows, W), "float32")
        keep = T.alloc_fragment((rows, W), "float32")
        ki = T.alloc_fragment((rows, W), "int32")
        z = T.alloc_fragment((rows,), "float32")
        cnt = T.alloc_fragment((rows,), "int32")
        for i, j in T.Parallel(rows, W):
            r = bx * rows + i
            ok = (r < M) and (j < N)
            x[i, j] = T.if_then_else(ok, P[r, order[r, j]], 0.0)
        T.cumsum(x, c, dim=1)
        for i, j in T.Parallel(rows, W):
            ok = (c[i, j] - x[i, j] < top_p) and (x[i, j] >= min_p * x[i, 0]) and (j < N)
            keep[i, j] = T.if_then_else(ok, x[i, j], 0.0)
            ki[i, j] = T.if_then_else(ok, 1, 0)
        T.reduce_sum(keep, z, dim=1)
        T.reduce_sum(ki, cnt, dim=1)
        T.copy(cnt, kept[bx * rows])
        for i, j in T.Parallel(rows, W):
            r = bx * rows + i
            if (r < M) and (j < N):
                out[r, order[r, j]] = keep[i, j] / z[i]
    return out, kept


@pytest.mark.parametrize("target", TARGETS)
def test_nucleus(target):
    rng, kernel = RNG(1), tilelang.jit(topp_mask, target=target)
    for M, N in ((3, 50), (1, 64), (5, 7)):
        p = (np.round(rng.dirichlet(np.ones(N) * 0.2, M) * 65536) / 65536).astype("f4")
        order = np.argsort(-p, 1, kind="stable").astype("i8")
        s = np.take_along_axis(p, order, 1).astype("f8")
        for least in (0.0, 0.05):
            keep = (np.cumsum(s, 1) - s < np.float32(0.9)) & (s >= np.float32(least) * s[:, :1])
            expected, kept = np.zeros((M, N)), np.where(keep, s, 0)
            np.put_along_axis(expected, order, kept / kept.sum(1, keepdims=True), 1)
            found, count = kernel(p, order, min_p=least)
            check(found, expected, 1e-6)
            check(count, keep.sum(1))


# The greatest of noisy scores by a fold of pairs; the noise belongs to the token and is the same everywhere.
def gumbel(V, blk):
    B = T.dynamic("B")

    def larger(a, b):
        take = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
        return T.if_then_else(take, a[0], b[0]), T.if_then_else(take, a[1], b[1])

    @T.prim_func
    def main(
        L: T.Tensor((B, V), "bfloat16"),
        temp: T.Tensor((B,), "float32"),
        minp: T.Tensor((B,), "float32"),
        seed: T.int64,
        out: T.Tensor((B,), "int64"),
        N: T.Tensor((B, V), "float32"),
    ):
        with T.Kernel(B, threads=128) as b:
            x = T.alloc_fragment((1, blk), "float32")
            ix = T.alloc_fragment((1, blk), "int32")
            top = T.alloc_fragment((1,), "float32")
            best = T.alloc_fragment((1,), "float32")
            arg = T.alloc_fragment((1,), "int32")
            T.fill(top, -T.infinity("float32"))
            for k in T.serial(T.ceildiv(V, blk)):
                for i, j in T.Parallel(1, blk):
                    x[i, j] = T.if_then_else(
                        k * blk + j < V, T.cast(L[b, k * blk + j], "float32"), -T.infinity("float32")
                    )
                T.reduce_max(x, top, dim=1, clear=False)
            T.fill(best, -T.infinity("float32"))
            T.fill(arg, 2147483647)
            for k in T.serial(T.ceildiv(V, blk)):
                for i, j in T.Parallel(1, blk):
                    v = k * blk + j
                    T.rng_init(seed, seq=T.cast(b, "int64") * V + v)
                    u = T.rng_rand_float()
                    g = -T.log(-T.log(u))
                    lg = T.cast(L[b, v], "float32")
                    ok = (v < V) and (T.exp(lg - top[0]) >= minp[b])
                    x[i, j] = T.if_then_else(
                        ok, lg / temp[b] + T.if_then_else(u == 1.0, 100.0, g), -T.infinity("float32")
                    )
                    ix[i, j] = T.cast(v, "int32")
                    if v < V:
                        N[b, v] = u
                T.reduce(
                    (x, ix),
                    (best, arg),
                    1,
                    combine=larger,
                    identity=(-T.infinity("float32"), 2147483647),
                    clear=False,
                )
            for _ in T.Parallel(1):
                out[b] = T.cast(arg[0], "int64")

    return main


@everywhere
def test_gumbel_noise(target):
    rng = RNG(2)
    for B, V, piece in ((3, 100, 64), (1, 128, 128), (4, 33, 64)):
        scores = rng.standard_normal((B, V)).astype(BF16)
        temperature, least = rng.uniform(0.3, 1.5, B).astype("f4"), rng.uniform(0, 0.2, B).astype("f4")
        token, noise, again = blank(B, "i8"), blank((B, V)), blank((B, V))
        run(gumbel(V, piece), target, scores, temperature, least, 12345678901, token, noise)
        run(gumbel(V, piece), "reference", scores, temperature, least, 12345678901, blank(B, "i8"), again)
        x = scores.astype("f8")
        keep = np.exp((x - x.max(1, keepdims=True)).astype("f4")) >= least[:, None]
        with np.errstate(divide="ignore"):
            g = np.where(noise == 1, 100, -np.log(-np.log(noise.astype("f8"))))
        check(noise, again)
        check(token, np.where(keep, x / temperature[:, None] + g, -np.inf).argmax(1))


# The k-th largest number, found digit by digit from counts in shared memory, on the bits of the floats.
def radix(n, k, bs=64):
    R = T.dynamic("R")

    @T.prim_func
    def main(X: T.Tensor((R, n), "float32"), kth: T.Tensor((R,), "float32"), above: T.Tensor((R,), "int32")):
        with T.Kernel(R, threads=bs) as r:
            h = T.alloc_shared((256,), "int32")
            c = T.alloc_shared((256,), "int32")
            sel = T.alloc_shared((2,), "int32")
            pre = T.alloc_var("uint32", 0)
            left = T.alloc_var("int32", k)
            for p in T.unroll(4):
                sh = 24 - 8 * p
                T.clear(h)
                for i in T.Parallel(n):
                    b = T.reinterpret(X[r, i], "uint32")
                    key = T.if_then_else((b >> 31) != 0, ~b, b | T.uint32(0x80000000))
                    if p == 0 or (key >> T.cast(T.min(sh + 8, 31), "uint32")) == (
                        pre >> T.cast(T.min(sh + 8, 31), "uint32")
                    ):
                        T.atomic_add(h[T.cast((key >> T.cast(sh, "uint32")) & 0xFF, "int32")], 1)
                T.cumsum(h, c, reverse=True)
                for d in T.Parallel(256):
                    nxt = T.if_then_else(d < 255, c[T.min(d + 1, 255)], 0)
                    if c[d] >= left and nxt < left:
                        sel[0] = T.cast(d, "int32")
                        sel[1] = nxt
                left -= sel[1]
                pre = pre | (T.cast(sel[0], "uint32") << T.cast(sh, "uint32"))
            for _ in T.Parallel(1):
                kth[r] = T.reinterpret(
                    T.if_then_else((pre >> 31) != 0, pre & T.uint32(0x7FFFFFFF), ~pre), "float32"
                )
                above[r] = k - left

    return main


@everywhere
def test_selection_by_digits(target):
    rng = RNG(3)
    for n, k in ((50, 7), (64, 1), (130, 130)):
        x = rng.standard_normal((3, n)).astype("f4")
        x[1] = np.repeat(x[1, : n // 2 + 1], 2)[:n]
        x[2, :4] = np.inf, -np.inf, 0.5, 1e-42
        kth, above = blank(3), blank(3, "i4")
        run(radix(n, k), target, x, kth, above)
        check(kth, -np.sort(-x, 1)[:, k - 1])
        check(above, (x > kth[:, None]).sum(1))


# The best experts one after another, with a bias that only chooses; their numbers are bytes.
def gate(E, k, G):
    n = T.dynamic("n")

    def better(a, b):
        t = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
        return T.if_then_else(t, a[0], b[0]), T.if_then_else(t, a[1], b[1])

    @T.prim_func
    def main(
        L: T.Tensor((n, E), "float32"),
        bias: T.Tensor((E,), "float32"),
        W: T.Tensor((n, k), "float32"),
        I: T.Tensor((n, k), "uint8"),
    ):
        with T.Kernel(T.ceildiv(n, 8), threads=32) as b:
            s = T.alloc_fragment((8, E), "float32")
            c = T.alloc_fragment((8, E), "float32")
            ix = T.alloc_fragment((8, E), "int32")
            best = T.alloc_fragment((8,), "float32")
            at = T.alloc_fragment((8,), "int32")
            wv = T.alloc_fragment((8, k), "float32")
            tot = T.alloc_fragment((8,), "float32")
            sh = T.alloc_shared((8, E), "float32")
            for i, e in T.Parallel(8, E):
                s[i, e] = T.sigmoid(L[b * 8 + i, e])
                c[i, e] = s[i, e] + bias[e]
                ix[i, e] = T.cast(e, "int32")
            T.copy(s, sh)
            for r in T.serial(k):
                T.reduce((c, ix), (best, at), 1, combine=better, identity=(-T.infinity("float32"), 1 << 30))
                for i, e in T.Parallel(8, E):
                    if ix[i, e] == at[i]:
                        c[i, e] = -T.infinity("float32")
                for i in T.Parallel(8):
                    wv[i, r] = sh[i, at[i]]
                    if b * 8 + i < n:
                        I[b * 8 + i, r] = T.cast(at[i], "uint8")
            T.reduce_sum(wv, tot, dim=1)
            for i, r in T.Parallel(8, k):
                if b * 8 + i < n:
                    W[b * 8 + i, r] = wv[i, r] / tot[i]

    return main


@everywhere
def test_gate_with_a_bias(target):
    rng = RNG(4)
    for n, E, k in ((5, 16, 4), (9, 60, 3), (8, 200, 8)):
        scores, bias = rng.standard_normal((n, E)).astype("f4"), rng.standard_normal(E).astype("f4")
        scores[0], bias[:3] = 0, 1
        s = 1 / (1 + np.exp(-scores.astype("f8")))
        which = np.argsort(-(s + bias).astype("f4"), 1, kind="stable")[:, :k]
        w = np.take_along_axis(s, which, 1)
        weights, experts = blank((n, k)), blank((n, k), "u1")
        run(gate(E, k, 1), target, scores, bias, weights, experts)
        check(experts, which)
        check(weights, w / w.sum(1, keepdims=True), 1e-6)


@T.macro
def first_of_the_largest(a, b):
    mine = a[0] > b[0] or (a[0] == b[0] and not a[1] > b[1])
    return (a[0] if mine else b[0]), T.if_then_else(mine, a[1], b[1])


# Folds may be macros, in which Python's own words are the device's.
@everywhere
def test_argmax_by_a_macro(target, n=200):
    @T.prim_func
    def main(X: T.Tensor((4, n), "float32"), Best: T.Tensor((4,), "float32"), At: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=64):
            x, i = T.alloc_fragment((4, n), "float32"), T.alloc_fragment((4, n), "int32")
            best, at = T.alloc_fragment((4,), "float32"), T.alloc_fragment((4,), "int32")
            T.copy(X, x)
            for r, c in T.Parallel(4, n):
                i[r, c] = c
            least = (-T.infinity("float32"), n)
            T.reduce((x, i), (best, at), 1, combine=first_of_the_largest, identity=least)
            T.copy(best, Best)
            T.copy(at, At)

    x = RNG(7).integers(0, 9, (4, n)).astype("f4")
    best, at = blank(4), blank(4, "i4")
    run(main, target, x, best, at)
    check(best, x.max(1))
    check(at, x.argmax(1))


@everywhere
def test_fold_by_a_macro(target):
    @T.macro
    def greater(a, b):
        return T.max(a, b)

    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Y: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=32):
            x, y = T.alloc_fragment((64,), "float32"), T.alloc_fragment((1,), "float32")
            T.copy(X, x)
            T.reduce(x, y, 0, combine=greater, identity=-T.infinity("float32"))
            T.copy(y, Y)

    y = blank(1)
    run(main, target, np.arange(64, dtype="f4"), y)
    check(y, [63])


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64", "bool"])
@everywhere
def test_bitwise_and_begins_with_all_bits(target, dtype):
    @T.prim_func
    def main(X: T.Tensor((64,), dtype), Y: T.Tensor((1,), dtype)):
        with T.Kernel(1, threads=32):
            r = T.alloc_reducer((1,), dtype, op="bitand")
            T.reducer_init(r)
            for i in T.Parallel(64):
                T.reducer_update(r[0], X[i])
            T.finalize_reducer(r)
            for i in T.Parallel(1):
                Y[i] = r[0]

    for given in (1, np.array(-1).astype(dtype)):
        x, y = np.full(64, given, dtype), np.zeros(1, dtype)
        run(main, target, x, y)
        check(y, x[:1])
