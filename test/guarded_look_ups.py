"""Look-ups in a tile by one number for a row.

The number lies far outside where a condition of each element does not hold.

    python test/guarded_look_ups.py    # on the CPU, which an access outside ends
"""

import numpy as np
import tilelang
import tilelang.language as T

Numbers, Rows = T.Tensor((8, 32), "int32"), T.Tensor((8,), "int32")
FAR = 10**9


@T.prim_func
def named(X: Numbers, K: Numbers, D: Rows, Y: Numbers):
    with T.Kernel(1, threads=32):
        table = T.alloc_shared((4,), "int32")
        T.copy(X[0, 0:4], table)
        for i, j in T.Parallel(8, 32):
            if K[i, j] != 0:
                a = X[i, j] + table[D[i]]
                b = T.if_then_else(a % 2 == 0, a, table[D[i]])
                Y[i, j] = b


@T.prim_func
def asked(X: Numbers, K: Numbers, D: Rows, Y: Numbers):
    with T.Kernel(1, threads=32):
        table = T.alloc_shared((4,), "int32")
        T.copy(X[0, 0:4], table)
        for i, j in T.Parallel(8, 32):
            if K[i, j] != 0 and X[i, j] > table[D[i]]:
                Y[i, j] = table[D[i]]


@T.prim_func
def row(X: Numbers, K: Numbers, D: Rows, Y: Numbers):
    with T.Kernel(1, threads=32):
        table, rows = T.alloc_shared((4,), "int32"), T.alloc_shared((4, 32), "int32")
        T.copy(X[0, 0:4], table)
        T.copy(X[0:4, 0:32], rows)
        for i, j in T.Parallel(8, 32):
            if K[i, j] != 0:
                Y[i, j] = rows[table[D[i]] % 4, j]


@T.prim_func
def place(X: Numbers, K: Numbers, D: Rows, Y: Numbers):
    with T.Kernel(1, threads=32):
        table, out = T.alloc_shared((4,), "int32"), T.alloc_shared((8, 32), "int32")
        T.copy(X[0, 0:4], table)
        T.clear(out)
        for i, j in T.Parallel(8, 32):
            if K[i, j] != 0:
                out[i, (j + table[D[i]]) % 32] = X[i, j]
        T.copy(out, Y)


@T.prim_func
def shifted(X: Numbers, K: Numbers, D: Rows, Y: Numbers):
    with T.Kernel(1, threads=32):
        for i, j in T.Parallel(8, 32):
            if K[i, j] != 0:
                a = X[i, j] + (1 << D[i])
                Y[i, j] = a


def expected(x, k, d):
    """What each of FORMS computes."""
    table, number = x[0, :4], np.minimum(d, 3)
    found = table[number][:, None]
    a = x + found
    turned = np.zeros_like(x)
    i, j = np.nonzero(k)
    turned[i, (j + found[i, 0]) % 32] = x[i, j]
    return [
        np.where(k, np.where(a % 2 == 0, a, found), 0),
        np.where((k != 0) & (x > found), found, 0),
        np.where(k, x[table[number] % 4], 0),
        turned,
        np.where(k, x + (1 << number)[:, None], 0),
    ]


FORMS = [named, asked, row, place, shifted]


def check(target):
    x, d = np.arange(256, dtype="i4").reshape(8, 32), np.array([0, FAR, 1, FAR, 2, 3, FAR, FAR], "i4")
    k = ((d < 4)[:, None] & (np.arange(32) % 3 != 1)).astype("i4")
    for form, right in zip(FORMS, expected(x, k, d), strict=True):
        y = np.zeros_like(x)
        tilelang.compile(form, target=target)(x, k, d, y)
        assert np.array_equal(y, right), (form, y)
    print("no access outside")


if __name__ == "__main__":
    check("cpu")
