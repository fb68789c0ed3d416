"""The GEMM that every target must get right: one kernel, its shapes, its error bounds."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import tilelang
import tilelang.language as T

SHAPES = [(1, 1, 1), (17, 17, 17), (100, 100, 100), (1024, 1024, 1024), (1000, 1300, 700)]
# name: element type of A and B, of C's accumulator, of C; the tile that suits it
DTYPES = {
    "f32": ("float32", "float32", "float32"),
    "i8": ("int8", "int32", "int32"),
    "f16": ("float16", "float32", "float32"),
    "bf16": ("bfloat16", "float32", "float32"),
    "f16_f16": ("float16", "float32", "float16"),
    "bf16_bf16": ("bfloat16", "float32", "bfloat16"),
}
NUMPY = {
    "float32": np.float32,
    "int8": np.int8,
    "int32": np.int32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
}


@tilelang.jit(out_idx=None)
def gemm(M, N, K, trans_A, trans_B, dtypes, block_M, block_N, block_K, threads, target, panel=0, order="row"):
    in_dtype, accum_dtype, out_dtype = dtypes

    @T.prim_func
    def main(
        A: T.Tensor((K, M) if trans_A else (M, K), in_dtype),
        B: T.Tensor((N, K) if trans_B else (K, N), in_dtype),
        C: T.Tensor((M, N), out_dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_K, block_M) if trans_A else (block_M, block_K), in_dtype)
            B_shared = T.alloc_shared((block_N, block_K) if trans_B else (block_K, block_N), in_dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.use_swizzle(panel, order, enable=panel > 0)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                if trans_A:
                    T.copy(A[k * block_K, by * block_M], A_shared)
                else:
                    T.copy(A[by * block_M, k * block_K], A_shared)
                if trans_B:
                    T.copy(B[bx * block_N, k * block_K], B_shared)
                else:
                    T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_A=trans_A, transpose_B=trans_B)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def compile_gemm(
    shape,
    dtype,
    trans_A=False,
    trans_B=False,
    tile=(64, 64, 32),
    threads=128,
    target="reference",
    panel=0,
    order="row",
):
    M, N, K = shape
    factory = tilelang.jit(gemm.func, target=target, out_idx=None)
    return factory(M, N, K, trans_A, trans_B, DTYPES[dtype], *tile, threads, target, panel, order)


def random_operands(shape, dtype, trans_A, trans_B, seed=0):
    """A and B as the kernel takes them, C poisoned, and the float64 (or exact) product."""
    M, N, K = shape
    rng = np.random.default_rng(seed)
    in_type, out_type = NUMPY[DTYPES[dtype][0]], NUMPY[DTYPES[dtype][2]]

    def draw(rows, cols):
        if in_type is np.int8:
            return rng.integers(-128, 128, (rows, cols)).astype(np.int8)
        return rng.standard_normal((rows, cols)).astype(np.float32).astype(in_type)

    a = draw(K, M) if trans_A else draw(M, K)
    b = draw(N, K) if trans_B else draw(K, N)
    exact = np.float64  # sums of i8 products stay far below 2**53
    reference = (a.T if trans_A else a).astype(exact) @ (b.T if trans_B else b).astype(exact)
    poison = -123456789 if out_type is np.int32 else np.nan
    return a, b, np.full((M, N), poison, dtype=out_type), reference


def relative_error(c, reference):
    difference = np.asarray(c).astype(np.float64) - reference
    if not np.all(np.isfinite(difference)):
        return math.inf
    return float(np.linalg.norm(difference) / np.linalg.norm(reference))


def bound(shape, dtype):
    """The largest error accepted: 0 for integers, 1e-6·√K for f32, one rounding for 16-bit results."""
    out = DTYPES[dtype][2]
    return {"int32": 0.0, "float16": 5e-4, "bfloat16": 4e-3}.get(out, 1e-6 * math.sqrt(shape[2]))


@tilelang.jit(out_idx=None)
def chain(M, K, N, P, block_M, threads, policy, target):
    """D = cast(A · B) · C, the product of the first gemm being the A of the second, in registers."""

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((K, N), "float16"),
        C: T.Tensor((N, P), "float16"),
        D: T.Tensor((M, P), "float32"),
    ):
        with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bx:
            A_shared = T.alloc_shared((block_M, K), "float16")
            B_shared = T.alloc_shared((K, N), "float16")
            C_shared = T.alloc_shared((N, P), "float16")
            S = T.alloc_fragment((block_M, N), "float32")
            S_cast = T.alloc_fragment((block_M, N), "float16")
            D_local = T.alloc_fragment((block_M, P), "float32")
            T.copy(A[bx * block_M, 0], A_shared)
            T.copy(B, B_shared)
            T.copy(C, C_shared)
            T.clear(D_local)
            T.gemm(A_shared, B_shared, S, clear_accum=True, policy=policy)
            T.copy(S, S_cast)
            T.gemm(S_cast, C_shared, D_local, policy=policy)
            T.copy(D_local, D[bx * block_M, 0])

    return main


@tilelang.jit(out_idx=None)
def operands(trans_A, trans_B, threads, target):
    """C's right half += op(a part of A) · op(B), A and B in fragments, C a part of one; all 64 × 64."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float16"),
        B: T.Tensor((64, 32), "float16") if not trans_B else T.Tensor((32, 64), "float16"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=threads):
            A_local = T.alloc_fragment((64, 64), "float16")
            B_local = T.alloc_fragment(B.shape, "float16")
            C_local = T.alloc_fragment((64, 64), "float32")
            T.copy(A, A_local)
            T.copy(B, B_local)
            T.clear(C_local)
            T.gemm(A_local, B_local, C_local[:, 32:64], transpose_A=trans_A, transpose_B=trans_B)
            T.gemm(A_local, A_local, C_local, transpose_A=trans_A)
            T.copy(C_local, C)

    return main


# M, K, N, P, block_M, threads, policy
CHAINS = [
    (128, 64, 64, 128, 64, 128, "full_row"),
    (100, 64, 128, 64, 64, 128, "full_row"),
    (128, 24, 40, 72, 64, 128, "full_row"),  # a rest of k in both
    (64, 64, 64, 64, 64, 256, "full_row"),  # A replicated over two columns of warps
    (64, 64, 64, 64, 64, 128, "square"),  # A through shared memory
    (80, 16, 48, 40, 80, 64, "full_row"),  # warps that do not divide the tile
    (96, 32, 24, 16, 48, 96, "full_col"),
]


def run_chain(case, target, on_device=lambda x: x, to_host=np.asarray):
    """The relative error of `chain` against float64, the intermediate rounded as the kernel rounds it."""
    M, K, N, P, block_M, threads, policy = case
    policy = {"full_row": T.GemmWarpPolicy.FullRow, "full_col": T.GemmWarpPolicy.FullCol}.get(
        policy, T.GemmWarpPolicy.Square
    )
    rng = np.random.default_rng(1)
    a, b, c = (rng.standard_normal(s).astype(np.float16) for s in ((M, K), (K, N), (N, P)))
    factory = tilelang.jit(chain.func, target=target, out_idx=None)
    kernel = factory(M, K, N, P, block_M, threads, policy, target)
    d = on_device(np.full((M, P), np.nan, dtype=np.float32))
    kernel(on_device(a), on_device(b), on_device(c), d)
    middle = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float16)
    return relative_error(to_host(d), middle.astype(np.float64) @ c.astype(np.float64))


def run_operands(trans_A, trans_B, threads, target, on_device=lambda x: x, to_host=np.asarray):
    rng = np.random.default_rng(2)
    a = rng.standard_normal((64, 64)).astype(np.float16)
    b = rng.standard_normal((32, 64) if trans_B else (64, 32)).astype(np.float16)
    kernel = tilelang.jit(operands.func, target=target, out_idx=None)(trans_A, trans_B, threads, target)
    c = on_device(np.full((64, 64), np.nan, dtype=np.float32))
    kernel(on_device(a), on_device(b), c)
    x, y = a.astype(np.float64), b.astype(np.float64)
    x, y, z = x.T if trans_A else x, y.T if trans_B else y, x
    reference = x @ z
    reference[:, 32:] += x @ y
    return relative_error(to_host(c), reference)
