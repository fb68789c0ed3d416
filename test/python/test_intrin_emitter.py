"""Gemm by matrix instructions that the kernel writes itself, with TensorCoreIntrinEmitter."""

import itertools

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from emitter_gemm import DTYPES, operands, product, tl_matmul
from tilelang import CompileError
from tilelang.intrinsics import INT4TensorCoreIntrinEmitter, TensorCoreIntrinEmitter, mma_layout
from tilelang.layout import make_matrix_fragment


@pytest.mark.parametrize("in_dtype,out_dtype,accum", DTYPES)
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
@pytest.mark.parametrize(
    "warps,tile,m_first", [((2, 1), (16, 24), False), ((1, 2), (32, 16), True), ((2, 2), (16, 8), False)]
)
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
    report = tilelang.compile(main, target="sim:sm_80").simulate(
        a.T.copy() if trans_a else a, b if trans_b else b.T.copy(), c
    )
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


@pytest.mark.parametrize(
    "row,bits", [("mma_m16n8k16_f16_f32", 16), ("mma_m16n8k32_s8_s32", 8), ("mma_m16n8k8_tf32_f32", 32)]
)
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
    e = TensorCoreIntrinEmitter("float16", "float16", "float32", warp_row_tiles=16, warp_col_tiles=16)

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
    e5 = TensorCoreIntrinEmitter("float8_e4m3fn", "float8_e4m3fn", "float32", False, False, 2, 2, 16, 16, 32)

    @T.prim_func
    def fp8(A: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=128):
            Al = T.alloc_local((e5.local_size_a,), "float8_e4m3fn")
            Bl = T.alloc_local((e5.local_size_b,), "float8_e4m3fn")
            Cl = T.alloc_local((e5.local_size_out,), "float32")
            e5.mma(Al, Bl, Cl)

    with pytest.raises(CompileError, match="mma_m16n8k32_e4m3_f32 is not an instruction of sm_80"):
        tilelang.compile(fp8, target="sim:sm_80")


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("by_atom", [False, True], ids=["mma", "mma_atom"])
def test_two_integers_in_a_byte(dtype, by_atom):
    """INT4TensorCoreIntrinEmitter: each byte of A and B is two neighbours along k, the lower one first."""
    M, N, K = 32, 32, 256
    e = INT4TensorCoreIntrinEmitter(
        dtype, dtype, "int32", False, True, block_row_warps=1, block_col_warps=1, warp_row_tiles=M,
        warp_col_tiles=N, chunk=K // 2,
    )  # fmt: skip

    @T.prim_func
    def main(A: T.Tensor((M, K // 2), dtype), B: T.Tensor((N, K // 2), dtype), C: T.Tensor((M, N), "int32")):
        with T.Kernel(1, threads=e.threads):
            As, Bs = T.alloc_shared((M, K // 2), dtype), T.alloc_shared((N, K // 2), dtype)
            Al = T.alloc_local((e.warp_rows * e.local_size_a,), dtype)
            Bl = T.alloc_local((e.warp_cols * e.local_size_b,), dtype)
            Cl = T.alloc_local((e.warp_rows * e.warp_cols * e.local_size_out,), "int32")
            T.copy(A, As)
            T.copy(B, Bs)
            T.clear(Cl)
            for ki in T.serial(K // 2 // e.micro_size_k):
                e.ldmatrix_a(Al, As, ki)
                e.ldmatrix_b(Bl, Bs, ki)
                if by_atom:
                    for i, j in T.grid(e.mma_num_inst_m, e.mma_num_inst_n):
                        e.mma_atom(Al, Bl, Cl, i, j)
                else:
                    e.mma(Al, Bl, Cl)
            e.stmatrix(Cl, C, pid_m=0, pid_n=0)

    low = -8 if dtype == "int8" else 0
    rng = np.random.default_rng(0)
    a, b = (rng.integers(low, low + 16, (n, K)) for n in (M, N))
    packed = [((x[:, ::2] & 15) | (x[:, 1::2] & 15) << 4).astype(np.uint8).view(dtype) for x in (a, b)]
    c = np.full((M, N), -1, np.int32)
    tilelang.compile(main, target="sim:sm_80")(*packed, c)
    assert np.array_equal(c, a @ b.T)
    tilelang.compile(main, target="cuda -arch=sm_80")


def test_what_two_integers_in_a_byte_are():
    with pytest.raises(CompileError, match="A is float16 and B is float16; both must be int8, of two int4"):
        INT4TensorCoreIntrinEmitter("float16", "float16", "float32")


def test_module_paths_of_the_emitters():
    from tilelang.cuda.intrinsics.macro.mma_macro_generator import INT4TensorCoreIntrinEmitter as int4
    from tilelang.cuda.intrinsics.macro.wgmma_macro_generator import TensorCoreIntrinEmitter as wgmma
    from tilelang.cuda.intrinsics.macro.wgmma_macro_generator import WGMMADescriptorParams as params
    from tilelang.cuda.intrinsics.macro.wgmma_macro_generator import compute_gmma_descriptor as constants

    assert int4 is INT4TensorCoreIntrinEmitter and wgmma is T.WGMMATensorCoreIntrinEmitter
    assert params is T.WGMMADescriptorParams and constants is T.compute_gmma_descriptor
