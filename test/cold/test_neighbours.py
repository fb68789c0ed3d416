"""Grids, graphs, clusters, nearest neighbours, inverses of small matrices."""

import numpy as np
import tilelang.language as T
from everywhere import blank, check, everywhere, extremes, run


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
