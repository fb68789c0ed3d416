"""How the kernels of carver.py may be cut: hints, and the model that orders them.

A candidate must fit (shared memory, registers, matrix instructions that divide a warp's tile).  Its time is
that of its waves of blocks over the multiprocessors, each step of which takes as long as the slowest of
arithmetic, shared memory, global memory (what the blocks that run together have in common is read once, from
there on from the second cache) and the latency that its stages cannot hide."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from ..front.dtypes import as_dtype
from ..front.errors import caller_place, compile_error
from .arch import CUDA, matrix_row

_LATENCY = 600e-9  # of global memory, in seconds
_BARRIER = 40e-9  # of the threads of a block
_BUSY = 8  # warps of a multiprocessor that keep its tensor cores at work
_WORKING = 40  # registers of a thread for addresses and counters


class Rasterization:
    """In which order blocks run."""

    panel_width_: int | None = None

    panel_width = property(lambda self: self.panel_width_, doc="How many blocks are side by side in a panel.")

    def get_code(self, panel_width: int | None = None) -> list[str]:
        """The lines that a kernel says it with."""
        return []

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.panel_width_ or ''})"


class NoRasterization(Rasterization):
    """Blocks run in the order of the grid."""


class Rasterization2DRow(Rasterization):
    """Blocks run in panels of rows of the grid."""

    order = "column"

    def __init__(self, panel_width: int = 4) -> None:
        self.panel_width_ = panel_width

    def get_code(self, panel_width: int | None = None) -> list[str]:
        """The lines that a kernel says it with."""
        return [f'T.use_swizzle({panel_width or self.panel_width_}, order="{self.order}")']


class Rasterization2DColumn(Rasterization2DRow):
    """Blocks run in panels of columns of the grid."""

    order = "row"


@dataclass(repr=False)
class Hint:
    """How a kernel may be cut.  block: the tile of a block, by dimension; warp: that of a warp, where matrix
    instructions are used (use_tc), else thread: threads along each dimension; rstep: the part of the
    reduction that a step takes; reduce_thread: threads that share one reduction; pipeline_stage: 1 without a
    pipeline; seconds: what the model says; threads: of a block."""

    block: list[int] = field(default_factory=list)
    warp: list[int] = field(default_factory=list)
    thread: list[int] = field(default_factory=list)
    rstep: list[int] = field(default_factory=list)
    reduce_thread: list[int] = field(default_factory=list)
    pipeline_stage: int = 1
    use_async: bool = False
    use_tc: bool = False
    rasterization_plan: Any = field(default_factory=NoRasterization)
    vectorize: dict[str, int] = field(default_factory=dict)
    shared_scope: str = "shared.dyn"
    seconds: float = 0.0
    threads: int = 0

    def complete_config(self, node: Any = None) -> Hint:
        """This hint: those of the model lack nothing."""
        return self

    tensorcore_legalization = complete_config

    step = property(
        lambda self: [1] * len(self.block),
        doc="How far apart the elements of a thread are: 1 along each dimension.",
    )
    raxis_order = property(
        lambda self: list(range(len(self.rstep))), doc="The order of the reductions: as they are written."
    )

    def to_dict(self) -> dict[str, Any]:
        """Its fields."""
        return dict(vars(self))

    def __repr__(self) -> str:
        return f"Hint({', '.join(f'{name}={value}' for name, value in vars(self).items() if value)})"

    @classmethod
    def from_dict(cls, dic: dict[str, Any]) -> Hint:
        """The hint with these fields."""
        return cls(**dic)


def _residents(arch: CUDA, threads: int, shared: float, registers: float) -> int:
    """How many such blocks a multiprocessor holds."""
    sm = arch.info["multiprocessors"]
    return int(
        min(
            sm["threads"] // threads,
            sm["blocks"],
            sm["shared_bytes"] // max(1, shared + sm["reserved_bytes"]),
            arch.reg_cap // (threads * max(32, registers)),
        )
    )


def _warps(block_m: int, block_n: int, instr: tuple) -> Iterator[tuple[int, int]]:
    """Grids of up to 8 warps whose tiles matrix instructions divide."""
    for rows, columns in product((1, 2, 4, 8), repeat=2):
        fits = block_m % (rows * instr[0]) == 0 and block_n % (columns * max(instr[1], 16)) == 0
        if fits and rows * columns <= 8:
            yield rows, columns


def _sizes(extent: int, most: int) -> list[int]:
    return [n for n in (16, 32, 64, 128, 256) if n <= most and n < 2 * max(extent, 9)]


def matmul(arch: CUDA, M: int, N: int, K: int, in_dtype: Any, out_dtype: Any, accum: Any) -> Iterator[Hint]:
    """Products of matrices, by matrix instructions where the chip has one for these types."""
    kind, accum, out_bits = as_dtype(in_dtype), as_dtype(accum), as_dtype(out_dtype).bits
    row = matrix_row(arch, kind, accum)
    instr = row["shape"] if row else (4, 4, 1)
    rate = arch.rates["float16"] * 16 / kind.bits if row else arch.rates["float32"]
    for m, n, k, stages in product(_sizes(M, 256), _sizes(N, 256), (16, 32, 64, 128, 256), (1, 2, 3, 4)):
        depth = k * kind.bits / 8  # bytes of a row of a step
        shared = stages * (m + n) * depth
        if k % instr[2] or k >= 2 * max(K, 9) or not 32 <= depth <= 256 or shared > arch.smem_cap:
            continue
        for rows, columns in _warps(m, n, instr) if row else ((1, max(1, min(8, m * n // 512))),):
            threads = arch.warp_size * rows * columns
            operands = (rows * n + columns * m) * instr[2] * kind.bits / 32 if row else threads * 16
            registers = (m * n * accum.bits / 32 + operands) / threads + _WORKING
            resident = _residents(arch, threads, shared, registers)
            if registers > arch.info["registers"] or not resident:
                continue
            yield _matmul_hint(
                arch,
                (M, N, K),
                (m, n, k),
                (rows, columns),
                stages,
                resident,
                rate,
                bool(row),
                kind.bits,
                out_bits,
            )


def _matmul_hint(
    arch: CUDA,
    problem: tuple,
    block: tuple,
    warps: tuple,
    stages: int,
    resident: int,
    rate: float,
    use_tc: bool,
    bits: int,
    out_bits: int,
) -> Hint:
    (M, N, K), (m, n, k), (rows, columns) = problem, block, warps
    cores, bandwidth, depth = arch.compute_max_core, arch.rates["bandwidth"], k * bits / 8
    grid = -(-M // m), -(-N // n)
    running = min(grid[0] * grid[1], cores * resident)
    together = -(-running // cores)
    side = min(grid[0], math.isqrt(running) or 1)
    arithmetic = together * 2 * m * n * k * cores / rate / min(1.0, together * rows * columns / _BUSY)
    local = together * (rows * n + columns * m) * depth / (128 * arch.rates["clock"])
    memory = max(side * m + -(-running // side) * n, running * (m + n) / 3) * depth / bandwidth
    busy = max(arithmetic, local, memory)
    hidden = _LATENCY / resident if stages == 1 else max(0.0, _LATENCY / (2 * stages + resident - 3) - busy)
    step = busy + hidden + _BARRIER / resident
    store = running * m * n * out_bits / 8 / bandwidth
    waves = -(-grid[0] * grid[1] // (cores * resident))
    panels = waves > 1 and (M + N) * K * bits / 8 > arch.rates["l2_bytes"]
    plan = Rasterization2DColumn(max(4, side // 2)) if panels else NoRasterization()
    hint = Hint(
        [m, n],
        rstep=[k],
        threads=arch.warp_size * rows * columns,
        pipeline_stage=stages,
        use_async=stages > 1 and arch.has_async_copies,
        use_tc=use_tc,
        rasterization_plan=plan,
        seconds=waves * (-(-K // k) * step + _LATENCY + store),
    )
    if use_tc:
        hint.warp = [m // rows, n // columns]
    else:
        hint.thread = _spread(arch.warp_size * rows * columns, [m, n])
    return hint


def _spread(count: int, extents: list[int]) -> list[int]:
    """A power of two as a product over dimensions, the last one first."""
    found = []
    for extent in reversed(extents):
        part = min(count, 1 << (extent - 1).bit_length()) if extent > 1 else 1
        found.insert(0, part)
        count //= part
    return found


def stream(
    arch: CUDA, spatial: list[int], reduced: list[int], dtype: Any, contiguous: bool, traffic: float
) -> Iterator[Hint]:
    """Kernels that read each element once; contiguous: the last dimension in memory is reduced."""
    size, depth = as_dtype(dtype).bits / 8, math.prod(reduced)
    lanes = max(1, int(16 // size))
    for threads, power, each in product((64, 128, 256, 512), range(9), (1, 2, 4, 8)):
        sharing = 1 << power
        too_many = sharing > 1 and sharing * lanes >= 2 * max(depth, 2)
        if sharing > threads or too_many or (depth > 1 and each > 2):
            continue
        width = threads // sharing * each * (1 if contiguous else lanes)  # elements of the result of a block
        block = _spread(width, spatial)
        if math.prod(block) < width:
            continue
        run = sharing * lanes if contiguous else block[-1]
        sectors = min(1.0, run * size / 128)
        resident = _residents(arch, threads, 0, _WORKING + each * lanes)
        blocks = math.prod(-(-extent // part) for extent, part in zip(spatial, block, strict=True))
        capacity = arch.compute_max_core * resident
        waves = -(-blocks // capacity)
        flying = min(blocks, capacity) * threads * 16 * each / (arch.rates["bandwidth"] * _LATENCY)
        seconds = traffic / (arch.rates["bandwidth"] * sectors * min(1.0, flying))
        seconds *= waves * capacity / blocks if waves > 1 else 1
        seconds += waves * (_LATENCY + 20e-9 * power)
        rstep = _spread(min(sharing * lanes, 1 << (depth - 1).bit_length()), reduced) if reduced else []
        yield Hint(
            block,
            [],
            _spread(threads // sharing, block),
            rstep,
            _spread(sharing, reduced) if reduced else [],
            vectorize={"lanes": lanes},
            threads=threads,
            seconds=seconds,
        )


def attention(arch: CUDA, t: Any) -> Iterator[Hint]:
    """Attention, of a FlashAttentionTemplate."""
    kind, heads = as_dtype(t.in_dtype), t.batch_size * t.num_heads
    if matrix_row(arch, kind, as_dtype(t.accum_dtype)) is None:
        raise compile_error(
            f"FlashAttentionTemplate: {arch.target} has no matrix instruction for {kind} "
            f"with results in {t.accum_dtype}",
            caller_place(),
        )
    for m, n, stages in product(_sizes(t.seq_length, 128), _sizes(t.seq_kv_length, 128), (1, 2, 3)):
        warps = min(8, m // 16)
        shared = (m + 2 * stages * n) * t.head_dim * kind.bits / 8
        registers = (m * t.head_dim + m * n * 1.5) / (arch.warp_size * warps)
        resident = _residents(arch, arch.warp_size * warps, shared, registers + _WORKING)
        fits = shared <= arch.smem_cap and registers + _WORKING <= arch.info["registers"] and resident
        if m % (16 * warps) or not fits:
            continue
        blocks, cores = -(-t.seq_length // m) * heads, arch.compute_max_core
        together = -(-min(blocks, cores * resident) // cores)
        products = together * 4 * m * n * t.head_dim / (arch.rates["float16"] * 16 / kind.bits / cores)
        products /= min(1.0, together * warps / _BUSY)
        softmax = together * m * n * 16 / (arch.rates["float32"] / cores)
        bytes_read = together * cores * 2 * n * t.head_dim * kind.bits / 8
        memory = bytes_read / (3 * arch.rates["bandwidth"])
        busy = max(products + softmax, memory)
        step = busy + _LATENCY / resident if stages == 1 else max(busy, _LATENCY / (stages + resident - 1))
        step += 2 * _BARRIER / resident
        steps = t.seq_kv_length / n * (0.5 if t.is_causal else 1)
        seconds = -(-blocks // (cores * resident)) * (steps * step + 2 * _LATENCY)
        yield Hint(
            [m, n],
            [m // warps, n],
            rstep=[t.head_dim],
            threads=arch.warp_size * warps,
            pipeline_stage=stages,
            use_async=stages > 1,
            use_tc=True,
            seconds=seconds,
        )
