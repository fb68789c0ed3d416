"""The plain tile program of a GEMM that gemm_gpu.py and peers measure; the published package takes it too.

panels: how many columns of tiles are visited together, 0: what the compiler finds best (ours on Hopper)."""

import tilelang
import tilelang.language as T


@tilelang.jit(target="cuda")
def matmul(
    M,
    N,
    K,
    block_M,
    block_N,
    block_K,
    stages,
    threads,
    transposed,
    dtype="float16",
    out_dtype="float16",
    panels=8,
):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((N, K) if transposed else (K, N), dtype),
        C: T.Tensor((M, N), out_dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K) if transposed else (block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            if panels:
                T.use_swizzle(panels)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                if transposed:
                    T.copy(B[bx * block_N, k * block_K], B_shared)
                else:
                    T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=transposed)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main
