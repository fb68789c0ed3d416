"""Published tile operators and instructions by hand: im2col, ptx_mma."""

import math

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from tilelang import CompileError

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


def columns_of(img, kernels, strides, dilations, pads):
    """The matrix of an image of any number of dimensions, by indices."""
    n, *sizes, channels = img.shape
    padded = np.pad(img, [(0, 0), *((p, p) for p in pads), (0, 0)])
    outs = [(x + 2 * p - d * (k - 1) - 1) // s + 1
            for x, p, d, k, s in zip(sizes, pads, dilations, kernels, strides, strict=True)]  # fmt: skip
    rows = []
    for b, *at in np.ndindex(n, *outs):
        taps = [tuple(o * s + t * d for o, s, t, d in zip(at, strides, tap, dilations, strict=True))
                for tap in np.ndindex(*kernels)]  # fmt: skip
        rows.append(np.concatenate([padded[(b, *place)] for place in taps]))
    return np.array(rows).reshape(-1, math.prod(kernels) * channels)


@pytest.mark.parametrize("shape, kernel, stride, dilation, pad", [
    ((2, 11, 4), 3, 2, 2, 1),
    ((1, 9, 3), (4,), (1,), (1,), (3,)),
    ((1, 5, 6, 4), (3, 2), (2, 1), 1, (1, 0)),
    ((1, 4, 5, 3, 2), 2, 1, 1, 1),
    ((2, 5, 4, 6, 2), (3, 1, 2), (1, 2, 1), (1, 1, 2), (0, 0, 1)),
])  # fmt: skip
def test_im2col_along_any_dimensions(target, shape, kernel, stride, dilation, pad):
    count = len(shape) - 2
    each = [x if isinstance(x, tuple) else (x,) * count for x in (kernel, stride, dilation, pad)]
    img = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    wanted = columns_of(img, *each)
    (rows, columns), bm, bk = wanted.shape, 16, 8

    @T.prim_func
    def main(img: T.Tensor(shape, "float32"), out: T.Tensor((rows, columns), "float32")):
        with T.Kernel(T.ceildiv(rows, bm), T.ceildiv(columns, bk), threads=64) as (bx, by):
            col = T.alloc_shared((bm, bk), "float32")
            T.im2col(img, col, bx, by, kernel, stride, dilation, pad)
            T.copy(col, out[bx * bm, by * bk])

    out = np.full((rows, columns), np.nan, np.float32)
    tilelang.compile(main, target=target)(img, out)
    np.testing.assert_array_equal(out, wanted)


def test_im2col_of_expressions_of_constants(target):
    """Numbers that are values of the kernel, though constants."""

    @T.prim_func
    def main(img: T.Tensor((1, 6, 5, 4), "float32"), out: T.Tensor((9, 36), "float32")):
        with T.Kernel(1, threads=64):
            col = T.alloc_shared((16, 40), "float32")
            two = T.int32(2)
            T.im2col(img, col, 0, 0, two + 1, T.max(two, 1), np.int32(1), T.int32(3) - two)
            T.copy(col, out[0, 0])

    img, out = np.random.rand(1, 6, 5, 4).astype(np.float32), np.full((9, 36), np.nan, np.float32)
    tilelang.compile(main, target=target)(img, out)
    np.testing.assert_array_equal(out, columns_of(img, (3, 3), (2, 2), (1, 1), (1, 1)))


def test_what_im2col_refuses():
    with pytest.raises(
        CompileError, match=r"T\.im2col: dilation is a constant of at least 1, or one for each"
    ):
        gathered((1, 4, 4, 4), 3, 1, 0, 1, (16, 12))
    with pytest.raises(CompileError, match=r"T\.im2col: img is a buffer of 4 dimensions, but it has shape"):

        @T.prim_func
        def main(A: T.Tensor((4, 4), "float16")):
            with T.Kernel(1):
                col = T.alloc_shared((4, 4), "float16")
                T.im2col(A, col, 0, 0, 1, 1, 1, 0)


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
