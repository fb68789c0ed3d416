"""A user's matrix instruction and a user's tile operator on a GPU: the examples, which are exact or fail."""

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize("name", ["register_mma_s8.py", "tile_op_dequant.py"])
def test_example(name):
    command = [sys.executable, str(EXAMPLES / name), "--target", "cuda"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cuda -arch=" in done.stdout and "exact" in done.stdout
