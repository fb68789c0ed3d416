"""C = A @ B by stream-K: tiles left over, fewer than the chip has multiprocessors, are divided along K.

As many blocks run as the chip has multiprocessors.  All steps of the tiles left over, tile after tile, make
one row, and each block multiplies an equal part of it: the end of one tile, perhaps, and the begin of the
next.  Then come rounds of whole tiles, one for each block.  So the blocks end together, where otherwise most
of them would have no tile in the last round.

A tile that one block finishes goes to C at once.  Of a tile that blocks share, each leaves its sum in
float32, and a second kernel adds these up.  With deterministic=True each sum has a place of its own, and they
are added in the order of K: every call gives the same bits.  Otherwise the sums of a tile meet in one place
by atomic additions, which takes less memory; the last bits may change from call to call.

The last block of a tile could also wait by flags for the sums of the others, and save the launch; but only
where all blocks are on the chip at the same time.  A second kernel is always right.

Usage:
    python examples/gemm_streamk.py [--target auto|cpu|cuda|sim:CHIP|reference] [--m M] [--n N] [--k K]
                                    [--blocks N]

As many blocks as tilelang.carver.arch.driver.get_num_sms() says are best; 132 are those of an H100.
"""

import harness
import numpy as np
import tilelang
import tilelang.language as T

# block_M, block_N, block_K, num_stages and threads.
TILES = {
    "cpu": (64, 128, 64, 1, 1),
    "gpu": (128, 128, 32, 3, 256),
    "warpgroup_gpu": (128, 256, 64, 4, 256),
    "small_gpu": (128, 128, 32, 2, 256),
    "reference": (64, 64, 64, 1, 1),
}
SMALL = {"m": 300, "n": 56, "k": 136, "blocks": 2}


@tilelang.jit(out_idx=[-1])
def gemm_streamk(M, N, K, tiles, blocks, deterministic=False):
    block_M, block_N, block_K, stages, threads = tiles
    pieces = 4  # of a shared tile, each for a block of the last kernel
    if blocks < 1 or block_M % pieces:
        raise ValueError(
            f"{blocks} blocks, with tiles of {block_M} rows; a block is needed, and rows in fours"
        )
    rows, columns, steps = T.ceildiv(M, block_M), T.ceildiv(N, block_N), T.ceildiv(K, block_K)
    rounds, rest = divmod(rows * columns, blocks)  # of whole tiles; tiles to share, the first ones
    share = T.ceildiv(rest * steps, blocks)  # of their steps, for a block: of two tiles at most
    turns = 2 if rest else 0
    places = max(1, blocks + rest if deterministic else rest)

    # Column after column: blocks that run together read the same tiles of B.
    @T.macro
    def position(tile):
        return tile % rows, tile // rows

    # Of the sum of a block for a tile.  The next sum is that of the next block, or of the next tile.
    @T.macro
    def place(block, tile):
        return block + tile if deterministic else tile

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        sums = T.alloc_global((places, block_M, block_N), "float32")
        if rest and not deterministic:
            with T.Kernel(rest, threads=threads) as tile:
                for i, j in T.Parallel(block_M, block_N):
                    sums[tile, i, j] = 0

        with T.Kernel(blocks, threads=threads) as block:
            A_tile = T.alloc_shared((block_M, block_K), "float16")
            B_tile = T.alloc_shared((block_K, block_N), "float16")
            C_tile = T.alloc_fragment((block_M, block_N), "float32")
            first, last = block * share, T.min(block * share + share, rest * steps)
            for turn in T.serial(turns + rounds):
                shares = turn < turns
                tile = T.if_then_else(shares, first // steps + turn, rest + (turn - turns) * blocks + block)
                begin = T.if_then_else(shares, T.max(first - tile * steps, 0), 0)
                end = T.if_then_else(shares, T.min(last - tile * steps, steps), steps)
                by, bx = position(tile)
                if begin < end:
                    T.clear(C_tile)
                    for k in T.Pipelined(begin, end, num_stages=stages):
                        T.copy(A[by * block_M, k * block_K], A_tile)
                        T.copy(B[k * block_K, bx * block_N], B_tile)
                        T.gemm(A_tile, B_tile, C_tile)
                    if end - begin == steps:
                        T.copy(C_tile, C[by * block_M, bx * block_N])
                    elif deterministic:
                        T.copy(C_tile, sums[place(block, tile), :, :])
                    else:
                        T.atomic_add(sums[place(block, tile), :, :], C_tile)

        if rest:
            with T.Kernel(pieces, rest, threads=threads) as (p, tile):
                total = T.alloc_fragment((block_M // pieces, block_N), "float32")
                row = p * (block_M // pieces)
                by, bx = position(tile)
                first, last = tile * steps // share, (tile * steps + steps - 1) // share  # its blocks
                if first < last:
                    T.clear(total)
                    for block in T.serial(first, last + 1 if deterministic else first + 1):
                        for i, j in T.Parallel(block_M // pieces, block_N):
                            total[i, j] += sums[place(block, tile), row + i, j]
                    T.copy(total, C[by * block_M + row, bx * block_N])

    return main


def cases(kind, m=1000, n=1304, k=704, blocks=132):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n)))
    expected = {2: a.astype(np.float64) @ b.astype(np.float64)}
    for deterministic in (False, True):
        kernel = gemm_streamk.get_tir(m, n, k, TILES[kind], blocks, deterministic)
        arguments = [a, b, harness.blank((m, n), "float16")]
        name = f"{m} x {n} x {k} by {blocks} blocks{', deterministic' * deterministic}"
        yield harness.Case(name, kernel, arguments, expected, 5e-4)


if __name__ == "__main__":
    harness.main(__doc__, cases, TILES)
