"""`tl_opt run --level machine`: the program as it is, simulated, what is wrong with it told at its line."""

import subprocess
from pathlib import Path

import pytest

TL_OPT = Path(__file__).resolve().parents[2] / "build/release/tl_opt"
PROGRAM = """
func main(A: f32[64], B: f32[64]):
  kernel main grid(bx: 1) threads(64) thread(tx):
    S = shared f32[64] layout((i) -> i) address(0) elements(64)
    S[tx] = A[tx]
    sync_threads()
    B[tx] = S[63 - tx]
"""

pytestmark = pytest.mark.skipif(not TL_OPT.exists(), reason="tl_opt is not built")


def run(text, *options, level="machine", target="sim:sm_90"):
    command = [TL_OPT, "run", "--level", level, "--target", target, "-", *options]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)


def test_no_pass_puts_in_what_the_program_lacks():
    for seed in "0", "7":
        faulty = run(PROGRAM.replace("    sync_threads()\n", ""), "--seed", seed, "--schedules", "3")
        assert faulty.returncode == 1 and "data race on S[" in faulty.stderr, faulty.stderr
        whole = run(PROGRAM, "--seed", seed, "--schedules", "3")
        assert whole.returncode == 0 and whole.stdout.startswith("B: 64 elements of f32"), whole.stderr


def test_what_cannot_be_run_is_said():
    for result, says in [
        (run(PROGRAM, level="thread"), "a program of level thread cannot be run"),
        (run(PROGRAM, "--check"), "the reference runs programs of level tile"),
        (run(PROGRAM, target="cpu"), "machine"),
    ]:
        assert result.returncode == 1 and says in result.stderr
