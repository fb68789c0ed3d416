"""Attention in one pass over K and V, O = softmax(Q @ K.T / sqrt(d)) @ V, without ever storing all scores.

    python examples/flash_attention.py [--target auto|cpu|cuda|sim:CHIP|reference] [--causal]
                                       [--dtype float16|float32] [--batch B] [--heads H]
                                       [--kv-heads G] [--queries N] [--keys N] [--dim D]

With fewer heads of K and V than of Q, neighbouring heads of Q share theirs (grouped queries).  Each block
keeps a tile of queries and walks over the keys.  Per row it holds the greatest score so far, the sum of the
exponentials and the weighted sum of V; when a greater score turns up, both sums are scaled down.
"""

import argparse
import math
import sys

import numpy as np
import tilelang
import tilelang.language as T

# All the tuning there is: queries and keys of a block, and its threads; for heads up to 64 wide, and wider.
TILES = {
    "cpu": [(128, 256, 1), (128, 256, 1)],
    "cuda": [(128, 64, 128), (128, 64, 128)],
    "sim": [(128, 64, 128), (128, 64, 128)],
    "reference": [(64, 64, 1), (64, 64, 1)],
}


@tilelang.jit
def attention(batch, heads, queries, keys, dim, causal, block_M, block_N, threads, dtype="float16",
              kv_heads=None):
    scale = math.log2(math.e) / math.sqrt(dim)  # powers of two are cheaper than those of e
    kv_heads = kv_heads or heads
    share = heads // kv_heads  # heads of Q that one head of K and V serves
    past = keys - queries  # the last query sees every key
    ragged = keys % block_N != 0
    full_row = T.GemmWarpPolicy.FullRow  # a warp holds whole rows: their statistics need no other warp

    @T.prim_func
    def main(
        Q: T.Tensor((batch, heads, queries, dim), dtype),
        K: T.Tensor((batch, kv_heads, keys, dim), dtype),
        V: T.Tensor((batch, kv_heads, keys, dim), dtype),
        O: T.Tensor((batch, heads, queries, dim), dtype),
    ):
        with T.Kernel(T.ceildiv(queries, block_M), heads, batch, threads=threads) as (bx, by, bz):
            Q_shared = T.alloc_shared((block_M, dim), dtype)
            K_shared = T.alloc_shared((block_N, dim), dtype)
            V_shared = T.alloc_shared((block_N, dim), dtype)
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
            for k in T.Pipelined(steps, num_stages=1):
                T.copy(K[bz, by // share, k * block_N : (k + 1) * block_N, :], K_shared)
                if causal:
                    for i, j in T.Parallel(block_M, block_N):
                        acc_s[i, j] = T.if_then_else(
                            k * block_N + j <= T.min(bx * block_M + i + past, keys - 1),
                            0,
                            -T.infinity("float32"),
                        )
                elif ragged:
                    for i, j in T.Parallel(block_M, block_N):
                        acc_s[i, j] = T.if_then_else(k * block_N + j < keys, 0, -T.infinity("float32"))
                else:
                    T.clear(acc_s)
                T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=full_row)

                T.copy(scores_max, scores_max_prev)
                T.reduce_max(acc_s, scores_max, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    scores_scale[i] = T.exp2((scores_max_prev[i] - scores_max[i]) * scale)
                for i, j in T.Parallel(block_M, block_N):
                    acc_s[i, j] = T.exp2((acc_s[i, j] - scores_max[i]) * scale)
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


def build(options):
    """The kernel for the target asked for."""
    kind = tilelang.resolve_target(options.target).split()[0].split(":")[0]
    tiles = TILES[kind][options.dim > 64]
    sizes = (options.batch, options.heads, options.queries, options.keys, options.dim)
    return tilelang.compile(
        attention.get_tir(*sizes, options.causal, *tiles, options.dtype, options.kv_heads),
        target=options.target,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--target", default="auto")
    parser.add_argument("--causal", action="store_true", help="query i of n sees the keys up to keys - n + i")
    parser.add_argument("--dtype", default="float16", choices=["float16", "float32"])
    sizes = {"batch": 1, "heads": 8, "queries": 2048, "keys": 2048, "dim": 64}
    for name, size in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--kv-heads", type=int, help="of K and V; a divisor of --heads, which is the default")
    options = parser.parse_args()
    options.kv_heads = options.kv_heads or options.heads
    if options.heads % options.kv_heads:
        parser.error("--kv-heads must divide --heads")
    if options.causal and options.keys < options.queries:
        parser.error("with --causal there must be at least as many keys as queries, or some would see none")

    kernel = build(options)
    spent = sum(kernel.phases.values())
    print(f"compiled for {kernel.target} in {spent:.0f} ms{' (from the cache)' if kernel.from_cache else ''}")

    rng = np.random.default_rng(0)
    q, k, v = (
        rng.standard_normal((options.batch, heads, n, options.dim), np.float32).astype(options.dtype)
        for heads, n in (
            (options.heads, options.queries),
            (options.kv_heads, options.keys),
            (options.kv_heads, options.keys),
        )
    )
    out = np.empty_like(q)
    arrays = [q, k, v, out]
    if kernel.device_type == "cuda":
        import torch  # holds the tensors on the GPU

        arrays = [torch.from_numpy(x).cuda() for x in arrays]
    kernel(*arrays)
    if kernel.device_type == "cuda":
        out = arrays[3].cpu().numpy()
    want = exact(q, k, v, options.causal)
    error = np.linalg.norm(out - want) / np.linalg.norm(want)
    bound = 1e-3 if options.dtype == "float16" else 1e-5

    pairs = options.queries * options.keys
    if options.causal:
        pairs -= options.queries * (options.queries - 1) // 2
    work = 4e-9 * options.batch * options.heads * pairs * options.dim  # TFLOP, over milliseconds
    rate = work / tilelang.profiler.do_bench(lambda: kernel(*arrays), return_mode="median")
    print(f"{'causal ' * options.causal}attention, {options.dtype}, {options.batch} x {options.heads} heads, "
          f"{options.queries} queries, {options.keys} keys, {options.dim} wide")
    print(f"  {rate:.3g} TFLOP/s")
    print(f"  relative error {error:.1e} (at most {bound:.0e} allowed)")
    if not error <= bound:
        print("wrong result", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
