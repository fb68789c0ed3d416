"""What T.use_swizzle saves: time and DRAM traffic of f16 GEMMs on wide grids, beside a model.

The model is written down before anything is measured: as many blocks run as the GPU holds, each walks along
k at the same speed, and each strip of A or B that it needs comes from an L2 cache that forgets what was used
least recently; a block whose strip is missing falls behind, and the next in the order starts where one has
ended.  C is written once.  The order of the panels, by rows or by columns, is that of the lesser prediction.

    python bench/swizzle_l2.py --model            predictions only; no GPU needed
    python bench/swizzle_l2.py                    times, on and off
    python bench/swizzle_l2.py --ncu              DRAM bytes by Nsight Compute, on and off
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import io
import math
import re
from collections import OrderedDict

import nsight
import tilelang
import tilelang.language as T

SHAPES = {"M2": (4096, 28672, 8192), "M6": (8192, 28672, 8192)}  # m, n, k
TILE = (128, 128, 64)
THREADS = 256
L2_BYTES = 50 << 20
SMS = 132
STRIP = 512  # along k, what the model moves at once
MISS_COST = 0.2  # of the time a block needs for a strip: what it waits for one from DRAM


@tilelang.jit(out_idx=None)
def matmul(M, N, K, block_M, block_N, block_K, threads, panel, order):
    @T.prim_func
    def main(A: T.Tensor((M, K), T.float16), B: T.Tensor((K, N), T.float16), C: T.Tensor((M, N), T.float16)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), T.float16)
            B_shared = T.alloc_shared((block_K, block_N), T.float16)
            C_local = T.alloc_fragment((block_M, block_N), T.float32)
            T.use_swizzle(panel, order, enable=panel > 0)
            T.clear(C_local)
            for k in T.serial(T.ceildiv(K, block_K)):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def compiled(shape: str, panel: int, order: str, target: str):
    factory = tilelang.jit(matmul.func, target=target, out_idx=None)
    return factory(*SHAPES[shape], *TILE, THREADS, panel, order)


# ── the model ─────────────────────────────────────────────────────────────────────────────────────────


def visits(columns: int, rows: int, panel: int, order: str):
    """The blocks in the order in which they start."""
    if panel == 0:
        return [(i % columns, i // columns) for i in range(columns * rows)]
    if order == "col":
        return [(x, y) for y, x in visits(rows, columns, panel, "row")]
    found = []
    for number, first in enumerate(range(0, columns, panel)):
        ys = range(rows) if number % 2 == 0 else reversed(range(rows))
        found += [(x, y) for y in ys for x in range(first, min(first + panel, columns))]
    return found


def predicted_bytes(shape: str, in_flight: int, panel: int, order: str, l2: int = L2_BYTES) -> int:
    """DRAM traffic: misses of an LRU cache for strips of 512 along k, plus C."""
    (m, n, k), (block_m, block_n, _) = SHAPES[shape], TILE
    waiting = iter(visits(math.ceil(n / block_n), math.ceil(m / block_m), panel, order))
    cache, held, moved = OrderedDict(), 0, m * n * 2
    running = [(0.0, slot, *block, 0) for slot, block in zip(range(in_flight), waiting, strict=False)]
    while running:
        time, slot, x, y, step = heapq.heappop(running)
        for key, size in ((("B", x, step), block_n * STRIP * 2), (("A", y, step), block_m * STRIP * 2)):
            if key in cache:
                cache.move_to_end(key)
                continue
            moved, held, time = moved + size, held + size, time + MISS_COST
            cache[key] = size
            while held > l2:
                held -= cache.popitem(last=False)[1]
        if (step + 1) * STRIP < k:
            heapq.heappush(running, (time + 1, slot, x, y, step + 1))
        elif block := next(waiting, None):
            heapq.heappush(running, (time + 1, slot, *block, 0))
    return moved


def blocks_in_flight(kernel) -> int:
    """Of the whole GPU, by registers, shared memory and threads."""
    with contextlib.redirect_stdout(io.StringIO()):
        text = str(kernel.explain())
    registers = int(re.search(r"(\d+) registers per thread", text)[1])
    shared = 2 * (TILE[0] + TILE[1]) * TILE[2]
    registers = -(-registers // 8) * 8
    return SMS * min(65536 // (registers * THREADS), (228 << 10) // (shared + 1024), 2048 // THREADS)


def best_panel(in_flight: int) -> int:
    return max(1, round(math.sqrt(in_flight * TILE[0] / TILE[1])))


# ── measuring ─────────────────────────────────────────────────────────────────────────────────────────


def tensors(shape: str):
    import torch

    m, n, k = SHAPES[shape]
    a, b = (torch.randn(s, device="cuda", dtype=torch.float16) for s in ((m, k), (k, n)))
    return a, b, torch.empty(m, n, device="cuda", dtype=torch.float16)


def launch_once(shape: str, panel: int, order: str) -> None:
    import torch

    kernel = compiled(shape, panel, order, "cuda")
    kernel(*tensors(shape))
    torch.cuda.synchronize()


def dram_bytes(shape: str, panel: int, order: str) -> int:
    program = [__file__, "--launch", shape, "--panel", str(panel), "--order", order]
    metrics = ["dram__bytes_read.sum", "dram__bytes_write.sum"]
    return sum(nsight.counts(program, metrics, ["--launch-count", "1"])[0].values())


def report_times(shape: str, panel: int, order: str) -> None:
    import torch
    from timing import measure

    a, b, c = tensors(shape)
    rows = torch.arange(0, a.shape[0], 97, device="cuda")
    reference = a[rows].double() @ b.double()
    launches = {"torch": lambda: torch.matmul(a, b, out=c)}
    for name, size in (("off", 0), (f"panels of {panel} ({order})", panel)):
        kernel = compiled(shape, size, order, "cuda")
        c.fill_(float("nan"))
        kernel(a, b, c)
        error = float((c[rows].double() - reference).norm() / reference.norm())
        assert error < 1e-3, f"{shape} {name}: error {error}"
        launches[name] = lambda kernel=kernel: kernel(a, b, c)
    m, n, k = SHAPES[shape]
    for name, r in measure(launches).items():
        tflops = 2 * m * n * k / r.ms / 1e9
        print(f"{shape} {name:24s} {r.ms:8.3f} ms {tflops:8.1f} TFLOPS  spread {100 * r.spread:.1f}%")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", action="store_true")
    parser.add_argument("--ncu", action="store_true")
    parser.add_argument("--launch", choices=SHAPES)
    parser.add_argument("--panel", type=int, default=0, help="0: what the model likes")
    parser.add_argument("--order", choices=("row", "col"), default="", help="default: what the model likes")
    o = parser.parse_args()
    if o.launch:
        launch_once(o.launch, o.panel, o.order)
        return 0
    for shape in SHAPES:
        target = "cuda -arch=sm_90" if o.model else "cuda"
        in_flight = blocks_in_flight(compiled(shape, 0, "row", target))
        panel = o.panel or best_panel(in_flight)
        orders = [o.order] if o.order else ["row", "col"]
        on, order = min((predicted_bytes(shape, in_flight, panel, order), order) for order in orders)
        off = predicted_bytes(shape, in_flight, 0, "row")
        print(
            f"{shape} model, {in_flight} blocks in flight, panels of {panel} ({order}): "
            f"off {off / 1e9:.2f} GB, on {on / 1e9:.2f} GB, ratio {on / off:.3f}"
        )
        if o.ncu:
            seen_off, seen_on = dram_bytes(shape, 0, order), dram_bytes(shape, panel, order)
            print(
                f"{shape} ncu: off {seen_off / 1e9:.2f} GB, on {seen_on / 1e9:.2f} GB, ratio "
                f"{seen_on / seen_off:.3f}, on / model {seen_on / on:.3f}"
            )
        elif not o.model:
            report_times(shape, panel, order)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
