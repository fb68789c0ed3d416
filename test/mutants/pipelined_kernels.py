"""The mutated kernels whose loops the compiler pipelines: of each what a Family has beside its name."""

from __future__ import annotations

import math

import numpy as np
import tile_kernels
import tilelang.language as T
from tile_kernels import TILE, nan

DIM = 32


def gemm(stages):
    def make(threads):
        M, N, K = T.dynamic("M"), T.dynamic("N"), T.dynamic("K")

        @T.prim_func
        def main(
            A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")
        ):
            with T.Kernel(T.ceildiv(N, TILE), T.ceildiv(M, TILE), threads=threads) as (bx, by):
                A_shared = T.alloc_shared((TILE, TILE), "float16")
                B_shared = T.alloc_shared((TILE, TILE), "float16")
                C_local = T.alloc_fragment((TILE, TILE), "float32")
                T.clear(C_local)
                for k in T.Pipelined(T.ceildiv(K, TILE), num_stages=stages):
                    T.copy(A[by * TILE, k * TILE], A_shared)
                    T.copy(B[k * TILE, bx * TILE], B_shared)
                    T.gemm(A_shared, B_shared, C_local)
                T.copy(C_local, C[by * TILE, bx * TILE])

        return main

    _, sizes, inputs, exact = tile_kernels.gemm("float16")
    return make, sizes, inputs, exact


def computed(stages):
    """B is bytes that become f16 in a fragment, scaled: an operand that is computed beside the products."""

    def make(threads):
        M, N, K, G = T.dynamic("M"), T.dynamic("N"), T.dynamic("K"), T.dynamic("G")

        @T.prim_func
        def main(
            A: T.Tensor((M, K), "float16"),
            B: T.Tensor((K, N), "uint8"),
            S: T.Tensor((G, N), "float16"),
            C: T.Tensor((M, N), "float32"),
        ):
            with T.Kernel(T.ceildiv(N, TILE), T.ceildiv(M, TILE), threads=threads) as (bx, by):
                A_shared = T.alloc_shared((TILE, TILE), "float16")
                B_shared = T.alloc_shared((TILE, TILE), "uint8")
                S_shared = T.alloc_shared((1, TILE), "float16")
                B_local = T.alloc_fragment((TILE, TILE), "float16")
                C_local = T.alloc_fragment((TILE, TILE), "float32")
                T.clear(C_local)
                for k in T.Pipelined(T.ceildiv(K, TILE), num_stages=stages):
                    T.copy(A[by * TILE, k * TILE], A_shared)
                    T.copy(B[k * TILE, bx * TILE], B_shared)
                    T.copy(S[k, bx * TILE], S_shared)
                    for i, j in T.Parallel(TILE, TILE):
                        B_local[i, j] = T.float16(B_shared[i, j]) * S_shared[0, j]
                    T.gemm(A_shared, B_local, C_local)
                T.copy(C_local, C[by * TILE, bx * TILE])

        return main

    def inputs(rng, size):
        m, n, k = size
        a = rng.integers(-4, 5, (m, k)).astype(np.float16)
        b, s = (
            rng.integers(0, 9, (k, n), dtype=np.uint8),
            rng.integers(1, 4, (-(-k // TILE), n)).astype(np.float16),
        )
        return [a, b, s, nan(m, n)]

    def exact(a, b, s, c):
        scales = np.repeat(s.astype(np.float64), TILE, axis=0)[: len(b)]
        return {3: a.astype(np.float64) @ (b * scales)}

    # Rows of bytes are copied 16 at a time.
    sizes = tuple((48, 48, TILE * t) for t in tile_kernels.TRIPS) + ((32, 64, 64), (24, 80, 48))
    return make, sizes, inputs, exact


def attention(stages):
    """The statements of examples/flash_attention.py, for one head."""
    scale = math.log2(math.e) / math.sqrt(DIM)

    def make(threads):
        M, N = T.dynamic("M"), T.dynamic("N")

        @T.prim_func
        def main(
            Q: T.Tensor((M, DIM), "float16"),
            K: T.Tensor((N, DIM), "float16"),
            V: T.Tensor((N, DIM), "float16"),
            O: T.Tensor((M, DIM), "float32"),
        ):
            with T.Kernel(T.ceildiv(M, TILE), threads=threads) as bx:
                Q_shared = T.alloc_shared((TILE, DIM), "float16")
                K_shared = T.alloc_shared((TILE, DIM), "float16")
                V_shared = T.alloc_shared((TILE, DIM), "float16")
                acc_s = T.alloc_fragment((TILE, TILE), "float32")
                acc_s_cast = T.alloc_fragment((TILE, TILE), "float16")
                acc_o = T.alloc_fragment((TILE, DIM), "float32")
                scores_max = T.alloc_fragment((TILE,), "float32")
                scores_max_prev = T.alloc_fragment((TILE,), "float32")
                scores_scale = T.alloc_fragment((TILE,), "float32")
                scores_sum = T.alloc_fragment((TILE,), "float32")
                logsum = T.alloc_fragment((TILE,), "float32")
                T.copy(Q[bx * TILE, 0], Q_shared)
                T.clear(acc_o)
                T.clear(logsum)
                T.fill(scores_max, -T.infinity("float32"))
                for k in T.Pipelined(T.ceildiv(N, TILE), num_stages=stages):
                    T.copy(K[k * TILE, 0], K_shared)
                    T.copy(V[k * TILE, 0], V_shared)
                    for i, j in T.Parallel(TILE, TILE):
                        acc_s[i, j] = T.if_then_else(k * TILE + j < N, 0, -T.infinity("float32"))
                    T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                    T.copy(scores_max, scores_max_prev)
                    T.reduce_max(acc_s, scores_max, dim=1, clear=False)
                    for i in T.Parallel(TILE):
                        scores_scale[i] = T.exp2((scores_max_prev[i] - scores_max[i]) * scale)
                    for i, j in T.Parallel(TILE, TILE):
                        acc_s[i, j] = T.exp2((acc_s[i, j] - scores_max[i]) * scale)
                    T.reduce_sum(acc_s, scores_sum, dim=1)
                    for i in T.Parallel(TILE):
                        logsum[i] = logsum[i] * scores_scale[i] + scores_sum[i]
                    for i, j in T.Parallel(TILE, DIM):
                        acc_o[i, j] *= scores_scale[i]
                    T.copy(acc_s, acc_s_cast)
                    T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(TILE, DIM):
                    acc_o[i, j] /= logsum[i]
                T.copy(acc_o, O[bx * TILE, 0])

        return main

    def inputs(rng, size):
        m, n = size
        q, k, v = (rng.standard_normal((rows, DIM)).astype(np.float16) for rows in (m, n, n))
        return [q, k, v, nan(m, DIM)]

    def exact(q, k, v, o):
        q, k, v = (x.astype(np.float64) for x in (q, k, v))
        scores = q @ k.T / math.sqrt(DIM)
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        return {3: p @ v / p.sum(axis=1, keepdims=True)}

    sizes = tuple((40, TILE * t) for t in (1, 2, 3, 5)) + ((32, 70), (35, 37))
    return make, sizes, inputs, exact


def cast(stages):
    """A GEMM of whole numbers in 8 bits, which become halves on their way; the rows of B are looked up."""

    def make(threads):
        M, K = T.dynamic("M"), T.dynamic("K")

        @T.prim_func
        def main(
            A: T.Tensor((M, K), "int8"),
            B: T.Tensor((64, 32), "float16"),
            rows: T.Tensor((K,), "int32"),
            C: T.Tensor((M, 32), "float32"),
        ):
            with T.Kernel(T.ceildiv(M, TILE), threads=threads) as by:
                A_shared = T.alloc_shared((TILE, TILE), "float16")
                B_shared = T.alloc_shared((TILE, 32), "float16")
                C_local = T.alloc_fragment((TILE, 32), "float32")
                T.clear(C_local)
                for k in T.Pipelined(T.ceildiv(K, TILE), num_stages=stages):
                    T.copy(A[by * TILE, k * TILE], A_shared)
                    for i, j in T.Parallel(TILE, 32):
                        B_shared[i, j] = T.if_then_else(k * TILE + i < K, B[rows[k * TILE + i], j], 0)
                    T.gemm(A_shared, B_shared, C_local)
                T.copy(C_local, C[by * TILE, 0])

        return main

    def inputs(rng, size):
        m, k = size
        return [
            rng.integers(-9, 9, (m, k)).astype(np.int8),
            rng.standard_normal((64, 32)).astype(np.float16),
            rng.integers(0, 64, k).astype(np.int32),
            nan(m, 32),
        ]

    def exact(a, b, rows, c):
        return {3: a.astype(np.float64) @ b.astype(np.float64)[rows]}

    sizes = tuple((40, TILE * t) for t in (0, 1, 2, 3, 5)) + ((24, 48), (35, 37))
    return make, sizes, inputs, exact


def phases(stages):
    """C = A @ B + D @ E by two loops, one behind the other: the tiles of the second lie where those of the
    first were, whose copies must have landed, and been read, before."""

    def make(threads):
        M, K, L = T.dynamic("M"), T.dynamic("K"), T.dynamic("L")

        @T.prim_func
        def main(
            A: T.Tensor((M, K), "float16"),
            B: T.Tensor((K, 32), "float16"),
            D: T.Tensor((M, L), "float16"),
            E: T.Tensor((L, 32), "float16"),
            C: T.Tensor((M, 32), "float32"),
        ):
            with T.Kernel(T.ceildiv(M, TILE), threads=threads) as by:
                A_shared = T.alloc_shared((TILE, TILE), "float16")
                B_shared = T.alloc_shared((TILE, 32), "float16")
                D_shared = T.alloc_shared((TILE, TILE), "float16")
                E_shared = T.alloc_shared((TILE, 32), "float16")
                C_local = T.alloc_fragment((TILE, 32), "float32")
                T.clear(C_local)
                for k in T.Pipelined(T.ceildiv(K, TILE), num_stages=stages):
                    T.copy(A[by * TILE, k * TILE], A_shared)
                    T.copy(B[k * TILE, 0], B_shared)
                    T.gemm(A_shared, B_shared, C_local)
                for k in T.Pipelined(T.ceildiv(L, TILE), num_stages=stages):
                    T.copy(D[by * TILE, k * TILE], D_shared)
                    T.copy(E[k * TILE, 0], E_shared)
                    T.gemm(D_shared, E_shared, C_local)
                T.copy(C_local, C[by * TILE, 0])

        return main

    def inputs(rng, size):
        m, k, length = size
        shapes = (m, k), (k, 32), (m, length), (length, 32)
        return [*(rng.standard_normal(shape).astype(np.float16) for shape in shapes), nan(m, 32)]

    def exact(a, b, d, e, c):
        a, b, d, e = (x.astype(np.float64) for x in (a, b, d, e))
        return {4: a @ b + d @ e}

    trips = (0, 1, 2, 5)
    return make, tuple((40, TILE * first, TILE * then) for first in trips for then in trips), inputs, exact
