"""Attention in float16 on Hopper, its parts placed by hand: O = softmax(Q @ K.T / sqrt(d)) @ V in one pass.

A producer (warpgroup 2) copies tiles of K and V by TMA into rings of slots; each of two consumers has 64
queries.  A consumer begins the scores of a tile, and behind them the weighted sum of the tile before, whose
weights it has ready: while the tensor cores work on that sum, its threads turn the scores into weights.
Blocks of some heads, whose K and V stay in L2 together, come before those of the next ones; among them those
with the most keys first.

Usage:
    python examples/attention_warpgroups.py [--target auto|cuda|sim:sm_90a] [--causal] [--batch B] [--heads H]
                                            [--kv-heads G] [--queries N] [--keys N] [--dim D]
"""

import math

import flash_attention
import harness
import numpy as np
import tilelang
import tilelang.language as T

SMALL = {"heads": 2, "kv_heads": 1, "queries": 150, "keys": 300, "dim": 64, "causal": True}


@tilelang.jit(out_idx=[-1], pass_configs=flash_attention.FAST)
def attention(batch, heads, queries, keys, dim, causal, kv_heads=None, block_N=128, slots=2):
    scale = math.log2(math.e) / math.sqrt(dim)  # powers of two are cheaper than those of e
    kv_heads = kv_heads or heads
    share = heads // kv_heads  # heads of Q that one head of K and V serves
    past = keys - queries  # the last query sees every key
    if causal and past < 0:
        raise ValueError(f"{queries} queries of {keys} keys; where causal there are as many keys at least")
    masked = causal or keys % block_N != 0
    producer, consumers = 2, (0, 1)
    height = 64  # of a consumer
    block_M = height * len(consumers)
    blocks = -(-queries // block_M)  # of a head
    section = max(1, min(batch * heads, (32 << 20) // (4 * keys * dim)) if causal else 1)
    section = next(n for n in range(section, 0, -1) if batch * heads % n == 0)
    dtype = "float16"

    @T.macro
    def visible(query):  # how many keys it sees
        return T.min(query + past + 1, keys) if causal else keys

    @T.macro
    def arrive(barrier):  # once for each warp, so that none falls behind
        if T.get_thread_binding() % 32 == 0:
            T.barrier_arrive(barrier)

    @T.macro
    def load(tile, j, tiles, full, empty):
        """The next tile of K or V, as soon as its slot is free."""
        s = j % slots
        T.barrier_wait(empty[s], (j // slots + 1) % 2)
        T.tma_copy(tile, tiles[s, :, :], barrier=full[s])
        arrive(full[s])

    @T.macro
    def begin(A, j, tiles, full, C, transpose_B, clear):
        """A product with a tile, as soon as it is there."""
        s = j % slots
        T.barrier_wait(full[s], j // slots % 2)
        T.wgmma_gemm(A, tiles[s, :, :], C, transpose_B=transpose_B, clear_accum=clear)

    @T.macro
    def weigh(j, query, S, greatest, before, shrink, sums, total):
        """Scores become weights; `shrink`: by how much the sums of those before are too large."""
        if masked and (j + 1) * block_N > visible(query):
            for i, n in T.Parallel(height, block_N):
                if j * block_N + n >= visible(query + i):
                    S[i, n] = -T.infinity("float32")
        T.copy(greatest, before)
        T.reduce_max(S, greatest, dim=1, clear=False)
        for i in T.Parallel(height):
            shrink[i] = T.exp2(before[i] * scale - greatest[i] * scale)
        for i, n in T.Parallel(height, block_N):
            S[i, n] = T.exp2(S[i, n] * scale - greatest[i] * scale)
        T.reduce_sum(S, sums, dim=1)
        for i in T.Parallel(height):
            total[i] = total[i] * shrink[i] + sums[i]

    @T.macro
    def store(sums_V, total, tile, place):
        for i, d in T.Parallel(height, dim):
            sums_V[i, d] /= total[i]
        T.copy(sums_V, tile)
        T.tma_copy(tile, place)
        T.tma_store_wait(0)

    @T.prim_func
    def main(
        Q: T.Tensor((batch, heads, queries, dim), dtype),
        K: T.Tensor((batch, kv_heads, keys, dim), dtype),
        V: T.Tensor((batch, kv_heads, keys, dim), dtype),
        O: T.Tensor((batch, heads, queries, dim), dtype),
    ):
        with T.Kernel(batch * heads * blocks, threads=384) as block:
            inside = block % (section * blocks)
            head = block // (section * blocks) * section + inside % section
            bx, by, bz = blocks - 1 - inside // section, head % heads, head // heads
            Q_shared = T.alloc_shared((block_M, dim), dtype)
            K_shared, V_shared = [T.alloc_shared((slots, block_N, dim), dtype) for _ in range(2)]
            kept, q_full = T.alloc_shared((len(consumers), height), "float32"), T.alloc_barrier(4)
            k_full, v_full, k_empty, v_empty = [T.alloc_barrier([n] * slots) for n in (4, 4, 8, 8)]
            steps = T.ceildiv(keys, block_N)
            steps = T.min(steps, T.ceildiv((bx + 1) * block_M + past, block_N)) if causal else steps

            with T.ws(producer):
                T.set_max_nreg(24, 0)
                T.tma_copy(Q[bz, by, bx * block_M : (bx + 1) * block_M, :], Q_shared, barrier=q_full)
                arrive(q_full)
                for j in T.serial(steps):
                    rows = slice(j * block_N, (j + 1) * block_N)
                    load(K[bz, by // share, rows, :], j, K_shared, k_full, k_empty)
                    load(V[bz, by // share, rows, :], j, V_shared, v_full, v_empty)

            for c in consumers:
                with T.ws(c):
                    T.set_max_nreg(240, 1)
                    S, P = [T.alloc_fragment((height, block_N), t) for t in ("float32", dtype)]
                    sums_V = T.alloc_fragment((height, dim), "float32")
                    of_rows = [T.alloc_fragment((height,), "float32") for _ in range(5)]
                    greatest, _, shrink, _, total = of_rows
                    query = bx * block_M + c * height
                    mine = Q_shared[c * height : (c + 1) * height, :]
                    T.clear(sums_V)
                    T.clear(total)
                    T.fill(greatest, -T.infinity("float32"))

                    T.barrier_wait(q_full, 0)
                    begin(mine, 0, K_shared, k_full, S, True, True)
                    T.wait_wgmma(0)
                    arrive(k_empty[0])
                    weigh(0, query, S, *of_rows)
                    T.copy(S, P)
                    for j in T.serial(1, steps):
                        begin(mine, j, K_shared, k_full, S, True, True)
                        begin(P, j - 1, V_shared, v_full, sums_V, False, False)
                        T.wait_wgmma(1)
                        arrive(k_empty[j % slots])
                        weigh(j, query, S, *of_rows)
                        T.copy(total, kept[c, :])  # else ptxas waits before it computes the weights
                        T.wait_wgmma(0)
                        arrive(v_empty[(j - 1) % slots])
                        for i, d in T.Parallel(height, dim):
                            sums_V[i, d] *= shrink[i]
                        T.copy(S, P)
                    begin(P, steps - 1, V_shared, v_full, sums_V, False, False)
                    T.wait_wgmma(0)
                    store(sums_V, total, mine, O[bz, by, query : query + height, :])

    return main


def cases(kind, batch=1, heads=4, kv_heads=2, queries=1000, keys=1300, dim=128, causal: bool | None = None):
    rng = np.random.default_rng(0)
    q = rng.standard_normal((batch, heads, queries, dim)).astype(np.float16)
    k, v = (rng.standard_normal((batch, kv_heads, keys, dim)).astype(np.float16) for _ in range(2))
    for is_causal in (False, True) if causal is None else (causal,):
        arguments = [q, k, v, harness.blank(q.shape, "float16")]
        kernel = attention.get_tir(batch, heads, queries, keys, dim, is_causal, kv_heads)
        name = f"{'causal ' * is_causal}{heads} heads over {kv_heads}, {queries} by {keys}, {dim} wide"
        expected = {3: flash_attention.exact(q, k, v, is_causal)}
        yield harness.Case(
            name,
            kernel,
            arguments,
            expected,
            1e-3,
            True,
            chips=("sm_90a",),
            pass_configs=flash_attention.FAST,
        )


if __name__ == "__main__":
    harness.main(__doc__, cases)
