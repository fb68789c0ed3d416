"""Flash attention forward on a GPU: examples/flash_attention.py beside torch's scaled_dot_product_attention.

One process, in turns, medians (timing.py).  FLOP = 4·B·H·N²·D, half of it where causal.

    python bench/attention_gpu.py [--batch 4] [--heads 16] [--length 4096]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import tilelang

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / "examples")]
TILES = [(128, 64, 128), (128, 64, 256), (64, 64, 128), (128, 128, 256)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, size in {"batch": 4, "heads": 16, "length": 4096}.items():
        parser.add_argument(f"--{name}", type=int, default=size)
    o = parser.parse_args()
    import flash_attention
    import torch
    from timing import measure

    attend = torch.nn.functional.scaled_dot_product_attention
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, tilelang {tilelang.__version__}")
    for dim in (64, 128):
        for causal in (False, True):
            shape = (o.batch, o.heads, o.length, dim)
            q, k, v = (torch.randn(shape, device="cuda", dtype=torch.float16) for _ in range(3))
            expected = attend(q, k, v, is_causal=causal).float()
            launches = {"torch": lambda q=q, k=k, v=v, c=causal: attend(q, k, v, is_causal=c)}
            errors = {}
            for tiles in TILES:
                sizes = (o.batch, o.heads, o.length, o.length, dim)
                kernel = tilelang.compile(
                    flash_attention.attention.get_tir(*sizes, causal, *tiles, "float16"), target="cuda"
                )
                out = torch.full(shape, float("nan"), device="cuda", dtype=torch.float16)
                kernel(q, k, v, out)
                name = "ours {}x{} {}t".format(*tiles)
                errors[name] = float((out.float() - expected).norm() / expected.norm())
                assert errors[name] < 2e-3, (name, errors[name])
                launches[name] = lambda kernel=kernel, q=q, k=k, v=v, out=out: kernel(q, k, v, out)
            work = 4e-9 * o.batch * o.heads * o.length**2 * dim / (2 if causal else 1)
            results = measure(launches, repeats=7)
            base = results["torch"].ms
            for name, r in results.items():
                kind = "causal" if causal else "full"
                print(
                    f"d {dim} {kind:6s} {name:18s} {work / r.ms:7.1f} TFLOPS  {base / r.ms:5.3f} of torch  "
                    f"spread {100 * r.spread:.1f}%  error {errors.get(name, 0):.1e}"
                )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
