"""Arrays beside pages that nobody may touch: a read or a write outside of one ends the program.

Usage:
    python test/guarded_memory.py    # the kernels below, and all examples, on the CPU
"""

import ctypes
import mmap
import sys
from pathlib import Path

import numpy as np
import tilelang
import tilelang.language as T

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
import harness  # noqa: E402

PAGE = mmap.PAGESIZE
NOTHING, READ_AND_WRITE = 0, 3
libc = ctypes.CDLL(None)
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
kept = []  # the memory of all arrays


def beside_a_wall(array, side):
    """A copy of an array that ends ("end") or begins ("begin") at a page that must not be touched."""
    pages = max(1, -(-array.nbytes // PAGE))
    memory = mmap.mmap(-1, (pages + 2) * PAGE)
    kept.append(memory)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for wall in (base, base + (pages + 1) * PAGE):
        assert libc.mprotect(wall, PAGE, NOTHING) == 0
    offset = PAGE if side == "begin" else (pages + 1) * PAGE - array.nbytes
    copy = np.frombuffer(memory, np.uint8, array.nbytes, offset).view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def lanes(M, N):
    """The condition differs among the lanes of a vector."""

    @T.prim_func
    def main(A: T.Tensor((M,), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 2048), threads=128) as (bx, by):
            for j, i in T.Parallel(64, 2048):
                if (by * 2048 + i < M) and (bx * 64 + j < N):
                    B[by * 2048 + i, bx * 64 + j] = A[by * 2048 + i] * 2

    return main


def rows(M, N):
    """All lanes share the condition, and the element that is read."""

    @T.prim_func
    def main(A: T.Tensor((M,), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, 2048), threads=128) as by:
            for i, j in T.Parallel(2048, N):
                if by * 2048 + i < M:
                    B[by * 2048 + i, j] = A[by * 2048 + i] * 2

    return main


def both(M, N):
    """Part of the condition is shared, and what it protects as well."""

    @T.prim_func
    def main(A: T.Tensor((M,), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 2048), threads=128) as (bx, by):
            for i, j in T.Parallel(2048, 64):
                if (by * 2048 + i < M) & (bx * 64 + j < N):
                    B[by * 2048 + i, bx * 64 + j] = A[by * 2048 + i] * 2

    return main


def nested(M, N):
    """A condition that may be asked only under another one; names on the way."""

    @T.prim_func
    def main(A: T.Tensor((M,), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 2048), threads=128) as (bx, by):
            for i, j in T.Parallel(2048, 64):
                if by * 2048 + i < M:
                    if A[by * 2048 + i] > 0:
                        x = A[by * 2048 + i]
                        if bx * 64 + j < N:
                            B[by * 2048 + i, bx * 64 + j] = x + x
                    else:
                        if bx * 64 + j < N:
                            B[by * 2048 + i, bx * 64 + j] = A[by * 2048 + i] * 2

    return main


def choices(M, N):
    """Values instead of statements under a condition."""

    @T.prim_func
    def main(A: T.Tensor((M,), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 2048), threads=128) as (bx, by):
            for i, j in T.Parallel(2048, 64):
                B[by * 2048 + i, bx * 64 + j] = T.if_then_else(by * 2048 + i < M, A[by * 2048 + i] * 2, 1.0)

    return main


FORMS = [lanes, rows, both, nested, choices]


def run(kernel, arguments, side):
    arguments = [beside_a_wall(a, side) if isinstance(a, np.ndarray) else a for a in arguments]
    kernel(*arguments)
    return arguments


def main():
    rng = np.random.default_rng(0)
    for form in FORMS:
        for M, N in ((1024, 48), (1001, 41), (2049, 65)):
            kernel = tilelang.compile(form(M, N), target="cpu")
            for side in ("begin", "end"):
                print(form.__name__, M, N, side, flush=True)
                a = rng.standard_normal(M).astype(np.float32)
                _, b = run(kernel, [a, harness.blank((M, N))], side)
                assert np.array_equal(b, np.repeat(2 * a[:, None], N, 1))
    for case in harness.small_cases("cpu"):
        if not case.thread_level:
            kernel = case.compiled("cpu")
            for side in ("begin", "end"):
                print(case.name, side, flush=True)
                run(kernel, case.arguments, side)
    print("no access outside")


if __name__ == "__main__":
    main()
