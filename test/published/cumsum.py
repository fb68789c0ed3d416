"""Cumulative sums and maxima of tiles, by rows and columns, from either end."""

import tilelang
import tilelang.language as T
import tilelang.testing
import torch


def cumsum_shared(M, N, block_M, block_N, dim=0, reverse=False, dtype="float32"):
    @T.prim_func
    def cumsum(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_N), dtype)
            T.copy(A[by * block_M, bx * block_N], A_shared)
            T.cumsum(src=A_shared, dim=dim, reverse=reverse)
            T.copy(A_shared, B[by * block_M, bx * block_N])

    return cumsum


def cumsum_fragment(M, N, block_M, block_N, dim=0, reverse=False, dtype="float32"):
    @T.prim_func
    def cumsum(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_N), dtype)
            A_fragment = T.alloc_fragment((block_M, block_N), dtype)
            T.copy(A[by * block_M, bx * block_N], A_shared)
            T.copy(A_shared, A_fragment)
            T.cumsum(src=A_fragment, dim=dim, reverse=reverse)
            T.copy(A_fragment, B[by * block_M, bx * block_N])

    return cumsum


def running_max(N, reverse=False, dtype="int32"):
    @T.prim_func
    def cummax(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype)):
        with T.Kernel(1, threads=128):
            A_shared = T.alloc_shared((N,), dtype)
            B_shared = T.alloc_shared((N,), dtype)
            T.copy(A, A_shared)
            T.cummax(A_shared, B_shared, dim=0, reverse=reverse)
            T.copy(B_shared, B)

    return cummax


def run_cumsum(M, N, block_M, block_N, dim=0, reverse=False, dtype="float32", scope="smem"):
    make = cumsum_shared if scope == "smem" else cumsum_fragment
    jit_kernel = tilelang.compile(make(M, N, block_M, block_N, dim, reverse, dtype), out_idx=-1)

    def ref_program(A):
        ref_b = torch.empty_like(A)
        for i in range(M // block_M):
            for j in range(N // block_N):
                rows, columns = slice(i * block_M, (i + 1) * block_M), slice(j * block_N, (j + 1) * block_N)
                tile = A[rows, columns]
                tile = tile.flip(dim).cumsum(dim).flip(dim) if reverse else tile.cumsum(dim)
                ref_b[rows, columns] = tile
        return ref_b

    device = "cuda" if torch.cuda.is_available() else "cpu"
    A = torch.randn(M, N, dtype=getattr(torch, dtype), device=device)
    torch.testing.assert_close(jit_kernel(A), ref_program(A), atol=1e-3, rtol=1e-3)


def test_cumsum_smem():
    run_cumsum(64, 64, 32, 32)
    run_cumsum(64, 64, 32, 64, dim=1)
    run_cumsum(64, 64, 32, 32, dim=1, reverse=True)


def test_cumsum_fragment():
    run_cumsum(64, 64, 32, 32, scope="fragment")
    run_cumsum(64, 64, 32, 32, dim=1, reverse=True, scope="fragment")


def test_cummax():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a = torch.randint(-100, 100, (64,), dtype=torch.int32, device=device)
    kernels = [tilelang.compile(f, out_idx=[1]) for f in (running_max(64), running_max(64, reverse=True))]
    assert torch.equal(kernels[0](a), a.cummax(0).values)
    assert torch.equal(kernels[1](a), a.flip(0).cummax(0).values.flip(0))


if __name__ == "__main__":
    tilelang.testing.set_random_seed()
    test_cumsum_smem()
    test_cumsum_fragment()
    test_cummax()
