"""GEMM whose K is split over blocks that add into one output: with atomics on elements and on tiles."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def matmul_splitk(
    M,
    N,
    K,
    block_M,
    block_N,
    block_K,
    split_k,
    dtype=T.float16,
    accum_dtype=T.float32,
    out_dtype=T.float32,
    vectorized=False,
):
    splitK = K // split_k

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), C: T.Tensor((M, N), out_dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), split_k, threads=128) as (bx, by, bz):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            C_shared = T.alloc_shared((block_M, block_N), out_dtype)
            T.clear(C_local)
            for ko in T.Pipelined(T.ceildiv(splitK, block_K), num_stages=0):
                T.copy(A[by * block_M, bz * splitK + ko * block_K], A_shared)
                T.copy(B[bx * block_N, bz * splitK + ko * block_K], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C_shared)
            if vectorized:
                for i, j in T.Parallel(block_M, block_N // 2):
                    m, n = by * block_M + i, bx * block_N + j * 2
                    T.atomic_addx2(C[m, n], C_shared[i, j * 2])
            else:
                T.atomic_add(C[by * block_M, bx * block_N], C_shared)

    return main


@tilelang.jit(out_idx=[2])
def histogram_and_extremes(N, bins, block=64):
    @T.prim_func
    def main(
        X: T.Tensor((N,), T.int32),
        Ends: T.Tensor((2,), T.int32),
        Seen: T.Tensor((N,), T.int32),
        Counts: T.Tensor((bins,), T.int32),
    ):
        with T.Kernel(T.ceildiv(N, block), threads=64) as bx:
            for i in T.Parallel(block):
                if bx * block + i < N:
                    x = X[bx * block + i]
                    Seen[bx * block + i] = T.atomic_add(Counts[x % bins], 1, return_prev=True)
                    T.atomic_max(Ends[1], x, memory_order="relaxed")
                    T.atomic_min(Ends[0], x, memory_order="relaxed")

    return main


def main(M=64, N=64, K=256):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a = torch.randn(M, K, device=device, dtype=torch.float16)
    b = torch.randn(N, K, device=device, dtype=torch.float16)
    for vectorized in (False, True):
        kernel = matmul_splitk(M, N, K, 32, 32, 32, 4, vectorized=vectorized)
        c = torch.zeros(M, N, device=device, dtype=torch.float32)
        kernel(a, b, c)
        torch.testing.assert_close(c, a.float() @ b.float().T, rtol=1e-3, atol=1e-3)

    x = torch.randint(-1000, 1000, (500,), device=device, dtype=torch.int32)
    ends = torch.tensor([2**30, -(2**30)], device=device, dtype=torch.int32)
    counts = torch.zeros(7, device=device, dtype=torch.int32)
    seen = histogram_and_extremes(500, 7)(x, ends, counts)
    assert ends.tolist() == [x.min().item(), x.max().item()]
    assert counts.tolist() == torch.bincount(x.long() % 7, minlength=7).tolist()
    for bin in range(7):
        assert sorted(seen[x % 7 == bin].tolist()) == list(range(counts[bin]))
    print("All checks passed.")


if __name__ == "__main__":
    main()
