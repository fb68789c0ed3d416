"""Convolutions, pooling, sampling, norms, filters and stencils, each on ragged images of several sizes."""

import numpy as np
import pytest
import tilelang.language as T
from everywhere import TARGETS, blank, by_threads, check, everywhere, extremes, run
from ml_dtypes import bfloat16 as BF16

every_target = pytest.mark.parametrize("target", TARGETS)


# A dilated convolution of each channel by its own filter; the padding is what copies read outside of X.
def depthwise(N, H, W, C, R, dilation, bx=32):
    pad = dilation * (R // 2)

    @T.prim_func
    def main(
        X: T.Tensor((N, H, W, C), "float16"),
        K: T.Tensor((R, R, C), "float16"),
        Y: T.Tensor((N, H, W, C), "float16"),
    ):
        with T.Kernel(T.ceildiv(W, bx), H, N, threads=64) as (x, y, n):
            sums = T.alloc_fragment((bx, C), "float32")
            T.clear(sums)
            for u in T.unroll(R):
                for v in T.serial(R):
                    for i, c in T.Parallel(bx, C):
                        pixel = X[n, y + u * dilation - pad, x * bx + i + v * dilation - pad, c]
                        sums[i, c] += T.float32(pixel) * T.float32(K[u, v, c])
            T.copy(sums, Y[n, y, x * bx, 0])

    return main


def dilated(x, k, d):
    (_, H, W, _), R, pad = x.shape, len(k), d * (len(k) // 2)
    wide = np.pad(x, [(0, 0), (pad, pad), (pad, pad), (0, 0)])
    offsets = [(u, v) for u in range(R) for v in range(R)]
    return sum(wide[:, u * d : u * d + H, v * d : v * d + W] * k[u, v] for u, v in offsets)


@everywhere
def test_depthwise_dilated(target):
    rng = np.random.default_rng(1)
    for N, H, W, C, R, d in [(2, 5, 33, 6, 3, 2), (1, 1, 1, 3, 5, 1), (1, 7, 40, 5, 3, 3)]:
        x, k = rng.standard_normal((N, H, W, C)).astype("f2"), rng.standard_normal((R, R, C)).astype("f2")
        y = blank(x.shape, "f2")
        run(depthwise(N, H, W, C, R, d), target, x, k, y)
        check(y, dilated(x.astype("f8"), k, d), 1e-3)


# A transposed convolution: an output looks for the inputs that reach it; the stride comes with the call.
def transposed(taps=5):
    L, M = T.dynamic("L, M")

    @T.prim_func
    def main(
        X: T.Tensor((L,), "float32"),
        K: T.Tensor((taps,), "float32"),
        stride: T.int32,
        Y: T.Tensor((M,), "float32"),
    ):
        with T.Kernel(T.ceildiv(M, 64), threads=64) as b:
            for i in T.Parallel(64):
                s = T.alloc_var("float32", 0.0)
                for u in T.serial(taps):
                    t = b * 64 + i - u
                    if t >= 0 and t % stride == 0 and t // stride < L:
                        s += X[t // stride] * K[u]
                Y[b * 64 + i] = s

    return main


@everywhere
def test_transposed_convolution(target):
    rng = np.random.default_rng(2)
    for length, stride in [(1, 1), (40, 3), (33, 2)]:
        x, k = rng.standard_normal(length).astype("f4"), rng.standard_normal(5).astype("f4")
        expected = np.zeros((length - 1) * stride + 5)
        for i in range(length):
            expected[i * stride : i * stride + 5] += x[i].astype("f8") * k
        y = blank(expected.shape)
        run(transposed(), target, x, k, stride, y)
        check(y, expected, 1e-6)


# The greatest number of each window and where it stands, the first of equal ones.
def max_pool(C, H, W, k, step, bw=16):
    rows, columns = (H - k) // step + 1, (W - k) // step + 1

    def larger(a, b):
        first = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
        return T.if_then_else(first, a[0], b[0]), T.if_then_else(first, a[1], b[1])

    @T.prim_func
    def main(
        X: T.Tensor((C, H, W), "int8"),
        Y: T.Tensor((C, rows, columns), "int8"),
        I: T.Tensor((C, rows, columns), "int64"),
    ):
        with T.Kernel(T.ceildiv(columns, bw), rows, C, threads=32) as (bx, y, c):
            window = T.alloc_fragment((bw, k * k), "int8")
            place = T.alloc_fragment((bw, k * k), "int32")
            best, where = T.alloc_fragment((bw,), "int8"), T.alloc_fragment((bw,), "int32")
            for i, j in T.Parallel(bw, k * k):
                row, column = y * step + j // k, (bx * bw + i) * step + j % k
                window[i, j] = T.if_then_else(column < W, X[c, row, column], T.min_value("int8"))
                place[i, j] = row * W + column
            least = (T.min_value("int8"), 2**31 - 1)
            T.reduce((window, place), (best, where), 1, combine=larger, identity=least)
            T.copy(best, Y[c, y, bx * bw])
            T.copy(where, I[c, y, bx * bw])

    return main


@everywhere
def test_max_pool_with_places(target):
    rng = np.random.default_rng(3)
    for C, H, W, k, s in [(2, 9, 41, 3, 2), (1, 2, 2, 2, 1), (3, 7, 37, 2, 2)]:
        x = extremes(rng, (C, H, W), "i1")
        windows = np.lib.stride_tricks.sliding_window_view(x, (k, k), axis=(1, 2))[:, ::s, ::s]
        flat = windows.reshape(*windows.shape[:3], -1)
        at = flat.argmax(-1)
        row = np.arange(at.shape[1])[:, None] * s + at // k
        column = np.arange(at.shape[2]) * s + at % k
        y, i = blank(at.shape, "i1"), blank(at.shape, "i8")
        run(max_pool(C, H, W, k, s), target, x, y, i)
        check(y, flat.max(-1))
        check(i, row * W + column)


@T.macro
def tap(X, y, x, weight, total: T.Ref):
    if y >= 0 and y < X.shape[0] and x >= 0 and x < X.shape[1]:
        total += X[y, x] * weight


# Bilinear samples of an image, as torch's grid_sample takes them, zeros outside.
def grid_sample(H, W, P):
    @T.prim_func
    def main(X: T.Tensor((H, W), "float32"), G: T.Tensor((P, 2), "float32"), Y: T.Tensor((P,), "float32")):
        with T.Kernel(T.ceildiv(P, 64), threads=64) as b:
            for i in T.Parallel(64):
                x = (G[b * 64 + i, 0] + 1) * (W * 0.5) - 0.5
                y = (G[b * 64 + i, 1] + 1) * (H * 0.5) - 0.5
                fx, fy = x - T.floor(x), y - T.floor(y)
                ix, iy = T.cast(T.floor(x), "int32"), T.cast(T.floor(y), "int32")
                total = T.alloc_var("float32", 0.0)
                tap(X, iy, ix, (1 - fy) * (1 - fx), total)
                tap(X, iy, ix + 1, (1 - fy) * fx, total)
                tap(X, iy + 1, ix, fy * (1 - fx), total)
                tap(X, iy + 1, ix + 1, fy * fx, total)
                Y[b * 64 + i] = total

    return main


@everywhere
def test_grid_sample(target):
    rng = np.random.default_rng(4)
    for H, W, P in [(5, 7, 100), (1, 1, 3), (9, 4, 65)]:
        x, g = rng.standard_normal((H, W)).astype("f4"), rng.uniform(-1.3, 1.3, (P, 2)).astype("f4")
        g[0] = -1, 1
        at = (g.astype("f8") + 1) * (W / 2, H / 2) - 0.5
        wide, corner = np.pad(x.astype("f8"), 9), np.floor(at).astype(int)
        (fx, fy), (column, row) = (at - corner).T, corner.T + 9
        above = (1 - fx) * wide[row, column] + fx * wide[row, column + 1]
        below = (1 - fx) * wide[row + 1, column] + fx * wide[row + 1, column + 1]
        y = blank(P)
        run(grid_sample(H, W, P), target, x, g, y)
        check(y, (1 - fy) * above + fy * below, 1e-5)


# Group norm of bfloat16: a block has a group; its mean and variance are given, too.
def group_norm(N, C, S, G):
    c, count = C // G, C // G * S

    @T.prim_func
    def main(
        X: T.Tensor((N, C, S), "bfloat16"),
        w: T.Tensor((C,), "float32"),
        Y: T.Tensor((N, C, S), "bfloat16"),
        mean: T.Tensor((N, G), "float32"),
        var: T.Tensor((N, G), "float32"),
    ):
        with T.Kernel(G, N, threads=64) as (g, n):
            x, squares = [T.alloc_fragment((c, S), "float32") for _ in range(2)]
            rows = T.alloc_fragment((c,), "float32")
            m, v = [T.alloc_fragment((1,), "float32") for _ in range(2)]
            T.copy(X[n, g * c : (g + 1) * c, 0:S], x)
            T.reduce_sum(x, rows, dim=1)
            T.reduce_sum(rows, m, dim=0)
            for i, j in T.Parallel(c, S):
                x[i, j] -= m[0] / count
                squares[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(squares, rows)
            T.reduce_sum(rows, v)
            for i, j in T.Parallel(c, S):
                Y[n, g * c + i, j] = x[i, j] * T.rsqrt(v[0] / count + 1e-5) * w[g * c + i]
            for i in T.Parallel(1):
                mean[n, g], var[n, g] = m[i] / count, v[i] / count

    return main


@everywhere
def test_group_norm(target):
    rng = np.random.default_rng(5)
    for N, C, S, G in [(2, 6, 35, 3), (1, 4, 1, 2), (2, 8, 50, 1)]:
        x = (rng.standard_normal((N, C, S)) * 3 + 10).astype(BF16)
        w = rng.standard_normal(C).astype("f4")
        groups = x.astype("f8").reshape(N, G, -1)
        mean, var = groups.mean(-1), groups.var(-1)
        expected = ((groups - mean[..., None]) / np.sqrt(var[..., None] + 1e-5)).reshape(N, C, S) * w[:, None]
        y, m, v = blank(x.shape, "f4").astype(BF16), blank((N, G)), blank((N, G))
        run(group_norm(N, C, S, G), target, x, w, y, m, v)
        check(y, expected, 4e-3)
        check(m, mean, 1e-6)
        check(v, var, 1e-5)


# Instance norm over the pixels of images that lie channels last, by blocks that stay on the chip.
def instance_norm(N, C, S, workers=3):
    @T.prim_func
    def main(X: T.StridedTensor((N, C, S), (C * S, 1, C), "float32"), Y: T.Tensor((N, C, S), "float32")):
        with T.Kernel(workers, threads=32) as block:
            x, squares = [T.alloc_fragment((1, S), "float32") for _ in range(2)]
            m, v = [T.alloc_fragment((1,), "float32") for _ in range(2)]
            for n, c in T.Persistent([N, C], workers, block):
                T.copy(X[n, c, 0:S], x[0, 0:S])
                T.reduce_sum(x, m, dim=1)
                for i, j in T.Parallel(1, S):
                    x[i, j] -= m[i] / S
                    squares[i, j] = x[i, j] * x[i, j]
                T.reduce_sum(squares, v, dim=1)
                for i, j in T.Parallel(1, S):
                    Y[n, c, j] = x[i, j] / T.sqrt(v[i] / S + 1e-5)

    return main


@everywhere
def test_instance_norm_of_channels_last(target):
    rng = np.random.default_rng(6)
    for N, C, S in [(2, 5, 37), (1, 1, 1), (3, 2, 64)]:
        x = rng.standard_normal((N, S, C)).astype("f4").transpose(0, 2, 1)
        mean, var = x.mean(-1, "f8", keepdims=True), x.astype("f8").var(-1, keepdims=True)
        y = blank((N, C, S))
        run(instance_norm(N, C, S), target, x, y)
        check(y, (x - mean) / np.sqrt(var + 1e-5), 1e-5)


# The median of nine pixels, sorted in an array of each thread; the image is mirrored at its edges.
def median(H, W):
    @T.prim_func
    def main(X: T.Tensor((H, W), "uint16"), Y: T.Tensor((H, W), "uint16")):
        with T.Kernel(T.ceildiv(W, 16), T.ceildiv(H, 4), threads=32) as (bx, by):
            v = T.alloc_local((9,), "uint16")
            for i, j in T.Parallel(4, 16):
                y, x = by * 4 + i, bx * 16 + j
                if y < H and x < W:
                    for a in T.unroll(9):
                        r, c = y + a // 3 - 1, x + a % 3 - 1
                        v[a] = X[T.min(T.abs(r), 2 * H - 2 - r), T.min(T.abs(c), 2 * W - 2 - c)]
                    for a in T.serial(1, 9):
                        key = T.alloc_var("uint16", v[a])
                        p = T.alloc_var("int32", a - 1)
                        while p >= 0 and v[p] > key:
                            v[p + 1] = v[p]
                            p -= 1
                        v[p + 1] = key
                    Y[y, x] = v[4]

    return main


@everywhere
def test_median_of_nine(target):
    rng = np.random.default_rng(7)
    for H, W in [(5, 19), (2, 2), (9, 33)]:
        x = extremes(rng, (H, W), "u2")
        wide = np.pad(x, 1, mode="reflect")
        nine = [wide[a : a + H, b : b + W] for a in range(3) for b in range(3)]
        y = blank(x.shape, "u2")
        run(median(H, W), target, x, y)
        check(y, np.sort(nine, 0)[4])


# Histogram equalisation: four kernels of one function, which share a histogram and a table.
def equalise(H, W):
    n = H * W

    @T.prim_func
    def main(X: T.Tensor((H, W), "uint8"), Y: T.Tensor((H, W), "uint8")):
        counts, table = T.alloc_global((256,), "int32"), T.alloc_global((256,), "uint8")
        with T.Kernel(2, threads=128) as b:
            for i in T.Parallel(128):
                counts[b * 128 + i] = 0
        with T.Kernel(T.ceildiv(n, 512), threads=128) as b:
            mine, flat = T.alloc_shared((256,), "int32"), T.reshape(X, (n,))
            T.clear(mine)
            for i in T.Parallel(512):
                if b * 512 + i < n:
                    T.atomic_add(mine[flat[b * 512 + i]], 1)
            T.atomic_add(counts, mine)
        with T.Kernel(1, threads=128):
            below, present = [T.alloc_fragment((256,), "int32") for _ in range(2)]
            first = T.alloc_fragment((1,), "int32")
            T.copy(counts, below)
            T.cumsum(below)
            for i in T.Parallel(256):
                present[i] = T.if_then_else(below[i] > 0, below[i], n)
            T.reduce_min(present, first, dim=0)
            for i in T.Parallel(256):
                rest = T.max(n - first[0], 1)
                level = (T.cast(below[i] - first[0], "int64") * 255 + rest // 2) // rest
                table[i] = T.cast(T.clamp(level, 0, 255), "uint8")
        with T.Kernel(T.ceildiv(W, 32), H, threads=32) as (bx, by):
            for i in T.Parallel(32):
                Y[by, bx * 32 + i] = table[X[by, bx * 32 + i]]

    return main


@everywhere
def test_histogram_equalisation(target):
    rng = np.random.default_rng(8)
    for H, W in [(13, 50), (1, 1), (20, 31)]:
        x = rng.normal(100, 30, (H, W)).clip(0, 255).astype("u1")
        below = np.cumsum(np.bincount(x.ravel(), minlength=256))
        first = below[below > 0].min()
        rest = max(x.size - first, 1)
        y = blank(x.shape, "u1")
        run(equalise(H, W), target, x, y)
        check(y, np.clip(((below - first) * 255 + rest // 2) // rest, 0, 255)[x])


# Cross-correlation as a pipelined GEMM of the pixels under the filter; both tiles are laid out by hand.
def correlate(C, H, W, F, R, bK=32, bP=32):
    rows, columns, K, bF = H - R + 1, W - R + 1, C * R * R, -(-F // 16) * 16
    P = rows * columns

    @T.prim_func
    def main(
        X: T.Tensor((C, H, W), "bfloat16"),
        Q: T.Tensor((F, C, R, R), "bfloat16"),
        Y: T.Tensor((F, rows, columns), "float32"),
    ):
        with T.Kernel(T.ceildiv(P, bP), threads=64) as b:
            filters, flat = T.reshape(Q, (F, K)), T.reshape(Y, (F, P))
            pixels, w = T.alloc_shared((bK, bP), "bfloat16"), T.alloc_shared((bF, bK), "bfloat16")
            sums = T.alloc_fragment((bF, bP), "float32")
            padded = T.Layout((bF, bK), lambda i, j: i * (bK + 8) + j)
            T.annotate_layout({pixels: T.make_swizzled_layout(pixels), w: padded})
            T.clear(sums)
            for k in T.Pipelined(T.ceildiv(K, bK), num_stages=3):
                for i, j in T.Parallel(bK, bP):
                    at, p = k * bK + i, b * bP + j
                    c, u, v = T.index_to_coordinates(at, (C, R, R))
                    inside = (at < K) & (p < P)
                    pixels[i, j] = T.if_then_else(inside, X[c, p // columns + u, p % columns + v], 0)
                T.copy(filters[0, k * bK], w)
                T.gemm(w, pixels, sums)
            T.copy(sums, flat[0, b * bP])

    return main


@everywhere
def test_cross_correlation(target):
    rng = np.random.default_rng(9)
    for C, H, W, F, R in [(3, 7, 11, 5, 3), (1, 2, 2, 1, 2), (5, 6, 9, 17, 1)]:
        x, q = (rng.integers(-8, 8, s).astype(BF16) for s in ((C, H, W), (F, C, R, R)))
        windows = np.lib.stride_tricks.sliding_window_view(x.astype("f8"), (R, R), axis=(1, 2))
        y = blank((F, H - R + 1, W - R + 1))
        run(correlate(C, H, W, F, R), target, x, q, y)
        check(y, np.einsum("chwuv,fcuv->fhw", windows, q.astype("f8")))


# Several steps of a stencil in shared memory: the halo is as wide as the steps are many.
def heat_tiles(N, steps, B=32):
    wide = B + 2 * steps

    @T.prim_func
    def main(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, B), threads=32) as b:
            S = T.alloc_shared((2, wide), "float32")
            for i in T.Parallel(wide):
                S[0, i] = X[b * B + i - steps]
            for s in T.serial(steps):
                for i in T.Parallel(wide - 2):
                    at = b * B + i + 1 - steps
                    mean = 0.25 * S[s % 2, i] + 0.5 * S[s % 2, i + 1] + 0.25 * S[s % 2, i + 2]
                    S[(s + 1) % 2, i + 1] = T.if_then_else((at >= 0) & (at < N), mean, 0.0)
                for end in T.Parallel(2):
                    S[(s + 1) % 2, end * (wide - 1)] = 0.0
            T.copy(S[steps % 2, steps : steps + B], Y[b * B])

    return main


# The same steps by threads, all blocks together after each; at the ends heat stays inside.
def heat_grid(N, steps):
    @T.prim_func
    def main(A: T.Tensor((2, N), "float32")):
        with T.Kernel(T.ceildiv(N, 32), threads=32) as b:
            i = b * 32 + T.get_thread_binding()
            for s in T.serial(steps):
                if i < N:
                    left = T.if_then_else(i > 0, A[s % 2, i - 1], A[s % 2, i])
                    right = T.if_then_else(i + 1 < N, A[s % 2, i + 1], A[s % 2, i])
                    A[1 - s % 2, i] = 0.25 * left + 0.5 * A[s % 2, i] + 0.25 * right
                T.sync_grid()

    return main


def steps_of(x, steps, mode):
    for _ in range(steps):
        wide = np.pad(x, 1, mode=mode)
        x = 0.25 * wide[:-2] + 0.5 * wide[1:-1] + 0.25 * wide[2:]
    return x


@everywhere
def test_heat_in_tiles(target):
    for N, steps in [(70, 3), (1, 2), (33, 1)]:
        x, y = np.random.default_rng(10).standard_normal(N).astype("f4"), blank(N)
        run(heat_tiles(N, steps), target, x, y)
        check(y, steps_of(x.astype("f8"), steps, "constant"), 1e-6)


@by_threads
@pytest.mark.parametrize("N, steps", [(70, 4), (1, 3), (33, 5)])
def test_heat_over_the_grid(target, N, steps):
    a = np.zeros((2, N), "f4")
    a[0] = np.random.default_rng(11).standard_normal(N)
    start = a[0].astype("f8")
    run(heat_grid(N, steps), target, a)
    check(a[steps % 2], steps_of(start, steps, "edge"), 1e-6)
    check(a[1 - steps % 2], steps_of(start, steps - 1, "edge"), 1e-6)


# Three neighbours are added up in a variable, from one shared tile into another.
@every_target
def test_a_stencil_by_way_of_a_variable(target):
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64,), "float32"), T.alloc_shared((64,), "float32")
            T.copy(X, a)
            for i in T.Parallel(64):
                s = T.alloc_var("float32", 0.0)
                for k in T.serial(3):
                    s += a[(i + k) % 64]
                b[i] = s
            T.copy(b, Y)

    x, y = np.arange(64, dtype="f4"), blank(64)
    run(main, target, x, y)
    check(y, x + np.roll(x, -1) + np.roll(x, -2))


# Half of the block's threads turn a shared tile round into another.
def test_a_tile_is_turned_round_by_threads():
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            a, b = T.alloc_shared((64,), "float32"), T.alloc_shared((64,), "float32")
            T.copy(X, a)
            if tx < 64:
                v = a[63 - tx]
                b[tx] = v
            T.copy(b, Y)

    x, y = np.arange(64, dtype="f4"), blank(64)
    run(main, "sim:sm_90", x, y)
    check(y, x[::-1])
