"""The two fronts describe one program: the C++ example's text IR is that of its Python twin, and it runs."""

import os
import subprocess
from pathlib import Path

import pytest
from helpers import load

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("TL_BUILD", ROOT / "build" / "release"))
EXAMPLE = BUILD / "example_gemm_relu"

pytestmark = pytest.mark.skipif(not EXAMPLE.exists(), reason=f"{EXAMPLE} is not built (cmake -DTL_TESTS=ON)")


def run(*args):
    return subprocess.run([EXAMPLE, *map(str, args)], capture_output=True, text=True)


@pytest.mark.parametrize("sizes", [(200, 300, 100), (128, 64, 32)])
def test_cpp_and_python_make_one_program(sizes):
    twin = load(ROOT / "examples" / "gemm_relu.py").gemm_relu.get_tir(*sizes)
    assert run("--text", *sizes).stdout == twin.text


def test_the_cpp_example_runs(target):
    done = run("--target", target)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("relative error") == 4


def test_the_cpp_example_names_a_wrong_target():
    done = run("--target", "metal")
    assert done.returncode == 1 and "unknown target 'metal'" in done.stderr
