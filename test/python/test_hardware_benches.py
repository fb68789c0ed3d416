"""What is compared with a GPU now and then: the parts that need none."""

import subprocess
import sys
from pathlib import Path

from tilelang import _core

BENCH = Path(__file__).resolve().parents[2] / "bench"


def run(*arguments):
    done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_row_of_the_chip_has_programs():
    listed = run(BENCH / "rows", "--list").splitlines()
    for row in _core.instruction_rows("sm_90"):
        assert any(f" {row['name']}: " in line for line in listed), row
    assert all(int(line.rpartition(": ")[2]) > 0 for line in listed)


def test_the_simulator_finds_the_planted_bugs():
    assert "missed: 0" in run(BENCH / "sanitizer.py", "--dry")
