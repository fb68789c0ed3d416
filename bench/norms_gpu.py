"""Softmax and RMS normalisation of rows on a GPU: the examples' kernels beside torch's and beside a copy.

Each element is read once and written once, so that a copy of the matrix is the floor.  One process, in turns,
medians (timing.py).

    python bench/norms_gpu.py [--dtype float16]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import tilelang

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / "examples")]
SHAPES = [(8192, 8192), (16384, 4096)]
TILES = [(1, 128), (1, 256), (2, 256), (4, 256)]  # rows of a block, threads
BOUND = 2e-3


def compiled(kernel):
    return tilelang.compile(kernel, target="cuda")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtype", default="float16")
    o = parser.parse_args()
    import layernorm
    import softmax
    import torch
    from timing import measure

    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, tilelang {tilelang.__version__}")
    for rows, columns in SHAPES:
        x = torch.randn((rows, columns), device="cuda", dtype=getattr(torch, o.dtype))
        w = torch.randn(columns, device="cuda", dtype=x.dtype)
        y = torch.empty_like(x)
        ops = {
            "softmax": (lambda x=x: torch.softmax(x, 1), torch.softmax(x.double(), 1), softmax.softmax, (x,)),
            "rmsnorm": (
                lambda x=x, w=w, n=columns: torch.rms_norm(x, (n,), w, layernorm.EPS),
                torch.rms_norm(x.double(), (columns,), w.double(), layernorm.EPS),
                layernorm.rmsnorm,
                (x, w),
            ),
        }
        for name, (peer, expected, program, inputs) in ops.items():
            launches = {"copy": lambda x=x, y=y: y.copy_(x), "torch": peer}
            for block, threads in TILES:
                kernel = compiled(program.get_tir(rows, columns, block, threads, o.dtype))
                out = torch.full_like(x, float("nan"))
                kernel(*inputs, out)
                error = float((out.double() - expected).norm() / expected.norm())
                assert error < BOUND, (name, block, threads, error)
                launches[f"ours {block} rows {threads}t"] = lambda k=kernel, a=(*inputs, out): k(*a)
            for provider, r in measure(launches, repeats=7).items():
                rate = 2e-9 * x.numel() * x.element_size() / r.ms
                print(
                    f"{name} {rows}x{columns} {provider:18s} {rate:5.2f} TB/s  spread {100 * r.spread:.1f}%"
                )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
