"""GEMM of eight-bit floats: the type is the device's, each row has a scale, sums are float32."""

import tilelang
import tilelang.language as T
import torch
from tilelang.language.fp8 import determine_fp8_type, determine_torch_fp8_type

FP8 = determine_fp8_type()


@tilelang.jit
def gemm_fp8(A, B, block_M: int = 32, block_N: int = 32, block_K: int = 64, dtype: str = FP8):
    M, N, K = T.const("M, N, K")
    k_blocks = T.ceildiv(K, block_K)
    accum_dtype = T.float32
    A: T.Tensor((M, K), dtype)
    B: T.Tensor((N, K), dtype)
    C = T.empty((M, N), accum_dtype)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), dtype)
        B_shared = T.alloc_shared((block_N, block_K), dtype)
        C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
        C_accum = T.alloc_fragment((block_M, block_N), accum_dtype)
        T.clear(C_local)
        T.clear(C_accum)
        for k in T.Pipelined(k_blocks, num_stages=3):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[bx * block_N, k * block_K], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            # The partial sums go to a second accumulator now and then.
            if (k + 1) % 2 == 0 or k == k_blocks - 1:
                for i, j in T.Parallel(block_M, block_N):
                    C_accum[i, j] += C_local[i, j]
                T.clear(C_local)
        T.copy(C_accum, C[by * block_M, bx * block_N])
    return C


@tilelang.jit(out_idx=[1, 2])
def per_token_cast_to_fp8(M, N, blk_m, dtype="float8_e4m3fn"):
    fp8_max = 448.0 if "e4m3" in dtype else 57344.0

    @T.prim_func
    def per_token_cast(
        X: T.Tensor((M, N), T.float32),
        X_fp8: T.Tensor((M, N), dtype),
        X_amax: T.Tensor((M,), T.float32),
    ):
        with T.Kernel(T.ceildiv(M, blk_m), threads=128) as bx:
            y_local = T.alloc_fragment((blk_m, N), T.float32)
            y_amax_local = T.alloc_fragment((blk_m,), T.float32)
            y_s_local = T.alloc_fragment((blk_m,), T.float32)
            y_q_local = T.alloc_fragment((blk_m, N), T.float32)
            y_q_local_fp8 = T.alloc_fragment((blk_m, N), dtype)
            T.copy(X[bx * blk_m, 0], y_local)
            T.reduce_absmax(y_local, y_amax_local, dim=1)
            for i in T.Parallel(blk_m):
                y_amax_local[i] = T.max(y_amax_local[i], 1e-4)
                y_s_local[i] = y_amax_local[i] / fp8_max
            for i, j in T.Parallel(blk_m, N):
                y_q_local[i, j] = T.clamp(y_local[i, j] / y_s_local[i], -fp8_max, fp8_max)
            T.copy(y_q_local, y_q_local_fp8)
            for i in T.Parallel(blk_m):
                X_amax[bx * blk_m + i] = y_s_local[i]
            T.copy(y_q_local_fp8, X_fp8[bx * blk_m, 0])

    return per_token_cast


def main(M=48, N=64, K=160):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch_dtype = determine_torch_fp8_type("e4m3")
    assert determine_fp8_type("e4m3").startswith("float8_e4m3")
    a, b = torch.randn(M, K, device=device), torch.randn(N, K, device=device)
    a8, sa = per_token_cast_to_fp8(M, K, 8)(a)
    b8, sb = per_token_cast_to_fp8(N, K, 8)(b)
    assert a8.dtype == torch_dtype
    torch.testing.assert_close(a8.float() * sa[:, None], a, rtol=0.07, atol=0.02)
    c = gemm_fp8(a8, b8)
    torch.testing.assert_close(c, a8.float() @ b8.float().T, rtol=1e-3, atol=1.0)
    scaled = c * sa[:, None] * sb[None, :]
    assert torch.nn.functional.cosine_similarity(scaled.flatten(), (a @ b.T).flatten(), dim=0) > 0.99
    e5m2 = a.to(determine_torch_fp8_type("e5m2"))
    other = b.to(e5m2.dtype)
    c = gemm_fp8(e5m2, other, dtype=determine_fp8_type("e5m2"))
    torch.testing.assert_close(c, e5m2.float() @ other.float().T, rtol=1e-3, atol=1e-2)
    print("All checks passed.")


if __name__ == "__main__":
    main()
