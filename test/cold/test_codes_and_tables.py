"""Checksums, generators, dates, words, joins, sparse products, packing."""

import zlib

import numpy as np
import tilelang
import tilelang.language as T
from everywhere import blank, by_threads, check, everywhere, extremes, run


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
