"""Eager GEMM with an epilogue: what depends on the sizes is computed above the annotations that bind them."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def matmul_relu(
    A, B, block_M: int = 32, block_N: int = 32, block_K: int = 32, dtype=T.float16, accum_dtype=T.float32
):
    M, N, K = T.const("M, N, K")
    assert K % block_K == 0, "K has to be a multiple of block_K"
    k_blocks = T.ceildiv(K, block_K)
    grid = (T.ceildiv(N, block_N), T.ceildiv(M, block_M))

    A: T.Tensor[[M, K], dtype]
    B: T.Tensor[[K, N], dtype]
    C = T.empty([M, N], dtype)

    with T.Kernel(*grid, threads=128) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), dtype)
        B_shared = T.alloc_shared((block_K, block_N), dtype)
        C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
        T.clear(C_local)
        for k in T.Pipelined(k_blocks, num_stages=2):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        for i, j in T.Parallel(block_M, block_N):
            C_local[i, j] = T.max(C_local[i, j], 0)
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C


def ref_program(a, b):
    return torch.relu(a.float() @ b.float()).to(a.dtype)


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    M, N, K = 96, 80, 64
    a = torch.randn(M, K, device=device, dtype=torch.float16)
    b = torch.randn(K, N, device=device, dtype=torch.float16)

    c = matmul_relu(a, b)
    torch.testing.assert_close(c, ref_program(a, b), rtol=1e-2, atol=1e-2)

    # Tile sizes are keywords; the sizes of the tensors may be given as keywords as well.
    c = matmul_relu(a, b, block_M=16, block_K=16)
    torch.testing.assert_close(c, ref_program(a, b), rtol=1e-2, atol=1e-2)
    c = matmul_relu(a, b, M=M, N=N, K=K)
    torch.testing.assert_close(c, ref_program(a, b), rtol=1e-2, atol=1e-2)

    kernel = matmul_relu.compile(M=M, N=N, K=K)
    torch.testing.assert_close(kernel(a, b), ref_program(a, b), rtol=1e-2, atol=1e-2)
    assert kernel.get_kernel_source() == matmul_relu.get_kernel_source(M=M, N=N, K=K)

    try:
        matmul_relu(a[:, :63].contiguous(), b[:63])
    except Exception as error:
        assert "K has to be a multiple of block_K" in str(error)
    else:
        raise AssertionError("63 is no multiple of 32")
    print("All checks passed.")


if __name__ == "__main__":
    main()
