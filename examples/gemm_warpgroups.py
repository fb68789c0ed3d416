"""C = A @ B in float16 on Hopper, its parts placed by hand: a producer that copies tiles by TMA, two
consumers that multiply them by wgmma, with a ring of slots between them.

The producer (warpgroup 2) runs ahead by as many tiles as there are slots.  A slot has two barriers: `full`
ends a phase when the copies have landed, `empty` when both consumers have multiplied what was there.  Each
consumer leaves one product in flight: it gives back the slot of the product before.  C leaves in parts of 64
columns, by TMA too, beside the next tile's first products.  Blocks run through many tiles of C, `group` rows
of tiles at a time, so that tiles of A and B that lie in L2 are used again.

The consumers are two teams with a text each, so that one multiplies while the other stores.  With
one_team=True they are one, which is compiled in 0.6 of the time, and meet wherever a part of C leaves.

Usage:
    python examples/gemm_warpgroups.py [--target auto|cuda|sim:sm_90a] [--m M] [--n N] [--k K]
"""

import harness
import numpy as np
import tilelang
import tilelang.language as T

SMALL = {"m": 200, "n": 264, "k": 328, "blocks": 3}


@tilelang.jit(out_idx=[-1])
def gemm(
    M,
    N,
    K,
    transpose_B=False,
    block_N=256,
    slots=4,
    blocks=132,
    group=12,
    block_K=64,
    part=64,
    dtype="float16",
    one_team=False,
):
    block_M = 128
    if block_N % (2 * part):  # or a tile's first part would take the buffer that the last one is stored from
        raise ValueError(f"block_N is {block_N}; C leaves in pairs of parts: a multiple of {2 * part}")
    rows, columns, steps = (
        -(-extent // block) for extent, block in ((M, block_M), (N, block_N), (K, block_K))
    )
    tiles = rows * columns
    producer, teams = 2, ((0, 1),) if one_team else ((0,), (1,))
    height = block_M // len(teams)  # of a team's share of a tile
    B_tile = (block_N, block_K) if transpose_B else (block_K, block_N)

    @T.macro
    def place(tile):
        first = tile // (group * columns) * group
        tall = T.min(rows - first, group)
        inside = tile - first * columns
        return first + inside % tall, inside // tall

    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((N, K) if transpose_B else (K, N), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(blocks, threads=384) as block:
            A_shared = T.alloc_shared((slots, block_M, block_K), dtype)
            B_shared = T.alloc_shared((slots, *B_tile), dtype)
            C_shared = T.alloc_shared((len(teams), 2, height, part), dtype)
            full = T.alloc_barrier([4] * slots)
            empty = T.alloc_barrier([8] * slots)
            thread = T.get_thread_binding()
            count = T.ceildiv(tiles - block, blocks)  # of this block

            with T.ws(producer):
                T.set_max_nreg(24, 0)
                for t in T.serial(count):
                    row, column = place(block + t * blocks)
                    for k in T.serial(steps):
                        i = t * steps + k
                        s = i % slots
                        T.barrier_wait(empty[s], (i // slots + 1) % 2)
                        T.tma_copy(A[row * block_M, k * block_K], A_shared[s, :, :], barrier=full[s])
                        if transpose_B:
                            T.tma_copy(B[column * block_N, k * block_K], B_shared[s, :, :], barrier=full[s])
                        else:
                            T.tma_copy(B[k * block_K, column * block_N], B_shared[s, :, :], barrier=full[s])
                        if thread % 32 == 0:  # each warp of the producer, so that none falls behind
                            T.barrier_arrive(full[s])

            for c, team in enumerate(teams):
                with T.ws(*team):
                    T.set_max_nreg(240, 1)
                    C_local = T.alloc_fragment((height, block_N), "float32")
                    for t in T.serial(count):
                        row, column = place(block + t * blocks)
                        for k in T.serial(steps):
                            i = t * steps + k
                            T.barrier_wait(full[i % slots], i // slots % 2)
                            T.wgmma_gemm(
                                A_shared[i % slots, c * height : (c + 1) * height, :],
                                B_shared[i % slots, :, :],
                                C_local,
                                transpose_B=transpose_B,
                                clear_accum=(k == 0),
                            )
                            T.wait_wgmma(1)
                            if k > 0 and thread % 32 == 0:
                                T.barrier_arrive(empty[(i - 1) % slots])
                        T.wait_wgmma(0)
                        if thread % 32 == 0:
                            T.barrier_arrive(empty[(t * steps + steps - 1) % slots])
                        for p in T.unroll(block_N // part):
                            T.tma_store_wait(1)  # the part before the last has left its buffer
                            T.copy(C_local[:, p * part : (p + 1) * part], C_shared[c, p % 2, :, :])
                            T.tma_copy(
                                C_shared[c, p % 2, :, :],
                                C[row * block_M + c * height, column * block_N + p * part],
                            )
                    T.tma_store_wait(0)

    return main


def cases(kind, m=1000, n=1304, k=704, blocks=132):
    rng = np.random.default_rng(0)
    for transpose_B, one_team in ((False, False), (True, False), (False, True)):
        a = rng.standard_normal((m, k)).astype(np.float16)
        b = rng.standard_normal((n, k) if transpose_B else (k, n)).astype(np.float16)
        expected = a.astype(np.float64) @ (b.T if transpose_B else b).astype(np.float64)
        arguments = [a, b, harness.blank((m, n), "float16")]
        kernel = gemm.get_tir(m, n, k, transpose_B, blocks=blocks, one_team=one_team)
        name = f"{m} x {n} x {k}, B {'(N, K)' if transpose_B else '(K, N)'}{', one team' * one_team}"
        yield harness.Case(name, kernel, arguments, {2: expected}, 5e-4, True, chips=("sm_90a",))


if __name__ == "__main__":
    harness.main(__doc__, cases)
