"""Filters, transforms, scans, sorts, joins, codes, generators, products of bytes; what is refused of them."""

import re
import zlib
from pathlib import Path

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from everywhere import blank, check, everywhere, run

HERE = Path(__file__)
by_threads = pytest.mark.parametrize("target", ["sim:sm_90"])


def extremes(rng, shape, dtype):
    """Random integers of the whole range, the first of them the ends of it."""
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    ends = np.array([info.min, info.max, 0, 1, info.max - 1, info.min + 1], dtype)[: x.size]
    x.reshape(-1)[: len(ends)] = ends
    return x


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


@everywhere
def test_crc_in_a_variable(target):
    n, length = T.dynamic("n, length")

    @T.prim_func
    def main(X: T.Tensor((n, length), "uint8"), C: T.Tensor((n,), "uint32")):
        with T.Kernel(T.ceildiv(n, 32), threads=32) as b:
            for i in T.Parallel(32):
                crc = T.alloc_var("uint32", init=0xFFFFFFFF)
                for j in T.serial(length):
                    crc ^= X[b * 32 + i, j]
                    for _ in T.unroll(8):
                        crc = T.if_then_else((crc & 1) != 0, (crc >> 1) ^ 0xEDB88320, crc >> 1)
                C[b * 32 + i] = ~crc

    kernel, rng = tilelang.compile(main, target=target), np.random.default_rng(8)
    for rows, columns in ((1, 9), (33, 4), (40, 17)):
        x, c = extremes(rng, (rows, columns), "u1"), blank(rows, "u4")
        kernel(x, c)
        check(c, np.array([zlib.crc32(row.tobytes()) for row in x], "u4"))


@everywhere
def test_xorshift_and_congruential(target):
    def generators(n, steps):
        @T.prim_func
        def main(S: T.Tensor((n,), "uint64"), X: T.Tensor((n,), "uint64"), Z: T.Tensor((n,), "int64")):
            with T.Kernel(T.ceildiv(n, 64), threads=64) as b:
                for i in T.Parallel(64):
                    x, z = T.alloc_var("uint64"), T.alloc_var("int64")
                    x = S[b * 64 + i]
                    z = T.reinterpret(S[b * 64 + i], "int64")
                    for _ in T.serial(steps):
                        x ^= x >> 12
                        x ^= x << 25
                        x ^= x >> 27
                        z = z * 6364136223846793005 + 1442695040888963407
                    X[b * 64 + i] = x * 2685821657736338717
                    Z[b * 64 + i] = (z >> 33) + T.int64(x * 2685821657736338717) % -7

        return main

    rng = np.random.default_rng(9)
    for n, steps in ((64, 3), (65, 1), (130, 4)):
        s, x, z = extremes(rng, n, "u8"), blank(n, "u8"), blank(n, "i8")
        run(generators(n, steps), target, s, x, z)
        state, line = s.copy(), s.view("i8").copy()
        for _ in range(steps):
            for shift in (lambda v: v >> 12, lambda v: v << 25, lambda v: v >> 27):
                state ^= shift(state)
            line = line * 6364136223846793005 + 1442695040888963407
        state *= np.uint64(2685821657736338717)
        check(x, state)
        check(z, (line >> 33) + state.view("i8") % -7)


# Seconds since 1970 as a date and a time, also before it; the date by a macro with references.
@T.macro
def civil(day: T.Ref, year: T.Ref, month: T.Ref, mday: T.Ref):
    z = day.load() + 719468
    era = z // 146097
    doe = z - era * 146097
    yoe = (doe - doe // 1460 + doe // 36524 - doe // 146096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    mday.store(doy - (153 * mp + 2) // 5 + 1)
    month.store(T.if_then_else(mp < 10, mp + 3, mp - 9))
    year.store(yoe + era * 400 + T.if_then_else(mp < 10, 0, 1))


@everywhere
def test_dates_of_seconds(target):
    def dates(n):
        @T.prim_func
        def main(S: T.Tensor((n,), "int64"), D: T.Tensor((n, 3), "int32"), H: T.Tensor((n, 3), "int8")):
            with T.Kernel(T.ceildiv(n, 32), threads=32) as b:
                for i in T.Parallel(32):
                    t = S[b * 32 + i]
                    day, year = T.alloc_var("int64"), T.alloc_var("int64")
                    month, mday = T.alloc_var("int64"), T.alloc_var("int64")
                    day = t // 86400
                    civil(day, year, month, mday)
                    D[b * 32 + i, 0] = year
                    D[b * 32 + i, 1] = month
                    D[b * 32 + i, 2] = mday
                    H[b * 32 + i, 0] = t % 86400 // 3600
                    H[b * 32 + i, 1] = t % 86400 // 60 % 60
                    H[b * 32 + i, 2] = t % 86400 % 60

        return main

    rng = np.random.default_rng(10)
    for n in (5, 32, 70):
        s = rng.integers(-60_000_000_000, 200_000_000_000, n)
        s[:3] = -1, 0, -86400
        d, h = blank((n, 3), "i4"), blank((n, 3), "i1")
        run(dates(n), target, s, d, h)
        days = s.astype("M8[s]").astype("M8[D]")
        months = days.astype("M8[M]")
        check(d, np.stack([months.astype("M8[Y]").astype(int) + 1970, months.astype(int) % 12 + 1,
                           (days - months.astype("M8[D]")).astype(int) + 1], 1))  # fmt: skip
        rest = s % 86400
        check(h, np.stack([rest // 3600, rest // 60 % 60, rest % 60], 1))


@tilelang.jit
def find(text, pattern):
    N, P = T.const("N, P")
    text: T.Tensor((N,), "uint8")
    pattern: T.Tensor((P,), "uint8")
    hits = T.empty((N,), "uint8")
    with T.Kernel(T.ceildiv(N, 64), threads=64) as b:
        for i in T.Parallel(64):
            k = T.alloc_var("int32", init=0)
            while k < P and b * 64 + i + k < N and text[b * 64 + i + k] == pattern[k]:
                k += 1
            hits[b * 64 + i] = T.if_then_else(k == P, 1, 0)
    return hits


def test_find_a_word():
    rng = np.random.default_rng(11)
    for length, word in ((64, b"ab"), (100, b"a"), (7, b"aba"), (3, b"abab")):
        text, pattern = rng.integers(97, 99, length).astype("u1"), np.frombuffer(word, "u1").copy()
        hits = [text[i : i + len(word)].tobytes() == word for i in range(length)]
        check(find(text, pattern), np.array(hits, "u1"))


# A join: a table with open addresses, in which threads claim places by atomic additions.
def hash_join(built, probed, size=64):
    @T.prim_func
    def main(
        BK: T.Tensor((built,), "int32"),
        BV: T.Tensor((built,), "int64"),
        PK: T.Tensor((probed,), "int32"),
        O: T.Tensor((probed,), "int64"),
    ):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            used, key = T.alloc_shared((size,), "int32"), T.alloc_shared((size,), "int32")
            value = T.alloc_shared((size,), "int64")
            T.clear(used)
            for s in T.serial(T.ceildiv(built, 64)):
                i = s * 64 + tx
                if i < built:
                    h = T.alloc_var("uint32")
                    h = (T.uint32(BK[i]) * 2654435761) >> 26
                    while T.atomic_add(used[h], 1, return_prev=True) != 0:
                        h = (h + 1) % size
                    key[h] = BK[i]
                    value[h] = BV[i]
            T.sync_threads()
            for s in T.serial(T.ceildiv(probed, 64)):
                i = s * 64 + tx
                if i < probed:
                    h, found = T.alloc_var("uint32"), T.alloc_var("int64", init=-1)
                    h = (T.uint32(PK[i]) * 2654435761) >> 26
                    while used[h] != 0:
                        if key[h] == PK[i]:
                            found = value[h]
                            break
                        h = (h + 1) % size
                    O[i] = found

    return main


@by_threads
def test_hash_join(target):
    rng = np.random.default_rng(12)
    for built, probed in ((10, 20), (50, 70), (33, 1)):
        keys, values = rng.permutation(1000)[:built].astype("i4") - 500, extremes(rng, built, "i8")
        asked, out = rng.integers(-500, 500, probed).astype("i4"), blank(probed, "i8")
        keys[0] = asked[0] = -(2**31)
        run(hash_join(built, probed), target, keys, values, asked, out)
        table = dict(zip(keys.tolist(), values.tolist(), strict=True))
        check(out, np.array([table.get(k, -1) for k in asked.tolist()]))


@everywhere
def test_csr_of_bytes(target):
    m, entries, n = T.dynamic("m, entries, n")

    @T.prim_func
    def main(
        P: T.Tensor((m + 1,), "int32"),
        J: T.Tensor((entries,), "int32"),
        V: T.Tensor((entries,), "int8"),
        X: T.Tensor((n,), "int8"),
        Y: T.Tensor((m,), "int32"),
    ):
        with T.Kernel(T.ceildiv(m, 32), threads=32) as b:
            for i in T.Parallel(32):
                row = b * 32 + i
                if row < m:
                    total = T.alloc_var("int32", init=0)
                    for k in T.serial(P[row], P[row + 1]):
                        total += T.int32(V[k]) * X[J[k]]
                    Y[row] = total

    kernel, rng = tilelang.compile(main, target=target), np.random.default_rng(13)
    for rows, columns in ((1, 1), (40, 17), (64, 50)):
        a = extremes(rng, (rows, columns), "i1") * (rng.random((rows, columns)) < 0.3)
        a[0, 0] = -128
        i, j = np.nonzero(a)
        x, y = extremes(rng, columns, "i1"), blank(rows, "i4")
        starts = np.concatenate([[0], np.cumsum((a != 0).sum(1))]).astype("i4")
        kernel(starts, j.astype("i4"), a[i, j].astype("i1"), x, y)
        check(y, a.astype("i4") @ x.astype("i4"))


# Entries of a list are added, compared and joined in 64 bits, in any order.
@everywhere
def test_coo_by_atomics(target):
    def coo(entries, n, block=64):
        @T.prim_func
        def main(
            J: T.Tensor((entries,), "int32"),
            V: T.Tensor((entries,), "int64"),
            S: T.Tensor((n,), "int64"),
            H: T.Tensor((n,), "int64"),
            L: T.Tensor((n,), "uint64"),
            O: T.Tensor((n,), "uint32"),
        ):
            with T.Kernel(T.ceildiv(entries, block), threads=64) as b:
                for i in T.Parallel(block):
                    k = b * block + i
                    if k < entries:
                        T.atomic_add(S[J[k]], V[k])
                        T.atomic_max(H[J[k]], V[k])
                        T.atomic_min(L[J[k]], T.uint64(V[k]))
                        T.atomic_or(O[J[k]], T.uint32(1) << k % 32)

        return main

    rng = np.random.default_rng(14)
    for entries, n in ((1, 1), (100, 7), (200, 65)):
        j, v = rng.integers(0, n, entries).astype("i4"), extremes(rng, entries, "i8")
        made = [np.zeros(n, "i8"), np.full(n, -(2**63)), np.full(n, 2**64 - 1, "u8"), np.zeros(n, "u4")]
        expected = [m.copy() for m in made]
        run(coo(entries, n), target, j, v, *made)
        np.add.at(expected[0], j, v)
        np.maximum.at(expected[1], j, v)
        np.minimum.at(expected[2], j, v.view("u8"))
        np.bitwise_or.at(expected[3], j, np.uint32(1) << (np.arange(entries) % 32).astype("u4"))
        for found, wanted in zip(made, expected, strict=True):
            check(found, wanted)


# Numbers of a few bits are packed into words by a reduction, and unpacked by the next kernel.
@everywhere
def test_packing(target):
    def pack(n, bits, words, each):
        @T.prim_func
        def main(
            X: T.Tensor((n,), "uint8"),
            W: T.Tensor((words,), "uint32"),
            S: T.Tensor((n,), "int8"),
            U: T.Tensor((n,), "uint16"),
        ):
            with T.Kernel(T.ceildiv(words, 16), threads=32) as b:
                parts, word = T.alloc_fragment((16, each), "uint32"), T.alloc_fragment((16,), "uint32")
                for i, j in T.Parallel(16, each):
                    x = T.uint32(X[(b * 16 + i) * each + j])
                    parts[i, j] = (x & ((1 << bits) - 1)) << (j * bits)
                T.reduce_bitor(parts, word, dim=1)
                T.copy(word, W[b * 16])
            with T.Kernel(T.ceildiv(n, 64), threads=32) as b:
                for i in T.Parallel(64):
                    k = b * 64 + i
                    S[k] = T.unpack_int(bits, W[k // each], k % each, "int8")
                    ones, zeros = T.uint16(T.popcount(X[k])), T.uint16(T.clz(X[k]))
                    U[k] = T.unpack_uint(bits, W[k // each], k % each, "uint16") + ones * 100 + zeros * 1000

        return main

    rng = np.random.default_rng(15)
    for n, bits in ((1, 5), (100, 3), (64, 8), (33, 1)):
        each = 32 // bits
        words = -(-n // each)
        x, w, s, u = extremes(rng, n, "u1"), blank(words, "u4"), blank(n, "i1"), blank(n, "u2")
        run(pack(n, bits, words, each), target, x, w, s, u)
        low = np.zeros(words * each, "i8")
        low[:n] = x & (1 << bits) - 1
        check(w, np.bitwise_or.reduce(low.reshape(words, each) << np.arange(each) * bits, 1))
        low = low[:n]
        check(s, low - (low >> bits - 1 << bits))
        check(u, low + [b.bit_count() * 100 + (8 - b.bit_length()) * 1000 for b in x.tolist()])


# Conway's game over a strided window of an image, with a halo of one and a block of two dimensions.
@everywhere
def test_game_of_life(target):
    def life(m, n, block=16):
        pitch = T.dynamic("pitch")

        @T.prim_func
        def main(X: T.StridedTensor((m, n), (pitch, 1), "uint8"), Y: T.Tensor((m, n), "uint8")):
            with T.Kernel(T.ceildiv(n, block), T.ceildiv(m, block), threads=(16, 4)) as (bx, by):
                x = T.alloc_shared((block + 2, block + 2), "uint8")
                rows = slice(by * block - 1, by * block + block + 1)
                columns = slice(bx * block - 1, bx * block + block + 1)
                T.copy(X[rows, columns], x)
                for i, j in T.Parallel(block, block):
                    near = T.alloc_var("uint8", init=0)
                    for di, dj in T.grid(3, 3):
                        near += x[i + di, j + dj]
                    near -= x[i + 1, j + 1]
                    alive = (near == 3) | ((near == 2) & (x[i + 1, j + 1] == 1))
                    Y[by * block + i, bx * block + j] = T.if_then_else(alive, 1, 0)

        return main

    rng = np.random.default_rng(16)
    for m, n in ((16, 16), (5, 33), (40, 7)):
        x, y = rng.integers(0, 2, (m, n + 5)).astype("u1")[:, 2 : 2 + n], blank((m, n), "u1")
        run(life(m, n), target, x, y)
        wide = np.pad(x, 1).astype(int)
        near = sum(wide[a : a + m, b : b + n] for a in range(3) for b in range(3)) - x
        check(y, (near == 3) | (near == 2) & (x == 1))


# Components of an image: each cell takes the least label near it until nothing changes.
@everywhere
def test_connected_components(target):
    none = 2**31 - 1

    def label(m, n):
        @T.prim_func
        def main(G: T.Tensor((m, n), "uint8"), L: T.Tensor((m, n), "int32")):
            with T.Kernel(1, threads=64):
                x, next_x = T.alloc_shared((m + 2, n + 2), "int32"), T.alloc_shared((m, n), "int32")
                changed = T.alloc_shared((m, n), "bool")
                T.fill(x, none)
                for i, j in T.Parallel(m, n):
                    if G[i, j] != 0:
                        x[i + 1, j + 1] = i * n + j
                again = T.alloc_var("bool", init=True)
                while again:
                    for i, j in T.Parallel(m, n):
                        own = x[i + 1, j + 1]
                        least = T.min(
                            T.min(x[i, j + 1], x[i + 2, j + 1]), T.min(x[i + 1, j], x[i + 1, j + 2])
                        )
                        next_x[i, j] = T.if_then_else(own == none, own, T.min(own, least))
                        changed[i, j] = next_x[i, j] != own
                    T.copy(next_x, x[1 : m + 1, 1 : n + 1])
                    again = T.any_of(changed)
                for i, j in T.Parallel(m, n):
                    L[i, j] = T.if_then_else(next_x[i, j] == none, -1, next_x[i, j])

        return main

    rng = np.random.default_rng(17)
    for m, n in ((1, 1), (7, 9), (12, 5)):
        image, labels = (rng.random((m, n)) < 0.6).astype("u1"), blank((m, n), "i4")
        run(label(m, n), target, image, labels)
        expected = np.full((m, n), -1)
        for start in range(m * n):
            todo = [divmod(start, n)]
            while todo:
                i, j = todo.pop()
                if 0 <= i < m and 0 <= j < n and image[i, j] and expected[i, j] < 0:
                    expected[i, j] = start
                    todo += [(i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)]
        check(labels, expected)


# Points to the nearest of some centres, by a GEMM of bytes and an argmin; how many go to each.
@everywhere
def test_nearest_centres(target):
    largest = 2**31 - 1

    def smaller(p, q):
        first = (p[0] < q[0]) | ((p[0] == q[0]) & (p[1] < q[1]))
        return T.if_then_else(first, p[0], q[0]), T.if_then_else(first, p[1], q[1])

    def centres(n, d, k, block=32):
        @T.prim_func
        def main(
            X: T.Tensor((n, d), "int8"),
            C: T.Tensor((k, d), "int8"),
            A: T.Tensor((n,), "int32"),
            S: T.Tensor((k,), "int32"),
        ):
            with T.Kernel(T.ceildiv(n, block), threads=64) as b:
                x, c = T.alloc_shared((block, 32), "int8"), T.alloc_shared((16, 32), "int8")
                squares, norms = T.alloc_fragment((16, 32), "int32"), T.alloc_fragment((16,), "int32")
                dots, number = T.alloc_fragment((block, 16), "int32"), T.alloc_fragment((block, 16), "int32")
                best, where = T.alloc_fragment((block,), "int32"), T.alloc_fragment((block,), "int32")
                T.copy(X[b * block : (b + 1) * block, 0:32], x)
                T.copy(C[0:16, 0:32], c)
                T.gemm(x, c, dots, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(16, 32):
                    squares[i, j] = T.int32(c[i, j]) * c[i, j]
                T.reduce_sum(squares, norms, dim=1)
                for i, j in T.Parallel(block, 16):
                    dots[i, j] = T.if_then_else(j < k, norms[j] - 2 * dots[i, j], largest)
                    number[i, j] = j
                T.reduce((dots, number), (best, where), 1, combine=smaller, identity=(largest, largest))
                T.copy(where, A[b * block])
                count = T.alloc_reducer((16,), "int32", op="sum")
                T.clear(count)
                for i in T.Parallel(block):
                    if b * block + i < n:
                        count[where[i]] += 1
                T.finalize_reducer(count)
                for i in T.Parallel(16):
                    if i < k:
                        T.atomic_add(S[i], count[i])

        return main

    rng = np.random.default_rng(18)
    for n, d, k in ((32, 32, 16), (70, 20, 5), (3, 1, 1)):
        x, c, a, s = (
            extremes(rng, (n, d), "i1"),
            extremes(rng, (k, d), "i1"),
            blank(n, "i4"),
            np.zeros(k, "i4"),
        )
        run(centres(n, d, k), target, x, c, a, s)
        wide = c.astype(int)
        nearest = ((wide**2).sum(1) - 2 * x.astype(int) @ wide.T).argmin(1)
        check(a, nearest)
        check(s, np.bincount(nearest, minlength=k))


# The nearest points of int16 vectors: distance and number are one uint64, of which the least is taken.
@everywhere
def test_nearest_neighbours(target):
    def neighbours(m, n, d, k, block=8):
        @T.prim_func
        def main(
            Q: T.Tensor((m, d), "int16"),
            P: T.Tensor((n, d), "int16"),
            where: T.Tensor((m, k), "int32"),
            far: T.Tensor((m, k), "uint32"),
        ):
            with T.Kernel(T.ceildiv(m, block), threads=32) as b:
                key, best = T.alloc_fragment((block, n), "uint64"), T.alloc_fragment((block,), "uint64")
                for i, j in T.Parallel(block, n):
                    total = T.alloc_var("uint32", init=0)
                    for c in T.serial(d):
                        step = T.int32(Q[b * block + i, c]) - P[j, c]
                        total += T.uint32(step) * T.uint32(step)
                    key[i, j] = T.uint64(total) << 32 | T.uint64(j)
                for r in T.serial(k):
                    T.reduce_min(key, best, dim=1)
                    for i in T.Parallel(block):
                        where[b * block + i, r] = T.int32(best[i] & 0xFFFFFFFF)
                        far[b * block + i, r] = T.uint32(best[i] >> 32)
                    for i, j in T.Parallel(block, n):
                        key[i, j] = T.if_then_else(key[i, j] == best[i], T.max_value("uint64"), key[i, j])

        return main

    rng = np.random.default_rng(19)
    for m, n, d, k in ((8, 16, 1, 3), (5, 33, 3, 4), (17, 7, 2, 7)):
        q, p = extremes(rng, (m, d), "i2"), extremes(rng, (n, d), "i2")
        where, far = blank((m, k), "i4"), blank((m, k), "u4")
        run(neighbours(m, n, d, k), target, q, p, where, far)
        distance = ((q[:, None].astype("i8") - p) ** 2).sum(2).astype("u4")
        order = np.argsort(distance, 1, kind="stable")[:, :k]
        check(where, order)
        check(far, np.take_along_axis(distance, order, 1))


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


# A product of bytes, brought back to bytes by a rounded shift of its own for each column.
@everywhere
def test_requantised_gemm(target):
    def requantised(k, n, block=32):
        m = T.dynamic("m")

        @T.prim_func
        def main(
            A: T.Tensor((k, m), "int8"),
            W: T.Tensor((n, k), "int8"),
            bias: T.Tensor((n,), "int32"),
            shift: T.Tensor((n,), "uint8"),
            C: T.Tensor((m, n), "int8"),
        ):
            with T.Kernel(T.ceildiv(n, block), T.ceildiv(m, block), threads=64) as (bx, by):
                a, w = T.alloc_shared((block, block), "int8"), T.alloc_shared((block, block), "int8")
                c, out = T.alloc_fragment((block, block), "int32"), T.alloc_shared((block, block), "int8")
                T.annotate_layout({out: T.make_swizzled_layout(out)})
                for i, j in T.Parallel(block, block):
                    c[i, j] = bias[bx * block + j]
                for step in T.Pipelined(T.ceildiv(k, block), num_stages=2):
                    T.copy(A[step * block, by * block], a)
                    T.copy(W[bx * block, step * block], w)
                    T.gemm(a, w, c, transpose_A=True, transpose_B=True)
                for i, j in T.Parallel(block, block):
                    s = T.int32(shift[bx * block + j])
                    rounded = (T.int64(c[i, j]) + (T.int64(1) << s >> 1)) >> s
                    out[i, j] = T.max(T.min(rounded, 127), -128)
                T.copy(out, C[by * block, bx * block])

        return main

    rng = np.random.default_rng(21)
    for m, n, k in ((32, 32, 32), (5, 40, 70), (33, 7, 3)):
        a, w, bias = extremes(rng, (k, m), "i1"), extremes(rng, (n, k), "i1"), extremes(rng, n, "i4")
        shift, c = rng.integers(0, 32, n).astype("u1"), blank((m, n), "i1")
        run(requantised(k, n), target, a, w, bias, shift, c)
        exact = (a.astype("i8").T @ w.astype("i8").T + bias).astype("i4").astype("i8")
        check(c, np.clip((exact + (np.int64(1) << shift >> 1)) >> shift.astype("i8"), -128, 127))


@everywhere
def test_products_of_signs(target):
    def signs(m, n, words):
        @T.prim_func
        def main(
            A: T.Tensor((m, words), "uint64"), B: T.Tensor((n, words), "uint64"), C: T.Tensor((m, n), "int32")
        ):
            with T.Kernel(3, threads=32) as b:
                for by, bx in T.Persistent([T.ceildiv(m, 8), T.ceildiv(n, 8)], 3, b):
                    total = T.alloc_fragment((8, 8), "int32")
                    T.clear(total)
                    for w in T.serial(words):
                        for i, j in T.Parallel(8, 8):
                            total[i, j] += 64 - 2 * T.int32(T.popcount(A[by * 8 + i, w] ^ B[bx * 8 + j, w]))
                    T.copy(total, C[by * 8, bx * 8])

        return main

    rng = np.random.default_rng(22)
    for m, n, words in ((8, 8, 1), (19, 9, 3), (1, 30, 2)):
        a, b, c = extremes(rng, (m, words), "u8"), extremes(rng, (n, words), "u8"), blank((m, n), "i4")
        run(signs(m, n, words), target, a, b, c)
        bits = [np.unpackbits(x.view("u1"), axis=1).astype(int) * 2 - 1 for x in (a, b)]
        check(c, bits[0] @ bits[1].T)


@everywhere
def test_four_bytes_at_once(target):
    def products(m, k):
        @T.prim_func
        def main(A: T.Tensor((m, k), "int8"), B: T.Tensor((k,), "int8"), C: T.Tensor((m,), "int32")):
            with T.Kernel(T.ceildiv(m, 16), threads=16) as b:
                T.annotate_safe_value({A: -3})
                a, v = T.alloc_shared((16, 16), "int8"), T.alloc_shared((16,), "int8")
                T.copy(A[b * 16, 0], a)
                T.copy(B[0:16], v)
                for i in T.Parallel(16):
                    total = T.alloc_local((1,), "int32")
                    total[0] = 0
                    for j in T.serial(4):
                        T.dp4a(a[i, j * 4], v[j * 4], total)
                    C[b * 16 + i] = total[0]

        return main

    rng = np.random.default_rng(23)
    for m, k in ((16, 16), (5, 13), (33, 1)):
        a, b, c = extremes(rng, (m, k), "i1"), extremes(rng, k, "i1"), blank(m, "i4")
        run(products(m, k), target, a, b, c)
        check(c, a.astype("i4") @ b.astype("i4"))


@everywhere
def test_nibbles(target):
    def nibbles(m, k):
        @T.prim_func
        def main(A: T.Tensor((m, k), "int4"), U: T.Tensor((m, k), "uint4"), Y: T.Tensor((m,), "int32")):
            with T.Kernel(T.ceildiv(m, 4), threads=32) as b:
                x, total = T.alloc_fragment((4, k), "int32"), T.alloc_fragment((4,), "int32")
                for i, j in T.Parallel(4, k):
                    a, u = A[b * 4 + i, j], U[b * 4 + i, j]
                    x[i, j] = a * 8 // 3 - u % 5 + (a << 3)
                T.reduce_sum(x, total, dim=1)
                T.copy(total, Y[b * 4])

        return main

    rng = np.random.default_rng(24)
    for m, k in ((4, 8), (5, 34), (1, 2)):
        packed, y = rng.integers(0, 256, (2, m, k // 2)).astype("u1"), blank(m, "i4")
        run(nibbles(m, k), target, packed[0], packed[1], y)
        a, u = np.stack([packed & 15, packed >> 4], -1).reshape(2, m, k).astype("i4")
        a -= a // 8 * 16
        check(y, (a * 8 // 3 - u % 5 + (a << 3)).sum(1))


# A convolution that skips what lies outside by `continue` and `break`.
@everywhere
def test_convolution_of_bytes(target):
    def convolution(h, w, c, o):
        @T.prim_func
        def main(
            X: T.Tensor((h, w, c), "int8"), K: T.Tensor((3, 3, c, o), "int8"), Y: T.Tensor((h, w, o), "int32")
        ):
            with T.Kernel(T.ceildiv(h * w, 16), threads=32) as b:
                for p, q in T.Parallel(16, o):
                    at = b * 16 + p
                    total = T.alloc_var("int32", init=0)
                    for dy in T.serial(3):
                        y = at // w + dy - 1
                        if y < 0 or y >= h:
                            continue
                        for dx in T.serial(3):
                            x = at % w + dx - 1
                            if x < 0:
                                continue
                            if x >= w:
                                break
                            for z in T.serial(c):
                                total += T.int32(X[y, x, z]) * K[dy, dx, z, q]
                    if at < h * w:
                        Y[at // w, at % w, q] = total

        return main

    rng = np.random.default_rng(25)
    for h, w, c, o in ((4, 4, 1, 1), (5, 7, 3, 2), (1, 9, 2, 3)):
        x, k, y = extremes(rng, (h, w, c), "i1"), extremes(rng, (3, 3, c, o), "i1"), blank((h, w, o), "i4")
        run(convolution(h, w, c, o), target, x, k, y)
        wide = np.pad(x.astype("i4"), ((1, 1), (1, 1), (0, 0)))
        check(y, sum(wide[i : i + h, j : j + w] @ k[i, j].astype("i4") for i in range(3) for j in range(3)))


# An int64 as every other type, by copies alone, and byte by byte through a view.
@everywhere
def test_copies_convert(target):
    def copies(n):
        @T.prim_func
        def main(X: T.Tensor((n,), "int64"), A: T.Tensor((n,), "int8"), B: T.Tensor((n,), "uint16"),
                 C: T.Tensor((n,), "float32"), D: T.Tensor((n,), "bool"), E: T.Tensor((n,), "float64"),
                 F: T.Tensor((n,), "float32"), G: T.Tensor((n, 8), "uint8")):  # fmt: skip
            with T.Kernel(T.ceildiv(n, 32), threads=32) as b:
                s, u = T.alloc_shared((32,), "int64"), T.alloc_shared((32,), "uint64")
                x = T.alloc_fragment((32,), "int64")
                T.copy(X[b * 32], s)
                T.copy(s, x)
                T.copy(s, u)
                T.copy(x, A[b * 32])
                T.copy(s, B[b * 32])
                T.copy(s, C[b * 32])
                T.copy(x, D[b * 32])
                T.copy(x, E[b * 32])
                T.copy(u, F[b * 32])
                T.copy(T.view(s, (32, 8), "uint8"), G[b * 32, 0])

        return main

    rng = np.random.default_rng(26)
    for n in (32, 70, 1):
        x = extremes(rng, n, "i8")
        x[6:10] = [(1 << 24) + 1, (1 << 24) + 3, -(1 << 62) - (1 << 38) - 1, (1 << 53) + 1][: len(x[6:10])]
        expected = [x.astype("i1"), x.astype("u2"), x.astype("f4"), x != 0, x.astype("f8"),
                    x.view("u8").astype("f4"), x.view("u1").reshape(n, 8)]  # fmt: skip
        found = [blank(e.shape, e.dtype) if e.dtype != bool else np.ones(n, bool) for e in expected]
        run(copies(n), target, x, *found)
        for f, e in zip(found, expected, strict=True):
            check(f, e)


# Gauss and Jordan with pivots, each thread a matrix of its own: rows are chosen by a variable.
@everywhere
def test_inverse_of_small_matrices(target):
    def inverse(n):
        @T.prim_func
        def main(X: T.Tensor((n, 4, 4), "float64"), Y: T.Tensor((n, 4, 4), "float64")):
            with T.Kernel(T.ceildiv(n, 32), threads=32) as b:
                for t in T.Parallel(32):
                    if b * 32 + t < n:
                        a = T.alloc_local((4, 8), "float64")
                        for i, j in T.grid(4, 4):
                            a[i, j] = X[b * 32 + t, i, j]
                            a[i, j + 4] = T.if_then_else(i == j, 1.0, 0.0)
                        for p in T.serial(4):
                            pivot = T.alloc_var("int32")
                            pivot = p
                            for r in T.serial(p + 1, 4):
                                if T.abs(a[r, p]) > T.abs(a[pivot, p]):
                                    pivot = r
                            for j in T.serial(8):
                                kept = T.alloc_var("float64")
                                kept = a[p, j]
                                a[p, j] = a[pivot, j]
                                a[pivot, j] = kept
                            scale = T.alloc_var("float64")
                            scale = 1.0 / a[p, p]
                            for j in T.serial(8):
                                a[p, j] *= scale
                            for r in T.serial(4):
                                if r != p:
                                    factor = T.alloc_var("float64")
                                    factor = a[r, p]
                                    for j in T.serial(8):
                                        a[r, j] -= factor * a[p, j]
                        for i, j in T.grid(4, 4):
                            Y[b * 32 + t, i, j] = a[i, j + 4]

        return main

    rng = np.random.default_rng(30)
    for n in (1, 32, 45):
        x, y = rng.standard_normal((n, 4, 4)), blank((n, 4, 4), "f8")
        x[0] = np.eye(4)[[1, 0, 3, 2]]
        run(inverse(n), target, x, y)
        check(y, np.linalg.inv(x), 1e-9)


@by_threads
def test_a_tile_of_two_dimensions_indexed_by_data(target):
    @T.prim_func
    def main(X: T.Tensor((32,), "int32"), Y: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            s = T.alloc_shared((2, 32), "int32")
            s[0, X[tx]] = T.int32(tx)
            T.sync_warp()
            Y[tx] = s[0, tx]

    x, y = np.arange(32, dtype="i4")[::-1].copy(), blank(32, "i4")
    run(main, target, x, y)
    check(y, x)


@pytest.mark.parametrize("target", ["cpu", "sim:sm_90", "reference"])
def test_shift_of_an_index(target):
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int64"), C: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                B[i] = T.if_then_else((i >> (A[i] & 63)) == 0, 1, 0)
                C[i] = A[i >> i]

    a, b, c = np.arange(64, dtype="i4"), blank(64, "i8"), blank(64, "i4")
    run(main, target, a, b, c)
    check(b, np.arange(64) >> a == 0)
    check(c, a[np.arange(64) >> np.arange(64)])


# What is refused, at the user's line.
def refused(mark, words, action, exception=tilelang.CompileError):
    with pytest.raises(exception) as caught:
        action()
    text = str(caught.value)
    line = next(i for i, s in enumerate(HERE.read_text().splitlines(), 1) if s.endswith(f"# {mark}"))
    assert re.search(rf"{HERE.name}:{line}:", text), text
    for word in words:
        assert re.search(word, text), (word, text)


Ints = T.Tensor((32,), "int32")
Bytes = T.Tensor((32,), "uint8")


def test_shift_by_the_width():
    def build():
        @T.prim_func
        def main(X: Ints, Y: Ints):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(32):
                    Y[i] = X[i] << 32  # whole width

    refused("whole width", [r"\[0, 32\)", "wider type"], build)


def test_a_number_that_a_byte_does_not_hold():
    def build():
        @T.prim_func
        def main(X: Bytes, Y: Ints):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(32):
                    Y[i] = X[i] * 256 + X[i]  # a byte

    refused("a byte", ["256", "uint8"], build)


def test_division_of_integers():
    def build():
        @T.prim_func
        def main(X: Ints, Y: Ints):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(32):
                    Y[i] = X[i] / 2  # slash

    refused("slash", ["//", "float"], build)


def test_counts_in_bytes():
    def build():
        @T.prim_func
        def main(X: Bytes, H: T.Tensor((256,), "uint8")):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(32):
                    T.atomic_add(H[X[i]], 1)  # count

    refused("count", ["uint8", "int32"], build)


def test_barrier_in_a_parallel_loop():
    def build():
        @T.prim_func
        def main(X: Ints, Y: Ints):
            with T.Kernel(1, threads=32):
                s = T.alloc_shared((32,), "int32")
                for i in T.Parallel(32):
                    s[i] = X[i]
                    T.sync_threads()  # in parallel
                    Y[i] = s[31 - i]

    refused("in parallel", ["T.Parallel", "end the loop"], build)


def test_a_python_number_that_changes():
    def build():
        @T.prim_func
        def main(X: Ints, Y: Ints):
            with T.Kernel(1, threads=32):
                crc = 0
                for i in range(32):
                    crc = crc ^ X[i]  # python number
                Y[0] = crc

    refused("python number", ["crc", "alloc_var"], build)


def test_a_reducer_that_is_not_finalised():
    def build():
        @T.prim_func
        def main(X: Ints, Y: Ints):
            with T.Kernel(1, threads=32):
                h = T.alloc_reducer((4,), "int32", op="sum")
                T.clear(h)
                for i in T.Parallel(32):
                    h[X[i] & 3] += 1
                T.copy(h, Y[0:4])  # open

    refused("open", ["finalize_reducer"], build)


def test_a_table_of_python():
    table = np.array([1, 2, 3, 4])

    def build():
        @T.prim_func
        def main(Y: Ints):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(32):
                    Y[i] = table[i]  # table

    refused("table", ["tensor parameter"], build)


def test_every_second_element():
    def build():
        @T.prim_func
        def main(X: Ints, Y: Ints):
            with T.Kernel(1, threads=32):
                T.copy(X[::2], Y[0:16])  # step

    refused("step", ["step", "T.Parallel"], build)


def test_the_last_element():
    def build():
        @T.prim_func
        def main(X: Ints, Y: Ints):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(32):
                    Y[i] = X[-1]  # last

    refused("last", ["negative", "shape"], build)


def test_value_or_default():
    def build():
        @T.prim_func
        def main(X: Ints, Y: Ints):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(32):
                    Y[i] = X[i] or 7  # default

    refused("default", ["if_then_else"], build)


def test_a_power_that_memory_tells():
    def build():
        @T.prim_func
        def main(X: Ints, Y: Ints):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(32):
                    Y[i] = 2 ** X[i]  # power

    refused("power", ["constant exponent", "1 << y"], build)


def test_uneven_view():
    def build():
        @T.prim_func
        def main(X: Bytes, Y: T.Tensor((2,), "uint32")):
            with T.Kernel(1, threads=32):
                s = T.alloc_shared((6,), "uint8")
                T.copy(X[0:6], s)
                T.copy(T.view(s, dtype="uint32"), Y)  # view

    refused("view", ["6 elements of 8 bits", "new shape"], build)


def test_count_of_a_warp_in_a_branch():
    @T.prim_func
    def main(X: Ints, Y: Ints):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            if X[tx] % 3 == 0:
                Y[tx] = T.int32(T.ballot(X[tx] > 5))  # branch

    x = np.arange(32, dtype="i4")
    refused(
        "branch",
        ["ballot_sync", "move the call out"],
        lambda: run(main, "sim:sm_90", x, x.copy()),
        tilelang.SimulationError,
    )
