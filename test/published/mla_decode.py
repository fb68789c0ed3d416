"""Latent attention of one new token: all heads share a cache of compressed keys, which are the values too."""

import tilelang
import tilelang.language as T
import torch
from tilelang.profiler import do_bench


@tilelang.jit(
    pass_configs={
        tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True,
        tilelang.PassConfigKey.TL_DISABLE_WARP_SPECIALIZED: True,
    }
)
def flashmla_decode(Q, Q_pe, KV, K_pe, block_N: int = 32, block_H: int = 16, softmax_scale: float = 0.1):
    batch, heads, dim, pe_dim = T.const("batch, heads, dim, pe_dim")
    seqlen_kv, kv_head_num = T.const("seqlen_kv, kv_head_num")
    dtype, accum_dtype = T.float16, T.float32
    scale = softmax_scale * 1.44269504
    kv_group_num = heads // kv_head_num
    VALID_BLOCK_H = T.min(block_H, kv_group_num)
    assert kv_head_num == 1, "kv_head_num must be 1"

    Q: T.Tensor[[batch, heads, dim], dtype]
    Q_pe: T.Tensor[[batch, heads, pe_dim], dtype]
    KV: T.Tensor[[batch, seqlen_kv, kv_head_num, dim], dtype]
    K_pe: T.Tensor[[batch, seqlen_kv, kv_head_num, pe_dim], dtype]
    Output = T.empty([batch, heads, dim], dtype)

    with T.Kernel(heads // VALID_BLOCK_H, batch, threads=128) as (hid, bid):
        Q_shared = T.alloc_shared([block_H, dim], dtype)
        S_shared = T.alloc_shared([block_H, block_N], dtype)
        Q_pe_shared = T.alloc_shared([block_H, pe_dim], dtype)
        KV_shared = T.alloc_shared([block_N, dim], dtype)
        K_pe_shared = T.alloc_shared([block_N, pe_dim], dtype)
        acc_s = T.alloc_fragment([block_H, block_N], accum_dtype)
        acc_o = T.alloc_fragment([block_H, dim], accum_dtype)
        scores_max = T.alloc_fragment([block_H], accum_dtype)
        scores_max_prev = T.alloc_fragment([block_H], accum_dtype)
        scores_scale = T.alloc_fragment([block_H], accum_dtype)
        scores_sum = T.alloc_fragment([block_H], accum_dtype)
        logsum = T.alloc_fragment([block_H], accum_dtype)

        T.use_swizzle(10)
        T.copy(Q[bid, hid * VALID_BLOCK_H : (hid + 1) * VALID_BLOCK_H, :], Q_shared)
        T.copy(Q_pe[bid, hid * VALID_BLOCK_H : (hid + 1) * VALID_BLOCK_H, :], Q_pe_shared)
        T.fill(acc_o, 0)
        T.fill(logsum, 0)
        T.fill(scores_max, -T.infinity(accum_dtype))
        for k in T.Pipelined(T.ceildiv(seqlen_kv, block_N), num_stages=2):
            T.copy(KV[bid, k * block_N : (k + 1) * block_N, 0, :], KV_shared)
            T.copy(K_pe[bid, k * block_N : (k + 1) * block_N, 0, :], K_pe_shared)
            T.gemm(
                Q_shared,
                KV_shared,
                acc_s,
                transpose_B=True,
                policy=T.GemmWarpPolicy.FullCol,
                clear_accum=True,
            )
            T.gemm(Q_pe_shared, K_pe_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
            T.copy(scores_max, scores_max_prev)
            T.fill(scores_max, -T.infinity(accum_dtype))
            T.reduce_max(acc_s, scores_max, dim=1, clear=False)
            for i in T.Parallel(block_H):
                scores_max[i] = T.max(scores_max[i], scores_max_prev[i])
                scores_scale[i] = T.exp2(scores_max_prev[i] * scale - scores_max[i] * scale)
            for i, j in T.Parallel(block_H, block_N):
                acc_s[i, j] = T.exp2(acc_s[i, j] * scale - scores_max[i] * scale)
            T.reduce_sum(acc_s, scores_sum, dim=1)
            T.copy(acc_s, S_shared)
            for i in T.Parallel(block_H):
                logsum[i] = logsum[i] * scores_scale[i] + scores_sum[i]
            for i, j in T.Parallel(block_H, dim):
                acc_o[i, j] *= scores_scale[i]
            T.gemm(S_shared, KV_shared, acc_o, policy=T.GemmWarpPolicy.FullCol)
        for i, j in T.Parallel(block_H, dim):
            acc_o[i, j] /= logsum[i]
        T.copy(acc_o, Output[bid, hid * VALID_BLOCK_H : (hid + 1) * VALID_BLOCK_H, :])
    return Output


def ref_program(q, q_pe, kv, k_pe, softmax_scale):
    scores = torch.einsum("bhd,bsgd->bhs", q.float(), kv.float())
    scores += torch.einsum("bhd,bsgd->bhs", q_pe.float(), k_pe.float())
    return torch.einsum("bhs,bsgd->bhd", (scores * softmax_scale).softmax(-1), kv.float())


def main(batch=2, heads=16, kv_heads=1, kv_ctx=96, dim=64, pe_dim=32):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    q = torch.randn(batch, heads, dim, device=device, dtype=torch.float16)
    q_pe = torch.randn(batch, heads, pe_dim, device=device, dtype=torch.float16)
    kv = torch.randn(batch, kv_ctx, kv_heads, dim, device=device, dtype=torch.float16)
    k_pe = torch.randn(batch, kv_ctx, kv_heads, pe_dim, device=device, dtype=torch.float16)
    scale = (dim + pe_dim) ** -0.5
    out = flashmla_decode(q, q_pe, kv, k_pe, softmax_scale=scale)
    torch.testing.assert_close(out.float(), ref_program(q, q_pe, kv, k_pe, scale), rtol=1e-2, atol=1e-2)
    latency = do_bench(lambda: flashmla_decode(q, q_pe, kv, k_pe, softmax_scale=scale), warmup=1, rep=5)
    flops = 2 * batch * heads * kv_ctx * (2 * dim + pe_dim)
    print(f"Latency: {latency} ms, {flops / latency * 1e-9} TFlops")


if __name__ == "__main__":
    main()
