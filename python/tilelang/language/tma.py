"""Copies by the tensor memory accelerator (TMA, sm_90 and later), started by hand: one thread starts the
copy of a whole tile, which goes on beside all threads.

A load names a barrier (T.alloc_barrier) and adds its bytes to what the phase expects; the kernel arrives
there and waits for the phase. A store is a group of its own; who started it waits by T.tma_store_wait.

    full = T.alloc_barrier(128)                           # the arrivals of a phase: of all threads
    for k in T.serial(n):
        T.tma_copy(A[by * 64, k * 64], A_shared, barrier=full)
        T.barrier_arrive(full)
        T.barrier_wait(full, k % 2)                       # A_shared is there, for whoever has waited"""

from __future__ import annotations

import math
from typing import Any

from .._core import Buffer
from ..front import loose
from ..front.dtypes import as_dtype
from ..front.indexing import as_operand
from ..front.trace import fail, in_kernel
from ..front.values import Element, as_value, constant
from .barriers import barrier_of
from .tile import unused


def tma_copy(
    src: Any,
    dst: Any,
    *,
    barrier: Any = None,
    cluster_mask: Any = None,
    issuer: Any = None,
    leader_scope_threads: Any = None,
    eviction_policy: Any = None,
    annotations: Any = None,
) -> None:
    """Begin to copy a tile from a tensor to shared memory, or back; one thread of the team starts it.

    src, dst: a tensor and a shared tile of one dtype, slices, or elements where the tile begins (then the
    other side gives the extents). Elements outside of the tensor are read as 0 and not written.
    barrier: of a load, one of T.alloc_barrier. The load adds the bytes of the whole tile to what the phase
    expects, also where parts of it are outside; arrive there as well, and wait, before the tile is read.
    A store takes none: it is a group of its own, see T.tma_store_wait. What the threads of the team have
    written to the tile is stored, and what those of other teams have written before they arrived.
    The chip takes a store that begins below 0 in any dimension for an illegal instruction; T.copy asks for
    that where it may be so, and has threads store what lies inside.
    The tile may be read by ordinary statements: the compiler lays it out in the swizzled panels that the
    accelerator knows, for all that use it.
    It is an error where the accelerator cannot move the tile: more than 5 dimensions; rows of the tile,
    strides or the begin of the copy that are no multiples of 16 bytes (what only the call tells is
    checked by the call); another safe value than 0; a target without one. T.copy moves every tile.
    cluster_mask, of a load in a kernel with clusters: a bit for the rank of each block that loads this very
    tile, to the same place. One of them loads it once for all of these: the one of the lowest rank, or of
    the rank `issuer`; the bytes count at the barrier of each. Blocks without a bit load for themselves. The
    tile of every block of the mask must be free when the load is started: let the issuer wait for arrivals
    from all of them (T.mbarrier_arrive(b, cta_id=rank)). It is an error where two blocks of the mask name
    different tiles, places or issuers; where only data tell, all of them get the issuer's tile.
    leader_scope_threads: how many threads come to the copy, of which the first starts it: those of the
    block, or of the T.ws or the condition on the thread that it stands in.
    eviction_policy, annotations: hints that this version does not use."""
    what = "T.tma_copy"
    if leader_scope_threads is not None:
        _check_leader_scope(what, leader_scope_threads)
    unused(what, eviction_policy=eviction_policy, annotations=annotations or None)
    source, target = as_operand(src, f"{what}: src"), as_operand(dst, f"{what}: dst")
    loose.decide("tma_copy", (source, target))
    trace = in_kernel(what)
    written = target if target.__class__ is Buffer else target.buffer
    if written.scope == "global":
        if barrier is not None:
            raise fail(
                f"{what}: a store has no barrier: it is a group of its own, which T.tma_store_wait waits for"
            )
        if cluster_mask is not None:
            raise fail(f"{what}: cluster_mask is for loads: each block stores its own tile")
        trace.builder.tile("tma_store", (source, target), {})
    else:
        if barrier is None:
            raise fail(
                f"{what}: a load needs a barrier, at which its bytes are counted: "
                "barrier=b, b = T.alloc_barrier(arrivals)"
            )
        word = barrier_of(barrier, f"{what}: barrier")
        operand = word.region() if word.__class__ is Element else word
        trace.builder.tile("tma_load", (source, target, operand), _several(what, cluster_mask, issuer))
    trace.wrote(written)


def _check_leader_scope(what: str, given: Any) -> None:
    """An error unless so many threads come to the copy, as far as the program says."""
    count, trace = constant(as_value(given)), in_kernel(what)
    if count.__class__ is not int or count < 1:
        raise fail(f"{what}: leader_scope_threads is a number of threads, not {given}")
    branches = any(frame.device and not frame.loop for a in trace.activations for frame in a.frames)
    threads = trace.kernel.teams[-1] if trace.kernel.teams else math.prod(trace.kernel.threads or [count])
    if count > threads or count != threads and not branches:
        raise fail(
            f"{what}: leader_scope_threads is {count}, but {threads} threads come here, and the first of "
            f"them starts the copy: put it under T.ws, or a condition on the thread, to which {count} come"
        )


def _several(what: str, cluster_mask: Any, issuer: Any) -> dict:
    """The attributes of a load for several blocks."""
    if cluster_mask is None:
        if issuer is not None:
            raise fail(f"{what}: issuer is one of the blocks of cluster_mask, which is missing")
        return {}
    builder = in_kernel(what).builder
    attrs = {"cluster_mask": builder.cluster_mask(what, as_value(cluster_mask))}
    return attrs if issuer is None else {**attrs, "issuer": builder.rank(f"{what}: issuer", as_value(issuer))}


def tma_store_arrive() -> None:
    """Close the stores that this thread has begun since the last time, as one group. T.tma_copy closes
    its own, so that this adds an empty one, which makes waits no weaker."""
    in_kernel("T.tma_store_arrive").builder.instruct("cp_async_bulk_commit_group", [])


def tma_store_wait(count: Any = 0, read: Any = True) -> None:
    """Wait until at most `count` (a constant) of the groups that this thread closed last are under way.

    read: until all before them have read the tile, which may be written again then; False: until they have
    written the tensor as well. Other threads may write to the tile behind the next barrier, which the
    compiler places."""
    what = "T.tma_store_wait"
    left = constant(count)
    if left.__class__ is not int or left < 0:
        raise fail(f"{what}: count is part of the instruction: a constant, at least 0, not {count}")
    trace = in_kernel(what)
    row = "cp_async_bulk_wait_group_read" if read else "cp_async_bulk_wait_group"
    trace.builder.instruct(row, [trace.builder.const(left, as_dtype("int32"))])


__all__ = ["tma_copy", "tma_store_arrive", "tma_store_wait"]
