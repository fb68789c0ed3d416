"""`T.compute_gmma_descriptor`: the constants of a wgmma descriptor, found from how a tile lies."""

from __future__ import annotations

from math import prod
from operator import mul
from typing import Any

from .. import _core
from .._core import Buffer
from ..front.indexing import as_operand
from ..front.trace import fail, in_kernel
from ..front.values import as_value, constant
from .maps import Layout, ask, core_of
from .wgmma_hand import UNIT, WIDTHS, WGMMADescriptorParams

_WHAT = "T.compute_gmma_descriptor"


def _panels(shape: tuple, bits: int, width: int) -> _core.Layout | None:
    """Panels of rows of so many bytes, one after the other, as a descriptor says; 0: of 16, not swizzled."""
    row = (width or UNIT) * 8 // bits
    if shape[-1] % row:
        return None
    if width:
        return ask(_core.swizzled_panels, shape, bits, width)

    def place(*index: Any) -> Any:
        *slots, i, j = index
        slot: Any = 0
        for at, extent in zip(slots, shape, strict=False):
            slot = slot * extent + at
        return slot * (shape[-2] * shape[-1]) + j // row * (shape[-2] * row) + i * row + j % row

    return core_of(Layout(shape, place), _WHAT)


def _mode_of(layout: _core.Layout, name: str, shape: tuple, bits: int) -> int:
    """The layout type of T.initialize_wgmma_descriptor: an index of WIDTHS."""
    for mode in (1, 2, 3, 0):
        panels = _panels(shape, bits, WIDTHS[mode])
        if panels is not None and ask(layout.flattened().is_equal, panels.flattened()):
            return mode
    raise fail(
        f"{_WHAT}: {name} lies as no descriptor can say: wgmma reads panels whose rows of 128, 64 or 32 "
        "bytes are swizzled, or of 16 bytes, one panel after the other; T.annotate_layout with "
        "make_wgmma_swizzled_layout lays a tile out so"
    )


def _layout_of(tl_layout: Any, buffer: Buffer) -> _core.Layout:
    given = in_kernel(_WHAT).layouts.get(buffer.id) if tl_layout is None else core_of(tl_layout, _WHAT)
    if given is None:
        strides = [prod(buffer.shape[d + 1 :]) for d in range(len(buffer.shape))]
        return core_of(Layout(buffer.shape, lambda *i: sum(map(mul, i, strides))), _WHAT)
    if tuple(given.shape) != tuple(buffer.shape):
        extents = " × ".join(map(str, given.shape)), " × ".join(map(str, buffer.shape))
        raise fail(f"{_WHAT}: tl_layout is of {extents[0]} elements, but {buffer.name} has {extents[1]}")
    return given


def _distances(mode: int, rows: int, transposed: bool) -> tuple[int, int]:
    """The leading and the stride offset, in units of 16 bytes, of panels of so many rows."""
    eights = 8 * (WIDTHS[mode] or UNIT) // UNIT
    panel = rows // 8 * eights
    if mode:  # rows along k lie within a panel
        return (panel if transposed else 1), eights
    return (eights, panel) if transposed else (panel, eights)


def _first(region: Any, buffer: Buffer) -> list[int]:
    """The indices with which a slice of the buffer begins."""
    part = buffer if region is None else as_operand(region, f"{_WHAT}: region")
    if part.__class__ is Buffer:
        owner, begin = part, [0] * len(buffer.shape)
    else:
        owner, begin = part.buffer, [constant(as_value(r[0])) for r in part.ranges]
    if owner.id != buffer.id:
        raise fail(f"{_WHAT}: region is a slice of {owner.name}, but buffer is {buffer.name}: give one of it")
    if any(first.__class__ is not int for first in begin):
        raise fail(
            f"{_WHAT}: region begins at a value of the kernel, but the descriptor's constants are known "
            "while it is built: leave region out, and start T.initialize_wgmma_descriptor there"
        )
    return begin


def compute_gmma_descriptor(
    tl_layout: Any, buffer: Any, transposed: bool, micro_size_k: int = 16, region: Any = None
) -> WGMMADescriptorParams:
    """The constants with which T.initialize_wgmma_descriptor describes a tile that lies so.

        p = T.compute_gmma_descriptor(layout, tile, False)
        T.initialize_wgmma_descriptor(
            d, T.access_ptr(tile), p.swizzle_mode, p.leading_byte_offset, p.stride_byte_offset)

    tl_layout: the T.Layout that T.annotate_layout gives the buffer; None: what it has given it before.
    buffer: a shared tile, whose last two dimensions are multiplied.  transposed: its rows are along m or n,
    which elements of 16 bits alone may be; else along k.  micro_size_k: elements of k of an instruction,
    which are 256 bits.  region: a slice of the buffer, of which slice_byte_offset is the beginning, in units
    of 16 bytes from that of the buffer."""
    if buffer.__class__ is not Buffer or buffer.scope != "shared" or len(buffer.shape) < 2:
        raise fail(f"{_WHAT}: buffer is a shared tile of two dimensions or more, not {buffer!r}")
    bits, shape = buffer.dtype.bits, tuple(buffer.shape)
    if micro_size_k * bits != 256:
        raise fail(
            f"{_WHAT}: micro_size_k is {micro_size_k}, but an instruction takes 256 bits of k, "
            f"{256 // bits} elements of {buffer.dtype}"
        )
    if transposed and bits != 16:
        raise fail(
            f"{_WHAT}: elements of {bits} bits are multiplied along rows of k alone: lay {buffer.name} out "
            "so, with transposed=False"
        )
    layout = _layout_of(tl_layout, buffer)
    mode = _mode_of(layout, buffer.name, shape, bits)
    atom = (WIDTHS[mode] or UNIT) * 8 // bits
    begin = _first(region, buffer)
    if begin[-2] % 8 or begin[-1] % (atom if transposed else micro_size_k):
        raise fail(
            f"{_WHAT}: region begins at row {begin[-2]} and column {begin[-1]} of {buffer.name}, but a tile "
            f"begins at a multiple of 8 rows and of {atom if transposed else micro_size_k} columns"
        )
    (start,) = layout.flattened().map(begin)
    return WGMMADescriptorParams(
        mode,
        *_distances(mode, shape[-2], transposed),
        atom,
        1 if transposed else max(atom // micro_size_k, 1),
        bits // 8,
        not transposed,
        start * bits // 8 // UNIT,
        shape[-2] if transposed else atom,
    )


__all__ = ["compute_gmma_descriptor"]
