"""Products by warpgroups placed by hand on a Hopper GPU: examples/gemm_warpgroups.py beside torch.matmul, and
examples/attention_warpgroups.py beside the attention of cuDNN and FlashAttention-2 in torch.

One process, in turns, medians (timing.py).  FLOP = 2·M·N·K; 4·B·H·N²·D, half of it where causal.

    python bench/warpgroups_gpu.py [--gemm 8192,4096] [--groups 12,16] [--attention 4096,16384]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import tilelang
import torch
from timing import measure

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / "examples")]
TARGET = "cuda -arch=sm_90a"


def launch(kernel, *arguments):
    return lambda: kernel(*arguments)


def show(what: str, work: float, launches: dict) -> None:
    results = measure(launches, repeats=9)
    base = next(iter(launches))
    for name, r in results.items():
        print(
            f"{what} {name:17s} {work / r.ms:7.1f} TFLOPS  {results[base].ms / r.ms:5.3f} of {base}  "
            f"spread {100 * r.spread:.1f}%",
            flush=True,
        )


def gemm(size: int, groups: list[int]) -> None:
    import gemm_cluster
    import gemm_warpgroups

    for transpose_B in (True, False):
        a, b = (torch.randn((size, size), device="cuda", dtype=torch.float16) for _ in range(2))
        right = b.T if transpose_B else b
        launches = {"cuBLAS": launch(torch.matmul, a, right)}
        exact = a[:128].double() @ right.double()
        for name, example, options in [
            *((f"groups of {group}", gemm_warpgroups, {"group": group}) for group in groups),
            ("one team", gemm_warpgroups, {"group": groups[0], "one_team": True}),
            *((f"clusters, {group}", gemm_cluster, {"group": group // 2}) for group in groups),
        ]:
            program = example.gemm.get_tir(size, size, size, transpose_B, **options)
            kernel = tilelang.compile(program, target=TARGET)
            c = torch.full((size, size), float("nan"), device="cuda", dtype=torch.float16)
            kernel(a, b, c)
            error = float((c[:128].double() - exact).norm() / exact.norm())
            assert error < 5e-4 and bool(c.isfinite().all()), error
            launches[name] = launch(kernel, a, b, c)
        show(f"{size}^3 B {'(N, K)' if transpose_B else '(K, N)'}", 2e-9 * size**3, launches)


def gemm_fp8(size: int) -> None:
    import gemm_fp8_warpgroups

    a, b = (torch.randn((size, size), device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    one = torch.ones((), device="cuda")

    def by_torch(fast):
        return torch._scaled_mm(a, b.T, one, one, out_dtype=torch.bfloat16, use_fast_accum=fast)

    launches = {"fast accumulation": launch(by_torch, True), "torch, exact": launch(by_torch, False)}
    exact = a[:128].double() @ b.T.double()
    for promote, block_N in ((True, 192), (False, 256)):
        program = gemm_fp8_warpgroups.gemm.get_tir(size, size, size, promote, block_N=block_N)
        kernel = tilelang.compile(program, target=TARGET)
        c = torch.full((size, size), float("nan"), device="cuda", dtype=torch.bfloat16)
        kernel(a, b, c)
        error = float((c[:128].double() - exact).norm() / exact.norm())
        assert error < 4e-3 and bool(c.isfinite().all()), error
        launches[f"{'promoted' if promote else 'not promoted'}, {block_N}"] = launch(kernel, a, b, c)
    show(f"{size}^3 fp8", 2e-9 * size**3, launches)


def attention(length: int) -> None:
    import attention_warpgroups
    from torch.nn.attention import SDPBackend, sdpa_kernel

    batch, heads, dim = (4, 16, 128) if length <= 8192 else (1, 16, 128)

    def by(backend, q, k, v, causal):
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    for causal in (False, True):
        shape = (batch, heads, length, dim)
        q, k, v = (torch.randn(shape, device="cuda", dtype=torch.float16) for _ in range(3))
        launches = {
            "cuDNN": launch(by, SDPBackend.CUDNN_ATTENTION, q, k, v, causal),
            "FA2": launch(by, SDPBackend.FLASH_ATTENTION, q, k, v, causal),
        }
        expected = launches["FA2"]().float()
        kernel = tilelang.compile(
            attention_warpgroups.attention.get_tir(batch, heads, length, length, dim, causal),
            target=TARGET,
            pass_configs=attention_warpgroups.flash_attention.FAST,
        )
        out = torch.full(shape, float("nan"), device="cuda", dtype=torch.float16)
        kernel(q, k, v, out)
        error = float((out.float() - expected).norm() / expected.norm())
        assert error < 2e-3, error
        launches["by hand"] = launch(kernel, q, k, v, out)
        what = f"{batch} x {heads} x {length} x {dim} {'causal' if causal else 'full'}"
        show(what, 4e-9 * batch * heads * length**2 * dim / (1 + causal), launches)


def main() -> int:
    def numbers(text: str) -> list[int]:
        return [int(n) for n in text.split(",") if n]

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gemm", type=numbers, default=[8192, 4096])
    parser.add_argument("--groups", type=numbers, default=[12, 16])
    parser.add_argument("--fp8", type=numbers, default=[8192])
    parser.add_argument("--attention", type=numbers, default=[4096, 16384])
    o = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, tilelang {tilelang.__version__}")
    for size in o.gemm:
        gemm(size, o.groups)
    for size in o.fp8:
        gemm_fp8(size)
    for length in o.attention:
        attention(length)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
