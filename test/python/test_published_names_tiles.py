"""Published tile operators and instructions by hand: im2col, gemm_sp, ptx_mma."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from tilelang import CompileError
from tilelang.cuda.intrinsics.sparse_layout import GROUP_CONFIG, get_e_factor, get_e_replicate_factor
from tilelang.layout import make_cutlass_metadata_layout
from tilelang.utils.sparse import compress

# ── im2col ────────────────────────────────────────────────────────────────────────────────────────────


def gathered(shape, kernel, stride, dilation, pad, tile, dtype="float16", name="im2col"):
    """The whole matrix of T.im2col, tile by tile."""
    n, h, w, c = shape
    out_h, out_w = ((x + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1 for x in (h, w))
    rows, columns = n * out_h * out_w, kernel * kernel * c
    bm, bk = tile
    op = getattr(T, name)

    @T.prim_func
    def main(img: T.Tensor(shape, dtype), out: T.Tensor((rows, columns), dtype)):
        with T.Kernel(T.ceildiv(rows, bm), T.ceildiv(columns, bk), threads=64) as (bx, by):
            col = T.alloc_shared((bm, bk), dtype)
            op(img, col, bx, by, kernel, stride, dilation, pad)
            T.copy(col, out[bx * bm, by * bk])

    return main, (rows, columns)


def unfolded(img, kernel, stride, dilation, pad):
    """The same by PyTorch, whose columns have the channels outermost."""
    torch = pytest.importorskip("torch")

    n, h, w, c = img.shape
    x = torch.from_numpy(img.astype(np.float32)).permute(0, 3, 1, 2)
    columns = torch.nn.functional.unfold(x, kernel, dilation=dilation, padding=pad, stride=stride)
    columns = columns.reshape(n, c, kernel * kernel, -1).permute(0, 3, 2, 1)
    return columns.reshape(-1, kernel * kernel * c).numpy()


@pytest.mark.parametrize("shape,kernel,stride,dilation,pad,tile", [
    ((2, 6, 5, 8), 3, 1, 1, 1, (16, 24)),
    ((1, 9, 7, 4), 3, 2, 2, 2, (8, 16)),    # neither extent divides
    ((2, 5, 5, 16), 1, 1, 1, 0, (16, 16)),
])  # fmt: skip
def test_im2col_is_unfold(target, shape, kernel, stride, dilation, pad, tile):
    main, size = gathered(shape, kernel, stride, dilation, pad, tile)
    img = np.random.default_rng(1).integers(1, 100, shape).astype(np.float16)
    out = np.full(size, 7, np.float16)
    tilelang.compile(main, target=target)(img, out)
    assert (out == unfolded(img, kernel, stride, dilation, pad)).all()


def test_c2d_im2col_is_im2col():
    main, size = gathered((1, 4, 4, 4), 3, 1, 1, 1, (16, 12), name="c2d_im2col")
    img, out = np.ones((1, 4, 4, 4), np.float16), np.zeros(size, np.float16)
    tilelang.compile(main, target="reference")(img, out)
    assert (out == unfolded(img, 3, 1, 1, 1)).all()


def test_a_convolution():
    torch = pytest.importorskip("torch")

    n, h, w, c, f, k, s, d, p = 1, 8, 8, 16, 32, 3, 1, 1, 1
    bm, bn, bk = 32, 32, 16

    @T.prim_func
    def main(
        img: T.Tensor((n, h, w, c), "float16"),
        weight: T.Tensor((k * k * c, f), "float16"),
        out: T.Tensor((n * h * w, f), "float32"),
    ):
        with T.Kernel(T.ceildiv(f, bn), T.ceildiv(n * h * w, bm), threads=64) as (bx, by):
            col = T.alloc_shared((bm, bk), "float16")
            tile = T.alloc_shared((bk, bn), "float16")
            sums = T.alloc_fragment((bm, bn), "float32")
            T.clear(sums)
            for step in T.Pipelined(T.ceildiv(k * k * c, bk), num_stages=2):
                T.im2col(img, col, by, step, k, s, d, p)
                T.copy(weight[step * bk, bx * bn], tile)
                T.gemm(col, tile, sums)
            T.copy(sums, out[by * bm, bx * bn])

    rng = np.random.default_rng(0)
    img, weight = (rng.integers(-3, 4, x).astype(np.float16) for x in ((n, h, w, c), (k, k, c, f)))
    out = np.zeros((n * h * w, f), np.float32)
    tilelang.compile(main, target="sim:sm_80")(img, weight.reshape(-1, f), out)
    x = torch.from_numpy(img).float().permute(0, 3, 1, 2)
    y = torch.from_numpy(weight).float().permute(3, 2, 0, 1)
    wanted = torch.nn.functional.conv2d(x, y, stride=s, dilation=d, padding=p).permute(0, 2, 3, 1)
    assert (out == wanted.reshape(-1, f).numpy()).all()


def test_what_im2col_refuses():
    with pytest.raises(CompileError, match=r"T\.im2col: kernel, stride and dilation are positive"):
        gathered((1, 4, 4, 4), 3, 1, 0, 1, (16, 12))
    with pytest.raises(CompileError, match=r"T\.im2col: img is a buffer of 4 dimensions, but it has shape"):

        @T.prim_func
        def main(A: T.Tensor((4, 4), "float16")):
            with T.Kernel(1):
                col = T.alloc_shared((4, 4), "float16")
                T.im2col(A, col, 0, 0, 1, 1, 1, 0)


# ── gemm_sp ───────────────────────────────────────────────────────────────────────────────────────────


def sparse(m, k, dtype, rng):
    """A matrix with as many zeros as the dtype's groups have, and rows where there are more."""
    kept, of = GROUP_CONFIG[dtype]
    dense = rng.integers(1, 8, (m, k)).astype(dtype)
    scores = rng.random((m, k // of, of)).argsort(-1).argsort(-1)
    dense[(scores >= kept).reshape(m, k)] = 0
    dense[: m // 4, : k // 2] = 0
    return dense


@pytest.mark.parametrize("dtype,meta,accum,ta,te,tb", [
    ("float16", "int16", "float32", False, False, False), ("float16", "uint8", "float32", True, True, True),
    ("int8", "int32", "int32", False, False, True), ("float32", "int16", "float32", False, True, False),
    ("float16", "int32", "float32", False, False, False),
])  # fmt: skip
def test_gemm_sp_is_the_product(target, dtype, meta, accum, ta, te, tb):
    m, n, k, bk = 32, 32, 128, 64
    kept, of = GROUP_CONFIG[dtype]
    e = get_e_factor(dtype, meta)
    a_shape, e_shape, b_shape = (m, bk * kept // of), (m, bk // e), (bk, n)

    @T.prim_func
    def main(
        A: T.Tensor((m, k * kept // of)[:: -1 if ta else 1], dtype),
        E: T.Tensor((m, k // e)[:: -1 if te else 1], meta),
        B: T.Tensor((n, k) if tb else (k, n), dtype),
        C: T.Tensor((m, n), accum),
    ):
        with T.Kernel(1, threads=64):
            As = T.alloc_shared(a_shape[::-1] if ta else a_shape, dtype)
            Es = T.alloc_shared(e_shape[::-1] if te else e_shape, meta)
            Bs = T.alloc_shared(b_shape[::-1] if tb else b_shape, dtype)
            Cf = T.alloc_fragment((m, n), accum)
            T.annotate_layout({Es: make_cutlass_metadata_layout(Es, mma_dtype=dtype, arch="8.0")})
            T.clear(Cf)
            for step in T.Pipelined(k // bk, num_stages=2):
                T.copy(A[step * a_shape[1], 0] if ta else A[0, step * a_shape[1]], As)
                T.copy(E[step * e_shape[1], 0] if te else E[0, step * e_shape[1]], Es)
                T.copy(B[0, step * bk] if tb else B[step * bk, 0], Bs)
                T.gemm_sp(As, Es, Bs, Cf, ta, te, tb, policy=T.GemmWarpPolicy.FullRow, wg_wait=0)
            T.copy(Cf, C)

    rng = np.random.default_rng(5)
    dense, b = sparse(m, k, dtype, rng), rng.integers(-3, 4, (k, n)).astype(dtype)
    kept_only, metadata = compress(dense, meta_dtype=meta)
    assert kept_only.shape == (m, k * kept // of) and metadata.shape == (m, k // e)
    c = np.zeros((m, n), accum)
    tilelang.compile(main, target=target)(
        *[
            np.ascontiguousarray(x.T if turned else x)
            for x, turned in ((kept_only, ta), (metadata, te), (b, tb))
        ],
        c,
    )
    assert (c == dense.astype(np.float64) @ b.astype(np.float64)).all()


def test_the_bits_of_metadata():
    row = np.array([[0, 5, 0, 6, 1, 2, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0]], np.float16)
    values, meta = compress(row)
    # places 1, 3 | 0, 1 | 0, 3 (a zero is kept beside the 3) | 0, 1
    assert values.tolist() == [[5, 6, 1, 2, 0, 3, 0, 0]]
    assert meta.dtype == np.int16 and int(meta.view(np.uint16)[0, 0]) == 0b0100_1100_0100_1101
    assert compress(row.T.copy(), transposed=True)[1].shape == (1, 1)
    halves = compress(np.array([[0, 9, 8, 0, 0, 0, 0, 7]], np.float32))[1]
    assert int(halves.view(np.uint16)[0, 0]) == 0b1110_0100_0100_1110
    assert (get_e_factor("float16", "int16"), get_e_factor(T.float32, "uint8")) == (16, 4)
    assert get_e_factor("int8", "int32") == 32
    assert [get_e_replicate_factor(t) for t in ("float16", "float32", "int8")] == [2, 2, 1]


def test_compress_takes_tensors():
    torch = pytest.importorskip("torch")

    dense = sparse(16, 32, "float16", np.random.default_rng(2))
    values, meta = compress(torch.from_numpy(dense))
    wanted = compress(dense)
    assert values.dtype == torch.float16
    assert (values.numpy() == wanted[0]).all() and (meta.numpy() == wanted[1]).all()


def test_what_is_not_sparse_is_refused():
    with pytest.raises(CompileError, match="row 1 has more than 2 elements .* among the 4 from 4 on"):
        dense = np.zeros((2, 16), np.float16)
        dense[1, 4:7] = 1
        compress(dense)
    with pytest.raises(CompileError, match="k is 8, but an element of int16 describes 16"):
        compress(np.zeros((2, 8), np.float16))
    with pytest.raises(CompileError, match=r"a sparse operand is of float16, .*, not of float64"):
        get_e_factor("float64", "int16")
    with pytest.raises(CompileError, match=r"T\.gemm_sp: A has 32 elements along k, so E must be \(16, 2\)"):

        @T.prim_func
        def main(C: T.Tensor((16, 16), "float32")):
            with T.Kernel(1, threads=32):
                A, E = T.alloc_shared((16, 16), "float16"), T.alloc_shared((16, 4), "int16")
                B, F = T.alloc_shared((32, 16), "float16"), T.alloc_fragment((16, 16), "float32")
                T.gemm_sp(A, E, B, F)


# ── instructions by hand ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("pointers", [False, True])
def test_ptx_mma_by_hand(pointers):
    @T.prim_func
    def main(
        A: T.Tensor((16, 16), "float16"), B: T.Tensor((16, 16), "float16"), C: T.Tensor((16, 16), "float32")
    ):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            As, Bs = T.alloc_shared((16, 16), "float16"), T.alloc_shared((16, 16), "float16")
            a, b = T.alloc_local((8,), "float16"), T.alloc_local((8,), "float16")
            c = T.alloc_local((8,), "float32")
            T.copy(A, As)
            T.copy(B, Bs)
            T.mma_fill("float32", 8, c.data if pointers else c, 0)
            T.ptx_ldmatrix(False, 4, T.access_ptr(As[tx % 16, tx // 16 * 8]), T.access_ptr(a, "w"))
            T.ptx_ldmatrix(
                False, 4, T.access_ptr(Bs[tx // 16 * 8 + tx % 8, tx // 8 % 2 * 8]), T.access_ptr(b, "w")
            )
            for half in T.unroll(2):
                T.ptx_mma(
                    "float32",
                    "m16n8k16",
                    "row",
                    "col",
                    "fp16",
                    "fp16",
                    "fp32",
                    a.data if pointers else a,
                    0,
                    b.data if pointers else b,
                    half * 4,
                    c.data if pointers else c,
                    half * 4,
                    False,
                )
            T.mma_store("float32", 16, 16, T.access_ptr(C, "w"), c, 0, 16)

    rng = np.random.default_rng(3)
    a, b = (rng.integers(-4, 5, (16, 16)).astype(np.float16) for _ in range(2))
    c = np.zeros((16, 16), np.float32)
    report = tilelang.compile(main, target="sim:sm_80").simulate(a, b, c)
    assert not report.findings
    assert (c == a.astype(np.float32) @ b.T.astype(np.float32)).all()
    assert "mma.sync" in tilelang.compile(main, target="cuda -arch=sm_80").get_kernel_source()


@pytest.mark.parametrize("line,text", [
    ("T.ptx_mma('float32', 'm16n8k9', 'row', 'col', 'fp16', 'fp16', 'fp32', a, 0, a, 0, a, 0, False)",
     "there is no instruction mma_m16n8k9_f16_f32; there are mma_m16n8k16_f16_f32"),
    ("T.ptx_mma('float32', 'm16n8k16', 'col', 'col', 'fp16', 'fp16', 'fp32', a, 0, a, 0, a, 0, False)",
     "A_layout is 'row'"),
    ("T.ptx_ldmatrix(False, 3, T.access_ptr(S), T.access_ptr(a, 'w'))", "num is 1, 2 or 4, not 3"),
    ("T.ptx_ldmatrix(False, 4, T.access_ptr(a), T.access_ptr(a, 'w'))", "src_access_ptr is T.access_ptr"),
    ("T.mma_store('float32', 8, 8, T.access_ptr(S), a, 0, 16)", "it stores 16 × 16 elements"),
    ("T.mma_fill('float32', 8, S, 0)", r"an operand in registers is a T\.alloc_local array"),
])  # fmt: skip
def test_what_the_instructions_refuse(tmp_path, line, text):
    from helpers import kernel

    body = f"S = T.alloc_shared((16, 16), 'float16')\na = T.alloc_local((8,), 'float16')\n{line}\n"
    with pytest.raises(CompileError, match=text):
        kernel(tmp_path, body)
