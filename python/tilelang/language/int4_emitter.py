"""`INT4TensorCoreIntrinEmitter`: the same gemm by hand for two integers of 4 bits in each byte."""

from __future__ import annotations

from typing import Any

from .._core import Buffer, Expr
from ..front.dtypes import as_dtype
from ..front.trace import fail, in_kernel
from ..front.values import as_value
from .mma_emitter import TensorCoreIntrinEmitter


class INT4TensorCoreIntrinEmitter(TensorCoreIntrinEmitter):
    """TensorCoreIntrinEmitter for int8 (or uint8) operands whose bytes hold two int4 (uint4) each.

    chunk and micro_size_k count bytes.  A sum over k is one over the lower halves of all bytes and one over
    the upper halves: each is widened to bytes in registers, and multiplied as such, so that the instructions
    are those of int8."""

    def __init__(
        self,
        a_dtype: Any = "int8",
        b_dtype: Any = "int8",
        accum_dtype: Any = "int32",
        *args: Any,
        **kwargs: Any,
    ) -> None:
        a, b = as_dtype(a_dtype), as_dtype(b_dtype)
        if a.name not in ("i8", "u8") or a != b:
            raise fail(
                f"INT4TensorCoreIntrinEmitter: A is {a} and B is {b}; both must be int8, of two int4 in a "
                "byte, or uint8, of two uint4"
            )
        super().__init__(a, b, accum_dtype, *args, **kwargs)

    def mma_atom(
        self,
        A_local_buf: Buffer,
        B_local_buf: Buffer,
        C_local_buf: Buffer,
        inst_m_idx: Any,
        inst_n_idx: Any,
        k_inner: Any = 0,
    ) -> None:
        """C_local += A_local @ B_local for one of the warp's tiles, by its number along m and n; k_inner as
        there."""
        what = "INT4TensorCoreIntrinEmitter.mma"
        sizes = self.warp_rows * self.local_size_a, self.warp_cols * self.local_size_b
        self._check(what, A_local_buf, self.a_dtype, sizes[0])
        self._check(what, B_local_buf, self.b_dtype, sizes[1])
        step, i, j = (as_value(x) for x in (k_inner, inst_m_idx, inst_n_idx))
        tiles = []
        for buffer, size, number, tile in (
            (A_local_buf, sizes[0], i, self.local_size_a),
            (B_local_buf, sizes[1], j, self.local_size_b),
        ):
            first = step * size if buffer.shape[0] >= 2 * size else 0
            tiles.append(_halves(buffer, first + number * tile, number * tile, tile, size))
        for a, b in zip(*tiles, strict=True):
            super().mma_atom(a, b, C_local_buf, i, j)


def _halves(buffer: Buffer, start: Any, to: Any, count: int, size: int) -> list[Buffer]:
    """The lower and the upper halves of `count` bytes, as bytes of two arrays of `size`, from `to` on."""
    trace = in_kernel("INT4TensorCoreIntrinEmitter.mma")
    b = trace.builder
    made = [b.alloc(f"{buffer.name}_{half}", "local", (size,), buffer.dtype, {}) for half in ("low", "high")]
    (r,) = b.begin_for("unrolled", ["r"], [0], [count], [1], {})
    for half, place in zip(_parts(b, buffer, b.load(buffer, (start + r,))), made, strict=True):
        b.store(place, (to + r,), b.cast(buffer.dtype, half))
    b.end_for()
    for place in made:
        trace.wrote(place)
    return made


def _parts(b: Any, buffer: Buffer, byte: Expr) -> tuple[Any, Any]:
    wide = b.let("byte", b.cast(as_dtype("int32"), byte))
    if buffer.dtype.name == "u8":
        return wide & 15, wide >> 4
    return wide << 28 >> 28, wide >> 4


__all__ = ["INT4TensorCoreIntrinEmitter"]
