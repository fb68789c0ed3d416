"""target="sim:CHIP": the GPU's program, executed without a GPU, against float64 and against the reference."""

import gemm_cases as cases
import numpy as np
import pytest
import tilelang
import tilelang.language as T

CHIPS = ["sim:sm_80", "sim:sm_90"]
TYPES = ["float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "int32", "uint32", "int64"]


# ── GEMM ──────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("target", CHIPS)
@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("trans_A", [False, True])
@pytest.mark.parametrize("trans_B", [False, True])
def test_gemm(trans_A, trans_B, dtype, target):
    for shape, tile, threads in [((17, 17, 17), (32, 32, 16), 32), ((100, 136, 72), (64, 64, 32), 128)]:
        a, b, c, expected = cases.random_operands(shape, dtype, trans_A, trans_B)
        cases.compile_gemm(shape, dtype, trans_A, trans_B, tile, threads, target)(a, b, c)
        assert cases.relative_error(c, expected) <= cases.bound(shape, dtype)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
def test_large_tiles(dtype):
    shape = (512, 384, 160)
    a, b, c, expected = cases.random_operands(shape, dtype, False, False)
    cases.compile_gemm(shape, dtype, tile=(128, 128, 64), target="sim:sm_80")(a, b, c)
    assert cases.relative_error(c, expected) <= cases.bound(shape, dtype)


# ── elementwise ───────────────────────────────────────────────────────────────────────────────────────
def elementwise(M, N, dtype, block_M=16, block_N=48):
    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_local = T.alloc_fragment((block_M, block_N), dtype)
            B_shared = T.alloc_shared((block_M, block_N), dtype)
            T.copy(A[by * block_M, bx * block_N], A_local)
            T.copy(B[by * block_M, bx * block_N], B_shared)
            for i, j in T.Parallel(block_M, block_N):
                A_local[i, j] = A_local[i, j] * B_shared[i, j] + B_shared[i, j]
            T.copy(A_local, C[by * block_M, bx * block_N])

    return main


def both(function, *arguments):
    """The last argument as the simulator and as the reference leave it, byte for byte."""
    results = []
    for target in ("sim:sm_80", "reference"):
        mine = [np.array(a) for a in arguments]
        tilelang.compile(function, target=target)(*mine)
        results.append(mine[-1].view(np.uint8))
    return results


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(64, 96), (50, 77)], ids=str)
def test_elementwise_equals_the_reference(shape, dtype):
    import ml_dtypes

    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 100, shape).astype(kind) for _ in range(2))
    if dtype.startswith(("float", "bfloat")):
        a, b = (rng.standard_normal(shape).astype(kind) for _ in range(2))
    sim, reference = both(elementwise(*shape, dtype), a, b, np.zeros(shape, kind))
    assert (sim == reference).all() and sim.any()
