"""Kernels that pick their own configuration: configs as a function, a dict of lists, and a list of dicts."""

import itertools
import json

import tilelang
import tilelang.language as T
import torch
from tilelang.autotuner import autotune, set_autotune_inputs


def ref_program(A, B):
    return (A.float() @ B.T.float()).to(A.dtype)


def get_configs(M, N, K, **kwargs):
    block_M, block_N, block_K = [16, 32], [32], [32]
    num_stages, threads = [1, 2], [64]
    keys = ("block_M", "block_N", "block_K", "num_stages", "threads")
    product = itertools.product(block_M, block_N, block_K, num_stages, threads)
    return [dict(zip(keys, values)) for values in product]


@autotune(configs=get_configs, warmup=1, rep=2, ref_prog=ref_program, rtol=1e-2, atol=1e-2)
@tilelang.jit(out_idx=[2])
def matmul(M, N, K, dtype="float16", block_M=64, block_N=64, block_K=32, num_stages=0, threads=128):
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float")
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


@tilelang.autotune(configs={"block": [32, 64], "threads": [32, 64]}, warmup=1, rep=2)
@tilelang.jit
def gelu(X, block: int = 128, threads: int = 128):
    N = T.const("N")
    blocks = T.ceildiv(N, block)
    X: T.Tensor[[N], T.float32]
    Y = T.empty([N], T.float32)
    with T.Kernel(blocks, threads=threads) as bx:
        for i in T.Parallel(block):
            x = X[bx * block + i]
            Y[bx * block + i] = 0.5 * x * (1.0 + T.erf(x * 0.7071067811865476))
    return Y


@tilelang.autotune(configs=[{"block": 32}, {"block": 64}], warmup=1, rep=2, skip_check=True)
@tilelang.jit(out_idx=[-1])
def scale(N, factor, block=None):
    @T.prim_func
    def main(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block), threads=32) as bx:
            for i in T.Parallel(block):
                Y[bx * block + i] = X[bx * block + i] * factor

    return main


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    M, N, K = 32, 64, 64
    a = torch.randn(M, K, device=device, dtype=torch.float16)
    b = torch.randn(N, K, device=device, dtype=torch.float16)
    with set_autotune_inputs(a, b):
        kernel = matmul(M, N, K)
    torch.testing.assert_close(kernel(a, b), ref_program(a, b), rtol=1e-2, atol=1e-2)
    best = {"latency": kernel.latency, "config": kernel.config, "ref_latency": kernel.ref_latency}
    assert kernel.config in get_configs(M, N, K) and kernel.latency > 0 and kernel.ref_latency > 0
    assert json.loads(json.dumps(best)) == best

    # A tuned parameter that is given is not tuned.
    fixed = matmul(M, N, K, block_M=16, block_N=16, block_K=16, num_stages=1, threads=32)
    torch.testing.assert_close(fixed(a, b), ref_program(a, b), rtol=1e-2, atol=1e-2)
    assert fixed.config is None

    x = torch.randn(300, device=device)
    torch.testing.assert_close(gelu(x), torch.nn.functional.gelu(x), rtol=1e-4, atol=1e-5)
    tuned = gelu.compile(N=300)
    torch.testing.assert_close(tuned(x), torch.nn.functional.gelu(x), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(scale(300, 3.0)(x), 3 * x)
    print(f"Best: {best}")


if __name__ == "__main__":
    main()
