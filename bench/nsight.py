"""What Nsight Compute counts of the kernels that a program launches."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from collections.abc import Sequence


def path() -> str:
    found = shutil.which("ncu")
    if not found:
        raise SystemExit("ncu is not on the PATH")
    return found


def known_metrics() -> set[str]:
    """Their names, without what follows the dot."""
    done = subprocess.run([path(), "--query-metrics"], capture_output=True, text=True)
    return {line.split()[0] for line in done.stdout.splitlines() if "__" in line}


def counts(
    program: Sequence[str], metrics: Sequence[str], options: Sequence[str] = ()
) -> list[dict[str, int]]:
    """metric -> number, of each launch of a kernel called main in a Python program (a file and its
    arguments), in order; the clock is left as it is.
    """
    command = [path(), "--clock-control", "none", "--metrics", ",".join(metrics), "--csv"]
    command += ["--kernel-name", "main_kernel", "--print-units", "base", *options, sys.executable, *program]
    done = subprocess.run(command, capture_output=True, text=True)
    launches: dict[str, dict[str, int]] = {}
    for row in csv.DictReader(line for line in done.stdout.splitlines() if line.startswith('"')):
        launches.setdefault(row["ID"], {})[row["Metric Name"]] = int(
            float(row["Metric Value"].replace(",", ""))
        )
    if not launches:
        raise SystemExit(done.stdout + done.stderr)
    return list(launches.values())
