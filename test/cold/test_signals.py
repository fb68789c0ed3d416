"""Filters, transforms, scans and sorts."""

import numpy as np
import tilelang
import tilelang.language as T
from everywhere import blank, by_threads, check, everywhere, extremes, run


# A filter of int16 samples over a tile with a halo on its left.
def fir(length, taps, block=64):
    @T.prim_func
    def main(X: T.Tensor((length,), "int16"), H: T.Tensor((taps,), "int16"), Y: T.Tensor((length,), "int32")):
        with T.Kernel(T.ceildiv(length, block), threads=32) as bx:
            x, h = T.alloc_shared((block + taps - 1,), "int16"), T.alloc_shared((taps,), "int16")
            total = T.alloc_fragment((block,), "int32")
            T.copy(X[bx * block - (taps - 1)], x)
            T.copy(H, h)
            T.clear(total)
            for k in T.serial(taps):
                for i in T.Parallel(block):
                    total[i] += T.int32(x[i + taps - 1 - k]) * h[k]
            T.copy(total, Y[bx * block])

    return main


@everywhere
def test_fir(target):
    rng = np.random.default_rng(1)
    for length, taps in ((64, 5), (130, 7), (17, 3), (1, 1)):
        x, h = extremes(rng, length, "i2"), rng.integers(-300, 300, taps).astype("i2")
        y = blank(length, "i4")
        run(fir(length, taps), target, x, h, y)
        check(y, np.convolve(x.astype("i8"), h.astype("i8"))[:length].astype("i4"))


# A recursive filter in fixed point, a row for each thread; rows and columns are dynamic.
def biquad():
    m, length = T.dynamic("m, length")

    @T.prim_func
    def main(X: T.Tensor((m, length), "int16"), Y: T.Tensor((m, length), "int16")):
        with T.Kernel(T.ceildiv(m, 8), threads=8) as bx:
            for i in T.Parallel(8):
                last, before = T.alloc_var("int32", init=0), T.alloc_var("int32", init=0)
                for t in T.serial(length):
                    total = (T.int32(X[bx * 8 + i, t]) << 14) + last * 26000 - before * 11000
                    v = T.max(T.min(total >> 15, 32767), -32768)
                    before = last
                    last = v
                    Y[bx * 8 + i, t] = last

    return main


@everywhere
def test_recursive_filter(target):
    rng = np.random.default_rng(2)
    kernel = tilelang.compile(biquad(), target=target)
    for m, length in ((1, 5), (9, 40), (16, 33)):
        x, expected = extremes(rng, (m, length), "i2"), np.zeros((m, length), "i2")
        for row in range(m):
            last = before = 0
            for t in range(length):
                total = ((int(x[row, t]) << 14) + last * 26000 - before * 11000 + 2**31) % 2**32 - 2**31
                last, before = max(min(total >> 15, 32767), -32768), last
                expected[row, t] = last
        y = blank((m, length), "i2")
        kernel(x, y)
        check(y, expected)


# A step of an integer Haar wavelet by lifting; pairs are seen through a view.
def haar(m, n, block=4):
    @T.prim_func
    def main(
        X: T.Tensor((m, n), "int32"),
        low: T.Tensor((m, n // 2), "int32"),
        high: T.Tensor((m, n // 2), "int32"),
    ):
        with T.Kernel(T.ceildiv(m, block), threads=64) as bx:
            x = T.alloc_shared((block, n), "int32")
            T.copy(X[bx * block, 0], x)
            pairs = T.view(x, (block, n // 2, 2))
            for i, j in T.Parallel(block, n // 2):
                difference = pairs[i, j, 1] - pairs[i, j, 0]
                high[bx * block + i, j] = difference
                low[bx * block + i, j] = pairs[i, j, 0] + T.floordiv(difference, 2)

    return main


@everywhere
def test_haar(target):
    rng = np.random.default_rng(3)
    for m, n in ((4, 16), (5, 6), (1, 34)):
        x, low, high = extremes(rng, (m, n), "i4"), blank((m, n // 2), "i4"), blank((m, n // 2), "i4")
        run(haar(m, n), target, x, low, high)
        difference = x[:, 1::2] - x[:, ::2]
        check(high, difference)
        check(low, x[:, ::2] + (difference >> 1))


# A Walsh-Hadamard transform of int64, which wraps; the partner's index is an exclusive or.
def walsh(m, n):
    @T.prim_func
    def main(X: T.Tensor((m, n), "int64"), Y: T.Tensor((m, n), "int64")):
        with T.Kernel(m, threads=32) as b:
            x, next_x = T.alloc_shared((n,), "int64"), T.alloc_shared((n,), "int64")
            T.copy(X[b, :], x)
            for s in T.serial(n.bit_length() - 1):
                for i in T.Parallel(n):
                    other = x[i ^ (1 << s)]
                    next_x[i] = T.if_then_else((i >> s) & 1 == 0, x[i] + other, other - x[i])
                T.copy(next_x, x)
            T.copy(x, Y[b, :])

    return main


@everywhere
def test_walsh_hadamard(target):
    rng = np.random.default_rng(4)
    for m, n in ((1, 2), (3, 16), (2, 128)):
        x, y = extremes(rng, (m, n), "i8"), blank((m, n), "i8")
        run(walsh(m, n), target, x, y)
        signs = np.array([[1 - 2 * (bin(i & j).count("1") % 2) for i in range(n)] for j in range(n)])
        check(y, x @ signs)


# A prefix sum of uint64 in three kernels: of blocks, of their sums, and the sums added.
def scan(n, block=128):
    blocks = -(-n // block)

    @T.prim_func
    def main(X: T.Tensor((n,), "uint64"), Y: T.Tensor((n,), "uint64")):
        sums = T.alloc_global((blocks,), "uint64")
        with T.Kernel(blocks, threads=64) as b:
            x = T.alloc_shared((block,), "uint64")
            T.copy(X[b * block], x)
            T.cumsum(x)
            T.copy(x, Y[b * block])
            for i in T.Parallel(block):
                if i == block - 1:
                    sums[b] = x[i]
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((blocks,), "uint64")
            T.copy(sums, s)
            T.cumsum(s)
            T.copy(s, sums)
        with T.Kernel(blocks, threads=64) as b:
            if b > 0:
                for i in T.Parallel(block):
                    Y[b * block + i] += sums[b - 1]

    return main


@everywhere
def test_scan_of_three_kernels(target):
    rng = np.random.default_rng(5)
    for n in (1, 128, 517):
        x, y = extremes(rng, n, "u8"), blank(n, "u8")
        run(scan(n), target, x, y)
        check(y, np.cumsum(x))


# A bitonic sort in shared memory with barriers of its own, in loops that variables drive.
def bitonic(n, dtype):
    size = max(1 << (n - 1).bit_length(), 2)

    @T.prim_func
    def main(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(1, threads=size // 2):
            tx = T.get_thread_binding()
            s = T.alloc_shared((size,), dtype)
            for half in T.serial(2):
                at = tx + half * (size // 2)
                if at < n:
                    s[at] = X[at]
                else:
                    s[at] = T.max_value(dtype)
            T.sync_threads()
            run_of = T.alloc_var("int32", init=2)
            while run_of <= size:
                stride = T.alloc_var("int32")
                stride = run_of >> 1
                while stride > 0:
                    low = 2 * tx - (tx & (stride - 1))
                    a, b = s[low], s[low + stride]
                    if (a > b) == ((low & run_of) == 0):
                        s[low] = b
                        s[low + stride] = a
                    T.sync_threads()
                    stride = stride >> 1
                run_of = run_of << 1
            for half in T.serial(2):
                at = tx + half * (size // 2)
                if at < n:
                    Y[at] = s[at]

    return main


@by_threads
def test_bitonic_sort(target):
    rng = np.random.default_rng(6)
    for n, dtype in ((64, "uint64"), (100, "int64"), (7, "int8"), (33, "uint16"), (2, "int32")):
        x, y = extremes(rng, n, dtype), blank(n, dtype)
        run(bitonic(n, dtype), target, x, y)
        check(y, np.sort(x))


# A stable radix sort by one warp, a bit at a time: ranks are counts of ballots.
def radix(n):
    @T.prim_func
    def main(X: T.Tensor((n,), "int32"), Y: T.Tensor((n,), "int32")):
        with T.Kernel(1, threads=32):
            lane = T.get_lane_idx()
            keys = T.alloc_shared((2 * n,), "uint32")
            for c in T.serial(T.ceildiv(n, 32)):
                at = c * 32 + lane
                if at < n:
                    keys[at] = T.uint32(X[at]) ^ 0x80000000
            T.sync_warp()
            for bit in T.serial(32):
                here, there = bit % 2 * n, (1 - bit % 2) * n
                zeros = T.alloc_var("int32", init=0)
                for c in T.serial(T.ceildiv(n, 32)):
                    at = c * 32 + lane
                    zero = (at < n) and (keys[here + T.min(at, n - 1)] >> bit & 1) == 0
                    zeros += T.int32(T.popcount(T.ballot(zero)))
                to_zero, to_one = T.alloc_var("int32", init=0), T.alloc_var("int32")
                to_one = zeros
                for c in T.serial(T.ceildiv(n, 32)):
                    at = c * 32 + lane
                    inside, key = at < n, keys[here + T.min(at, n - 1)]
                    one = (key >> bit & 1) == 1
                    zero_lanes, one_lanes = T.ballot(inside and not one), T.ballot(inside and one)
                    below = (T.uint32(1) << lane) - 1
                    if inside:
                        if one:
                            keys[there + to_one + T.int32(T.popcount(one_lanes & below))] = key
                        else:
                            keys[there + to_zero + T.int32(T.popcount(zero_lanes & below))] = key
                    to_zero += T.int32(T.popcount(zero_lanes))
                    to_one += T.int32(T.popcount(one_lanes))
                T.sync_warp()
            for c in T.serial(T.ceildiv(n, 32)):
                at = c * 32 + lane
                if at < n:
                    Y[at] = T.int32(keys[at] ^ 0x80000000)

    return main


@by_threads
def test_radix_sort(target):
    rng = np.random.default_rng(7)
    for n in (1, 32, 77):
        x, y = extremes(rng, n, "i4"), blank(n, "i4")
        run(radix(n), target, x, y)
        check(y, np.sort(x))


# A DFT of 32 points in each warp by shuffles, out in order of the reversed bits.
def dft(m):
    @T.prim_func
    def main(X: T.Tensor((m, 32, 2), "float32"), Y: T.Tensor((m, 32, 2), "float32")):
        with T.Kernel(T.ceildiv(m, 2), threads=64) as b:
            lane, row = T.get_lane_idx(), b * 2 + T.get_warp_idx()
            if row < m:
                re, im = T.alloc_var("float32"), T.alloc_var("float32")
                re = X[row, lane, 0]
                im = X[row, lane, 1]
                for s in T.unroll(5):
                    half = 16 >> s
                    other_re, other_im = T.shfl_xor(re, half), T.shfl_xor(im, half)
                    upper = (lane & half) != 0
                    angle = T.float32(-np.pi) * T.float32(lane & (half - 1)) / T.float32(half)
                    dr = T.if_then_else(upper, other_re - re, re + other_re)
                    di = T.if_then_else(upper, other_im - im, im + other_im)
                    c = T.if_then_else(upper, T.cos(angle), 1.0)
                    sn = T.if_then_else(upper, T.sin(angle), 0.0)
                    re = dr * c - di * sn
                    im = dr * sn + di * c
                reversed_lane = T.alloc_var("int32", init=0)
                for s in T.unroll(5):
                    reversed_lane |= (T.int32(lane) >> s & 1) << 4 - s
                Y[row, reversed_lane, 0] = re
                Y[row, reversed_lane, 1] = im

    return main


@by_threads
def test_dft_by_shuffles(target):
    rng = np.random.default_rng(20)
    for m in (1, 4, 7):
        x, y = rng.standard_normal((m, 32, 2)).astype("f4"), blank((m, 32, 2))
        run(dft(m), target, x, y)
        z = np.fft.fft(x[..., 0] + 1j * x[..., 1].astype("f8"))
        check(y, np.stack([z.real, z.imag], -1), 1e-6)
