"""A tiled matrix product with a fused ReLU, C = max(A @ B, 0): written, compiled, run, checked, timed.

    python examples/quickstart.py [--target auto|cpu|cuda|sim:CHIP|reference] [--m M] [--n N] [--k K]
"""

import argparse
import sys

import numpy as np
import tilelang
import tilelang.language as T

# All the tuning there is: rows and columns of the tile of C that a block computes, and the step through K.
TILES = {"cpu": (512, 512, 256), "cuda": (128, 128, 16), "sim": (128, 128, 16), "reference": (64, 64, 64)}


@tilelang.jit
def matmul_relu(M, N, K, block_M, block_N, block_K, dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256) as (bx, by):
            A_tile = T.alloc_shared((block_M, block_K), dtype)
            B_tile = T.alloc_shared((block_K, block_N), dtype)
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


def build(options):
    """The kernel for the target asked for; the CPU's where a GPU answers but PyTorch is missing."""
    target = options.target
    kind = tilelang.resolve_target(target).split()[0].split(":")[0]
    if kind == "cuda":
        try:
            import torch  # noqa: F401  (holds the tensors on the GPU)
        except ImportError:
            if target != "auto":
                raise
            print(
                "a GPU answers, but PyTorch, which would hold its tensors, is not installed: taking the CPU"
            )
            target = kind = "cpu"
    compiled = tilelang.compile(
        matmul_relu.get_tir(options.m, options.n, options.k, *TILES[kind]), target=target
    )
    return compiled


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--target", default="auto")
    for name in "mnk":
        parser.add_argument(f"--{name}", type=int, default=2048)
    options = parser.parse_args()

    kernel = build(options)
    spent = sum(kernel.phases.values())
    print(f"compiled for {kernel.target} in {spent:.0f} ms{' (from the cache)' if kernel.from_cache else ''}")

    rng = np.random.default_rng(0)
    a = rng.standard_normal((options.m, options.k), np.float32)
    b = rng.standard_normal((options.k, options.n), np.float32)
    c = np.empty((options.m, options.n), np.float32)
    ours, theirs = [a, b, c], np.empty_like(c)
    if kernel.device_type == "cuda":
        import torch

        ours = [torch.from_numpy(x).cuda() for x in ours]

    def numpy_relu():
        np.maximum(np.matmul(a, b, out=theirs), 0, out=theirs)

    kernel(*ours)
    c = ours[2].cpu().numpy() if kernel.device_type == "cuda" else c
    exact = np.maximum(a.astype(np.float64) @ b.astype(np.float64), 0)
    error = np.linalg.norm(c - exact) / np.linalg.norm(exact)
    bound = 1e-6 * options.k**0.5

    work = 2e-6 * options.m * options.n * options.k  # GFLOP, over milliseconds
    bench = tilelang.profiler.do_bench
    mine = work / bench(lambda: kernel(*ours), return_mode="median")
    his = work / bench(numpy_relu, return_mode="median", device="cpu")
    print(f"C = max(A @ B, 0), float32, {options.m} x {options.n} x {options.k}")
    print(f"  tilelang {mine:9.1f} GFLOP/s")
    print(f"  NumPy    {his:9.1f} GFLOP/s   ratio {mine / his:.2f}")
    print(f"  relative error {error:.1e} (at most {bound:.1e} allowed)")
    if not error <= bound:
        print("wrong result", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
