"""Convolution as a GEMM whose left operand is gathered from the image: padding, stride and dilation."""

import argparse

import tilelang
import tilelang.language as T
import torch
import torch.nn.functional as F


@tilelang.jit(out_idx=[2])
def convolution(
    N,
    C,
    H,
    W,
    F,
    K,
    S,
    D,
    P,
    block_M,
    block_N,
    block_K,
    num_stages,
    threads,
    dtype=T.float16,
    accum_dtype=T.float32,
):
    KH, KW = K, K
    OH = (H + 2 * P - D * (K - 1) - 1) // S + 1
    OW = (W + 2 * P - D * (K - 1) - 1) // S + 1

    @T.prim_func
    def main(
        data: T.Tensor((N, H, W, C), dtype),
        kernel: T.Tensor((KH, KW, C, F), dtype),
        out: T.Tensor((N, OH, OW, F), dtype),
    ):
        with T.Kernel(T.ceildiv(F, block_N), T.ceildiv(N * OH * OW, block_M), threads=threads) as (bx, by):
            data_shared = T.alloc_shared((block_M, block_K), dtype)
            kernel_shared = T.alloc_shared((block_K, block_N), dtype)
            out_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            out_shared = T.alloc_shared((block_M, block_N), dtype)

            kernel_flat = T.Tensor((KH * KW * C, F), dtype, kernel.data)
            out_flat = T.Tensor((N * OH * OW, F), dtype, out.data)

            T.clear(out_local)
            for k_iter in T.Pipelined(T.ceildiv(KH * KW * C, block_K), num_stages=num_stages):
                for i, j in T.Parallel(block_M, block_K):
                    k = k_iter * block_K + j
                    m = by * block_M + i
                    access_h = m % (OH * OW) // OW * S + k // (KW * C) * D - P
                    access_w = m % OW * S + k // C % KW * D - P
                    in_bound = (access_h >= 0) and (access_w >= 0) and (access_h < H) and (access_w < W)
                    data_shared[i, j] = T.if_then_else(
                        in_bound, data[m // (OH * OW), access_h, access_w, k % C], 0
                    )
                T.copy(kernel_flat[k_iter * block_K, bx * block_N], kernel_shared)
                T.gemm(data_shared, kernel_shared, out_local)
            T.copy(out_local, out_shared)
            T.copy(out_shared, out_flat[by * block_M, bx * block_N])

    return main


def ref_program(stride, padding, dilation):
    def main(A, B):
        A = A.permute(0, 3, 1, 2).float()  # N, H, W, C -> N, C, H, W
        B = B.permute(3, 2, 0, 1).float()  # H, W, C, F -> F, C, H, W
        C = F.conv2d(A, B, stride=stride, padding=padding, dilation=dilation)
        return C.permute(0, 2, 3, 1).contiguous()

    return main


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=2, help="n")
    parser.add_argument("--c", type=int, default=16, help="c")
    parser.add_argument("--h", type=int, default=9, help="h")
    parser.add_argument("--w", type=int, default=8, help="w")
    parser.add_argument("--f", type=int, default=32, help="f")
    args = parser.parse_args(argv)
    N, C, H, W, filters = args.n, args.c, args.h, args.w, args.f
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a = torch.randn(N, H, W, C, device=device).half()
    for K, S, D, P in ((3, 1, 1, 1), (3, 2, 1, 0), (3, 1, 2, 2)):
        kernel = convolution(N, C, H, W, filters, K, S, D, P, 32, 32, 16, 2, 128)
        b = torch.randn(K, K, C, filters, device=device).half()
        torch.testing.assert_close(kernel(a, b).float(), ref_program(S, P, D)(a, b), rtol=1e-2, atol=5e-2)
    print("All checks passed.")


if __name__ == "__main__":
    main()
