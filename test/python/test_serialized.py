"""Products of warpgroups that the device compiler lets run one at a time only are told; in the examples for
Hopper there are none, and what is to run beside a product stands between its begin and the wait for it."""

import importlib
import re
import shutil
import warnings
from pathlib import Path

import harness
import pytest
import tilelang
import tilelang.language as T

TARGET = "cuda -arch=sm_90a"
NAMES = sorted(path.stem for path in Path(harness.__file__).parent.glob("*.py") if path.stem != "harness")


def chained(touched):
    """Products with a factor in registers; touched: it is halved while the one before may be in flight."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float16"),
        B: T.Tensor((2, 64, 64), "float16"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            tiles, factor = T.alloc_shared((2, 64, 64), "float16"), T.alloc_fragment((64, 64), "float16")
            sums = T.alloc_fragment((64, 64), "float32")
            T.copy(A, factor)
            T.copy(B, tiles)
            T.clear(sums)
            for k in T.serial(8):
                T.wgmma_gemm(factor, tiles[k % 2, :, :], sums)
                if touched:
                    for i, j in T.Parallel(64, 64):
                        factor[i, j] *= T.float16(0.5)
            T.wait_wgmma(0)
            T.copy(sums, C)

    return main


def compiled(function, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernel = tilelang.compile(function, target=TARGET, **options)
    return kernel, [str(w.message) for w in caught if "serialized" in str(w.message)]


def test_a_factor_that_is_touched_in_flight(monkeypatch, tmp_path):
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tilelang.env, "_cache_enabled", True)
    kernel, said = compiled(chained(True))
    (row,) = kernel.resource_usage
    assert re.fullmatch(
        r"wgmma\.mma_async instructions are serialized due to .* \(C75\d\d\)", row["serialized"]
    )
    assert len(said) == 1 and row["serialized"] in said[0] and "main_kernel" in said[0]
    assert "products serialized" in kernel.report.text.split("\n")[0]
    assert kernel.report.kernels[0].serialized == row["serialized"]
    again, _ = compiled(chained(True))
    assert again.from_cache and again.resource_usage == kernel.resource_usage


def test_a_factor_that_is_left_alone():
    kernel, said = compiled(chained(False))
    assert [row["serialized"] for row in kernel.resource_usage] == [""] and not said
    assert "products serialized" not in kernel.report.text


@pytest.mark.parametrize("name", NAMES)
def test_examples_for_hopper(name):
    module = importlib.import_module(name)
    for case in module.cases("gpu", **module.SMALL):
        kernel, said = compiled(case.kernel, pass_configs=case.pass_configs)
        assert not said and all(row["serialized"] == "" for row in kernel.resource_usage)


def test_weights_are_computed_beside_the_sums():
    """ptxas may move the wait for a product in front of all that was to run beside it."""
    if not (shutil.which("cuobjdump") or shutil.which("nvdisasm")):
        pytest.skip("no disassembler of the CUDA toolkit")
    module = importlib.import_module("attention_warpgroups")
    program = module.attention.get_tir(1, 1, 512, 512, 128, False)
    kernel, _ = compiled(program, pass_configs=module.flash_attention.FAST)
    text = kernel._sass()
    between = re.findall(r"DEPBAR\.LE gsb0, 0x1 ;(.*?)DEPBAR\.LE gsb0, 0x0 ;", text, re.S)
    assert len(between) == 2  # of two consumers
    assert all(part.count("MUFU.EX2") >= 64 for part in between)  # of a thread's share of 64 x 128 weights
