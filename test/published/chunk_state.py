"""States of chunks with gates: a cumulative sum of the gates within each chunk, then a decayed product."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def chunk_local_cumsum(B, S, H, chunk_size, reverse=False, dtype="float32"):
    @T.prim_func
    def main(G: T.Tensor((B, S, H), dtype), G_new: T.Tensor((B, S, H), dtype)):
        with T.Kernel(T.ceildiv(S, chunk_size), B * H, threads=128) as (bs, bbh):
            bb, bh = bbh // H, bbh % H
            G_shared = T.alloc_shared((1, chunk_size), dtype, scope="shared")
            for i in T.Parallel(chunk_size):
                G_shared[0, i] = G[bb, bs * chunk_size + i, bh]
            T.cumsum(G_shared, dim=1, reverse=reverse)
            for i in T.Parallel(chunk_size):
                G_new[bb, bs * chunk_size + i, bh] = G_shared[0, i]

    return main


@tilelang.jit(out_idx=[3])
def chunk_state_fwd(
    batch,
    seqlen,
    chunk_size,
    ngroups,
    nheads,
    headdim,
    dstate,
    block_M=32,
    block_N=32,
    block_K=32,
    num_stages=2,
    threads=128,
):
    dtype = T.float16
    accum_dtype = T.float32
    nchunks = T.ceildiv(seqlen, chunk_size)
    p = 1.44269504

    @T.prim_func
    def main(
        B: T.Tensor((batch, seqlen, ngroups, dstate), dtype),
        x: T.Tensor((batch, seqlen, nheads, headdim), dtype),
        dA_cumsum: T.Tensor((batch, nheads, nchunks, chunk_size), accum_dtype),
        Output: T.Tensor((batch, nchunks, nheads, headdim, dstate), dtype),
    ):
        with T.Kernel(
            nheads, T.ceildiv(headdim, block_M) * T.ceildiv(dstate, block_N), batch * nchunks, threads=threads
        ) as (bz, bx, by):
            x_shared = T.alloc_shared((block_K, block_M), dtype)
            x_local = T.alloc_fragment((block_K, block_M), dtype)
            xt_local = T.alloc_fragment((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            dA_cumsum_shared = T.alloc_shared((block_K), accum_dtype)
            dA_cumsum_local = T.alloc_fragment((block_K), accum_dtype)
            acc_o = T.alloc_fragment((block_M, block_N), accum_dtype)
            acc_o_shared = T.alloc_shared((block_M, block_N), dtype)
            scale = T.alloc_fragment((block_K), accum_dtype)
            dA_cs_last = T.alloc_fragment((1), accum_dtype)

            loop_range = T.ceildiv(chunk_size, block_K)
            batch_idx = by % batch
            chunk_idx = by // batch
            m_idx = bx // T.ceildiv(dstate, block_N)
            n_idx = bx % T.ceildiv(dstate, block_N)

            dA_cs_last[0] = dA_cumsum[batch_idx, bz, chunk_idx, chunk_size - 1]
            T.clear(acc_o)
            for k in T.Pipelined(loop_range, num_stages=num_stages):
                T.copy(
                    x[
                        batch_idx,
                        chunk_idx * chunk_size + k * block_K : chunk_idx * chunk_size + (k + 1) * block_K,
                        bz,
                        m_idx * block_M : (m_idx + 1) * block_M,
                    ],
                    x_shared,
                )
                T.copy(dA_cumsum[batch_idx, bz, chunk_idx, k * block_K : (k + 1) * block_K], dA_cumsum_shared)
                T.copy(dA_cumsum_shared, dA_cumsum_local)
                for i in T.Parallel(block_K):
                    scale[i] = T.exp2(dA_cs_last[0] * p - dA_cumsum_local[i] * p)
                T.copy(x_shared, x_local)
                for i, j in T.Parallel(block_M, block_K):
                    xt_local[i, j] = x_local[j, i] * scale[j]
                T.copy(
                    B[
                        batch_idx,
                        chunk_idx * chunk_size + k * block_K : chunk_idx * chunk_size + (k + 1) * block_K,
                        bz // (nheads // ngroups),
                        n_idx * block_N : (n_idx + 1) * block_N,
                    ],
                    B_shared,
                )
                T.gemm(xt_local, B_shared, acc_o)
            T.copy(acc_o, acc_o_shared)
            T.copy(
                acc_o_shared,
                Output[
                    batch_idx,
                    chunk_idx,
                    bz,
                    m_idx * block_M : (m_idx + 1) * block_M,
                    n_idx * block_N : (n_idx + 1) * block_N,
                ],
            )

    return main


def ref_program(B, x, dA_cumsum, chunk_size):
    batch, seqlen, nheads, headdim = x.shape
    B = B.repeat_interleave(nheads // B.shape[2], dim=2).float()
    decay = torch.exp(dA_cumsum[..., -1:] - dA_cumsum)
    x, B = (t.float().reshape(batch, seqlen // chunk_size, chunk_size, nheads, -1) for t in (x, B))
    return torch.einsum("bclhn,bhcl,bclhp->bchpn", B, decay, x)


def main(batch=1, seqlen=128, chunk_size=64, ngroups=1, heads=2, headdim=32, dstate=32):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    gates = -torch.rand(batch, seqlen, heads, device=device) * 0.1
    chunks = gates.reshape(batch, -1, chunk_size, heads)
    forward = chunk_local_cumsum(batch, seqlen, heads, chunk_size)(gates)
    torch.testing.assert_close(forward, chunks.cumsum(2).reshape(gates.shape), rtol=1e-5, atol=1e-5)
    backward = chunk_local_cumsum(batch, seqlen, heads, chunk_size, reverse=True)(gates)
    torch.testing.assert_close(
        backward, chunks.flip(2).cumsum(2).flip(2).reshape(gates.shape), rtol=1e-5, atol=1e-5
    )

    B = torch.randn(batch, seqlen, ngroups, dstate, device=device, dtype=torch.float16)
    x = torch.randn(batch, seqlen, heads, headdim, device=device, dtype=torch.float16)
    dA_cumsum = forward.reshape(batch, -1, chunk_size, heads).permute(0, 3, 1, 2).contiguous()
    kernel = chunk_state_fwd(batch, seqlen, chunk_size, ngroups, heads, headdim, dstate)
    states = kernel(B, x, dA_cumsum)
    torch.testing.assert_close(states.float(), ref_program(B, x, dA_cumsum, chunk_size), rtol=1e-2, atol=5e-2)
    print("All checks pass.")


if __name__ == "__main__":
    main()
