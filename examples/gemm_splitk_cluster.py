"""C = A @ B for few rows of A: the sum over K is split among the blocks of a cluster, which add up through
distributed shared memory.

Each block multiplies its part of K. Then it sends every other block the rows of C that this one will finish,
straight into its shared memory; the bytes count at that block's barrier. The order of the sum is fixed, so
the result is the same in every run, and no partial sum goes through global memory.

Usage:
    python examples/gemm_splitk_cluster.py [--target auto|cuda|sim:sm_90] [--m M] [--n N] [--k K]
"""

import harness
import numpy as np
import tilelang
import tilelang.language as T

SMALL = {"m": 50, "n": 56, "k": 1000}
CHIPS = ("sm_90", "sm_90a", "sm_100", "sm_103", "sm_120", "sm_121")  # that have clusters


@tilelang.jit(out_idx=[-1])
def gemm(M, N, K, split=4, block_M=64, block_N=64, block_K=64, threads=128):
    if block_M % split:
        raise ValueError(f"block_M is {block_M}; each of {split} blocks finishes as many rows of the tile")
    rows = block_M // split  # that a block finishes
    part = -(-K // (split * block_K)) * block_K  # of K

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        grid = (T.ceildiv(N, block_N) * split, T.ceildiv(M, block_M))
        with T.Kernel(*grid, threads=threads, cluster_dims=split) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), "float16")
            B_shared = T.alloc_shared((block_K, block_N), "float16")
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            partial = T.alloc_shared((block_M, block_N), "float32")
            received = T.alloc_shared((split, rows, block_N), "float32")
            landed = T.alloc_cluster_barrier(1)
            rank, column = T.block_rank_in_cluster(), T.get_cluster_id() * block_N
            if T.get_thread_binding() == 0:
                T.mbarrier_arrive_expect_tx(landed, (split - 1) * rows * block_N * 4)

            T.clear(C_local)
            for k in T.Pipelined(part // block_K, num_stages=3):
                T.copy(A[by * block_M, rank * part + k * block_K], A_shared)
                T.copy(B[rank * part + k * block_K, column], B_shared)
                T.gemm(A_shared, B_shared, C_local)

            T.copy(C_local, partial)
            for r in T.unroll(split):
                if r != rank:
                    T.copy_cluster(
                        partial[r * rows : (r + 1) * rows, :],
                        received[rank, :, :],
                        dst_block=r,
                        remote_barrier=landed,
                    )
            T.copy(partial[rank * rows : (rank + 1) * rows, :], received[rank, :, :])
            T.barrier_wait(landed, 0)
            total = T.alloc_fragment((rows, block_N), "float32")
            T.clear(total)
            for s in T.serial(split):
                for i, j in T.Parallel(rows, block_N):
                    total[i, j] += received[s, i, j]
            T.copy(total, C[by * block_M + rank * rows, column])

    return main


def cases(kind, m=100, n=1000, k=4100):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n)))
    expected = a.astype(np.float64) @ b.astype(np.float64)
    kernel = gemm.get_tir(m, n, k)
    arguments = [a, b, harness.blank((m, n), "float16")]
    yield harness.Case(f"{m} x {n} x {k}", kernel, arguments, {2: expected}, 5e-4, True, chips=CHIPS)


if __name__ == "__main__":
    harness.main(__doc__, cases)
