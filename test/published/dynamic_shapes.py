"""T.dynamic: one kernel for all sizes, with strides that are known when the kernel runs only."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def add_kernel(block: int, dtype: str = "float32"):
    M, N = T.dynamic("M, N")
    sx, sy = T.dynamic("sx"), T.dynamic("sy")

    @T.prim_func
    def main(
        X: T.StridedTensor((M, N), (sx, 1), dtype),
        Y: T.StridedTensor((M, N), (sy, 1), dtype),
        Z: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block), M, threads=64) as (bx, by):
            for j in T.Parallel(block):
                Z[by, bx * block + j] = X[by, bx * block + j] + Y[by, bx * block + j]

    return main


@tilelang.jit
def row_sums(X, block: int = 32):
    M = T.dynamic("m")
    N = T.const("N")
    X: T.Tensor[[M, N], T.float32]
    S = T.empty([M], T.float32)
    with T.Kernel(T.ceildiv(M, 4), threads=64) as bx:
        rows = T.alloc_fragment([4, N], T.float32)
        total = T.alloc_fragment([4], T.float32)
        T.copy(X[bx * 4, 0], rows)
        T.reduce_sum(rows, total, dim=1)
        T.copy(total, S[bx * 4])
    return S


def run_regression_perf():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    kernel = add_kernel(64)
    x, y = (torch.randn(8, 100, device=device) for _ in range(2))
    profiler = kernel.get_profiler()
    return profiler.do_bench(input_tensors=[x, y], n_warmup=1, n_repeat=5)


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    kernel = add_kernel(64)
    for M, N in ((3, 64), (7, 100), (1, 5)):
        x, y = torch.randn(M, N, device=device), torch.randn(M, N + 9, device=device)[:, :N]
        assert not y.is_contiguous() or M == 1
        torch.testing.assert_close(kernel(x, y), x + y)

    before = row_sums(torch.ones(3, 32, device=device))
    torch.testing.assert_close(before, torch.full((3,), 32.0, device=device))
    for M in (4, 9, 31):
        x = torch.randn(M, 32, device=device)
        torch.testing.assert_close(row_sums(x), x.sum(1), rtol=1e-5, atol=1e-5)
    print("All checks passed.")


if __name__ == "__main__":
    main()
