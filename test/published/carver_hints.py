"""What carver recommends for other kernels than GEMM."""

import torch
from tilelang.carver.arch import CUDA
from tilelang.carver.template import (
    ConvTemplate,
    ElementwiseTemplate,
    FlashAttentionTemplate,
    GEMVTemplate,
    GeneralReductionTemplate,
    MatmulTemplate,
)


def show(name, template, arch, topk=3):
    template = template.with_arch(arch)
    assert template.equivalent_function() is not None
    hints = template.recommend_hints(topk=topk)
    assert 0 < len(hints) <= topk, name
    for hint in hints:
        assert all(extent > 0 for extent in hint.block)
        print(f"{name}: {hint}")
    return hints


def main():
    arch = CUDA("cuda" if torch.cuda.is_available() else "cuda -arch=sm_90")
    assert arch.smem_cap >= 48 * 1024 and arch.warp_size == 32 and arch.compute_max_core > 0
    hints = show(
        "matmul",
        MatmulTemplate(
            M=1024, N=1024, K=1024, in_dtype="float16", out_dtype="float16", accum_dtype="float32"
        ),
        arch,
    )
    for hint in hints:
        (block_m, block_n), (warp_m, warp_n) = hint.block, hint.warp
        assert block_m % warp_m == 0 and block_n % warp_n == 0 and hint.rstep[0] % 16 == 0
        stages = max(hint.pipeline_stage, 1)
        assert (block_m + block_n) * hint.rstep[0] * 2 * stages <= arch.smem_cap
    show(
        "gemv",
        GEMVTemplate(N=1024, K=1024, in_dtype="float16", out_dtype="float16", accum_dtype="float32"),
        arch,
    )
    show("elementwise", ElementwiseTemplate(shape=[1024, 1024], dtype="float32"), arch)
    show("reduction", GeneralReductionTemplate(structure="SSR", shape=[512, 64, 128], dtype="float16"), arch)
    show(
        "attention",
        FlashAttentionTemplate(
            batch_size=1, num_heads=4, head_dim=64, seq_length=512, seq_kv_length=512, is_causal=False
        ),
        arch,
    )
    show(
        "conv",
        ConvTemplate(
            N=4,
            C=64,
            H=28,
            W=28,
            F=64,
            K=3,
            S=1,
            D=1,
            P=1,
            in_dtype="float16",
            out_dtype="float16",
            accum_dtype="float32",
        ),
        arch,
    )


if __name__ == "__main__":
    main()
