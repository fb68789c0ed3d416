"""Golden tests: test/golden/<pass>/*.ir, each an input, a line `# ----`, and the expected text.

The input goes through `tl_opt --stop-after <pass>`; in the folder `parse` it is only parsed and printed.  A
header line `# run: …` adds arguments (`# run: --target "cuda -arch=sm_80" --skip hoist`); with its own
`--stop-after` or `--emit` it replaces the folder's pass.  Instead of an expected half a file may carry
`# error: …` at the end of the guilty line: the first message that the compiler gives, on that line, with exit
status 1.

    python tools/bless.py [--bless] [FILTER…]      FILTER: a part of the path
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "test" / "golden"
RULE = "# ----"
RUN = re.compile(r"^#\s*run:\s*(.*)$", re.M)
ERROR = re.compile(r"[ \t]*# error: ?(.*)$")
TIMEOUT = 60


def split(text: str) -> tuple[str, str | None]:
    """The input, and the expected half where there is one."""
    head, rule, tail = text.partition(f"\n{RULE}\n")
    return (head + "\n", tail) if rule else (text, None)


def arguments(folder: str, source: str) -> list[str]:
    given = [arg for line in RUN.findall(source) for arg in shlex.split(line)]
    own = any(arg.split("=")[0] in {"--stop-after", "--emit"} for arg in given)
    return given if own or folder == "parse" else ["--stop-after", folder, *given]


def run_tool(tool: Path, path: Path, source: str) -> tuple[int, str, str]:
    """tl_opt on the input half, under the golden's own name; status, stdout, stderr."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / path.name).write_text(source, encoding="utf-8")
        command = [str(tool), path.name, *arguments(path.parent.name, source)]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            return -1, "", f"no end after {TIMEOUT} s"
    return done.returncode, done.stdout, done.stderr


def first_error(name: str, stderr: str) -> tuple[int, str] | None:
    """Line and text of the first diagnostic."""
    m = re.search(rf"^(?:.*/)?{re.escape(name)}:(\d+):\d+: error: (.*)$", stderr, re.M)
    return (int(m[1]), m[2].strip()) if m else None


def with_error(source: str, line: int, text: str) -> str:
    """The input with its `# error:` comments replaced by this one."""
    lines = [ERROR.sub("", s) for s in source.split("\n")]
    lines[line - 1] += f"  # error: {text}"
    return "\n".join(lines)


def updated(tool: Path, path: Path, text: str) -> tuple[str | None, str]:
    """What the file should say, or None and why it cannot be told."""
    source, expected = split(text)
    status, out, err = run_tool(tool, path, source)
    wants_error = any(ERROR.search(line) for line in source.split("\n"))
    if status not in (0, 1):
        return None, f"tl_opt ended with status {status}\n{err}"
    if status == 1:
        found = first_error(path.name, err)
        if found is None:
            return None, f"tl_opt failed without file:line:column\n{err}"
        if not wants_error and expected:
            return None, err
        return with_error(source, *found), ""
    if wants_error:
        return None, "an error was expected; tl_opt found none"
    return f"{source.rstrip()}\n{RULE}\n{out.rstrip()}\n", ""


def check(tool: Path, path: Path, bless: bool) -> tuple[bool, str]:
    """Whether the file stands (or was rewritten), and what to print."""
    name = path.relative_to(ROOT)
    text = path.read_text(encoding="utf-8")
    new, why = updated(tool, path, text)
    if new is None:
        return False, f"FAILED {name}: {why.rstrip()}\n"
    if new == text:
        return True, ""
    if bless:
        path.write_text(new, encoding="utf-8")
        return True, f"blessed {name}\n"
    diff = difflib.unified_diff(text.splitlines(True), new.splitlines(True), f"{name} (expected)", "now")
    return False, f"FAILED {name}\n{''.join(diff)}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Check the goldens, or rewrite them.")
    parser.add_argument("--bless", action="store_true", help="rewrite what differs")
    parser.add_argument("--tool", type=Path, default=ROOT / "build/release/tl_opt", help="the tl_opt to run")
    parser.add_argument("filters", nargs="*", metavar="FILTER", help="a part of the path")
    args = parser.parse_args()
    files = sorted(GOLDEN.rglob("*.ir"))
    if args.filters:
        files = [path for path in files if any(part in str(path) for part in args.filters)]
    if files and not args.tool.exists():
        print(f"golden: {args.tool} does not exist: make build")
        return 1
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda path: check(args.tool.resolve(), path, args.bless), files))
    sys.stdout.write("".join(said for _, said in results))
    failed = sum(not good for good, _ in results)
    print(f"golden: {len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
