"""C = A @ B in float16 with float32 sums, from the simplest program to one whose blocks stay on the chip.

    simple      each block computes a tile of C; a step's copies end before its product begins
    pipelined   the copies of later steps run beside the product of this one: by cp.async, or on Hopper by
                warps of their own, which load by TMA (docs/pipelines.md)
    persistent  as many blocks as the chip runs at once walk through the tiles of C, in an order that keeps
                rows and columns in L2
    cluster     two blocks with tiles of C one below the other load each tile of B once: either of them sends
                one half of it to both (multicast). This needs Hopper (sm_90a); elsewhere it is refused

The compiler divides no loop of blocks in clusters among roles. So the last level writes out what the levels
before it are given, warps that load and barriers, and its blocks do not stay; gemm_cluster.py does all of it
by hand. A cluster reads B once where two blocks read it twice, which pays where they wait for memory. The
GEMM on an H100 does not, it is limited by the chip's power: gemm_cluster.py is at 1.005 to 1.01 of the same
without clusters (gemm_warpgroups.py) at 8192 x 8192 x 8192, and at 0.995 at 4096 x 4096 x 4096
(bench/results/2026-11-27-hopper.md).

Usage:
    python examples/gemm_levels.py [--target auto|cpu|cuda|sim:CHIP|reference] [--m M] [--n N] [--k K]
                                   [--level simple|pipelined|persistent|cluster] [--blocks N]
"""

import harness
import numpy as np
import tilelang
import tilelang.language as T

# All the tuning there is: block_M, block_N, block_K, num_stages and threads.
TILES = {
    "cpu": (128, 128, 64, 1, 1),
    "gpu": (128, 128, 32, 3, 128),
    "warpgroup_gpu": (128, 256, 64, 4, 256),
    "small_gpu": (128, 128, 32, 2, 256),
    "reference": (64, 64, 64, 1, 1),
}
LEVELS = ("simple", "pipelined", "persistent", "cluster")
SMALL = {"m": 100, "n": 72, "k": 136, "blocks": 3}


@T.macro
def tile_of(A, B, C, by, bx, tiles, level):
    """The tile of C in row by and column bx."""
    block_M, block_N, block_K, stages, _ = tiles
    A_tile = T.alloc_shared((block_M, block_K), "float16")
    B_tile = T.alloc_shared((block_K, block_N), "float16")
    C_tile = T.alloc_fragment((block_M, block_N), "float32")
    T.clear(C_tile)
    for k in T.Pipelined(T.ceildiv(A.shape[1], block_K), num_stages=stages if level != "simple" else 0):
        T.copy(A[by * block_M, k * block_K], A_tile)
        T.copy(B[k * block_K, bx * block_N], B_tile)
        T.gemm(A_tile, B_tile, C_tile)
    T.copy(C_tile, C[by * block_M, bx * block_N])


@T.macro
def tile_in_cluster(A, B, C, by, bx, tiles):
    """The same, where the block's neighbour in its cluster has the tile of C below, or above, and needs the
    same tiles of B."""
    block_M, block_N, block_K, slots, threads = tiles
    steps, half, consumers = T.ceildiv(A.shape[1], block_K), block_N // 2, T.ceildiv(threads, 128)
    A_tile = T.alloc_shared((slots, block_M, block_K), "float16")
    B_tile = T.alloc_shared((slots, block_K, block_N), "float16")
    full = T.alloc_cluster_barrier([128] * slots)  # as many arrivals, and all bytes have landed
    empty = T.alloc_cluster_barrier([8 * consumers] * slots)  # by each warp that multiplies, of both blocks
    lane = T.get_thread_binding() % 32
    with T.ws(consumers):  # the last warpgroup loads
        for k in T.serial(steps):
            s = k % slots
            T.barrier_wait(empty[s], (k // slots + 1) % 2)
            T.tma_copy(A[by * block_M, k * block_K], A_tile[s, :, :], barrier=full[s])
            for p in (0, 1):  # the block of rank p sends that half to both: a bit of the mask for each
                T.tma_copy(
                    B[k * block_K, bx * block_N + p * half],
                    B_tile[s, :, p * half : (p + 1) * half],
                    barrier=full[s],
                    cluster_mask=3,
                    issuer=p,
                )
            T.barrier_arrive(full[s])
    with T.ws(*range(consumers)):
        C_tile = T.alloc_fragment((block_M, block_N), "float32")
        for k in T.serial(steps):
            T.barrier_wait(full[k % slots], k // slots % 2)
            T.wgmma_gemm(A_tile[k % slots, :, :], B_tile[k % slots, :, :], C_tile, clear_accum=(k == 0))
            T.wait_wgmma(1)  # the product before has ended: its slot is free, in both blocks
            if k > 0 and lane < 2:
                T.mbarrier_arrive(empty[(k - 1) % slots], cta_id=lane)
        T.wait_wgmma(0)
        T.copy(C_tile, C[by * block_M, bx * block_N])


@tilelang.jit(out_idx=[-1])
def gemm(M, N, K, level, tiles, blocks):
    if level not in LEVELS:
        raise ValueError(f"level is {level}; there are {', '.join(LEVELS)}")
    rows, columns = T.ceildiv(M, tiles[0]), T.ceildiv(N, tiles[1])

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        if level == "persistent":
            with T.Kernel(blocks, threads=tiles[4]) as block:
                for by, bx in T.Persistent([rows, columns], blocks, block):
                    tile_of(A, B, C, by, bx, tiles, level)
        elif level == "cluster":
            threads = (T.ceildiv(tiles[4], 128) + 1) * 128
            with T.Kernel(columns, T.ceildiv(rows, 2) * 2, threads=threads, cluster_dims=(1, 2)) as (bx, by):
                tile_in_cluster(A, B, C, by, bx, tiles)
        else:
            with T.Kernel(columns, rows, threads=tiles[4]) as (bx, by):
                tile_of(A, B, C, by, bx, tiles, level)

    return main


def cases(kind, m=1000, n=1304, k=704, blocks=132, level: str | None = None):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n)))
    expected = {2: a.astype(np.float64) @ b.astype(np.float64)}
    for name in LEVELS if level is None else (level,):
        arguments = [a, b, harness.blank((m, n), "float16")]
        kernel = gemm.get_tir(m, n, k, name, TILES[kind], blocks)
        is_cluster = name == "cluster"
        chips = ("sm_90a",) if is_cluster else ()
        case = f"{name}, {m} x {n} x {k}"
        yield harness.Case(case, kernel, arguments, expected, 5e-4, is_cluster, chips=chips)


if __name__ == "__main__":
    harness.main(__doc__, cases, TILES)
