"""What the simulator counts beside what an H200 counts: bank cycles of shared memory, sectors of global
memory, instructions; of kernels of which half have planted bank conflicts or accesses that do not coalesce.

    python bench/counters_ncu.py --model       the simulator alone; no GPU needed
    python bench/counters_ncu.py               beside Nsight Compute, a Markdown table; exits with 1 where a
                                               ratio is more than 2 % off
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nsight
import numpy as np
import tilelang
import tilelang.language as T
from tilelang.layout import Layout

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
import layernorm  # noqa: E402
import softmax  # noqa: E402
from flash_attention import attention  # noqa: E402

ALLOWED = 0.02
# Ours: (kinds of counters, level, what of them), and the metric of Nsight Compute.
COUNTERS = {
    "shared bank cycles, read": (("load", "ldmatrix"), "shared", "requests",
                                "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld"),
    "shared bank cycles, written": (("store",), "shared", "requests",
                                   "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st"),
    "global sectors, read": (("load",), "global", "requests", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld"),
    "global sectors, written": (("store",), "global", "requests",
                                "l1tex__t_sectors_pipe_lsu_mem_global_op_st"),
    "global loads": (("load",), "global", "executed", "smsp__inst_executed_op_global_ld"),
    "global stores": (("store",), "global", "executed", "smsp__inst_executed_op_global_st"),
    "shared stores": (("store",), "shared", "executed", "smsp__inst_executed_op_shared_st"),
    "matrix instructions": (("matrix",), "", "executed", "sm__inst_executed_pipe_tensor_op_hmma"),
}  # fmt: skip
OPTIONAL = "inst_executed"  # in the name of a metric that not every chip has


def row_major(shape):
    return Layout(shape, lambda i, j: i * shape[1] + j)


# ── kernels ───────────────────────────────────────────────────────────────────────────────────────────
def copy(M=256, N=512, threads=128):
    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(M // 16, threads=threads) as bx:
            for i, j in T.Parallel(16, N):
                B[bx * 16 + i, j] = A[bx * 16 + i, j]

    return main


def columns(N=128, apart=33, threads=128):
    """Each lane reads an element of another row."""

    @T.prim_func
    def main(A: T.Tensor((N * threads * apart,), "float32"), B: T.Tensor((N * threads,), "float32")):
        with T.Kernel(N, threads=threads) as bx:
            tx = T.get_thread_binding()
            B[bx * threads + tx] = A[(bx * threads + tx) * apart]

    return main


def row_sums_by_threads(M=256, N=96, threads=64):
    """A thread walks along its own row."""

    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((M,), "float32")):
        with T.Kernel(M // threads, threads=threads) as bx:
            tx = T.get_thread_binding()
            total = T.alloc_var("float32")
            total = 0.0
            for j in T.serial(N):
                total += A[bx * threads + tx, j]
            B[bx * threads + tx] = total

    return main


def transpose(M=256, N=256, width=32, threads=128):
    """By columns of a tile whose rows are `width` apart."""

    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((N, M), "float32")):
        with T.Kernel(N // 32, M // 32, threads=threads) as (bx, by):
            S = T.alloc_shared((32, width), "float32")
            T.annotate_layout({S: row_major((32, width))})
            tx = T.get_thread_binding()
            for r in T.serial(32 * 32 // threads):
                S[r * (threads // 32) + tx // 32, tx % 32] = A[
                    by * 32 + r * (threads // 32) + tx // 32, bx * 32 + tx % 32
                ]
            T.sync_threads()
            for r in T.serial(32 * 32 // threads):
                B[bx * 32 + r * (threads // 32) + tx // 32, by * 32 + tx % 32] = S[
                    tx % 32, r * (threads // 32) + tx // 32
                ]

    return main


def transpose_in_registers(M=128, N=128):
    """Rows are read, columns are written."""

    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((N, M), "float32")):
        with T.Kernel(N // 32, M, threads=32) as (bx, by):
            tx = T.get_thread_binding()
            B[bx * 32 + tx, by] = A[by, bx * 32 + tx]

    return main


def strided_tile(apart, rounds=16, threads=128):
    """Lanes write and read elements of shared memory that lie `apart` from each other."""

    @T.prim_func
    def main(A: T.Tensor((rounds, threads), "float32"), B: T.Tensor((rounds, threads), "float32")):
        with T.Kernel(rounds, threads=threads) as bx:
            S = T.alloc_shared((threads * apart,), "float32")
            tx = T.get_thread_binding()
            S[tx * apart] = A[bx, tx]
            T.sync_threads()
            B[bx, tx] = S[(threads - 1 - tx) * apart]

    return main


def gemm(M, N, K, dtype="float16", swizzled=True, bM=128, bN=128, bK=32):
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, bN), T.ceildiv(M, bM), threads=128) as (bx, by):
            A_s, B_s = T.alloc_shared((bM, bK), dtype), T.alloc_shared((bK, bN), dtype)
            C_l = T.alloc_fragment((bM, bN), "float32")
            if not swizzled:
                T.annotate_layout({A_s: row_major((bM, bK)), B_s: row_major((bK, bN))})
            T.clear(C_l)
            for k in T.serial(T.ceildiv(K, bK)):
                T.copy(A[by * bM, k * bK], A_s)
                T.copy(B[k * bK, bx * bN], B_s)
                T.gemm(A_s, B_s, C_l)
            T.copy(C_l, C[by * bM, bx * bN])

    return main


@dataclass(frozen=True)
class Case:
    name: str
    planted: bool  # something that a good kernel has not
    make: Callable
    masked: bool = False  # the chip counts instructions that no lane executes, too: these are not compared


CASES = [
    Case("copy f32", False, copy),
    Case("GEMM f16", False, lambda: gemm(256, 256, 256)),
    Case("GEMM f16 ragged", False, lambda: gemm(200, 136, 72), masked=True),
    Case("GEMM f32", False, lambda: gemm(128, 128, 64, "float32", bM=64, bN=64, bK=16)),
    Case("softmax", False, lambda: softmax.softmax.get_tir(64, 512, 4)),
    Case("layernorm", False, lambda: layernorm.layernorm.get_tir(64, 512, 4)),
    Case("flash attention", False, lambda: attention.get_tir(1, 2, 128, 256, 64, False, 64, 64, 128)),
    Case("transpose, rows 33 apart", False, lambda: transpose(width=33)),
    Case("transpose, rows 32 apart", True, transpose),
    Case("transpose without a tile", True, transpose_in_registers),
    Case("GEMM f16, row-major tiles", True, lambda: gemm(256, 256, 256, swizzled=False)),
    Case("strided columns", True, columns),
    Case("row sums, a row a thread", True, row_sums_by_threads),
    Case("tile, elements 2 apart", True, lambda: strided_tile(2)),
    Case("tile, elements 8 apart", True, lambda: strided_tile(8)),
    Case("tile, elements 32 apart", True, lambda: strided_tile(32)),
]


# ── counting ──────────────────────────────────────────────────────────────────────────────────────────
def simulated(case: Case) -> dict[str, int]:
    kernel = tilelang.compile(case.make(), target="sim:sm_90")
    report = kernel.simulate(*[np.ones(p.shape, p.dtype.as_numpy()) for p in kernel.params])
    return {
        name: sum(getattr(c, what) for c in report.counters if c.kind in kinds and c.level == level)
        for name, (kinds, level, what, _) in COUNTERS.items()
    }


def launch_all() -> None:
    import torch

    for case in CASES:
        kernel = tilelang.compile(case.make(), target="cuda")
        kernel(*[torch.ones(p.shape, device="cuda", dtype=p.dtype.as_torch()) for p in kernel.params])
    torch.cuda.synchronize()


def measured() -> list[dict[str, int]]:
    known = nsight.known_metrics()
    wanted = {
        name: metric for name, (*_, metric) in COUNTERS.items() if metric in known or OPTIONAL not in metric
    }
    launches = nsight.counts([__file__, "--launch"], [f"{metric}.sum" for metric in wanted.values()])
    if len(launches) != len(CASES):
        raise SystemExit(f"Nsight Compute saw {len(launches)} launches of {len(CASES)}")
    return [{name: launch[f"{metric}.sum"] for name, metric in wanted.items()} for launch in launches]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", action="store_true")
    parser.add_argument("--launch", action="store_true")
    options = parser.parse_args()
    if options.launch:
        launch_all()
        return 0
    seen = [{}] * len(CASES) if options.model else measured()
    off = []
    print("| kernel | planted | counter | simulator | ncu | ratio |\n|---|---|---|---|---|---|")
    for case, found in zip(CASES, seen, strict=True):
        for name, mine in simulated(case).items():
            instructions = COUNTERS[name][2] == "executed"
            theirs = None if case.masked and instructions else found.get(name)
            if not mine and not theirs:
                continue
            ratio = mine / theirs if theirs else float("inf")
            shown = " | " if theirs is None else f"{theirs} | {ratio:.3f}"
            print(f"| {case.name} | {'yes' if case.planted else ''} | {name} | {mine} | {shown} |")
            if theirs is not None and abs(ratio - 1) > ALLOWED:
                off.append(f"{case.name}: {name} {mine}, Nsight Compute {theirs}")
    print(f"\nKernels: {len(CASES)}, planted: {sum(c.planted for c in CASES)}, more than 2 % off: {len(off)}")
    print("\n".join(off))
    return bool(off)


if __name__ == "__main__":
    raise SystemExit(main())
