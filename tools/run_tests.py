"""All tests, for `make test`: pytest on as many cores as there are, and beside it, one after the other, the
C++ tests and the goldens.  pytest is seen as it runs, the others when they are done; the table at the end
names each, with its time and how it ended, and the exit status is 1 if any failed.

    python tools/run_tests.py [JOBS]      JOBS: workers of pytest; 1 is pytest without pytest-xdist
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST_JOBS = 8  # each worker holds NumPy, maybe PyTorch


@dataclass
class Run:
    name: str
    command: list[str]
    output: bytes = b""
    status: int | None = None
    seconds: float = 0

    def go(self, seen: bool) -> None:
        begin = time.monotonic()
        try:
            pipe = {} if seen else {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
            done = subprocess.run(self.command, cwd=ROOT, **pipe)
            self.status, self.output = done.returncode, done.stdout or b""
        except OSError as error:
            self.status, self.output = -1, f"{error}\n".encode()
        self.seconds = time.monotonic() - begin

    def __str__(self) -> str:
        how = "ok" if self.status == 0 else "not run" if self.status is None else f"FAILED ({self.status})"
        return f"  {self.name:<10} {self.seconds:6.1f} s   {how}"


def keep_compiled_python() -> None:
    """Keeps compiled Python in build/, also where the environment says that none is written: else each
    process of the tests would compile the package, and pytest its tests, again."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(ROOT / "build" / "pycache")


def show_pip_nvrtc() -> None:
    """Names pip's NVRTC to the C++ tests, which would find the toolkit's only and compile no CUDA text."""
    folders = [str(folder) for entry in sys.path for folder in Path(entry).glob("nvidia/*/lib")]
    os.environ["LD_LIBRARY_PATH"] = ":".join(filter(None, [os.environ.get("LD_LIBRARY_PATH"), *folders]))


def main() -> int:
    keep_compiled_python()
    show_pip_nvrtc()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy's waiting threads would spin on busy cores
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else min(MOST_JOBS, len(os.sched_getaffinity(0)))
    # What needs a GPU stays on one worker (test/conftest.py), hence loadgroup.
    spread = ["-n", str(jobs), "--dist", "loadgroup"] if jobs > 1 else []
    python = Run("pytest", [sys.executable, "-m", "pytest", "--durations=20", "--durations-min=5", *spread])
    beside = [
        Run("tl_unit", ["build/release/tl_unit"]),
        Run("tl_fuzz", ["build/release/tl_fuzz"]),
        Run("goldens", [sys.executable, "tools/bless.py"]),
    ]
    others = threading.Thread(target=lambda: [run.go(seen=False) for run in beside], daemon=True)
    others.start()
    python.go(seen=True)
    others.join()
    for run in beside:
        print(f"== {run.name}", flush=True)
        sys.stdout.buffer.write(run.output)
        sys.stdout.buffer.flush()
    print("== tests")
    for run in [python, *beside]:
        print(run)
    return int(any(run.status != 0 for run in [python, *beside]))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
