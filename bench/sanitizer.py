"""Planted bugs under compute-sanitizer and in the simulator: who finds what.

Each bug is a small kernel, some without a pass that would have mended it (`skip`); each runs under each tool
in a process of its own.  What a tool of compute-sanitizer finds the simulator must find, too; a sound kernel
is the control.

    python bench/sanitizer.py --dry           the simulator alone; no GPU needed
    python bench/sanitizer.py                 on a GPU, a Markdown table; exits with 1 where the simulator
                                              misses one
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import tilelang.language as T
from tilelang import _core

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
N = 128
Vector = T.Tensor((N,), "float32")


def sound():
    @T.prim_func
    def main(A: Vector, B: Vector):
        with T.Kernel(1, threads=N):
            S = T.alloc_shared((N,), "float32")
            tx = T.get_thread_binding()
            S[tx] = A[tx]
            T.sync_threads()
            B[tx] = S[N - 1 - tx]

    return main


# ── races ─────────────────────────────────────────────────────────────────────────────────────────────
def missing_barrier():
    @T.prim_func
    def main(A: Vector, B: Vector):
        with T.Kernel(1, threads=N):
            S = T.alloc_shared((N,), "float32")
            tx = T.get_thread_binding()
            S[tx] = A[tx]
            B[tx] = S[N - 1 - tx]

    return main


def missing_barrier_in_loop():
    """The next trip writes what others still read."""

    @T.prim_func
    def main(A: Vector, B: Vector):
        with T.Kernel(1, threads=N):
            S = T.alloc_shared((N,), "float32")
            tx = T.get_thread_binding()
            B[tx] = 0.0
            for k in T.serial(4):
                S[tx] = A[tx] + k
                T.sync_threads()
                B[tx] = B[tx] + S[N - 1 - tx]

    return main


def barrier_of_a_warp():
    """Warps exchange data, but only those of one warp wait."""

    @T.prim_func
    def main(A: Vector, B: Vector):
        with T.Kernel(1, threads=N):
            S = T.alloc_shared((N,), "float32")
            tx = T.get_thread_binding()
            S[tx] = A[tx]
            T.sync_warp()
            B[tx] = S[N - 1 - tx]

    return main


def two_writers():
    @T.prim_func
    def main(A: Vector, B: Vector):
        with T.Kernel(1, threads=N):
            S = T.alloc_shared((N // 2,), "float32")
            tx = T.get_thread_binding()
            S[tx % 64] = A[tx]
            T.sync_threads()
            B[tx] = S[tx % 64]

    return main


def race_of_blocks():
    @T.prim_func
    def main(A: Vector, B: Vector):
        with T.Kernel(4, threads=32) as bx:
            tx = T.get_thread_binding()
            B[tx] = A[bx * 32 + tx]

    return main


# ── addresses ─────────────────────────────────────────────────────────────────────────────────────────
def tensor_read_outside():
    @T.prim_func
    def main(A: Vector, B: Vector):
        with T.Kernel(1, threads=N):
            tx = T.get_thread_binding()
            B[tx] = A[tx + 1000]

    return main


def tensor_written_outside():
    @T.prim_func
    def main(A: Vector, B: Vector):
        with T.Kernel(1, threads=N):
            tx = T.get_thread_binding()
            B[tx * 9] = A[tx]

    return main


def tensor_read_just_outside():
    """By one element: of the last allocation of its kind, or into whatever lies behind it."""

    @T.prim_func
    def main(A: Vector, B: Vector):
        with T.Kernel(1, threads=N):
            tx = T.get_thread_binding()
            B[tx] = A[tx + 1]

    return main


def tile_read_outside():
    @T.prim_func
    def main(A: Vector, B: Vector):
        with T.Kernel(1, threads=N):
            S = T.alloc_shared((N,), "float32")
            tx = T.get_thread_binding()
            S[tx] = A[tx]
            T.sync_threads()
            B[tx] = S[tx * 512]

    return main


def tile_read_in_its_neighbour():
    @T.prim_func
    def main(A: Vector, B: Vector):
        with T.Kernel(1, threads=N):
            S = T.alloc_shared((N,), "float32")
            R = T.alloc_shared((N,), "float32")
            tx = T.get_thread_binding()
            S[tx] = A[tx]
            R[tx] = A[tx] * 2
            T.sync_threads()
            B[tx] = S[tx + 64] + R[tx]

    return main


def misaligned():
    @T.prim_func
    def main(A: Vector, B: Vector, first: T.int32):
        with T.Kernel(1, threads=1):
            T.stg128(B[first], T.ldg128(A[0]))

    return main


# ── what nobody has written ───────────────────────────────────────────────────────────────────────────
def unwritten_tensor():
    @T.prim_func
    def main(A: Vector, B: Vector):
        with T.Kernel(1, threads=N):
            tx = T.get_thread_binding()
            B[tx] = B[tx] + A[tx]

    return main


def unwritten_tile():
    @T.prim_func
    def main(A: Vector, B: Vector):
        with T.Kernel(1, threads=N):
            S = T.alloc_shared((N,), "float32")
            tx = T.get_thread_binding()
            if tx < 64:
                S[tx] = A[tx]
            T.sync_threads()
            B[tx] = S[tx]

    return main


# ── barriers ──────────────────────────────────────────────────────────────────────────────────────────
def divergent_barrier():
    @T.prim_func
    def main(A: Vector, B: Vector):
        with T.Kernel(1, threads=N):
            tx = T.get_thread_binding()
            if tx < 48:
                T.sync_threads()
            B[tx] = A[tx]

    return main


def shuffle_without_all():
    @T.prim_func
    def main(A: Vector, B: Vector):
        with T.Kernel(1, threads=N):
            tx = T.get_thread_binding()
            B[tx] = A[tx]
            if tx % 32 < 16:
                B[tx] = T.shfl_xor(A[tx], 1)

    return main


@dataclass(frozen=True)
class Bug:
    make: Callable
    finds: str  # the kind of the simulator's finding; "": nothing
    skip: tuple[str, ...] = ()
    why: str = ""  # why no tool of compute-sanitizer finds it, where none does

    @property
    def name(self) -> str:
        return self.make.__name__.replace("_", " ")


BUGS = [
    Bug(sound, ""),
    Bug(missing_barrier, "race", ("insert_sync",)),
    Bug(missing_barrier_in_loop, "race", ("insert_sync",)),
    Bug(barrier_of_a_warp, "race", ("insert_sync",)),
    Bug(two_writers, "race", ("insert_sync",)),
    Bug(race_of_blocks, "race", (), "racecheck looks at shared memory alone"),
    Bug(tensor_read_outside, "outside", ("guard_bounds",)),
    Bug(tensor_written_outside, "outside", ("guard_bounds",)),
    Bug(tensor_read_just_outside, "outside", ("guard_bounds",), "another tensor lies right behind this one"),
    Bug(tile_read_outside, "outside", ("guard_bounds",)),
    Bug(
        tile_read_in_its_neighbour,
        "outside",
        ("guard_bounds",),
        "memcheck knows the block's shared memory as one",
    ),
    Bug(misaligned, "misaligned"),
    Bug(unwritten_tensor, "unwritten"),
    Bug(unwritten_tile, "unwritten", (), "initcheck looks at global memory alone"),
    Bug(divergent_barrier, "barrier"),
    Bug(
        shuffle_without_all,
        "divergence",
        (),
        "synccheck knows barriers and the mask of a shuffle, not who executes it",
    ),
]


# ── running ───────────────────────────────────────────────────────────────────────────────────────────
def arguments(kernel: object) -> list:
    """A counts, B has not been written, a number is 2."""
    tensors = [np.arange(N, dtype=np.float32), np.zeros(N, np.float32)]
    return tensors + [2] * (len(kernel.params) - 2)


def compiled(bug: Bug, target: str) -> object:
    return _core.compile(bug.make().function, target, {"cache": False, "skip": list(bug.skip)})


def simulated(bug: Bug) -> str:
    """The kinds of what is found, in the program that the chip runs, too."""
    compiled(bug, "cuda -arch=sm_90")
    kernel = compiled(bug, "sim:sm_90")
    report = kernel.simulate(arguments(kernel), [1], 0, 1, [], 0, True, False, None)
    return ", ".join(sorted({f["kind"] for f in report["findings"]}))


def launch(name: str) -> None:
    import torch

    bug = next(b for b in BUGS if b.name == name)
    kernel = compiled(bug, "cuda")
    given = arguments(kernel)
    given[0] = torch.from_numpy(given[0]).cuda()
    given[1] = torch.empty(N, device="cuda")
    kernel.launch(given, 0)
    torch.cuda.synchronize()


def sanitized(bug: Bug, tool: str) -> str:
    """The first thing that the tool says of our kernel; "" if nothing."""
    path = shutil.which("compute-sanitizer")
    if not path:
        raise SystemExit("compute-sanitizer is not on the PATH")
    command = [path, "--tool", tool, sys.executable, __file__, "--launch", bug.name]
    # Each tensor its own allocation, so that its end is one.
    env = os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=300)
    said = [
        line.removeprefix("=========").strip()
        for line in done.stdout.splitlines()
        if line.startswith("=========")
    ]
    if not any("SUMMARY" in line for line in said):
        raise SystemExit(f"compute-sanitizer did not run {bug.name}:\n{done.stdout}{done.stderr}")
    for before, line in zip(["", *said], said, strict=False):
        if "main_kernel" in line:
            return re.sub(
                r" access at .*| in main_kernel.*", "", line if "Race" in line or not before else before
            )
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dry", action="store_true")
    parser.add_argument("--launch", metavar="BUG")
    options = parser.parse_args()
    if options.launch:
        launch(options.launch)
        return 0
    with ThreadPoolExecutor(8) as pool:
        asked = {} if options.dry else {(b, t): pool.submit(sanitized, b, t) for b in BUGS for t in TOOLS}
    missed = []
    print(f"| bug | simulator | {' | '.join(TOOLS)} | why they differ |\n|{'---|' * (3 + len(TOOLS))}")
    for bug in BUGS:
        mine, theirs = simulated(bug), [asked[bug, tool].result() if asked else "" for tool in TOOLS]
        print(f"| {bug.name} | {mine} | {' | '.join(theirs)} | {'' if any(theirs) else bug.why} |")
        if bug.finds not in mine.split(", ") or (any(theirs) and not mine):
            missed.append(f"{bug.name}: expected {bug.finds or 'nothing'}, found {mine or 'nothing'}")
    print(f"\nPlanted bugs: {len(BUGS) - 1}, missed: {len(missed)}")
    print("\n".join(missed))
    return bool(missed)


if __name__ == "__main__":
    raise SystemExit(main())
