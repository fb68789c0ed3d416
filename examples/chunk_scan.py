"""Mamba-2's chunk scan: the output of a chunk, from the state before it and from the chunk itself.

    python examples/chunk_scan.py [--target auto|cpu|cuda|sim:CHIP|reference] [--batch B] [--length L]
                                  [--heads H] [--chunk C] [--dim P] [--state N]

    y[m] = exp(a[m]) · C[m] @ S.T + sum over l ≤ m of CB[m, l] · exp(a[m] - a[l]) · dt[l] · x[l] + D · x[m]

S is the state (dim x state) before the chunk, CB the products C @ B.T within the chunk (per group).
"""

import math

import chunk_state
import harness
import numpy as np
import tilelang
import tilelang.language as T

TILES = {"cpu": (64, 64, 64, 1), "gpu": (64, 64, 64, 128), "reference": (64, 64, 64, 1)}
SMALL = {"length": 150, "chunk": 140, "heads": 1, "groups": 1}
LOG2E = math.log2(math.e)


@tilelang.jit(out_idx=[-1])
def chunk_scan(
    batch, length, groups, heads, chunk, dim, state, block_M, block_P, block_L, threads, dtype="float16"
):
    chunks = T.ceildiv(length, chunk)

    @T.prim_func
    def main(
        CB: T.Tensor((batch, chunks, groups, chunk, chunk), dtype),
        x: T.Tensor((batch, length, heads, dim), dtype),
        dt: T.Tensor((batch, heads, chunks, chunk), dtype),
        a: T.Tensor((batch, heads, chunks, chunk), dtype),
        C: T.Tensor((batch, length, groups, state), dtype),
        S: T.Tensor((batch, chunks, heads, dim, state), dtype),
        D: T.Tensor((heads,), dtype),
        Y: T.Tensor((batch, length, heads, dim), dtype),
    ):
        tiles = T.ceildiv(chunk, block_M) * T.ceildiv(dim, block_P)
        with T.Kernel(tiles, batch * chunks, heads, threads=threads) as (bx, by, head):
            C_shared = T.alloc_shared((block_M, state), dtype)
            S_shared = T.alloc_shared((block_P, state), dtype)
            CB_shared = T.alloc_shared((block_M, block_L), dtype)
            x_shared = T.alloc_shared((block_L, block_P), dtype)
            weights = T.alloc_fragment((block_M, block_L), dtype)
            a_m = T.alloc_fragment((block_M,), "float32")
            acc = T.alloc_fragment((block_M, block_P), "float32")
            m, p = bx // T.ceildiv(dim, block_P) * block_M, bx % T.ceildiv(dim, block_P) * block_P
            b, c, group = by // chunks, by % chunks, head // (heads // groups)
            start = c * chunk + m

            T.copy(C[b, start : start + block_M, group, 0:state], C_shared)
            T.copy(S[b, c, head, p : p + block_P, 0:state], S_shared)
            for i in T.Parallel(block_M):
                a_m[i] = a[b, head, c, m + i]
            T.clear(acc)
            T.gemm(C_shared, S_shared, acc, transpose_B=True)
            for i, j in T.Parallel(block_M, block_P):
                acc[i, j] *= T.exp2(a_m[i] * LOG2E)
            for k in T.Pipelined(T.ceildiv(m + block_M, block_L), num_stages=2):
                l0 = k * block_L
                T.copy(CB[b, c, group, m : m + block_M, l0 : l0 + block_L], CB_shared)
                T.copy(x[b, c * chunk + l0 : c * chunk + l0 + block_L, head, p : p + block_P], x_shared)
                for i, l in T.Parallel(block_M, block_L):
                    decay = T.exp2((a_m[i] - a[b, head, c, l0 + l]) * LOG2E)
                    scaled = CB_shared[i, l] * decay * dt[b, head, c, l0 + l]
                    weights[i, l] = T.if_then_else((l0 + l <= m + i) & (l0 + l < chunk), scaled, 0)
                T.gemm(weights, x_shared, acc)
            for i, j in T.Parallel(block_M, block_P):
                if (m + i < chunk) & (start + i < length) & (p + j < dim):
                    Y[b, start + i, head, p + j] = acc[i, j] + D[head] * x[b, start + i, head, p + j]

    return main


def exact(CB, x, dt, a, C, S, D, chunk):
    """The same in float64."""
    batch, length, heads, dim = x.shape
    groups, chunks = C.shape[2], dt.shape[2]
    x, dt, a, C, S = (array.astype(np.float64) for array in (x, dt, a, C, S))
    out = x * D[:, None]
    for c in range(chunks):
        at = slice(c * chunk, min((c + 1) * chunk, length))
        size = at.stop - at.start
        for head in range(heads):
            group, run = head // (heads // groups), a[:, head, c, :size]
            past = np.einsum("bmn,bpn->bmp", C[:, at, group], S[:, c, head]) * np.exp(run)[:, :, None]
            decay = np.tril(np.exp(np.minimum(run[:, :, None] - run[:, None, :], 0)))
            weights = CB[:, c, group, :size, :size] * decay * dt[:, head, c, None, :size]
            out[:, at, head] += past + weights @ x[:, at, head]
    return out


def cases(kind, batch=1, length=1000, heads=4, groups=2, chunk=256, dim=64, state=128):
    sizes = (batch, length, groups, heads, chunk, dim, state)
    rng, chunks = np.random.default_rng(0), -(-length // chunk)
    C, x, dt, a = chunk_state.inputs(rng, *sizes)
    CB = rng.standard_normal((batch, chunks, groups, chunk, chunk)).astype(np.float16)
    S = rng.standard_normal((batch, chunks, heads, dim, state)).astype(np.float16)
    D = rng.standard_normal(heads).astype(np.float16)
    yield harness.Case(
        name=f"{length} long in chunks of {chunk}, {heads} heads, {dim} x {state}",
        kernel=chunk_scan.get_tir(*sizes, *TILES[kind]),
        arguments=[CB, x, dt, a, C, S, D, harness.blank(x.shape, "float16")],
        expected={7: exact(CB, x, dt, a, C, S, D, chunk)},
        bound=1e-3,
    )


if __name__ == "__main__":
    harness.main(__doc__, cases)
