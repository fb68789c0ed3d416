"""Attention, dequantising GEMM and chunk scan on the CPU, by the examples' own programs, beside PyTorch.

    python bench/examples_cpu.py [--threads 1,2] [--which attention,dequant,scan] [--repeats 7]

PyTorch's side is its fused attention, or what a user would write: unpack, scale, multiply; the sums of a
chunk as matrix products, in f32 and in the dtype of the inputs, of which the quicker counts. Threads are
counted once, so each count is a process. The sides take turns, each after a pause and an untimed run:
medians.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from cpu_timing import interleaved, quantile

ROOT = Path(__file__).resolve().parent.parent


def attention(dtype, causal):
    import flash_attention
    import tilelang
    import torch
    from torch.nn import functional

    q, k, v = (torch.randn(1, 8, 1024, 64).to(getattr(torch, dtype)) for _ in range(3))
    tiles = flash_attention.TILES["cpu"][0]
    prim = flash_attention.attention.get_tir(1, 8, 1024, 1024, 64, causal, *tiles, dtype)
    kernel, out = tilelang.compile(prim, target="cpu"), torch.empty_like(q)
    exact = functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=causal)
    theirs = {"fused": lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=causal)}
    if dtype == "float16":
        wide = [x.float() for x in (q, k, v)]
        theirs["fused, f32"] = lambda: functional.scaled_dot_product_attention(*wide, is_causal=causal)
    work = 4e-9 * 8 * 1024 * 1024 * 64 / (1 + causal)
    return lambda: kernel(q, k, v, out), theirs, lambda: (out, exact), work


def dequant(kind):
    import dequant_gemm
    import tilelang
    import torch

    M, N, K, group = 512, 2048, 2048, 32
    rng = np.random.default_rng(0)
    a = torch.randn(M, K).half()
    packed = torch.from_numpy(rng.integers(0, 256, (N, K // 2), dtype=np.uint8))
    scales = torch.from_numpy(rng.uniform(0.5, 1.5, (N, K // group)).astype(np.float16))
    table = torch.tensor(dequant_gemm.VALUES[kind], dtype=torch.float32)
    prim = dequant_gemm.dequant_gemm.get_tir(M, N, K, kind, group, *dequant_gemm.TILES["cpu"])
    kernel, out = tilelang.compile(prim, target="cpu"), torch.empty(M, N, dtype=torch.float16)

    def weights(dtype):
        codes = torch.stack((packed & 15, packed >> 4), 2).view(N, K)
        values = codes.to(dtype) - 8 if kind == "int4" else table.to(dtype)[codes.int()]
        return (values.view(N, -1, group) * scales.to(dtype)[:, :, None]).view(N, K)

    theirs = {
        "f16": lambda: a @ weights(torch.float16).T,
        "f32": lambda: (a.float() @ weights(torch.float32).T).half(),
    }
    exact, work = a.double() @ weights(torch.float64).T, 2e-9 * M * N * K
    return lambda: kernel(a, packed, scales, table, out), theirs, lambda: (out, exact), work


def scan():
    import chunk_scan
    import chunk_state
    import tilelang
    import torch

    batch, length, groups, heads, chunk, dim, state = sizes = (1, 4096, 1, 16, 256, 64, 128)
    rng, chunks = np.random.default_rng(0), length // chunk
    C, x, dt, a = chunk_state.inputs(rng, *sizes)
    CB = rng.standard_normal((batch, chunks, groups, chunk, chunk)).astype(np.float16)
    S = rng.standard_normal((batch, chunks, heads, dim, state)).astype(np.float16)
    D = rng.standard_normal(heads).astype(np.float16)
    arrays = [torch.from_numpy(np.ascontiguousarray(y)) for y in (CB, x, dt, a, C, S, D)]
    kernel = tilelang.compile(chunk_scan.chunk_scan.get_tir(*sizes, *chunk_scan.TILES["cpu"]), target="cpu")
    out = torch.empty(batch, length, heads, dim, dtype=torch.float16)

    def formula(dtype):
        CB, x, dt, a, C, S, D = (y.to(dtype) for y in arrays)
        x = x.view(chunks, chunk, heads, dim).permute(0, 2, 1, 3)  # chunk, head, l, p
        dt, a = dt[0].transpose(0, 1), a[0].transpose(0, 1)  # chunk, head, l
        past = C.view(chunks, 1, chunk, state) @ S[0].transpose(2, 3) * a.exp()[..., None]
        decay = (a[..., :, None] - a[..., None, :]).clamp(max=0).exp().tril()
        y = past + (CB[0] * decay * dt[..., None, :]) @ x + D[:, None, None] * x
        return y.permute(0, 2, 1, 3).reshape(batch, length, heads, dim)

    exact, work = formula(torch.float64), 2e-9 * length * heads * dim * (state + chunk / 2)
    theirs = {"f32": lambda: formula(torch.float32).half()}
    return lambda: kernel(*arrays, out), theirs, lambda: (out, exact), work


def measure(name, ours, theirs, results, work, repeats, threads):
    runs = {"ours": ours, **theirs}
    ours()
    out, exact = results()
    error = float((out.double() - exact).norm() / exact.norm())
    times = interleaved(runs, repeats)
    best = min(theirs, key=lambda key: quantile(times[key], 0.5))
    mine, other = quantile(times["ours"], 0.5), quantile(times[best], 0.5)
    least = min(times[best]) / min(times["ours"])
    print(
        f"{threads} thread(s) {name:26s} ours {1e3 * mine:7.2f} ms {work / mine:6.1f} GFLOP/s, "
        f"PyTorch ({best}) {1e3 * other:7.2f} ms: {other / mine:5.2f} by medians {least:5.2f} by minima  "
        f"error {error:.1e}",
        flush=True,
    )
    return error


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--which", default="attention,dequant,scan")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--child", action="store_true")
    options = parser.parse_args()
    if not options.child:
        for threads in options.threads.split(","):
            environment = {**os.environ, "TILELANG_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
            done = subprocess.run([sys.executable, __file__, *sys.argv[1:], "--child"], env=environment)
            if done.returncode:
                return done.returncode
        return 0
    import torch

    sys.path[:0] = [str(ROOT / "examples")]
    threads = int(os.environ["TILELANG_NUM_THREADS"])
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    cases = {
        "attention": [(f"attention {d} {'causal' * c}", lambda d=d, c=c: attention(d, c))
                      for d in ("float32", "float16") for c in (False, True)],
        "dequant": [(f"dequant GEMM {k}", lambda k=k: dequant(k)) for k in ("int4", "nf4", "e2m1")],
        "scan": [("chunk scan", scan)],
    }  # fmt: skip
    worst = 0.0
    for which in options.which.split(","):
        for name, make in cases[which]:
            worst = max(worst, measure(name, *make(), options.repeats, threads))
    return 0 if worst < 2e-3 else 1


if __name__ == "__main__":
    raise SystemExit(main())
