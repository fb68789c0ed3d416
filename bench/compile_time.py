"""How long the first kernel takes: import, compile without a cache, read from the disk cache.

    python bench/compile_time.py [--repeats 5] [--target cpu|cuda] [--rows import quickstart by_hand passes]

Each number is the median of so many fresh processes (and the least). `import` is `import tilelang` over an
empty Python, `language` that and `import tilelang.language`. `compile` and `cached` are the kernel of
examples/quickstart, from its Python function to a kernel that can be called, after the interpreter,
tilelang and NumPy, which the example asks for, are there, and on a GPU PyTorch and its context; `first call`
is the call of the cached one for 64 x 64 x 64.  On a GPU the kernel is that for float16, by mma.sync.
The rows `by hand` are examples/gemm_warpgroups for 4096 x 4096 x 4096, compiled for sm_90a, which needs no
GPU (for a CPU they are left out unless they are asked for); `cached` is its Python and the look-up.
The rows `passes of …` are the compiler's passes alone, front end and device compiler aside, for the tiles
that an example takes on a GPU, in the simulator of an sm_90.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

IMPORT = """
import sys, time
begin = time.perf_counter()
import tilelang
middle = time.perf_counter()
import tilelang.language
print(middle - begin, time.perf_counter() - begin)
assert not {"numpy", "torch"} & set(sys.modules), "tilelang imports NumPy or PyTorch by itself"
"""

COMPILE = """
import sys, time
sys.path.insert(0, sys.argv[1])
import numpy as np
import quickstart, tilelang
on_gpu = sys.argv[2].startswith("cuda")
tile, dtype = quickstart.TILES["gpu" if on_gpu else "cpu"], "float16" if on_gpu else "float32"
arrays = [np.zeros((64, 64), dtype) for _ in range(3)]
if on_gpu:
    import torch
    arrays = [torch.from_numpy(a).cuda() for a in arrays]
begin = time.perf_counter()
matmul = quickstart.matmul_relu.get_tir(64, 64, 64, *tile, dtype)
kernel = tilelang.compile(matmul, target=sys.argv[2])
end = time.perf_counter()
kernel(*arrays)
print(end - begin, int(kernel.from_cache), time.perf_counter() - end)
print(*(f"{name}={ms:.1f}" for name, ms in kernel.phases.items()), file=sys.stderr)
"""

BY_HAND = """
import sys, time
sys.path.insert(0, sys.argv[1])
import gemm_warpgroups, tilelang
begin = time.perf_counter()
program = gemm_warpgroups.gemm.get_tir(4096, 4096, 4096, True)
traced = time.perf_counter()
kernel = tilelang.compile(program, target="cuda -arch=sm_90a")
end = time.perf_counter()
print(end - begin, int(kernel.from_cache), traced - begin, end - traced)
print(*(f"{name}={ms:.1f}" for name, ms in kernel.phases.items()), file=sys.stderr)
"""

PASSES = """
import importlib, sys
sys.path.insert(0, sys.argv[1])
import tilelang
example = importlib.import_module(sys.argv[2])
kernel = next(iter(example.cases("gpu", **example.SMALL))).kernel
for _ in range(3):  # the first one warms up
    phases = tilelang.compile(kernel, target="sim:sm_90").phases
passes = [ms for name, ms in phases.items() if not name.startswith("print_") and name != "translate"]
print(sum(passes) / 1e3)
print(*(f"{name}={ms:.1f}" for name, ms in phases.items()), file=sys.stderr)
"""
ROWS = ("import", "quickstart", "by_hand", "passes")
EXAMPLES = ("flash_attention", "gemm_relu", "mla_decode")

BYTE_CODE = {"PYTHONDONTWRITEBYTECODE": ""}


def runs(code, repeats, *arguments, **environment):
    """What the program prints, of each run; and what it says of the last one.  Byte code is kept."""
    found, said = [], ""
    for _ in range(repeats):
        inherited = {**os.environ, **BYTE_CODE, **environment}
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, env=inherited, capture_output=True, text=True, check=True)
        found.append([1e3 * float(x) for x in done.stdout.split()])
        said = done.stderr.strip()
    return found, said


def show(name, values):
    ordered = sorted(values)
    print(f"{name:25s} {ordered[len(ordered) // 2]:7.1f} ms  least {ordered[0]:6.1f}")


def show_imports(repeats):
    runs(IMPORT, 1)  # writes the byte code
    imports = runs(IMPORT, repeats)[0]
    show("import", [x[0] for x in imports])
    show("language", [x[1] for x in imports])


def show_compilation(code, prefix, others, repeats, *arguments):
    """Without a cache, and from the disk cache; `others` names what else the program measures there."""
    fresh, said = runs(code, repeats, *arguments, TILELANG_DISABLE_CACHE="1")
    show(f"{prefix}compile", [x[0] for x in fresh])
    print("   ", said)
    with tempfile.TemporaryDirectory() as folder:
        kept = {"TILELANG_CACHE_DIR": folder, "TILELANG_DISABLE_CACHE": "0"}
        runs(code, 1, *arguments, **kept)
        again, said = runs(code, repeats, *arguments, **kept)
        assert all(x[1] for x in again), "the disk cache was not used"
        show(f"{prefix}cached", [x[0] for x in again])
        for at, name in enumerate(others, 2):
            show(f"{prefix}{name}", [x[at] for x in again])
        print("   ", said)


def show_passes(repeats, examples):
    for example in EXAMPLES:
        fresh, said = runs(PASSES, repeats, examples, example, TILELANG_DISABLE_CACHE="1")
        show(f"passes of {example}", [x[0] for x in fresh])
        print("   ", said)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--rows", nargs="*", choices=ROWS)
    options = parser.parse_args()
    wanted = options.rows or [row for row in ROWS if row != "by_hand" or options.target.startswith("cuda")]
    byte_code = tempfile.TemporaryDirectory()
    BYTE_CODE["PYTHONPYCACHEPREFIX"] = byte_code.name
    examples = str(ROOT / "examples")
    if "import" in wanted:
        show_imports(options.repeats)
    if "quickstart" in wanted:
        show_compilation(COMPILE, "", ["first call"], options.repeats, examples, options.target)
    if "by_hand" in wanted:
        parts = ["its Python", "the look-up"]
        show_compilation(BY_HAND, "by hand: ", parts, options.repeats, examples)
    if "passes" in wanted:
        show_passes(options.repeats, examples)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
