"""Products of a warpgroup by descriptors (T.ptx_wgmma_ss, T.ptx_wgmma_rs), for every way a tile may lie."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import failure
from tilelang import _core
from tilelang.layout import Layout

SIM = "sim:sm_90a"
M = N = K = 64
TYPES = {0: 0, 1: 128, 2: 64, 3: 32}  # bytes of a row of the pattern, by layout type


def lies(shape, width):
    """Panels of rows of that many bytes (0: 16, without a pattern), as the accelerator writes them."""
    if not width:
        return Layout(shape, lambda i, j: j // 8 * (shape[0] * 8) + i * 8 + j % 8)
    return Layout._of(_core.swizzled_panels(shape, 16, width))


def constants(width, rows, turned):
    """The two distances of a descriptor, in units of 16 bytes, and those of a step of 16 along k."""
    row = width or 16
    panel, eights = rows * row // 16, 8 * row // 16
    if turned:
        return (panel, eights, 16 * row // 16) if width else (eights, panel, 16)
    return (panel if not width else 1, eights, 2)


def offset(width, rows, turned, step):
    """Of the tile of 16 values of k, in units of 16 bytes."""
    if turned:
        return step * (width or 16)
    panel = rows * (width or 16) // 16
    if not width:
        return step * 2 * panel
    steps = width // 32
    return step // steps * panel + step % steps * 2


def product(layout_type, a_turned, b_turned, increase=False):
    width = TYPES[layout_type]

    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")
    ):
        with T.Kernel(1, threads=128):
            t = T.get_thread_binding()
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            T.annotate_layout({a: lies((64, 64), width), b: lies((64, 64), width)})
            sums = T.alloc_local((32,), "float32")
            T.copy(A, a)
            T.copy(B, b)
            desc_a, desc_b = T.alloc_wgmma_desc(), T.alloc_descriptor("wgmma")
            la, sa, _ = constants(width, 64, a_turned)
            lb, sb, _ = constants(width, 64, b_turned)
            T.initialize_wgmma_descriptor(desc_a, T.access_ptr(a, "r"), layout_type, la, sa)
            T.initialize_wgmma_descriptor(desc_b[0], b[0, 0], layout_type, lb, sb)
            T.warpgroup_arrive()
            for k in (0, 1, 2, 3) if increase else T.serial(4):
                at_a, at_b = offset(width, 64, a_turned, k), offset(width, 64, b_turned, k)
                T.ptx_wgmma_ss(
                    "float32", "m64n64k16", not a_turned, not b_turned, "fp16", "fp16", "fp32",
                    desc_a, 0 if increase else at_a, desc_b.data, at_b, sums.data, 0, k > 0, 1, 1,
                )  # fmt: skip
                if increase and k < 3:
                    T.increase_descriptor_offset(desc_a, 16 * (offset(width, 64, a_turned, k + 1) - at_a))
            T.warpgroup_commit_batch()
            T.wait_wgmma(0)
            for i in T.serial(32):
                C[t // 32 * 16 + t % 32 // 4 + i // 2 % 2 * 8, i // 4 * 8 + t % 4 * 2 + i % 2] = sums[i]

    return main


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float16)


def run(function, *arguments):
    kernel = tilelang.compile(function, target=SIM)
    report = kernel.simulate(*arguments, schedules=2)
    assert not report.findings, report.findings
    return kernel


@pytest.mark.parametrize("increase", [False, True])
@pytest.mark.parametrize("b_turned", [False, True])
@pytest.mark.parametrize("a_turned", [False, True])
@pytest.mark.parametrize("layout_type", TYPES)
def test_every_way_to_lie(layout_type, a_turned, b_turned, increase):
    a, b, c = numbers(64, 64), numbers(64, 64, seed=1), np.full((64, 64), np.nan, np.float32)
    run(product(layout_type, a_turned, b_turned, increase), a, b, c)
    left = a.astype(float).T if a_turned else a.astype(float)
    right = b.astype(float) if b_turned else b.astype(float).T
    assert np.array_equal(c, left @ right)


def test_the_pattern_aligns_the_tile():
    text = str(product(1, False, False))
    assert text.count("alignment(1024)") == 2


def test_a_in_registers_and_the_next_names():
    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float16"),
        B: T.Tensor((64, 64), "float16"),
        C: T.Tensor((2, 64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            t = T.get_thread_binding()
            b, a = T.alloc_shared((64, 64), "float16"), T.alloc_local((32,), "float16")
            T.annotate_layout({b: lies((64, 64), 128)})
            sums = T.alloc_local((32,), "float32")
            T.copy(B, b)
            for i in T.serial(32):
                a[i] = A[t // 32 * 16 + t % 32 // 4 + i // 2 % 2 * 8, i // 4 * 8 + t % 4 * 2 + i % 2]
            d = T.alloc_wgmma_desc("uint64")
            T.initialize_wgmma_descriptor(d, T.access_ptr(b, "r"), 1, 1, 64)
            for n in T.serial(2):
                T.warpgroup_arrive()
                for k in T.serial(4):
                    T.ptx_wgmma_rs(
                        "float32", "m64n64k16", True, "float16", "float16", "float32",
                        a, k * 8, d, 2 * k, sums.data, 0, n + k > 0, True, True,
                    )  # fmt: skip
                T.warpgroup_commit_batch()
                T.wait_wgmma(0)
                for i in T.serial(32):
                    C[n, t // 32 * 16 + t % 32 // 4 + i // 2 % 2 * 8, i // 4 * 8 + t % 4 * 2 + i % 2] = sums[
                        i
                    ]

    a, b, c = numbers(64, 64), numbers(64, 64, seed=1), np.full((2, 64, 64), np.nan, np.float32)
    run(main, a, b, c)
    product = a.astype(float) @ b.astype(float).T
    assert np.array_equal(c, [product, 2 * product])
    params = T.WGMMADescriptorParams(1, 1, 64, 64, 4, 2, True)
    assert params.slice_byte_offset == 0 and params.k_panel_elems is None


def test_wgmma_mma():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, c = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.wgmma_mma(a, a, c, clear_accum=True)
            T.wait_wgmma(0)
            T.copy(c, C)

    a, c = numbers(64, 64), np.full((64, 64), np.nan, np.float32)
    run(main, a, c)
    assert np.array_equal(c, a.astype(float) @ a.astype(float))


@pytest.mark.parametrize("b_transposed", [False, True])
def test_the_emitter(b_transposed):
    products = T.WGMMATensorCoreIntrinEmitter(
        "float16", "float16", "float32", False, b_transposed, 8, 1, 16, 64, chunk=32
    )

    @T.prim_func
    def main(
        A: T.Tensor((128, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((128, 64), "float32")
    ):
        with T.Kernel(1, threads=256):
            a, b = T.alloc_shared((2, 128, 32), "float16"), T.alloc_shared((2, 64, 32), "float16")
            if not b_transposed:
                b = T.alloc_shared((2, 32, 64), "float16")
            c = T.alloc_fragment((128, 64), "float32")
            for k in T.serial(2):
                T.copy(A[:, k * 32 : (k + 1) * 32], a[k, :, :])
                if b_transposed:
                    T.copy(B[:, k * 32 : (k + 1) * 32], b[k, :, :])
                else:
                    T.copy(B[k * 32 : (k + 1) * 32, :], b[k, :, :])
            for k in T.serial(2):
                products.wgmma(a[k, :, :], b[k, :, :], c, clear_accum=(k == 0), wg_wait=-1)
            T.wait_wgmma(0)
            T.copy(c, C)

    a, b, c = numbers(128, 64), numbers(64, 64, seed=1), np.full((128, 64), np.nan, np.float32)
    run(main, a, b, c)
    assert np.array_equal(c, a.astype(float) @ (b.T if b_transposed else b).astype(float))
    with pytest.raises(tilelang.CompileError, match="block_row_warps is 2; it must be a multiple of 4"):
        T.WGMMATensorCoreIntrinEmitter()
    with pytest.raises(tilelang.CompileError, match="there is no product m64n16k16 of float16, bfloat16"):
        T.WGMMATensorCoreIntrinEmitter("float16", "bfloat16", "float32", False, False, 4, 1, 16, 64)


def test_the_device_compiler_takes_it():
    kernel = tilelang.compile(product(1, True, False), target="cuda -arch=sm_90a")
    source = kernel.get_kernel_source()
    assert "wgmma" in source


SET = """
s = T.alloc_shared((64, 64), "float16")
c = T.alloc_local((32,), "float32")
d = T.alloc_wgmma_desc()
T.initialize_wgmma_descriptor(d, T.access_ptr(s), 1, 1, 64)
"""
CALL = "T.ptx_wgmma_ss('float32', {0}, True, {3}, {1}, {1}, 'fp32', d, 0, {2}, 0, c, 0, True, {4}, 1)"
ERRORS = {
    CALL.format("'m64n64k16'", "'fp16'", "d", True, -1): "T.ptx_wgmma_ss: scale_in_a is 1, not -1",
    CALL.format("'m64n64k8'", "'fp16'", "d", True, 1): "there is no product m64n64k8 of fp16",
    CALL.format("'m16n8k16'", "'fp16'", "d", True, 1): "wgmma_prefix is 'm64n…k…'",
    CALL.format("'m64n60k16'", "'fp16'", "d", True, 1): "n a multiple of 8 up to 256",
    CALL.format("'m64n64k32'", "'e4m3'", "d", False, 1): "elements of 8 bits are multiplied along rows of k",
    CALL.format("'m64n64k16'", "'fp16'", "c", True, 1): "a descriptor is what T.alloc_wgmma_desc makes",
    CALL.format("'m64n64k16'", "'fp16'", "T.alloc_wgmma_desc()", True, 1): "the descriptor is not set",
    "T.initialize_wgmma_descriptor(d, T.access_ptr(c))": "start_address is in shared memory, and c is not",
    "T.initialize_wgmma_descriptor(d, s, n)": "layout_type_ is part of the descriptor: a constant",
    "T.initialize_wgmma_descriptor(d, s, 1, 1 << 14)": "leading_byte_offset is part of the descriptor",
    "T.increase_descriptor_offset(d, 8)": "offset is in bytes, a multiple of 16, not 8",
    "for i in T.serial(2):\n    T.increase_descriptor_offset(d, 32)": "outside of this loop or branch",
    "for i in T.serial(2):\n    T.initialize_wgmma_descriptor(d, s, 1, 1, 64)\n"
    "T.increase_descriptor_offset(d, 32)": "in a loop or branch that has ended",
    "e = T.alloc_descriptor('tcgen05')": "is for Blackwell's instructions",
    "e = T.alloc_wgmma_desc('uint32')": "a descriptor has 64 bits, dtype 'uint64', not uint32",
}


@pytest.mark.parametrize("body", ERRORS)
def test_errors(tmp_path, body):
    assert ERRORS[body] in str(failure(tmp_path, SET + body))
