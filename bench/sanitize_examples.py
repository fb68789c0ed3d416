"""All examples under compute-sanitizer on a GPU: memcheck, racecheck and synccheck, each in its own process.

The sizes are those of the tests (`SMALL` of each example): few blocks, few steps, ragged edges.  A run counts
as clean where the example's own check passes and the tool prints its summary without a finding; a tool that
says nothing is a failure.

    python bench/sanitize_examples.py [--jobs 14] [EXAMPLE…]    a Markdown table; status 1 if not all clean
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
TOOLS = ("memcheck", "racecheck", "synccheck")
SUMMARY = re.compile(r"(?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)")
# What each process runs; kernels are compiled before, so that no tool watches the device compiler.
RUN = """
import importlib, sys
import harness
module = importlib.import_module(sys.argv[1])
for case in module.cases(harness.kind_of("cuda", getattr(module, "TILES", ())), **module.SMALL):
    right, said = harness.judge(case, "cuda")
    print(said)
    assert right, said
"""


def names() -> list[str]:
    return sorted(path.stem for path in EXAMPLES.glob("*.py") if "\nSMALL = " in path.read_text())


def judge(name: str, tool: str) -> str:
    """Empty where it is clean, else what was found."""
    command = [sys.executable, "-c", RUN, name]
    if tool:
        command = [shutil.which("compute-sanitizer") or "compute-sanitizer", "--tool", tool, *command]
    paths = [str(EXAMPLES), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    said = done.stdout + done.stderr
    if done.returncode:
        return f"status {done.returncode}: {said.strip().splitlines()[-1][:120] if said.strip() else ''}"
    if not tool:
        return ""
    found = SUMMARY.search(said)
    if not found:
        return "no summary"
    count = int(found.group(1) or found.group(2) or 0)
    return f"{count} findings" if count else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=14)
    parser.add_argument("examples", nargs="*")
    o = parser.parse_args()
    asked = o.examples or names()
    with ThreadPoolExecutor(o.jobs) as pool:
        plain = dict(zip(asked, pool.map(lambda n: judge(n, ""), asked), strict=True))  # compiles, too
        jobs = [(name, tool) for name in asked for tool in TOOLS]
        found = dict(zip(jobs, pool.map(lambda job: judge(*job), jobs), strict=True))
    print(f"| example | alone | {' | '.join(TOOLS)} |\n|---|---|{'---|' * len(TOOLS)}")
    for name in asked:
        cells = [plain[name], *(found[name, tool] for tool in TOOLS)]
        print(f"| {name} | {' | '.join(cell or 'clean' for cell in cells)} |")
    bad = sum(bool(text) for text in [*plain.values(), *found.values()])
    print(f"\nRuns: {len(plain) + len(found)}, not clean: {bad}")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
