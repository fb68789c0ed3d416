"""Attention over sequences of different lengths that lie end to end in one tensor, without padding.

    python examples/flash_attention_varlen.py [--target auto|cpu|cuda|sim:CHIP|reference] [--heads H]
                                              [--kv-heads G] [--longest N] [--batch B] [--dim D]

Sequence b has the rows offsets[b] to offsets[b + 1] of Q, K and V (and of O).  Causal: query i sees the keys
up to i.  How long the tensors are and how many sequences there are is known only when the kernel is called.
"""

import math

import flash_attention
import harness
import numpy as np
import tilelang
import tilelang.language as T

SMALL = {"heads": 1, "kv_heads": 1, "longest": 150, "batch": 2}


@tilelang.jit(out_idx=[-1])
def attention(heads, kv_heads, dim, block_M, block_N, threads, num_stages=2, dtype="float16"):
    scale, share = math.log2(math.e) / math.sqrt(dim), heads // kv_heads
    total, batch = T.dynamic("total"), T.dynamic("batch")
    by_rows = T.GemmWarpPolicy.FullRow

    @T.prim_func
    def main(
        Q: T.Tensor((total, heads, dim), dtype),
        K: T.Tensor((total, kv_heads, dim), dtype),
        V: T.Tensor((total, kv_heads, dim), dtype),
        offsets: T.Tensor((batch,), "int32"),
        longest: T.int32,  # of the sequences, in rows
        O: T.Tensor((total, heads, dim), dtype),
    ):
        with T.Kernel(T.ceildiv(longest, block_M), heads, batch - 1, threads=threads) as (bx, by, bz):
            Q_shared = T.alloc_shared((block_M, dim), dtype)
            K_shared = T.alloc_shared((block_N, dim), dtype)
            V_shared = T.alloc_shared((block_N, dim), dtype)
            scores = T.alloc_fragment((block_M, block_N), "float32")
            weights = T.alloc_fragment((block_M, block_N), dtype)
            acc = T.alloc_fragment((block_M, dim), "float32")
            best, before, shrink, part, sums = [T.alloc_fragment((block_M,), "float32") for _ in range(5)]
            first, length = offsets[bz], offsets[bz + 1] - offsets[bz]

            T.copy(Q[first + bx * block_M : first + (bx + 1) * block_M, by, :], Q_shared)
            T.clear(acc)
            T.clear(sums)
            T.fill(best, -T.infinity("float32"))
            steps = T.ceildiv(T.min((bx + 1) * block_M, length), block_N)
            for k in T.Pipelined(steps, num_stages=num_stages):
                key = first + k * block_N
                T.copy(K[key : key + block_N, by // share, :], K_shared)
                for i, j in T.Parallel(block_M, block_N):
                    seen = k * block_N + j <= T.min(bx * block_M + i, length - 1)
                    scores[i, j] = T.if_then_else(seen, 0, -T.infinity("float32"))
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, policy=by_rows)
                T.copy(best, before)
                T.reduce_max(scores, best, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    shrink[i] = T.exp2((before[i] - best[i]) * scale)
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.exp2((scores[i, j] - best[i]) * scale)
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(block_M):
                    sums[i] = sums[i] * shrink[i] + part[i]
                for i, j in T.Parallel(block_M, dim):
                    acc[i, j] *= shrink[i]
                T.copy(scores, weights)
                T.copy(V[key : key + block_N, by // share, :], V_shared)
                T.gemm(weights, V_shared, acc, policy=by_rows)
            for i, j in T.Parallel(block_M, dim):
                if bx * block_M + i < length:
                    O[first + bx * block_M + i, by, j] = acc[i, j] / sums[i]

    return main


def cases(kind, heads=8, kv_heads=2, longest=300, batch=4, dim=64):
    block_M, block_N, threads = flash_attention.TILES[kind][dim > 64]
    kernel, rng = attention.get_tir(heads, kv_heads, dim, block_M, block_N, threads), np.random.default_rng(0)
    for place in (0, -1):  # of the longest; one kernel for any lengths
        lengths = rng.integers(1, longest + 1, batch)
        lengths[place] = longest
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        q, k, v = (rng.standard_normal((offsets[-1], n, dim)).astype(np.float16)
                   for n in (heads, kv_heads, kv_heads))  # fmt: skip
        expected = np.empty(q.shape)
        for begin, end in zip(offsets, offsets[1:], strict=False):
            one = [x[begin:end].transpose(1, 0, 2)[None] for x in (q, k, v)]
            expected[begin:end] = flash_attention.exact(*one, True)[0].transpose(1, 0, 2)
        arguments = [q, k, v, offsets, int(lengths.max()), harness.blank(q.shape, "float16")]
        name = f"{heads} heads, lengths {lengths.tolist()}"
        yield harness.Case(name, kernel, arguments, {5: expected}, 1e-3)


if __name__ == "__main__":
    harness.main(__doc__, cases)
