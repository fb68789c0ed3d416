"""The orders in memory that CUTLASS gives the metadata of a sparse matrix, as layouts and as places.

Metadata stands row by row, or as a chip has it: those of 8.x take pairs of rows and columns of 16- or 32-bit
elements together, those from 9.0 on bytes, in blocks of columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _core
from .._core import Buffer
from ..front.dtypes import as_dtype
from ..front.trace import fail
from .map_base import integer, ints
from .maps import Layout

_LARGEST_BLOCK = 128  # elements along k; CUTLASS orders no wider blocks
_SMALLEST_BLOCKS = {8: 64, 16: 32, 32: 16}  # of operands of so many bits


def chip_of(arch: Any) -> tuple[int, int]:
    """(9, 0) of "9.0", "9.0a" and "sm_90a"; without one the chip of this machine's GPU."""
    text = str(_core.resolve_target("auto").rpartition("=")[2] if arch is None else arch)
    digits = "".join(c for c in text if c.isdigit())
    if arch is None and not text.startswith("sm_"):
        raise fail(
            "the order of metadata depends on the chip, and no CUDA device answers here: say which, as in "
            'arch="8.0" or arch="9.0"'
        )
    if len(digits) < 2 or int(digits[:-1]) < 8:
        raise fail(f'arch is {arch!r}: metadata is ordered for chips from "8.0" on, as in arch="9.0"')
    return int(digits[:-1]), int(digits[-1])


def _pairs(dtype: Any, meta: Any, shape: tuple[int, int]) -> Callable:
    """Of 8.x: 2 x 2 elements, of columns that are neighbours and of rows 8 apart, lie together."""
    bits, wanted = as_dtype(meta).bits, {8: 32, 16: 16}.get(as_dtype(dtype).bits)
    if wanted and bits != wanted:
        raise fail(f"the metadata of {dtype} is of {wanted} bits in the order of 8.x, not of {meta}")
    m, columns = shape
    rows = 32 if bits == 16 else 16
    if m % rows or columns % 2:
        raise fail(
            f"metadata of shape {shape} has no order of 8.x: its rows must be a multiple of {rows}, its "
            f"columns of 2"
        )

    def place(i: Any, j: Any) -> Any:
        in_group = i % 8 * (rows // 4) + i % rows // 16 * 4 + j % 2 * 2 + i // 8 % 2
        return j // 2 * (2 * m) + i // rows * (2 * rows) + in_group

    return place


def _blocks(dtype: Any, meta: Any, shape: tuple[int, int], block_k: Any) -> Callable:
    """From 9.0 on: blocks of columns one after the other, in them 16 rows together."""
    operand = as_dtype(dtype).bits
    if as_dtype(meta).bits != 8:
        raise fail(f"the metadata in the order of 9.0 is of 8 bits, not of {meta}")
    if block_k is None:
        raise fail("the order of metadata from 9.0 on depends on block_k, the tile's extent along k: say it")
    block_k = integer(block_k, "block_k")
    if block_k < _SMALLEST_BLOCKS[operand] or block_k & (block_k - 1):
        raise fail(
            f"block_k is {block_k}: in the order of 9.0 it is a power of two, of {dtype} from "
            f"{_SMALLEST_BLOCKS[operand]} on"
        )
    (m, columns), wide = shape, min(block_k, _LARGEST_BLOCK) // 8
    rows = 16 if columns == wide else 64
    if columns % wide or m % rows:
        raise fail(
            f"metadata of shape {shape} has no order of 9.0 with block_k {block_k}: its rows must be a "
            f"multiple of {rows}, its columns of {wide}"
        )

    def place(i: Any, j: Any) -> Any:
        block, n = j // wide * (wide * m), j % wide
        if operand == 8:
            return block + i * wide + n
        rows_of_16 = i // 16 * (16 * wide) + i % 8 * wide
        if operand == 32:
            return block + rows_of_16 + n % 2 * (8 * wide) + n // 2 * 2 + i // 8 % 2
        return block + rows_of_16 + n // 2 % 2 * (8 * wide) + n // 4 * 4 + i // 8 % 2 * 2 + n % 2

    return place


def place_of(dtype: Any, meta: Any, shape: tuple[int, int], arch: Any, block_k: Any = None) -> Callable:
    """(row, column) -> the place in memory of that element of the metadata."""
    if chip_of(arch) >= (9, 0):
        return _blocks(dtype, meta, shape, block_k)
    return _pairs(dtype, meta, shape)


def make_cutlass_metadata_layout(
    buffer: Any, mma_dtype: Any = "float16", arch: Any = None, *, block_k: Any = None, **extra_args: Any
) -> Layout:
    """The order of metadata in memory that CUTLASS has for a chip.

    buffer: the metadata, a tensor or a shared tile; one annotated so is indexed by row and column as any
    other, whatever the order.  mma_dtype: of the sparse operand.  arch: "8.0", "9.0", …; this machine's GPU
    if not given.  block_k: of chips from 9.0 on, the tile's extent along k; more than 128 is as 128.

    8.x (what torch.sparse.SparseSemiStructuredTensorCUTLASS stores): int16 for 16-bit operands, int32 for
    8-bit ones, rows a multiple of 32 (16).  9.0: uint8, rows a multiple of 64."""
    if extra_args:
        raise fail(f"make_cutlass_metadata_layout takes block_k beside arch, not {next(iter(extra_args))}")
    if not isinstance(buffer, Buffer) or len(buffer.shape) != 2:
        raise fail("make_cutlass_metadata_layout takes a buffer of two dimensions")
    shape = ints(buffer.shape, f"make_cutlass_metadata_layout: an extent of {buffer.name}")
    return Layout(shape, place_of(mma_dtype, buffer.dtype, tuple(shape), arch, block_k))


def make_cutlass_metadata_layout_sm8x(buffer: Any, mma_dtype: Any) -> Layout:
    """make_cutlass_metadata_layout for the chips 8.x."""
    return make_cutlass_metadata_layout(buffer, mma_dtype, "8.0")


def make_cutlass_metadata_layout_sm90(buffer: Any, mma_dtype: Any, block_k: Any) -> Layout:
    """make_cutlass_metadata_layout for the chips from 9.0 on."""
    return make_cutlass_metadata_layout(buffer, mma_dtype, "9.0", block_k=block_k)
