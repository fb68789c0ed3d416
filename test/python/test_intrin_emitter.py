"""Gemm by matrix instructions that the kernel writes itself, with TensorCoreIntrinEmitter."""

import itertools

import ml_dtypes
import numpy as np
import pytest
import tilelang
import tilelang.language as T
from tilelang import CompileError
from tilelang.intrinsics import TensorCoreIntrinEmitter, get_swizzle_layout, mma_layout
from tilelang.layout import make_matrix_fragment
from tilelang.transform import simplify_prim_func

NUMPY = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "int8": np.int8, "float32": np.float32}


def make_swizzle_layout(shared_buf):
    dtype = shared_buf.dtype
    shape = shared_buf.shape
    can_swizzle = shape[-1] * T.dtype(dtype).bits == 512
    if not can_swizzle:
        return T.Layout(shape, lambda *args: args)

    def transform_func(i, j):
        new_warp_i, new_warp_j = get_swizzle_layout(i, j, shape[-1], dtype)
        return [new_warp_i, new_warp_j]

    return T.Layout(shape, transform_func)


@simplify_prim_func
def tl_matmul(M, N, K, in_dtype, out_dtype, accum_dtype, warps=(2, 2), warp_tile=(32, 32), chunk=32,
              num_stages=2):
    """As the published example writes it."""
    micro_size_x = micro_size_y = micro_size_k = 16
    if out_dtype == "int32":
        micro_size_k = 32
    block_row_warps, block_col_warps = warps
    warp_row_tiles, warp_col_tiles = warp_tile
    shared_scope = "shared.dyn"
    block_M = block_row_warps * warp_row_tiles
    block_N = block_col_warps * warp_col_tiles
    block_K = chunk

    A_shape = (M, K)
    B_shape = (N, K)
    A_shared_shape = (block_M, block_K)
    B_shared_shape = (block_N, block_K)
    C_shared_shape = (block_M // micro_size_x, block_N // micro_size_y, micro_size_x, micro_size_y)

    warp_size = 32
    threads = warp_size * (block_row_warps * block_col_warps)
    local_size_a = (micro_size_x * micro_size_k) // warp_size
    local_size_b = (micro_size_y * micro_size_k) // warp_size
    local_size_c = (micro_size_x * micro_size_y) // warp_size
    warp_rows = warp_row_tiles // micro_size_x
    warp_cols = warp_col_tiles // micro_size_y

    mma_emitter = TensorCoreIntrinEmitter(
        a_dtype=in_dtype,
        b_dtype=in_dtype,
        accum_dtype=accum_dtype,
        a_transposed=False,
        b_transposed=True,
        block_row_warps=block_row_warps,
        block_col_warps=block_col_warps,
        warp_row_tiles=warp_row_tiles,
        warp_col_tiles=warp_col_tiles,
        chunk=chunk,
    )

    @T.prim_func
    def gemm_intrinsics(
            A: T.Tensor(A_shape, in_dtype),
            B: T.Tensor(B_shape, in_dtype),
            C: T.Tensor((M, N), out_dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared(A_shared_shape, in_dtype, scope=shared_scope)
            B_shared = T.alloc_shared(B_shared_shape, in_dtype, scope=shared_scope)
            C_shared = T.alloc_shared(C_shared_shape, out_dtype, scope=shared_scope)
            A_local = T.alloc_local((warp_rows * local_size_a), in_dtype)
            B_local = T.alloc_local((warp_cols * local_size_b), in_dtype)
            C_local = T.alloc_local((warp_rows * warp_cols * local_size_c), accum_dtype)

            T.annotate_layout({
                A_shared: make_swizzle_layout(A_shared),
                B_shared: make_swizzle_layout(B_shared),
            })
            T.use_swizzle(panel_size=10)
            T.clear(C_local)

            for ko in T.Pipelined((K // block_K), num_stages=num_stages):
                for i, k in T.Parallel(block_M, block_K):
                    A_shared[i, k] = A[by * block_M + i, ko * block_K + k]
                for j, k in T.Parallel(block_N, block_K):
                    B_shared[j, k] = B[bx * block_N + j, ko * block_K + k]
                for ki in T.serial(0, (block_K // micro_size_k)):
                    mma_emitter.ldmatrix_a(A_local, A_shared, ki)
                    mma_emitter.ldmatrix_b(B_local, B_shared, ki)
                    mma_emitter.mma(A_local, B_local, C_local)

            mma_emitter.stmatrix(C_local, C_shared)
            for i, j in T.Parallel(block_M, block_N):
                C[by * block_M + i, bx * block_N + j] = C_shared[
                    i // micro_size_x,
                    j // micro_size_y,
                    i % micro_size_x,
                    j % micro_size_y,
                ]

    return gemm_intrinsics


def operands(M, N, K, dtype, seed=0):
    rng = np.random.default_rng(seed)
    if dtype == "int8":
        return [rng.integers(-128, 128, shape).astype(np.int8) for shape in ((M, K), (N, K))]
    return [rng.integers(-8, 9, shape).astype(NUMPY[dtype]) for shape in ((M, K), (N, K))]


def product(a, b):
    return a.astype(np.float64) @ b.astype(np.float64).T


@pytest.mark.parametrize("in_dtype,out_dtype,accum", [
    ("float16", "float32", "float32"), ("bfloat16", "float32", "float32"), ("int8", "int32", "int32"),
    ("float16", "float16", "float16")])  # fmt: skip
def test_the_published_example(in_dtype, out_dtype, accum):
    M, N, chunk = 128, 128, 64 if in_dtype == "int8" else 32
    K = 2 * chunk
    a, b = operands(M, N, K, in_dtype)
    c = np.zeros((M, N), out_dtype)
    matmul = tl_matmul(M, N, K, in_dtype, out_dtype, accum, chunk=chunk)
    report = tilelang.compile(matmul, target="sim:sm_80").simulate(a, b, c)
    assert not report.findings
    assert (c == product(a, b)).all()
    source = tilelang.compile(matmul, target="cuda -arch=sm_80").get_kernel_source()
    assert source.count("__syncthreads()") == 4  # one for all of stmatrix, before its loops
    loads = [c for c in report.counters if c.what == "ldmatrix_x4"]  # of tiles that are swizzled as annotated
    assert len(loads) == 2 and all(c.requests == c.least for c in loads)


@pytest.mark.parametrize("dtype", ["float16", "int8", "float32"])
@pytest.mark.parametrize("trans_a,trans_b", list(itertools.product([False, True], repeat=2)))
@pytest.mark.parametrize("warps,tile,m_first", [((2, 1), (16, 24), False), ((1, 2), (32, 16), True),
                                                ((2, 2), (16, 8), False)])
def test_transposes_and_shapes(dtype, trans_a, trans_b, warps, tile, m_first):
    accum = "int32" if dtype == "int8" else "float32"
    M, N, K = warps[0] * tile[0], warps[1] * tile[1], 64
    e = TensorCoreIntrinEmitter(dtype, dtype, accum, trans_a, trans_b, *warps, *tile, K, is_m_first=m_first)
    a_shape, b_shape = (K, M) if trans_a else (M, K), (N, K) if trans_b else (K, N)

    @T.prim_func
    def main(A: T.Tensor(a_shape, dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((2 * M, N), accum)):
        with T.Kernel(1, threads=e.threads):
            As = T.alloc_shared((2, *a_shape), dtype)
            Bs = T.alloc_shared(b_shape, dtype)
            Al = T.alloc_local((e.warp_rows * e.local_size_a,), dtype)
            Bl = T.alloc_local((e.warp_cols * e.local_size_b,), dtype)
            Cl = T.alloc_local((e.warp_rows * e.warp_cols * e.local_size_out,), accum)
            T.copy(A, As[1, :, :])
            T.copy(B, Bs)
            T.clear(Cl)
            for ki in T.serial(K // e.micro_size_k):
                e.ldmatrix_a(Al, As[1, :, :], ki)
                e.ldmatrix_b(Bl, Bs, ki)
                e.mma(Al, Bl, Cl)
            e.stmatrix(Cl, C, pid_m=1, pid_n=0)

    a, b = operands(M, N, K, dtype, seed=3)
    c = np.zeros((2 * M, N), accum)
    report = tilelang.compile(main, target="sim:sm_80").simulate(a.T.copy() if trans_a else a,
                                                                 b if trans_b else b.T.copy(), c)
    assert not report.findings
    assert (c[M:] == product(a, b)).all() and not c[:M].any()


@pytest.mark.parametrize("matrix,trans", [("A", False), ("B", True), ("B", False), ("C", False)])
def test_a_fragment_laid_out_for_it(matrix, trans):
    e = TensorCoreIntrinEmitter("float16", "float16", "float32", False, trans, 2, 2, 32, 16, 32)
    shape = {"A": (64, 32), "B": (32, 32), "C": (64, 32)}[matrix]

    @T.prim_func
    def main(X: T.Tensor(shape, "float16"), Y: T.Tensor(shape, "float16")):
        with T.Kernel(1, threads=e.threads):
            F = T.alloc_fragment(shape, "float16")
            wanted = e.make_mma_store_layout(F) if matrix == "C" else e.make_mma_load_layout(F, matrix)
            T.annotate_layout({F: wanted})
            T.copy(X, F)
            T.copy(F, Y)

    x, y = np.arange(shape[0] * shape[1]).reshape(shape).astype(np.float16), np.zeros(shape, np.float16)
    tilelang.compile(main, target="sim:sm_80")(x, y)
    assert (x == y).all()


@pytest.mark.parametrize("row,bits", [("mma_m16n8k16_f16_f32", 16), ("mma_m16n8k32_s8_s32", 8),
                                      ("mma_m16n8k8_tf32_f32", 32)])
def test_the_maps_are_those_of_the_instructions(row, bits):
    k = 256 // bits
    a, b, c = (make_matrix_fragment(row, x) for x in "abc")
    for i, j in itertools.product(range(16), range(k)):
        assert mma_layout.operand_place(bits, i, j) == tuple(a(i, j))
        assert mma_layout.operand_element(bits, *mma_layout.operand_place(bits, i, j)) == (i, j)
        if i < 8:
            assert mma_layout.operand_place(bits, i, j, True) == tuple(b(j, i))
        assert mma_layout.operand_element(bits, *mma_layout.operand_place(bits, i, j, True), True) == (i, j)
    for i, j in itertools.product(range(16), range(8)):
        assert mma_layout.sum_place(i, j) == tuple(c(i, j))
        assert mma_layout.sum_element(*mma_layout.sum_place(i, j)) == (i, j)


def test_what_it_refuses():
    with pytest.raises(CompileError, match="multiplies bfloat16 by bfloat16 into float16"):
        TensorCoreIntrinEmitter("bfloat16", "bfloat16", "float16")
    with pytest.raises(CompileError, match="warp_row_tiles is 8; it must be a multiple of 16"):
        TensorCoreIntrinEmitter("float16", "float16", "float32", warp_row_tiles=8)
    e = TensorCoreIntrinEmitter("float16", "float16", "float32")

    def kernel(scope, size):
        @T.prim_func
        def main(A: T.Tensor((32, 16), "float16")):
            with T.Kernel(1, threads=128):
                As = T.alloc_shared((32, 16), "float16")
                T.copy(A, As)
                Al = getattr(T, scope)((size,), "float16")
                e.ldmatrix_a(Al, As, 0)

        return main

    with pytest.raises(CompileError, match="an operand in registers is a T.alloc_local array"):
        kernel("alloc_fragment", 8)
    with pytest.raises(CompileError, match=r"Al is float16\[4\], but the warp's tiles are 8 float16"):
        kernel("alloc_local", 4)
    for target in ("cpu", "reference"):
        with pytest.raises(CompileError, match="thread-level code"):
            tilelang.compile(kernel("alloc_local", 8), target=target)
    e5 = TensorCoreIntrinEmitter("float8_e4m3fn", "float8_e4m3fn", "float32", chunk=32)

    @T.prim_func
    def fp8(A: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=128):
            Al = T.alloc_local((e5.local_size_a,), "float8_e4m3fn")
            Bl = T.alloc_local((e5.local_size_b,), "float8_e4m3fn")
            Cl = T.alloc_local((e5.local_size_out,), "float32")
            e5.mma(Al, Bl, Cl)

    with pytest.raises(CompileError, match="mma_m16n8k32_e4m3_f32 is no instruction of sm_80"):
        tilelang.compile(fp8, target="sim:sm_80")
