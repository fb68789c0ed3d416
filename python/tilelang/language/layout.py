"""Where elements live: `Layout` and `Fragment`, and makers of the usual ones.

A Layout maps the indices of a tile to places in memory, a Fragment to a thread and one of its registers.
Both are made of a function of the indices, in a kernel or outside of one; they are compared, composed,
inverted and drawn exactly, by enumeration where nothing better is known.  A question without an answer raises
CompileError naming the two elements or extents in conflict.  The makers take a buffer, a slice of one, or
(shape, dtype)."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from .. import _core
from .._core import Buffer, Region
from ..front import dtypes
from ..front.trace import fail, in_kernel
from ..front.values import Element
from .maps import Fragment, Layout, ask, core_of, integer, ints

__all__ = ["Fragment", "Layout", "SwizzleMode", "make_full_bank_swizzled_layout",
           "make_fully_replicated_layout_fragment", "make_gemm_fragment_8x8",
           "make_gemm_fragment_8x8_transposed", "make_half_bank_swizzled_layout", "make_linear_layout",
           "make_matrix_fragment", "make_padded_layout", "make_quarter_bank_swizzled_layout",
           "make_swizzled_layout", "make_wgmma_swizzled_layout", "make_xor_swizzled_layout",
           "matrix_fragment_names", "sectors", "bank_cycles"]  # fmt: skip


class SwizzleMode(enum.IntEnum):
    """How wide the pattern of a swizzled tile is: none, or 32, 64 or 128 bytes (a quarter, half or all
    banks)."""

    NONE = 0
    QUARTER = SWIZZLE_32B = 1
    HALF = SWIZZLE_64B = 2
    FULL = SWIZZLE_128B = 3

    @classmethod
    def from_ordinal(cls, ordinal: int) -> SwizzleMode:
        """The mode of that number."""
        return cls(ordinal)

    def is_none(self) -> bool:
        """Whether nothing is swizzled."""
        return self is SwizzleMode.NONE

    def is_swizzle_32b(self) -> bool:
        """Whether the pattern is 32 bytes wide."""
        return self is SwizzleMode.SWIZZLE_32B

    def is_swizzle_64b(self) -> bool:
        """Whether the pattern is 64 bytes wide."""
        return self is SwizzleMode.SWIZZLE_64B

    def is_swizzle_128b(self) -> bool:
        """Whether the pattern is 128 bytes wide."""
        return self is SwizzleMode.SWIZZLE_128B

    def swizzle_byte_size(self) -> int:
        """The bytes of a pattern; 16, one chunk, without one."""
        return 16 << int(self)

    def swizzle_atom_size(self) -> int:
        """The 16-byte chunks of a pattern."""
        return 1 << int(self)

    def smem_alignment(self) -> int:
        """The bytes to which a tile's address must be aligned: eight rows of the pattern."""
        return 8 * self.swizzle_byte_size()


def _tile(tile: Any, dtype: Any, what: str) -> tuple[list[int], int]:
    """Shape and bits of an element of a buffer, a slice or (shape, dtype)."""
    if isinstance(tile, Element):
        raise fail(f"{what} takes a buffer, a slice or (shape, dtype), not an element of {tile.buffer.name}")
    if isinstance(tile, Region):
        return ints(tile.extents, f"{what}: an extent of the slice"), tile.buffer.dtype.bits
    if isinstance(tile, Buffer):
        return ints(tile.shape, f"{what}: an extent of {tile.name}"), tile.dtype.bits
    if isinstance(tile, (tuple, list)) and len(tile) == 2 and isinstance(tile[0], (tuple, list)):
        tile, dtype = tile
    if dtype is None:
        raise fail(f"{what} takes a buffer, a slice of one, or (shape, dtype); the dtype is missing")
    return ints(tile, f"{what}: an extent"), dtypes.as_dtype(dtype).bits


def make_linear_layout(buffer_or_load_or_region: Any) -> Layout:
    """Row-major; a shape does as well."""
    shape, _ = _tile(buffer_or_load_or_region, "float32", "make_linear_layout")
    return Layout._of(ask(_core.row_major, shape))


def make_swizzled_layout(
    buffer: Any, k_major: bool = True, allow_pad: bool = True, dtype: Any = None
) -> Layout:
    """What a shared tile wants that is read in 16-byte chunks: the widest swizzle that divides its rows,
    else padding (if allow_pad), else row-major.  k_major changes nothing: either way eight rows of a chunk
    are read at once."""
    shape, bits = _tile(buffer, dtype, "make_swizzled_layout")
    return Layout._of(ask(_core.conflict_free, shape, bits, bool(allow_pad)))


def _bank(buffer: Any, dtype: Any, bytes: int, what: str) -> Layout:
    shape, bits = _tile(buffer, dtype, what)
    return Layout._of(ask(_core.swizzled, shape, bits, bytes))


def make_full_bank_swizzled_layout(buffer: Any, dtype: Any = None) -> Layout:
    """Row-major, 16-byte chunks XORed with the row in patterns of 128 bytes."""
    return _bank(buffer, dtype, 128, "make_full_bank_swizzled_layout")


def make_half_bank_swizzled_layout(buffer: Any, dtype: Any = None) -> Layout:
    """The same in patterns of 64 bytes."""
    return _bank(buffer, dtype, 64, "make_half_bank_swizzled_layout")


def make_quarter_bank_swizzled_layout(buffer: Any, dtype: Any = None) -> Layout:
    """The same in patterns of 32 bytes."""
    return _bank(buffer, dtype, 32, "make_quarter_bank_swizzled_layout")


def make_xor_swizzled_layout(shape: Sequence[int], bits: int, base: int, shift: int) -> Layout:
    """The row-major offset with its bits [base, base + bits) XORed with those `shift` above."""
    numbers = [integer(n, "make_xor_swizzled_layout") for n in (bits, base, shift)]
    return Layout._of(ask(_core.xor_swizzled, ints(shape, "make_xor_swizzled_layout: the shape"), *numbers))


def make_padded_layout(buffer: Any, dtype: Any = None) -> Layout:
    """Row-major, rows set apart so that eight of them begin in eight groups of banks."""
    return Layout._of(ask(_core.padded, *_tile(buffer, dtype, "make_padded_layout")))


def make_wgmma_swizzled_layout(
    buffer: Any, continuity: int | None = None, k_major: bool = True, dtype: Any = None
) -> Layout:
    """Panels as wide as the widest swizzle that divides a row, one after the other: what wgmma reads.

    continuity: elements of a row that may be taken as contiguous, the whole row if not given.  k_major: the
    contiguous dimension is the reduction's; the order of the panels is the same for both."""
    shape, bits = _tile(buffer, dtype, "make_wgmma_swizzled_layout")
    width = shape[-1] if continuity is None else integer(continuity, "make_wgmma_swizzled_layout: continuity")
    if width < 1 or shape[-1] % width:
        raise fail(
            f"make_wgmma_swizzled_layout: continuity {width} does not divide the row of {shape[-1]} elements"
        )
    bytes = next((n for n in (128, 64, 32) if width * bits % (8 * n) == 0), 0)
    if not bytes and width * bits % 128:
        raise fail(
            f"make_wgmma_swizzled_layout: rows of {width} elements of {bits} bits are not a multiple "
            "of 16 bytes"
        )
    return Layout._of(ask(_core.swizzled_panels, shape, bits, bytes))


def make_fully_replicated_layout_fragment(buffer: Any, threads: int) -> Fragment:
    """Every thread holds the whole tile, row-major."""
    what = "make_fully_replicated_layout_fragment"
    shape, _ = _tile(buffer, "float32", what)

    def place(*index: Any) -> Any:
        register = 0
        for i, extent in zip(index, shape, strict=False):
            register = register * extent + i
        return (index[-1] if len(index) > len(shape) else 0, register)

    return Fragment(shape, place, replicate=integer(threads, f"{what}: threads"))


def make_gemm_fragment_8x8() -> Fragment:
    """An 8×8 matrix over 32 threads, two neighbours of a row in each: what ldmatrix loads."""
    return Fragment([8, 8], lambda i, j: (i * 4 + j // 2, j % 2))


def make_gemm_fragment_8x8_transposed() -> Fragment:
    """An 8×8 matrix over 32 threads, two neighbours of a column in each."""
    return Fragment([8, 8], lambda i, j: (j * 4 + i // 2, i % 2))


def make_matrix_fragment(instr: str, operand: str) -> Fragment:
    """Operand "a", "b" or "c" of a matrix instruction, by the instruction's name (matrix_fragment_names)."""
    return Fragment._of(ask(_core.matrix_fragment, instr, operand.lower()))


def matrix_fragment_names() -> list[str]:
    """The matrix instructions whose fragments are known."""
    return _core.matrix_fragment_names()


def bank_cycles(
    memory: Layout, dtype: Any, mapping: Fragment, lanes: int = 1, target: str | None = None
) -> tuple[int, int]:
    """Passes over the banks of shared memory, and the fewest possible, when the threads of `mapping` read
    their elements in `memory`, `lanes` neighbouring registers at a time; target: a GPU whose warps and banks
    they are, by default NVIDIA's."""
    bits = dtypes.as_dtype(dtype).bits
    return ask(_core.bank_cycles, core_of(memory, "bank_cycles"), bits, mapping._core, lanes, target or "")


def sectors(memory: Layout, dtype: Any, mapping: Fragment, lanes: int = 1, target: str | None = None) -> int:
    """32-byte sectors of global memory that the same accesses touch, added up over the warps' accesses."""
    bits = dtypes.as_dtype(dtype).bits
    return ask(_core.sectors, core_of(memory, "sectors"), bits, mapping._core, lanes, target or "")


def annotate_layout(layout_map: dict) -> None:
    """Lay out buffers as given, {buffer: layout}, instead of as the compiler would.

    For a shared tile or a tensor a T.Layout, for a fragment a T.Fragment, of the buffer's shape; or a
    function of the indices that gives what forward_fn of those gives.  A T.Fragment for a local array
    changes nothing.

    A buffer's annotated T.Fragment must tell by arithmetic what one thread holds: its thread and its
    register are sums of digits of the indices, i // a % b times a stride, where each digit stands in one of
    the two, and the strides fit into each other as those of a number's digits do; replicas are one more
    index.  Sums of two indices under a `%`, an XOR and tables are refused at the annotation; a T.Layout of
    a shared tile may be any map that gives no place twice."""
    in_kernel("T.annotate_layout")
    if not isinstance(layout_map, dict):
        raise fail(f"T.annotate_layout takes a dict of buffers and layouts, not {type(layout_map).__name__}")
    lay_out(layout_map, "T.annotate_layout")


def lay_out(layout_map: dict, by: str) -> None:
    """What `by`, an operator or a statement, says of buffers."""
    trace = in_kernel(by)
    for buffer, wanted in layout_map.items():
        if not isinstance(buffer, Buffer):
            raise fail(f"{by}: a key must be a buffer, not {type(buffer).__name__}")
        if buffer.scope == "local" and isinstance(wanted, Fragment):
            continue  # every thread has the array for itself, whatever is said of threads
        if not isinstance(wanted, (Layout, Fragment)):
            if not callable(wanted):
                raise fail(
                    f"{by}: {buffer.name} takes a T.Layout, a T.Fragment or a function "
                    f"of its indices, not {type(wanted).__name__}"
                )
            shape = ints(buffer.shape, f"{by}: an extent of {buffer.name}")
            wanted = (Fragment if buffer.scope == "fragment" else Layout)(shape, wanted)
        trace.builder.annotate_layout(buffer, wanted._core, by)
        trace.layouts[buffer.id] = wanted._core
