"""The examples check themselves; here they run, small, on every target that needs no GPU."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SMALL = ["--m", "100", "--n", "70", "--k", "130"]


@pytest.mark.parametrize("target", ["cpu", "reference", "sim:sm_80"])
@pytest.mark.parametrize("name", ["quickstart.py", "elementwise_add.py", "gemm_relu.py"])
def test_example(name, target):
    sizes = SMALL if name == "quickstart.py" else []
    command = [sys.executable, str(EXAMPLES / name), "--target", target, *sizes]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_quickstart_says_what_it_found():
    command = [sys.executable, str(EXAMPLES / "quickstart.py"), "--target", "cpu", *SMALL]
    said = subprocess.run(command, capture_output=True, text=True).stdout
    for word in ("GFLOP/s", "NumPy", "ratio", "error"):
        assert word in said
