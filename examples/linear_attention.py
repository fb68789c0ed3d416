"""Causal linear attention, O[t] = scale * Q[t] @ S[t] with the state S[t] = S[t - 1] + K[t].T @ V[t].

    python examples/linear_attention.py [--target auto|cpu|cuda|sim:CHIP|reference] [--batch B] [--heads H]
                                        [--length L] [--dim D]

A block walks along a sequence in chunks and keeps its part of the state (all of K's columns, some of V's) in
registers.  Within a chunk each query meets the keys up to its own; earlier chunks are in the state.
"""

import harness
import numpy as np
import tilelang
import tilelang.language as T

TILES = {"cpu": (64, 64, 1), "gpu": (64, 64, 128), "small_gpu": (32, 64, 128), "reference": (64, 64, 1)}
SMALL = {"batch": 1, "heads": 2, "length": 150, "dim": 64}


@tilelang.jit(out_idx=[-1])
def linear_attention(batch, heads, length, dim, chunk, block_V, threads, dtype="float16"):
    shape, scale = (batch, length, heads, dim), dim**-0.5

    @T.prim_func
    def main(
        Q: T.Tensor(shape, dtype),
        K: T.Tensor(shape, dtype),
        V: T.Tensor(shape, dtype),
        O: T.Tensor(shape, dtype),
    ):
        with T.Kernel(T.ceildiv(dim, block_V), heads, batch, threads=threads) as (bx, head, b):
            q, k = T.alloc_shared((chunk, dim), dtype), T.alloc_shared((chunk, dim), dtype)
            v = T.alloc_shared((chunk, block_V), dtype)
            scores = T.alloc_fragment((chunk, chunk), "float32")
            weights = T.alloc_shared((chunk, chunk), dtype)
            state = T.alloc_fragment((dim, block_V), "float32")
            before = T.alloc_shared((dim, block_V), dtype)  # the state that the chunk meets
            out = T.alloc_fragment((chunk, block_V), "float32")
            T.clear(state)
            for step in T.Pipelined(T.ceildiv(length, chunk), num_stages=2):
                at = slice(step * chunk, (step + 1) * chunk)
                columns = slice(bx * block_V, (bx + 1) * block_V)
                T.copy(Q[b, at, head, :], q)
                T.copy(K[b, at, head, :], k)
                T.copy(V[b, at, head, columns], v)
                T.copy(state, before)
                T.gemm(q, k, scores, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(chunk, chunk):
                    weights[i, j] = T.if_then_else(j <= i, scores[i, j], 0)
                T.gemm(q, before, out, clear_accum=True)
                T.gemm(weights, v, out)
                T.gemm(k, v, state, transpose_A=True)
                for i, j in T.Parallel(chunk, block_V):
                    out[i, j] *= scale
                T.copy(out, O[b, at, head, columns])

    return main


def exact(q, k, v):
    """The same in float64, with all scores of a head at once."""
    q, k, v = (x.astype(np.float64).transpose(0, 2, 1, 3) for x in (q, k, v))
    out = np.stack([[np.tril(a @ b.T) @ c for a, b, c in zip(*x, strict=True)]
                    for x in zip(q, k, v, strict=True)])  # fmt: skip
    return out.transpose(0, 2, 1, 3) * q.shape[-1] ** -0.5


def cases(kind, batch=2, heads=3, length=500, dim=100):
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((batch, length, heads, dim)).astype(np.float16) for _ in range(3))
    yield harness.Case(
        name=f"{batch} x {heads} heads, {length} long, {dim} wide",
        kernel=linear_attention.get_tir(batch, heads, length, dim, *TILES[kind]),
        arguments=[q, k, v, harness.blank(q.shape, "float16")],
        expected={3: exact(q, k, v)},
        bound=1e-3,
    )


if __name__ == "__main__":
    harness.main(__doc__, cases, TILES)
