"""RMS norm in two ways, and a layer norm that is differentiated."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1], pass_configs={"tl.disable_tma_lower": True})
def rms_norm_splitk(M, N, blk_m, blk_k):
    dtype = "float"

    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, blk_m), threads=128) as bx:
            A_shared = T.alloc_shared((blk_m, blk_k), dtype)
            A_local = T.alloc_fragment((blk_m, blk_k), dtype)
            A_powsum = T.alloc_fragment((blk_m,), dtype)
            num_k_step = T.ceildiv(N, blk_k)
            T.clear(A_local)
            for k in range(num_k_step):
                T.copy(A[bx * blk_m, k * blk_k], A_shared)
                for i, j in T.Parallel(blk_m, blk_k):
                    A_local[i, j] += A_shared[i, j] * A_shared[i, j]
            T.reduce_sum(A_local, A_powsum, dim=1)
            for i in T.Parallel(blk_m):
                A_powsum[i] = T.rsqrt(A_powsum[i] / N + 1e-12)
            for k in range(num_k_step):
                # The last block first: it is still in shared memory.
                T.copy(A[bx * blk_m, (num_k_step - 1 - k) * blk_k], A_shared)
                for i, j in T.Parallel(blk_m, blk_k):
                    A_shared[i, j] *= A_powsum[i]
                T.copy(A_shared, B[bx * blk_m, (num_k_step - 1 - k) * blk_k])

    return main


@tilelang.jit(out_idx=[-1], pass_configs={"tl.disable_tma_lower": True})
def rms_norm(M, N, blk_m):
    dtype = "float"

    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, blk_m), threads=128) as bx:
            A_shared = T.alloc_shared((blk_m, N), dtype)
            A_pow_local = T.alloc_fragment((blk_m, N), dtype)
            A_local = T.alloc_fragment((blk_m, N), dtype)
            A_powsum = T.alloc_fragment((blk_m,), dtype)
            T.copy(A[bx * blk_m : (bx + 1) * blk_m, :], A_shared)
            T.copy(A_shared, A_local)
            for i, j in T.Parallel(blk_m, N):
                A_pow_local[i, j] = A_local[i, j] * A_local[i, j]
            T.reduce_sum(A_pow_local, A_powsum, dim=1)
            for i in T.Parallel(blk_m):
                A_powsum[i] = T.rsqrt(A_powsum[i] / N + 1e-12)
            for i, j in T.Parallel(blk_m, N):
                A_local[i, j] *= A_powsum[i]
            T.copy(A_local, B[bx * blk_m : (bx + 1) * blk_m, :])

    return main


@tilelang.jit
def layer_norm_fwd(X, W, B, eps: float = 1e-5, block: int = 4):
    M, N = T.const("M, N")
    inverse = 1.0 / N
    Y = T.empty((M, N), T.float32)
    Mean = T.empty((M,), T.float32)
    Rstd = T.empty((M,), T.float32)
    X: T.Tensor((M, N), T.float32)
    W: T.Tensor((N,), T.float32)
    B: T.Tensor((N,), T.float32)
    with T.Kernel(T.ceildiv(M, block), threads=128) as bx:
        x = T.alloc_fragment((block, N), T.float32)
        squares = T.alloc_fragment((block, N), T.float32)
        mean = T.alloc_fragment((block,), T.float32)
        rstd = T.alloc_fragment((block,), T.float32)
        T.copy(X[bx * block, 0], x)
        T.reduce_sum(x, mean, dim=1)
        for i in T.Parallel(block):
            mean[i] *= inverse
        for i, j in T.Parallel(block, N):
            squares[i, j] = (x[i, j] - mean[i]) * (x[i, j] - mean[i])
        T.reduce_sum(squares, rstd, dim=1)
        for i in T.Parallel(block):
            rstd[i] = T.rsqrt(rstd[i] * inverse + eps)
        for i, j in T.Parallel(block, N):
            x[i, j] = (x[i, j] - mean[i]) * rstd[i] * W[j] + B[j]
        T.copy(x, Y[bx * block, 0])
        T.copy(mean, Mean[bx * block])
        T.copy(rstd, Rstd[bx * block])
    return Y, Mean, Rstd


@tilelang.jit
def layer_norm_bwd(dY, X, W, Mean, Rstd, dW, dB, block: int = 4):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    dY: T.Tensor((M, N), T.float32)
    W: T.Tensor((N,), T.float32)
    Mean: T.Tensor((M,), T.float32)
    Rstd: T.Tensor((M,), T.float32)
    dW: T.Tensor((N,), T.float32)
    dB: T.Tensor((N,), T.float32)
    dX = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, block), threads=128) as bx:
        xhat = T.alloc_fragment((block, N), T.float32)
        wdy = T.alloc_fragment((block, N), T.float32)
        product = T.alloc_fragment((block, N), T.float32)
        c1 = T.alloc_fragment((block,), T.float32)
        c2 = T.alloc_fragment((block,), T.float32)
        for i, j in T.Parallel(block, N):
            m = bx * block + i
            xhat[i, j] = T.if_then_else(m < M, (X[m, j] - Mean[m]) * Rstd[m], 0)
            wdy[i, j] = T.if_then_else(m < M, W[j] * dY[m, j], 0)
            product[i, j] = xhat[i, j] * wdy[i, j]
        T.reduce_sum(product, c1, dim=1)
        T.reduce_sum(wdy, c2, dim=1)
        for i, j in T.Parallel(block, N):
            if bx * block + i < M:
                m = bx * block + i
                dX[m, j] = (wdy[i, j] - (xhat[i, j] * c1[i] + c2[i]) / N) * Rstd[m]
                T.atomic_add(dW[j], dY[m, j] * xhat[i, j])
                T.atomic_add(dB[j], dY[m, j])
    return dX


class LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b):
        y, mean, rstd = layer_norm_fwd(x, w, b)
        ctx.save_for_backward(x, w, mean, rstd)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, w, mean, rstd = ctx.saved_tensors
        dw, db = torch.zeros_like(w), torch.zeros_like(w)
        return layer_norm_bwd(dy.contiguous(), x, w, mean, rstd, dw, db), dw, db


def ref_program(x):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-12)


def main(M=10, N=128):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for kernel in (rms_norm(M, N, 4), rms_norm_splitk(M, N, 4, 32)):
        profiler = kernel.get_profiler()
        profiler.assert_allclose(ref_program, rtol=0.01, atol=0.01)

    x, w, b = torch.randn(M, N, device=device), torch.randn(N, device=device), torch.randn(N, device=device)
    leaves = [t.requires_grad_() for t in (x, w, b)]
    dy = torch.randn(M, N, device=device)
    y = LayerNorm.apply(*leaves)
    found = torch.autograd.grad(y, leaves, dy)
    y_ref = torch.nn.functional.layer_norm(x, (N,), w, b)
    wanted = torch.autograd.grad(y_ref, leaves, dy)
    torch.testing.assert_close(y, y_ref, rtol=1e-4, atol=1e-4)
    for one, other in zip(found, wanted):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)
    print("All checks pass.")


if __name__ == "__main__":
    main()
