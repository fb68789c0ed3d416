"""A matrix instruction that the compiler does not know, told to T.gemm: int8 × int8 -> int32, exact.

Usage:
    python examples/register_mma_s8.py [--target auto|cuda|sim:sm_80|cpu|reference]
"""

import harness
import numpy as np
import tilelang
import tilelang.language as T

SMALL = {"m": 100, "n": 70, "k": 192}


def register():
    # Lane 4g + q holds the rows (of B, the column) g and g + 8, and along k the four bytes from 4q.
    return tilelang.register_matrix(
        (16, 8, 16), ("int8", "int8", "int32"),
        a=T.Fragment((16, 16), lambda i, k: (i % 8 * 4 + k // 4, k % 4 + i // 8 * 4)),
        b=T.Fragment((16, 8), lambda k, j: (j * 4 + k // 4, k % 4)),
        c=T.Fragment((16, 8), lambda i, j: (i % 8 * 4 + j // 2, j % 2 + i // 8 * 2)),
        ptx="mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32",
        eval=lambda A, B, C: A.astype(np.int32) @ B.astype(np.int32) + C,
    )  # fmt: skip


@tilelang.jit(out_idx=[-1])
def gemm_s8(M, N, K):
    @T.prim_func
    def main(A: T.Tensor((M, K), "int8"), B: T.Tensor((N, K), "int8"), C: T.Tensor((M, N), "int32")):
        with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
            A_s, B_s = T.alloc_shared((64, 64), "int8"), T.alloc_shared((64, 64), "int8")
            C_l = T.alloc_fragment((64, 64), "int32")
            T.clear(C_l)
            for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
                T.copy(A[by * 64, k * 64], A_s)
                T.copy(B[bx * 64, k * 64], B_s)
                T.gemm(A_s, B_s, C_l, transpose_B=True)
            T.copy(C_l, C[by * 64, bx * 64])

    return main


def cases(kind, m=256, n=320, k=192):
    name = register()  # T.gemm prefers it in kernels compiled from here on
    a, b = (np.random.default_rng(0).integers(-128, 128, (rows, k), dtype=np.int8) for rows in (m, n))
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    arguments = [a, b, harness.blank((m, n), "int32")]
    yield harness.Case(f"with {name}, {m} x {n} x {k}", gemm_s8.get_tir(m, n, k), arguments, {2: expected}, 0)
    tilelang.unregister_matrix(name)


if __name__ == "__main__":
    harness.main(__doc__, cases)
