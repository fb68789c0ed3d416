"""f16 GEMM on a GPU: ours by mma.sync beside torch.matmul (cuBLAS) and Triton's mma.sync, in one process.

Triton is kept from Hopper's own instructions (DISABLE_MMA_V3=1) and from pipelining (num_stages=1), the
regime that this version's kernels run in; its best of several tile shapes counts.

    python bench/gemm_gpu.py [--size 8192] [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import sys

os.environ.setdefault("DISABLE_MMA_V3", "1")

import tilelang
import tilelang.language as T
import torch
from timing import Result, measure

OURS = [
    (128, 128, 32, 128),
    (128, 128, 64, 128),
    (128, 256, 32, 256),
    (128, 128, 64, 256),
    (256, 128, 32, 256),
    (128, 256, 64, 256),
]
TRITON = [(128, 128, 64, 4), (128, 128, 32, 4), (128, 256, 64, 8), (128, 256, 32, 8), (64, 128, 64, 4)]


@tilelang.jit(target="cuda", out_idx=None)
def matmul(M, N, K, block_M, block_N, block_K, threads):
    @T.prim_func
    def main(A: T.Tensor((M, K), T.float16), B: T.Tensor((K, N), T.float16), C: T.Tensor((M, N), T.float16)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), T.float16)
            B_shared = T.alloc_shared((block_K, block_N), T.float16)
            C_local = T.alloc_fragment((block_M, block_N), T.float32)
            T.clear(C_local)
            for k in T.serial(T.ceildiv(K, block_K)):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def triton_matmul(a, b, c, block_m, block_n, block_k, warps):
    """A plain Triton GEMM: pointer arithmetic, grouped tile order, one stage."""
    from triton_gemm import kernel

    m, k = a.shape
    n = b.shape[1]
    grid = ((m // block_m) * (n // block_n),)
    kernel[grid](
        a,
        b,
        c,
        m,
        n,
        k,
        a.stride(0),
        b.stride(0),
        c.stride(0),
        block_m,
        block_n,
        block_k,
        8,
        num_warps=warps,
        num_stages=1,
    )


def error(c, reference):
    return float((c.double() - reference).norm() / reference.norm())


def providers(size: int, quick: bool):
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in range(2))
    rows = torch.arange(0, size, 97, device="cuda")
    reference = a[rows].double() @ b.double()
    found = {"torch": (lambda: torch.matmul(a, b), 0.0)}
    for tile in OURS[:2] if quick else OURS:
        kernel, c = matmul(size, size, size, *tile), torch.full_like(a, float("nan"))
        kernel(a, b, c)
        name = "ours {}x{}x{} {}t".format(*tile)
        found[name] = (lambda kernel=kernel, c=c: kernel(a, b, c), error(c[rows], reference))
    for tile in TRITON[:1] if quick else TRITON:
        c = torch.full_like(a, float("nan"))
        try:
            triton_matmul(a, b, c, *tile)
        except Exception as problem:
            print("triton", tile, "skipped:", str(problem).splitlines()[0], file=sys.stderr)
            continue
        name = "triton {}x{}x{} {}w".format(*tile)
        found[name] = (lambda c=c, tile=tile: triton_matmul(a, b, c, *tile), error(c[rows], reference))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    found = providers(options.size, options.quick)
    results: dict[str, Result] = measure({name: launch for name, (launch, _) in found.items()})
    flop = 2 * options.size**3
    base = results["torch"].ms
    versions = f"torch {torch.__version__}, tilelang {tilelang.__version__}"
    print(f"f16 {options.size}^3 on {torch.cuda.get_device_name()}, {versions}")
    for name, result in results.items():
        print(
            f"{name:28s} {flop / result.ms / 1e9:8.1f} TFLOPS  {base / result.ms:5.3f} of torch  "
            f"spread {100 * result.spread:.1f}%  error {found[name][1]:.1e}"
        )
    best = {}
    for who in ("ours", "triton"):
        times = [r.ms for n, r in results.items() if n.startswith(who)]
        if times:
            best[who] = min(times)
    if "triton" in best:
        print(f"best ours / best triton num_stages=1: {best['triton'] / best['ours']:.3f}")
    if options.json:
        with open(options.json, "w") as out:
            rows = {n: {"ms": r.ms, "spread": r.spread, "error": found[n][1]} for n, r in results.items()}
            json.dump(rows, out)
    return 0 if all(e < 1e-3 for _, e in found.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
