"""The mutated kernels that are made of tile operators: of each what a Family has beside its name."""

from __future__ import annotations

import numpy as np
import tilelang.language as T

TILE = 32
TRIPS = (0, 1, 2, 3, 5)  # of the inner loop: none, one, two, one more than a pipeline of two has stages, more


def nan(*shape, dtype=np.float32):
    """An output before the run."""
    return np.full(shape, np.nan if np.dtype(dtype).kind == "f" else 99, dtype)


def gemm(dtype, trans_A=False, trans_B=False):
    def make(threads):
        M, N, K = T.dynamic("M"), T.dynamic("N"), T.dynamic("K")

        @T.prim_func
        def main(
            A: T.Tensor((K, M) if trans_A else (M, K), dtype),
            B: T.Tensor((N, K) if trans_B else (K, N), dtype),
            C: T.Tensor((M, N), "float32"),
        ):
            with T.Kernel(T.ceildiv(N, TILE), T.ceildiv(M, TILE), threads=threads) as (bx, by):
                A_shared = T.alloc_shared((TILE, TILE), dtype)
                B_shared = T.alloc_shared((TILE, TILE), dtype)
                C_local = T.alloc_fragment((TILE, TILE), "float32")
                T.clear(C_local)
                for k in T.serial(T.ceildiv(K, TILE)):
                    if trans_A:
                        T.copy(A[k * TILE, by * TILE], A_shared)
                    else:
                        T.copy(A[by * TILE, k * TILE], A_shared)
                    if trans_B:
                        T.copy(B[bx * TILE, k * TILE], B_shared)
                    else:
                        T.copy(B[k * TILE, bx * TILE], B_shared)
                    T.gemm(A_shared, B_shared, C_local, transpose_A=trans_A, transpose_B=trans_B)
                T.copy(C_local, C[by * TILE, bx * TILE])

        return main

    def inputs(rng, size):
        m, n, k = size
        a = rng.standard_normal((k, m) if trans_A else (m, k)).astype(dtype)
        b = rng.standard_normal((n, k) if trans_B else (k, n)).astype(dtype)
        return [a, b, nan(m, n)]

    def exact(a, b, c):
        a, b = a.astype(np.float64), b.astype(np.float64)
        return {2: (a.T if trans_A else a) @ (b.T if trans_B else b)}

    sizes = tuple((40, 40, TILE * t) for t in TRIPS) + ((32, 64, 64), (24, 72, 40), (35, 41, 37))
    return make, sizes, inputs, exact


def two_gemms():
    def make(threads):
        M, K = T.dynamic("M"), T.dynamic("K")

        @T.prim_func
        def main(
            A: T.Tensor((M, 32), "float16"), B: T.Tensor((K, 32), "float16"), C: T.Tensor((M, 32), "float32")
        ):
            with T.Kernel(T.ceildiv(M, TILE), threads=threads) as by:
                A_shared = T.alloc_shared((TILE, 32), "float16")
                B_shared = T.alloc_shared((TILE, 32), "float16")
                S = T.alloc_fragment((TILE, TILE), "float32")
                P_shared = T.alloc_shared((TILE, TILE), "float16")
                C_local = T.alloc_fragment((TILE, 32), "float32")
                T.clear(C_local)
                T.copy(A[by * TILE, 0], A_shared)
                for k in T.serial(T.ceildiv(K, TILE)):
                    T.copy(B[k * TILE, 0], B_shared)
                    T.gemm(A_shared, B_shared, S, transpose_B=True, clear_accum=True)
                    T.copy(S, P_shared)
                    T.gemm(P_shared, B_shared, C_local)
                T.copy(C_local, C[by * TILE, 0])

        return main

    def inputs(rng, size):
        m, k = size
        return [
            rng.standard_normal((m, 32)).astype(np.float16),
            rng.standard_normal((k, 32)).astype(np.float16),
            nan(m, 32),
        ]

    def exact(a, b, c):
        s = (a.astype(np.float64) @ b.astype(np.float64).T).astype(np.float16).astype(np.float64)
        return {2: s @ b.astype(np.float64)}

    return make, tuple((40, TILE * t) for t in TRIPS) + ((32, 64), (35, 41)), inputs, exact


def stages():
    """A GEMM whose tiles have two stages, filled one step ahead by hand."""

    def make(threads):
        M, K = T.dynamic("M"), T.dynamic("K")

        @T.prim_func
        def main(
            A: T.Tensor((M, K), "float16"), B: T.Tensor((K, 32), "float16"), C: T.Tensor((M, 32), "float32")
        ):
            with T.Kernel(T.ceildiv(M, TILE), threads=threads) as by:
                A_shared = T.alloc_shared((2, TILE, TILE), "float16")
                B_shared = T.alloc_shared((2, TILE, 32), "float16")
                C_local = T.alloc_fragment((TILE, 32), "float32")
                T.clear(C_local)
                T.copy(A[by * TILE, 0], A_shared[0, :, :])
                T.copy(B[0, 0], B_shared[0, :, :])
                for k in T.serial(T.ceildiv(K, TILE)):
                    if (k + 1) * TILE < K:
                        T.copy(A[by * TILE, (k + 1) * TILE], A_shared[(k + 1) % 2, :, :])
                        T.copy(B[(k + 1) * TILE, 0], B_shared[(k + 1) % 2, :, :])
                    T.gemm(A_shared[k % 2, :, :], B_shared[k % 2, :, :], C_local)
                T.copy(C_local, C[by * TILE, 0])

        return main

    def inputs(rng, size):
        m, k = size
        return [
            rng.standard_normal((m, k)).astype(np.float16),
            rng.standard_normal((k, 32)).astype(np.float16),
            nan(m, 32),
        ]

    def exact(a, b, c):
        return {2: a.astype(np.float64) @ b.astype(np.float64)}

    return make, tuple((40, TILE * t) for t in TRIPS) + ((32, 64), (35, 41)), inputs, exact


def reduce(dim, kind):
    def make(threads):
        M, N = T.dynamic("M"), T.dynamic("N")
        rows = dim == 1

        @T.prim_func
        def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M if rows else N,), "float32")):
            with T.Kernel(T.ceildiv(M if rows else N, TILE), threads=threads) as b:
                x = T.alloc_fragment((TILE, 48) if rows else (48, TILE), "float32")
                part = T.alloc_fragment((TILE,), "float32")
                total = T.alloc_fragment((TILE,), "float32")
                T.fill(total, -1e30 if kind == "max" else 0)
                for k in T.serial(T.ceildiv(N if rows else M, 48)):
                    for i, j in T.Parallel(*((TILE, 48) if rows else (48, TILE))):
                        row = b * TILE + i if rows else k * 48 + i
                        col = k * 48 + j if rows else b * TILE + j
                        x[i, j] = T.if_then_else(
                            (row < M) & (col < N), X[row, col], -1e30 if kind == "max" else 0
                        )
                    if kind == "max":
                        T.reduce_max(x, part, dim=dim)
                    else:
                        T.reduce_sum(x, part, dim=dim)
                    for i in T.Parallel(TILE):
                        total[i] = T.max(total[i], part[i]) if kind == "max" else total[i] + part[i]
                T.copy(total, Y[b * TILE])

        return main

    def inputs(rng, size):
        m, n = size
        return [rng.standard_normal((m, n)).astype(np.float32), nan(m if dim == 1 else n)]

    def exact(x, y):
        x = x.astype(np.float64)
        return {1: (x.max(dim, initial=-1e30) if kind == "max" else x.sum(dim))}

    long = tuple((140, 48 * t) for t in TRIPS) + ((160, 96), (172, 52))
    return make, long if dim == 1 else tuple((n, m) for m, n in long), inputs, exact


def norm():
    def make(threads):
        M = T.dynamic("M")

        @T.prim_func
        def main(X: T.Tensor((M, 72), "float32"), Y: T.Tensor((M, 72), "float32")):
            with T.Kernel(T.ceildiv(M, 8), threads=threads) as b:
                S = T.alloc_shared((8, 72), "float32")
                x = T.alloc_fragment((8, 72), "float32")
                square = T.alloc_fragment((8, 72), "float32")
                total = T.alloc_fragment((8,), "float32")
                T.copy(X[b * 8, 0], S)
                T.copy(S, x)
                for i, j in T.Parallel(8, 72):
                    square[i, j] = x[i, j] * x[i, j]
                T.reduce_sum(square, total, dim=1)
                for i, j in T.Parallel(8, 72):
                    x[i, j] = x[i, j] * T.rsqrt(total[i] / 72 + 1e-5)
                T.copy(x, Y[b * 8, 0])

        return main

    def inputs(rng, size):
        return [rng.standard_normal((size, 72)).astype(np.float32), nan(size, 72)]

    def exact(x, y):
        x = x.astype(np.float64)
        return {1: x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5)}

    return make, (0, 1, 7, 8, 16, 21), inputs, exact


def softmax():
    def make(threads):
        M, N = T.dynamic("M"), T.dynamic("N")

        @T.prim_func
        def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
            with T.Kernel(T.ceildiv(M, 4), threads=threads) as b:
                S = T.alloc_shared((4, 96), "float32")
                x = T.alloc_fragment((4, 96), "float32")
                top = T.alloc_fragment((4,), "float32")
                total = T.alloc_fragment((4,), "float32")
                for i, j in T.Parallel(4, 96):
                    S[i, j] = T.if_then_else((b * 4 + i < M) & (j < N), X[b * 4 + i, j], -1e30)
                T.copy(S, x)
                T.reduce_max(x, top, dim=1)
                for i, j in T.Parallel(4, 96):
                    x[i, j] = T.exp(x[i, j] - top[i])
                T.reduce_sum(x, total, dim=1)
                for i, j in T.Parallel(4, 96):
                    S[i, j] = x[i, j] / total[i]
                for i, j in T.Parallel(4, 96):
                    if (b * 4 + i < M) & (j < N):
                        Y[b * 4 + i, j] = S[i, j]

        return main

    def inputs(rng, size):
        return [rng.standard_normal(size).astype(np.float32), nan(*size)]

    def exact(x, y):
        e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True, initial=-1e30))
        return {1: e / e.sum(1, keepdims=True)}

    return make, ((0, 96), (4, 96), (7, 92), (8, 40), (13, 96), (9, 33)), inputs, exact


def scan():
    def make(threads):
        M = T.dynamic("M")

        @T.prim_func
        def main(X: T.Tensor((M, 40), "float32"), Y: T.Tensor((M, 40), "float32")):
            with T.Kernel(T.ceildiv(M, 8), threads=threads) as b:
                S = T.alloc_shared((8, 40), "float32")
                T.copy(X[b * 8, 0], S)
                T.cumsum(S, dim=1)
                T.copy(S, Y[b * 8, 0])

        return main

    def inputs(rng, size):
        return [rng.standard_normal((size, 40)).astype(np.float32), nan(size, 40)]

    return make, (0, 1, 8, 13, 24), inputs, lambda x, y: {1: x.astype(np.float64).cumsum(1)}


def transpose():
    def make(threads):
        M, N = T.dynamic("M"), T.dynamic("N")

        @T.prim_func
        def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((N, M), "float32")):
            with T.Kernel(T.ceildiv(N, TILE), T.ceildiv(M, TILE), threads=threads) as (bx, by):
                S = T.alloc_shared((TILE, TILE), "float32")
                R = T.alloc_shared((TILE, TILE), "float32")
                T.copy(X[by * TILE, bx * TILE], S)
                T.transpose(S, R)
                T.copy(R, Y[bx * TILE, by * TILE])

        return main

    def inputs(rng, size):
        return [rng.standard_normal(size).astype(np.float32), nan(*size[::-1])]

    return make, ((32, 32), (64, 40), (35, 41), (1, 70)), inputs, lambda x, y: {1: x.T}


def turn():
    """A tile turned by half a circle: each element goes to another thread."""

    def make(threads):
        M, N = T.dynamic("M"), T.dynamic("N")

        @T.prim_func
        def main(X: T.Tensor((M, N), "float16"), Y: T.Tensor((M, N), "float16")):
            with T.Kernel(T.ceildiv(N, TILE), T.ceildiv(M, 8), threads=threads) as (bx, by):
                S = T.alloc_shared((8, TILE), "float16")
                R = T.alloc_shared((8, TILE), "float16")
                T.copy(X[by * 8, bx * TILE], S)
                for i, j in T.Parallel(8, TILE):
                    R[i, j] = S[7 - i, TILE - 1 - j]
                for i, j in T.Parallel(8, TILE):
                    S[i, j] = R[i, TILE - 1 - j]
                T.copy(S, Y[by * 8, bx * TILE])

        return main

    def inputs(rng, size):
        return [rng.standard_normal(size).astype(np.float16), nan(*size, dtype=np.float16)]

    def exact(x, y):
        m, n = x.shape
        wide = np.zeros((-(-m // 8) * 8, n))
        wide[:m] = x
        return {1: wide.reshape(-1, 8, n)[:, ::-1].reshape(-1, n)[:m]}

    return make, ((8, 32), (16, 64), (13, 40), (1, 33), (24, 104)), inputs, exact


def matvec():
    def make(threads):
        M, N = T.dynamic("M"), T.dynamic("N")

        @T.prim_func
        def main(A: T.Tensor((M, N), "float32"), X: T.Tensor((N,), "float32"), Y: T.Tensor((M,), "float32")):
            with T.Kernel(T.ceildiv(M, 8), threads=threads) as b:
                A_shared = T.alloc_shared((8, 64), "float32")
                X_shared = T.alloc_shared((64,), "float32")
                product = T.alloc_fragment((8, 64), "float32")
                total = T.alloc_fragment((8,), "float32")
                T.clear(total)
                for k in T.serial(T.ceildiv(N, 64)):
                    T.copy(A[b * 8, k * 64], A_shared)
                    T.copy(X[k * 64], X_shared)
                    for i, j in T.Parallel(8, 64):
                        product[i, j] = A_shared[i, j] * X_shared[j]
                    T.reduce_sum(product, total, dim=1, clear=False)
                T.copy(total, Y[b * 8])

        return main

    def inputs(rng, size):
        m, n = size
        return [
            rng.standard_normal((m, n)).astype(np.float32),
            rng.standard_normal(n).astype(np.float32),
            nan(m),
        ]

    def exact(a, x, y):
        return {2: a.astype(np.float64) @ x.astype(np.float64)}

    return make, tuple((136, 64 * t) for t in TRIPS) + ((144, 128), (141, 100), (136, 204)), inputs, exact
