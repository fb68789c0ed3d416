"""Pools, convolutions, quantiles, narrow rows, packed sequences, GroupNorm."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from everywhere import blank, check, everywhere, run


# The greatest of each window and its place, the first of equal ones.
def maxpool(C, ks, st, pad, dtype):
    Nb, H, W = T.dynamic("Nb, H, W")
    lowest = T.min_value(dtype)

    @T.prim_func
    def main(
        X: T.Tensor((Nb, H, W, C), dtype),
        Y: T.Tensor((Nb, (H + 2 * pad - ks) // st + 1, (W + 2 * pad - ks) // st + 1, C), dtype),
        I: T.Tensor((Nb, (H + 2 * pad - ks) // st + 1, (W + 2 * pad - ks) // st + 1, C), "int32"),
    ):
        OH, OW = (H + 2 * pad - ks) // st + 1, (W + 2 * pad - ks) // st + 1
        with T.Kernel(T.ceildiv(OW, 4), OH, Nb, threads=32) as (bx, oh, n):
            for w, c in T.Parallel(4, C):
                best = T.alloc_var(dtype, init=lowest)
                where = T.alloc_var("int32", init=-1)
                for u in T.serial(ks):
                    for v in T.serial(ks):
                        ih, iw = oh * st - pad + u, (bx * 4 + w) * st - pad + v
                        inside = (ih >= 0) & (ih < H) & (iw >= 0) & (iw < W)
                        if inside and (where < 0 or X[n, ih, iw, c] > best):
                            best = X[n, ih, iw, c]
                            where = ih * W + iw
                if bx * 4 + w < OW:
                    Y[n, oh, bx * 4 + w, c] = best
                    I[n, oh, bx * 4 + w, c] = where

    return main


@pytest.mark.parametrize(
    "C, ks, st, pad, dtype", [(5, 3, 2, 1, "uint8"), (3, 2, 1, 0, "int8"), (4, 3, 2, 1, "float16")]
)
@everywhere
def test_max_pool_with_places(target, C, ks, st, pad, dtype):
    kernel, rng = maxpool(C, ks, st, pad, dtype), np.random.default_rng(0)
    for H, W in ((5, 7), (3, 3), (8, 9)):
        x = (rng.integers(0, 5, (2, H, W, C)) * 50 - (128 if dtype == "int8" else 0)).astype(dtype)
        shape = (2, (H + 2 * pad - ks) // st + 1, (W + 2 * pad - ks) // st + 1, C)
        y, place = np.empty(shape, dtype), np.empty(shape, "i4")
        for n, a, b, c in np.ndindex(*shape):
            window = [
                (i, j)
                for i in range(a * st - pad, a * st - pad + ks)
                for j in range(b * st - pad, b * st - pad + ks)
                if 0 <= i < H and 0 <= j < W
            ]
            i, j = max(window, key=lambda p: x[n, p[0], p[1], c])  # the first of equal ones
            y[n, a, b, c], place[n, a, b, c] = x[n, i, j, c], i * W + j
        outs = blank(shape, dtype), blank(shape, "i4")
        run(kernel, target, x, *outs)
        check(outs[0], y)
        check(outs[1], place)


# A causal convolution of each channel with its own few weights, in the eager dialect.
def dwconv(x, w, bL: int = 16, silu: bool = True):
    B, D, K = T.const("B, D, K")
    L = T.dynamic("L")
    x: T.Tensor((B, L, D), T.float16)
    w: T.Tensor((D, K), T.float16)
    y = T.empty((B, L, D), T.float16)
    with T.Kernel(T.ceildiv(L, bL), B, threads=64) as (bl, b):
        halo = T.alloc_shared((bL + K - 1, D), T.float16)
        T.copy(x[b, bl * bL - (K - 1) : bl * bL + bL, 0:D], halo)
        for i, d in T.Parallel(bL, D):
            acc = T.alloc_var("float32", init=0)
            for k in T.unroll(K):
                acc += T.float32(halo[i + k, d]) * w[d, k]
            if silu:
                acc = acc * T.sigmoid(acc)
            if bl * bL + i < L:
                y[b, bl * bL + i, d] = acc
    return y


@pytest.mark.parametrize("B, L, D, K", [(1, 5, 8, 4), (2, 33, 7, 3), (1, 16, 16, 1)])
@everywhere
def test_causal_depthwise_convolution(target, B, L, D, K):
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((B, L, D)).astype("f2"), rng.standard_normal((D, K)).astype("f2")
    padded = np.pad(x.astype("f8"), [(0, 0), (K - 1, 0), (0, 0)])
    expected = sum(padded[:, k : k + L] * w[:, k].astype("f8") for k in range(K))
    check(tilelang.jit(dwconv, target=target)(x, w), expected / (1 + np.exp(-expected)), 2e-3)


# A convolution as a GEMM whose left tile is gathered from the image.
def conv(C, F, KH, S, P, dtype, bM=32, bN=32, bK=16):
    N, H, W = T.dynamic("N, H, W")

    @T.prim_func
    def main(
        X: T.Tensor((N, H, W, C), dtype),
        Wt: T.Tensor((KH * KH * C, F), dtype),
        Y: T.Tensor((N * ((H + 2 * P - KH) // S + 1) * ((W + 2 * P - KH) // S + 1), F), dtype),
    ):
        OH, OW = (H + 2 * P - KH) // S + 1, (W + 2 * P - KH) // S + 1
        with T.Kernel(T.ceildiv(F, bN), T.ceildiv(N * OH * OW, bM), threads=128) as (bx, by):
            a = T.alloc_shared((bM, bK), dtype)
            b = T.alloc_shared((bK, bN), dtype)
            acc = T.alloc_fragment((bM, bN), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(KH * KH * C, bK), num_stages=2):
                for i, j in T.Parallel(bM, bK):
                    m, kk = by * bM + i, k * bK + j
                    n, oh, ow = T.index_to_coordinates(m, (N, OH, OW))
                    u, v, c = kk // (KH * C), kk // C % KH, kk % C
                    ih, iw = oh * S + u - P, ow * S + v - P
                    ok = (ih >= 0) & (iw >= 0) & (ih < H) & (iw < W) & (kk < KH * KH * C) & (m < N * OH * OW)
                    a[i, j] = T.if_then_else(ok, X[n, ih, iw, c], 0)
                T.copy(Wt[k * bK, bx * bN], b)
                T.gemm(a, b, acc)
            T.copy(acc, Y[by * bM, bx * bN])

    return main


@pytest.mark.parametrize(
    "C, F, KH, S, P, dtype, bound", [(3, 5, 3, 1, 1, "f2", 1e-3), (4, 33, 3, 2, 0, "f4", 1e-5)]
)
@everywhere
def test_convolution(target, C, F, KH, S, P, dtype, bound):
    kernel, rng = conv(C, F, KH, S, P, np.dtype(dtype).name), np.random.default_rng(2)
    for N, H, W in ((1, 5, 6), (2, 7, 3), (1, 9, 9)):
        x = rng.standard_normal((N, H, W, C)).astype(dtype)
        w = rng.standard_normal((KH * KH * C, F)).astype(dtype)
        OH, OW = (H + 2 * P - KH) // S + 1, (W + 2 * P - KH) // S + 1
        padded = np.pad(x.astype("f8"), [(0, 0), (P, P), (P, P), (0, 0)])
        columns = [
            padded[:, u : u + S * OH : S, v : v + S * OW : S][:, :OH, :OW]
            for u in range(KH)
            for v in range(KH)
        ]
        out = blank((N * OH * OW, F), dtype)
        run(kernel, target, x, w, out)
        check(out, np.stack(columns, 3).reshape(N * OH * OW, -1) @ w.astype("f8"), bound)


# The number at a quantile, found bit by bit in the order of the numbers, and clipping at it.
def kth(n_max):
    n = T.dynamic("n")

    @T.prim_func
    def main(
        X: T.Tensor((n,), "float32"), k: T.int32, out: T.Tensor((1,), "float32"), Y: T.Tensor((n,), "float32")
    ):
        with T.Kernel(1, threads=128):
            keys = T.alloc_shared((n_max,), "uint32")
            cnt = T.alloc_reducer((1,), "int32", op="sum")
            for i in T.Parallel(n_max):
                bits = T.reinterpret(X[i], "uint32")
                keys[i] = T.if_then_else(
                    i < n,
                    T.if_then_else((bits >> 31) != 0, ~bits, bits | T.uint32(0x80000000)),
                    T.uint32(0xFFFFFFFF),
                )
            value = T.alloc_var("uint32", init=0)
            want = T.alloc_var("int32", init=k)
            for s in T.serial(32):
                bit = T.uint32(1) << (31 - s)
                T.clear(cnt)
                for i in T.Parallel(n_max):
                    if (i < n) & ((keys[i] & ~(bit - 1) & ~bit) == value) & ((keys[i] & bit) == 0):
                        cnt[0] += 1
                T.finalize_reducer(cnt)
                if want >= cnt[0]:
                    want -= cnt[0]
                    value |= bit
            r = T.reinterpret(
                T.if_then_else((value >> 31) != 0, value ^ T.uint32(0x80000000), ~value), "float32"
            )
            out[0] = r
            for i in T.Parallel(n_max):
                if i < n:
                    Y[i] = T.min(X[i], r)

    return main


@everywhere
def test_clipping_at_a_quantile(target):
    kernel, rng = kth(200), np.random.default_rng(3)
    for n in (4, 130, 200):
        x = (rng.standard_normal(n) * 10.0 ** rng.integers(-30, 30, n)).astype("f4")
        x[:3] = np.inf, -np.inf, -0.0
        k, out, y = int(n * 0.7), blank(1), blank(n)
        run(kernel, target, x, k, out, y)
        check(out, np.sort(x)[k : k + 1])
        check(y, np.minimum(x, np.sort(x)[k]))


# Rows in eight bits with a scale each; a warp has a row and finds its greatest number by shuffles.
def wsm(N, warps):
    M = T.dynamic("M")
    per = -(-N // 32)

    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "int8"), S: T.Tensor((M,), "float32")):
        with T.Kernel(T.ceildiv(M, warps), threads=32 * warps) as b:
            lane, row = T.get_lane_idx(), b * warps + T.get_warp_idx()
            v = T.alloc_local((per,), "float32")
            m = T.alloc_var("float32", init=0)
            for i in T.unroll(per):
                v[i] = 0
                if lane + i * 32 < N:
                    v[i] = X[row, lane + i * 32]
                m = T.max(m, T.abs(v[i]))
            for s in T.unroll(5):
                m = T.max(m, T.shfl_xor(m, 1 << s))
            if row < M:
                if lane == 0:
                    S[row] = m / 127
                for i in T.unroll(per):
                    if lane + i * 32 < N:
                        Y[row, lane + i * 32] = T.cast(T.round(v[i] * 127 / T.max(m, 1e-30)), "int8")

    return main


@pytest.mark.parametrize("N, warps", [(33, 2), (64, 4), (5, 1)])
def test_rows_in_eight_bits(N, warps):
    kernel, rng = wsm(N, warps), np.random.default_rng(4)
    for M in (1, 6, 9):
        x = rng.standard_normal((M, N)).astype("f4")
        x[0] = 0
        y, scale, top = blank((M, N), "i1"), blank(M), abs(x).max(1)
        run(kernel, "sim:sm_90", x, y, scale)
        check(y, np.rint(x * np.float32(127) / np.maximum(top, np.float32(1e-30))[:, None]).astype("i1"))
        check(scale, top / np.float32(127))


# The segments of a packed batch, places in them, and which tiles of its mask are empty or full.
def packmask(bN):
    n, s = T.dynamic("n, s")

    @T.prim_func
    def main(
        cu: T.Tensor((s,), "int32"),
        seg: T.Tensor((n,), "int32"),
        pos: T.Tensor((n,), "int32"),
        block: T.Tensor((T.ceildiv(n, bN), T.ceildiv(n, bN)), "uint8"),
    ):
        with T.Kernel(T.ceildiv(n, bN), threads=64) as b:
            mark = T.alloc_shared((bN,), "int32")
            start = T.alloc_fragment((bN,), "int32")
            T.clear(mark)
            for i in T.Parallel(bN):
                for j in T.serial(s - 1):
                    if cu[j + 1] <= b * bN + i:
                        mark[i] += 1
            for i in T.Parallel(bN):
                start[i] = cu[T.min(mark[i], s - 1)]
            T.copy(mark, seg[b * bN])
            for i in T.Parallel(bN):
                if b * bN + i < n:
                    pos[b * bN + i] = b * bN + i - start[i]
        with T.Kernel(T.ceildiv(n, bN), T.ceildiv(n, bN), threads=64) as (bk, bq):
            same = T.alloc_fragment((bN, bN), "bool")
            for i, j in T.Parallel(bN, bN):
                q, k = bq * bN + i, bk * bN + j
                same[i, j] = False
                if (q < n) & (k < n):
                    same[i, j] = (seg[q] == seg[k]) & (k <= q)
            full = T.alloc_fragment((bN, bN), "bool")
            for i, j in T.Parallel(bN, bN):
                full[i, j] = same[i, j] | (bq * bN + i >= n) | (bk * bN + j >= n)
            if T.any_of(same):
                if T.all_of(full):
                    block[bq, bk] = 2
                else:
                    block[bq, bk] = 1
            else:
                block[bq, bk] = 0

    return main


@everywhere
def test_masks_of_packed_sequences(target):
    kernel = packmask(8)
    for lengths in ([3, 20, 1], [8, 8], [1]):
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype("i4")
        n, segment = int(starts[-1]), np.repeat(np.arange(len(lengths)), lengths)
        tiles, at = -(-n // 8), np.arange(n)
        mask = (segment[:, None] == segment) & (at[:, None] >= at)
        parts = [mask[i * 8 : i * 8 + 8, j * 8 : j * 8 + 8] for i, j in np.ndindex(tiles, tiles)]
        outs = blank(n, "i4"), blank(n, "i4"), blank((tiles, tiles), "u1")
        run(kernel, target, starts, *outs)
        check(outs[0], segment)
        check(outs[1], at - starts[segment])
        check(outs[2].ravel(), [2 if p.all() else int(p.any()) for p in parts])


# GroupNorm whose moments are joined by a fold of pairs, and running statistics in float64.
def groupnorm(C, G, dtype):
    N, HW = T.dynamic("N, HW")
    per = C // G

    @T.prim_func
    def main(
        X: T.Tensor((N, C, HW), dtype),
        g: T.Tensor((C,), dtype),
        b: T.Tensor((C,), dtype),
        Y: T.Tensor((N, C, HW), dtype),
        run: T.Tensor((2, G), "float64"),
    ):
        with T.Kernel(G, N, threads=64) as (bg, n):
            x = T.alloc_fragment((per, 32), "float32")
            mean = T.alloc_fragment((per, 32), "float32")
            m2 = T.alloc_fragment((per, 32), "float32")
            cnt = T.alloc_fragment((per, 32), "float32")
            T.clear(mean)
            T.clear(m2)
            T.clear(cnt)
            for c in T.serial(T.ceildiv(HW, 32)):
                T.copy(X[n, bg * per : (bg + 1) * per, c * 32 : (c + 1) * 32], x)
                for i, j in T.Parallel(per, 32):
                    if c * 32 + j < HW:
                        cnt[i, j] += 1
                        d = T.alloc_var("float32", init=x[i, j] - mean[i, j])
                        mean[i, j] += d / cnt[i, j]
                        m2[i, j] += d * (x[i, j] - mean[i, j])

            def joined(a, c):
                t = a[0] + c[0]
                return t, T.if_then_else(t > 0, (a[1] * a[0] + c[1] * c[0]) / T.max(t, 1), T.float32(0))

            cf, mf = T.reshape(cnt, (1, per * 32)), T.reshape(mean, (1, per * 32))
            tot, mu = T.alloc_fragment((1,), "float32"), T.alloc_fragment((1,), "float32")
            T.reduce((cf, mf), (tot, mu), 1, combine=joined, identity=(0, 0))
            for i, j in T.Parallel(per, 32):
                m2[i, j] += cnt[i, j] * (mean[i, j] - mu[0]) * (mean[i, j] - mu[0])
            r1 = T.alloc_fragment((per,), "float32")
            r0 = T.alloc_fragment((1,), "float32")
            T.reduce_sum(m2, r1, dim=1)
            T.reduce_sum(r1, r0, dim=0)
            rstd = T.rsqrt(r0[0] / tot[0] + 1e-5)
            for i, j in T.Parallel(per, HW):
                ch = bg * per + i
                Y[n, ch, j] = (X[n, ch, j] - mu[0]) * rstd * g[ch] + b[ch]
            for _ in T.Parallel(1):
                T.atomic_add(run[0, bg], mu[0])
                T.atomic_max(run[1, bg], T.float64(rstd))

    return main


@pytest.mark.parametrize("C, G, dtype, bound", [(6, 2, "f4", 1e-4), (4, 4, "f2", 2e-3)])
@everywhere
def test_groupnorm(target, C, G, dtype, bound):
    kernel, rng = groupnorm(C, G, np.dtype(dtype).name), np.random.default_rng(5)
    for N, HW in ((1, 9), (2, 33), (3, 64)):
        x = (rng.standard_normal((N, C, HW)) + (100 if dtype == "f4" else 1)).astype(dtype)
        g, b = (rng.standard_normal(C).astype(dtype) for _ in range(2))
        wide = x.astype("f8").reshape(N, G, -1)
        mean, var = wide.mean(2, keepdims=True), wide.var(2, keepdims=True)
        unit = ((wide - mean) / np.sqrt(var + 1e-5)).reshape(x.shape)
        y, moments = blank(x.shape, dtype), np.zeros((2, G))
        run(kernel, target, x, g, b, y, moments)
        check(y, unit * g[:, None].astype("f8") + b[:, None].astype("f8"), bound)
        check(moments, [mean.sum(0)[:, 0], (1 / np.sqrt(var + 1e-5)).max(0)[:, 0]], bound)
