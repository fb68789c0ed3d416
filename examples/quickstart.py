"""A tiled matrix product with a fused ReLU, C = max(A @ B, 0): written, compiled, run, checked, timed.

Usage:
    python examples/quickstart.py [--target auto|cpu|cuda|sim:CHIP|reference] [--m M] [--n N] [--k K]
"""

import sys

import harness
import numpy as np
import tilelang
import tilelang.language as T

# All the tuning there is: rows and columns of the tile of C that a block computes, and the step through K.
TILES = {"cpu": (512, 512, 256), "gpu": (128, 128, 16), "reference": (64, 64, 64)}
SMALL = {"m": 100, "n": 70, "k": 70}


@tilelang.jit(out_idx=[-1])
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


def cases(kind, m=2048, n=2048, k=2048):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    expected = np.maximum(a.astype(np.float64) @ b.astype(np.float64), 0)
    yield harness.Case(
        name=f"C = max(A @ B, 0), float32, {m} x {n} x {k}",
        kernel=matmul_relu.get_tir(m, n, k, *TILES[kind]),
        arguments=[a, b, harness.blank((m, n))],
        expected={2: expected},
        bound=1e-6 * k**0.5,
    )


def main():
    options = harness.parse_options(__doc__, cases)
    target = harness.target_of(options.pop("target"))
    (case,) = cases(harness.kind_of(target), **options)

    kernel = tilelang.compile(case.kernel, target=target)
    spent = sum(kernel.phases.values())
    print(f"compiled for {kernel.target} in {spent:.0f} ms{' (from the cache)' if kernel.from_cache else ''}")

    a, b, c = case.arguments
    ours, theirs = [harness.put(kernel, x) for x in (a, b, c)], np.empty_like(c)

    def numpy_relu():
        np.maximum(np.matmul(a, b, out=theirs), 0, out=theirs)

    kernel(*ours)
    error = harness.error_of(harness.get(ours[2]), case.expected[2])
    work = 2e-6 * a.size * b.shape[1]  # GFLOP, over milliseconds
    bench = tilelang.profiler.do_bench
    mine = work / bench(lambda: kernel(*ours), return_mode="median")
    his = work / bench(numpy_relu, return_mode="median", device="cpu")
    print(case.name)
    print(f"  tilelang {mine:9.1f} GFLOP/s")
    print(f"  NumPy    {his:9.1f} GFLOP/s   ratio {mine / his:.2f}")
    print(f"  relative error {error:.1e} (at most {case.bound:.1e} allowed)")
    if not error <= case.bound:
        print("wrong result", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
