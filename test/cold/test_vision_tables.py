"""Dropout that is replayed, narrow floats with a scale per row, tables of four bits, pooling of bytes."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from everywhere import TARGETS, blank, check, everywhere, extremes, run
from ml_dtypes import float8_e4m3fn as E4M3

every_target = pytest.mark.parametrize("target", TARGETS)


# Forward and backward of a dropout: the second kernel draws the numbers of the first again.
def dropout(N):
    @T.prim_func
    def main(
        X: T.Tensor((N,), "float32"),
        dY: T.Tensor((N,), "float32"),
        seed: T.int64,
        p: T.float32,
        Y: T.Tensor((N,), "float32"),
        dX: T.Tensor((N,), "float32"),
        R: T.Tensor((N,), "uint32"),
    ):
        with T.Kernel(T.ceildiv(N, 96), threads=32) as b:
            for i in T.Parallel(96):
                T.rng_init(seed, seq=b * 96 + i, off=4)
                Y[b * 96 + i] = T.if_then_else(T.rng_rand_float() > p, X[b * 96 + i] / (1 - p), 0.0)
        with T.Kernel(T.ceildiv(N, 64), threads=64) as b:
            for i in T.Parallel(64):
                T.rng_init(seed, seq=b * 64 + i, off=4)
                dX[b * 64 + i] = T.if_then_else(T.rng_rand_float() > p, dY[b * 64 + i] / (1 - p), 0.0)
                T.rng_init(seed, seq=b * 64 + i, off=4)
                R[b * 64 + i] = T.rng_rand()

    return main


def philox(seed, sequence, offset):
    """The number at an offset of a stream of Philox4x32-10."""
    low, block = 2**32 - 1, offset // 4
    c = [block & low, block >> 32, sequence & low, sequence >> 32]
    key = [seed & low, seed >> 32 & low]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ key[0], b & low, a >> 32 ^ c[3] ^ key[1], a & low]
        key = [key[0] + 0x9E3779B9 & low, key[1] + 0xBB67AE85 & low]
    return c[offset % 4]


@everywhere
def test_dropout_and_its_replay(target):
    rng = np.random.default_rng(1)
    for N, seed in [(100, 7), (1, -1), (193, 2**40 + 3)]:
        x, dy = (rng.standard_normal(N).astype("f4") for _ in range(2))
        numbers = np.array([philox(seed, i, 4) for i in range(N)], "u4")
        keep = numbers.astype("f4") * np.float32(2.0**-32) + np.float32(2.0**-33) > 0.25
        y, dx, r = blank(N), blank(N), blank(N, "u4")
        run(dropout(N), target, x, dy, seed, 0.25, y, dx, r)
        check(r, numbers)
        check(y, np.where(keep, x / np.float32(0.75), 0))
        check(dx, np.where(keep, dy / np.float32(0.75), 0))


# Rows are stored in e4m3, scaled so that the greatest magnitude of each is the greatest of the type.
def quantise(M, N):
    @T.prim_func
    def main(
        X: T.Tensor((M, N), "float32"), Q: T.Tensor((M, N), "float8_e4m3fn"), scale: T.Tensor((M,), "float32")
    ):
        with T.Kernel(T.ceildiv(M, 8), threads=64) as b:
            x, s = T.alloc_fragment((8, N), "float32"), T.alloc_fragment((8,), "float32")
            T.copy(X[b * 8, 0], x)
            T.reduce_absmax(x, s, dim=1)
            for i in T.Parallel(8):
                s[i] = T.if_then_else(s[i] > 0, s[i] / 448.0, 1.0)
            for i, j in T.Parallel(8, N):
                Q[b * 8 + i, j] = x[i, j] / s[i]
            T.copy(s, scale[b * 8])

    return main


@everywhere
def test_rows_in_e4m3(target):
    rng = np.random.default_rng(2)
    for M, N in [(11, 37), (1, 1), (8, 64)]:
        x = (rng.standard_normal((M, N)) * 10.0 ** rng.integers(-20, 20, (M, 1))).astype("f4")
        x[0] = 0
        greatest = np.abs(x).max(1)
        scale = np.where(greatest > 0, greatest / np.float32(448), np.float32(1))
        q, s = blank((M, N), "f4").astype(E4M3), blank(M)
        run(quantise(M, N), target, x, q, s)
        check(s, scale)
        check(q.astype("f4"), (x / scale[:, None]).astype(E4M3).astype("f4"))


# A table of sixteen values for numbers of four bits, which are passed on as they are, too.
def look_up(M, K):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), "int4"),
        table: T.Tensor((16,), "float16"),
        Y: T.Tensor((M, K), "float16"),
        Z: T.Tensor((M, K), "int4"),
    ):
        with T.Kernel(T.ceildiv(K, 32), T.ceildiv(M, 4), threads=32) as (bx, by):
            t, a = T.alloc_shared((16,), "float16"), T.alloc_shared((4, 32), "int4")
            T.copy(table, t)
            T.copy(A[by * 4, bx * 32], a)
            for i, j in T.Parallel(4, 32):
                Y[by * 4 + i, bx * 32 + j] = t[a[i, j] + 8]
            T.copy(a, Z[by * 4, bx * 32])

    return main


@everywhere
def test_a_table_of_int4(target):
    rng = np.random.default_rng(3)
    for M, K in [(5, 70), (1, 2), (4, 34)]:
        a, table = rng.integers(-8, 8, (M, K)), rng.standard_normal(16).astype("f2")
        packed = (a[:, ::2] & 15 | (a[:, 1::2] & 15) << 4).astype("u1")
        y, z = blank((M, K), "f2"), blank(packed.shape, "u1")
        run(look_up(M, K), target, packed, table, y, z)
        check(y, table[a + 8])
        check(z, packed)


# The greatest of nine bytes around each; what lies outside of the image is the least number of the type.
def dilate(H, W):
    @T.prim_func
    def main(X: T.Tensor((H, W), "int8"), Y: T.Tensor((H, W), "int8")):
        with T.Kernel(T.ceildiv(W, 8), T.ceildiv(H, 4), threads=32) as (bx, by):
            T.annotate_safe_value({X: -128})
            near = T.alloc_shared((6, 10), "int8")
            T.copy(X[by * 4 - 1, bx * 8 - 1], near)
            for i, j in T.Parallel(4, 8):
                most = T.alloc_var("int8", -128)
                for u, v in T.grid(3, 3):
                    most = T.max(most, near[i + u, j + v])
                Y[by * 4 + i, bx * 8 + j] = most

    return main


@everywhere
def test_dilation_of_bytes(target):
    rng = np.random.default_rng(4)
    for H, W in [(9, 11), (1, 1), (4, 17)]:
        x, y = rng.integers(-128, -100, (H, W)).astype("i1"), blank((H, W), "i1")
        wide = np.pad(x, 1, constant_values=-128)
        run(dilate(H, W), target, x, y)
        check(y, np.max([wide[a : a + H, b : b + W] for a in range(3) for b in range(3)], 0))


# Products and quotients of all of int64 and bytes, in the types that the rules of mixed operands give.
def mixed(N=40):
    @T.prim_func
    def main(
        A: T.Tensor((N,), "int64"),
        B: T.Tensor((N,), "uint8"),
        Y: T.Tensor((N,), "int64"),
        Z: T.Tensor((N,), "uint8"),
        Q: T.Tensor((N,), "int32"),
    ):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                Y[i] = (A[i] * A[N - 1 - i]) // T.max(A[i] % 7, 1) - (A[i] >> 3)
                Z[i] = B[i] * B[i] + 200 - (B[i] << 3)
                product = T.cast(B[i], "int8") * T.cast(B[N - 1 - i], "int32")
                low, high = T.cast(A[i], "int32"), T.cast(A[i] >> 32, "int32")
                Q[i] = product + T.truncdiv(low, 7) - T.truncmod(high, -3)

    return main


@everywhere
def test_integers_of_mixed_types(target):
    rng = np.random.default_rng(5)
    a, b = extremes(rng, 40, "i8"), extremes(rng, 40, "u1")
    y, z, q = blank(40, "i8"), blank(40, "u1"), blank(40, "i4")
    run(mixed(), target, a, b, y, z, q)
    check(y, (a * a[::-1]) // np.maximum(a % 7, 1) - (a >> 3))
    check(z, b * b + np.uint8(200) - (b << np.uint8(3)))
    low, high = a.astype("i4").astype("i8"), a >> 32
    quotient = np.sign(low) * (abs(low) // 7)
    check(q, (b.view("i1").astype("i8") * b[::-1] + quotient - np.fmod(high, -3)).astype("i4"))


# A factor and a curve of the module, which change between calls.
SCALE, CURVE = 2.0, [0.0, 1.0]


@tilelang.jit(target="cpu")
def adjust(X, block: int = 16):
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=32) as b:
        for i in T.Parallel(block):
            Y[b * block + i] = X[b * block + i] * SCALE + CURVE[1]
    return Y


def test_what_a_kernel_reads_of_its_module_may_change(monkeypatch):
    for n in (5, 33, 1):
        x = np.arange(n, dtype="f4")
        monkeypatch.setitem(globals(), "SCALE", 2.0 + n)
        CURVE[1] = n / 4
        check(adjust(x), x * (2.0 + n) + n / 4)


# A decision by an element of a tile that a later loop writes by way of a variable.
@everywhere
def test_a_variable_begins_as_an_element(target):
    @T.prim_func
    def main(c: T.int32, Y: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            v = T.alloc_fragment((4,), "int32")
            T.fill(v, 2)
            x = T.alloc_var("int32", v[0])
            if x > c:
                T.fill(v, 7)
            for i in T.Parallel(4):
                w = T.alloc_var("int32", i)
                v[i] += w
            T.copy(v, Y)

    for c, first in ((1, 7), (5, 2)):
        y = blank(4, "i4")
        run(main, target, c, y)
        check(y, first + np.arange(4))


# The numbers of a histogram are only read: their array may be read-only, and may be passed twice.
@everywhere
def test_the_index_of_an_atomic_sum_is_read(target):
    @T.prim_func
    def main(X: T.Tensor((64,), "int32"), W: T.Tensor((64,), "int32"), H: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                if W[i] > 2:
                    T.atomic_add(H[X[i]], 1)

    x, h = np.arange(64, dtype="i4") % 8, np.zeros(8, "i4")
    x.flags.writeable = False
    run(main, target, x, x, h)
    check(h, np.bincount(x[x > 2], minlength=8))
    with pytest.raises(ValueError, match="pass X.astype"):
        run(main, target, x.astype("i8"), x, h)


# Columns are summed into a tile of a wider type.
@every_target
@pytest.mark.parametrize("narrow, wide", [("float16", "float32"), ("int8", "int32"), ("int32", "int64")])
def test_a_scan_into_a_wider_type(target, narrow, wide):
    for shape, dim in (((4, 9), 0), ((9, 4), 1)):

        @T.prim_func
        def main(X: T.Tensor(shape, narrow), Y: T.Tensor(shape, wide)):  # noqa: B023
            with T.Kernel(1, threads=64):
                a, b = T.alloc_shared(shape, narrow), T.alloc_shared(shape, wide)  # noqa: B023
                T.copy(X, a)
                T.cumsum(a, b, dim=dim)  # noqa: B023
                T.copy(b, Y)

        x, y = np.arange(36).reshape(shape).astype(narrow), blank(shape, wide)
        run(main, target, x, y)
        check(y, np.cumsum(x.astype(wide), dim))


# A mask says which rows have an entry in the table; the others hold numbers far beyond it.
@every_target
def test_a_masked_look_up_has_a_name(target):
    @T.prim_func
    def main(
        X: T.Tensor((8, 32), "int32"),
        K: T.Tensor((8, 32), "int32"),
        D: T.Tensor((8,), "int32"),
        Y: T.Tensor((8, 32), "int32"),
    ):
        with T.Kernel(1, threads=32):
            table = T.alloc_shared((4,), "int32")
            T.copy(X[0, 0:4], table)
            for i, j in T.Parallel(8, 32):
                if K[i, j] != 0:
                    a = X[i, j] + table[D[i]]
                    Y[i, j] = a

    x = np.arange(256, dtype="i4").reshape(8, 32)
    d = np.array([0, 99, 1, 99, 2, 3, 99, 0], "i4")
    k, y = np.repeat(d[:, None] < 4, 32, 1).astype("i4"), np.zeros((8, 32), "i4")
    run(main, target, x, k, d, y)
    check(y, np.where(k, x + x[0, np.minimum(d, 3)][:, None], 0))


# Five rows on threads enough for eight: what a condition guards is not read beyond the last row.
@every_target
def test_a_value_of_each_row_under_a_condition(target):
    @T.prim_func
    def main(X: T.Tensor((5, 32), "int32"), Y: T.Tensor((5, 32), "int32")):
        with T.Kernel(1, threads=64):
            m, o = T.alloc_shared((5, 32), "int32"), T.alloc_shared((5, 32), "int32")
            v = T.alloc_fragment((5,), "int32")
            T.copy(X, m)
            T.clear(o)
            T.fill(v, 3)
            for i, j in T.Parallel(5, 32):
                if m[4 - i, j] > 2:
                    a = m[i, j] - v[i]
                    o[i, j] = a
            T.copy(o, Y)

    x, y = np.random.default_rng(3).integers(-9, 9, (5, 32)).astype("i4"), blank((5, 32), "i4")
    run(main, target, x, y)
    check(y, np.where(x[::-1] > 2, x - 3, 0))
