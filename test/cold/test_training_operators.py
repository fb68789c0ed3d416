"""Training operators: each against NumPy in float64."""

import math

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from everywhere import blank, check, everywhere, run
from ml_dtypes import bfloat16 as BF16


# AdamW with the gradient clipped by its norm: three kernels, a length that the call tells, updates in place.
def adamw(block):
    n = T.dynamic("n")

    @T.prim_func
    def main(
        P: T.Tensor((n,), "float32"),
        G: T.Tensor((n,), "bfloat16"),
        M: T.Tensor((n,), "float32"),
        V: T.Tensor((n,), "float32"),
        P16: T.Tensor((n,), "bfloat16"),
        norm: T.Tensor((1,), "float32"),
        lr: T.float32,
        b1: T.float32,
        b2: T.float32,
        decay: T.float32,
        step: T.int32,
        limit: T.float32,
    ):
        total = T.alloc_global((1,), "float32")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(1):
                total[i] = 0
        with T.Kernel(T.ceildiv(n, block), threads=64) as bx:
            square = T.alloc_fragment((block,), "float32")
            part = T.alloc_fragment((1,), "float32")
            for i in T.Parallel(block):
                g = T.cast(G[bx * block + i], "float32")
                square[i] = g * g
            T.reduce_sum(square, part, dim=0)
            T.atomic_add(total, part)
        with T.Kernel(T.ceildiv(n, block), threads=64) as bx:
            clip = T.min(1.0, limit / (T.sqrt(total[0]) + 1e-6))
            for i in T.Parallel(block):
                at = bx * block + i
                if at < n:
                    g = T.cast(G[at], "float32") * clip
                    m = b1 * M[at] + (1 - b1) * g
                    v = b2 * V[at] + (1 - b2) * g * g
                    M[at], V[at] = m, v
                    m_hat = m / (1 - T.pow(b1, T.cast(step, "float32")))
                    v_hat = v / (1 - T.pow(b2, T.cast(step, "float32")))
                    p = P[at] * (1 - lr * decay) - lr * m_hat / (T.sqrt(v_hat) + 1e-8)
                    P[at] = p
                    P16[at] = p
            if bx == 0:
                norm[0] = T.sqrt(total[0])

    return main


@everywhere
@pytest.mark.parametrize("n", [1, 333])
def test_adamw(target, n):
    rng = np.random.default_rng(1)
    p, m = (rng.standard_normal(n).astype("f4") for _ in range(2))
    v = rng.random(n).astype("f4")
    g = rng.standard_normal(n).astype(BF16)
    g64, (p0, m0, v0) = g.astype("f8"), (x.astype("f8") for x in (p, m, v))
    norm = math.sqrt((g64 * g64).sum())
    g64 = g64 * min(1.0, 2.0 / (norm + 1e-6))
    m1, v1 = 0.9 * m0 + 0.1 * g64, 0.95 * v0 + 0.05 * g64**2
    p1 = p0 * (1 - 0.01 * 0.1) - 0.01 * (m1 / (1 - 0.9**7)) / (np.sqrt(v1 / (1 - 0.95**7)) + 1e-8)
    p16, out = blank(n, BF16), blank(1)
    run(adamw(128), target, p, g, m, v, p16, out, 0.01, 0.9, 0.95, 0.1, 7, 2.0)
    check(p, p1, 1e-6), check(m, m1, 1e-6), check(v, v1, 1e-6), check(p16, p1, 4e-3), check(out, [norm], 1e-6)


# Layer norm backward: the row sums along dim 1, the column sums along dim 0, those by atomics over blocks.
def layernorm_backward(M, N, rows):
    @T.prim_func
    def main(
        X: T.Tensor((M, N), "float16"),
        dY: T.Tensor((M, N), "float16"),
        W: T.Tensor((N,), "float32"),
        mean: T.Tensor((M,), "float32"),
        rstd: T.Tensor((M,), "float32"),
        dX: T.Tensor((M, N), "float16"),
        dW: T.Tensor((N,), "float32"),
        dB: T.Tensor((N,), "float32"),
    ):
        with T.Kernel(T.ceildiv(M, rows), threads=128) as bx:
            x_hat = T.alloc_fragment((rows, N), "float32")
            dy = T.alloc_fragment((rows, N), "float32")
            wdy = T.alloc_fragment((rows, N), "float32")
            prod = T.alloc_fragment((rows, N), "float32")
            c1 = T.alloc_fragment((rows,), "float32")
            c2 = T.alloc_fragment((rows,), "float32")
            columns = T.alloc_fragment((N,), "float32")
            T.copy(X[bx * rows : (bx + 1) * rows, :], x_hat)
            T.copy(dY[bx * rows, 0], dy)
            for i, j in T.Parallel(rows, N):
                row = bx * rows + i
                x_hat[i, j] = (x_hat[i, j] - mean[row]) * rstd[row]
                wdy[i, j] = dy[i, j] * W[j]
                prod[i, j] = wdy[i, j] * x_hat[i, j]
            T.reduce_sum(wdy, c1, dim=-1)
            T.reduce_sum(prod, c2, dim=1)
            for i, j in T.Parallel(rows, N):
                dx = wdy[i, j] - (c1[i] + x_hat[i, j] * c2[i]) / N
                dX[bx * rows + i, j] = dx * rstd[bx * rows + i]
            for i, j in T.Parallel(rows, N):
                prod[i, j] = dy[i, j] * x_hat[i, j]
            T.reduce_sum(prod, columns, dim=0)
            T.atomic_add(dW, columns)
            T.reduce_sum(dy, columns, dim=0)
            T.atomic_add(dB[0:N], columns)

    return main


@everywhere
def test_layernorm_backward(target):
    M, N, rng = 21, 77, np.random.default_rng(2)
    x, dy = rng.standard_normal((M, N)).astype("f2"), rng.standard_normal((M, N)).astype("f2")
    w, wide, d = rng.standard_normal(N).astype("f4"), x.astype("f8"), dy.astype("f8")
    mean, rstd = wide.mean(1), 1 / np.sqrt(wide.var(1) + 1e-5)
    hat = (wide - mean[:, None]) * rstd[:, None]
    wdy = d * w
    dx = (wdy - wdy.mean(1, keepdims=True) - hat * (wdy * hat).mean(1, keepdims=True)) * rstd[:, None]
    out, dw, db = blank((M, N), "f2"), np.zeros(N, "f4"), np.zeros(N, "f4")
    run(layernorm_backward(M, N, 8), target, x, dy, w, mean.astype("f4"), rstd.astype("f4"), out, dw, db)
    check(out, dx, 1e-3), check(dw, (d * hat).sum(0), 1e-5), check(db, d.sum(0), 1e-5)


# Softmax backward through attention dropout (eager): the mask is made again from a counter.
def softmax_backward(target):
    @tilelang.jit(target=target)
    def kernel(P, dO, seed, keep: float = 0.75, rows: int = 8):
        B, M, N = T.const("B, M, N")
        P: T.Tensor((B, M, N), T.float32)
        dO: T.Tensor((B, M, N), T.float32)
        seed: T.int64
        dS = T.empty((B, M, N), T.float32)
        bits = T.empty((B, M, N), T.uint32)
        with T.Kernel(T.ceildiv(M, rows), B, threads=64) as (bx, b):
            p = T.alloc_fragment((rows, N), "float32")
            dp = T.alloc_fragment((rows, N), "float32")
            both = T.alloc_fragment((rows, N), "float32")
            total = T.alloc_fragment((rows, 1), "float32")
            T.copy(P[b, bx * rows, 0], p)
            for i, j in T.Parallel(rows, N):
                at = (b * M + bx * rows + i) * N + j
                T.rng_init(seed, seq=at)
                r = T.rng_rand()
                kept = r < T.uint32(int(keep * 2**32))
                dp[i, j] = T.if_then_else(kept, dO[b, bx * rows + i, j] / keep, 0.0)
                both[i, j] = dp[i, j] * p[i, j]
                if bx * rows + i < M:
                    bits[b, bx * rows + i, j] = r
            T.reduce_sum(both, total, dim=1)
            for i, j in T.Parallel(rows, N):
                p[i, j] *= dp[i, j] - total[i, 0]
            T.copy(p, dS[b, bx * rows, 0])
        return dS, bits

    return kernel


def philox(seed, seq):
    """The first number of each sequence of Philox4x32-10, as cuRAND counts them."""
    low, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    c = [np.zeros_like(seq), np.zeros_like(seq), seq & mask, seq >> low]
    k = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(b >> low) ^ c[1] ^ np.uint64(k[0]), b & mask, (a >> low) ^ c[3] ^ np.uint64(k[1]), a & mask]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c[0].astype(np.uint32)


@everywhere
def test_softmax_backward_dropout(target):
    B, M, N, seed, rng = 2, 11, 37, 0x1234_5678_9ABC, np.random.default_rng(3)
    p = rng.random((B, M, N)).astype("f4")
    p /= p.sum(2, keepdims=True)
    do = rng.standard_normal((B, M, N)).astype("f4")
    ds, bits = softmax_backward(target)(p, do, seed)
    expected = philox(seed, np.arange(B * M * N, dtype=np.uint64)).reshape(B, M, N)
    assert np.array_equal(bits, expected)
    dp = np.where(expected < 0.75 * 2**32, do.astype("f8") / 0.75, 0)
    check(ds, p * (dp - (dp * p).sum(2, keepdims=True)), 1e-6)


# A GEMM whose epilogue adds a bias, applies GELU, scales, adds a residual, and finds each row's argmax.
@T.macro
def gelu(x: T.Ref):
    x = 0.5 * x * (1.0 + T.erf(x * 0.7071067811865476))


def larger(a, b):
    (x, i), (y, j) = a, b
    first = (x > y) | ((x == y) & (i < j))
    return T.if_then_else(first, x, y), T.if_then_else(first, i, j)


def gemm_epilogue(M, N, K, bM=32, bN=32, bK=16):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((N, K), "float16"),
        bias: T.Tensor((N,), "float16"),
        scale: T.Tensor((N,), "float32"),
        R: T.Tensor((M, N), "float16"),
        C: T.Tensor((M, N), "float16"),
        best: T.Tensor((M,), "float32"),
        where: T.Tensor((M,), "int32"),
    ):
        with T.Kernel(T.ceildiv(M, bM), threads=128) as by:
            A_s = T.alloc_shared((bM, bK), "float16")
            B_s = T.alloc_shared((bN, bK), "float16")
            acc = T.alloc_fragment((bM, bN), "float32")
            place = T.alloc_fragment((bM, bN), "int32")
            top = T.alloc_fragment((bM,), "float32")
            at = T.alloc_fragment((bM,), "int32")
            T.fill(top, -T.infinity("float32"))
            T.fill(at, N)
            for bx in T.serial(T.ceildiv(N, bN)):
                T.clear(acc)
                for k in T.Pipelined(T.ceildiv(K, bK), num_stages=3):
                    T.copy(A[by * bM, k * bK], A_s)
                    T.copy(B[bx * bN, k * bK], B_s)
                    T.gemm(A_s, B_s, acc, transpose_B=True)
                for i, j in T.Parallel(bM, bN):
                    acc[i, j] += bias[bx * bN + j]
                    gelu(acc[i, j])
                    acc[i, j] = acc[i, j] * scale[bx * bN + j] + R[by * bM + i, bx * bN + j]
                T.copy(acc, C[by * bM, bx * bN])
                for i, j in T.Parallel(bM, bN):
                    place[i, j] = bx * bN + j
                    acc[i, j] = T.if_then_else(bx * bN + j < N, acc[i, j], -T.infinity("float32"))
                T.reduce(
                    (acc, place),
                    (top, at),
                    dim=1,
                    clear=False,
                    combine=larger,
                    identity=(-T.infinity("float32"), N),
                )
            T.copy(top, best[by * bM])
            T.copy(at, where[by * bM])

    return main


@everywhere
def test_gemm_epilogue(target):
    M, N, K, rng = 45, 70, 41, np.random.default_rng(4)
    a, b = rng.standard_normal((M, K)).astype("f2"), rng.standard_normal((N, K)).astype("f2")
    bias, scale, r = (rng.standard_normal(s).astype(d) for s, d in ((N, "f2"), (N, "f4"), ((M, N), "f2")))
    x = a.astype("f8") @ b.astype("f8").T + bias
    x = 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) * scale + r
    c, best, where = blank((M, N), "f2"), blank(M), blank(M, "i4")
    run(gemm_epilogue(M, N, K), target, a, b, bias, scale, r, c, best, where)
    check(c, x, 1e-3), check(best, x.max(1), 1e-5)
    assert np.array_equal(where, x.argmax(1))


# Batched GEMM of strided tensors, C = alpha * op(A) @ op(B) + beta * C, in all transposes.
def strided_gemm(batch, M, N, K, ta, tb, dtype, bM=32, bN=32, bK=16):
    sa, ta_, sb, tb_, sc = T.dynamic("sa, ta_, sb, tb_, sc")
    a_shape, b_shape = ((K, M) if ta else (M, K)), ((N, K) if tb else (K, N))

    @T.prim_func
    def main(
        A: T.StridedTensor((batch, *a_shape), (sa, ta_, 1), dtype),
        B: T.StridedTensor((batch, *b_shape), (sb, tb_, 1), dtype),
        C: T.StridedTensor((batch, M, N), (sc, N, 1), "float32"),
        alpha: T.float32,
        beta: T.float32,
    ):
        with T.Kernel(T.ceildiv(N, bN), T.ceildiv(M, bM), batch, threads=64) as (bx, by, b):
            A_s = T.alloc_shared((bK, bM) if ta else (bM, bK), dtype)
            B_s = T.alloc_shared((bN, bK) if tb else (bK, bN), dtype)
            C_l = T.alloc_fragment((bM, bN))
            old = T.alloc_fragment((bM, bN), "float32")
            T.clear(C_l)
            T.copy(C[b, by * bM, bx * bN], old)
            for ko in T.Pipelined(T.ceildiv(K, bK), num_stages=2):
                if ta:
                    T.copy(A[b, ko * bK, by * bM], A_s)
                else:
                    T.copy(A[b, by * bM, ko * bK], A_s)
                T.copy(B[b, bx * bN, ko * bK] if tb else B[b, ko * bK, bx * bN], B_s)
                T.gemm(A_s, B_s, C_l, ta, tb)
            for i, j in T.Parallel(bM, bN):
                C_l[i, j] = alpha * C_l[i, j] + beta * old[i, j]
            T.copy(C_l, C[b, by * bM, bx * bN])

    return main


@everywhere
@pytest.mark.parametrize(
    "dtype,ta,tb", [("float16", 0, 0), ("float32", 0, 1), ("float16", 1, 0), ("float32", 1, 1)]
)
def test_strided_gemm(target, ta, tb, dtype):
    batch, M, N, K, rng = 2, 37, 45, 29, np.random.default_rng(5)
    rows, columns = (K, M) if ta else (M, K)
    a = rng.standard_normal((batch * 2, 40, 50)).astype(dtype)[::2, :rows, 3 : 3 + columns]
    b = rng.standard_normal((batch, 49, 61)).astype(dtype)[:, 2 : 2 + (N if tb else K), : (K if tb else N)]
    c = rng.standard_normal((batch, 2, M, N)).astype("f4")
    kept, old = c[:, 0].copy(), c[:, 1].astype("f8")
    a64, b64 = a.astype("f8"), b.astype("f8")
    product = (a64.transpose(0, 2, 1) if ta else a64) @ (b64.transpose(0, 2, 1) if tb else b64)
    run(strided_gemm(batch, M, N, K, bool(ta), bool(tb), dtype), target, a, b, c[:, 1], 0.5, -2.0)
    check(c[:, 1], 0.5 * product - 2 * old, 1e-5)
    assert np.array_equal(c[:, 0], kept)


# Quantise to int8 by columns, four to a word by shifts; then back.
def quantise(M, N, rows=16, words=8):
    columns = 4 * words

    @T.prim_func
    def main(
        X: T.Tensor((M, N), "float32"),
        S: T.Tensor((N,), "float32"),
        Q: T.Tensor((M, N // 4), "int32"),
        Y: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, columns), threads=64) as bx:
            x = T.alloc_shared((rows, columns), "float32")
            top = T.alloc_fragment((1, columns), "float32")
            T.fill(top, 1e-8)
            for k in T.Pipelined(T.ceildiv(M, rows), num_stages=2):
                T.copy(X[k * rows, bx * columns], x)
                T.reduce_absmax(x, top, dim=0, clear=False)
            for j in T.Parallel(columns):
                S[bx * columns + j] = top[0, j] / 127
            for k in range(T.ceildiv(M, rows)):
                word = T.alloc_fragment((rows, words), "int32")
                T.clear(word)
                for i, w in T.Parallel(rows, words):
                    for part in T.unroll(4):
                        j = bx * columns + w * 4 + part
                        q = T.round(T.ieee_fdiv(X[k * rows + i, j], top[0, w * 4 + part] / 127))
                        n = T.cast(T.clamp(q, -127, 127), "int8")
                        word[i, w] |= (T.cast(n, "int32") & 255) << (part * 8)
                T.copy(word, Q[k * rows, bx * words])
        with T.Kernel(M, threads=32) as row:
            for j in T.Parallel(N):
                n = T.unpack_int(8, Q[row, j // 4], j % 4, "int8")
                Y[row, j] = T.cast(n, "float32") * S[j]

    return main


@everywhere
def test_quantise(target):
    M, N, rng = 37, 44, np.random.default_rng(6)
    x = rng.standard_normal((M, N)).astype("f4")
    s, q, y = blank(N), blank((M, N // 4), "i4"), blank((M, N))
    run(quantise(M, N), target, x, s, q, y)
    scale = np.abs(x).max(0) / np.float32(127)
    n = np.clip(np.rint(x / scale), -127, 127).astype("i1")
    check(s, scale, 0)
    assert np.array_equal(q, n.view("<i4"))
    check(y, n.astype("f8") * scale, 1e-7)


# Group norm with SiLU over channels last, an extent that the call tells, sums by reducers.
def group_norm(C, groups, step=16):
    B, HW = T.dynamic("B, HW")
    wide = C // groups

    @T.macro
    def moment(X, b, g, shift, power, out):
        part = T.alloc_reducer((1,), "float32", "sum")
        T.clear(part)
        for k in T.serial(T.ceildiv(HW, step)):
            for i, c in T.Parallel(step, wide):
                if k * step + i < HW:
                    v = T.cast(X[b, k * step + i, g * wide + c], "float32") - shift
                    part[0] += v * v if power == 2 else v
        T.finalize_reducer(part, out)

    @T.prim_func
    def main(
        X: T.Tensor((B, HW, C), "bfloat16"),
        W: T.Tensor((C,), "float32"),
        b_: T.Tensor((C,), "float32"),
        Y: T.Tensor((B, HW, C), "float32"),
        stats: T.Tensor((B, groups, 2), "float32"),
    ):
        with T.Kernel(groups, B, threads=64) as (g, b):
            total = T.alloc_fragment((1,), "float32")
            squares = T.alloc_fragment((1,), "float32")
            moment(X, b, g, 0.0, 1, total)
            mean = total[0] / T.cast(HW * wide, "float32")
            moment(X, b, g, mean, 2, squares)
            rstd = T.rsqrt(squares[0] / T.cast(HW * wide, "float32") + 1e-5)
            stats[b, g, 0] = mean
            stats[b, g, 1] = rstd
            for k in T.serial(T.ceildiv(HW, step)):
                for i, c in T.Parallel(step, wide):
                    at, channel = k * step + i, g * wide + c
                    v = (X[b, at, channel] - mean) * rstd * W[channel] + b_[channel]
                    Y[b, at, channel] = v * T.sigmoid(v)

    return main


@everywhere
def test_group_norm(target):
    B, HW, C, G, rng = 2, 35, 18, 3, np.random.default_rng(7)
    x = (rng.standard_normal((B, HW, C)) * 2 + 3).astype(BF16)
    w, b = (rng.standard_normal(C).astype("f4") for _ in range(2))
    y, stats = blank((B, HW, C)), blank((B, G, 2))
    run(group_norm(C, G), target, x, w, b, y, stats)
    g = x.astype("f8").reshape(B, HW, G, C // G)
    mean, rstd = g.mean((1, 3), keepdims=True), 1 / np.sqrt(g.var((1, 3), keepdims=True) + 1e-5)
    v = ((g - mean) * rstd).reshape(B, HW, C) * w + b
    check(y, v / (1 + np.exp(-v)), 1e-5)
    check(stats, np.stack([mean, rstd], -1).reshape(B, G, 2), 1e-5)
