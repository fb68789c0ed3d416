"""GEMM on the CPU: f32, by examples/quickstart's own program, beside NumPy's OpenBLAS, in one process.

With --dtype bf16 or int8 it stands beside oneDNN, through PyTorch (bf16 -> bf16; int8 × int8 -> int32).

OpenBLAS chooses its kernels once per process, and threads are counted once, so each setting is a process:

    python bench/gemm_cpu.py [--threads 1,2] [--sizes 1024,2048,4096,1000x1300x700] [--target cpu]
                             [--coretype SkylakeX|Haswell] [--tiles 128x256x256,…] [--dtype f32|bf16|int8]

Both sides take turns, each after a pause and an untimed call; the best of our tiles counts, each shown.
Report the median and (p90 - p10) / median.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from cpu_timing import interleaved, quantile, spread

ROOT = Path(__file__).resolve().parent.parent
TILES = "256x512x256,512x512x256,250x448x350"
NARROW_TILES = "512x512x512,256x512x1024,512x1024x512"


def numbers(text: str) -> tuple[int, ...]:
    parts = tuple(int(x) for x in text.split("x"))
    return parts * 3 if len(parts) == 1 else parts


def gemm_of(m, n, k, block_M, block_N, block_K, dtype, sums):
    import tilelang.language as T

    @T.prim_func
    def gemm(A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), sums)):
        with T.Kernel(T.ceildiv(n, block_N), T.ceildiv(m, block_M)) as (bx, by):
            A_tile = T.alloc_shared((block_M, block_K), dtype)
            B_tile = T.alloc_shared((block_K, block_N), dtype)
            C_tile = T.alloc_fragment((block_M, block_N), sums)
            T.clear(C_tile)
            for kk in T.serial(T.ceildiv(k, block_K)):
                T.copy(A[by * block_M, kk * block_K], A_tile)
                T.copy(B[kk * block_K, bx * block_N], B_tile)
                T.gemm(A_tile, B_tile, C_tile)
            T.copy(C_tile, C[by * block_M, bx * block_N])

    return gemm


def narrow_runs(size, tiles, target, dtype):
    """What to time, and how far ours are from float64."""
    import tilelang
    import torch

    m, n, k = size
    torch.set_num_threads(int(os.environ["TILELANG_NUM_THREADS"]))
    torch.manual_seed(0)
    if dtype == "bf16":
        a, b = torch.randn(m, k).bfloat16(), torch.randn(k, n).bfloat16()
        theirs = torch.empty(m, n, dtype=torch.bfloat16)
        runs, c = {"oneDNN": lambda: torch.matmul(a, b, out=theirs)}, torch.empty(m, n)
    else:
        a, b = (torch.randint(-128, 128, shape, dtype=torch.int8) for shape in ((m, k), (k, n)))
        runs, c = {"oneDNN": lambda: torch._int_mm(a, b)}, torch.empty(m, n, dtype=torch.int32)
    exact, errors = a[::61].double() @ b.double(), {}
    for tile in tiles:
        names = ("bfloat16", "float32") if dtype == "bf16" else ("int8", "int32")
        kernel = tilelang.compile(gemm_of(m, n, k, *tile, *names), target=target)
        kernel(a, b, c)
        errors[tile] = float((c[::61] - exact).norm() / exact.norm())
        runs[tile] = lambda kernel=kernel: kernel(a, b, c)
    return runs, errors


def measure_narrow(size, tiles, target, repeats, dtype):
    runs, errors = narrow_runs(size, tiles, target, dtype)
    report(size, runs, errors, repeats, "oneDNN", "GOP/s" if dtype == "int8" else "GFLOP/s")


def measure_one(size, tiles, target, repeats):
    import numpy as np

    sys.path[:0] = [str(ROOT / "examples")]
    import quickstart
    import tilelang

    m, n, k = size
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    theirs = np.empty((m, n), np.float32)
    exact = np.maximum(a[::61].astype(np.float64) @ b.astype(np.float64), 0)
    runs, errors = {"OpenBLAS": lambda: np.matmul(a, b, out=theirs)}, {}
    for tile in tiles:
        kernel = tilelang.compile(quickstart.matmul_relu.get_tir(m, n, k, *tile), target=target)
        c = np.full((m, n), np.nan, np.float32)
        kernel(a, b, c)
        errors[tile] = np.linalg.norm(c[::61] - exact) / np.linalg.norm(exact)
        runs[tile] = lambda kernel=kernel, c=c: kernel(a, b, c)
    report(size, runs, errors, repeats, "OpenBLAS", "GFLOP/s")


def report(size, runs, errors, repeats, peer, unit):
    m, n, k = size
    times = interleaved(runs, repeats, pause=0.05)  # idle threads of others spin for tens of milliseconds
    work = 2e-9 * m * n * k
    base = quantile(times[peer], 0.5)
    threads = os.environ["TILELANG_NUM_THREADS"]
    best = min((t for t in times if t != peer), key=lambda t: quantile(times[t], 0.5))
    for name, t in times.items():
        median = quantile(t, 0.5)
        label = name if name == peer else "x".join(map(str, name)) + (" *" if name == best else "")
        error = f"error {errors[name]:.1e}" if name in errors else ""
        print(
            f"{threads} thread(s) {m}x{n}x{k:<6d} {label:18s} {work / median:8.1f} {unit}  "
            f"{base / median:5.3f} of {peer}  spread {100 * spread(t):.0f}%  {error}",
            flush=True,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--sizes", default="1024,2048,4096,1000x1300x700")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--coretype", default="")
    parser.add_argument("--tiles", default="")
    parser.add_argument("--dtype", default="f32", choices=("f32", "bf16", "int8"))
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--child", action="store_true")
    options = parser.parse_args()
    usual = TILES if options.dtype == "f32" else NARROW_TILES
    tiles = [numbers(t) for t in (options.tiles or usual).split(",")]
    if options.child:
        for size in options.sizes.split(","):
            if options.dtype == "f32":
                measure_one(numbers(size), tiles, options.target, options.repeats)
            else:
                measure_narrow(numbers(size), tiles, options.target, options.repeats, options.dtype)
        return 0
    for threads in options.threads.split(","):
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": threads, "TILELANG_NUM_THREADS": threads}
        if options.coretype:
            environment["OPENBLAS_CORETYPE"] = options.coretype
        done = subprocess.run([sys.executable, __file__, *sys.argv[1:], "--child"], env=environment)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
