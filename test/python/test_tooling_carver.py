"""tilelang.carver: chips, hints that fit them, and the functions that templates stand for."""

import numpy
import pytest
import tilelang
from tilelang.carver import Rasterization2DColumn, TileDevice
from tilelang.carver.arch import (
    CDNA,
    CPU,
    CUDA,
    METAL,
    RDNA,
    get_arch,
    has_mma_support,
    is_ada_arch,
    is_ampere_arch,
    is_cpu_arch,
    is_cuda_arch,
    is_hopper_arch,
    is_tensorcore_supported_precision,
    is_volta_arch,
)  # fmt: skip
from tilelang.carver.roller.hint import Hint
from tilelang.carver.roller.rasterization import NoRasterization, Rasterization2DRow
from tilelang.carver.template import (
    ConvTemplate,
    ElementwiseTemplate,
    FlashAttentionTemplate,
    GEMVTemplate,
    GeneralReductionTemplate,
    MatmulTemplate,
)  # fmt: skip

CHIPS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_103", "sm_120", "sm_121")


def test_chips_have_the_numbers_of_the_compiler():
    arch = CUDA("cuda -arch=sm_90")
    assert (arch.smem_cap, arch.compute_max_core, arch.warp_size, arch.sm_version) == (
        227 * 1024,
        132,
        32,
        90,
    )
    assert arch.reg_cap == 65536 and arch.bandwidth[0] > 1000 and arch.compute_capability == "90"
    assert arch.get_avaliable_tensorintrin_shapes() == [[16, 8]] and isinstance(arch, TileDevice)
    assert (
        is_cuda_arch(arch) and is_hopper_arch(arch) and not is_ampere_arch(arch) and not is_volta_arch(arch)
    )
    assert is_ada_arch(CUDA("cuda -arch=sm_89")) and is_ampere_arch(get_arch("cuda -arch=sm_86"))
    assert has_mma_support(arch) and is_tensorcore_supported_precision("float16", "float32", arch)
    assert not is_tensorcore_supported_precision("float64", "float64", arch)
    cpu = get_arch("cpu")
    assert isinstance(cpu, CPU) and is_cpu_arch(cpu) and not has_mma_support(cpu)
    assert not isinstance(arch, (CDNA, RDNA, METAL))
    assert tilelang.carver.arch.auto_infer_current_arch().target == tilelang.resolve_target("auto")


def test_chips_that_are_not_here_say_so():
    with pytest.raises(tilelang.CompileError, match="unknown target 'metal'.*no back end"):
        METAL("metal")
    for kind in (CDNA, RDNA):
        with pytest.raises(tilelang.CompileError, match="target 'hip': no AMD GPU answers"):
            kind("hip")
    with pytest.raises(tilelang.CompileError, match="CDNA: cuda -arch=sm_80 is not a chip of that kind"):
        CDNA("cuda -arch=sm_80")


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype, accum", [("float16", "float32"), ("int8", "int32"), ("float32", "float32")])
def test_hints_of_products_fit(chip, dtype, accum):
    arch = CUDA(f"cuda -arch={chip}")
    uses = is_tensorcore_supported_precision(dtype, accum, arch)
    for shape in ((4096, 4096, 4096), (64, 512, 1000), (1, 300, 77)):
        hints = (
            MatmulTemplate(*shape, in_dtype=dtype, out_dtype=accum, accum_dtype=accum)
            .with_arch(arch)
            .recommend_hints(topk=20)
        )
        assert 0 < len(hints) <= 20 and len({(*h.block, *h.rstep) for h in hints}) == len(hints)
        assert [h.seconds for h in hints] == sorted(h.seconds for h in hints)
        for h in hints:
            (m, n), (k,) = h.block, h.rstep
            size = 1 if dtype == "int8" else 2 if dtype == "float16" else 4
            assert (m + n) * k * size * h.pipeline_stage <= arch.smem_cap and h.use_tc == uses
            assert h.use_async == (h.pipeline_stage > 1 and chip != "sm_75")
            if uses:
                transposed = chip == "sm_90a" and m % 64 != 0  # by warpgroups, whose rows are columns of C
                assert (
                    m % h.warp[0] == 0
                    and n % h.warp[1] == 0
                    and h.warp[transposed] % (16 if chip != "sm_75" or dtype == "float16" else 8) == 0
                    and h.warp[not transposed] % 8 == 0
                )
                assert (m // h.warp[0]) * (n // h.warp[1]) <= 32 and k % 16 == 0
            else:
                assert numpy.prod(h.thread) <= 1024


@pytest.mark.parametrize("rows", [1, 16, 32, 48, 96])
def test_few_rows_take_tiles_of_as_many(rows):
    template = MatmulTemplate(rows, 8192, 8192, accum_dtype="float32").with_arch(CUDA("cuda -arch=sm_90a"))
    best = template.recommend_hints(1)[0]
    assert (best.block, best.rstep, best.threads) == ([max(16, rows), 64], [128], 128)


def test_large_problems_take_large_tiles():
    """The model must know what everybody knows: reuse pays, and few blocks leave a chip idle."""
    template = MatmulTemplate(8192, 8192, 8192, accum_dtype="float32").with_arch(CUDA("cuda -arch=sm_90"))
    best = template.recommend_hints(1)[0]
    assert min(best.block) >= 128 and best.pipeline_stage > 1
    assert isinstance(best.rasterization_plan, Rasterization2DColumn)
    code = best.rasterization_plan.get_code()
    assert code == [f'T.use_swizzle({best.rasterization_plan.panel_width}, order="row")']
    small = (
        MatmulTemplate(256, 256, 8192, accum_dtype="float32").with_arch(template.arch).recommend_hints(1)[0]
    )
    assert numpy.prod(small.block) < numpy.prod(best.block)
    assert isinstance(small.rasterization_plan, NoRasterization) and small.rasterization_plan.get_code() == []
    assert Rasterization2DRow(3).get_code(5) == ['T.use_swizzle(5, order="column")']
    assert small.seconds < best.seconds and template.has_arch()
    assert template.get_hardware_aware_configs(template.arch, 1)[0].block == best.block
    assert Hint.from_dict(best.to_dict()) == best and best.step == [1, 1] and best.raxis_order == [0]
    assert template.params_as_dict()["trans_B"] is True and "block=" in repr(best)


def test_kernels_that_stream():
    arch = CUDA("cuda -arch=sm_80")
    for template, rank in (
        (GEMVTemplate(N=1024, K=4096), 1),
        (ElementwiseTemplate(shape=[3, 100, 64]), 3),
        (GeneralReductionTemplate("SRR", [512, 64, 128]), 1),
        (GeneralReductionTemplate("RS", [512, 4096], "float32"), 1),
    ):
        for h in template.with_arch(arch).recommend_hints(5):
            assert len(h.block) == len(h.thread) == rank and not h.use_tc
            assert 32 <= numpy.prod(h.thread) * numpy.prod(h.reduce_thread or [1]) <= 1024
            assert len(h.rstep) == len(h.reduce_thread)
    rows = GEMVTemplate(N=1024, K=4096).with_arch(arch).recommend_hints(1)[0]
    assert rows.reduce_thread[0] * 8 * 2 >= 128  # threads side by side read whole lines


def test_attention_and_convolution():
    arch = CUDA("cuda -arch=sm_90")
    attention = FlashAttentionTemplate(
        batch_size=2, num_heads=16, head_dim=128, seq_length=2048, seq_kv_length=2048, accum_dtype="float32"
    ).with_arch(arch)
    best = attention.recommend_hints(1)[0]
    assert min(best.block) >= 32 and best.block[0] % best.warp[0] == 0
    with pytest.raises(tilelang.CompileError, match="no matrix instruction for float32"):
        FlashAttentionTemplate(in_dtype="float32", accum_dtype="float32").with_arch(arch).recommend_hints()
    conv = ConvTemplate(N=4, C=64, H=28, W=28, F=64, K=3, S=1, D=1, P=1, accum_dtype="float32")
    assert conv.with_arch(arch).recommend_hints(2)[0].use_tc
    with pytest.raises(tilelang.CompileError, match="hints are for GPUs, and cpu"):
        MatmulTemplate(64, 64, 64).with_arch(CPU("cpu")).recommend_hints()


def test_hints_of_warpgroups():
    """On Hopper: the tiles that were measured to be best for large shapes, smaller ones where few blocks are;
    all of them as many threads as their warps have."""
    arch = CUDA("cuda -arch=sm_90a")

    def best(M, N, K, **more):
        hints = MatmulTemplate(M, N, K, accum_dtype="float32", **more).with_arch(arch).recommend_hints(20)
        for h in hints:
            assert h.threads == 32 * numpy.prod([b // w for b, w in zip(h.block, h.warp, strict=True)])
            assert h.threads in (128, 256) and h.block[0] % 64 == 0
        return hints[0]

    for M, N, K in ((4096, 1024, 8192), (4096, 28672, 8192), (8192, 1024, 8192), (8192, 8192, 28672)):
        assert best(M, N, K).block == [128, 256] and best(M, N, K).rstep == [64]
    assert best(8192, 8192, 8192, in_dtype="float8_e4m3fn", out_dtype="bfloat16").rstep == [128]
    assert best(1024, 1024, 1024).block == [64, 128] and best(1000, 1304, 704).block == [128, 128]
    assert best(64, 8192, 8192).block == [64, 64]

    # What roles do not divide is cut as for warps: 8-bit operands that do not lie along K, short heads.
    transposed = MatmulTemplate(4096, 4096, 4096, trans_B=False, in_dtype="int8", accum_dtype="int32")
    short = FlashAttentionTemplate(None, 1, 8, 80, 1024, 1024, accum_dtype="float32")
    for template in (transposed, short):
        on_80, on_90 = (
            [h.block for h in template.with_arch(CUDA(f"cuda -arch={chip}")).recommend_hints(3)]
            for chip in ("sm_90", "sm_90a")
        )
        assert on_80 == on_90
    for template, name in (
        (MatmulTemplate(64, 0, 64), "N is 0"),
        (FlashAttentionTemplate(None, 1, 1, 64, 0, 128, True), "seq_length is 0"),
        (GeneralReductionTemplate("SR", [4, 0]), r"shape is .4, 0."),
    ):
        with pytest.raises(tilelang.CompileError, match=name):
            template.with_arch(arch).recommend_hints()

    def attention(length, causal, heads=32, dim=128):
        t = FlashAttentionTemplate(None, 1, heads, dim, length, length, causal, accum_dtype="float32")
        return t.with_arch(arch).recommend_hints(1)[0]

    for length, causal in ((512, True), (512, False), (1024, True), (1024, False), (4096, True)):
        assert (attention(length, causal).block, attention(length, causal).threads) == ([128, 128], 256)
    assert (
        attention(4096, False, 64, 64).block == [192, 128] and attention(4096, False, 64, 64).threads == 384
    )
    assert attention(4096, False, 16, 256).block == [128, 64]


def run(template, *inputs):
    function = template.equivalent_function()
    return tilelang.compile(function, out_idx=-1, target="cpu")(*inputs).astype("float64")


def random(*shape, dtype="float32"):
    return numpy.random.default_rng(3).standard_normal(shape).astype(dtype)


SINGLE = {"in_dtype": "float32", "out_dtype": "float32", "accum_dtype": "float32"}


def test_equivalent_functions():
    a, b, bias = random(37, 50), random(50, 70), random(70)
    for trans_a in (False, True):
        for trans_b in (False, True):
            made = run(
                MatmulTemplate(37, 70, 50, trans_a, trans_b, **SINGLE, with_bias=True),
                a.T.copy() if trans_a else a,
                b.T.copy() if trans_b else b,
                bias,
            )
            numpy.testing.assert_allclose(made, a @ b + bias, atol=1e-4)
    half = random(16, 32, dtype="float16"), random(8, 32, dtype="float16")
    numpy.testing.assert_allclose(
        run(MatmulTemplate(16, 8, 32, accum_dtype="float32"), *half),
        half[0].astype("f4") @ half[1].astype("f4").T,
        rtol=2e-3,
        atol=2e-3,
    )
    numpy.testing.assert_allclose(
        run(GEMVTemplate(70, 50, False, **SINGLE), a[:1].copy(), b), a[:1] @ b, atol=1e-4
    )
    x = random(5, 6, 7)
    numpy.testing.assert_allclose(run(ElementwiseTemplate([5, 6, 7], "float32"), x), x + 1, atol=1e-6)
    for structure, axes in (("SSR", 2), ("RSS", 0), ("RSR", (0, 2))):
        made = run(GeneralReductionTemplate(structure, [5, 6, 7], "float32"), x)
        numpy.testing.assert_allclose(made, x.sum(axes), atol=1e-4)


def test_equivalent_convolution_and_attention():
    torch = pytest.importorskip("torch")
    image, kernel, bias = random(2, 9, 10, 3), random(3, 3, 3, 4), random(4)
    template = ConvTemplate(N=2, C=3, H=9, W=10, F=4, K=3, S=2, D=2, P=1, **SINGLE, with_bias=True)
    expected = torch.nn.functional.conv2d(
        torch.tensor(image).permute(0, 3, 1, 2),
        torch.tensor(kernel).permute(3, 2, 0, 1),
        torch.tensor(bias),
        2,
        1,
        2,
    )
    numpy.testing.assert_allclose(run(template, image, kernel, bias), expected.permute(0, 2, 3, 1), atol=1e-4)
    q, k, v = random(2, 3, 17, 16), random(2, 3, 17, 16) * 2, random(2, 3, 17, 16) + 1
    for causal in (False, True):
        template = FlashAttentionTemplate(
            batch_size=2,
            num_heads=3,
            head_dim=16,
            seq_length=17,
            seq_kv_length=17,
            is_causal=causal,
            **SINGLE,
        )
        expected = torch.nn.functional.scaled_dot_product_attention(
            *map(torch.tensor, (q, k, v)), is_causal=causal
        )
        numpy.testing.assert_allclose(run(template, q, k, v), expected, atol=1e-4)


def test_names_by_their_paths():
    from tilelang.carver.arch.arch_base import TileDevice as base
    from tilelang.carver.arch.cdna import is_cdna_arch
    from tilelang.carver.arch.cuda import CUDA as cuda
    from tilelang.carver.arch.metal import is_metal_arch
    from tilelang.carver.arch.rdna import is_rdna_arch
    from tilelang.carver.template.matmul import MatmulTemplate as matmul

    assert (base, cuda, matmul) == (TileDevice, CUDA, MatmulTemplate)
    arch = CUDA("cuda -arch=sm_80")
    assert not is_cdna_arch(arch) and not is_rdna_arch(arch) and not is_metal_arch(arch)
    scope = {}
    exec("from tilelang.carver.arch import *", scope)
    assert scope["CUDA"] is CUDA


def test_driver():
    from tilelang.carver.arch import driver

    torch = pytest.importorskip("torch")
    names = """
        get_num_sms get_device_name get_max_dynamic_shared_size_bytes get_shared_memory_per_block
        get_registers_per_block get_persisting_l2_cache_max_size get_cuda_device_properties
    """.split()
    for name in names:
        if torch.cuda.is_available():
            assert getattr(driver, name)()
        else:
            with pytest.raises(RuntimeError, match="no CUDA device answers here"):
                getattr(driver, name)()
    with pytest.raises(RuntimeError):
        driver.get_device_attribute("no_such_attribute", 99)


def test_other_members_of_templates():
    template = MatmulTemplate(M=64, N=64, K=64)
    assert template.class_attributes == template.params_as_dict() and not template.has_arch()
    template.with_arch(CUDA("cuda -arch=sm_80"))
    assert template.is_ampere_arch() and not template.is_volta_arch()
    assert not template.is_cdna_arch() and not template.is_rdna_arch()
    made = template.initialize_function()
    assert template.equivalent_function() is made
    assert template.set_function(made) is template and template.output_nodes == []
    with pytest.raises(tilelang.CompileError, match="nodes of TVM's graphs are not taken"):
        template.set_output_nodes([1])
    with pytest.raises(TypeError, match="MatmulTemplate: N, K must be given"):
        MatmulTemplate(64)
    hint = template.recommend_hints(1)[0]
    assert hint.complete_config(None) is hint.tensorcore_legalization() is hint
    assert TileDevice("cuda -arch=sm_80").name == "sm_80" and TileDevice().target
    with pytest.raises(tilelang.CompileError, match="recommends hints for kernels of known forms"):
        from tilelang.carver.roller.policy import DefaultPolicy

        DefaultPolicy(template.arch)
