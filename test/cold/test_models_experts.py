"""Routed experts, narrow weights, and recurrences by steps and by chunks."""

import math

import numpy as np
import pytest
import tilelang.language as T
from everywhere import blank, check, everywhere, run
from ml_dtypes import bfloat16 as BF16
from ml_dtypes import float8_e4m3fn as F8


# Experts of capacity 9: the two best by a fold of pairs, and slots in the order of the tokens.
def moe(E, capacity):
    n = T.dynamic("n")

    @T.prim_func
    def main(
        logits: T.Tensor((n, E), "float32"),
        expert: T.Tensor((n, 2), "int32"),
        weight: T.Tensor((n, 2), "float32"),
        slot: T.Tensor((n, 2), "int32"),
        used: T.Tensor((E,), "int32"),
    ):
        with T.Kernel(T.ceildiv(n, 16), threads=32) as b:
            x = T.alloc_fragment((16, E), "float32")
            idx = T.alloc_fragment((16, E), "int32")
            v0, v1 = T.alloc_fragment((16,), "float32"), T.alloc_fragment((16,), "float32")
            i0, i1 = T.alloc_fragment((16,), "int32"), T.alloc_fragment((16,), "int32")
            T.copy(logits[b * 16, 0], x)
            for i, j in T.Parallel(16, E):
                idx[i, j] = j

            def best(a, c):
                take = (a[0] > c[0]) | ((a[0] == c[0]) & (a[1] < c[1]))
                return T.if_then_else(take, a[0], c[0]), T.if_then_else(take, a[1], c[1])

            T.reduce((x, idx), (v0, i0), 1, combine=best, identity=(-math.inf, 2**31 - 1))
            for i, j in T.Parallel(16, E):
                if idx[i, j] == i0[i]:
                    x[i, j] = -math.inf
            T.reduce((x, idx), (v1, i1), 1, combine=best, identity=(-math.inf, 2**31 - 1))
            for i in T.Parallel(16):
                if b * 16 + i < n:
                    w = 1 / (1 + T.exp(v1[i] - v0[i]))
                    weight[b * 16 + i, 0] = w
                    weight[b * 16 + i, 1] = 1 - w
                    expert[b * 16 + i, 0] = i0[i]
                    expert[b * 16 + i, 1] = i1[i]
        with T.Kernel(E, threads=32) as e:
            tile = T.alloc_shared((64,), "int32")
            pre = T.alloc_shared((64,), "int32")
            base = T.alloc_var("int32", init=0)
            for c in T.serial(T.ceildiv(2 * n, 64)):
                for i in T.Parallel(64):
                    at = c * 64 + i
                    hit = T.alloc_var("bool", init=False)
                    if at < 2 * n:
                        hit = expert[at // 2, at % 2] == e
                    tile[i] = T.if_then_else(hit, 1, 0)
                T.cumsum(tile, pre)
                for i in T.Parallel(64):
                    at = c * 64 + i
                    if tile[i] != 0:
                        s = base + pre[i] - 1
                        slot[at // 2, at % 2] = T.if_then_else(s < capacity, s, -1)
                base += pre[63]
            used[e] = T.min(base, capacity)

    return main


@everywhere
def test_experts_with_capacity(target):
    E, C, rng = 6, 9, np.random.default_rng(4)
    kernel = moe(E, C)
    for n in (1, 23, 50):
        x = rng.integers(-3, 4, (n, E)).astype("f4")  # many are equal
        best = np.argsort(-x, 1, kind="stable")[:, :2]
        v = np.exp(np.take_along_axis(x, best, 1).astype("f8"))
        slot, counts = np.full((n, 2), -1), np.zeros(E, int)
        for at, e in enumerate(best.flat):
            slot.flat[at] = counts[e] if counts[e] < C else -1
            counts[e] += 1
        outs = blank((n, 2), "i4"), blank((n, 2)), blank((n, 2), "i4"), blank(E, "i4")
        run(kernel, target, x, *outs)
        check(outs[0], best)
        check(outs[1], v / v.sum(1, keepdims=True), 1e-6)
        check(outs[2], slot)
        check(outs[3], np.minimum(counts, C))


# The GEMMs of experts on block-scaled e4m3, each on its own rows of one tensor.
def grouped(E, N, K, bM=16, bN=32, bK=32):
    total = T.dynamic("total")

    @T.prim_func
    def main(
        A: T.Tensor((total, K), "float8_e4m3fn"),
        As: T.Tensor((total, T.ceildiv(K, bK)), "float32"),
        W: T.Tensor((E, N, K), "float8_e4m3fn"),
        Ws: T.Tensor((E, T.ceildiv(N, bN), T.ceildiv(K, bK)), "float32"),
        off: T.Tensor((E + 1,), "int32"),
        most: T.int32,
        C: T.Tensor((total, N), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(N, bN), T.ceildiv(most, bM), E, threads=64) as (bx, by, e):
            first, last = off[e] + by * bM, off[e + 1]
            if first < last:
                a = T.alloc_shared((bM, bK), "float8_e4m3fn")
                w = T.alloc_shared((bN, bK), "float8_e4m3fn")
                p = T.alloc_fragment((bM, bN), "float32")
                acc = T.alloc_fragment((bM, bN), "float32")
                T.clear(acc)
                for k in T.Pipelined(T.ceildiv(K, bK), num_stages=2):
                    T.copy(A[first : first + bM, k * bK : (k + 1) * bK], a)
                    T.copy(W[e, bx * bN : (bx + 1) * bN, k * bK : (k + 1) * bK], w)
                    T.gemm(a, w, p, transpose_B=True, clear_accum=True)
                    for i, j in T.Parallel(bM, bN):
                        acc[i, j] += p[i, j] * As[first + i, k] * Ws[e, bx, k]
                for i, j in T.Parallel(bM, bN):
                    if first + i < last:
                        C[first + i, bx * bN + j] = acc[i, j]

    return main


@everywhere
def test_grouped_block_scaled_gemm(target):
    E, N, K, rng = 3, 40, 80, np.random.default_rng(5)
    kernel = grouped(E, N, K)
    for sizes in ([5, 0, 20], [16, 33, 1], [0, 0, 3]):
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype("i4")
        total = int(offsets[-1])
        a, w = rng.standard_normal((total, K)).astype(F8), (rng.standard_normal((E, N, K)) * 30).astype(F8)
        a[0, 0] = 448  # the greatest number
        sa, sw = rng.random((total, 3)).astype("f4"), rng.random((E, 2, 3)).astype("f4") / 30
        wide_a = a.astype("f8") * np.repeat(sa, 32, 1)[:, :K]
        wide_w = w.astype("f8") * np.repeat(np.repeat(sw, 32, 1), 32, 2)[:, :N, :K]
        out = np.full((total, N), np.nan, BF16)
        run(kernel, target, a, sa, w, sw, offsets, max(sizes), out)
        ends = zip(offsets, offsets[1:], strict=False)
        check(out, np.concatenate([wide_a[s:e] @ wide_w[g].T for g, (s, e) in enumerate(ends)]), 5e-3)


# Weights of four bits with scales and zero points for each group of columns.
def w4(N, K, group, dtype, bM=16, bN=32, bK=32):
    M = T.dynamic("M")

    @T.prim_func
    def main(
        X: T.Tensor((M, K), dtype),
        W: T.Tensor((N, K), "uint4"),
        S: T.Tensor((N, K // group), dtype),
        Z: T.Tensor((N, K // group), "uint4"),
        Y: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, bN), T.ceildiv(M, bM), threads=64) as (bx, by):
            xs = T.alloc_shared((bM, bK), dtype)
            wq = T.alloc_shared((bN, bK), "uint4")
            wf = T.alloc_fragment((bN, bK), dtype)
            ws = T.alloc_shared((bN, bK), dtype)
            acc = T.alloc_fragment((bM, bN), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, bK), num_stages=2):
                T.copy(X[by * bM, k * bK], xs)
                T.copy(W[bx * bN, k * bK], wq)
                for i, j in T.Parallel(bN, bK):
                    g = (k * bK + j) // group
                    wf[i, j] = T.cast(wq[i, j] - Z[bx * bN + i, g], "float32") * S[bx * bN + i, g]
                T.copy(wf, ws)
                T.gemm(xs, ws, acc, transpose_B=True)
            T.copy(acc, Y[by * bM, bx * bN])

    return main


@pytest.mark.parametrize("N, K, group", [(40, 64, 16), (33, 96, 48)])
@everywhere
def test_four_bit_weights(target, N, K, group):
    kernel, rng = w4(N, K, group, "float16"), np.random.default_rng(6)
    pack = lambda codes: (codes[:, ::2] | codes[:, 1::2] << 4).astype("u1")
    for M in (1, 17, 32):
        x, w = rng.standard_normal((M, K)).astype("f2"), rng.integers(0, 16, (N, K))
        zero = rng.integers(0, 16, (N, K // group))
        scale = (rng.random((N, K // group)) / 16).astype("f2")
        wide = ((w - np.repeat(zero, group, 1)).astype("f4") * np.repeat(scale, group, 1)).astype("f2")
        out = blank((M, N), "f2")
        run(kernel, target, x, pack(w), scale, pack(zero), out)
        check(out, x.astype("f8") @ wide.astype("f8").T, 2e-3)


# Mamba's selective scan: the input lies channel by channel, the last state is kept.
def scan(D, N, dtype, bD=32):
    L, B = T.dynamic("L, B")

    @T.prim_func
    def main(
        x: T.StridedTensor((B, L, D), (L * D, 1, L), dtype),
        dt: T.Tensor((B, L, D), "float32"),
        A: T.Tensor((D, N), "float32"),
        Bm: T.Tensor((B, L, N), dtype),
        Cm: T.Tensor((B, L, N), dtype),
        y: T.Tensor((B, L, D), dtype),
        last: T.Tensor((B, D, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(D, bD), B, threads=bD) as (bd, b):
            at = bd * bD
            h = T.alloc_fragment((bD, N), "float32")
            t = T.alloc_fragment((bD, N), "float32")
            o = T.alloc_fragment((bD,), "float32")
            T.clear(h)
            for l in T.serial(L):
                for i, n in T.Parallel(bD, N):
                    d = dt[b, l, at + i]
                    sp = T.if_then_else(d > 20, d, T.log1p(T.exp(d)))
                    h[i, n] = (
                        h[i, n] * T.exp(sp * A[at + i, n]) + sp * T.float32(Bm[b, l, n]) * x[b, l, at + i]
                    )
                    t[i, n] = h[i, n] * Cm[b, l, n]
                T.reduce_sum(t, o, dim=-1)
                T.copy(o, y[b, l, at : at + bD])
            T.copy(h, last[b, at, 0])

    return main


@pytest.mark.parametrize("D, N, dtype, bound", [(37, 8, "f4", 1e-4), (16, 3, "f2", 5e-3)])
@everywhere
def test_selective_scan(target, D, N, dtype, bound):
    kernel, rng = scan(D, N, np.dtype(dtype).name), np.random.default_rng(7)
    for B, L in ((1, 1), (2, 19), (1, 30)):
        x = rng.standard_normal((B, D, L)).astype(dtype).transpose(0, 2, 1)
        step = rng.standard_normal((B, L, D)).astype("f4") * 3
        step[0, 0, 0] = 30
        a = -rng.random((D, N)).astype("f4")
        b, c = (rng.standard_normal((B, L, N)).astype(dtype) for _ in range(2))
        state, y = np.zeros((B, D, N)), np.empty((B, L, D))
        for l in range(L):
            soft = np.log1p(np.exp(step[:, l].astype("f8")))[..., None]
            state = state * np.exp(soft * a) + soft * b[:, l, None].astype("f8") * x[:, l, :, None]
            y[:, l] = (state * c[:, l, None].astype("f8")).sum(-1)
        out, last = blank((B, L, D), dtype), blank((B, D, N))
        run(kernel, target, x, step, a, b, c, out, last)
        check(out, y, bound)
        check(last, state, bound)


# Retention by chunks, of which the last may be short.
def retention(H, D, chunk, dtype):
    B, L = T.dynamic("B, L")

    @T.prim_func
    def main(
        Q: T.Tensor((B, L, H, D), dtype),
        K: T.Tensor((B, L, H, D), dtype),
        V: T.Tensor((B, L, H, D), dtype),
        lg: T.Tensor((H,), "float32"),
        O: T.Tensor((B, L, H, D), dtype),
    ):
        with T.Kernel(H, B, threads=128) as (h, b):
            q, k, v, ss = [T.alloc_shared((chunk, D), dtype) for _ in range(3)] + [
                T.alloc_shared((D, D), dtype)
            ]
            sc = T.alloc_fragment((chunk, chunk), "float32")
            scs = T.alloc_shared((chunk, chunk), dtype)
            kd = T.alloc_shared((chunk, D), dtype)
            state = T.alloc_fragment((D, D), "float32")
            o = T.alloc_fragment((chunk, D), "float32")
            T.clear(state)
            for c in T.Pipelined(T.ceildiv(L, chunk), num_stages=2):
                T.copy(Q[b, c * chunk : (c + 1) * chunk, h, :], q)
                T.copy(K[b, c * chunk : (c + 1) * chunk, h, :], k)
                T.copy(V[b, c * chunk : (c + 1) * chunk, h, :], v)
                T.gemm(q, k, sc, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(chunk, chunk):
                    scs[i, j] = T.if_then_else(i >= j, sc[i, j] * T.exp(lg[h] * (i - j)), 0)
                T.copy(state, ss)
                T.gemm(q, ss, o, clear_accum=True)
                for i, j in T.Parallel(chunk, D):
                    o[i, j] *= T.exp(lg[h] * (i + 1))
                T.gemm(scs, v, o)
                T.copy(o, O[b, c * chunk : (c + 1) * chunk, h, :])
                for i, j in T.Parallel(chunk, D):
                    kd[i, j] = k[i, j] * T.exp(lg[h] * (chunk - 1 - i))
                for i, j in T.Parallel(D, D):
                    state[i, j] *= T.exp(lg[h] * chunk)
                T.gemm(kd, v, state, transpose_A=True)

    return main


@everywhere
def test_retention(target):
    kernel, rng = retention(2, 32, 16, "float16"), np.random.default_rng(0)
    for B, L in ((1, 1), (2, 37), (1, 48)):
        q, k, v = ((rng.standard_normal((B, L, 2, 32)) / 3).astype("f2") for _ in range(3))
        decay = np.log(np.array([0.9, 0.99])).astype("f4")
        expected, out = np.empty(q.shape), blank(q.shape, "f2")
        ago = np.arange(L)[:, None] - np.arange(L)
        for b, h in np.ndindex(B, 2):
            weight = np.where(ago >= 0, np.exp(float(decay[h]) * np.maximum(ago, 0)), 0)
            expected[b, :, h] = (q[b, :, h].astype("f8") @ k[b, :, h].astype("f8").T * weight) @ v[b, :, h]
        run(kernel, target, q, k, v, decay, out)
        check(out, expected, 5e-3)
