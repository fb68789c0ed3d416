"""GEMMs of several sizes in one launch, by tables of sizes and offsets; with the gradient of the weights."""

import argparse
import math

import tilelang
import tilelang.language as T
import torch


def torch_gmm(a, b, batch_sizes, trans_b=False):
    outputs, start = [], 0
    for i, size in enumerate(batch_sizes):
        part = a[start : start + size].float()
        outputs.append(part @ (b[i].float().T if trans_b else b[i].float()))
        start += size
    return torch.cat(outputs)


@tilelang.jit(out_idx=[2])
def grouped_gemm(
    batch_sizes_list, K, N, block_M, block_N, block_K, num_stages=2, threads=128, dtype=T.float16
):
    batch_sum = sum(batch_sizes_list)
    batch_count = len(batch_sizes_list)
    accum_dtype = T.float32
    total_m_blocks = sum((size + block_M - 1) // block_M for size in batch_sizes_list)

    @T.prim_func
    def kernel(
        A: T.Tensor([batch_sum, K], dtype),
        B: T.Tensor([batch_count, K, N], dtype),
        C: T.Tensor([batch_sum, N], dtype),
        batch_sizes: T.Tensor([batch_count], T.int32),
        batch_offsets: T.Tensor([batch_count], T.int32),
        batch_padded_offsets: T.Tensor([batch_count], T.int32),
    ):
        with T.Kernel(total_m_blocks, T.ceildiv(N, block_N), threads=threads) as (bx, by):
            A_shared = T.alloc_shared([block_M, block_K], dtype)
            B_shared = T.alloc_shared([block_K, block_N], dtype)
            C_local = T.alloc_fragment([block_M, block_N], accum_dtype)
            cur_batch_idx = T.alloc_var(dtype=T.int32)
            cur_batch_size = T.alloc_var(dtype=T.int32)

            m_start_padded = bx * block_M
            cur_batch_idx = 0
            for i in range(batch_count):
                in_cur_batch_idx = m_start_padded >= batch_padded_offsets[i]
                cur_batch_idx = T.if_then_else(in_cur_batch_idx, i, cur_batch_idx)
            cur_batch_size = batch_sizes[cur_batch_idx]
            m_start = m_start_padded - batch_padded_offsets[cur_batch_idx] + batch_offsets[cur_batch_idx]
            actual_rows = T.max(
                0, T.min(block_M, cur_batch_size + batch_padded_offsets[cur_batch_idx] - m_start_padded)
            )

            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[m_start : m_start + block_M, k * block_K : (k + 1) * block_K], A_shared)
                T.copy(
                    B[cur_batch_idx, k * block_K : (k + 1) * block_K, by * block_N : (by + 1) * block_N],
                    B_shared,
                )
                T.gemm(A_shared, B_shared, C_local)
            for i, j in T.Parallel(block_M, block_N):
                if i < actual_rows:
                    C[m_start + i, by * block_N + j] = C_local[i, j]

    return kernel


@tilelang.jit(out_idx=[2])
def grouped_gemm_bwd(batch_sum, batch_count, M, N, block_M, block_N, block_K, dtype=T.float16):
    @T.prim_func
    def kernel(
        A: T.Tensor([batch_sum, M], dtype),
        B: T.Tensor([batch_sum, N], dtype),
        C: T.Tensor([batch_count, M, N], dtype),
        batch_sizes: T.Tensor([batch_count], T.int32),
        batch_offsets: T.Tensor([batch_count], T.int32),
    ):
        with T.Kernel(T.ceildiv(M, block_M), T.ceildiv(N, block_N), batch_count, threads=128) as (bx, by, bz):
            A_shared = T.alloc_shared([block_K, block_M], dtype)
            B_shared = T.alloc_shared([block_K, block_N], dtype)
            C_local = T.alloc_fragment([block_M, block_N], T.float32)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(batch_sizes[bz], block_K), num_stages=1):
                for i, j in T.Parallel(block_K, block_M):
                    A_shared[i, j] = T.if_then_else(
                        i < batch_sizes[bz] - k * block_K,
                        A[batch_offsets[bz] + k * block_K + i, bx * block_M + j],
                        0,
                    )
                for i, j in T.Parallel(block_K, block_N):
                    B_shared[i, j] = T.if_then_else(
                        i < batch_sizes[bz] - k * block_K,
                        B[batch_offsets[bz] + k * block_K + i, by * block_N + j],
                        0,
                    )
                T.gemm(A_shared, B_shared, C_local, transpose_A=True)
            T.copy(C_local, C[bz, bx * block_M, by * block_N])

    return kernel


def construct_inputs(batch_sizes_list, K, N, padding_M, device, dtype):
    offsets, padded = [0], [0]
    for size in batch_sizes_list[:-1]:
        offsets.append(offsets[-1] + size)
        padded.append(padded[-1] + math.ceil(size / padding_M) * padding_M)
    A = torch.randn(sum(batch_sizes_list), K, device=device, dtype=dtype)
    B = torch.randn(len(batch_sizes_list), K, N, device=device, dtype=dtype)
    tables = [
        torch.tensor(table, device=device, dtype=torch.int32) for table in (batch_sizes_list, offsets, padded)
    ]
    return A, B, *tables


class _GroupedGEMM(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, sizes, offsets, padded):
        ctx.save_for_backward(a, b, sizes, offsets)
        kernel = grouped_gemm(tuple(sizes.tolist()), a.shape[1], b.shape[2], 32, 32, 32)
        return kernel(a, b, sizes, offsets, padded)

    @staticmethod
    def backward(ctx, grad):
        a, b, sizes, offsets = ctx.saved_tensors
        kernel = grouped_gemm_bwd(a.shape[0], len(sizes), a.shape[1], grad.shape[1], 32, 32, 32)
        return None, kernel(a, grad.contiguous(), sizes, offsets), None, None, None


def main(batch_sizes_list=(17, 40, 32), K=64, N=64, block_M=32):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    A, B, sizes, offsets, padded = construct_inputs(batch_sizes_list, K, N, block_M, device, torch.float16)
    B.requires_grad_()
    out = _GroupedGEMM.apply(A, B, sizes, offsets, padded)
    torch.testing.assert_close(out.float(), torch_gmm(A, B, batch_sizes_list), rtol=1e-2, atol=1e-2)
    grad = torch.randn_like(out)
    out.backward(grad)
    start = 0
    for i, size in enumerate(batch_sizes_list):
        ref = A[start : start + size].float().T @ grad[start : start + size].float()
        torch.testing.assert_close(B.grad[i].float(), ref, rtol=1e-2, atol=5e-2)
        start += size
    print("All checks pass.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_sizes", type=str, default="17,40,32", help="comma-separated batch sizes")
    parser.add_argument("--K", type=int, default=64, help="reduce dim")
    parser.add_argument("--N", type=int, default=64, help="output dim")
    args = parser.parse_args()
    main([int(size) for size in args.batch_sizes.split(",")], args.K, args.N)
