"""A warp's matrix instructions by hand: `T.ptx_ldmatrix`, `T.ptx_mma` and what fills and stores their results

TensorCoreIntrinEmitter writes whole gemms of them."""

from __future__ import annotations

import re
from typing import Any

from .._core import Buffer
from ..front.dtypes import as_dtype
from ..front.trace import fail, in_kernel
from ..front.values import as_value
from .foreign import Pointer
from .layout import matrix_fragment_names
from .mma_layout import sum_element
from .places import moved
from .thread import get_lane_idx

_NAMES = {"float16": "f16", "bfloat16": "bf16", "tfloat32": "tf32", "float32": "tf32", "float64": "f64",
          "int8": "s8", "uint8": "u8", "int4": "s4", "uint4": "u4", "float8_e4m3fn": "e4m3",
          "float8_e5m2": "e5m2"}  # fmt: skip
_SUMS = {"float16": "f16", "float32": "f32", "int32": "s32", "float64": "f64"}


def _array(x: Any, what: str) -> Buffer:
    """The T.alloc_local array of an operand: itself, or A.data."""
    buffer = getattr(x, "buffer", x)
    if buffer.__class__ is not Buffer or buffer.scope != "local":
        raise fail(f"{what}: an operand in registers is a T.alloc_local array (or its .data), not {x!r}")
    return buffer


def ptx_mma(
    dtype: Any,
    shape: str,
    A_layout: str,
    B_layout: str,
    A_dtype: Any,
    B_dtype: Any,
    C_dtype: Any,
    multiplicand_a: Any,
    a_index: Any,
    multiplicand_b: Any,
    b_index: Any,
    accumulator: Any,
    c_index: Any,
    saturate: bool = False,
    operator: Any = None,
) -> None:
    """C += A @ B by the instruction mma.sync of that shape, "m16n8k16", and these dtypes, on arrays of
    registers.

    multiplicand_a, multiplicand_b, accumulator: T.alloc_local arrays, used from element a_index, b_index and
    c_index on; what they hold of the tiles tilelang.cuda.intrinsics.layout says.  A_layout is "row" and
    B_layout "col", as the instruction has them; saturate and operator are not in this version."""
    what = "T.ptx_mma"
    if (A_layout, B_layout) != ("row", "col") or saturate or operator is not None:
        raise fail(
            f"{what}: A_layout is 'row', B_layout 'col', saturate False and operator None, not "
            f"{A_layout!r}, {B_layout!r}, {saturate}, {operator!r}"
        )
    a, b, c = (str(as_dtype(t)) for t in (A_dtype, B_dtype, C_dtype))
    operands = _NAMES.get(a) if a == b else f"{_NAMES.get(a)}_{_NAMES.get(b)}"
    row = f"mma_{shape}_{operands}_{_SUMS.get(c)}"
    if row not in matrix_fragment_names():
        have = ", ".join(n for n in matrix_fragment_names() if re.match(r"mma_m\d+n\d+k\d+", n))
        raise fail(f"{what}: there is no instruction {row}; there are {have}")
    trace = in_kernel(what)
    sums = _array(accumulator, what)
    places = (
        (sums, c_index, ""),
        (_array(multiplicand_a, what), a_index, "r"),
        (_array(multiplicand_b, what), b_index, "r"),
    )
    trace.builder.instruct(row, [trace.builder.address(x, (as_value(at),), how) for x, at, how in places])
    trace.wrote(sums)


def ptx_ldmatrix(trans: bool, num: int, src_access_ptr: Any, dst_access_ptr: Any) -> None:
    """Load `num` (1, 2 or 4) 8×8 matrices of 16 bits from shared memory into registers; trans: transposed.

    src_access_ptr: in each thread, T.access_ptr of the row that it gives the address of; dst_access_ptr:
    T.access_ptr of the first of 2·num elements of a T.alloc_local array."""
    what = "T.ptx_ldmatrix"
    for name, x, scope in (
        ("src_access_ptr", src_access_ptr, "shared"),
        ("dst_access_ptr", dst_access_ptr, "local"),
    ):
        if x.__class__ is not Pointer or x.buffer.scope != scope:
            raise fail(f"{what}: {name} is T.access_ptr of an element of a {scope} buffer, not {x!r}")
    if num not in (1, 2, 4):
        raise fail(f"{what}: num is 1, 2 or 4, not {num!r}")
    b = in_kernel(what).builder
    b.instruct(
        f"ldmatrix_x{num}{'_trans' if trans else ''}",
        [
            b.address(dst_access_ptr.buffer, dst_access_ptr.index, "w"),
            b.address(src_access_ptr.buffer, src_access_ptr.index, "r"),
        ],
    )
    in_kernel(what).wrote(dst_access_ptr.buffer)


def mma_fill(dtype: Any, local_size: int, local_ptr: Any, offset: Any) -> None:
    """Zeros in `local_size` elements of a T.alloc_local array, from `offset` on."""
    b, local = in_kernel("T.mma_fill").builder, _array(local_ptr, "T.mma_fill")
    (i,) = b.begin_for("unrolled", ["i"], [0], [local_size], [1], {})
    b.store(local, (as_value(offset) + i,), b.const(0, local.dtype))
    b.end_for()
    in_kernel("T.mma_fill").wrote(local)


def mma_store(
    dtype: Any, m: int, n: int, dst_ptr: Any, src_ptr: Any, src_offset: Any, dst_stride: Any
) -> None:
    """Store a warp's sums, 16×16 as two instructions of 16×8 leave them: 8 elements of each thread's
    T.alloc_local array from src_offset on, to where dst_ptr (T.access_ptr) points, rows dst_stride elements
    apart."""
    what = "T.mma_store"
    local = _array(src_ptr, what)
    if (m, n) != (16, 16) or dst_ptr.__class__ is not Pointer:
        raise fail(
            f"{what}: it stores 16 × 16 elements to T.access_ptr of the first, not {m} × {n} to {dst_ptr!r}"
        )
    b, to = in_kernel(what).builder, dst_ptr.buffer
    (i,) = b.begin_for("unrolled", ["i"], [0], [8], [1], {})
    row, column = sum_element(get_lane_idx(), i)
    value = b.load(local, (as_value(src_offset) + i,))
    b.store(to, moved(to.shape, dst_ptr.index, row * as_value(dst_stride) + column), b.cast(to.dtype, value))
    b.end_for()
    in_kernel(what).wrote(to)


__all__ = ["mma_fill", "mma_store", "ptx_ldmatrix", "ptx_mma"]
