"""Attention's backward in the published package's style: a block has keys, dQ is gathered by atomics."""

import numpy as np
import tilelang
import tilelang.language as T

from .program import FAST, Case, Tensor, blank

LOG2E = 1.44269504


def make_dq_layout(dQ):
    """What one thread of an mma holds of the sums lies together."""
    return T.Layout(dQ.shape, lambda b, l, h, d: [b, l // 8, h, d // 8, (d % 2), 4 * (l % 8) + (d % 8) // 2])


def plain_dq(array):
    """dQ of that layout as (batch, length, heads, dim)."""
    b, l, h, d = array.shape
    parts = array.reshape(b, l // 8, h, d // 8, 2, 8, 4)  # b, l // 8, h, d // 8, d % 2, l % 8, d % 8 // 2
    return parts.transpose(0, 1, 5, 2, 3, 6, 4).reshape(array.shape)


@tilelang.jit
def flashattn_bwd(batch, heads, seq_len, dim, is_causal, block_M, block_N, threads, num_stages, how):
    """how: dQ is added to element by element ("elements"), as one tile ("tile"), or by elements in a layout
    of its own ("layout")."""
    sm_scale = (1.0 / dim) ** 0.5
    scale = sm_scale * LOG2E
    shape, rows = [batch, seq_len, heads, dim], [batch, heads, seq_len]
    dtype, accum_dtype = "float16", "float"

    @T.macro
    def add_to_dq(dQ, dq, k, bx, bz):
        if how == "tile":
            T.atomic_add(dQ[bz, k * block_N : (k + 1) * block_N, bx, :], dq)
        else:
            for i, j in T.Parallel(block_N, dim):
                T.atomic_add(dQ[bz, k * block_N + i, bx, j], dq[i, j])

    @T.prim_func
    def flash_bwd(
        Q: T.Tensor(shape, dtype),
        K: T.Tensor(shape, dtype),
        V: T.Tensor(shape, dtype),
        dO: T.Tensor(shape, dtype),
        lse: T.Tensor(rows, accum_dtype),
        Delta: T.Tensor(rows, accum_dtype),
        dQ: T.Tensor(shape, accum_dtype),
        dK: T.Tensor(shape, dtype),
        dV: T.Tensor(shape, dtype),
    ):
        with T.Kernel(heads, T.ceildiv(seq_len, block_M), batch, threads=threads) as (bx, by, bz):
            K_shared = T.alloc_shared([block_M, dim], dtype)
            V_shared = T.alloc_shared([block_M, dim], dtype)
            q = T.alloc_shared([block_N, dim], dtype)
            do = T.alloc_shared([block_N, dim], dtype)
            lse_shared = T.alloc_shared([block_N], accum_dtype)
            delta = T.alloc_shared([block_N], accum_dtype)
            dsT_shared = T.alloc_shared([block_M, block_N], dtype)
            qkT = T.alloc_fragment([block_M, block_N], accum_dtype)
            dsT = T.alloc_fragment([block_M, block_N], accum_dtype)
            qkT_cast = T.alloc_fragment([block_M, block_N], dtype)
            dsT_cast = T.alloc_fragment([block_M, block_N], dtype)
            dv, dk = [T.alloc_fragment([block_M, dim], accum_dtype) for _ in range(2)]
            dq = T.alloc_fragment([block_N, dim], accum_dtype)

            if how == "layout":
                T.annotate_layout({dQ: make_dq_layout(dQ)})
            T.copy(K[bz, by * block_M : (by + 1) * block_M, bx, :], K_shared)
            T.copy(V[bz, by * block_M : (by + 1) * block_M, bx, :], V_shared)
            T.clear(dv)
            T.clear(dk)
            loop_st = T.floordiv(by * block_M, block_N) if is_causal else 0
            for k in T.Pipelined(loop_st, T.ceildiv(seq_len, block_N), num_stages=num_stages):
                T.copy(Q[bz, k * block_N : (k + 1) * block_N, bx, :], q)
                T.clear(qkT)
                T.gemm(K_shared, q, qkT, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(lse[bz, bx, k * block_N : (k + 1) * block_N], lse_shared)
                for i, j in T.Parallel(block_M, block_N):
                    qkT[i, j] = T.exp2(qkT[i, j] * scale - lse_shared[j])
                if is_causal:
                    for i, j in T.Parallel(block_M, block_N):
                        qkT[i, j] = T.if_then_else(by * block_M + i <= k * block_N + j, qkT[i, j], 0)
                T.copy(dO[bz, k * block_N : (k + 1) * block_N, bx, :], do)
                T.clear(dsT)
                T.gemm(V_shared, do, dsT, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(qkT, qkT_cast)
                T.gemm(qkT_cast, do, dv, policy=T.GemmWarpPolicy.FullRow)
                T.copy(Delta[bz, bx, k * block_N : (k + 1) * block_N], delta)
                for i, j in T.Parallel(block_M, block_N):
                    dsT_cast[i, j] = qkT[i, j] * (dsT[i, j] - delta[j]) * sm_scale
                T.gemm(dsT_cast, q, dk, policy=T.GemmWarpPolicy.FullRow)
                T.copy(dsT_cast, dsT_shared)
                T.clear(dq)
                T.gemm(dsT_shared, K_shared, dq, transpose_A=True)
                add_to_dq(dQ, dq, k, bx, bz)
            T.copy(dv, dV[bz, by * block_M : (by + 1) * block_M, bx, :])
            T.copy(dk, dK[bz, by * block_M : (by + 1) * block_M, bx, :])

    return flash_bwd


def backward_exact(causal):
    """Of lse and Delta as they are given: any numbers do, as they enter each element by themselves."""

    def exact(q, k, v, do, lse, delta, dq, dk, dv):
        q, k, v, do = (x.transpose(0, 2, 1, 3) for x in (q, k, v, do))
        scale = q.shape[-1] ** -0.5
        p = np.exp2(q @ k.swapaxes(2, 3) * scale * LOG2E - lse[..., None])
        if causal:
            p = np.tril(p)
        ds = p * (do @ v.swapaxes(2, 3) - delta[..., None]) * scale
        gradients = ds @ k, ds.swapaxes(2, 3) @ q, p.swapaxes(2, 3) @ do
        return {6 + i: x.transpose(0, 2, 1, 3) for i, x in enumerate(gradients)}

    return exact


def cases(small):
    batch, heads, length = (1, 1, 384) if small else (4, 16, 2048)
    for dim, block_M, block_N, threads in ((64, 128, 64, 256), (128, 64, 64, 128)):
        for causal, how in ((False, "elements"), (True, "elements"), (True, "tile"), (True, "layout")):
            shape, rows = (batch, length, heads, dim), (batch, heads, length)
            # The rows' logarithms of sums, close to what so many random scores have.
            lse = Tensor(rows, "float32", "uniform", np.log2(length), np.log2(length) + 1)
            arguments = [*[Tensor(shape)] * 4, lse, Tensor(rows, "float32", high=0.1)]
            arguments += [Tensor(shape, "float32", "zero"), blank(*shape), blank(*shape)]
            sizes = (batch, heads, length, dim, causal, block_M, block_N, threads, 2, how)
            label = f"d {dim}, {block_M}x{block_N}, {threads} threads{', causal' * causal}, dQ by {how}"
            read = plain_dq if how == "layout" else None
            yield Case("backward", label, flashattn_bwd, sizes, arguments, backward_exact(causal), FAST, read)
