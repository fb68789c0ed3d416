"""C = max(A @ B, 0) in float16 with float32 accumulation; on NVIDIA GPUs by tensor cores.

    python examples/gemm_relu.py [--target auto|cpu|cuda|sim:CHIP|reference]
"""

import argparse
import sys

import numpy as np
import tilelang
import tilelang.language as T

SHAPES = [(1, 1, 1), (17, 100, 33), (128, 128, 128), (200, 300, 100)]


@tilelang.jit
def gemm_relu(M, N, K, block_M=64, block_N=64, block_K=32):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_tile = T.alloc_shared((block_M, block_K), "float16")
            B_tile = T.alloc_shared((block_K, block_N), "float16")
            C_tile = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_tile)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_tile)
                T.copy(B[k * block_K, bx * block_N], B_tile)
                T.gemm(A_tile, B_tile, C_tile)
            for i, j in T.Parallel(block_M, block_N):
                C_tile[i, j] = T.max(C_tile[i, j], 0)
            T.copy(C_tile, C[by * block_M, bx * block_N])

    return main


def on_device(kernel, *arrays):
    """The arrays where the kernel's tensors live."""
    if kernel.device_type == "cpu":
        return arrays
    import torch

    return [torch.from_numpy(x).cuda() for x in arrays]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--target", default="auto")
    target = parser.parse_args().target

    rng = np.random.default_rng(0)
    wrong = 0
    for M, N, K in SHAPES:
        kernel = tilelang.compile(gemm_relu.get_tir(M, N, K), out_idx=[-1], target=target)
        a, b = (np.abs(rng.standard_normal(shape)).astype(np.float16) for shape in ((M, K), (K, N)))
        b[:, ::3] *= -1  # columns that ReLU sets to zero
        c = kernel(*on_device(kernel, a, b))
        c = c.cpu().numpy() if kernel.device_type == "cuda" else c
        exact = np.maximum(a.astype(np.float64) @ b.astype(np.float64), 0)
        error = np.linalg.norm(c - exact) / max(np.linalg.norm(exact), 1e-30)
        print(f"{kernel.target}: {M} x {N} x {K}: relative error {error:.1e}")
        wrong += not error <= 5e-4
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
