"""Fills in what the snippets of docs/simulator.md print, or raise: each ```text after a ```python.

Usage:
    python tools/doc_outputs.py [--check]      --check: status 1 where the page says something else
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import linecache
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent.parent / "docs" / "simulator.md"
PAIR = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```\n", re.S | re.M)


def output_of(code: str, scope: dict[str, Any]) -> str:
    """What running it as kernel.py prints and raises."""
    import tilelang

    said, before = io.StringIO(), os.getcwd()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(said):
        os.chdir(folder)  # messages name the file as it is given, and quote it
        Path("kernel.py").write_text(code)
        linecache.checkcache()
        try:
            exec(compile(code, "kernel.py", "exec"), scope)
        except tilelang.CompileError as error:
            print(error)
        finally:
            os.chdir(before)
    return said.getvalue()


def filled(text: str) -> str:
    """The page with every output as it is now."""
    scope: dict[str, Any] = {"__name__": "snippet"}
    return PAIR.sub(lambda m: f"```python\n{m[1]}```\n\n```text\n{output_of(m[1], scope)}```\n", text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    old = PAGE.read_text()
    now = filled(old)
    if now != old and not check:
        PAGE.write_text(now)
    if now != old and check:
        lines = old.splitlines(True), now.splitlines(True)
        sys.stdout.writelines(difflib.unified_diff(*lines, PAGE.name, "now"))
    return int(check and now != old)


if __name__ == "__main__":
    sys.exit(main())
