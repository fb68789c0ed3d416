"""Attention in one pass over K and V, O = softmax(Q @ K.T / sqrt(d)) @ V, without ever storing all scores.

    python examples/flash_attention.py [--target auto|cpu|cuda|sim:CHIP|reference] [--causal]
                                       [--dtype float16|float32] [--batch B] [--heads H]
                                       [--kv-heads G] [--queries N] [--keys N] [--dim D]

With fewer heads of K and V than of Q, neighbouring heads of Q share theirs (grouped queries).  Each block
keeps a tile of queries and walks over the keys.  Per row it holds the greatest score so far, the sum of the
exponentials and the weighted sum of V; when a greater score turns up, both sums are scaled down.
"""

import math
import sys

import harness
import numpy as np
import tilelang
import tilelang.language as T

FAST = {tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True}  # exp2 is the GPU's instruction: denormals are 0
# All the tuning there is: queries and keys of a block, and its threads; for heads up to 64 wide, and wider.
TILES = {
    "cpu": [(128, 256, 1), (128, 256, 1)],
    "gpu": [(128, 64, 128), (128, 64, 128)],
    "warpgroup_gpu": [(192, 128, 384), (128, 128, 256)],
    "reference": [(64, 64, 1), (64, 64, 1)],
}
SMALL = {"heads": 2, "kv_heads": 1, "queries": 100, "keys": 170, "causal": True}


@tilelang.jit(out_idx=[-1], pass_configs=FAST)
def attention(
    batch, heads, queries, keys, dim, causal, block_M, block_N, threads, dtype="float16", kv_heads=None
):
    scale = math.log2(math.e) / math.sqrt(dim)  # powers of two are cheaper than those of e
    kv_heads = kv_heads or heads
    share = heads // kv_heads  # heads of Q that one head of K and V serves
    past = keys - queries  # the last query sees every key
    masked = causal or keys % block_N != 0
    full_row = T.GemmWarpPolicy.FullRow  # a warp holds whole rows: their statistics need no other warp

    @T.macro
    def visible(query):  # how many keys it sees
        return T.min(query + past + 1, keys) if causal else keys

    @T.prim_func
    def main(
        Q: T.Tensor((batch, heads, queries, dim), dtype),
        K: T.Tensor((batch, kv_heads, keys, dim), dtype),
        V: T.Tensor((batch, kv_heads, keys, dim), dtype),
        O: T.Tensor((batch, heads, queries, dim), dtype),
    ):
        with T.Kernel(heads, T.ceildiv(queries, block_M), batch, threads=threads) as (by, back, bz):
            bx = T.ceildiv(queries, block_M) - 1 - back  # where causal, those with the most keys begin first
            Q_shared = T.alloc_shared((block_M, dim), dtype)
            K_shared, V_shared = T.alloc_shared((block_N, dim), dtype), T.alloc_shared((block_N, dim), dtype)
            acc_s = T.alloc_fragment((block_M, block_N), "float32")
            acc_s_cast = T.alloc_fragment((block_M, block_N), dtype)
            acc_o = T.alloc_fragment((block_M, dim), "float32")
            scores_max = T.alloc_fragment((block_M,), "float32")
            scores_max_prev = T.alloc_fragment((block_M,), "float32")
            scores_scale = T.alloc_fragment((block_M,), "float32")
            scores_sum = T.alloc_fragment((block_M,), "float32")
            logsum = T.alloc_fragment((block_M,), "float32")

            T.copy(Q[bz, by, bx * block_M : (bx + 1) * block_M, :], Q_shared)
            T.clear(acc_o)
            T.clear(logsum)
            T.fill(scores_max, -T.infinity("float32"))
            steps = T.ceildiv(keys, block_N)
            if causal:
                steps = T.min(steps, T.ceildiv((bx + 1) * block_M + past, block_N))
            for k in T.Pipelined(steps, num_stages=2):
                T.copy(K[bz, by // share, k * block_N : (k + 1) * block_N, :], K_shared)
                T.clear(acc_s)
                # Most tiles hold only keys that all queries of the block see.
                if masked and (k + 1) * block_N > visible(bx * block_M):
                    for i, j in T.Parallel(block_M, block_N):
                        if k * block_N + j >= visible(bx * block_M + i):
                            acc_s[i, j] = -T.infinity("float32")
                T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=full_row)

                T.copy(scores_max, scores_max_prev)
                T.reduce_max(acc_s, scores_max, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    scores_scale[i] = T.exp2(scores_max_prev[i] * scale - scores_max[i] * scale)
                for i, j in T.Parallel(block_M, block_N):
                    acc_s[i, j] = T.exp2(acc_s[i, j] * scale - scores_max[i] * scale)
                T.reduce_sum(acc_s, scores_sum, dim=1)
                for i in T.Parallel(block_M):
                    logsum[i] = logsum[i] * scores_scale[i] + scores_sum[i]
                for i, j in T.Parallel(block_M, dim):
                    acc_o[i, j] *= scores_scale[i]

                T.copy(acc_s, acc_s_cast)
                T.copy(V[bz, by // share, k * block_N : (k + 1) * block_N, :], V_shared)
                T.gemm(acc_s_cast, V_shared, acc_o, policy=full_row)
            for i, j in T.Parallel(block_M, dim):
                acc_o[i, j] /= logsum[i]
            T.copy(acc_o, O[bz, by, bx * block_M : (bx + 1) * block_M, :])

    return main


def exact(q, k, v, causal):
    """The same in float64, one head at a time."""
    out = np.empty(q.shape)
    queries, keys = q.shape[2], k.shape[2]
    hidden = np.arange(keys) > np.arange(queries)[:, None] + keys - queries
    for head in np.ndindex(*q.shape[:2]):
        shared = head[0], head[1] * k.shape[1] // q.shape[1]
        scores = q[head].astype(np.float64) @ k[shared].astype(np.float64).T / math.sqrt(q.shape[3])
        if causal:
            scores[hidden] = -np.inf
        weights = np.exp(scores - scores.max(1, keepdims=True))
        out[head] = weights @ v[shared].astype(np.float64) / weights.sum(1, keepdims=True)
    return out


def cases(kind, batch=1, heads=8, kv_heads=0, queries=1000, keys=1000, dim=64, causal=False, dtype="float16"):
    kv_heads = kv_heads or heads
    if heads % kv_heads:
        sys.exit("--kv-heads must divide --heads")
    if causal and keys < queries:
        sys.exit("with --causal there must be at least as many keys as queries, or some would see none")
    sizes, tiles = (batch, heads, queries, keys, dim), TILES[kind][dim > 64]
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((batch, n, length, dim), np.float32).astype(dtype)
               for n, length in ((heads, queries), (kv_heads, keys), (kv_heads, keys)))  # fmt: skip
    yield harness.Case(
        name=f"{'causal ' * causal}{dtype}, {batch} x {heads} heads, {queries} by {keys}, {dim} wide",
        kernel=attention.get_tir(*sizes, causal, *tiles, dtype, kv_heads),
        arguments=[q, k, v, harness.blank(q.shape, dtype)],
        expected={3: exact(q, k, v, causal)},
        bound=1e-3 if dtype == "float16" else 1e-5,
        pass_configs=FAST,
    )


if __name__ == "__main__":
    harness.main(__doc__, cases, TILES)
