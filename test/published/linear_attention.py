"""Causal linear attention by chunks: a masked product within a chunk, a state carried between chunks."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(
    out_idx=[3, 4], pass_configs={"tl.disable_tma_lower": True, "tl.disable_warp_specialized": True}
)
def tl_fused_chunk_fwd_kernel(B, S, H, DK, DV, dtype: str = "float16", scale: float = None):
    if scale is None:
        scale = DK**-0.5
    accum_dtype = "float"
    chunk_size = 32
    BK = BV = 32
    assert S % chunk_size == 0 and DK % BK == 0 and DV % BV == 0
    NK, NV, NT = tilelang.cdiv(DK, BK), tilelang.cdiv(DV, BV), tilelang.cdiv(S, chunk_size)

    @T.prim_func
    def fused_chunk_linear_attn_fwd(
        Q: T.Tensor([B, S, H, DK], dtype),
        K: T.Tensor([B, S, H, DK], dtype),
        V: T.Tensor([B, S, H, DV], dtype),
        O: T.Tensor([NK, B, S, H, DV], accum_dtype),
        final_state: T.Tensor([B, H, DK, DV], accum_dtype),
    ):
        with T.Kernel(NV, NK, B * H, threads=128) as (i_v, i_k, i_bh):
            i_b = i_bh // H
            i_h = i_bh % H
            q = T.alloc_shared([chunk_size, BK], dtype)
            k = T.alloc_shared([chunk_size, BK], dtype)
            v = T.alloc_shared([chunk_size, BV], dtype)
            h = T.alloc_fragment([BK, BV], accum_dtype)
            h_shared = T.alloc_shared([BK, BV], dtype)
            s = T.alloc_fragment([chunk_size, chunk_size], accum_dtype)
            s_shared = T.alloc_shared([chunk_size, chunk_size], dtype)
            o = T.alloc_fragment([chunk_size, BV], accum_dtype)

            T.annotate_layout({s_shared: tilelang.layout.make_swizzled_layout(s_shared)})
            T.use_swizzle(10)
            T.clear(h)
            for i in T.Pipelined(0, NT):
                for row, col in T.Parallel(chunk_size, BK):
                    q[row, col] = Q[i_b, i * chunk_size + row, i_h, i_k * BK + col] * scale
                T.copy(K[i_b, i * chunk_size : (i + 1) * chunk_size, i_h, i_k * BK : (i_k + 1) * BK], k)
                T.copy(V[i_b, i * chunk_size : (i + 1) * chunk_size, i_h, i_v * BV : (i_v + 1) * BV], v)
                T.gemm(q, k, s, clear_accum=True, transpose_B=True)
                for row, col in T.Parallel(chunk_size, chunk_size):
                    s_shared[row, col] = T.if_then_else(row >= col, s[row, col], 0)
                T.gemm(s_shared, v, o, clear_accum=True)
                T.copy(h, h_shared)
                T.gemm(k, v, h, transpose_A=True)
                T.gemm(q, h_shared, o)
                T.copy(o, O[i_k, i_b, i * chunk_size : (i + 1) * chunk_size, i_h, i_v * BV : (i_v + 1) * BV])
            T.copy(h, final_state[i_b, i_h, i_k * BK : (i_k + 1) * BK, i_v * BV : (i_v + 1) * BV])

    return fused_chunk_linear_attn_fwd


def tl_fused_chunk_fwd(q, k, v):
    B, S, H, D = q.shape
    kernel = tl_fused_chunk_fwd_kernel(B, S, H, D, v.shape[-1])
    o, final_state = kernel(q, k, v)
    return o.sum(0), final_state


def ref_program(q, k, v, scale=None):
    q, k, v = q.float(), k.float(), v.float()
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = torch.einsum("bihd,bjhd->bhij", q * scale, k).tril()
    o = torch.einsum("bhij,bjhd->bihd", scores, v)
    return o, torch.einsum("bshk,bshv->bhkv", k, v)


def main(B=1, S=96, H=2, D=64):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    q, k, v = (torch.randn(B, S, H, D, device=device, dtype=torch.float16) / 4 for _ in range(3))
    o, h = tl_fused_chunk_fwd(q, k, v)
    o_ref, h_ref = ref_program(q, k, v)
    torch.testing.assert_close(o, o_ref, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(h, h_ref, rtol=1e-2, atol=1e-2)
    print("Passed all tests!")


if __name__ == "__main__":
    main()
