"""Small kernels in the styles that the published language is usually written in: they run as they are."""

import itertools
import math

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import close, random

# ── element by element ────────────────────────────────────────────────────────────────────────────────


def test_add_with_a_configuration(target):
    @tilelang.jit(out_idx=[-1], target=target)
    def elementwise_add(M, N, block_M, block_N, in_dtype, out_dtype, threads):
        @T.prim_func
        def main(
            A: T.Tensor((M, N), in_dtype), B: T.Tensor((M, N), in_dtype), C: T.Tensor((M, N), out_dtype)
        ):
            with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
                A_shared = T.alloc_shared((block_M, block_N), in_dtype)
                B_shared = T.alloc_shared((block_M, block_N), in_dtype)
                C_local = T.alloc_fragment((block_M, block_N), out_dtype)
                C_shared = T.alloc_shared((block_M, block_N), out_dtype)

                T.copy(A[by * block_M, bx * block_N], A_shared)
                T.copy(B[by * block_M, bx * block_N], B_shared)
                for local_y, local_x in T.Parallel(block_M, block_N):
                    C_local[local_y, local_x] = A_shared[local_y, local_x] + B_shared[local_y, local_x]
                T.copy(C_local, C_shared)
                T.copy(C_shared, C[by * block_M, bx * block_N])

        return main

    config = {"block_M": 16, "block_N": 32, "threads": 64}
    kernel = elementwise_add(50, 70, **config, in_dtype="float32", out_dtype="float32")
    a, b = random(50, 70), random(50, 70, seed=1)
    close(kernel(a, b), a + b)


def test_activation_by_a_python_function(target):
    def gelu(x):
        return 0.5 * x * (1.0 + T.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))

    def relu(x):
        return T.max(x, 0)

    functions = {"gelu": gelu, "relu": relu}

    @tilelang.jit(target=target)
    def activate(X, name: str = "relu", block: int = 64):
        N = T.const("N")
        X: T.Tensor[[N], T.float32]
        Y = T.empty([N], T.float32)
        f = functions[name]
        with T.Kernel(T.ceildiv(N, block), threads=64) as bx:
            for i in T.Parallel(block):
                Y[bx * block + i] = f(X[bx * block + i])
        return Y

    x = random(100)
    close(activate(x), np.maximum(x, 0))
    wide = x.astype(float)
    wanted = 0.5 * wide * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))
    close(activate(x, name="gelu"), wanted)


# ── matrices ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("trans_a,trans_b", list(itertools.product([False, True], repeat=2)))
def test_gemm_with_transposes(target, trans_a, trans_b):
    def matmul(
        M,
        N,
        K,
        block_M,
        block_N,
        block_K,
        trans_A,
        trans_B,
        in_dtype,
        out_dtype,
        accum_dtype,
        num_stages,
        threads,
    ):
        A_shape = (K, M) if trans_A else (M, K)
        B_shape = (N, K) if trans_B else (K, N)
        A_shared_shape = (block_K, block_M) if trans_A else (block_M, block_K)
        B_shared_shape = (block_N, block_K) if trans_B else (block_K, block_N)

        @T.prim_func
        def main(
            A: T.Tensor(A_shape, in_dtype),
            B: T.Tensor(B_shape, in_dtype),
            C: T.Tensor((M, N), out_dtype),
        ):
            with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
                A_shared = T.alloc_shared(A_shared_shape, in_dtype)
                B_shared = T.alloc_shared(B_shared_shape, in_dtype)
                C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
                T.clear(C_local)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                    if trans_A:
                        T.copy(A[k * block_K, by * block_M], A_shared)
                    else:
                        T.copy(A[by * block_M, k * block_K], A_shared)
                    if trans_B:
                        T.copy(B[bx * block_N, k * block_K], B_shared)
                    else:
                        T.copy(B[k * block_K, bx * block_N], B_shared)
                    T.gemm(A_shared, B_shared, C_local, trans_A, trans_B)
                T.copy(C_local, C[by * block_M, bx * block_N])

        return main

    program = matmul(40, 56, 72, 32, 32, 32, trans_a, trans_b, T.float16, T.float32, T.float32, 2, 128)
    kernel = tilelang.compile(program, out_idx=[2], target=target)
    a, b = random(40, 72, dtype="float16"), random(72, 56, dtype="float16", seed=1)
    c = kernel(np.ascontiguousarray(a.T) if trans_a else a, np.ascontiguousarray(b.T) if trans_b else b)
    close(c, a.astype(float) @ b.astype(float))


def test_gemm_with_macros_and_a_list_of_tiles(target):
    @tilelang.jit(target=target)
    def matmul(A, B, blocks: tuple = (32, 32, 32), stages: int = 2, dtype: T.dtype = T.float16):
        M, N, K = T.const("M, N, K")
        A: T.Tensor[[M, K], dtype]
        B: T.Tensor[[N, K], dtype]
        C = T.empty(M, N, dtype=dtype)
        bM, bN, bK = blocks

        @T.macro
        def load(k, tiles):
            T.copy(A[by * bM : (by + 1) * bM, k * bK : (k + 1) * bK], tiles[0])
            T.copy(B[bx * bN : (bx + 1) * bN, k * bK : (k + 1) * bK], tiles[1])

        with T.Kernel(T.ceildiv(N, bN), T.ceildiv(M, bM), threads=128) as (bx, by):
            tiles = [T.alloc_shared((rows, bK), dtype) for rows in (bM, bN)]
            acc = {"c": T.alloc_fragment((bM, bN), "float")}
            T.use_swizzle(panel_size=10)
            T.fill(acc["c"], 0)
            for ko in T.Pipelined(T.ceildiv(K, bK), num_stages=stages):
                load(ko, tiles)
                T.gemm(*tiles, acc["c"], transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
            T.copy(acc["c"], C[by * bM, bx * bN])
        return C

    a, b = random(64, 96, dtype="float16"), random(96, 96, dtype="float16", seed=1)
    close(matmul(a, b), a.astype(float) @ b.astype(float).T, 1e-3)


def test_gemv_by_threads(target):
    """One row of the result per block, its dot product by a reduction of a fragment."""

    @tilelang.jit(target=target)
    def gemv(A, x, block_K: int = 64):
        N, K = T.const("N, K")
        A: T.Tensor((N, K), T.float32)
        x: T.Tensor((K,), T.float32)
        y = T.empty((N,), T.float32)
        with T.Kernel(N, threads=64) as bn:
            part = T.alloc_fragment((block_K,), T.float32)
            total = T.alloc_fragment((1,), T.float32)
            T.clear(part)
            for ko in T.serial(T.ceildiv(K, block_K)):
                for kk in T.Parallel(block_K):
                    part[kk] += T.if_then_else(
                        ko * block_K + kk < K, A[bn, ko * block_K + kk] * x[ko * block_K + kk], 0.0
                    )
            T.reduce_sum(part, total, dim=0, clear=True)
            y[bn] = total[0]
        return y

    a, x = random(10, 150), random(150, seed=1)
    close(gemv(a, x), a.astype(float) @ x)


# ── rows ──────────────────────────────────────────────────────────────────────────────────────────────


def test_rms_norm(target):
    def rms_norm(M, N, blk_m):
        dtype = "float"

        @T.prim_func
        def main(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype)):
            with T.Kernel(T.ceildiv(M, blk_m), threads=128) as bx:
                A_shared = T.alloc_shared((blk_m, N), dtype)
                A_pow_local = T.alloc_fragment((blk_m, N), dtype)
                A_local = T.alloc_fragment((blk_m, N), dtype)
                A_powsum = T.alloc_fragment((blk_m,), dtype)

                T.copy(A[bx * blk_m : (bx + 1) * blk_m, :], A_shared)
                T.copy(A_shared, A_local)
                for i, j in T.Parallel(blk_m, N):
                    A_pow_local[i, j] = A_local[i, j] * A_local[i, j]
                T.reduce_sum(A_pow_local, A_powsum, dim=1)
                for i in T.Parallel(blk_m):
                    A_powsum[i] = T.rsqrt(A_powsum[i] / N + 1e-12)
                for i, j in T.Parallel(blk_m, N):
                    A_local[i, j] *= A_powsum[i]
                T.copy(A_local, A_shared)
                T.copy(A_shared, B[bx * blk_m : (bx + 1) * blk_m, :])

        return main

    a = random(12, 80)
    b = tilelang.compile(rms_norm(12, 80, 4), out_idx=[-1], target=target)(a)
    wide = a.astype(float)
    close(b, wide / np.sqrt((wide**2).mean(1, keepdims=True)))


def test_online_softmax(target):
    @tilelang.jit(target=target)
    def softmax(X, BN: int = 32):
        M, N = T.const("M, N")
        X: T.Tensor((M, N), T.float32)
        Y = T.empty((M, N), T.float32)
        NN = (N + BN - 1) // BN
        scale = 1.44269504
        with T.Kernel(M, threads=32) as i_m:
            x = T.alloc_fragment([BN], T.float32)
            y = T.alloc_fragment([BN], T.float32)
            lse = T.alloc_fragment([1], T.float32)
            max_x = T.alloc_fragment([1], T.float32)
            exp_x = T.alloc_fragment([BN], T.float32)
            sum_exp_x = T.alloc_fragment([1], T.float32)
            T.fill(lse, -T.infinity(T.float32))
            for i_n in T.Pipelined(0, NN):
                for j in T.Parallel(BN):
                    x[j] = T.if_then_else(i_n * BN + j < N, X[i_m, i_n * BN + j], -T.infinity(T.float32))
                T.reduce_max(x, max_x, dim=0, clear=True)
                for j in T.Parallel(BN):
                    exp_x[j] = T.exp2(x[j] * scale - max_x[0] * scale)
                T.reduce_sum(exp_x, sum_exp_x, dim=0, clear=True)
                lse[0] = max_x[0] * scale + T.log2(T.exp2(lse[0] - max_x[0] * scale) + sum_exp_x[0])
            for i_n in T.Pipelined(0, NN):
                for j in T.Parallel(BN):
                    y[j] = T.exp2(X[i_m, i_n * BN + j] * scale - lse[0])
                T.copy(y, Y[i_m, i_n * BN : (i_n + 1) * BN])
        return Y

    x = random(5, 100)
    e = np.exp(x.astype(float) - x.max(1, keepdims=True))
    close(softmax(x), e / e.sum(1, keepdims=True))


# ── attention ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("is_causal", [False, True])
def test_flash_attention(target, is_causal):
    def get_configs():
        return [dict(block_M=m, block_N=n) for m, n in itertools.product([32], [32])]

    @tilelang.jit(
        out_idx=[3], target=target, pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: False}
    )
    def flashattn(batch, heads, seq_len, dim, is_causal, block_M=32, block_N=32, num_stages=1, threads=64):
        scale = (1.0 / dim) ** 0.5 * 1.44269504  # log2(e)
        shape = [batch, seq_len, heads, dim]
        dtype = T.float16
        accum_dtype = T.float32

        @T.macro
        def MMA0(
            K: T.Tensor(shape, dtype),
            Q_shared: T.SharedBuffer([block_M, dim], dtype),
            K_shared: T.SharedBuffer([block_N, dim], dtype),
            acc_s: T.FragmentBuffer([block_M, block_N], accum_dtype),
            k: T.int32,
            bx: T.int32,
            by: T.int32,
            bz: T.int32,
        ):
            T.copy(K[bz, k * block_N : (k + 1) * block_N, by, :], K_shared)
            if is_causal:
                for i, j in T.Parallel(block_M, block_N):
                    acc_s[i, j] = T.if_then_else(
                        bx * block_M + i >= k * block_N + j, 0, -T.infinity(acc_s.dtype)
                    )
            else:
                T.clear(acc_s)
            T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)

        @T.prim_func
        def main(
            Q: T.Tensor(shape, dtype),
            K: T.Tensor(shape, dtype),
            V: T.Tensor(shape, dtype),
            Output: T.Tensor(shape, dtype),
        ):
            with T.Kernel(T.ceildiv(seq_len, block_M), heads, batch, threads=threads) as (bx, by, bz):
                Q_shared = T.alloc_shared([block_M, dim], dtype)
                K_shared = T.alloc_shared([block_N, dim], dtype)
                V_shared = T.alloc_shared([block_N, dim], dtype)
                acc_s = T.alloc_fragment([block_M, block_N], accum_dtype)
                acc_s_cast = T.alloc_fragment([block_M, block_N], dtype)
                acc_o = T.alloc_fragment([block_M, dim], accum_dtype)
                scores_max = T.alloc_fragment([block_M], accum_dtype)
                scores_max_prev = T.alloc_fragment([block_M], accum_dtype)
                scores_scale = T.alloc_fragment([block_M], accum_dtype)
                scores_sum = T.alloc_fragment([block_M], accum_dtype)
                logsum = T.alloc_fragment([block_M], accum_dtype)

                T.copy(Q[bz, bx * block_M : (bx + 1) * block_M, by, :], Q_shared)
                T.fill(acc_o, 0)
                T.fill(logsum, 0)
                T.fill(scores_max, -T.infinity(accum_dtype))

                loop_range = (
                    T.min(T.ceildiv(seq_len, block_N), T.ceildiv((bx + 1) * block_M, block_N))
                    if is_causal
                    else T.ceildiv(seq_len, block_N)
                )

                for k in T.Pipelined(loop_range, num_stages=num_stages):
                    MMA0(K, Q_shared, K_shared, acc_s, k, bx, by, bz)
                    T.copy(scores_max, scores_max_prev)
                    T.reduce_max(acc_s, scores_max, dim=1, clear=False)
                    for i in T.Parallel(block_M):
                        scores_scale[i] = T.exp2(scores_max_prev[i] * scale - scores_max[i] * scale)
                    for i, j in T.Parallel(block_M, block_N):
                        acc_s[i, j] = T.exp2(acc_s[i, j] * scale - scores_max[i] * scale)
                    T.reduce_sum(acc_s, scores_sum, dim=1)
                    for i in T.Parallel(block_M):
                        logsum[i] = logsum[i] * scores_scale[i] + scores_sum[i]
                    T.copy(acc_s, acc_s_cast)
                    for i, j in T.Parallel(block_M, dim):
                        acc_o[i, j] *= scores_scale[i]
                    T.copy(V[bz, k * block_N : (k + 1) * block_N, by, :], V_shared)
                    T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(block_M, dim):
                    acc_o[i, j] /= logsum[i]
                T.copy(acc_o, Output[bz, bx * block_M : (bx + 1) * block_M, by, :])

        return main

    q, k, v = (random(1, 64, 2, 32, dtype="float16", seed=s) for s in range(3))
    o = flashattn(1, 2, 64, 32, is_causal, **get_configs()[0])(q, k, v)
    q, k, v = (x.astype(float) for x in (q, k, v))
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(32)
    if is_causal:
        scores = np.where(np.tril(np.ones((64, 64), bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    close(o, np.einsum("bhqk,bkhd->bqhd", weights, v), 2e-3)
