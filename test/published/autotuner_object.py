"""The tuner as an object, with the candidates that carver recommends."""

import argparse

import tilelang
import tilelang.language as T
import torch
from tilelang.autotuner import AutoTuner
from tilelang.carver.arch import CDNA, CUDA
from tilelang.carver.roller.rasterization import NoRasterization
from tilelang.carver.template import MatmulTemplate


def ref_program(A, B):
    return A @ B.T


def get_configs(M, N, K, with_roller, topk=4):
    if not with_roller:
        return [
            {
                "block_M": bm,
                "block_N": 32,
                "block_K": 32,
                "num_stages": s,
                "thread_num": 64,
                "enable_rasteration": r,
            }
            for bm in (16, 32)
            for s in (0, 2)
            for r in (False,)
        ]
    arch = CUDA("cuda -arch=sm_90")
    assert not isinstance(arch, CDNA)
    carve_template = MatmulTemplate(
        M=M, N=N, K=K, in_dtype=T.float16, out_dtype=T.float16, accum_dtype=T.float32
    ).with_arch(arch)
    func = carve_template.equivalent_function()
    assert func is not None, "Function is None"
    roller_hints = carve_template.recommend_hints(topk=topk)
    if roller_hints is None:
        raise ValueError("No Roller Hints Found for TensorCore Scheduling")
    configs = []
    for hint in roller_hints:
        block_m, block_n = hint.block
        warp_m, warp_n = hint.warp
        block_rows, block_cols = block_m // warp_m, block_n // warp_n
        configs.append(
            {
                "block_M": block_m,
                "block_N": block_n,
                "block_K": hint.rstep[0],
                "num_stages": hint.pipeline_stage if hint.pipeline_stage > 1 else 0,
                "thread_num": block_rows * block_cols * 32,
                "enable_rasteration": hint.rasterization_plan is not NoRasterization,
            }
        )
    assert 0 < len(configs) <= topk
    return configs


def get_best_config(M, N, K, with_roller=False):
    def kernel(
        block_M=None, block_N=None, block_K=None, num_stages=None, thread_num=None, enable_rasteration=None
    ):
        dtype, accum_dtype = T.float16, T.float32

        @T.prim_func
        def main(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), C: T.Tensor((M, N), dtype)):
            with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=thread_num) as (bx, by):
                A_shared = T.alloc_shared((block_M, block_K), dtype)
                B_shared = T.alloc_shared((block_N, block_K), dtype)
                C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
                C_shared = T.alloc_shared((block_M, block_N), dtype)
                T.use_swizzle(panel_size=10, enable=enable_rasteration)
                T.clear(C_local)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                    T.copy(A[by * block_M, k * block_K], A_shared)
                    T.copy(B[bx * block_N, k * block_K], B_shared)
                    T.gemm(A_shared, B_shared, C_local, transpose_B=True)
                T.copy(C_local, C_shared)
                T.copy(C_shared, C[by * block_M, bx * block_N])

        return main

    autotuner = (
        AutoTuner.from_kernel(kernel=kernel, configs=get_configs(M, N, K, with_roller))
        .set_compile_args(out_idx=[-1], target="auto")
        .set_profile_args(
            supply_type=tilelang.TensorSupplyType.Integer, ref_prog=ref_program, skip_check=False
        )
    )
    return autotuner.run(warmup=1, rep=2)


def main(M=64, N=64, K=64, with_roller=True):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    result = get_best_config(M, N, K, with_roller)
    print(f"{result.config}: {result.latency} ms, reference {result.ref_latency} ms")
    a = torch.randn(M, K, device=device, dtype=torch.float16)
    b = torch.randn(N, K, device=device, dtype=torch.float16)
    torch.testing.assert_close(result.kernel(a, b), ref_program(a, b), rtol=1e-2, atol=1e-2)
    assert "block_M" in result.config and result.libcode


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Autotuned MatMul Benchmark")
    parser.add_argument("--m", type=int, default=64, help="Matrix dimension M")
    parser.add_argument("--n", type=int, default=64, help="Matrix dimension N")
    parser.add_argument("--k", type=int, default=64, help="Matrix dimension K")
    parser.add_argument(
        "--without_roller", action="store_true", help="Search a grid of configurations instead"
    )
    args = parser.parse_args()
    main(args.m, args.n, args.k, with_roller=False)
    if not args.without_roller:
        main(args.m, args.n, args.k, with_roller=True)
