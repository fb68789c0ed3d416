"""Products of narrow numbers with scales and zero points, and norms that give them."""

import numpy as np
import tilelang.language as T
from everywhere import blank, check, everywhere, run
from ml_dtypes import bfloat16 as BF16
from ml_dtypes import float8_e4m3fn as F8
from ml_dtypes import float8_e8m0fnu as E8

RNG = np.random.default_rng


# Weights of four bits, eight to an int32, with a scale and a zero point for each group; tokens of eight bits.
def w4a8(N, K, G, bM=16, bN=32):
    M = T.dynamic("M")

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "int8"),
        sa: T.Tensor((M,), "float32"),
        W: T.Tensor((N, K // 8), "int32"),
        s: T.Tensor((N, K // G), "float16"),
        z: T.Tensor((N, K // G), "uint8"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, bN), T.ceildiv(M, bM), threads=64) as (bx, by):
            a = T.alloc_shared((bM, G), "int8")
            w = T.alloc_shared((bN, G), "int8")
            part = T.alloc_fragment((bM, bN), "int32")
            acc = T.alloc_fragment((bM, bN), "float32")
            T.clear(acc)
            for g in T.serial(K // G):
                T.copy(A[by * bM, g * G], a)
                for i, j in T.Parallel(bN, G):
                    w[i, j] = T.unpack_uint(4, W[bx * bN + i, (g * G + j) // 8], j % 8, "int8") - T.cast(
                        z[bx * bN + i, g], "int8"
                    )
                T.gemm(a, w, part, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(bM, bN):
                    acc[i, j] += T.cast(part[i, j], "float32") * T.cast(s[bx * bN + j, g], "float32")
            for i, j in T.Parallel(bM, bN):
                C[by * bM + i, bx * bN + j] = acc[i, j] * sa[by * bM + i]

    return main


@everywhere
def test_w4a8(target):
    rng = RNG(0)
    for M, N, K, G in ((5, 40, 64, 32), (33, 24, 96, 32), (1, 100, 128, 64)):
        a, scale = rng.integers(-128, 128, (M, K)).astype("i1"), rng.random(M).astype("f4")
        codes, zero = rng.integers(0, 16, (N, K)), rng.integers(0, 16, (N, K // G)).astype("u1")
        s = rng.random((N, K // G)).astype("f2")
        packed = (codes.reshape(N, -1, 8).astype("u8") << (np.arange(8, dtype="u8") * 4)).sum(-1)
        w = (codes - np.repeat(zero.astype(int), G, 1)) * np.repeat(s.astype("f8"), G, 1)
        found = blank((M, N))
        run(w4a8(N, K, G), target, a, scale, packed.astype("u4").view("i4"), s, zero, found)
        check(found, a.astype("f8") @ w.T * scale[:, None], 1e-6)


# Bytes times bytes, both with zero points; the sums are given back, and scaled in 64 bits to eight.
def w8a8(N, K, bM=32, bN=32, bK=32):
    M = T.dynamic("M")

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "uint8"),
        W: T.Tensor((K, N), "uint8"),
        za: T.Tensor((M,), "int32"),
        zw: T.Tensor((N,), "int32"),
        C: T.Tensor((M, N), "int32"),
        Q: T.Tensor((M, N), "int8"),
        mul: T.Tensor((N,), "int32"),
        shift: T.int32,
    ):
        with T.Kernel(T.ceildiv(N, bN), T.ceildiv(M, bM), threads=128) as (bx, by):
            a = T.alloc_shared((bM, bK), "uint8")
            w = T.alloc_shared((bK, bN), "uint8")
            acc = T.alloc_fragment((bM, bN), "int32")
            ra = T.alloc_fragment((bM,), "int32")
            cw = T.alloc_fragment((bN,), "int32")
            af = T.alloc_fragment((bM, bK), "int32")
            wf = T.alloc_fragment((bK, bN), "int32")
            T.clear(acc)
            T.clear(ra)
            T.clear(cw)
            for k in T.Pipelined(T.ceildiv(K, bK), num_stages=3):
                T.copy(A[by * bM, k * bK], a)
                T.copy(W[k * bK, bx * bN], w)
                T.gemm(a, w, acc)
                T.copy(a, af)
                T.copy(w, wf)
                T.reduce_sum(af, ra, dim=1, clear=False)
                T.reduce_sum(wf, cw, dim=0, clear=False)
            for i, j in T.Parallel(bM, bN):
                r, c = by * bM + i, bx * bN + j
                acc[i, j] = acc[i, j] - za[r] * cw[j] - zw[c] * ra[i] + K * za[r] * zw[c]
            T.copy(acc, C[by * bM, bx * bN])
            for i, j in T.Parallel(bM, bN):
                # round half up of a 64-bit product, saturate
                p = T.cast(acc[i, j], "int64") * mul[bx * bN + j]
                v = (p + (T.cast(1, "int64") << (shift - 1))) >> shift
                Q[by * bM + i, bx * bN + j] = T.cast(T.min(T.max(v, -128), 127), "int8")

    return main


@everywhere
def test_w8a8_with_zero_points(target):
    rng = RNG(1)
    for M, N, K in ((5, 33, 40), (40, 64, 100), (1, 8, 31)):
        a, w = rng.integers(0, 256, (M, K)).astype("u1"), rng.integers(0, 256, (K, N)).astype("u1")
        a[0], w[:, 0] = 255, 255
        za, zw = rng.integers(0, 256, M).astype("i4"), rng.integers(0, 256, N).astype("i4")
        factor, shift = rng.integers(1 << 20, 1 << 31, N).astype("i4"), 44
        sums = (a.astype("i8") - za[:, None]) @ (w.astype("i8") - zw)
        found, narrow = blank((M, N), "i4"), blank((M, N), "i1")
        run(w8a8(N, K), target, a, w, za, zw, found, narrow, factor, shift)
        check(found, sums)
        check(narrow, np.clip((sums * factor + (1 << shift - 1)) >> shift, -128, 127))


# Numbers of eight bits with a scale for each block: one kernel makes them, the next multiplies.
def fp8(N, K, bs=64, bM=32, e="float8_e4m3fn"):
    M = T.dynamic("M")

    @T.prim_func
    def main(
        X: T.Tensor((M, K), "float32"),
        W: T.Tensor((N, K), e),
        sw: T.Tensor((T.ceildiv(N, bs), T.ceildiv(K, bs)), "float32"),
        C: T.Tensor((M, N), "bfloat16"),
        Xq: T.Tensor((M, K), e),
        sx: T.Tensor((M, T.ceildiv(K, bs)), "float32"),
    ):
        with T.Kernel(T.ceildiv(K, bs), T.ceildiv(M, bM), threads=128) as (g, by):
            x = T.alloc_fragment((bM, bs), "float32")
            m = T.alloc_fragment((bM,), "float32")
            T.copy(X[by * bM, g * bs], x)
            T.reduce_absmax(x, m, dim=1)
            for i in T.Parallel(bM):
                m[i] = T.max(m[i], 1e-10) / 448.0
            for i, j in T.Parallel(bM, bs):
                x[i, j] = T.clamp(x[i, j] / m[i], -448.0, 448.0)
            T.copy(x, Xq[by * bM, g * bs])
            for i in T.Parallel(bM):
                if by * bM + i < M:
                    sx[by * bM + i, g] = m[i]
        with T.Kernel(T.ceildiv(N, bs), T.ceildiv(M, bM), threads=128) as (bx, by):
            xs = T.alloc_shared((bM, bs), e)
            ws = T.alloc_shared((bs, bs), e)
            part = T.alloc_fragment((bM, bs), "float32")
            acc = T.alloc_fragment((bM, bs), "float32")
            sc = T.alloc_shared((bM,), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, bs), num_stages=2):
                T.copy(Xq[by * bM, k * bs], xs)
                T.copy(W[bx * bs, k * bs], ws)
                for i in T.Parallel(bM):
                    sc[i] = sx[by * bM + i, k] * sw[bx, k]
                T.gemm(xs, ws, part, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(bM, bs):
                    acc[i, j] += part[i, j] * sc[i]
            T.copy(acc, C[by * bM, bx * bs])

    return main


@everywhere
def test_fp8_with_scales_of_blocks(target):
    rng = RNG(2)
    for M, N, K in ((5, 70, 100), (40, 64, 64), (33, 20, 130)):
        x = (rng.standard_normal((M, K)) * 10.0 ** rng.integers(-3, 4, (M, 1))).astype("f4")
        x[0] = 0
        w, nb, kb = (rng.standard_normal((N, K)) * 50).astype(F8), -(-N // 64), -(-K // 64)
        sw = rng.random((nb, kb)).astype("f4")
        padded = np.zeros((M, kb * 64), "f4")
        padded[:, :K] = x
        sx = np.maximum(abs(padded.reshape(M, kb, 64)).max(-1), np.float32(1e-10)) / np.float32(448)
        spread = np.repeat(sx, 64, 1)[:, :K]
        q = np.clip(x / spread, -448, 448).astype(F8)
        c, xq, scales = np.full((M, N), np.nan, BF16), np.full((M, K), np.nan, F8), blank((M, kb))
        run(fp8(N, K), target, x, w, sw, c, xq, scales)
        check(xq.view("u1"), q.view("u1"))
        check(scales, sx)
        wide = w.astype("f8") * np.repeat(np.repeat(sw, 64, 0), 64, 1)[:N, :K]
        check(c, (q.astype("f8") * spread) @ wide.T, 5e-3)


# Weights of four bits with an exponent for each 32 of them.
def mxfp4(N, K, bM=16, bN=32, bK=32):
    M = T.dynamic("M")

    @T.prim_func
    def main(
        X: T.Tensor((M, K), "bfloat16"),
        W: T.Tensor((N, K), "float4_e2m1fn"),
        s: T.Tensor((N, K // 32), "float8_e8m0fnu"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, bN), T.ceildiv(M, bM), threads=64) as (bx, by):
            x = T.alloc_shared((bM, bK), "bfloat16")
            w = T.alloc_shared((bN, bK), "bfloat16")
            w4 = T.alloc_shared((bN, bK), "float4_e2m1fn")
            acc = T.alloc_fragment((bM, bN), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, bK), num_stages=2):
                T.copy(X[by * bM, k * bK], x)
                T.copy(W[bx * bN, k * bK], w4)
                for i, j in T.Parallel(bN, bK):
                    w[i, j] = T.cast(w4[i, j], "float32") * T.cast(s[bx * bN + i, k], "float32")
                T.gemm(x, w, acc, transpose_B=True)
            T.copy(acc, C[by * bM, bx * bN])

    return main


@everywhere
def test_mxfp4(target):
    rng, half = RNG(3), np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    values = np.concatenate([half, -half])
    for M, N, K in ((5, 40, 64), (17, 32, 96), (1, 7, 32)):
        x, codes = rng.standard_normal((M, K)).astype(BF16), rng.integers(0, 16, (N, K)).astype("u1")
        s = (2.0 ** rng.integers(-3, 4, (N, K // 32))).astype(E8)
        found = blank((M, N))
        run(mxfp4(N, K), target, x, codes[:, ::2] | codes[:, 1::2] << 4, s, found)
        check(found, x.astype("f8") @ (values[codes] * np.repeat(s.astype("f8"), 32, 1)).T, 1e-6)


# The residual is added in place; its norm goes out in eight bits.
def rms(D):
    n = T.dynamic("n")

    @T.prim_func
    def main(
        X: T.Tensor((n, D), "bfloat16"),
        R: T.Tensor((n, D), "bfloat16"),
        w: T.Tensor((D,), "float32"),
        eps: T.float32,
        sc: T.Tensor((1,), "float32"),
        O: T.Tensor((n, D), "float8_e4m3fn"),
    ):
        with T.Kernel(n, threads=64) as i:
            x = T.alloc_fragment((1, D), "float32")
            sq = T.alloc_reducer((1,), "float32", op="sum", replication="all")
            T.clear(sq)
            for _, j in T.Parallel(1, D):
                v = T.cast(X[i, j], "float32") + T.cast(R[i, j], "float32")
                R[i, j] = v
                x[_, j] = T.cast(T.cast(v, "bfloat16"), "float32")
            for _, j in T.Parallel(1, D):
                sq[0] += x[0, j] * x[0, j]
            T.finalize_reducer(sq)
            for _, j in T.Parallel(1, D):
                O[i, j] = x[0, j] * T.rsqrt(sq[0] / D + eps) * w[j] / sc[0]

    return main


@everywhere
def test_norm_to_fp8(target):
    rng = RNG(4)
    for n, D in ((3, 50), (1, 256), (5, 64)):
        x, r = (rng.standard_normal((n, D)).astype(BF16) for _ in "xr")
        w, found, step = rng.random(D).astype("f4"), np.full((n, D), np.nan, F8), np.array([0.01], "f4")
        total = (x.astype("f4") + r.astype("f4")).astype(BF16)
        t = total.astype("f8")
        run(rms(D), target, x, r, w, 1e-6, step, found)
        check(r.view("u2"), total.view("u2"))
        exact = np.clip(t / np.sqrt((t * t).mean(1, keepdims=True) + 1e-6) * w / 0.01, -448, 448)
        assert (abs(found.astype("f8") - exact) <= abs(exact) / 15 + 1e-3).all()
