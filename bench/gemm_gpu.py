"""f16 GEMM on a GPU: ours by mma.sync beside torch.matmul (cuBLAS) and Triton's mma.sync, in one process.

Triton is kept from Hopper's own instructions by DISABLE_MMA_V3=1.  Of ours and of Triton the best of several
tile shapes and stages counts; both visit the blocks in groups.  The shapes are Table 2 of the paper.

    python bench/gemm_gpu.py [--cases M5 M0] [--layouts nn nt] [--repeats 8] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import sys

os.environ.setdefault("DISABLE_MMA_V3", "1")

import tilelang
import torch
from plain_gemm import matmul
from timing import measure

CASES = {
    "M0": (4096, 1024, 8192),
    "M1": (4096, 8192, 8192),
    "M2": (4096, 28672, 8192),
    "M3": (4096, 8192, 28672),
    "M4": (8192, 1024, 8192),
    "M5": (8192, 8192, 8192),
    "M6": (8192, 28672, 8192),
    "M7": (8192, 8192, 28672),
}
# block_M, block_N, block_K, num_stages, threads
OURS = [
    (128, 256, 64, 3, 256),
    (256, 128, 64, 3, 256),
    (128, 256, 64, 4, 256),
    (128, 256, 32, 4, 256),
    (256, 128, 32, 4, 256),
    (128, 128, 64, 3, 128),
    (128, 128, 32, 4, 128),
]
# block_M, block_N, block_K, num_stages, warps
TRITON = [
    (128, 128, 32, 4, 4),
    (128, 128, 32, 5, 4),
    (128, 128, 64, 3, 4),
    (128, 256, 32, 4, 8),
    (128, 256, 64, 3, 8),
    (128, 128, 64, 3, 8),
]


def triton_matmul(a, b, c, block_m, block_n, block_k, stages, warps, transposed):
    """A plain Triton GEMM: pointer arithmetic, grouped tile order."""
    from triton_gemm import kernel

    m, k = a.shape
    n = c.shape[1]
    grid = ((m // block_m) * (n // block_n),)
    stride_k, stride_n = (1, b.stride(0)) if transposed else (b.stride(0), 1)
    options = {"num_warps": warps, "num_stages": stages}
    kernel[grid](
        a,
        b,
        c,
        m,
        n,
        k,
        a.stride(0),
        stride_k,
        stride_n,
        c.stride(0),
        block_m,
        block_n,
        block_k,
        8,
        **options,
    )


def error(c, reference):
    return float((c.double() - reference).norm() / reference.norm())


def providers(size, transposed):
    m, n, k = size
    a = torch.randn(m, k, device="cuda", dtype=torch.float16)
    b = torch.randn((n, k) if transposed else (k, n), device="cuda", dtype=torch.float16)
    b_as_used = b.t() if transposed else b
    rows = torch.arange(0, m, 97, device="cuda")
    reference = a[rows].double() @ b_as_used.double()
    c = torch.full((m, n), float("nan"), device="cuda", dtype=torch.float16)
    found = {}

    def add(name, launch):
        c.fill_(float("nan"))
        launch()
        found[name] = (launch, error(c[rows], reference))

    add("torch", lambda: torch.matmul(a, b_as_used, out=c))
    for tile in OURS:
        kernel = matmul(m, n, k, *tile, transposed)
        add("ours {}x{}x{} {}s {}t".format(*tile), lambda kernel=kernel: kernel(a, b, c))
    for tile in TRITON:
        try:
            add(
                "triton {}x{}x{} {}s {}w".format(*tile), lambda t=tile: triton_matmul(a, b, c, *t, transposed)
            )
        except Exception as problem:
            print("triton", tile, "skipped:", str(problem).splitlines()[0], file=sys.stderr)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--layouts", nargs="*", default=["nn", "nt"], choices=["nn", "nt"])
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--json")
    options = parser.parse_args()
    versions = f"torch {torch.__version__}, tilelang {tilelang.__version__}"
    print(f"f16 GEMM on {torch.cuda.get_device_name()}, {versions}")
    rows, right = [], True
    for case in options.cases:
        for layout in options.layouts:
            found = providers(CASES[case], layout == "nt")
            results = measure({name: launch for name, (launch, _) in found.items()}, options.repeats)
            m, n, k = CASES[case]
            best = {}
            for name, result in results.items():
                tflops, who = 2e-9 * m * n * k / result.ms, name.split()[0]
                best[who] = max(best.get(who, 0), tflops)
                right &= found[name][1] < 1e-3
                rows.append([case, layout, name, tflops, result.spread, found[name][1]])
                spread, wrong = 100 * result.spread, found[name][1]
                print(f"{case} {layout} {name:30s} {tflops:7.1f} TFLOPS  {spread:4.1f}%  {wrong:.1e}")
            ratios = ", ".join(f"{best['ours'] / best[w]:.3f} of {w}" for w in best if w != "ours")
            print(f"{case} {layout} best of ours {best['ours']:.1f}: {ratios}", flush=True)
    if options.json:
        with open(options.json, "w") as out:
            json.dump(rows, out)
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit(main())
