"""Mamba-2's chunk state: what one chunk of a sequence adds to the state of each head.

    python examples/chunk_state.py [--target auto|cpu|cuda|sim:CHIP|reference] [--batch B] [--length L]
                                   [--heads H] [--chunk C] [--dim P] [--state N]

    S[p, n] = sum over l in the chunk of x[l, p] · dt[l] · exp(a[last] - a[l]) · B[l, n]

dt is the step, a its running sum times A within the chunk (both per head); the heads of a group share B.
"""

import math

import harness
import numpy as np
import tilelang
import tilelang.language as T

TILES = {"cpu": (64, 128, 64, 1), "gpu": (64, 128, 64, 128), "reference": (64, 128, 64, 1)}
SMALL = {"length": 150, "chunk": 130, "heads": 2, "groups": 1}
LOG2E = math.log2(math.e)


@tilelang.jit(out_idx=[-1])
def chunk_state(
    batch, length, groups, heads, chunk, dim, state, block_P, block_N, block_L, threads, dtype="float16"
):
    chunks = T.ceildiv(length, chunk)

    @T.prim_func
    def main(
        B: T.Tensor((batch, length, groups, state), dtype),
        x: T.Tensor((batch, length, heads, dim), dtype),
        dt: T.Tensor((batch, heads, chunks, chunk), dtype),
        a: T.Tensor((batch, heads, chunks, chunk), dtype),
        S: T.Tensor((batch, chunks, heads, dim, state), dtype),
    ):
        tiles = T.ceildiv(dim, block_P) * T.ceildiv(state, block_N)
        with T.Kernel(tiles, batch * chunks, heads, threads=threads) as (bx, by, head):
            x_shared = T.alloc_shared((block_L, block_P), dtype)
            scaled = T.alloc_shared((block_P, block_L), dtype)
            B_shared = T.alloc_shared((block_L, block_N), dtype)
            weight = T.alloc_fragment((block_L,), "float32")
            acc = T.alloc_fragment((block_P, block_N), "float32")
            p, n = bx // T.ceildiv(state, block_N) * block_P, bx % T.ceildiv(state, block_N) * block_N
            b, c = by // chunks, by % chunks
            last = T.alloc_fragment((1,), "float32")
            last[0] = a[b, head, c, chunk - 1]
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(chunk, block_L), num_stages=2):
                first = c * chunk + k * block_L
                T.copy(x[b, first : first + block_L, head, p : p + block_P], x_shared)
                for l in T.Parallel(block_L):
                    inside = (k * block_L + l < chunk) & (first + l < length)
                    decay = T.exp2((last[0] - a[b, head, c, k * block_L + l]) * LOG2E)
                    weight[l] = T.if_then_else(inside, decay * dt[b, head, c, k * block_L + l], 0)
                for i, l in T.Parallel(block_P, block_L):
                    scaled[i, l] = x_shared[l, i] * weight[l]
                T.copy(B[b, first : first + block_L, head // (heads // groups), n : n + block_N], B_shared)
                T.gemm(scaled, B_shared, acc)
            T.copy(acc, S[b, c, head, p : p + block_P, n : n + block_N])

    return main


def exact(B, x, dt, a, chunk):
    """The same in float64."""
    batch, length, heads, dim = x.shape
    groups, state, chunks = B.shape[2], B.shape[3], dt.shape[2]
    out = np.zeros((batch, chunks, heads, dim, state))
    for c in range(chunks):
        at = slice(c * chunk, min((c + 1) * chunk, length))
        size = at.stop - at.start
        weight = np.exp(a[:, :, c, -1:].astype(np.float64) - a[:, :, c]) * dt[:, :, c]
        for head in range(heads):
            scaled = x[:, at, head].astype(np.float64) * weight[:, head, :size, None]
            out[:, c, head] = np.einsum("blp,bln->bpn", scaled, B[:, at, head // (heads // groups)])
    return out


def inputs(rng, batch, length, groups, heads, chunk, dim, state, dtype="float16"):
    """B, x, dt and a, the running sum, as they come out of the layers before."""
    chunks = -(-length // chunk)
    B = rng.standard_normal((batch, length, groups, state))
    x = rng.standard_normal((batch, length, heads, dim))
    dt = rng.uniform(0.01, 0.1, (batch, heads, chunks, chunk))
    a = -np.cumsum(dt, -1) * rng.uniform(0.5, 2, (1, heads, 1, 1))
    return [array.astype(dtype) for array in (B, x, dt, a)]


def cases(kind, batch=1, length=1000, heads=4, groups=2, chunk=256, dim=64, state=128):
    sizes = (batch, length, groups, heads, chunk, dim, state)
    B, x, dt, a = inputs(np.random.default_rng(0), *sizes)
    expected = exact(B, x, dt, a, chunk)
    yield harness.Case(
        name=f"{length} long in chunks of {chunk}, {heads} heads, {dim} x {state}",
        kernel=chunk_state.get_tir(*sizes, *TILES[kind]),
        arguments=[B, x, dt, a, harness.blank(expected.shape, "float16")],
        expected={4: expected},
        bound=1e-3,
    )


if __name__ == "__main__":
    harness.main(__doc__, cases)
