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
    assert past >= 0 or not causal, "where causal, there must be at least as many keys as queries"
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
    def weigh(tile, query, S, greatest, before, shrink, sums, total):
        """Scores of a tile become weights; `shrink`: by how much those before are too large."""
        if masked and (tile + 1) * block_N > visible(query):
            for i, j in T.Parallel(height, block_N):
                if tile * block_N + j >= visible(query + i):
                    S[i, j] = -T.infinity("float32")
        T.copy(greatest, before)
        T.reduce_max(S, greatest, dim=1, clear=False)
        for i in T.Parallel(height):
            shrink[i] = T.exp2(before[i] * scale - greatest[i] * scale)
        for i, j in T.Parallel(height, block_N):
            S[i, j] = T.exp2(S[i, j] * scale - greatest[i] * scale)
        T.reduce_sum(S, sums, dim=1)
        for i in T.Parallel(height):
            total[i] = total[i] * shrink[i] + sums[i]

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
            bx = blocks - 1 - inside // section
            bz, by = head // heads, head % heads
            Q_shared = T.alloc_shared((block_M, dim), dtype)
            K_shared = T.alloc_shared((slots, block_N, dim), dtype)
            V_shared = T.alloc_shared((slots, block_N, dim), dtype)
            q_full = T.alloc_barrier(4)
            k_full, v_full = T.alloc_barrier([4] * slots), T.alloc_barrier([4] * slots)
            k_empty, v_empty = T.alloc_barrier([8] * slots), T.alloc_barrier([8] * slots)
            steps = T.ceildiv(keys, block_N)
            if causal:
                steps = T.min(steps, T.ceildiv((bx + 1) * block_M + past, block_N))

            with T.ws(producer):
                T.set_max_nreg(24, 0)
                T.tma_copy(Q[bz, by, bx * block_M : (bx + 1) * block_M, :], Q_shared, barrier=q_full)
                arrive(q_full)
                for j in T.serial(steps):
                    keys_of = slice(j * block_N, (j + 1) * block_N)
                    s, free = j % slots, (j // slots + 1) % 2
                    T.barrier_wait(k_empty[s], free)
                    T.tma_copy(K[bz, by // share, keys_of, :], K_shared[s, :, :], barrier=k_full[s])
                    arrive(k_full[s])
                    T.barrier_wait(v_empty[s], free)
                    T.tma_copy(V[bz, by // share, keys_of, :], V_shared[s, :, :], barrier=v_full[s])
                    arrive(v_full[s])

            for c in consumers:
                with T.ws(c):
                    T.set_max_nreg(240, 1)
                    S = T.alloc_fragment((height, block_N), "float32")
                    P = T.alloc_fragment((height, block_N), dtype)
                    sums_V = T.alloc_fragment((height, dim), "float32")
                    greatest = T.alloc_fragment((height,), "float32")
                    before = T.alloc_fragment((height,), "float32")
                    shrink = T.alloc_fragment((height,), "float32")
                    sums = T.alloc_fragment((height,), "float32")
                    total = T.alloc_fragment((height,), "float32")
                    query = bx * block_M + c * height
                    mine = Q_shared[c * height : (c + 1) * height, :]
                    T.clear(sums_V)
                    T.clear(total)
                    T.fill(greatest, -T.infinity("float32"))

                    T.barrier_wait(q_full, 0)
                    T.barrier_wait(k_full[0], 0)
                    T.wgmma_gemm(mine, K_shared[0, :, :], S, transpose_B=True, clear_accum=True)
                    T.wait_wgmma(0)
                    arrive(k_empty[0])
                    weigh(0, query, S, greatest, before, shrink, sums, total)
                    T.copy(S, P)
                    for j in T.serial(1, steps):
                        s, last = j % slots, (j - 1) % slots
                        T.barrier_wait(k_full[s], j // slots % 2)
                        T.wgmma_gemm(mine, K_shared[s, :, :], S, transpose_B=True, clear_accum=True)
                        T.barrier_wait(v_full[last], (j - 1) // slots % 2)
                        T.wgmma_gemm(P, V_shared[last, :, :], sums_V)
                        T.wait_wgmma(1)
                        arrive(k_empty[s])
                        weigh(j, query, S, greatest, before, shrink, sums, total)
                        T.wait_wgmma(0)
                        arrive(v_empty[last])
                        for i, d in T.Parallel(height, dim):
                            sums_V[i, d] *= shrink[i]
                        T.copy(S, P)
                    T.barrier_wait(v_full[(steps - 1) % slots], (steps - 1) // slots % 2)
                    T.wgmma_gemm(P, V_shared[(steps - 1) % slots, :, :], sums_V)
                    T.wait_wgmma(0)
                    for i, d in T.Parallel(height, dim):
                        sums_V[i, d] /= total[i]
                    T.copy(sums_V, mine)
                    T.tma_copy(mine, O[bz, by, query : query + height, :])
                    T.tma_store_wait(0)

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
