"""Helpers for matrix instructions written by hand."""

from __future__ import annotations

from typing import Any

from ..front.dtypes import as_dtype
from ..front.trace import fail
from . import mma_layout
from .int4_emitter import INT4TensorCoreIntrinEmitter
from .layout import make_linear_layout, make_swizzled_layout
from .mma_emitter import TensorCoreIntrinEmitter, TensorCoreIntrinEmitterWithLadderTransform
from .mma_layout import mma_store_32x2_to_shared_8x8_layout_fp64 as mma_store_index_map_fp64
from .mma_layout import mma_store_32x8_to_shared_16x16_layout as mma_store_index_map

__all__ = ["INT4TensorCoreIntrinEmitter", "TensorCoreIntrinEmitter",
           "TensorCoreIntrinEmitterWithLadderTransform", "get_ldmatrix_offset",
           "get_mma_micro_size", "get_swizzle_layout", "make_mma_swizzle_layout", "mma_store_index_map",
           "mma_store_index_map_fp64"]  # fmt: skip


def get_swizzle_layout(
    row_idx: Any, col_idx: Any, row_size: int, dtype: Any, swizzle_bytes: int | None = None
) -> tuple[Any, Any]:
    """(row, column) where a shared tile with rows of row_size elements keeps the element (row_idx, col_idx),
    so that eight rows of a 16-byte chunk lie in different banks.

    row_idx, col_idx: integers or values.  swizzle_bytes: the pattern's width, 32, 64 or 128 bytes, which
    divides a row (16 changes nothing); without it that of the row, which has at most 128."""
    chunk, row_bytes = 128 // as_dtype(dtype).bits, row_size * as_dtype(dtype).bits // 8
    width = row_bytes if swizzle_bytes is None else swizzle_bytes
    if width not in (16, 32, 64, 128) or row_bytes % width:
        said = f"a row of {row_size} {as_dtype(dtype)}" if swizzle_bytes is None else f"swizzle_bytes={width}"
        raise fail(
            f"get_swizzle_layout: {said} must be 16, 32, 64 or 128 bytes, and divide the row's {row_bytes}"
        )
    chunks = width // 16
    turn = row_idx // (8 // chunks) % chunks
    return row_idx, (col_idx // chunk ^ turn) * chunk + col_idx % chunk


def make_mma_swizzle_layout(shared_buf: Any, is_smooth: bool = False) -> Any:
    """A layout of a shared tile that reads and writes of its rows and columns find free of bank conflicts, as
    make_swizzled_layout gives it; with is_smooth the tile row by row."""
    return (make_linear_layout if is_smooth else make_swizzled_layout)(shared_buf)


def get_mma_micro_size(dtype: Any) -> tuple[int, int, int]:
    """(m, n, k) of what TensorCoreIntrinEmitter works on at a time."""
    return 16, 16, 256 // as_dtype(dtype).bits


def get_ldmatrix_offset(
    matrix: str, row_idx: Any, col_idx: Any, stride: Any, dtype: Any = "float16", transposed: bool = False
) -> Any:
    """How many elements into a shared tile, rows `stride` elements apart, the row of 16 bytes begins whose
    address thread row_idx gives ldmatrix.x4; col_idx counts on from there.

    matrix: "A" or "B".  A's tile is (m, k), or (k, m) if transposed; B's is (k, n), or (n, k) if transposed.
    """
    if matrix not in ("A", "B"):
        raise fail(f"get_ldmatrix_offset: matrix is 'A' or 'B', not {matrix!r}")
    bits = as_dtype(dtype).bits
    k_first = transposed == (matrix == "A")
    if bits not in (8, 16, 32) or k_first and bits != 16:
        raise fail(
            f"get_ldmatrix_offset: ldmatrix loads rows along k of 8, 16 or 32 bits, and rows across k "
            f"of 16, not {as_dtype(dtype)} of a tile of {matrix} whose rows go "
            f"{'across' if k_first else 'along'} k"
        )
    row, column = mma_layout._rows(128 // bits, matrix == "B", k_first)(row_idx, col_idx)
    return row * stride + column
