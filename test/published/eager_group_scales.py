"""Matrix times a quantised weight with one scale per group: extents are derived from T.const names."""

import tilelang
import tilelang.language as T
import torch

GROUP = 32


@tilelang.jit
def scaled_linear(X, W, Scales, Bias, block_M: int = 16, block_N: int = 32, group: int = GROUP):
    M, N, K = T.const("M, N, K")
    groups = K // group
    scale_shape = [N, groups]
    inverse = 1.0 / M

    # A derived extent stands above the annotation that binds it.
    Scales: T.Tensor(scale_shape, T.float32)
    Y = T.empty((M, N), T.float32)
    Mean = T.empty((N,), T.float32)
    X: T.Tensor((M, K), T.float16)
    W: T.Tensor((N, K), T.int8)
    Bias: T.Tensor((N,), T.float32)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        X_shared = T.alloc_shared((block_M, group), T.float16)
        W_shared = T.alloc_shared((block_N, group), T.int8)
        W_local = T.alloc_fragment((block_N, group), T.float16)
        W_cast = T.alloc_shared((block_N, group), T.float16)
        part = T.alloc_fragment((block_M, block_N), T.float32)
        acc = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(acc)
        for g in T.Pipelined(groups, num_stages=2):
            T.copy(X[by * block_M, g * group], X_shared)
            T.copy(W[bx * block_N, g * group], W_shared)
            for i, j in T.Parallel(block_N, group):
                W_local[i, j] = W_shared[i, j].astype(T.float16)
            T.copy(W_local, W_cast)
            T.gemm(X_shared, W_cast, part, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(block_M, block_N):
                acc[i, j] += part[i, j] * Scales[bx * block_N + j, g]
        for i, j in T.Parallel(block_M, block_N):
            acc[i, j] += Bias[bx * block_N + j]
        T.copy(acc, Y[by * block_M, bx * block_N])

    with T.Kernel(T.ceildiv(N, block_N), threads=128) as bx:
        total = T.alloc_fragment((block_N,), T.float32)
        T.clear(total)
        for i in T.serial(M):
            for j in T.Parallel(block_N):
                total[j] += Y[i, bx * block_N + j] * inverse
        T.copy(total, Mean[bx * block_N])
    return Y, Mean


def main(M=40, N=64, K=128):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(M, K, device=device, dtype=torch.float16)
    w = torch.randint(-127, 128, (N, K), device=device, dtype=torch.int8)
    scales = torch.rand(N, K // GROUP, device=device)
    bias = torch.randn(N, device=device)
    y, mean = scaled_linear(x, w, scales, bias)
    full = w.float() * scales.repeat_interleave(GROUP, dim=1)
    ref = x.float() @ full.T + bias
    torch.testing.assert_close(y, ref, rtol=1e-3, atol=1e-1)
    torch.testing.assert_close(mean, ref.mean(0), rtol=1e-3, atol=1e-1)
    print("scaled_linear: ok")


if __name__ == "__main__":
    main()
