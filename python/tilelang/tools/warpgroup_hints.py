"""How kernels whose products warpgroups do (wgmma) may be cut, and the model that orders the candidates.

A role loads tiles ahead of those that compute (docs/pipelines.md), so that a step of a block takes as long
as the slowest of what it keeps busy: the tensor cores; shared memory, which tiles are loaded into and from
which an instruction reads a whole tile of B for each 64 rows of A; what a multiprocessor takes of the L2
cache.  The constants were fitted to what was measured on an H100 (bench/results/2026-11-27-automatic.md),
that of the L2 cache on an H200 (2026-11-28-thin.md)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from ..front.dtypes import as_dtype
from .arch import CUDA
from .hints import Hint

_INSTRUCTION = 64  # rows of a product's instruction
_SHARED = 139  # bytes a clock that a multiprocessor's shared memory takes and gives
_TAKEN = 51  # bytes a clock that a multiprocessor takes of the L2 cache
_LAUNCH = 5500  # clocks until the first product begins, and from the last one to the end of the kernel
_FLYING = 2e-6  # seconds of the memory's bandwidth that must be under way to use all of it
_STORED = 16  # sums a clock that a block rounds and stores
_SLOTS = 4


def _rate(arch: CUDA, bits: int) -> float:
    """Operations of a multiprocessor's tensor cores a clock, on operands of so many bits."""
    return arch.rates["float16"] * 16 / bits / arch.compute_max_core / arch.rates["clock"]


def _tiles(M: int) -> list[tuple[int, int, int]]:
    """Rows and columns of tiles, and bytes of a row of A or B in them. First those that hold all rows, and so
    read B once."""
    tiles = [(m, n, 128) for m, n in product((64, 128, 256), (32, 64, 128, 256)) if min(m, n) <= 128]
    low = -(-M // 16) * 16  # warps multiply those as well, where the loop is not divided
    if low < 2 * _INSTRUCTION and low % _INSTRUCTION:  # C is computed transposed
        tiles += [(low, n, 256) for n in (64, 128)]
    return sorted(tiles, key=lambda tile: tile[0] < M)


def matmul(arch: CUDA, M: int, N: int, K: int, in_dtype: Any, out_dtype: Any) -> Iterator[Hint]:
    """Products of matrices, in tiles of 128 bytes a row: more would not be swizzled in one box. Lower tiles
    have two boxes, so that more bytes are under way."""
    kind, out_bytes = as_dtype(in_dtype), as_dtype(out_dtype).bits / 8
    rate, clock = _rate(arch, kind.bits), arch.rates["clock"]
    read = (M + N) * K * kind.bits / 8
    for m, n, row in _tiles(M):
        k, transposed = row * 8 // kind.bits, m % _INSTRUCTION != 0
        loaded, stored = (m + n) * row, 2 * m * 128
        if _SLOTS * loaded + stored > arch.smem_cap:
            continue
        blocks, steps = -(-M // m) * -(-N // n), -(-K // k)
        high, wide = (n, m) if transposed else (m, n)  # rows and columns of the instructions
        passed = loaded + (high + high // _INSTRUCTION * wide) * row
        alone = 1.03 if high == _INSTRUCTION else 1.0  # a warpgroup waits beside no other
        step = max(alone * max(2 * m * n * k / rate, passed / _SHARED), loaded / _TAKEN)
        turns = -(-blocks // arch.compute_max_core) * (steps * step + m * n / _STORED)
        flying = min(blocks, arch.compute_max_core) * _SLOTS * loaded
        bandwidth = arch.rates["bandwidth"] * min(1.0, flying / (arch.rates["bandwidth"] * _FLYING))
        busy, moved = turns / clock, read / bandwidth + M * N * out_bytes / bandwidth
        yield Hint(
            [m, n],
            [m, n // 4] if transposed else [_INSTRUCTION // 4 * (2 if m == 256 else 1), n],
            rstep=[k],
            threads=128 * max(1, min(2, m // _INSTRUCTION)),
            pipeline_stage=_SLOTS,
            use_async=True,
            use_tc=True,
            # Neither hides all of the other.
            seconds=max(busy, moved) + min(busy, moved) / 20 + _LAUNCH / clock,
        )


def _turn(arch: CUDA, m: int, n: int, dim: int, bits: int, registers: float) -> float:
    """Clocks of a step of attention: products, and what of the threads' work does not run beside them."""
    exponentials, others = m * n / 16, m * n * 4.5 / 128
    # Of several warpgroups, each hides what the others do.
    hidden, between = {64: (0.2, 1300), 128: (0.45, 350), 192: (0.5, 450)}[m]
    crowded = 1 + max(0.0, registers - 170) / 500
    return (4 * m * n * dim / _rate(arch, bits) + (1 - hidden) * (exponentials + others) + between) * crowded


def attention(arch: CUDA, t: Any) -> Iterator[Hint]:
    """Attention, of a FlashAttentionTemplate: its second product runs a turn late, beside the next scores."""
    bits, heads, dim = as_dtype(t.in_dtype).bits, t.batch_size * t.num_heads, t.head_dim
    for m, n in product((64, 128, 192), (64, 80, 96, 112, 128, 144, 160, 176)):
        registers = n / 2 + n / 4 + dim / 2  # of scores, weights and sums
        given = min(240, (arch.reg_cap - 24 * 128) // (2 * m) // 8 * 8)
        shared = (m + 4 * n) * dim * bits / 8 + 2 * m * 64
        if registers + 28 > given or shared > arch.smem_cap:
            continue
        rows, most = -(-t.seq_length // m), -(-t.seq_kv_length // n)
        if t.is_causal:
            past = t.seq_kv_length - t.seq_length
            turns = [min(most, max(0, -(-((i + 1) * m + past) // n))) for i in range(rows)]
            rounds = max(max(turns), sum(turns) * heads / arch.compute_max_core)
        else:
            rounds = -(-rows * heads // arch.compute_max_core) * most
        ragged = 1.04 if t.seq_kv_length % n and not t.is_causal else 1.0  # a mask for the last step alone
        clocks = rounds * ragged * _turn(arch, m, n, dim, bits, registers) + _LAUNCH
        yield Hint(
            [m, n],
            [_INSTRUCTION // 4, n],
            rstep=[dim],
            threads=128 * m // _INSTRUCTION,
            pipeline_stage=2,
            use_async=True,
            use_tc=True,
            seconds=clocks / arch.rates["clock"],
        )


def takes_product(arch: Any, t: Any) -> bool:
    """Whether roles would divide such a product: types that warpgroups multiply, 8-bit ones along K in both
    operands."""
    along_k = getattr(t, "trans_B", False) and not getattr(t, "trans_A", False)
    return takes(arch, t) and (as_dtype(t.in_dtype).bits == 16 or along_k)


def takes_attention(arch: Any, t: Any) -> bool:
    """Whether roles would divide such attention: rows of whole 128 bytes, and heads whose sums fit."""
    bits = as_dtype(t.in_dtype).bits
    return bits == 16 and t.head_dim * bits % 1024 == 0 and t.head_dim <= 256 and takes(arch, t)


def takes(arch: Any, t: Any) -> bool:
    """Whether warpgroups of the chip multiply a template's types without loss: they cut tf32 off."""
    kind, accum = as_dtype(t.in_dtype), as_dtype(t.accum_dtype)
    return kind.bits <= 16 and any(row["dtypes"] == (kind, kind, accum) for row in arch.warpgroup)
