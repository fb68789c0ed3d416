"""Normalisation backwards, losses, optimizers, dropout, embeddings."""

import math

import numpy as np
import pytest
import tilelang.language as T
from everywhere import blank, check, everywhere, run
from ml_dtypes import bfloat16 as BF16


# The backward pass of LayerNorm; the gradients of scale and shift by reducers and atomic sums.
def ln_bwd(N, dtype, bM=4):
    M = T.dynamic("M")

    @T.prim_func
    def main(
        X: T.Tensor((M, N), dtype),
        g: T.Tensor((N,), dtype),
        dY: T.Tensor((M, N), dtype),
        dX: T.Tensor((M, N), dtype),
        dg: T.Tensor((N,), "float32"),
        db: T.Tensor((N,), "float32"),
    ):
        with T.Kernel(T.ceildiv(M, bM), threads=64) as b:
            x, dy, xh = [T.alloc_fragment((bM, N), "float32") for _ in range(3)]
            mu, var, c1, c2 = [T.alloc_fragment((bM,), "float32") for _ in range(4)]
            rg = T.alloc_reducer((N,), "float32", op="sum")
            rb = T.alloc_reducer((N,), "float32", "sum", replication="all")
            T.copy(X[b * bM, 0], x)
            T.copy(dY[b * bM, 0], dy)
            T.reduce_sum(x, mu, dim=1)
            for i in T.Parallel(bM):
                mu[i] /= N
            for i, j in T.Parallel(bM, N):
                x[i, j] -= mu[i]
            for i, j in T.Parallel(bM, N):
                xh[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(xh, var, dim=1)
            for i in T.Parallel(bM):
                var[i] = T.rsqrt(var[i] / N + 1e-5)
            for i, j in T.Parallel(bM, N):
                xh[i, j] = x[i, j] * var[i]
            T.clear(rg)
            T.clear(rb)
            for i, j in T.Parallel(bM, N):
                rg[j] += dy[i, j] * xh[i, j]
                rb[j] += dy[i, j]
            T.finalize_reducer(rg)
            T.finalize_reducer(rb)
            for i, j in T.Parallel(bM, N):
                x[i, j] = dy[i, j] * g[j]
            T.reduce_sum(x, c1, dim=1)
            for i, j in T.Parallel(bM, N):
                dy[i, j] = x[i, j] * xh[i, j]
            T.reduce_sum(dy, c2, dim=1)
            for i, j in T.Parallel(bM, N):
                x[i, j] = (x[i, j] - c1[i] / N - xh[i, j] * c2[i] / N) * var[i]
            T.copy(x, dX[b * bM, 0])
            for j in T.Parallel(N):
                T.atomic_add(dg[j], rg[j])
                T.atomic_add(db[j], rb[j])

    return main


@pytest.mark.parametrize("N, dtype, bound", [(37, "f4", 1e-4), (96, "f2", 2e-3)])
@everywhere
def test_layernorm_backward(target, N, dtype, bound):
    kernel, rng = ln_bwd(N, np.dtype(dtype).name), np.random.default_rng(1)
    for M in (1, 7, 16):
        x, dy = (rng.standard_normal((M, N)).astype(dtype) for _ in range(2))
        g, mean = rng.standard_normal(N).astype(dtype), lambda a: a.mean(1, keepdims=True)
        centred, wide = x.astype("f8") - mean(x.astype("f8")), dy.astype("f8")
        r = 1 / np.sqrt(mean(centred**2) + 1e-5)
        unit, scaled = centred * r, wide * g.astype("f8")
        out, dg, db = blank((M, N), dtype), np.zeros(N, "f4"), np.zeros(N, "f4")
        run(kernel, target, x, g, dy, out, dg, db)
        check(out, (scaled - mean(scaled) - unit * mean(scaled * unit)) * r, bound)
        check(dg, (wide * unit).sum(0), bound)
        check(db, wide.sum(0), bound)


# Cross-entropy with smoothed labels and rows to ignore, and its gradient.
def xent(V, dtype, chunk=64, bM=2):
    M = T.dynamic("M")

    @T.prim_func
    def main(
        L: T.Tensor((M, V), dtype),
        y: T.Tensor((M,), "int64"),
        loss: T.Tensor((M,), "float32"),
        dL: T.Tensor((M, V), dtype),
        count: T.Tensor((1,), "int32"),
        eps: T.float32,
    ):
        with T.Kernel(T.ceildiv(M, bM), threads=64) as b:
            T.annotate_safe_value({L: -math.inf})
            x = T.alloc_fragment((bM, chunk), "float32")
            m, mp, z, s, rs, ns, tgt = [T.alloc_fragment((bM,), "float32") for _ in range(7)]
            T.fill(m, -1e30)
            T.clear(z)
            T.clear(s)
            for c in T.serial(T.ceildiv(V, chunk)):
                T.copy(L[b * bM, c * chunk], x)
                T.copy(m, mp)
                T.reduce_max(x, m, dim=1, clear=False)
                for i, j in T.Parallel(bM, chunk):
                    x[i, j] = T.exp(x[i, j] - m[i])
                T.reduce_sum(x, rs, dim=1)
                for i in T.Parallel(bM):
                    z[i] = z[i] * T.exp(mp[i] - m[i]) + rs[i]
                for i, j in T.Parallel(bM, chunk):
                    x[i, j] = T.if_then_else(
                        c * chunk + j < V, T.cast(L[b * bM + i, c * chunk + j], "float32"), 0
                    )
                T.reduce_sum(x, ns, dim=1)
                for i in T.Parallel(bM):
                    s[i] += ns[i]
            for i in T.Parallel(bM):
                row = b * bM + i
                if row < M:
                    lab = y[row]
                    lse = m[i] + T.log(z[i])
                    if lab == -100:
                        loss[row] = 0.0
                    else:
                        loss[row] = (1 - eps) * (lse - T.cast(L[row, lab], "float32")) + eps * (
                            lse - s[i] / V
                        )
                        T.atomic_add(count[0], 1)
            for i, j in T.Parallel(bM, V):
                row = b * bM + i
                if row < M:
                    p = T.exp(T.cast(L[row, j], "float32") - m[i]) / z[i]
                    t = T.if_then_else(y[row] == j, 1 - eps, T.float32(0)) + eps / V
                    dL[row, j] = T.if_then_else(y[row] == -100, T.float32(0), p - t)

    return main


@pytest.mark.parametrize("V, dtype, bound", [(100, "f4", 1e-5), (65, "f2", 2e-3)])
@everywhere
def test_cross_entropy(target, V, dtype, bound):
    kernel, rng, eps = xent(V, np.dtype(dtype).name), np.random.default_rng(2), 0.1
    for M in (2, 5, 8):
        x, y = (rng.standard_normal((M, V)) * 10).astype(dtype), rng.integers(0, V, M)
        y[::3] = -100
        x[1, 3] = 1e4
        wide, keep = x.astype("f8"), y != -100
        lse = wide.max(1) + np.log(np.exp(wide - wide.max(1, keepdims=True)).sum(1))
        own = wide[np.arange(M), np.where(keep, y, 0)]
        expected = np.where(keep, (1 - eps) * (lse - own) + eps * (lse - wide.mean(1)), 0)
        grad = np.exp(wide - lse[:, None]) - (np.arange(V) == y[:, None]) * (1 - eps) - eps / V
        loss, out, count = blank(M), blank((M, V), dtype), np.zeros(1, "i4")
        run(kernel, target, x, y, loss, out, count, eps)
        check(loss, expected, bound)
        check(out, grad * keep[:, None], bound)
        check(count, [keep.sum()])


# A step of Adam or Lion: master weights in float32, parameters and gradients in bfloat16.
def optim(kind, b1, b2, eps, wd):
    n = T.dynamic("n")

    @T.prim_func
    def main(
        p: T.Tensor((n,), "bfloat16"),
        master: T.Tensor((n,), "float32"),
        g: T.Tensor((n,), "bfloat16"),
        m: T.Tensor((n,), "float32"),
        v: T.Tensor((n,), "float32"),
        step: T.int32,
        lr: T.float32,
    ):
        with T.Kernel(T.ceildiv(n, 256), threads=128) as b:
            for i in T.Parallel(256, coalesced_width=4):
                at = b * 256 + i
                if at < n:
                    gr = T.float32(g[at])
                    if T.isfinite(gr):
                        if kind == "adam":
                            m[at] = b1 * m[at] + (1 - b1) * gr
                            v[at] = b2 * v[at] + (1 - b2) * gr * gr
                            mh = m[at] / (1 - T.pow(T.float32(b1), T.float32(step)))
                            vh = v[at] / (1 - T.pow(T.float32(b2), T.float32(step)))
                            master[at] -= lr * (mh / (T.sqrt(vh) + eps) + wd * master[at])
                        else:
                            u = b1 * m[at] + (1 - b1) * gr
                            sgn = T.if_then_else(
                                u > 0, T.float32(1), T.if_then_else(u < 0, T.float32(-1), T.float32(0))
                            )
                            master[at] -= lr * (sgn + wd * master[at])
                            m[at] = b2 * m[at] + (1 - b2) * gr
                    p[at] = master[at]

    return main


@pytest.mark.parametrize("kind", ["adam", "lion"])
@everywhere
def test_optimizer_step(target, kind):
    kernel, rng = optim(kind, 0.9, 0.99, 1e-8, 0.01), np.random.default_rng(3)
    for n in (3, 255, 700):
        w, m = (rng.standard_normal(n).astype("f4") for _ in range(2))
        v, g = rng.random(n).astype("f4"), rng.standard_normal(n).astype(BF16)
        g[1:3] = np.inf, np.nan
        keep, old = np.isfinite(g.astype("f4")), (w.copy(), m.copy(), v.copy())
        wide = np.where(keep, g.astype("f8"), 0)
        m2, v2, decay = 0.9 * m + 0.1 * wide, 0.99 * v + 0.01 * wide * wide, 0.01 * w
        if kind == "adam":
            new = w - 0.01 * (m2 / (1 - 0.9**3) / (np.sqrt(v2 / (1 - 0.99**3)) + 1e-8) + decay)
        else:
            new, m2, v2 = w - 0.01 * (np.sign(m2) + decay), 0.99 * m + 0.01 * wide, v
        p = np.full(n, np.nan, BF16)
        run(kernel, target, p, w, g, m, v, 3, 0.01)
        for found, expected, before in zip((w, m, v), (new, m2, v2), old, strict=True):
            check(found, np.where(keep, expected, before), 1e-6)
        check(p, w.astype(BF16))


# Dropout by Philox, each element by its own number, and its mask packed into bits.
def dropout(p):
    n = T.dynamic("n")

    @T.prim_func
    def main(
        x: T.Tensor((n,), "float16"),
        y: T.Tensor((n,), "float16"),
        bits: T.Tensor((T.ceildiv(n, 8),), "uint8"),
        seed: T.int64,
    ):
        with T.Kernel(T.ceildiv(n, 512), threads=64) as b:
            for i in T.Parallel(64):
                acc = T.alloc_var("uint8", init=0)
                for j in T.unroll(8):
                    at = b * 512 + i * 8 + j
                    T.rng_init(seed, at, 0)
                    u = T.rng_rand_float()
                    keep = u > p
                    if at < n:
                        y[at] = T.if_then_else(keep, x[at] / (1 - p), 0)
                        if keep:
                            acc |= T.uint8(1) << j
                if b * 64 + i < T.ceildiv(n, 8):
                    bits[b * 64 + i] = acc

    return main


def philox(seed, seq):
    key, c = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF], [0, 0, seq & 0xFFFFFFFF, seq >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ key[0], b & 0xFFFFFFFF, a >> 32 ^ c[3] ^ key[1], a & 0xFFFFFFFF]
        key = [key[0] + 0x9E3779B9 & 0xFFFFFFFF, key[1] + 0xBB67AE85 & 0xFFFFFFFF]
    return c[0]


@everywhere
def test_dropout(target):
    kernel, rng = dropout(0.3), np.random.default_rng(4)
    for n, seed in ((1, -5), (511, 2**40 + 7), (600, 0)):
        x = rng.standard_normal(n).astype("f2")
        uniform = np.array([philox(seed, i) for i in range(n)], "f4") * np.float32(2**-32) + np.float32(
            2**-33
        )
        keep = uniform > np.float32(0.3)
        y, bits = blank(n, "f2"), blank(-(-n // 8), "u1")
        run(kernel, target, x, y, bits, seed)
        check(y, np.where(keep, x / 0.7, 0), 1e-3)
        check(bits, np.packbits(keep, bitorder="little"))


# Rows of an embedding, and their gradients by atomic updates of tiles; row 0 is padding.
def emb(V, D):
    n = T.dynamic("n")

    @T.prim_func
    def main(
        ids: T.Tensor((n,), "int64"),
        table: T.Tensor((V, D), "bfloat16"),
        out: T.Tensor((n, D), "bfloat16"),
        grad: T.Tensor((V, D), "float32"),
        hits: T.Tensor((V,), "uint64"),
    ):
        with T.Kernel(T.ceildiv(n, 4), threads=32) as b:
            row = T.alloc_fragment((D,), "bfloat16")
            g = T.alloc_fragment((D,), "float32")
            for i in T.serial(4):
                if b * 4 + i < n:
                    id = ids[b * 4 + i]
                    T.copy(table[id, 0:D], row)
                    T.copy(row, out[b * 4 + i, 0:D])
                    if id != 0:
                        for d in T.Parallel(D):
                            g[d] = T.float32(row[d]) * 2
                        T.atomic_add(grad[id, 0:D], g)
                        for _ in T.Parallel(1):
                            T.atomic_add(hits[id], 1)

    return main


@everywhere
def test_embedding(target):
    V, D, rng = 9, 20, np.random.default_rng(5)
    kernel = emb(V, D)
    for n in (1, 6, 33):
        ids, table = rng.integers(0, V, n), rng.integers(-8, 8, (V, D)).astype(BF16)
        out, grad, hits = np.full((n, D), np.nan, BF16), np.zeros((V, D), "f4"), np.zeros(V, "u8")
        run(kernel, target, ids, table, out, grad, hits)
        counts = np.bincount(ids, minlength=V) * (np.arange(V) > 0)
        check(out, table[ids])
        check(grad, 2 * table.astype("f4") * counts[:, None])
        check(hits, counts)
