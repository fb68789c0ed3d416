"""`tl_opt --skip PASS`: a pass that another one needs ends in a message that names both."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TL_OPT = ROOT / "build/release/tl_opt"
INPUT = ROOT / "test/golden/insert_sync/branch.ir"
NEEDED_BY = {
    "canonicalize": "infer_layouts",
    "infer_layouts": "lower_tile_ops",
    "lower_tile_ops": "",
    "flatten_buffers": "vectorize",
    "vectorize": "",
    "plan_memory": "",
}
OPTIONAL = """
    rasterize pipeline_loops peel_blocks guard_bounds narrow_index fuse_loops hoist_invariants
    insert_sync keep_results gather_warps unroll
""".split()

pytestmark = pytest.mark.skipif(not TL_OPT.exists(), reason="tl_opt is not built")


def run(*arguments):
    text = INPUT.read_text().split("# ----")[0]
    command = [TL_OPT, "--target", "cuda -arch=sm_80", "--emit", "source", "-", *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("name", NEEDED_BY)
def test_a_pass_that_others_need(name):
    result = run("--skip", name)
    assert result.returncode == 1, result.stderr
    assert f"needs a pass that was skipped ({name})" in result.stderr, result.stderr
    assert NEEDED_BY[name] in result.stderr
    assert "internal error" not in result.stderr.split("what is missing")[0]


@pytest.mark.parametrize("name", OPTIONAL)
def test_a_pass_that_may_be_left_out(name):
    result = run("--skip", name)
    assert result.returncode == 0, result.stderr
    assert "__global__" in result.stdout
