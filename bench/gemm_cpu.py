"""f32 GEMM on the CPU: ours, from examples/quickstart's own program, beside NumPy's OpenBLAS, in one process.

OpenBLAS chooses its kernels once per process, and threads are counted once, so each setting is a process:

    python bench/gemm_cpu.py [--threads 1,2] [--sizes 1024,2048,4096,1000x1300x700] [--target cpu]
                             [--coretype SkylakeX|Haswell] [--tiles 128x256x256,…]

Both sides take turns, each after a pause and an untimed call; the best of our tiles counts, each shown.
Report the median and (p90 - p10) / median.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TILES = "256x512x256,512x512x256,250x448x350"


def numbers(text: str) -> tuple[int, ...]:
    parts = tuple(int(x) for x in text.split("x"))
    return parts * 3 if len(parts) == 1 else parts


def quantile(values: list[float], q: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


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
    times = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            time.sleep(0.05)  # the other side's idle threads spin for tens of milliseconds before they sleep
            run()
            begin = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - begin)
    work = 2e-9 * m * n * k
    base = quantile(times["OpenBLAS"], 0.5)
    threads = os.environ["TILELANG_NUM_THREADS"]
    best = min((t for t in times if t != "OpenBLAS"), key=lambda t: quantile(times[t], 0.5))
    for name, t in times.items():
        median = quantile(t, 0.5)
        spread = (quantile(t, 0.9) - quantile(t, 0.1)) / median
        label = name if name == "OpenBLAS" else "x".join(map(str, name)) + (" *" if name == best else "")
        error = f"error {errors[name]:.1e}" if name in errors else ""
        print(f"{threads} thread(s) {m}x{n}x{k:<6d} {label:18s} {work / median:8.1f} GFLOP/s  "
              f"{base / median:5.3f} of OpenBLAS  spread {100 * spread:.0f}%  {error}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--sizes", default="1024,2048,4096,1000x1300x700")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--coretype", default="")
    parser.add_argument("--tiles", default=TILES)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--child", action="store_true")
    options = parser.parse_args()
    tiles = [numbers(t) for t in options.tiles.split(",")]
    if options.child:
        for size in options.sizes.split(","):
            measure_one(numbers(size), tiles, options.target, options.repeats)
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
