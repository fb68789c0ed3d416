"""Bank conflicts of GEMM tiles, counted exactly: what the copies write and what the multiplication reads.

Every access to shared memory of the compiled program, by tl_opt's notes (measure_access): bank cycles
beside the least that so many bytes need.  No GPU is asked.  Exits with 1 if a program by tensor cores has a
conflict, in ldmatrix or in the copy before it.

    python bench/bank_conflicts.py [--out bench/results/DATE-banks.md]
"""

from __future__ import annotations

import argparse
import itertools
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TL_OPT = Path(__file__).resolve().parents[1] / "build" / "release" / "tl_opt"
TILES = [
    (128, 128, 32), (128, 128, 64), (64, 128, 128), (128, 256, 64), (64, 64, 16), (64, 64, 24), (64, 64, 40),
    (64, 64, 72), (64, 64, 80), (64, 64, 96), (96, 96, 48), (80, 72, 24), (48, 40, 56), (32, 24, 32),
]  # fmt: skip
TYPES = {"f16": "f32", "bf16": "f32", "f32": "f32", "f64": "f64", "i8": "i32", "u8": "i32", "i16": "i32"}
LINE = re.compile(r"measure_access (\w+): (.*): (\d+) bank cycles?, (?:at least (\d+)|the least)")


def program(dtype: str, tile: tuple[int, int, int], trans_a: bool, trans_b: bool) -> str:
    m, n, k = tile
    a, b = ((k, m) if trans_a else (m, k)), ((n, k) if trans_b else (k, n))
    flags = ", ".join(name for name, on in (("trans_a=1", trans_a), ("trans_b=1", trans_b)) if on)
    a_at = "A[i*{}:, by*{}:]" if trans_a else "A[by*{}:, i*{}:]"
    b_at = "B[bx*{}:, i*{}:]" if trans_b else "B[i*{}:, bx*{}:]"
    return f"""func gemm(A: {dtype}[{a[0] * 4}, {a[1] * 4}], B: {dtype}[{b[0] * 4}, {b[1] * 4}], C: {TYPES[dtype]}[{m * 4}, {n * 4}]):
  kernel gemm grid(bx: 4, by: 4) threads(128):
    As = shared {dtype}[{a[0]}, {a[1]}]
    Bs = shared {dtype}[{b[0]}, {b[1]}]
    Cl = fragment {TYPES[dtype]}[{m}, {n}]
    clear(Cl)
    for i in serial(4):
      copy({a_at.format(*a)}, As)
      copy({b_at.format(*b)}, Bs)
      gemm(As, Bs, Cl){" {" + flags + "}" if flags else ""}
    copy(Cl, C[by*{m}:, bx*{n}:])
"""  # noqa: E501


def measure(case: tuple) -> dict:
    """The accesses of one program: (who, count, least), and which strategy ran it."""
    text = program(*case)
    args = [TL_OPT, "--target", "cuda -arch=sm_90", "--emit", "notes", "-"]
    done = subprocess.run(args, input=text, capture_output=True, text=True)
    if done.returncode:
        return {"case": case, "refused": done.stderr.strip().splitlines()[0].split("error: ")[-1]}
    lines = map(LINE.match, done.stdout.splitlines())
    found = [(m[1], m[2], int(m[3]), int(m[4] or m[3])) for m in lines if m]
    return {"case": case, "mma": " gemm: mma" in done.stdout, "accesses": found}


SHORT = ((" bytes a lane", ""), ("written", "w"), ("read by ldmatrix_", ""), ("read", "r"), (" in ", "/"),
         (" accesses", ""))  # fmt: skip


def excess(result: dict) -> int:
    return sum(count - least for _, _, count, least in result["accesses"])


def cell(result: dict, buffer: str) -> str:
    parts = []
    for name, how, count, least in result["accesses"]:
        if name != buffer:
            continue
        for long, short in SHORT:
            how = how.replace(long, short)
        parts.append(f"{how} {count}" + (f" (≥ {least})" if count > least else ""))
    return ", ".join(dict.fromkeys(parts))


def table(results: list[dict]) -> str:
    rows = [
        "| type | A | B | tile | by | As: bank cycles | Bs: bank cycles | excess |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in results:
        dtype, (m, n, k), ta, tb = r["case"]
        head = f"| {dtype} | {'[K, M]' if ta else '[M, K]'} | {'[N, K]' if tb else '[K, N]'} | {m}×{n}×{k} "
        if "refused" in r:
            rows.append(head + f"| refused: {r['refused']} | | | |")
        else:
            by = "mma" if r["mma"] else "fma"
            rows.append(head + f"| {by} | {cell(r, 'As')} | {cell(r, 'Bs')} | {excess(r)} |")
    return "\n".join(rows)


def summary(results: list[dict]) -> str:
    ran = [r for r in results if "accesses" in r]
    mma, fma = [excess(r) for r in ran if r["mma"]], [excess(r) for r in ran if not r["mma"]]
    reads = Counter(c - least for r in ran for _, how, c, least in r["accesses"] if how.startswith("read"))
    counts = ", ".join(f"{n}: {c}" for n, c in sorted(reads.items()))
    return (
        f"{len(results)} programs, {len(results) - len(ran)} refused.\n"
        f"By tensor cores: {len(mma)}, of which {sum(e > 0 for e in mma)} have a conflict.\n"
        f"By multiply-adds: {len(fma)}, of which {sum(e == 0 for e in fma)} have none.\n"
        f"Excess bank cycles of a read, and how many reads have it: {counts}."
    )


HEAD = """# Bank conflicts of GEMM tiles

Every access to the tiles in shared memory of the compiled program (sm_90, 128 threads), counted lane by lane
by the pass `measure_access`; the worst of 16 points of the loops and warps. `w 16 4` is a write of 16 bytes a
lane in 4 bank cycles, `r 16/4` a read of 16 bytes in 4 accesses, `x4` a read by ldmatrix; `(≥ n)`: n would be
the least for so many bytes, in any layout. `python bench/bank_conflicts.py`.

"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    cases = list(itertools.product(TYPES, TILES, (False, True), (False, True)))
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(measure, cases))
    print(summary(results))
    if options.out:
        options.out.write_text(HEAD + summary(results) + "\n\n" + table(results) + "\n")
    return 1 if any(excess(r) for r in results if r.get("mma")) else 0


if __name__ == "__main__":
    sys.exit(main())
