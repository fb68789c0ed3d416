"""The examples check themselves; here they run, small, on every target that needs no GPU."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SMALL = ["--m", "100", "--n", "70", "--k", "130"]
SIZES = {
    "quickstart.py": SMALL,
    "elementwise_add.py": [],
    "gemm_relu.py": [],
    "register_mma_s8.py": [],
    "tile_op_dequant.py": [],
    "flash_attention.py": ["--heads=4", "--kv-heads=2", "--queries=100", "--keys=170", "--causal"],
    "flash_attention_varlen.py": ["--heads", "2", "--kv-heads", "1", "--longest", "150", "--batch", "3"],
    "softmax.py": ["--rows", "37", "--columns", "203"],
    "layernorm.py": ["--rows", "37", "--columns", "203"],
    "gemv.py": ["--rows", "37", "--columns", "1100"],
    "dequant_gemm.py": ["--m", "100", "--n", "70", "--k", "192"],
    "chunk_state.py": ["--length", "300", "--chunk", "128", "--heads", "2", "--groups", "1"],
    "chunk_scan.py": ["--length", "300", "--chunk", "128", "--heads", "2", "--groups", "1"],
    "mla_decode.py": ["--heads", "40", "--keys", "70", "--batch", "1", "--dim", "256"],
}


@pytest.mark.parametrize("target", ["cpu", "reference", "sim:sm_80"])
@pytest.mark.parametrize("name", SIZES)
def test_example(name, target):
    command = [sys.executable, str(EXAMPLES / name), "--target", target, *SIZES[name]]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_quickstart_says_what_it_found():
    command = [sys.executable, str(EXAMPLES / "quickstart.py"), "--target", "cpu", *SMALL]
    said = subprocess.run(command, capture_output=True, text=True).stdout
    for word in ("GFLOP/s", "NumPy", "ratio", "error"):
        assert word in said
