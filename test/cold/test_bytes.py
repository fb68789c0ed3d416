"""Products, signs and copies of bytes and nibbles; tiles and shifts by indices."""

import numpy as np
import pytest
import tilelang.language as T
from everywhere import blank, by_threads, check, everywhere, extremes, run


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
