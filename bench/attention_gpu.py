"""Flash attention forward on a GPU: examples/flash_attention.py beside torch's scaled_dot_product_attention.

Torch runs cuDNN and FlashAttention-2.  One process, in turns, medians (timing.py); operands in turn where
they would stay in L2.  FLOP = 4·B·H·N²·D, half of it where causal.  `*`: tiles of the carver's first hint.

    python bench/attention_gpu.py [--cases FA0 …] [--tiles 128x128x256 …] [--repeats 7]
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import tilelang
from tilelang.carver.arch import get_arch
from tilelang.carver.template import FlashAttentionTemplate

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / "examples")]

# batch, heads, length, width of a head, causal; FA0 to FA4 are those of the paper's table
CASES = {
    "FA0": (1, 32, 512, 128, True), "FA1": (1, 32, 512, 128, False),
    "FA2": (1, 32, 1024, 128, True), "FA3": (1, 32, 1024, 128, False),
    "FA4": (1, 32, 4096, 128, True),
    "b4-full": (4, 16, 4096, 128, False), "b4-causal": (4, 16, 4096, 128, True),
    "8k-causal": (1, 32, 8192, 128, True), "8k-full": (1, 32, 8192, 128, False),
    "16k-causal": (1, 16, 16384, 128, True), "16k-full": (1, 16, 16384, 128, False),
    "d64-full": (1, 64, 4096, 64, False), "d64-causal": (1, 64, 4096, 64, True),
    "d256-full": (1, 16, 4096, 256, False), "d256-causal": (1, 16, 4096, 256, True),
}  # fmt: skip
Case = tuple[int, int, int, int, bool]
# Queries and keys of a block, and its threads, by the width of a head: where warpgroups multiply; elsewhere.
WARPGROUPS = {64: ["192x128x384", "128x128x256"], 128: ["128x128x256", "128x176x256"], 256: ["128x64x256"]}
WARPS = ["128x64x128", "128x32x128", "64x64x128"]
ROTATED = 200_000_000  # bytes of the operands that launches take in turn


def kernel_of(case: Case, tiles: str) -> Any:
    import flash_attention

    batch, heads, length, dim, causal = case
    sizes = (batch, heads, length, length, dim, causal, *map(int, tiles.split("x")), "float16")
    program = flash_attention.attention.get_tir(*sizes)
    return tilelang.compile(program, target="cuda", pass_configs=flash_attention.FAST)


def compiled(item: tuple[Case, str]) -> None:
    """Into the disk cache, by a process of its own."""
    kernel_of(*item)


def hinted(case: Case) -> str:
    batch, heads, length, dim, causal = case
    t = FlashAttentionTemplate(None, batch, heads, dim, length, length, causal, accum_dtype="float32")
    hint = t.with_arch(get_arch("cuda")).recommend_hints(1)[0]
    return "x".join(map(str, (*hint.block, hint.threads)))


def tiles_of(case: Case, given: list[str]) -> list[str]:
    by_warpgroups = tilelang.resolve_target("cuda").endswith("sm_90a")
    own = WARPGROUPS.get(case[3], WARPS) if by_warpgroups else WARPS
    return list(dict.fromkeys([*(given or own), hinted(case)]))


def measure_case(name: str, case: Case, tiles: list[str], repeats: int) -> None:
    import torch
    from timing import measure
    from torch.nn.attention import SDPBackend, sdpa_kernel

    batch, heads, length, dim, causal = case
    shape = (batch, heads, length, dim)
    sets = max(1, min(16, ROTATED // (8 * batch * heads * length * dim)))
    operands = [
        [torch.randn(shape, device="cuda", dtype=torch.float16) for _ in range(3)] for _ in range(sets)
    ]

    def in_turn(f: Callable) -> Callable[[], object]:
        turns = itertools.cycle(operands)
        return lambda: f(*next(turns))

    def by(backend: Any) -> Callable:
        def attend(q: Any, k: Any, v: Any) -> Any:
            with sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

        return attend

    flash = by(SDPBackend.FLASH_ATTENTION)
    expected = flash(*operands[0]).float()
    launches = {"cuDNN": in_turn(by(SDPBackend.CUDNN_ATTENTION)), "FA2": in_turn(flash)}
    for text in tiles:
        kernel = kernel_of(case, text)
        out = torch.full(shape, float("nan"), device="cuda", dtype=torch.float16)
        kernel(*operands[0], out)
        error = float((out.float() - expected).norm() / expected.norm())
        assert error < 2e-3, (name, text, error)
        label = f"ours {text}{' *' * (text == hinted(case))}"
        launches[label] = in_turn(lambda q, k, v, kernel=kernel, out=out: kernel(q, k, v, out))
    results = measure(launches, repeats=repeats)
    work = 4e-9 * batch * heads * length**2 * dim / (2 if causal else 1)
    for label, r in results.items():
        print(
            f"{name:12s} {label:20s} {work / r.ms:7.1f} TFLOPS  {results['cuDNN'].ms / r.ms:5.3f} of cuDNN  "
            f"spread {100 * r.spread:.1f}%",
            flush=True,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument(
        "--tiles", nargs="*", default=[], help="queries x keys x threads; default: by the case"
    )
    parser.add_argument("--repeats", type=int, default=7)
    o = parser.parse_args()
    todo = {name: (CASES[name], tiles_of(CASES[name], o.tiles)) for name in o.cases}
    spawn = multiprocessing.get_context("spawn")  # a driver that this process has opened is lost to its forks
    with ProcessPoolExecutor(mp_context=spawn) as pool:
        list(pool.map(compiled, [(case, text) for case, tiles in todo.values() for text in tiles]))
    import torch

    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, tilelang {tilelang.__version__}")
    for name, (case, tiles) in todo.items():
        measure_case(name, case, tiles, o.repeats)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
