"""Clusters of blocks (sm_90 and later): `with T.Kernel(gx, gy, threads=128, cluster_dims=2) as (bx, by):`.

The blocks of a cluster run at the same time. They know each other by rank, x first, meet at a barrier of
their own, arrive at each other's barriers (T.mbarrier_arrive(b, cta_id=rank)), copy to each other's shared
memory (T.copy_cluster), and load a tile once for all of them (T.tma_copy(…, cluster_mask=3)).

A shared tile or a barrier has the same place in every block. Where a kernel reaches other blocks, the
compiler lets all of them begin and initialise their barriers first, and end together."""

from __future__ import annotations

import math
from typing import Any

from .._core import Buffer, Expr, Region
from ..front import loose
from ..front.indexing import as_operand
from ..front.trace import fail, in_kernel
from ..front.values import Element, as_value, constant
from .barriers import alloc_barrier, barrier_of, mbarrier_arrive
from .launch import Kernel
from .tile import copy, unused


def ClusterKernel(*blocks: Any, cluster_dims: Any, threads: Any = None, prelude: str | None = None) -> Kernel:
    """T.Kernel with clusters: cluster_dims, an int or up to three, are the blocks of one along x, y and z."""
    return Kernel(*blocks, threads=threads, prelude=prelude, cluster_dims=cluster_dims)


def _dims(what: str) -> list[int]:
    kernel = in_kernel(what).kernel
    return [*kernel.cluster, 1, 1, 1][:3]


def _axis(dim: Any, what: str) -> int:
    if dim not in (0, 1, 2):
        raise fail(f"{what}: dim is 0 (x), 1 (y) or 2 (z), not {dim!r}")
    return int(dim)


def get_cluster_dims() -> tuple[int, int, int]:
    """The blocks of a cluster along x, y and z."""
    x, y, z = _dims("T.get_cluster_dims")
    return x, y, z


def get_cluster_extents() -> tuple[int, int, int]:
    """The same as T.get_cluster_dims."""
    return get_cluster_dims()


def get_cluster_extent(dim: int = 0) -> int:
    """The blocks of a cluster along x, y or z."""
    return _dims("T.get_cluster_extent")[_axis(dim, "T.get_cluster_extent")]


def get_cluster_size() -> int:
    """The blocks of a cluster."""
    return math.prod(_dims("T.get_cluster_size"))


def get_cluster_id(dim: int = 0) -> Any:
    """The index of the cluster along x, y or z of the grid."""
    what = "T.get_cluster_id"
    axis = _axis(dim, what)
    return [*in_kernel(what).kernel.indices, 0, 0][axis] // _dims(what)[axis]


def get_cluster_ids() -> tuple:
    """The indices of the cluster along x, y and z of the grid."""
    return tuple(get_cluster_id(d) for d in range(3))


def block_rank_in_cluster() -> Expr:
    """The rank of the block in its cluster: x first, from 0; 0 in a kernel without clusters."""
    return in_kernel("T.block_rank_in_cluster").builder.rank_in_cluster()


def alloc_cluster_barrier(arrive_count: Any) -> Buffer:
    """T.alloc_barrier, whose barriers other blocks of the cluster arrive at, too."""
    return alloc_barrier(arrive_count)


def ptx_arrive_cluster_barrier(mbarrier: Any, cta_id: Any) -> None:
    """T.mbarrier_arrive(mbarrier, cta_id): at the barrier of the block of that rank."""
    mbarrier_arrive(mbarrier, cta_id)


def cluster_arrive() -> None:
    """Arrive at the cluster's barrier: what this thread has done is known to those that wait there."""
    in_kernel("T.cluster_arrive").builder.cluster_barrier("T.cluster_arrive", "cluster_arrive")


def cluster_arrive_relaxed() -> None:
    """Arrive at the cluster's barrier without making known what was done before."""
    what = "T.cluster_arrive_relaxed"
    in_kernel(what).builder.cluster_barrier(what, "cluster_arrive_relaxed")


def cluster_wait() -> None:
    """Wait until all threads of the cluster's blocks have arrived: each arrives and waits in turns."""
    in_kernel("T.cluster_wait").builder.cluster_barrier("T.cluster_wait", "cluster_wait")


def cluster_sync() -> None:
    """T.cluster_arrive and T.cluster_wait: a barrier of all threads of the cluster's blocks."""
    cluster_arrive()
    cluster_wait()


def copy_cluster(
    src: Any,
    dst: Any,
    *,
    dst_block: Any = None,
    cluster_mask: Any = None,
    remote_barrier: Any = None,
    eviction_policy: Any = None,
    coalesced_width: Any = None,
    annotations: Any = None,
    loop_layout: Any = None,
) -> None:
    """Copy a shared tile to shared memory of another block of the cluster.

    src, dst: shared tiles of one dtype and shape, or parts of them. Each run of memory (all of it, or rows)
    is copied by itself, 16 bytes at once where it begins at, and has, a multiple of that; with a
    remote_barrier it must. dst names the place in the other block, where it is the same as in this one.
    dst_block: the rank of that block. With a remote_barrier it must not be this block itself, for which
    T.copy is there: compute-sanitizer reports a bulk copy to the own block as invalid.
    remote_barrier: one of T.alloc_cluster_barrier. Then one thread starts the copy, which goes on beside all
    threads, and its bytes count at that barrier of the other block, which expects them
    (T.mbarrier_expect_tx). Without one the threads copy; the other block reads behind T.cluster_sync().
    cluster_mask, of a copy from a tensor: these blocks load the same tile. It is T.copy; T.tma_copy with a
    cluster_mask loads it once for all of them.
    The others are hints, as for T.copy."""
    what = "T.copy_cluster"
    if dst_block is None:
        if remote_barrier is not None:
            raise fail(f"{what}: remote_barrier is a barrier of the block dst_block, which is missing")
        unused(what, cluster_mask=cluster_mask)
        copy(src, dst, coalesced_width=coalesced_width, eviction_policy=eviction_policy,
             annotations=annotations, loop_layout=loop_layout)  # fmt: skip
        return
    if cluster_mask is not None:
        raise fail(f"{what}: dst_block is one block, cluster_mask are several: give one of the two")
    unused(what, eviction_policy=eviction_policy, coalesced_width=coalesced_width, loop_layout=loop_layout,
           annotations=annotations or None)  # fmt: skip
    source, target = as_operand(src, f"{what}: src"), as_operand(dst, f"{what}: dst")
    loose.decide("copy_cluster", (source, target))
    trace = in_kernel(what)
    attrs = {"dst_block": trace.builder.rank(what, as_value(dst_block))}
    word = () if remote_barrier is None else (barrier_of(remote_barrier, f"{what}: remote_barrier"),)
    word = tuple([x.region() if x.__class__ is Element else x for x in word])
    outer, source, target = _runs(trace.builder, source, target)
    trace.builder.tile("push_cluster" if word else "copy_cluster", (source, target, *word), attrs)
    if outer:
        trace.builder.end_for()
    trace.wrote(target if target.__class__ is Buffer else target.buffer)


def _runs(builder: Any, *sides: Buffer | Region) -> tuple[int, Any, Any]:
    """Opens a loop over the runs of memory that the two sides consist of, if they are no run as a whole: its
    dimensions, 0 without one; and the sides in an iteration."""
    ranges = [
        [(0, n, False) for n in x.shape] if x.__class__ is Buffer else [tuple(r) for r in x.ranges]
        for x in sides
    ]
    shapes = [x.shape if x.__class__ is Buffer else x.buffer.shape for x in sides]
    extents = [[1 if point else constant(extent) for _, extent, point in side] for side in ranges]
    moving = [[d for d, n in enumerate(side) if n != 1] for side in extents]
    counts = [[side[d] for d in dims] for side, dims in zip(extents, moving, strict=True)]
    if counts[0] != counts[1] or any(n.__class__ is not int for n in counts[0]):
        return 0, *sides  # an error, or a side that takes the other's extents
    outer = 0
    while outer < len(counts[0]) and not all(
        side[dims[outer] + 1 :] == list(shape[dims[outer] + 1 :])
        for side, dims, shape in zip(extents, moving, shapes, strict=True)
    ):
        outer += 1
    if outer == 0:
        return 0, *sides
    names = [f"run{d}" for d in range(outer)]
    indices = builder.begin_for("serial", names, [0] * outer, counts[0][:outer], [1] * outer, {})
    made = []
    for x, side, dims in zip(sides, ranges, moving, strict=True):
        for d, i in zip(dims, indices, strict=False):
            side[d] = (builder.binary("add", side[d][0], i), 1, True)
        starts, sizes, points = (list(column) for column in zip(*side, strict=True))
        made.append(Region(x if x.__class__ is Buffer else x.buffer, starts, sizes, points))
    return outer, *made


__all__ = ["ClusterKernel", "alloc_cluster_barrier", "block_rank_in_cluster", "cluster_arrive",
           "cluster_arrive_relaxed", "cluster_sync", "cluster_wait", "copy_cluster", "get_cluster_dims",
           "get_cluster_extent", "get_cluster_extents", "get_cluster_id", "get_cluster_ids",
           "get_cluster_size", "ptx_arrive_cluster_barrier"]  # fmt: skip
