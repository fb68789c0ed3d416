"""How long the simulator takes: one block of a GEMM, bare and watched, and a whole one.

    python bench/simulator.py [--repeats 7]

f16 by mma.sync, tiles 128x128x32, 128 threads, target sim:sm_80.  Block: 128x128, K = 1024; whole: 1024^3.
"""

from __future__ import annotations

import argparse

import numpy as np
import tilelang
from cpu_timing import interleaved, quantile, spread
from dynamic import TILES, matmul


def kernel_and_arrays(m, n, k):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n)))
    kernel = tilelang.compile(matmul(m, n, k, TILES["cuda"], "float16"), target="sim:sm_80")
    return kernel, (a, b, np.full((m, n), np.nan, np.float16))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    options = {"bare": dict(watch=False, count=False), "watched": dict(count=False), "and counted": {}}
    for size, ways in (((128, 128, 1024), tuple(options)), ((1024, 1024, 1024), ("watched",))):
        kernel, arrays = kernel_and_arrays(*size)
        runs = {}
        for way in ways:
            runs[way] = lambda kernel=kernel, arrays=arrays, way=way: kernel.simulate(*arrays, **options[way])
        for way, times in interleaved(runs, repeats if size[0] < 1024 else 3).items():
            name = "x".join(map(str, size))
            print(f"{name:16} {way:12} {quantile(times, 0.5):7.4f} s  spread {spread(times):.0%}")


if __name__ == "__main__":
    main()
