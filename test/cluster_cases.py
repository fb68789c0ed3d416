"""Kernels whose blocks run in clusters and reach each other, and what must come out of them."""

import numpy as np
import tilelang.language as T
from tma_cases import numbers


def exchanged(cluster=2, threads=64, barrier=False, blocks=4):
    """Each block sends its tile to the next one of its cluster: by threads, or beside them."""
    n = threads * 4

    @T.prim_func
    def main(X: T.Tensor((blocks, n), "float32"), Y: T.Tensor((blocks, n), "float32")):
        with T.Kernel(blocks, threads=threads, cluster_dims=cluster) as b:
            S = T.alloc_shared((n,), "float32")
            D = T.alloc_shared((n,), "float32")
            landed = T.alloc_cluster_barrier(1)
            to = (T.block_rank_in_cluster() + 1) % cluster
            if T.get_thread_binding() == 0:
                T.mbarrier_arrive_expect_tx(landed, n * 4)
            T.copy(X[b, :], S)
            if barrier:
                T.copy_cluster(S, D, dst_block=to, remote_barrier=landed)
                T.barrier_wait(landed, 0)
            else:
                T.copy_cluster(S, D, dst_block=to)
                T.cluster_sync()
            T.copy(D, Y[b, :])

    x = numbers((blocks, n), "float32")
    return main, x, np.roll(x.reshape(-1, cluster, n), 1, axis=1).reshape(x.shape)


def told(cluster=2, threads=64, blocks=4):
    """The same in three rounds, told by arrivals at the next block's barrier, and back when it is read."""
    n = threads * 4

    @T.prim_func
    def main(X: T.Tensor((3, blocks, n), "float32"), Y: T.Tensor((3, blocks, n), "float32")):
        with T.Kernel(blocks, threads=threads, cluster_dims=cluster) as b:
            S = T.alloc_shared((n,), "float32")
            D = T.alloc_shared((n,), "float32")
            there = T.alloc_cluster_barrier(threads)
            free = T.alloc_cluster_barrier(threads)
            rank = T.block_rank_in_cluster()
            for k in T.serial(3):
                T.copy(X[k, b, :], S)
                T.barrier_wait(free, (k + 1) % 2)
                T.copy_cluster(S, D, dst_block=(rank + 1) % cluster)
                T.mbarrier_arrive(there, cta_id=(rank + 1) % cluster)
                T.barrier_wait(there, k % 2)
                T.copy(D, Y[k, b, :])
                T.mbarrier_arrive(free, cta_id=(rank + cluster - 1) % cluster)

    x = numbers((3, blocks, n), "float32")
    return main, x, np.roll(x.reshape(3, -1, cluster, n), 1, axis=2).reshape(x.shape)


def loaded_once(dims=(2, 1), mask=3, issuer=None, shape=(64, 64), dtype="float16", turns=3, repeats=1):
    """Blocks of a cluster load the same tile in turns: those of the mask once for all of them. mask: a
    number, or a function of the block's rank."""
    size = dims[0] * dims[1]
    grid = (dims[0] * 2, dims[1])
    rows, columns = shape

    @T.prim_func
    def main(
        X: T.Tensor((2, turns * rows, columns), dtype),
        Y: T.Tensor((grid[1], grid[0], turns, rows, columns), dtype),
    ):
        with T.Kernel(*grid, threads=64, cluster_dims=dims) as (bx, by):
            S = T.alloc_shared((rows, columns), dtype)
            full = T.alloc_cluster_barrier(64)
            free = T.alloc_cluster_barrier(64 * size)
            rank = T.block_rank_in_cluster()
            for k in T.serial(turns):
                T.barrier_wait(free, (k + 1) % 2)
                T.tma_copy(
                    X[T.get_cluster_id(), k * rows : (k + 1) * rows, :],
                    S,
                    barrier=full,
                    cluster_mask=mask(rank) if callable(mask) else mask,
                    issuer=issuer,
                )
                T.barrier_arrive(full)
                T.barrier_wait(full, k % 2)
                T.copy(S, Y[by, bx, k, :, :])
                for r in range(size):
                    T.mbarrier_arrive(free, cta_id=r)

    x = numbers((2, turns * rows, columns), dtype)
    each = x.reshape(2, turns, rows, columns)
    wanted = np.broadcast_to(np.repeat(each, dims[0], axis=0), (grid[1], grid[0], turns, rows, columns))
    return main, x, wanted


CASES = {
    "by threads": lambda: exchanged(),
    "by threads, four blocks": lambda: exchanged(4, blocks=8),
    "beside the threads": lambda: exchanged(barrier=True),
    "beside the threads, three blocks": lambda: exchanged(3, barrier=True, blocks=6),
    "a block by itself": lambda: exchanged(1),
    "told by arrivals": lambda: told(),
    "told by arrivals, four blocks": lambda: told(4),
    "loaded once for two": lambda: loaded_once(),
    "loaded once, by the second": lambda: loaded_once(issuer=1),
    "loaded once for some of four": lambda: loaded_once((4, 1), 0b0110),
    "loaded once along y": lambda: loaded_once((1, 2)),
    "loaded once for rows of four": lambda: loaded_once((2, 2), lambda rank: 3 << (rank // 2 * 2)),
    "loaded once for columns of four": lambda: loaded_once(
        (2, 2), lambda rank: 5 << rank % 2, shape=(32, 96)
    ),
    "loaded once, bytes": lambda: loaded_once(shape=(40, 256), dtype="uint8"),
    "loaded once, by one alone": lambda: loaded_once((2, 1), 2),
}
