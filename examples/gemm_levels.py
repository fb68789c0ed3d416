"""C = A @ B in float16 with float32 sums, from the simplest program to one whose blocks stay on the chip.

    simple      each block computes a tile of C; a step's copies end before its product begins
    pipelined   the copies of later steps run beside the product of this one: by cp.async, or on Hopper by
                warps of their own, which load by TMA (docs/pipelines.md)
    persistent  as many blocks as the chip runs at once walk through the tiles of C, in an order that keeps
                rows and columns in L2

What comes after these is placed by hand: gemm_warpgroups.py (roles, barriers), gemm_cluster.py (blocks that
share what they load).

Usage:
    python examples/gemm_levels.py [--target auto|cpu|cuda|sim:CHIP|reference]
                                   [--level simple|pipelined|persistent] [--m M] [--n N] [--k K] [--blocks N]
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
LEVELS = ("simple", "pipelined", "persistent")
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


@tilelang.jit(out_idx=[-1])
def gemm(M, N, K, level, tiles, blocks):
    rows, columns = T.ceildiv(M, tiles[0]), T.ceildiv(N, tiles[1])

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        if level == "persistent":
            with T.Kernel(blocks, threads=tiles[4]) as block:
                for by, bx in T.Persistent([rows, columns], blocks, block):
                    tile_of(A, B, C, by, bx, tiles, level)
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
        yield harness.Case(f"{name}, {m} x {n} x {k}", kernel, arguments, expected, 5e-4)


if __name__ == "__main__":
    harness.main(__doc__, cases, TILES)
