"""Hashes, bits of words, look-back, random integers, dates."""

import zlib

import numpy as np
import tilelang.language as T
from everywhere import blank, by_threads, check, everywhere, run


@everywhere
def test_crc_and_hash_of_rows(target):
    rows, length, tile = 13, 21, 8

    @T.prim_func
    def main(
        X: T.Tensor((rows, length), "uint8"), C: T.Tensor((rows,), "uint32"), F: T.Tensor((rows,), "uint64")
    ):
        with T.Kernel(T.ceildiv(rows, tile), threads=32) as bx:
            crc, fnv = T.alloc_fragment((tile,), "uint32"), T.alloc_fragment((tile,), "uint64")
            T.fill(crc, 0xFFFFFFFF)
            T.fill(fnv, 0xCBF29CE484222325)
            for k in T.serial(length):
                for i in T.Parallel(tile):
                    byte = X[bx * tile + i, k]
                    crc[i] = crc[i] ^ T.uint32(byte)
                    for _ in T.unroll(8):
                        crc[i] = T.if_then_else(crc[i] & 1 == 1, crc[i] >> 1 ^ 0xEDB88320, crc[i] >> 1)
                    fnv[i] = (fnv[i] ^ T.uint64(byte)) * 0x100000001B3
            for i in T.Parallel(tile):
                crc[i] = ~crc[i]
            T.copy(crc, C[bx * tile])
            T.copy(fnv, F[bx * tile])

    x = np.random.default_rng(12).integers(0, 256, (rows, length)).astype("u1")
    c, f = blank(rows, "u4"), blank(rows, "u8")
    run(main, target, x, c, f)
    check(c, np.array([zlib.crc32(row.tobytes()) for row in x], "u4"))
    hashes = []
    for row in x.tolist():
        h = 0xCBF29CE484222325
        for byte in row:
            h = (h ^ byte) * 0x100000001B3 % 2**64
        hashes.append(h)
    check(f, np.array(hashes, "u8"))


def reversed_bits(x):
    """The bits of a uint64 in the opposite order, by exchanges of ever longer pieces."""
    for shift, mask in ((1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F),
                        (8, 0x00FF00FF00FF00FF), (16, 0x0000FFFF0000FFFF)):  # fmt: skip
        x = (x >> shift & mask) | (x & mask) << shift
    return x >> 32 | x << 32


@everywhere
def test_bits_of_words(target):
    n = 75

    @T.prim_func
    def main(
        X: T.Tensor((n,), "uint64"),
        S: T.Tensor((n,), "int16"),
        ones: T.Tensor((n,), "int32"),
        mirror: T.Tensor((n,), "uint64"),
        zeros: T.Tensor((n, 3), "int32"),
        ones16: T.Tensor((n,), "int16"),
    ):
        with T.Kernel(T.ceildiv(n, 32), threads=32) as bx:
            for i in T.Parallel(32):
                at = bx * 32 + i
                if at < n:
                    x = X[at]
                    ones[at] = T.popcount(x)
                    mirror[at] = reversed_bits(x)
                    zeros[at, 0] = T.clz(x)
                    zeros[at, 1] = T.clz(T.uint16(x))
                    zeros[at, 2] = T.clz(T.cast(x, "int8"))
                    ones16[at] = T.popcount(S[at])

    rng = np.random.default_rng(13)
    x = rng.integers(0, 2**64, n, dtype="u8") >> rng.integers(0, 64, n).astype("u8")
    x[0] = 0
    s = rng.integers(-(2**15), 2**15, n).astype("i2")
    s[0] = -1
    out = blank(n, "i4"), blank(n, "u8"), blank((n, 3), "i4"), blank(n, "i2")
    run(main, target, x, s, *out)
    numbers = x.tolist()
    check(out[0], [v.bit_count() for v in numbers])
    check(out[1], np.array([int(f"{v:064b}"[::-1], 2) for v in numbers], "u8"))
    check(out[2], [[bits - (v % 2**bits).bit_length() for bits in (64, 16, 8)] for v in numbers])
    check(out[3], [(v % 2**16).bit_count() for v in s.tolist()])


@by_threads
def test_scan_that_looks_back(target):
    n = 300
    blocks = -(-n // 64)

    @T.prim_func
    def main(
        X: T.Tensor((n,), "int32"),
        Y: T.Tensor((n,), "int32"),
        ticket: T.Tensor((1,), "int32"),
        flag: T.Tensor((blocks,), "int32"),
        total: T.Tensor((blocks,), "int32"),
    ):
        with T.Kernel(blocks, threads=64):
            tx, lane, warp = T.get_thread_binding(), T.get_lane_idx(), T.get_warp_idx()
            S = T.alloc_shared((4,), "int32")
            x, before = T.alloc_var("int32", 0), T.alloc_var("int32", 0)
            if tx == 0:
                S[0] = T.atomic_add(ticket[0], 1, return_prev=True)
            T.sync_threads()
            part = S[0]
            at = part * 64 + tx
            if at < n:
                x = X[at]
            for b in T.unroll(5):
                other = T.shfl_up(x, 1 << b)
                if lane >= 1 << b:
                    x += other
            if lane == 31:
                S[1 + warp] = x
            T.sync_threads()
            if warp == 1:
                x += S[1]
            if tx == 63:
                if part > 0:
                    while T.atomic_load(flag[part - 1], "acquire") == 0:
                        pass
                    before = total[part - 1]
                total[part] = before + x
                T.atomic_store(flag[part], 1, "release")
                S[3] = before
            T.sync_threads()
            if at < n:
                Y[at] = x + S[3]

    x, y = np.random.default_rng(14).integers(-99, 99, n).astype("i4"), blank(n, "i4")
    run(main, target, x, y, np.zeros(1, "i4"), np.zeros(blocks, "i4"), blank(blocks, "i4"))
    check(y, np.cumsum(x))


@everywhere
def test_monte_carlo_with_integers(target):
    walkers, steps, tile = 75, 10, 32

    @T.prim_func
    def main(
        seeds: T.Tensor((walkers,), "uint32"), hits: T.Tensor((1,), "int64"), mixed: T.Tensor((3,), "uint32")
    ):
        with T.Kernel(T.ceildiv(walkers, tile), threads=32) as bx:
            x, inside = T.alloc_fragment((tile,), "uint32"), T.alloc_fragment((tile,), "int32")
            some, folded = T.alloc_fragment((1,), "int64"), T.alloc_fragment((1,), "uint32")
            T.copy(seeds[bx * tile], x)
            T.clear(inside)
            for _ in T.serial(steps):
                for i in T.Parallel(tile):
                    x[i] = x[i] * 1664525 + 1013904223
                    a, b = T.uint64(x[i] >> 16), T.uint64(x[i] & 0xFFFF)
                    if bx * tile + i < walkers:
                        inside[i] += a * a + b * b < T.uint64(1 << 32)
            T.reduce_sum(inside, some)
            T.reduce_bitxor(x, folded, dim=0)
            T.atomic_add(hits, some)
            mixed[bx] = folded[0]

    seeds = np.random.default_rng(13).integers(0, 2**32, walkers).astype("u4")
    hits, mixed = np.zeros(1, "i8"), blank(3, "u4")
    run(main, target, seeds, hits, mixed)
    x, exact = np.pad(seeds, (0, 3 * tile - walkers)).astype("u8"), 0
    for _ in range(steps):
        x = (x * 1664525 + 1013904223) % 2**32
        exact += ((x >> 16) ** 2 + (x & 0xFFFF) ** 2 < 2**32)[:walkers].sum()
    assert hits[0] == exact
    check(mixed, np.bitwise_xor.reduce(x.reshape(3, tile), axis=1))


@everywhere
def test_dates_of_days(target):
    n = 150

    @T.macro
    def civil(days):
        z = days + 719468
        era, doe = z // 146097, z % 146097
        yoe = (doe - doe // 1460 + doe // 36524 - doe // 146096) // 365
        doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
        mp = (5 * doy + 2) // 153
        month = T.if_then_else(mp < 10, mp + 3, mp - 9)
        return yoe + era * 400 + T.if_then_else(month <= 2, 1, 0), month, doy - (153 * mp + 2) // 5 + 1

    @T.prim_func
    def main(days: T.Tensor((n,), "int32"), ymd: T.Tensor((n, 3), "int32"), week: T.Tensor((n, 3), "int8")):
        with T.Kernel(T.ceildiv(n, 64), threads=64) as bx:
            for i in T.Parallel(64):
                if bx * 64 + i < n:
                    at = bx * 64 + i
                    year, month, day = civil(days[at])
                    ymd[at, 0], ymd[at, 1], ymd[at, 2] = year, month, day
                    week[at, 0] = (days[at] + 4) % 7
                    week[at, 1] = T.truncmod(days[at] + 4, 7)
                    week[at, 2] = days[at] // -7 % -5

    days = np.random.default_rng(15).integers(-900_000, 900_000, n).astype("i4")
    days[:4] = 0, -1, -719468, -719469
    ymd, week = blank((n, 3), "i4"), blank((n, 3), "i1")
    run(main, target, days, ymd, week)
    dates = days.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    years = months.astype("datetime64[Y]")
    parts = years.astype(int) + 1970, months.astype(int) % 12 + 1, (dates - months).astype(int) + 1
    check(ymd, np.stack(parts, 1))
    check(week, np.stack([(days + 4) % 7, np.fmod(days + 4, 7), days // -7 % -5], 1))
