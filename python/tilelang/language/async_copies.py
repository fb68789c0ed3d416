"""Asynchronous copies by hand: `T.async_copy`, `T.ptx_cp_async`, their groups and the waits for them.

A copy that has been begun goes on beside the threads. A thread closes its copies in groups and waits until at
most so many of its latest groups are under way; the compiler puts the barrier that makes them known to the
other threads behind the wait. What has not been waited for must not be read: the simulator finds such reads.
cp.async does this on sm_80 and later; elsewhere a copy has landed when the next statement begins, and the
same program gives the same result."""

from __future__ import annotations

from typing import Any

from .._core import Buffer
from ..front.dtypes import as_dtype
from ..front.indexing import as_operand
from ..front.trace import fail, in_kernel
from ..front.values import as_value, constant
from .foreign import Pointer
from .launch import integers
from .tile import _loop_layout, _tile

_BYTES = (4, 8, 16)
_I32 = as_dtype("int32")


def async_copy(
    src: Any,
    dst: Any,
    *,
    coalesced_width: int | None = None,
    annotations: Any = None,
    loop_layout: Any = None,
) -> None:
    """Begin to copy a tile from a tensor to shared memory, as a group of copies of its own.

    src: tensor, slice, or element where the tile begins; dst: a shared tile, or a slice or element of one, of
    the same dtype. Shapes, coalesced_width, loop_layout and annotations are as in T.copy; elements outside of
    the tensor are 0. The tile is read after a T.ptx_wait_group that waits for the group: of several copies,
    T.ptx_wait_group(1) leaves the last one under way.
    It is an error where cp.async cannot carry the copy: dtypes differ, fewer than 4 bytes in a row are
    contiguous and aligned on both sides, or the tensor has a safe value; T.copy moves such tiles."""
    attrs: dict[str, Any] = {}
    if coalesced_width is not None:
        attrs["coalesced_width"] = integers(coalesced_width, "T.async_copy: coalesced_width")[0]
    if loop_layout is not None:
        attrs["loop_layout"] = _loop_layout(loop_layout, "T.async_copy")
    source, target = as_operand(src, "T.async_copy: src"), as_operand(dst, "T.async_copy: dst")
    _tile("async_copy", (source, target), attrs, annotations, target)


def _place(x: Any, name: str, scope: str) -> Buffer:
    if x.__class__ is Pointer and x.buffer.scope == scope:
        return x.buffer
    what = "a shared tile" if scope == "shared" else "a tensor"
    given = f"of {x.buffer.name}, which is not" if x.__class__ is Pointer else f"not {x!r}"
    raise fail(f"T.ptx_cp_async: {name} is T.access_ptr of an element of {what}, {given}")


def ptx_cp_async(dst_access_ptr: Any, src_access_ptr: Any, num_elems: Any, predicate: Any = None) -> None:
    """Begin to copy elements that follow one another, in the thread that executes this.

    dst_access_ptr, src_access_ptr: T.access_ptr of the first of them, in a shared tile and in a tensor of the
    same dtype.  num_elems: a constant, of 4, 8 or 16 bytes together; both addresses are multiples of that.
    predicate: where it does not hold, the tensor is not read, and the elements are 0.
    The copy belongs to the group that this thread's next T.ptx_commit_group closes."""
    what = "T.ptx_cp_async"
    to, source = (
        _place(dst_access_ptr, "dst_access_ptr", "shared"),
        _place(src_access_ptr, "src_access_ptr", "global"),
    )
    if to.dtype != source.dtype:
        raise fail(
            f"{what}: it moves bytes as they are, but {source.name} is {source.dtype} and {to.name} is "
            f"{to.dtype}"
        )
    count = constant(num_elems)
    size = count * to.dtype.bits // 8 if count.__class__ is int else None
    if size not in _BYTES or count * to.dtype.bits % 8:
        given = f"{num_elems} elements of {to.name}, {to.dtype}"
        raise fail(
            f"{what}: a copy is of 4, 8 or 16 bytes, not of {given}"
            + (f" ({size} bytes)" if size is not None else "")
        )
    trace = in_kernel(what)
    b = trace.builder
    operands = [b.address(to, dst_access_ptr.index, "w"), b.address(source, src_access_ptr.index, "r")]
    name = f"cp_async_{size}"
    if predicate is not None:
        given = b.select(as_value(predicate), b.const(size, _I32), b.const(0, _I32))
        name, operands = f"{name}_zfill", [*operands, given]
    b.instruct(name, operands)
    trace.wrote(to)


def ptx_commit_group() -> None:
    """Close the copies of T.ptx_cp_async that this thread has begun since the last time, as one group; there
    may be none. T.async_copy closes its own."""
    in_kernel("T.ptx_commit_group").builder.instruct("cp_async_commit_group", [])


def ptx_wait_group(num: Any) -> None:
    """Wait until at most `num` (a constant, at least 0) of the groups that this thread closed last are under
    way; all before them have landed. The groups of copies that run ahead in a T.Pipelined loop are counted
    with the program's own, so that a wait in such a loop waits for more of the program's, never for less;
    explain() says where it waits for the loop's."""
    what = "T.ptx_wait_group"
    left = constant(num)
    if left.__class__ is not int or left < 0:
        raise fail(f"{what}: num is part of the instruction: a constant, at least 0, not {num}")
    b = in_kernel(what).builder
    b.instruct("cp_async_wait_group", [b.const(left, _I32)])


__all__ = ["async_copy", "ptx_commit_group", "ptx_cp_async", "ptx_wait_group"]
