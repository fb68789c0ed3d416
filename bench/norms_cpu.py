"""softmax, layernorm and rmsnorm of f32 rows on the CPU, by the examples' own programs, beside PyTorch.

    python bench/norms_cpu.py [--threads 2] [--shapes 4096x4096,1024x8192,8192x512]
                              [--which softmax,layernorm,rmsnorm] [--rows 1,4] [--repeats 21]

Threads are counted once, so each count is a process. Both sides write into memory that is there already:
PyTorch through out=, or, where it has none, into memory that malloc keeps for it (MALLOC_* below, so that
no run pays for fresh pages). They take turns, each after a pause and an untimed run; the best of our block
heights counts. Medians, (p90 - p10) / median, and PyTorch's median and minimum over ours (above 1: ours is
faster).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from cpu_timing import interleaved, quantile, spread

ROOT = Path(__file__).resolve().parent.parent


def programs(which, M, N, rows):
    import layernorm
    import softmax

    of = {"softmax": softmax.softmax, "layernorm": layernorm.layernorm, "rmsnorm": layernorm.rmsnorm}
    return of[which].get_tir(M, N, rows)


def operands(which, M, N):
    """Inputs, what PyTorch runs, and the result in float64."""
    import torch
    from torch.nn import functional

    x, w, b = 3 * torch.randn(M, N) + 1, torch.randn(N), torch.randn(N)
    y, wide = torch.empty(M, N), x.double()
    if which == "softmax":
        return (x,), lambda: torch.softmax(x, 1, out=y), torch.softmax(wide, 1)
    if which == "rmsnorm":
        exact = wide * torch.rsqrt((wide * wide).mean(1, keepdim=True) + 1e-5) * w.double()
        return (x, w), lambda: functional.rms_norm(x, (N,), w, 1e-5), exact
    exact = functional.layer_norm(wide, (N,), w.double(), b.double(), 1e-5)
    return (x, w, b), lambda: functional.layer_norm(x, (N,), w, b, 1e-5), exact


def measure(which, M, N, heights, repeats, threads):
    import tilelang
    import torch

    inputs, theirs, exact = operands(which, M, N)
    runs, errors = {"PyTorch": theirs}, {}
    for rows in heights:
        kernel = tilelang.compile(programs(which, M, N, rows), target="cpu")
        y = torch.full((M, N), float("nan"))
        kernel(*inputs, y)
        errors[rows] = float((y.double() - exact).norm() / exact.norm())
        runs[rows] = lambda kernel=kernel, y=y: kernel(*inputs, y)
    times = interleaved(runs, repeats)
    best = min(heights, key=lambda rows: quantile(times[rows], 0.5))
    for name in ("PyTorch", best):
        t, ours = times[name], name == best
        median = quantile(t, 0.5)
        line = f"{threads} thread(s) {which:9s} {M}x{N:<5d} {f'{best} rows a block' if ours else name:16s}"
        line += f" {1e3 * median:7.2f} ms {8e-9 * M * N / median:6.1f} GB/s  spread {100 * spread(t):3.0f}%"
        if ours:
            theirs = times["PyTorch"]
            line += f"  {quantile(theirs, 0.5) / median:5.2f} by medians"
            line += f" {min(theirs) / min(t):5.2f} by minima  error {errors[best]:.1e}"
        print(line, flush=True)
    return max(errors.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", default="2")
    parser.add_argument("--shapes", default="4096x4096,1024x8192,8192x512")
    parser.add_argument("--which", default="softmax,layernorm,rmsnorm")
    parser.add_argument("--rows", default="1,4")
    parser.add_argument("--repeats", type=int, default=21)
    parser.add_argument("--child", action="store_true")
    options = parser.parse_args()
    if not options.child:
        for threads in options.threads.split(","):
            keep = dict.fromkeys(("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"), str(1 << 32))
            environment = {**os.environ, **keep, "TILELANG_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
            done = subprocess.run([sys.executable, __file__, *sys.argv[1:], "--child"], env=environment)
            if done.returncode:
                return done.returncode
        return 0
    import torch

    sys.path[:0] = [str(ROOT / "examples")]
    threads = int(os.environ["TILELANG_NUM_THREADS"])
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    heights = [int(r) for r in options.rows.split(",")]
    worst = 0.0
    for which in options.which.split(","):
        for shape in options.shapes.split(","):
            M, N = map(int, shape.split("x"))
            worst = max(worst, measure(which, M, N, heights, options.repeats, threads))
    print(f"worst error {worst:.1e}")
    return 0 if worst < 2e-6 else 1


if __name__ == "__main__":
    raise SystemExit(main())
