"""Images, filters, transforms, solvers, particles, casts and dates."""

import ml_dtypes
import numpy as np
import pytest
import tilelang
import tilelang.language as T
from everywhere import blank, check, everywhere, run


@everywhere
def test_game_of_life(target):
    H, W = 19, 23

    @T.prim_func
    def main(X: T.Tensor((H, W), "uint8"), Y: T.Tensor((H, W), "uint8"), steps: T.int32):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((2, H, W), "uint8")
            T.copy(X, S[0, :, :])
            for t in T.serial(steps):
                for i, j in T.Parallel(H, W):
                    near = T.alloc_var("int32", 0)
                    for di, dj in T.grid(3, 3):
                        near += S[t % 2, (i + di + H - 1) % H, (j + dj + W - 1) % W]
                    alive = S[t % 2, i, j] == 1
                    S[1 - t % 2, i, j] = T.if_then_else((near == 3) | ((near == 4) & alive), 1, 0)
            T.copy(S[steps % 2, :, :], Y)

    x = np.random.default_rng(1).integers(0, 2, (H, W)).astype("u1")
    kernel, world = tilelang.compile(main, target=target), x.copy()
    for steps in range(4):
        y = blank((H, W), "u1")
        kernel(x, y, steps)
        check(y, world)
        near = sum(np.roll(world, (a, b), (0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1)) - world
        world = ((near == 3) | ((near == 2) & (world == 1))).astype("u1")


@everywhere
def test_separable_gauss(target):
    H, W, bh, bw = 21, 37, 8, 16

    @T.macro
    def smooth(src, dst, rows, cols, di, dj):
        for i, j in T.Parallel(rows, cols):
            outer = src[i, j] + src[i + 4 * di, j + 4 * dj]
            inner = src[i + di, j + dj] + src[i + 3 * di, j + 3 * dj]
            dst[i, j] = (outer + 4 * inner + 6 * src[i + 2 * di, j + 2 * dj]) / 16

    @T.prim_func
    def main(X: T.Tensor((H, W), "float16"), Y: T.Tensor((H, W), "float32")):
        with T.Kernel(T.ceildiv(W, bw), T.ceildiv(H, bh), threads=64) as (bx, by):
            tile = T.alloc_shared((bh + 4, bw + 4), "float32")
            mid = T.alloc_shared((bh + 4, bw), "float32")
            out = T.alloc_fragment((bh, bw), "float32")
            for i, j in T.Parallel(bh + 4, bw + 4):
                y, x = T.clamp(by * bh + i - 2, 0, H - 1), T.min(T.max(bx * bw + j - 2, 0), W - 1)
                tile[i, j] = X[y, x]
            smooth(tile, mid, bh + 4, bw, 0, 1)
            smooth(mid, out, bh, bw, 1, 0)
            T.copy(out, Y[by * bh, bx * bw])

    x, y = np.random.default_rng(2).standard_normal((H, W)).astype("f2"), blank((H, W))
    run(main, target, x, y)
    padded, taps = np.pad(x.astype("f8"), 2, mode="edge"), np.array([1, 4, 6, 4, 1]) / 16
    rows = sum(w * padded[:, k : k + W] for k, w in enumerate(taps))
    check(y, sum(w * rows[k : k + H] for k, w in enumerate(taps)), 1e-6)


def middle(values):
    """The median of a list of values of the kernel, by exchanges of neighbours."""
    values = list(values)
    for last in range(len(values) - 1, 0, -1):
        for k in range(last):
            values[k], values[k + 1] = T.min(values[k], values[k + 1]), T.max(values[k], values[k + 1])
    return values[len(values) // 2]


@everywhere
def test_median_of_nine(target):
    B, H, W = 2, 13, 27

    @T.prim_func
    def main(X: T.Tensor((B, H, W), "uint8"), Y: T.Tensor((B, H, W), "uint8")):
        with T.Kernel(T.ceildiv(W, 16), T.ceildiv(H, 8), B, threads=64) as (bx, by, b):
            for i, j in T.Parallel(8, 16):
                y, x = by * 8 + i, bx * 16 + j
                Y[b, y, x] = middle([X[b, y - 1 + k // 3, x - 1 + k % 3] for k in range(9)])

    x, y = np.random.default_rng(3).integers(0, 256, (B, H, W)).astype("u1"), blank((B, H, W), "u1")
    run(main, target, x, y)
    padded = np.pad(x, [(0, 0), (1, 1), (1, 1)])
    near = [padded[:, a : a + H, b : b + W] for a in range(3) for b in range(3)]
    check(y, np.median(near, axis=0).astype("u1"))


@everywhere
def test_bilinear_resize(target):
    C = 3
    H, W, h, w = T.dynamic("H, W, h, w")

    @T.prim_func
    def main(X: T.Tensor((H, W, C), "uint8"), Y: T.Tensor((h, w, C), "float32")):
        with T.Kernel(T.ceildiv(w, 16), T.ceildiv(h, 4), threads=64) as (bx, by):
            for i, j, c in T.Parallel(4, 16, C):
                y, x = by * 4 + i, bx * 16 + j
                if y < h and x < w:
                    fy = T.max((T.float32(y) + 0.5) * T.float32(H) / T.float32(h) - 0.5, 0)
                    fx = T.max((T.float32(x) + 0.5) * T.float32(W) / T.float32(w) - 0.5, 0)
                    y0, x0 = T.cast(T.floor(fy), "int32"), T.cast(T.floor(fx), "int32")
                    y1, x1 = T.min(y0 + 1, H - 1), T.min(x0 + 1, W - 1)
                    v, u = fy - T.floor(fy), fx - T.floor(fx)
                    top = T.float32(X[y0, x0, c]) * (1 - u) + T.float32(X[y0, x1, c]) * u
                    low = T.float32(X[y1, x0, c]) * (1 - u) + T.float32(X[y1, x1, c]) * u
                    Y[y, x, c] = top * (1 - v) + low * v

    kernel = tilelang.compile(main, target=target)
    for (H0, W0), (h0, w0) in (((9, 14), (13, 21)), ((17, 11), (6, 19)), ((1, 1), (2, 3))):
        img, y = np.random.default_rng(4).integers(0, 256, (H0, W0, C)).astype("u1"), blank((h0, w0, C))
        kernel(img, y)

        def axis(big, small):
            at = np.maximum((np.arange(small) + 0.5) * big / small - 0.5, 0)
            low = np.minimum(np.floor(at).astype(int), big - 1)
            return low, np.minimum(low + 1, big - 1), at - np.floor(at)

        (a, b, v), (p, q, u) = axis(H0, h0), axis(W0, w0)
        v, u, img = v[:, None, None], u[None, :, None], img.astype("f8")
        upper, lower = (img[r][:, p] * (1 - u) + img[r][:, q] * u for r in (a, b))
        check(y, upper * (1 - v) + lower * v, 1e-5)


@everywhere
def test_dilation_with_a_padding_of_its_own(target):
    H, W, bh, bw = 18, 35, 8, 16

    @T.prim_func
    def main(X: T.Tensor((H, W), "int8"), Y: T.Tensor((H, W), "int8")):
        with T.Kernel(T.ceildiv(W, bw), T.ceildiv(H, bh), threads=64) as (bx, by):
            T.annotate_safe_value({X: -128})
            tile = T.alloc_shared((bh + 2, bw + 2), "int8")
            T.copy(X[by * bh - 1, bx * bw - 1], tile)
            for i, j in T.Parallel(bh, bw):
                tall = T.max(T.max(tile[i, j + 1], tile[i + 2, j + 1]), tile[i + 1, j + 1])
                Y[by * bh + i, bx * bw + j] = T.max(tall, T.max(tile[i + 1, j], tile[i + 1, j + 2]))

    x, y = np.random.default_rng(5).integers(-128, -20, (H, W)).astype("i1"), blank((H, W), "i1")
    run(main, target, x, y)
    p = np.pad(x, 1, constant_values=-128)
    check(y, np.max([p[1:-1, 1:-1], p[:-2, 1:-1], p[2:, 1:-1], p[1:-1, :-2], p[1:-1, 2:]], axis=0))


@everywhere
def test_max_pooling_forward_and_backward(target):
    B, H, W = 2, 11, 13
    h, w = (H - 3) // 2 + 1, (W - 3) // 2 + 1

    @T.prim_func
    def main(
        X: T.Tensor((B, H, W), "float32"),
        G: T.Tensor((B, h, w), "float32"),
        Y: T.Tensor((B, h, w), "float32"),
        A: T.Tensor((B, h, w), "uint8"),
        D: T.Tensor((B, H, W), "float32"),
    ):
        with T.Kernel(B, threads=64) as b:
            for i, j in T.Parallel(h, w):
                best, where = T.alloc_var("float32", -T.infinity("float32")), T.alloc_var("int32", 0)
                for u, v in T.grid(3, 3):
                    x = X[b, 2 * i + u, 2 * j + v]
                    if x > best:
                        best = x
                        where = u * 3 + v
                Y[b, i, j] = best
                A[b, i, j] = T.uint8(where)
            for i, j in T.Parallel(H, W):
                D[b, i, j] = 0
        with T.Kernel(T.ceildiv(w, 4), T.ceildiv(h, 4), B, threads=32) as (bx, by, b):
            for i, j in T.Parallel(4, 4):
                y, x = by * 4 + i, bx * 4 + j
                if y < h and x < w:
                    a = T.int32(A[b, y, x])
                    T.atomic_add(D[b, 2 * y + a // 3, 2 * x + a % 3], G[b, y, x])

    rng = np.random.default_rng(6)
    x, g = rng.standard_normal((B, H, W)).astype("f4"), rng.standard_normal((B, h, w)).astype("f4")
    y, a, d = blank((B, h, w)), blank((B, h, w), "u1"), blank((B, H, W))
    run(main, target, x, g, y, a, d)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))[:, ::2, ::2].reshape(B, h, w, 9)
    check(y, windows.max(-1))
    check(a, windows.argmax(-1))
    exact = np.zeros((B, H, W))
    for (b, i, j), k in np.ndenumerate(windows.argmax(-1)):
        exact[b, 2 * i + k // 3, 2 * j + k % 3] += g[b, i, j]
    check(d, exact, 1e-6)


@everywhere
def test_filter_in_fixed_point_that_saturates(target):
    B, n, taps, tile = 3, 90, 13, 32

    @T.prim_func
    def main(X: T.Tensor((B, n), "int16"), h: T.Tensor((taps,), "int16"), Y: T.Tensor((B, n), "int16")):
        with T.Kernel(T.ceildiv(n, tile), B, threads=32) as (bx, b):
            acc = T.alloc_fragment((tile,), "int64")
            T.fill(acc, 1 << 14)  # a half: what follows rounds
            for k in range(taps):
                for i in T.Parallel(tile):
                    acc[i] += T.int64(X[b, bx * tile + i - k]) * T.int64(h[k])
            for i in T.Parallel(tile):
                acc[i] = acc[i] >> 15
            T.clamp(acc, -(2**15), 2**15 - 1)
            T.copy(acc, Y[b, bx * tile])

    rng = np.random.default_rng(7)
    x, h = (rng.integers(-(2**15), 2**15, shape).astype("i2") for shape in ((B, n), taps))
    x[1], h[:6] = -(2**15), -(2**15)
    y = blank((B, n), "i2")
    run(main, target, x, h, y)
    exact = np.array([np.convolve(row, h.astype("i8"))[:n] for row in x.astype("i8")])
    check(y, np.clip((exact + (1 << 14)) >> 15, -(2**15), 2**15 - 1).astype("i2"))


@everywhere
def test_fourier_transform_of_rows(target):
    rows, n, log = 3, 50, 6
    full = 1 << log

    def mirrored(i):
        return sum((i >> k & 1) << (log - 1 - k) for k in range(log))

    @T.prim_func
    def main(X: T.Tensor((rows, n, 2), "float32"), Y: T.Tensor((rows, full, 2), "float32")):
        with T.Kernel(rows, threads=32) as r:
            re, im = T.alloc_shared((full,), "float32"), T.alloc_shared((full,), "float32")
            for i in T.Parallel(full):
                re[mirrored(i)] = X[r, i, 0]
                im[mirrored(i)] = X[r, i, 1]
            for s in T.serial(log):
                half = 1 << s
                for p in T.Parallel(full // 2):
                    low = (p // half) * 2 * half + p % half
                    angle = T.float32(p % half) / T.float32(half) * -np.pi
                    c, d = T.cos(angle), T.sin(angle)
                    high = low + half
                    x, y = re[low], im[low]
                    u, v = re[high] * c - im[high] * d, re[high] * d + im[high] * c
                    re[low], im[low] = x + u, y + v
                    re[high], im[high] = x - u, y - v
            for i in T.Parallel(full):
                Y[r, i, 0] = re[i]
                Y[r, i, 1] = im[i]

    x, y = np.random.default_rng(8).standard_normal((rows, n, 2)).astype("f4"), blank((rows, full, 2))
    run(main, target, x, y)
    exact = np.fft.fft(x[..., 0].astype("f8") + 1j * x[..., 1], full)
    check(y, np.stack([exact.real, exact.imag], -1), 1e-6)


@everywhere
def test_heat_in_several_steps(target):
    H, W, bh, bw = 21, 27, 8, 16

    @T.macro
    def step(A, B):
        with T.Kernel(T.ceildiv(W, bw), T.ceildiv(H, bh), threads=64) as (bx, by):
            for i, j in T.Parallel(bh, bw):
                y, x = by * bh + i, bx * bw + j
                if y < H and x < W:
                    if 0 < y < H - 1 and 0 < x < W - 1:
                        near = A[y - 1, x] + A[y + 1, x] + A[y, x - 1] + A[y, x + 1]
                        B[y, x] = A[y, x] + 0.2 * (near - 4 * A[y, x])
                    else:
                        B[y, x] = A[y, x]

    @T.prim_func
    def main(X: T.Tensor((H, W), "float64"), Y: T.Tensor((H, W), "float64")):
        other = T.alloc_global((H, W), "float64")
        step(X, other)
        step(other, Y)
        step(Y, other)
        step(other, Y)

    x, y = np.random.default_rng(9).standard_normal((H, W)), blank((H, W), "f8")
    run(main, target, x, y)
    exact = x.copy()
    for _ in range(4):
        last = exact.copy()
        near = last[:-2, 1:-1] + last[2:, 1:-1] + last[1:-1, :-2] + last[1:-1, 2:]
        exact[1:-1, 1:-1] += 0.2 * (near - 4 * last[1:-1, 1:-1])
    check(y, exact, 1e-14)


@everywhere
def test_tridiagonal_systems(target):
    S, n, tile = 19, 24, 8

    @T.prim_func
    def main(
        a: T.Tensor((S, n), "float64"),
        b: T.Tensor((S, n), "float64"),
        c: T.Tensor((S, n), "float64"),
        d: T.Tensor((S, n), "float64"),
        x: T.Tensor((S, n), "float64"),
    ):
        with T.Kernel(T.ceildiv(S, tile), threads=32) as bx:
            cp, dp = T.alloc_shared((n, tile), "float64"), T.alloc_shared((n, tile), "float64")
            for i in T.Parallel(tile):
                row = bx * tile + i
                if row < S:
                    cp[0, i] = c[row, 0] / b[row, 0]
                    dp[0, i] = d[row, 0] / b[row, 0]
                    for k in T.serial(1, n):
                        m = b[row, k] - a[row, k] * cp[k - 1, i]
                        cp[k, i] = c[row, k] / m
                        dp[k, i] = (d[row, k] - a[row, k] * dp[k - 1, i]) / m
                    x[row, n - 1] = dp[n - 1, i]
                    for k in T.serial(n - 2, -1, -1):
                        x[row, k] = dp[k, i] - cp[k, i] * x[row, k + 1]

    rng = np.random.default_rng(10)
    a, b, c, d = rng.standard_normal((4, S, n))
    b += 5
    x = blank((S, n), "f8")
    run(main, target, a, b, c, d, x)
    whole = [np.diag(b[s]) + np.diag(a[s, 1:], -1) + np.diag(c[s, :-1], 1) for s in range(S)]
    exact = [np.linalg.solve(whole[s], d[s]) for s in range(S)]
    check(x, exact, 1e-12)


@everywhere
def test_cholesky_in_shared_memory(target):
    B, n = 3, 13

    @T.prim_func
    def main(A: T.Tensor((B, n, n), "float32"), L: T.Tensor((B, n, n), "float32")):
        with T.Kernel(B, threads=64) as b:
            S = T.alloc_shared((n, n), "float32")
            T.copy(A[b, :, :], S)
            for k in T.serial(n):
                for i in T.Parallel(1):
                    S[k + i, k] = T.sqrt(S[k + i, k])
                for i in T.Parallel(n):
                    if i > k:
                        S[i, k] /= S[k, k]
                for i, j in T.Parallel(n, n):
                    if j > k and i >= j:
                        S[i, j] -= S[i, k] * S[j, k]
            for i, j in T.Parallel(n, n):
                L[b, i, j] = T.if_then_else(j <= i, S[i, j], 0)

    rng = np.random.default_rng(11)
    root = rng.standard_normal((B, n, n))
    a, low = (root @ root.transpose(0, 2, 1) + np.eye(n)).astype("f4"), blank((B, n, n))
    run(main, target, a, low)
    check(low, np.linalg.cholesky(a.astype("f8")), 1e-5)


@everywhere
def test_forces_between_bodies(target):
    N, tile = 50, 16

    @T.prim_func
    def main(P: T.Tensor((N, 3), "float32"), m: T.Tensor((N,), "float32"), F: T.Tensor((N, 3), "float32")):
        with T.Kernel(T.ceildiv(N, tile), threads=32) as bx:
            own, others = T.alloc_shared((tile, 3), "float32"), T.alloc_shared((tile, 3), "float32")
            mass = T.alloc_shared((tile,), "float32")
            pull, total = T.alloc_fragment((tile, tile, 3), "float32"), T.alloc_fragment((tile, 3), "float32")
            T.clear(total)
            T.copy(P[bx * tile, 0], own)
            for k in T.Pipelined(T.ceildiv(N, tile), num_stages=2):
                T.copy(P[k * tile, 0], others)
                T.copy(m[k * tile], mass)
                for i, j, c in T.Parallel(tile, tile, 3):
                    dx, dy = others[j, 0] - own[i, 0], others[j, 1] - own[i, 1]
                    dz = others[j, 2] - own[i, 2]
                    near = T.rsqrt(dx * dx + dy * dy + dz * dz + 0.01)
                    pull[i, j, c] = mass[j] * near * near * near * (others[j, c] - own[i, c])
                T.reduce_sum(pull, total, dim=1, clear=False)
            T.copy(total, F[bx * tile, 0])

    rng = np.random.default_rng(12)
    p, m, f = rng.standard_normal((N, 3)).astype("f4"), rng.random(N).astype("f4"), blank((N, 3))
    run(main, target, p, m, f)
    between = p[None].astype("f8") - p[:, None].astype("f8")
    near = ((between**2).sum(-1) + 0.01) ** -1.5
    check(f, (m[None, :, None] * near[..., None] * between).sum(1), 1e-5)


@everywhere
@pytest.mark.parametrize("how", ["operator", "loop", "fragment"])
def test_transposes_with_casts(target, how):
    M, N, b = 45, 70, 32

    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((N, M), "bfloat16"), Z: T.Tensor((N, M), "int8")):
        with T.Kernel(T.ceildiv(N, b), T.ceildiv(M, b), threads=64) as (bx, by):
            S, turned = T.alloc_shared((b, b), "float32"), T.alloc_shared((b, b), "bfloat16")
            F = T.alloc_fragment((b, b), "float32")
            T.copy(X[by * b, bx * b], S)
            if how == "operator":
                T.transpose(S, turned)
            elif how == "loop":
                for i, j in T.Parallel(b, b):
                    turned[j, i] = S[i, j]
            else:
                T.copy(S, F)
                for i, j in T.Parallel(b, b):
                    turned[j, i] = T.bfloat16(F[i, j])
            T.copy(turned, Y[bx * b, by * b])
            for j, i in T.Parallel(b, b):
                Z[bx * b + j, by * b + i] = T.int8(T.int32(S[i, j]))  # truncated, then wrapped

    x = (np.random.default_rng(14).standard_normal((M, N)) * 300).astype("f4")
    y, z = np.full((N, M), np.nan, ml_dtypes.bfloat16), blank((N, M), "i1")
    run(main, target, x, y, z)
    check(y.astype("f4"), x.T.astype(ml_dtypes.bfloat16).astype("f4"))
    check(z, x.T.astype("i4").astype("i1"))
