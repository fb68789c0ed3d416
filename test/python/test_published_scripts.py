"""Scripts in the published style, test/published: each runs as it is and checks itself against PyTorch.

They say nothing of targets. Here they run on the CPU, or in the simulator where they are written by threads,
because TILELANG_DEFAULT_TARGET says so; and each kernel that they made is compiled for a GPU as well.
"""

import re
import runpy
import sys
from pathlib import Path

import pytest
import tilelang

torch = pytest.importorskip("torch")
if torch.cuda.is_available():
    pytest.skip("test/device runs the scripts on the GPU", allow_module_level=True)

SCRIPTS = Path(__file__).resolve().parents[1] / "published"
NAMES = sorted(path.stem for path in SCRIPTS.glob("*.py"))
WITHOUT_KERNELS = ("carver_hints", "layouts_and_analysis")
BY_THREADS = ("dp4a_gemv", "gemv", "hadamard", "mma_by_hand")


def compile_for_a_gpu(kernels):
    for program in {str(kernel.prim_func): kernel.prim_func for kernel in kernels}.values():
        source = tilelang.compile(program, target="cuda -arch=sm_90").get_kernel_source()
        assert "__global__" in source


@pytest.mark.parametrize("name", NAMES)
def test_script(name, monkeypatch, capsys, kernels):
    path = str(SCRIPTS / f"{name}.py")
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "sim:sm_90" if name in BY_THREADS else "cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.syspath_prepend(str(SCRIPTS))
    # A script that reads no options must not look at those of pytest.
    takes_options = "argparse" in Path(path).read_text()
    monkeypatch.setattr(sys, "argv", [path] if takes_options else [path, "--not-an-option", "x"])
    torch.manual_seed(0)
    runpy.run_path(path, run_name="__main__")
    assert bool(kernels) == (name not in WITHOUT_KERNELS)
    compile_for_a_gpu(kernels)


def test_a_regression_function_is_named_and_measured(monkeypatch, capsys):
    """The table of tilelang.testing.regression names every case of the suite, with its latency."""
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.syspath_prepend(str(SCRIPTS))
    monkeypatch.setattr(sys, "argv", ["regression_suite.py"])
    runpy.run_path(str(SCRIPTS / "regression_suite.py"), run_name="__main__")
    said = capsys.readouterr().out
    for name in ("lazy_gemm", "gemm, a tall one", "row_softmax", "dynamic_add"):
        assert re.search(rf"{name}\W+\d+\.\d+", said), said
