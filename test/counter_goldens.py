"""What our main kernels cost, as the simulator counts it: test/golden/counters/*.txt.  A layout that brings
back bank conflicts, or a vector that gets narrower, changes a number there, and needs no GPU to be noticed.

    python test/counter_goldens.py [--bless]
"""

import argparse
import difflib
import linecache
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
import layernorm
import numpy as np
import softmax
import tilelang
import tilelang.language as T
from flash_attention import attention

FOLDER = Path(__file__).resolve().parent / "golden" / "counters"


def gemm(M, N, K, dtype, accum="float32", bM=128, bN=128, bK=32):
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), accum)):
        with T.Kernel(T.ceildiv(N, bN), T.ceildiv(M, bM), threads=128) as (bx, by):
            A_s, B_s = T.alloc_shared((bM, bK), dtype), T.alloc_shared((bK, bN), dtype)
            C_l = T.alloc_fragment((bM, bN), accum)
            T.clear(C_l)
            for k in T.Pipelined(T.ceildiv(K, bK), num_stages=2):
                T.copy(A[by * bM, k * bK], A_s)
                T.copy(B[k * bK, bx * bN], B_s)
                T.gemm(A_s, B_s, C_l)
            T.copy(C_l, C[by * bM, bx * bN])

    return main


def transpose(M, N, tile=32):
    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((N, M), "float32")):
        with T.Kernel(T.ceildiv(N, tile), T.ceildiv(M, tile), threads=128) as (bx, by):
            S = T.alloc_shared((tile, tile), "float32")
            T.copy(A[by * tile, bx * tile], S)
            for i, j in T.Parallel(tile, tile):
                B[bx * tile + i, by * tile + j] = S[j, i]

    return main


# Name of the file -> the program; its tensors get ones.
KERNELS = {
    "gemm_f16": lambda: gemm(128, 128, 64, "float16"),
    "gemm_f16_ragged": lambda: gemm(100, 72, 40, "float16"),
    "gemm_fma_f32": lambda: gemm(64, 64, 32, "float32", "float32", 64, 64, 16),
    "gemm_fma_f64": lambda: gemm(64, 64, 32, "float64", "float64", 64, 64, 16),
    "softmax": lambda: softmax.softmax.get_tir(8, 256, 4),
    "softmax_ragged": lambda: softmax.softmax.get_tir(7, 203, 4),
    "layernorm": lambda: layernorm.layernorm.get_tir(8, 256, 4),
    "transpose": lambda: transpose(64, 64),
    "flash_attention": lambda: attention.get_tir(1, 1, 64, 128, 64, False, 64, 64, 128),
    "flash_attention_causal": lambda: attention.get_tir(1, 1, 128, 128, 64, True, 64, 64, 128),
}


def statement_of(place):
    """The user's line itself: its number changes with every edit above it."""
    return linecache.getline(place[0], place[1]).strip() if place else "no line of the user's"


def counted(name):
    """The text of a golden: every counter by line, and the sums."""
    kernel = tilelang.compile(KERNELS[name](), target="sim:sm_80")
    report = kernel.simulate(*[np.ones(p.shape, p.dtype.as_numpy()) for p in kernel.params])
    threads = kernel.report.kernels[0].threads
    lines, last = [f"{name} for sim:sm_80: blocks {report.blocks}, threads {threads}"], None
    for c in sorted(report.counters, key=lambda c: (c.place or ("", 0, 0), c.what, c.buffer)):
        if c.place != last:
            lines.append(statement_of(c.place))
        last = c.place
        text = f"  {c.what} {c.buffer}".rstrip() + f": {c.executed} warps"
        if c.bytes:
            unit = "bank cycles" if c.level == "shared" else "sectors"
            text += f", {c.bytes} bytes in {c.requests} {unit}, least {c.least}"
        lines.append(text + (f", {c.flops} flops" if c.flops else ""))
    lines.append("in all: " + ", ".join(f"{n} {kind}" for kind, n in sorted(report.instructions.items())))
    return "\n".join(lines) + "\n"


def main():
    """Compare all of them, or rewrite what differs; status 1 if something differed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bless", action="store_true", help="rewrite what differs")
    bless, wrong = parser.parse_args().bless, 0
    FOLDER.mkdir(exist_ok=True)
    for name in KERNELS:
        path, now = FOLDER / f"{name}.txt", counted(name)
        old = path.read_text() if path.exists() else ""
        if old == now:
            continue
        if bless:
            path.write_text(now)
            print(f"blessed {path.name}")
        else:
            wrong += 1
            lines = old.splitlines(True), now.splitlines(True)
            sys.stdout.writelines(difflib.unified_diff(*lines, path.name, "now"))
    print(f"counters: {len(KERNELS) - wrong} passed, {wrong} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
