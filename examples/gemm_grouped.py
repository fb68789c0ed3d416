"""One GEMM for each group of rows, C[rows of g] = A[rows of g] @ B[g]: a mixture's experts, in one launch.

    python examples/gemm_grouped.py [--target auto|cpu|cuda|sim:CHIP|reference] [--groups G] [--longest M]
                                    [--n N] [--k K]

The rows of a group lie together: group g has the rows offsets[g] to offsets[g + 1].  How many there are is
known only when the kernel is called; groups may be empty.
"""

import harness
import numpy as np
import tilelang
import tilelang.language as T

TILES = {"cpu": (64, 128, 256, 1), "gpu": (64, 128, 64, 128), "reference": (64, 64, 64, 1)}
SMALL = {"groups": 3, "longest": 40, "n": 50, "k": 200}


@tilelang.jit(out_idx=[-1])
def gemm_grouped(groups, N, K, block_M, block_N, block_K, threads, dtype="float16"):
    rows = T.dynamic("rows")

    @T.prim_func
    def main(
        A: T.Tensor((rows, K), dtype),
        B: T.Tensor((groups, K, N), dtype),
        offsets: T.Tensor((groups + 1,), "int32"),
        longest: T.int32,  # of the groups, in rows
        C: T.Tensor((rows, N), dtype),
    ):
        grid = T.ceildiv(N, block_N), T.ceildiv(longest, block_M), groups
        with T.Kernel(*grid, threads=threads) as (bx, by, g):
            A_tile = T.alloc_shared((block_M, block_K), dtype)
            B_tile = T.alloc_shared((block_K, block_N), dtype)
            C_tile = T.alloc_fragment((block_M, block_N), "float32")
            first, end = offsets[g] + by * block_M, offsets[g + 1]
            if first < end:
                T.clear(C_tile)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                    T.copy(A[first, k * block_K], A_tile)  # some rows may be the next group's: not stored
                    T.copy(B[g, k * block_K, bx * block_N], B_tile)
                    T.gemm(A_tile, B_tile, C_tile)
                for i, j in T.Parallel(block_M, block_N):
                    if first + i < end:
                        C[first + i, bx * block_N + j] = C_tile[i, j]

    return main


def cases(kind, groups=8, longest=200, n=300, k=500):
    kernel, rng = gemm_grouped.get_tir(groups, n, k, *TILES[kind]), np.random.default_rng(0)
    b = rng.standard_normal((groups, k, n)).astype(np.float16)
    for empty in (0, groups - 1):  # one kernel for any sizes
        sizes = rng.integers(1, longest + 1, groups)
        sizes[empty] = 0
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        a = rng.standard_normal((offsets[-1], k)).astype(np.float16)
        parts = np.split(a.astype(np.float64), offsets[1:-1])
        expected = np.concatenate([part @ w for part, w in zip(parts, b.astype(np.float64), strict=True)])
        arguments = [a, b, offsets, int(sizes.max()), harness.blank(expected.shape, "float16")]
        yield harness.Case(f"{n} x {k}, groups of {sizes.tolist()}", kernel, arguments, {4: expected}, 5e-4)


if __name__ == "__main__":
    harness.main(__doc__, cases)
