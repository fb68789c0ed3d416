"""Compiles a GEMM of every tile of C, number of threads, type and chip by NVRTC; prints what is no kernel.

    python tools/gemm_tiles.py [--every N] [--first I] [--chip sm_90a] [--type float16]

A CompileError that explains itself is an answer ("refused"); anything else is a fault, and the exit status 1.
test/python/test_gemm_tiles.py runs a thinned version.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator

import tilelang
import tilelang.language as T

EXTENTS = (64, 96, 128, 192, 256)
THREADS = (128, 256, 384, 512)
TYPES = {"float16": "float32", "bfloat16": "float32", "int8": "int32", "float8_e4m3fn": "float32"}
CHIPS = {"sm_80": ("float16", "bfloat16", "int8"), "sm_89": TYPES, "sm_90a": TYPES, "sm_120": TYPES}


def cases() -> Iterator[tuple[str, str, int, int, int]]:
    """(chip, type, rows, columns, threads)"""
    for chip, types in CHIPS.items():
        yield from itertools.product((chip,), types, EXTENTS, EXTENTS, THREADS)


def gemm(dtype: str, block_M: int, block_N: int, threads: int) -> tilelang.PrimFunc:
    """A pipelined loop over tiles; float16 with B along N, others with both operands along K."""
    M, N, K, block_K, accumulator = 1024, 1536, 512, 64, TYPES[dtype]
    trans_B = dtype != "float16"

    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((N, K) if trans_B else (K, N), dtype),
        C: T.Tensor((M, N), accumulator),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            a = T.alloc_shared((block_M, block_K), dtype)
            b = T.alloc_shared((block_N, block_K) if trans_B else (block_K, block_N), dtype)
            c = T.alloc_fragment((block_M, block_N), accumulator)
            T.clear(c)
            for k in T.Pipelined(K // block_K, num_stages=2):
                T.copy(A[by * block_M, k * block_K], a)
                if trans_B:
                    T.copy(B[bx * block_N, k * block_K], b)
                else:
                    T.copy(B[k * block_K, bx * block_N], b)
                T.gemm(a, b, c, transpose_B=trans_B)
            T.copy(c, C[by * block_M, bx * block_N])

    return main


def outcome(chip: str, dtype: str, block_M: int, block_N: int, threads: int) -> tuple[str, str]:
    """ "compiled", "refused" or "fault", and what is said."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kernel = tilelang.compile(gemm(dtype, block_M, block_N, threads), target=f"cuda -arch={chip}")
    except tilelang.CompileError as error:
        return "refused", str(error)
    except Exception as error:
        return "fault", f"{type(error).__name__}: {error}"
    spilled = max(k.spill_stores or 0 for k in kernel.report.kernels)
    return "compiled", f"{spilled} bytes of spills" if spilled else ""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--every", type=int, default=1, help="only each so-manieth")
    options.add_argument("--first", type=int, default=0, help="from this one on")
    options.add_argument("--chip", choices=CHIPS)
    options.add_argument("--type", choices=TYPES)
    given = options.parse_args()
    os.environ["TILELANG_DISABLE_CACHE"] = "1"
    chosen = [c for c in cases() if given.chip in (None, c[0]) and given.type in (None, c[1])]
    counts: Counter[str] = Counter()
    for case in chosen[given.first :: given.every]:
        start = time.perf_counter()
        how, said = outcome(*case)
        counts[how] += 1
        chip, dtype, block_M, block_N, threads = case
        if said:
            first = said.split("error: ", 1)[-1].splitlines()[0]
            took = time.perf_counter() - start
            tile = f"{block_M}x{block_N} of {threads} threads"
            print(f"{how:8} {chip:6} {dtype:13} {tile}, {took:.1f} s: {first}", flush=True)
    print(", ".join(f"{n} {how}" for how, n in sorted(counts.items())))
    return 1 if counts["fault"] else 0


if __name__ == "__main__":
    sys.exit(main())
