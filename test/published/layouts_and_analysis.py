"""Fragments drawn, layouts composed, and a kernel's arithmetic counted before it runs."""

import os
import tempfile

import tilelang
import tilelang.language as T
from tilelang.carver.arch import CUDA
from tilelang.cuda.intrinsics.layout.mma_layout import (
    shared_16x8_to_mma_32x4_layout_sr_a,
    shared_16x16_to_mma_32x8_layout_sr_a,
    shared_16x16_to_mma_32x8_layout_sr_b,
    shared_16x32_to_mma_32x16_layout_sr_a,
)
from tilelang.cuda.intrinsics.layout.utils import get_mma_micro_size
from tilelang.layout import make_swizzled_layout
from tilelang.tools import Analyzer, plot_layout


def make_mma_load_base_layout(
    dtype: str = "float16", matrix: str = "A", transposed: bool = False
) -> T.Fragment:
    """The fragment of one operand of an mma: which thread holds which element, and where."""
    micro_size_x, _, micro_size_k = get_mma_micro_size(dtype)
    assert micro_size_x == 16 and (dtype == "float32" or micro_size_k == {"float16": 16, "int8": 32}[dtype])
    bits = T.dtype(dtype).bits
    if matrix == "A":
        shape = [16, 256 // bits]
        transform = {
            32: shared_16x8_to_mma_32x4_layout_sr_a,
            16: shared_16x16_to_mma_32x8_layout_sr_a,
            8: shared_16x32_to_mma_32x16_layout_sr_a,
        }[bits]
    else:
        shape = [16, 16]
        transform = {16: shared_16x16_to_mma_32x8_layout_sr_b}[bits]

    def forward_thread(i, j):
        thread_id, _ = transform(i, j)
        return thread_id

    def forward_index(i, j):
        _, local_id = transform(i, j)
        return local_id

    return T.Fragment(shape, forward_thread_fn=forward_thread, forward_index_fn=forward_index)


def draw(folder):
    base_layout = make_mma_load_base_layout(dtype="float16", matrix="A", transposed=False)
    assert base_layout.get_thread_size() == 32
    warp_layout = base_layout.repeat([2, 1], repeat_on_thread=True, lower_dim_first=False)
    assert warp_layout.get_thread_size() == 64
    block_layout = warp_layout.repeat([1, 2], repeat_on_thread=False, lower_dim_first=False)
    replicated = base_layout.replicate(2)
    for name, layout in (
        ("base", base_layout),
        ("warp", warp_layout),
        ("block", block_layout),
        ("replicated", replicated),
    ):
        plot_layout(layout, save_directory=folder, name=name, formats="svg")
    eight_bits = make_mma_load_base_layout(dtype="int8", matrix="A")
    plot_layout(eight_bits, folder, "int8", "Spectral", False, "svg")
    make_mma_load_base_layout(dtype="float32", matrix="A")
    make_mma_load_base_layout(dtype="float16", matrix="B")
    found = sorted(os.listdir(folder))
    assert found == ["base.svg", "block.svg", "int8.svg", "replicated.svg", "warp.svg"], found


def kernel(N, C, H, W, block=64, dtype="float16"):
    K = N

    @T.prim_func
    def matmul(A: T.Tensor((N, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((N, N), dtype)):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(N, block), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block, block), dtype)
            B_shared = T.alloc_shared((block, block), dtype)
            C_local = T.alloc_fragment((block, block), "float")
            T.annotate_layout({A_shared: make_swizzled_layout(A_shared)})
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block), num_stages=3):
                T.copy(A[by * block, k * block], A_shared)
                T.copy(B[k * block, bx * block], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block, bx * block])

    return matmul


def analyze(N=512):
    cuda_device = CUDA("cuda -arch=sm_90")
    result = Analyzer.analysis(kernel(N, 1, 1, 1), cuda_device)
    assert result.total_flops == 2 * N**3
    assert result.total_global_bytes >= 3 * N * N * 2
    assert result.estimated_time > 0 and result.expected_tflops > 0 and result.expected_bandwidth_GBps > 0
    print(
        f"Analyzed FLOPs: {result.total_flops}, bytes: {result.total_global_bytes}, {result.estimated_time} s"
    )


def main():
    with tempfile.TemporaryDirectory() as folder:
        draw(folder)
    analyze()
    layout = tilelang.Layout([4, 8], lambda i, j: (j, i))
    assert [int(n) for n in layout.map_forward_index([1, 2])] == [2, 1]
    assert layout.inverse().is_equal(tilelang.Layout([8, 4], lambda i, j: (j, i)))
    print("All checks passed.")


if __name__ == "__main__":
    main()
