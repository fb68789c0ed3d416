"""Softmax over long rows, in one pass over blocks of a row (online) and in one piece."""

import tilelang
import tilelang.language as T
import torch
from tilelang.profiler import do_bench


@tilelang.jit(out_idx=[1])
def softmax_kernel(M, N, block_N=64, dtype: T.dtype = T.float16):
    accum_dtype = T.float32
    scale = 1.44269504  # log2(e)

    @T.prim_func
    def main(X: T.Tensor([M, N], dtype), Y: T.Tensor([M, N], dtype)):
        with T.Kernel(M, threads=128) as i_m:
            x = T.alloc_fragment([block_N], dtype)
            y = T.alloc_fragment([block_N], dtype)
            lse = T.alloc_fragment([1], accum_dtype)
            max_x = T.alloc_fragment([1], dtype)
            exp_x = T.alloc_fragment([block_N], accum_dtype)
            sum_exp_x = T.alloc_fragment([1], accum_dtype)
            T.fill(lse, -T.infinity(accum_dtype))

            for i_n in T.Pipelined(0, T.ceildiv(N, block_N)):
                for j in T.Parallel(block_N):
                    x[j] = T.if_then_else(
                        i_n * block_N + j < N, X[i_m, i_n * block_N + j], -T.infinity(dtype)
                    )
                T.reduce_max(x, max_x, dim=0, clear=True)
                for j in T.Parallel(block_N):
                    exp_x[j] = T.exp2(x[j] * scale - max_x[0] * scale)
                T.reduce_sum(exp_x, sum_exp_x, dim=0, clear=True)
                lse[0] = max_x[0] * scale + T.log2(T.exp2(lse[0] - max_x[0] * scale) + sum_exp_x[0])

            for i_n in T.Pipelined(0, T.ceildiv(N, block_N)):
                for j in T.Parallel(block_N):
                    y[j] = T.exp2(X[i_m, i_n * block_N + j] * scale - lse[0])
                T.copy(y, Y[i_m, i_n * block_N])

    return main


@tilelang.jit
def softmax_rows(X, block_M: int = 4):
    M, N = T.const("M, N")
    blocks = T.ceildiv(M, block_M)
    X: T.Tensor[[M, N], T.float32]
    Y = T.empty([M, N], T.float32)
    with T.Kernel(blocks, threads=128) as bx:
        rows = T.alloc_fragment([block_M, N], T.float32)
        top = T.alloc_fragment([block_M], T.float32)
        total = T.alloc_fragment([block_M], T.float32)
        T.copy(X[bx * block_M, 0], rows)
        T.reduce_max(rows, top, dim=1)
        for i, j in T.Parallel(block_M, N):
            rows[i, j] = T.exp(rows[i, j] - top[i])
        T.reduce_sum(rows, total, dim=1)
        for i, j in T.Parallel(block_M, N):
            rows[i, j] /= total[i]
        T.copy(rows, Y[bx * block_M, 0])
    return Y


def run_regression_perf(M=8, N=200):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    kernel = softmax_kernel(M, N)
    x = torch.randn(M, N, dtype=torch.float16, device=device)
    return do_bench(lambda: kernel(x), warmup=1, rep=5)


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for M, N in ((6, 256), (5, 200)):
        x = torch.randn(M, N, dtype=torch.float16, device=device)
        torch.testing.assert_close(softmax_kernel(M, N)(x), x.softmax(dim=1), rtol=1e-2, atol=1e-3)
        torch.testing.assert_close(softmax_rows(x.float()), x.float().softmax(dim=1), rtol=1e-5, atol=1e-6)
    print("All checks passed.")


if __name__ == "__main__":
    main()
