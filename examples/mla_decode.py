"""Multi-head latent attention, one query a head: heads share the keys, and a key's first part is its value.

Usage:
    python examples/mla_decode.py [--target auto|cpu|cuda|sim:CHIP|reference] [--batch B] [--heads H]
                                  [--keys N] [--dim D] [--rope R]
"""

import math

import harness
import numpy as np
import tilelang
import tilelang.language as T

TILES = {"cpu": (64, 128, 1), "gpu": (32, 32, 128), "small_gpu": (16, 32, 128), "reference": (64, 64, 1)}
SMALL = {"heads": 40, "keys": 70, "dim": 128, "batch": 1}


@tilelang.jit(out_idx=[-1])
def mla_decode(batch, heads, keys, dim, rope, block_H, block_N, threads, dtype="float16"):
    scale, rows = math.log2(math.e) / math.sqrt(dim + rope), T.GemmWarpPolicy.FullCol

    @T.prim_func
    def main(
        Q: T.Tensor((batch, heads, dim), dtype),
        Q_rope: T.Tensor((batch, heads, rope), dtype),
        KV: T.Tensor((batch, keys, dim), dtype),
        K_rope: T.Tensor((batch, keys, rope), dtype),
        O: T.Tensor((batch, heads, dim), dtype),
    ):
        with T.Kernel(T.ceildiv(heads, block_H), batch, threads=threads) as (bx, b):
            Q_s, R_s = T.alloc_shared((block_H, dim), dtype), T.alloc_shared((block_H, rope), dtype)
            KV_s, KR_s = T.alloc_shared((block_N, dim), dtype), T.alloc_shared((block_N, rope), dtype)
            P_s = T.alloc_shared((block_H, block_N), dtype)
            scores = T.alloc_fragment((block_H, block_N), "float32")
            acc = T.alloc_fragment((block_H, dim), "float32")
            best, before, shrink, part, total = [T.alloc_fragment((block_H,), "float32") for _ in range(5)]
            T.copy(Q[b, bx * block_H, 0], Q_s)
            T.copy(Q_rope[b, bx * block_H, 0], R_s)
            T.clear(acc)
            T.clear(total)
            T.fill(best, -T.infinity("float32"))
            for k in T.Pipelined(T.ceildiv(keys, block_N), num_stages=2):
                T.copy(KV[b, k * block_N, 0], KV_s)
                T.copy(K_rope[b, k * block_N, 0], KR_s)
                for i, j in T.Parallel(block_H, block_N):
                    scores[i, j] = T.if_then_else(k * block_N + j < keys, 0, -T.infinity("float32"))
                T.gemm(Q_s, KV_s, scores, transpose_B=True, policy=rows)
                T.gemm(R_s, KR_s, scores, transpose_B=True, policy=rows)
                T.copy(best, before)
                T.reduce_max(scores, best, dim=1, clear=False)
                for i in T.Parallel(block_H):
                    shrink[i] = T.exp2((before[i] - best[i]) * scale)
                for i, j in T.Parallel(block_H, block_N):
                    scores[i, j] = T.exp2((scores[i, j] - best[i]) * scale)
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(block_H):
                    total[i] = total[i] * shrink[i] + part[i]
                for i, j in T.Parallel(block_H, dim):
                    acc[i, j] *= shrink[i]
                T.copy(scores, P_s)
                T.gemm(P_s, KV_s, acc, policy=rows)
            for i, j in T.Parallel(block_H, dim):
                acc[i, j] /= total[i]
            T.copy(acc, O[b, bx * block_H, 0])

    return main


def cases(kind, batch=2, heads=128, keys=1000, dim=512, rope=64):
    kernel, rng = mla_decode.get_tir(batch, heads, keys, dim, rope, *TILES[kind]), np.random.default_rng(0)
    shapes = [(n, width) for n in (heads, keys) for width in (dim, rope)]
    q, q_rope, kv, k_rope = (rng.standard_normal((batch, *s)).astype(np.float16) for s in shapes)
    wide = [np.concatenate(pair, -1).astype(np.float64) for pair in ((q, q_rope), (kv, k_rope))]
    p = wide[0] @ wide[1].transpose(0, 2, 1) / math.sqrt(dim + rope)
    p = np.exp(p - p.max(-1, keepdims=True))
    expected = p / p.sum(-1, keepdims=True) @ kv.astype(np.float64)
    arguments = [q, q_rope, kv, k_rope, harness.blank(q.shape, "float16")]
    yield harness.Case(f"{heads} heads, {keys} keys", kernel, arguments, {4: expected}, 1e-3)


if __name__ == "__main__":
    harness.main(__doc__, cases, TILES)
