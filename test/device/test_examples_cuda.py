"""The examples on a GPU: at their small and their usual sizes, and the newer ones at sizes of real models."""

import importlib
from pathlib import Path

import harness
import pytest
import tilelang

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

NAMES = sorted(path.stem for path in Path(harness.__file__).parent.glob("*.py") if path.stem != "harness")
LARGE = {
    "convolution": {"batch": 8, "height": 56, "width": 56, "channels": 64, "filters": 64},
    "cross_entropy": {"rows": 512, "columns": 128256},
    "gemm_fp8": {"m": 4096, "n": 4096, "k": 7168},
    "gemm_grouped": {"groups": 8, "longest": 1024, "n": 4096, "k": 2048},
    "gemm_int4": {"m": 4096, "n": 8192, "k": 8192},
    "gemm_int8": {"m": 4096, "n": 8192, "k": 8192},
    "gemm_splitk": {"m": 16, "n": 8192, "k": 16384, "parts": 8},
    "gemm_streamk": {"m": 4096, "n": 4096, "k": 8192},
    "gemm_w4a16": {"m": 4096, "n": 8192, "k": 8192},
    "hadamard": {"rows": 8192, "columns": 2048},
    "histogram": {"length": 1 << 26, "bins": 256},
    "layernorm": {"rows": 4096, "columns": 4096},
    "linear_attention": {"batch": 1, "heads": 8, "length": 4096, "dim": 128},
    "rope": {"batch": 1, "length": 8192, "heads": 32, "dim": 128},
    "softmax": {"rows": 4096, "columns": 4096},
    "topk": {"rows": 16384, "columns": 256, "k": 8},
}


def check(name, **sizes):
    for case in importlib.import_module(name).cases("gpu", **sizes):
        right, said = harness.judge(case, "cuda")
        assert right, said


@pytest.mark.parametrize("name", NAMES)
def test_small(name):
    check(name, **importlib.import_module(name).SMALL)


@pytest.mark.parametrize("name", NAMES)
def test_usual(name):
    check(name)


@pytest.mark.parametrize("name", LARGE)
def test_large(name):
    check(name, **LARGE[name])


@pytest.mark.parametrize("name", NAMES)
def test_simulator_agrees(name):
    """The simulator runs the program that the GPU gets: both make the same, but for the order of sums."""
    module = importlib.import_module(name)
    chip = tilelang.resolve_target("cuda").split("-arch=")[1]
    for case in module.cases("gpu", **module.SMALL):
        found = []
        for target in ("cuda", f"sim:{chip}"):
            kernel = case.compiled(target)
            arguments = [harness.put(kernel, value) for value in case.arguments]
            kernel(*arguments)
            found.append([harness.get(arguments[i]) for i in case.expected])
        for gpu, simulated in zip(*found, strict=True):
            assert harness.error_of(gpu, simulated) <= case.bound
