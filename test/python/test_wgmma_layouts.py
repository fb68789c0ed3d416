"""T.compute_gmma_descriptor: the constants of a descriptor from how the tile lies."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import failure
from test_wgmma_descriptors import TYPES, constants, lies, numbers, offset, run
from tilelang import _core
from tilelang.layout import Layout, make_wgmma_swizzled_layout


def product(width, turned, given):
    """The second slot of a and b by descriptors whose constants are found; steps of k are counted by hand."""
    layout = Layout((2, 64, 64), lambda s, i, j: s * 4096 + j // 8 * 512 + i * 8 + j % 8)
    if width:
        layout = Layout._of(_core.swizzled_panels((2, 64, 64), 16, width))

    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")
    ):
        with T.Kernel(1, threads=128):
            t = T.get_thread_binding()
            a, b = T.alloc_shared((2, 64, 64), "float16"), T.alloc_shared((2, 64, 64), "float16")
            T.annotate_layout({a: layout, b: layout})
            sums = T.alloc_local((32,), "float32")
            T.copy(A, a[1, :, :])
            T.copy(B, b[1, :, :])
            p = T.compute_gmma_descriptor(layout if given else None, a, turned, 16, a[1, 0:64, 0:64])
            assert p == T.compute_gmma_descriptor(layout, b, turned, region=b[1, :, :])
            assert p.slice_byte_offset == 512 and p.elems_in_bytes == 2 and p.is_k_major is not turned
            descriptors = [T.alloc_wgmma_desc(), T.alloc_wgmma_desc()]
            for d, tile in zip(descriptors, (a, b), strict=True):
                T.initialize_wgmma_descriptor(
                    d, T.access_ptr(tile), p.swizzle_mode, p.leading_byte_offset, p.stride_byte_offset
                )
                T.increase_descriptor_offset(d, p.slice_byte_offset * 16)
            T.warpgroup_arrive()
            for k in T.serial(4):
                at = offset(width, 64, turned, k)
                T.ptx_wgmma_ss(
                    "float32", "m64n64k16", not turned, not turned, "fp16", "fp16", "fp32",
                    descriptors[0], at, descriptors[1], at, sums, 0, k > 0, 1, 1,
                )  # fmt: skip
            T.warpgroup_commit_batch()
            T.wait_wgmma(0)
            for i in T.serial(32):
                C[t // 32 * 16 + t % 32 // 4 + i // 2 % 2 * 8, i // 4 * 8 + t % 4 * 2 + i % 2] = sums[i]

    return main


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("width", TYPES.values())
def test_products_by_what_is_found(width, turned, given):
    a, b, c = numbers(64, 64), numbers(64, 64, seed=1), np.full((64, 64), np.nan, np.float32)
    run(product(width, turned, given), a, b, c)
    left, right = a.astype(float), b.astype(float).T
    assert np.array_equal(c, left.T @ right.T if turned else left @ right)


def found(shape, dtype, *arguments, layout=None, **more):
    at = []

    @T.prim_func
    def main(A: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared(shape, dtype)
            at.append(T.compute_gmma_descriptor(layout, tile, *arguments, **more))

    return at[0]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("mode", TYPES)
def test_every_constant(mode, turned):
    width = TYPES[mode]
    leading, stride, _ = constants(width, 64, turned)
    row = (width or 16) // 2
    assert found((64, 64), "float16", turned, layout=lies((64, 64), width)) == T.WGMMADescriptorParams(
        mode, leading, stride, row, 1 if turned or row < 16 else row // 16, 2, not turned, 0,
        64 if turned else row,
    )  # fmt: skip


def test_of_other_types():
    p = found((128, 128), "float8_e4m3fn", False, 32, layout=lies8())
    assert (p.swizzle_mode, p.swizzle_atom_elems, p.k_atom_size, p.elems_in_bytes) == (1, 128, 4, 1)
    assert found((64, 8), "float16", False).swizzle_mode == 0  # row by row, a row being 16 bytes


def lies8():
    return make_wgmma_swizzled_layout(((128, 128), "int8"))


ERRORS = {
    "T.compute_gmma_descriptor(None, s, False)": "s lies as no descriptor can say: wgmma reads panels whose",
    "T.compute_gmma_descriptor(None, c, False)": "buffer is a shared tile of two dimensions or more, not",
    "T.compute_gmma_descriptor(None, s, False, 32)": "micro_size_k is 32, but an instruction takes 256 bits "
    "of k, 16 elements of float16",
    "T.compute_gmma_descriptor(None, e, True, 32)": "elements of 8 bits are multiplied along rows of k alone",
    "T.compute_gmma_descriptor(T.Layout((8, 8), lambda i, j: i * 8 + j), s, False)": "tl_layout is of 8 × "
    "8 elements, but s has 64 × 64",
    "T.compute_gmma_descriptor(None, f, False, region=s[0:8, :])": "region is a slice of s, but buffer is f",
    "T.compute_gmma_descriptor(None, f, False, region=f[n : n + 8, :])": "region begins at a value of the "
    "kernel",
    "T.compute_gmma_descriptor(None, f, False, region=f[4:12, :])": "begins at row 4 and column 0 of f, but",
    "T.compute_gmma_descriptor(3, s, False)": "takes a T.Layout, not int",
}


@pytest.mark.parametrize("body", ERRORS)
def test_errors(tmp_path, body):
    buffers = (
        "s = T.alloc_shared((64, 64), 'float16')\ne = T.alloc_shared((64, 64), 'int8')\n"
        "f = T.alloc_shared((64, 8), 'float16')\nc = T.alloc_local((32,), 'float32')\n"
    )
    assert ERRORS[body] in str(failure(tmp_path, buffers + body))


def test_outside_of_a_kernel():
    with pytest.raises(tilelang.CompileError, match="buffer is a shared tile"):
        T.compute_gmma_descriptor(None, 3, False)
