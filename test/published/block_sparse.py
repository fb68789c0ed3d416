"""Block sparsity: a GEMM that skips blocks by a mask, an attention that walks a list of blocks."""

import tilelang
import tilelang.language as T
import torch
from tilelang.layout import make_swizzled_layout


@tilelang.jit(out_idx=[-1])
def blocksparse_matmul(
    M,
    N,
    K,
    block_M,
    block_N,
    block_K,
    num_stages,
    thread_num,
    enable_rasteration=True,
    dtype=T.float16,
    accum_dtype=T.float32,
):
    block_mask_shape = (M // block_M, N // block_N, K // block_K)

    @T.prim_func
    def block_sparse_matmul(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        BlockMask: T.Tensor(block_mask_shape, "bool"),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=thread_num) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            C_shared = T.alloc_shared((block_M, block_N), dtype)
            T.annotate_layout({C_shared: make_swizzled_layout(C_shared)})
            T.use_swizzle(panel_size=10, enable=enable_rasteration)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                if BlockMask[by, bx, k]:
                    T.copy(A[by * block_M, k * block_K], A_shared)
                    T.copy(B[k * block_K, bx * block_N], B_shared)
                    T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C_shared)
            T.copy(C_shared, C[by * block_M, bx * block_N])

    return block_sparse_matmul


@tilelang.jit
def sparse_attention(Q, K, V, Indices, block_M: int = 16, block_N: int = 32):
    batch, heads, seq, dim, selected = T.const("batch, heads, seq, dim, selected")
    scale = (1.0 / dim) ** 0.5 * 1.44269504
    q_blocks = T.ceildiv(seq, block_M)
    Indices: T.Tensor[[batch, T.ceildiv(seq, block_M), selected], T.int32]
    Q: T.Tensor[[batch, heads, seq, dim], T.float16]
    K: T.Tensor[[batch, heads, seq, dim], T.float16]
    V: T.Tensor[[batch, heads, seq, dim], T.float16]
    O = T.empty([batch, heads, seq, dim], T.float16)

    with T.Kernel(q_blocks, heads, batch, threads=64) as (bx, by, bz):
        Q_shared = T.alloc_shared([block_M, dim], T.float16)
        K_shared = T.alloc_shared([block_N, dim], T.float16)
        V_shared = T.alloc_shared([block_N, dim], T.float16)
        acc_s = T.alloc_fragment([block_M, block_N], T.float32)
        acc_s_cast = T.alloc_fragment([block_M, block_N], T.float16)
        acc_o = T.alloc_fragment([block_M, dim], T.float32)
        m_i = T.alloc_fragment([block_M], T.float32)
        m_prev = T.alloc_fragment([block_M], T.float32)
        alpha = T.alloc_fragment([block_M], T.float32)
        row_sum = T.alloc_fragment([block_M], T.float32)
        l_i = T.alloc_fragment([block_M], T.float32)
        T.copy(Q[bz, by, bx * block_M : (bx + 1) * block_M, :], Q_shared)
        T.clear(acc_o)
        T.clear(l_i)
        T.fill(m_i, -T.infinity(T.float32))
        for n in T.serial(selected):
            block = Indices[bz, bx, n]
            if block >= 0:
                T.copy(K[bz, by, block * block_N : (block + 1) * block_N, :], K_shared)
                T.copy(V[bz, by, block * block_N : (block + 1) * block_N, :], V_shared)
                T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, clear_accum=True)
                T.copy(m_i, m_prev)
                T.reduce_max(acc_s, m_i, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    alpha[i] = T.exp2((m_prev[i] - m_i[i]) * scale)
                for i, j in T.Parallel(block_M, block_N):
                    acc_s[i, j] = T.exp2((acc_s[i, j] - m_i[i]) * scale)
                T.reduce_sum(acc_s, row_sum, dim=1)
                for i in T.Parallel(block_M):
                    l_i[i] = l_i[i] * alpha[i] + row_sum[i]
                for i, j in T.Parallel(block_M, dim):
                    acc_o[i, j] *= alpha[i]
                T.copy(acc_s, acc_s_cast)
                T.gemm(acc_s_cast, V_shared, acc_o)
        for i, j in T.Parallel(block_M, dim):
            acc_o[i, j] /= l_i[i]
        T.copy(acc_o, O[bz, by, bx * block_M : (bx + 1) * block_M, :])
    return O


def check_matmul(device, M=64, N=64, K=96, block=32):
    a = torch.randn(M, K, device=device, dtype=torch.float16)
    b = torch.randn(K, N, device=device, dtype=torch.float16)
    mask = torch.rand(M // block, N // block, K // block, device=device) > 0.5
    kernel = blocksparse_matmul(M, N, K, block, block, block, 2, 128)
    ref = torch.zeros(M, N, device=device)
    for i, j, k in mask.nonzero().tolist():
        rows, columns, depth = (slice(n * block, (n + 1) * block) for n in (i, j, k))
        ref[rows, columns] += a[rows, depth].float() @ b[depth, columns].float()
    torch.testing.assert_close(kernel(a, b, mask).float(), ref, rtol=1e-2, atol=1e-2)


def check_attention(device, batch=1, heads=2, seq=96, dim=32, block_M=16, block_N=32, selected=2):
    q, k, v = (torch.randn(batch, heads, seq, dim, device=device, dtype=torch.float16) for _ in range(3))
    blocks = seq // block_N
    indices = torch.stack([torch.randperm(blocks)[:selected] for _ in range(batch * seq // block_M)])
    indices[::3, -1] = -1
    indices = indices.reshape(batch, seq // block_M, selected).to(torch.int32).to(device)
    out = sparse_attention(q, k, v, indices)
    mask = torch.zeros(batch, seq // block_M, blocks + 1, dtype=torch.bool, device=device)
    mask.scatter_(2, indices.long() % (blocks + 1), True)
    mask = mask[..., :blocks].repeat_interleave(block_M, 1).repeat_interleave(block_N, 2)
    scores = q.float() @ k.float().transpose(-1, -2) / dim**0.5
    ref = scores.masked_fill(~mask[:, None], float("-inf")).softmax(-1) @ v.float()
    torch.testing.assert_close(out.float(), ref, rtol=1e-2, atol=1e-2)


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    check_matmul(device)
    check_attention(device)
    print("All checks pass.")


if __name__ == "__main__":
    main()
