"""C = A @ B in float16, written for all warps alike, and a schedule for Hopper: one warpgroup copies, two
multiply, with three slots of tiles between them.

The schedule names roles, the pipeline, and what each role does in which order; teams, barriers and phases are
made of it from sm_90 on (docs/hopper.md).  Everywhere else the program runs as it is written.
gemm_warpgroups.py places all that by hand.

Usage:
    python examples/gemm_schedule.py [--target auto|cpu|cuda|sim:sm_90a|reference] [--m M] [--n N] [--k K]
"""

import harness
import numpy as np
import tilelang
import tilelang.language as T

SMALL = {"m": 100, "n": 136, "k": 200}


def schedule(A_tile, B_tile, slots):
    """Warps 0 to 7 multiply, warps 8 to 11 copy."""
    copy = [T.WSSync.producer_acquire("tiles"), "copy", T.WSSync.producer_commit("tiles")]
    multiply = [T.WSSync.consumer_wait("tiles"), "multiply", T.WSSync.consumer_release("tiles")]
    return T.WSSchedule(
        num_warps=12,
        roles=[
            T.WSRole("consumer", warps_lo=0, warps_hi=8, max_nreg=240),
            T.WSRole("producer", warps_lo=8, warps_hi=12, max_nreg=24),
        ],
        pipelines=[T.WSPipeline("tiles", [A_tile, B_tile], depth=slots)],
        scopes=[
            T.WSScope(T.WSScope.ROOT, {"producer": ["steps"], "consumer": ["clear", "steps", "store"]}),
            T.WSScope("steps", {"producer": copy, "consumer": multiply}),
        ],
    )


@tilelang.jit(out_idx=[-1])
def gemm(M, N, K, block_M=128, block_N=128, block_K=64, slots=3):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=384) as (bx, by):
            A_tile = T.alloc_shared((block_M, block_K), "float16")
            B_tile = T.alloc_shared((block_K, block_N), "float16")
            C_tile = T.alloc_fragment((block_M, block_N), "float32")
            T.annotate_ws_schedule(schedule(A_tile, B_tile, slots))
            with T.ws_op("clear"):
                T.clear(C_tile)
            with T.ws_op("steps"):
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                    with T.ws_op("copy"):
                        T.copy(A[by * block_M, k * block_K], A_tile)
                        T.copy(B[k * block_K, bx * block_N], B_tile)
                    with T.ws_op("multiply"):
                        T.gemm(A_tile, B_tile, C_tile)
            with T.ws_op("store"):
                T.copy(C_tile, C[by * block_M, bx * block_N])

    return main


def cases(kind, m=200, n=264, k=328):
    rng = np.random.default_rng(0)
    for M, N, K in ((8, 8, 8), (m, n, k)):
        a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((M, K), (K, N)))
        arguments = [a, b, harness.blank((M, N), "float16")]
        expected = a.astype(np.float64) @ b.astype(np.float64)
        yield harness.Case(f"{M} x {N} x {K}", gemm.get_tir(M, N, K), arguments, {2: expected}, 5e-4)


if __name__ == "__main__":
    harness.main(__doc__, cases)
