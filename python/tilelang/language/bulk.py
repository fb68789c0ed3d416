"""Copies of bytes by the tensor memory accelerator (sm_90 and later) without a tensor's shape: one run of
elements from a tensor to shared memory, begun by the thread that executes it

    bars = T.create_barriers(1)
    if T.get_thread_binding() == 0:
        T.ptx_arrive_barrier_expect_tx(0, 512)
        T.ptx_cp_async_bulk("float32", S.data, 0, A.data, 128 * bx, 512, 0)
    T.ptx_wait_barrier(0)                       # 128 elements are there, for whoever has waited

T.tma_copy moves tiles."""

from __future__ import annotations

from typing import Any

from .._core import Buffer
from ..front.dtypes import as_dtype
from ..front.trace import fail, in_kernel
from ..front.values import as_value, constant
from .barriers import _numbered
from .foreign import Pointer
from .places import moved

_UNIT = 16  # bytes


def _start(what: str, name: str, x: Any, scope: str, dtype: Any) -> tuple[Buffer, tuple]:
    buffer = getattr(x, "buffer", x)
    if buffer.__class__ is not Buffer or buffer.scope != scope:
        where = "a shared buffer" if scope == "shared" else "a tensor"
        raise fail(f"{what}: {name} is {where}, its .data, or T.access_ptr of it, not {x!r}")
    if buffer.dtype != dtype:
        raise fail(f"{what}: dtype is {dtype}, but {buffer.name} is {buffer.dtype}")
    return buffer, x.index if x.__class__ is Pointer else (0,) * len(buffer.shape)


def ptx_cp_async_bulk(
    dtype: Any,
    shared_ptr: Any,
    shared_offset: Any,
    global_ptr: Any,
    global_offset: Any,
    bytes: Any,
    barrier_id: Any,
) -> None:
    """Begin to copy `bytes`, a multiple of 16, from a tensor to shared memory; one thread executes it.

    shared_ptr, global_ptr: a shared buffer and a tensor of that dtype, their .data, or T.access_ptr;
    shared_offset, global_offset: elements to go on from there, in row-major order, to places that 16 bytes
    divide.  A shared tile without a layout of the program's lies row by row.
    barrier_id: a barrier, or the number of one of T.create_barriers.  Its phase counts the bytes that land;
    T.ptx_arrive_barrier_expect_tx (T.mbarrier_arrive_expect_tx) says before how many it is to expect."""
    what = "T.ptx_cp_async_bulk"
    trace = in_kernel(what)
    wanted = as_dtype(dtype)
    to, at = _start(what, "shared_ptr", shared_ptr, "shared", wanted)
    source, start = _start(what, "global_ptr", global_ptr, "global", wanted)
    size = as_value(bytes)
    known = constant(size)
    if known.__class__ is float or (known.__class__ is int and (known < _UNIT or known % _UNIT)):
        raise fail(f"{what}: bytes is a multiple of 16, at least 16, not {bytes}")
    b = trace.builder
    words, number = _numbered(barrier_id, what)
    if str(words.dtype) != "uint64" or len(words.shape) != 1:
        raise fail(f"{what}: barrier_id is a barrier of T.alloc_barrier, or its number, not {words.name}")
    operands = [
        b.address(to, moved(to.shape, at, as_value(shared_offset)), "w"),
        b.address(source, moved(source.shape, start, as_value(global_offset)), "r"),
        b.const(known, as_dtype("int32")) if known.__class__ is int else b.cast(as_dtype("int32"), size),
        b.address(words, number or (0,), ""),
    ]
    b.instruct("cp_async_bulk_load", operands)
    trace.wrote(to)


__all__ = ["ptx_cp_async_bulk"]
