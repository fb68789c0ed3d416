"""T.macro: parts of kernels with parameters by value and by reference, and with results."""

import tilelang
import tilelang.language as T
import torch


@T.macro
def increase(x: T.Ref, by):
    x = x + by  # noqa: F841


@T.macro
def swap(a: T.Ref, b: T.Ref):
    kept = T.alloc_var(T.float32)
    kept = a
    a = b  # noqa: F841
    b = kept  # noqa: F841


@T.macro
def square_sum(tile, rows, columns, out):
    squares = T.alloc_fragment((rows, columns), T.float32)
    for i, j in T.Parallel(rows, columns):
        squares[i, j] = tile[i, j] * tile[i, j]
    T.reduce_sum(squares, out, dim=1)


@T.macro
def clamp_to(value, limit):
    return T.max(T.min(value, limit), -limit)


class Tiles:
    """What a GEMM needs, together."""

    def __init__(self, block_M, block_N, block_K, dtype):
        self.block_M, self.block_N, self.block_K = block_M, block_N, block_K
        self.A = T.alloc_shared((block_M, block_K), dtype)
        self.B = T.alloc_shared((block_K, block_N), dtype)
        self.C = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(self.C)

    @T.macro
    def step(self, A, B, row, column, k):
        T.copy(A[row * self.block_M, k * self.block_K], self.A)
        T.copy(B[k * self.block_K, column * self.block_N], self.B)
        T.gemm(self.A, self.B, self.C)


@tilelang.jit
def norms_and_counts(X, block: int = 4):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Norms = T.empty((M,), T.float32)
    Counts = T.empty((T.ceildiv(M, block),), T.int32)
    Ends = T.empty((T.ceildiv(M, block), 2), T.float32)
    with T.Kernel(T.ceildiv(M, block), threads=64) as bx:
        tile = T.alloc_fragment((block, N), T.float32)
        sums = T.alloc_fragment((block,), T.float32)
        count = T.alloc_var(T.int32, init=0)
        first = T.alloc_var(T.float32, init=1.0)
        last = T.alloc_var(T.float32, init=2.0)
        T.copy(X[bx * block, 0], tile)
        square_sum(tile, block, N, sums)
        for i in T.Parallel(block):
            sums[i] = clamp_to(T.sqrt(sums[i]), 3.0)
        T.copy(sums, Norms[bx * block])
        for i in T.serial(block):
            if bx * block + i < M:
                increase(count, i + 1)
        swap(first, last)
        Counts[bx] = count
        Ends[bx, 0] = first
        Ends[bx, 1] = last
    return Norms, Counts, Ends


@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, block=32, dtype=T.float16):
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), T.float32)):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
            tiles = Tiles(block, block, block, dtype)
            for k in T.Pipelined(T.ceildiv(K, block), num_stages=2):
                tiles.step(A, B, by, bx, k)
            T.copy(tiles.C, C[by * block, bx * block])

    return main


def main(M=10, N=32):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(M, N, device=device)
    x[0] /= 10
    norms, counts, ends = norms_and_counts(x)
    torch.testing.assert_close(norms, x.norm(dim=1).clamp(max=3.0), rtol=1e-5, atol=1e-5)
    assert counts.tolist() == [10, 10, 3]
    assert ends.tolist() == [[2.0, 1.0]] * 3

    a = torch.randn(64, 64, device=device, dtype=torch.float16)
    b = torch.randn(64, 96, device=device, dtype=torch.float16)
    torch.testing.assert_close(matmul(64, 96, 64)(a, b), a.float() @ b.float(), rtol=1e-3, atol=1e-3)
    print("All checks passed.")


if __name__ == "__main__":
    main()
