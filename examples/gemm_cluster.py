"""C = A @ B in float16 on Hopper by clusters of two blocks: gemm_warpgroups.py, with tiles of B loaded once
for both.

The two blocks of a cluster have tiles of C one below the other, which need the same tiles of B. Each block
loads one half of such a tile from memory for both of them (multicast). So a slot is free when the consumers
of both blocks have multiplied what was there: each of their warps arrives at the barriers `empty` of both.

Usage:
    python examples/gemm_cluster.py [--target auto|cuda|sim:sm_90a] [--m M] [--n N] [--k K]
"""

import harness
import numpy as np
import tilelang
import tilelang.language as T

SMALL = {"m": 200, "n": 264, "k": 328, "blocks": 4}
CLUSTER = 2


@tilelang.jit(out_idx=[-1])
def gemm(M, N, K, transpose_B=False, block_N=256, slots=4, blocks=132, group=8, dtype="float16"):
    block_M, block_K, part = 128, 64, 64
    if block_N % (2 * part):  # or a tile's first part would take the buffer that the last one is stored from
        raise ValueError(f"block_N is {block_N}; C leaves in pairs of parts: a multiple of {2 * part}")
    rows, columns, steps = (
        -(-extent // block) for extent, block in ((M, CLUSTER * block_M), (N, block_N), (K, block_K))
    )
    tiles, clusters = rows * columns, blocks // CLUSTER  # a tile is that of a cluster
    producer, consumers, sharers = 2, (0, 1), tuple(range(CLUSTER))
    height, share = block_M // len(consumers), block_N // CLUSTER
    B_tile = (block_N, block_K) if transpose_B else (block_K, block_N)

    @T.macro
    def place(tile):
        first = tile // (group * columns) * group
        tall = T.min(rows - first, group)
        inside = tile - first * columns
        return first + inside % tall, inside // tall

    @T.macro
    def both(source, half, landed, p):
        T.tma_copy(source, half, barrier=landed, cluster_mask=2**CLUSTER - 1, issuer=p)

    @T.macro
    def load(A, B, A_shared, B_shared, full, s, row, column, k):
        T.tma_copy(A[row * block_M, k * block_K], A_shared[s, :, :], barrier=full[s])
        for p in sharers:
            begin, end = p * share, (p + 1) * share
            if transpose_B:
                both(B[column * block_N + begin, k * block_K], B_shared[s, begin:end, :], full[s], p)
            else:
                both(B[k * block_K, column * block_N + begin], B_shared[s, :, begin:end], full[s], p)

    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((N, K) if transpose_B else (K, N), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(blocks, threads=384, cluster_dims=CLUSTER):
            A_shared = T.alloc_shared((slots, block_M, block_K), dtype)
            B_shared = T.alloc_shared((slots, *B_tile), dtype)
            C_shared = T.alloc_shared((len(consumers), 2, height, part), dtype)
            full = T.alloc_cluster_barrier([4] * slots)
            empty = T.alloc_cluster_barrier([4 * len(consumers) * CLUSTER] * slots)
            thread, rank, cluster = T.get_thread_binding(), T.block_rank_in_cluster(), T.get_cluster_id()
            count = T.ceildiv(tiles - cluster, clusters)  # of this cluster

            with T.ws(producer):
                T.set_max_nreg(24, 0)
                for t in T.serial(count):
                    row, column = place(cluster + t * clusters)
                    for k in T.serial(steps):
                        i = t * steps + k
                        s = i % slots
                        T.barrier_wait(empty[s], (i // slots + 1) % 2)
                        load(A, B, A_shared, B_shared, full, s, row * CLUSTER + rank, column, k)
                        if thread % 32 == 0:
                            T.barrier_arrive(full[s])

            for c in consumers:
                with T.ws(c):
                    T.set_max_nreg(240, 1)
                    C_local = T.alloc_fragment((height, block_N), "float32")
                    for t in T.serial(count):
                        row, column = place(cluster + t * clusters)
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
                            if k > 0 and thread % 32 < CLUSTER:
                                T.mbarrier_arrive(empty[(i - 1) % slots], cta_id=thread % 32)
                        T.wait_wgmma(0)
                        if thread % 32 < CLUSTER:
                            T.mbarrier_arrive(empty[(t * steps + steps - 1) % slots], cta_id=thread % 32)
                        for p in T.unroll(block_N // part):
                            T.tma_store_wait(1)
                            T.copy(C_local[:, p * part : (p + 1) * part], C_shared[c, p % 2, :, :])
                            T.tma_copy(
                                C_shared[c, p % 2, :, :],
                                C[(row * CLUSTER + rank) * block_M + c * height, column * block_N + p * part],
                            )
                    T.tma_store_wait(0)

    return main


def cases(kind, m=1000, n=1304, k=704, blocks=132):
    rng = np.random.default_rng(0)
    for transpose_B in (False, True):
        a = rng.standard_normal((m, k)).astype(np.float16)
        b = rng.standard_normal((n, k) if transpose_B else (k, n)).astype(np.float16)
        expected = a.astype(np.float64) @ (b.T if transpose_B else b).astype(np.float64)
        arguments = [a, b, harness.blank((m, n), "float16")]
        kernel = gemm.get_tir(m, n, k, transpose_B, blocks=blocks)
        name = f"{m} x {n} x {k}, B {'(N, K)' if transpose_B else '(K, N)'}"
        yield harness.Case(name, kernel, arguments, {2: expected}, 5e-4, True, chips=("sm_90a",))


if __name__ == "__main__":
    harness.main(__doc__, cases)
