"""Flash attention forward on a GPU: examples/flash_attention.py beside torch's scaled_dot_product_attention.

Torch runs FlashAttention-2, which is for chips as old as sm_80, and cuDNN.  One process, in turns, medians
(timing.py).  FLOP = 4·B·H·N²·D, half of it where causal.

    python bench/attention_gpu.py [--batch 4] [--heads 16] [--length 4096] [--dims 64 128]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import tilelang

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / "examples")]
TILES = [(128, 64, 128), (128, 32, 128), (64, 64, 128), (128, 128, 256), (192, 128, 384), (128, 80, 256)]
FAST = {"tl.enable_fast_math": True}  # exp2 by the chip's own instruction


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, size in {"batch": 4, "heads": 16, "length": 4096}.items():
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--dims", type=int, nargs="+", default=[64, 128])
    o = parser.parse_args()
    import flash_attention
    import torch
    from timing import measure
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def attend(q, k, v, is_causal, backend=SDPBackend.FLASH_ATTENTION):
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)

    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, tilelang {tilelang.__version__}")
    for dim in o.dims:
        for causal in (False, True):
            shape = (o.batch, o.heads, o.length, dim)
            q, k, v = (torch.randn(shape, device="cuda", dtype=torch.float16) for _ in range(3))
            expected = attend(q, k, v, is_causal=causal).float()
            launches = {
                name: lambda q=q, k=k, v=v, c=causal, b=backend: attend(q, k, v, c, b)
                for name, backend in {
                    "FA2": SDPBackend.FLASH_ATTENTION,
                    "cuDNN": SDPBackend.CUDNN_ATTENTION,
                }.items()
            }
            errors = {}
            for tiles, configs in [(t, c) for t in TILES for c in (None, FAST)]:
                sizes = (o.batch, o.heads, o.length, o.length, dim)
                kernel = tilelang.compile(
                    flash_attention.attention.get_tir(*sizes, causal, *tiles, "float16"),
                    target="cuda",
                    pass_configs=configs,
                )
                out = torch.full(shape, float("nan"), device="cuda", dtype=torch.float16)
                kernel(q, k, v, out)
                name = "ours {}x{} {}t".format(*tiles) + (" fast" if configs else "")
                errors[name] = float((out.float() - expected).norm() / expected.norm())
                assert errors[name] < 2e-3, (name, errors[name])
                launches[name] = lambda kernel=kernel, q=q, k=k, v=v, out=out: kernel(q, k, v, out)
            work = 4e-9 * o.batch * o.heads * o.length**2 * dim / (2 if causal else 1)
            results = measure(launches, repeats=7)
            base = results["FA2"].ms
            for name, r in results.items():
                kind = "causal" if causal else "full"
                print(
                    f"d {dim} {kind:6s} {name:22s} {work / r.ms:7.1f} TFLOPS  {base / r.ms:5.3f} of FA2  "
                    f"spread {100 * r.spread:.1f}%  error {errors.get(name, 0):.1e}"
                )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
