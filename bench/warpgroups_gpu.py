"""Products by warpgroups placed by hand on a Hopper GPU: examples/gemm_warpgroups.py beside torch.matmul.

One process, in turns, medians (timing.py).  FLOP = 2·M·N·K.

    python bench/warpgroups_gpu.py [--groups 8,12,16] [--sizes 8192,4096]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import tilelang

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / "examples")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=lambda text: [int(n) for n in text.split(",")], default=[8, 12, 16])
    parser.add_argument("--sizes", type=lambda text: [int(n) for n in text.split(",")], default=[8192, 4096])
    o = parser.parse_args()
    import gemm_warpgroups
    import torch
    from timing import measure

    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, tilelang {tilelang.__version__}")
    for size in o.sizes:
        for transpose_B in (True, False):
            a, b = (torch.randn((size, size), device="cuda", dtype=torch.float16) for _ in range(2))
            right = b.T if transpose_B else b
            launches = {"torch": lambda a=a, right=right: torch.matmul(a, right)}
            exact = a[:128].double() @ right.double()
            for group in o.groups:
                kernel = tilelang.compile(
                    gemm_warpgroups.gemm.get_tir(size, size, size, transpose_B, group=group),
                    target="cuda -arch=sm_90a",
                )
                c = torch.full((size, size), float("nan"), device="cuda", dtype=torch.float16)
                kernel(a, b, c)
                error = float((c[:128].double() - exact).norm() / exact.norm())
                assert error < 5e-4 and bool(c.isfinite().all()), error
                launches[f"groups of {group}"] = lambda kernel=kernel, a=a, b=b, c=c: kernel(a, b, c)
            results = measure(launches, repeats=9)
            base = results["torch"].ms
            for name, r in results.items():
                which = "(N, K)" if transpose_B else "(K, N)"
                print(
                    f"{size}^3 B {which} {name:13s} {2e-9 * size**3 / r.ms:7.1f} TFLOPS  "
                    f"{base / r.ms:5.3f} of torch (cuBLAS)  spread {100 * r.spread:.1f}%"
                )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
