"""Lazy GEMM: a factory of prim_funcs, outputs by out_idx, a profiler, options on the command line."""

import argparse

import tilelang
import tilelang.language as T
import torch
from tilelang.profiler import do_bench


@tilelang.jit(out_idx=[-1], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def matmul(
    M,
    N,
    K,
    block_M,
    block_N,
    block_K,
    trans_A=False,
    trans_B=False,
    dtype="float16",
    accum_dtype="float32",
    num_stages=2,
    threads=128,
    policy=T.GemmWarpPolicy.Square,
):
    A_shape = (K, M) if trans_A else (M, K)
    B_shape = (N, K) if trans_B else (K, N)
    A_shared_shape = (block_K, block_M) if trans_A else (block_M, block_K)
    B_shared_shape = (block_N, block_K) if trans_B else (block_K, block_N)

    @T.prim_func
    def main(
        A: T.Tensor(A_shape, dtype),
        B: T.Tensor(B_shape, dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared(A_shared_shape, dtype)
            B_shared = T.alloc_shared(B_shared_shape, dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            C_shared = T.alloc_shared((block_M, block_N), dtype)

            T.use_swizzle(panel_size=10, enable=True)
            T.annotate_layout({C_shared: tilelang.layout.make_swizzled_layout(C_shared)})
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                if trans_A:
                    T.copy(A[k * block_K, by * block_M], A_shared)
                else:
                    T.copy(A[by * block_M, k * block_K], A_shared)
                if trans_B:
                    T.copy(B[bx * block_N, k * block_K], B_shared)
                else:
                    T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local, trans_A, trans_B, policy=policy)
            T.copy(C_local, C_shared)
            T.copy(C_shared, C[by * block_M, bx * block_N])

    return main


def run_regression_perf(M=64, N=64, K=64):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    kernel = matmul(M, N, K, 32, 32, 32)
    a = torch.randn(M, K, device=device, dtype=torch.float16)
    b = torch.randn(K, N, device=device, dtype=torch.float16)
    return do_bench(lambda: kernel(a, b), warmup=1, rep=5, backend="cupti")


def main(argv=None):
    parser = argparse.ArgumentParser(description="GEMM")
    parser.add_argument("--m", type=int, default=72)
    parser.add_argument("--n", type=int, default=96)
    parser.add_argument("--k", type=int, default=64)
    parser.add_argument("--policy", choices=["Square", "FullRow", "FullCol"], default="FullRow")
    args, _ = parser.parse_known_args(argv)
    M, N, K = args.m, args.n, args.k
    policy = getattr(T.GemmWarpPolicy, args.policy)

    for trans_A in (False, True):
        for trans_B in (False, True):
            kernel = matmul(M, N, K, 32, 32, 32, trans_A, trans_B, policy=policy)

            def ref_program(A, B, trans_A=trans_A, trans_B=trans_B):
                A = A.T if trans_A else A
                B = B.T if trans_B else B
                return (A.float() @ B.float()).to(torch.float16)

            profiler = kernel.get_profiler(tensor_supply_type=tilelang.TensorSupplyType.Normal)
            profiler.assert_allclose(ref_program, rtol=1e-2, atol=1e-2)

    latency = profiler.do_bench(warmup=1, rep=5)
    tflops = 2 * M * N * K / latency * 1e-9
    reference = profiler.do_bench(ref_program, warmup=1, rep=5)
    print(f"{latency:.4f} ms, {tflops:.6f} TFlops, reference {reference:.4f} ms")
    print("All checks passed.")


if __name__ == "__main__":
    main()
