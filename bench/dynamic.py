"""One binary for all sizes against a binary for one: a GEMM and its dynamic twin, in one process, in turns.

    python bench/dynamic.py [--target cpu|cuda] [--sizes 8192x8192x8192,…] [--which M,N,K] [--b kn,nk]
                            [--tile 128x256x64x256] [--stages 3] [--repeats 9] [--markdown FILE]

f32 on the CPU, at 2048 and beside it, where rows are not aligned; f16 on the GPU, at M1, M5 and a small
ragged size.  A ratio is the static twin's time over the dynamic one's: 1 is equal, less is slower.  Times are
medians, with (p90 - p10) / median; operands take turns where they would stay in L2.
"""

from __future__ import annotations

import argparse
import itertools
from dataclasses import dataclass
from pathlib import Path

import tilelang
import tilelang.language as T
from cpu_timing import interleaved, quantile, spread

TILES = {"cpu": (256, 512, 256, 1), "cuda": (128, 256, 64, 256)}
STAGES = {"cpu": 1, "cuda": 3}
SIZES = {
    "cpu": [(n, n, n) for n in (2048, 2047, 2049)],
    "cuda": [(4096, 8192, 8192), (8192, 8192, 8192), (1000, 1304, 704)],
}
ROTATED = 400_000_000  # bytes that the sets of operands have together, so that no set stays in L2
HEAD = ["dtype", "M, N, K", "B", "static GFLOP/s", "dynamic GFLOP/s", "ratio", "spread"]


def matmul(M, N, K, tile, dtype, stages, along_K):
    block_M, block_N, block_K, threads = tile
    of_B, shape = ((N, K), (block_N, block_K)) if along_K else ((K, N), (block_K, block_N))

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor(of_B, dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared(shape, dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                if along_K:
                    T.copy(B[bx * block_N, k * block_K], B_shared)
                else:
                    T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=along_K)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


@dataclass
class Operands:
    sets: list  # of A, B, C
    turn: int = 0

    def run(self, kernel):
        self.turn = (self.turn + 1) % len(self.sets)
        kernel(*self.sets[self.turn])


def numpy_operands(m, n, k, along_K):
    import numpy as np

    rng = np.random.default_rng(0)
    of_B = (n, k) if along_K else (k, n)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal(of_B, np.float32)
    return Operands([(a, b, np.full((m, n), np.nan, np.float32))])


def torch_operands(m, n, k, along_K):
    import torch

    def one():
        half = {"device": "cuda", "dtype": torch.float16}
        a, b = torch.randn(m, k, **half), torch.randn(*((n, k) if along_K else (k, n)), **half)
        return a, b, torch.full((m, n), float("nan"), **half)

    return Operands([one() for _ in range(max(1, ROTATED // (2 * (m * k + k * n + m * n))))])


def error_of(operands, kernel, along_K):
    """Of every 61st row, relative to the norm of the exact product."""
    import numpy as np

    a, b, c = operands.sets[0]
    c[:] = float("nan")
    kernel(a, b, c)
    if not isinstance(a, np.ndarray):
        a, b, c = (x.double().cpu().numpy() for x in (a, b, c))
    exact = a[::61].astype(np.float64) @ (b.T if along_K else b).astype(np.float64)
    return float(np.linalg.norm(c[::61] - exact) / np.linalg.norm(exact))


def seconds_of(kind, runs, repeats):
    """Seconds per run of each, and spread."""
    if kind == "cpu":
        return {name: (quantile(t, 0.5), spread(t)) for name, t in interleaved(runs, repeats).items()}
    from timing import measure

    return {name: (r.ms / 1e3, r.spread) for name, r in measure(runs, repeats).items()}


def row_of(options, kind, size, along_K):
    m, n, k = size
    dtype = "float16" if kind == "cuda" else "float32"
    tile = tuple(map(int, options.tile.split("x"))) if options.tile else TILES[kind]
    stages = options.stages or STAGES[kind]
    operands = (torch_operands if kind == "cuda" else numpy_operands)(m, n, k, along_K)
    dynamic = [T.dynamic(d) if d in options.which.split(",") else v for d, v in zip("MNK", size, strict=True)]
    kernels = {
        name: tilelang.compile(matmul(*extents, tile, dtype, stages, along_K), target=options.target)
        for name, extents in (("static", size), ("dynamic", dynamic))
    }
    for name, kernel in kernels.items():
        error = error_of(operands, kernel, along_K)
        assert error < 2e-3, f"{name} at {size}: an error of {error:.1e}"
    runs = {name: lambda kernel=kernel: operands.run(kernel) for name, kernel in kernels.items()}
    found = seconds_of(kind, runs, options.repeats)
    rates = [2e-9 * m * n * k / found[name][0] for name in kernels]
    ratio = found["static"][0] / found["dynamic"][0]
    widest = max(width for _, width in found.values())
    order = "(N, K)" if along_K else "(K, N)"
    return [
        dtype,
        f"{m}, {n}, {k}",
        order,
        f"{rates[0]:.0f}",
        f"{rates[1]:.0f}",
        f"{ratio:.3f}",
        f"{widest:.1%}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--sizes", help="MxNxK, and more behind commas")
    parser.add_argument("--which", default="M,N,K", help="the dynamic dimensions")
    parser.add_argument("--b", help="kn and nk: how B lies in memory")
    parser.add_argument("--tile", help="block_M x block_N x block_K x threads")
    parser.add_argument("--stages", type=int)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--markdown", help="a file for the table")
    options = parser.parse_args()
    kind = "cuda" if options.target.startswith("cuda") else "cpu"
    sizes = (
        [tuple(map(int, s.split("x"))) for s in options.sizes.split(",")] if options.sizes else SIZES[kind]
    )
    orders = (options.b or ("kn,nk" if kind == "cuda" else "kn")).split(",")
    rows = [HEAD, ["---"] * len(HEAD)]
    print(*HEAD, sep=" | ")
    for size, order in itertools.product(sizes, orders):
        rows.append(row_of(options, kind, size, order == "nk"))
        print(*rows[-1], sep=" | ", flush=True)
    if options.markdown:
        Path(options.markdown).write_text("".join(f"| {' | '.join(row)} |\n" for row in rows))


if __name__ == "__main__":
    main()
