"""Helpers for matrix instructions written by hand."""

from __future__ import annotations

from typing import Any

from ..front.dtypes import as_dtype
from ..front.trace import fail
from .layout import make_linear_layout, make_swizzled_layout
from .mma_emitter import TensorCoreIntrinEmitter
from .mma_layout import mma_store_32x8_to_shared_16x16_layout as mma_store_index_map

__all__ = ["TensorCoreIntrinEmitter", "get_mma_micro_size", "get_swizzle_layout", "make_mma_swizzle_layout",
           "mma_store_index_map"]  # fmt: skip


def get_swizzle_layout(row_idx: Any, col_idx: Any, row_size: int, dtype: Any) -> tuple[Any, Any]:
    """(row, column) where a shared tile with rows of row_size elements keeps the element (row_idx,
    col_idx), so
    that eight rows of a 16-byte chunk lie in different banks.

    row_idx, col_idx: integers or values; a row is a power of two of 16-byte chunks, at most 128 bytes.
    """
    chunk = 128 // as_dtype(dtype).bits
    chunks = row_size // chunk
    if row_size % chunk or chunks not in (1, 2, 4, 8):
        raise fail(
            f"get_swizzle_layout: a row of {row_size} {as_dtype(dtype)} must be 16, 32, 64 or 128 bytes"
        )
    turn = row_idx // (8 // chunks) % chunks
    return row_idx, (col_idx // chunk ^ turn) * chunk + col_idx % chunk


def make_mma_swizzle_layout(shared_buf: Any, is_smooth: bool = False) -> Any:
    """A layout of a shared tile that reads and writes of its rows and columns find free of bank conflicts, as
    make_swizzled_layout gives it; with is_smooth the tile row by row.
    """
    return (make_linear_layout if is_smooth else make_swizzled_layout)(shared_buf)


def get_mma_micro_size(dtype: Any) -> tuple[int, int, int]:
    """(m, n, k) of what TensorCoreIntrinEmitter works on at a time."""
    return 16, 16, 256 // as_dtype(dtype).bits
