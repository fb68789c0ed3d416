"""One binary for all sizes against a binary for one: a GEMM and its dynamic twin, in one process, in turns.

    python bench/dynamic.py [--target cpu|cuda] [--size N] [--around 1] [--which M,N,K]
                            [--tile 128x128x32x128] [--repeats 9] [--json FILE]

f32 on the CPU, f16 on the GPU, at N and N ± `--around`, whose rows are not aligned.  A ratio is the static
twin's time over the dynamic one's: 1 is equal, less is slower.  Times are medians, with (p90 - p10) / median.
"""

from __future__ import annotations

import argparse
import json

import tilelang
import tilelang.language as T
from cpu_timing import interleaved, quantile, spread

TILES = {"cpu": (256, 512, 256, 1), "cuda": (128, 128, 32, 128)}


def matmul(M, N, K, tile, dtype):
    block_M, block_N, block_K, threads = tile

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_local)
            for k in T.serial(T.ceildiv(K, block_K)):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def on_cpu(runs, repeats):
    """Seconds per run of each, and spread."""
    return {name: (quantile(t, 0.5), spread(t)) for name, t in interleaved(runs, repeats).items()}


def on_cuda(runs, repeats):
    from timing import measure

    return {name: (r.ms / 1e3, r.spread) for name, r in measure(runs, repeats).items()}


def numpy_operands(n):
    import numpy as np

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((n, n), np.float32) for _ in range(2))
    exact = a[::61].astype(np.float64) @ b.astype(np.float64)
    return (
        a,
        b,
        lambda: np.full((n, n), np.nan, np.float32),
        lambda c: float(np.linalg.norm(c[::61] - exact) / np.linalg.norm(exact)),
    )


def torch_operands(n):
    import torch

    a, b = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(2))
    exact = a[::61].double() @ b.double()
    return (
        a,
        b,
        lambda: torch.full_like(a, float("nan")),
        lambda c: float((c[::61].double() - exact).norm() / exact.norm()),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--size", type=int)
    parser.add_argument("--around", type=int, default=1)
    parser.add_argument("--which", default="M,N,K", help="the dynamic dimensions")
    parser.add_argument("--tile", help="block_M x block_N x block_K x threads")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json")
    options = parser.parse_args()
    kind = "cuda" if options.target.startswith("cuda") else "cpu"
    size = options.size or (8192 if kind == "cuda" else 2048)
    tile = tuple(map(int, options.tile.split("x"))) if options.tile else TILES[kind]
    dtype = "float16" if kind == "cuda" else "float32"
    names = options.which.split(",")
    operands, measure = (torch_operands, on_cuda) if kind == "cuda" else (numpy_operands, on_cpu)
    dynamic_sizes = {d: T.dynamic(d) for d in names}
    rows, worst = [], 0.0
    for n in dict.fromkeys((size, size - options.around, size + options.around)):
        a, b, empty, error = operands(n)
        sizes = {d: dynamic_sizes.get(d, n) for d in ("M", "N", "K")}
        kernels = {
            "static": tilelang.compile(matmul(n, n, n, tile, dtype), target=options.target),
            "dynamic": tilelang.compile(matmul(*sizes.values(), tile, dtype), target=options.target),
        }
        runs = {}
        for name, kernel in kernels.items():
            c = empty()
            kernel(a, b, c)
            worst = max(worst, error(c))
            runs[name] = lambda kernel=kernel, a=a, b=b, c=c: kernel(a, b, c)
        found = measure(runs, options.repeats)
        ratio = found["static"][0] / found["dynamic"][0]
        rows.append({"size": n, "ratio": ratio, **{f"{k}_ms": 1e3 * s for k, (s, _) in found.items()}})
        print(f"{dtype} {n:6d}^3", end="")
        for name, (seconds, width) in found.items():
            print(f"  {name} {2e-9 * n**3 / seconds:9.1f} GFLOP/s (spread {100 * width:.0f}%)", end="")
        print(f"  ratio {ratio:.3f}", flush=True)
    if options.json:
        with open(options.json, "w") as out:
            json.dump({"target": options.target, "tile": tile, "dynamic": names, "rows": rows}, out)
    print(f"worst error {worst:.1e}")
    return 0 if worst < 1e-3 else 1


if __name__ == "__main__":
    raise SystemExit(main())
