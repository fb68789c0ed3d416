"""GEMM with weights of 4 bits on a GPU: examples/gemm_w4a16.py beside torch.matmul (cuBLAS) in float16.

Of ours the best of several tile shapes counts, of cuBLAS the better of both layouts of B.  Marlin is not
here: its figures and cuBLAS's beside it were measured elsewhere, so the ratio of ratios is given.  The shapes
are Table 2 of the paper.

    python bench/dequant_gpu.py [--cases M5 M0] [--tiles 0 3] [--repeats 8] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import tilelang
import torch
from timing import measure

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

from gemm_gpu import CASES  # noqa: E402
from gemm_w4a16 import gemm_w4a16  # noqa: E402

GROUP = 128
# block_M, block_N, block_K, stages, threads
TILES = [
    (128, 256, 64, 3, 256),
    (128, 256, 64, 4, 256),
    (128, 256, 32, 4, 256),
    (128, 128, 64, 4, 128),
]
# Marlin of 2024-04-04 and cuBLAS 13.1.1 beside it on an H200, microseconds.
MARLIN = {
    "M0": (201.7, 88.3), "M1": (1416.5, 701.7), "M2": (4838.9, 2499.7), "M3": (4875.0, 2448.5),
    "M4": (402.7, 175.5), "M5": (2840.4, 1436.8), "M6": (9589.8, 4933.9), "M7": (9717.5, 5130.5),
}  # fmt: skip


def unpacked(words: torch.Tensor) -> torch.Tensor:
    """The codes (K, N) of words (K // 16, 2 * N), less 8."""
    k, n = 16 * words.shape[0], words.shape[1] // 2
    words = words.view(k // 16, n // 16, 8, 4)
    codes = torch.empty((k // 16, 2, 4, 2, n // 16, 2, 8), dtype=torch.float16, device=words.device)
    for below in range(2):
        for second in range(2):
            for right in range(2):
                part = words >> (4 * below + 16 * second + 8 * right) & 15
                codes[:, below, :, second, :, right, :] = (part - 8).permute(0, 3, 1, 2)
    return codes.view(k, n)


def providers(size: tuple[int, int, int], tiles: list) -> dict:
    """(launch, relative error) of each, by name."""
    m, n, k = size
    a = torch.randn(m, k, device="cuda", dtype=torch.float16)
    words = torch.randint(-(2**31), 2**31, (k // 16, 2 * n), device="cuda", dtype=torch.int32)
    scales = torch.rand((k // GROUP, n), device="cuda", dtype=torch.float16) * 0.05 + 0.01
    b = unpacked(words) * scales.repeat_interleave(GROUP, 0)
    b_rows = b.t().contiguous()
    rows = torch.arange(0, m, 97, device="cuda")
    reference = a[rows].double() @ b.double()
    c = torch.empty((m, n), device="cuda", dtype=torch.float16)
    found = {}

    def add(name, launch):
        c.fill_(float("nan"))
        launch()
        error = float((c[rows].double() - reference).norm() / reference.norm())
        found[name] = (launch, error)

    add("cublas nn", lambda: torch.matmul(a, b, out=c))
    add("cublas nt", lambda: torch.matmul(a, b_rows.t(), out=c))
    weights = words.view(torch.uint32)
    for tile in tiles:
        kernel = tilelang.compile(gemm_w4a16.get_tir(m, n, k, GROUP, *tile), target="cuda")
        add("ours {}x{}x{} {}s {}t".format(*tile), lambda kernel=kernel: kernel(a, weights, scales, c))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--tiles", nargs="*", type=int, default=list(range(len(TILES))))
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--json")
    options = parser.parse_args()
    print(f"int4 x f16 GEMM, groups of {GROUP}, on {torch.cuda.get_device_name()}, torch {torch.__version__}")
    rows, right = [], True
    for case in options.cases:
        m, n, k = CASES[case]
        found = providers(CASES[case], [TILES[i] for i in options.tiles])
        results = measure({name: launch for name, (launch, _) in found.items()}, options.repeats)
        best: dict[str, float] = {}
        for name, result in results.items():
            error, who = found[name][1], name.split()[0]
            best[who] = min(best.get(who, float("inf")), result.ms)
            right &= error < 1e-3
            tflops = 2e-9 * m * n * k / result.ms
            rows.append([case, name, result.ms, tflops, result.spread, error])
            print(f"{case} {name:26s} {tflops:7.1f} TFLOPS  {100 * result.spread:4.1f}%  {error:.1e}")
        ratio, theirs = best["cublas"] / best["ours"], MARLIN[case][1] / MARLIN[case][0]
        print(f"{case} ours {ratio:.3f} of cuBLAS, Marlin {theirs:.3f}: {ratio / theirs:.3f}", flush=True)
        torch.cuda.empty_cache()
    if options.json:
        Path(options.json).write_text(json.dumps(rows))
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit(main())
