"""Programs for Hopper in which a fault that tile compilers are known for would show (test/faults.md, classes
12, 13, 16 to 18), and what guards each against it: a simulator runs them with and without, a GPU as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import tilelang.language as T


@dataclass(frozen=True)
class Program:
    """guards: by name, what takes it out of the program's text of level machine, and the kinds of finding of
    which one then comes first."""

    make: Callable
    arguments: Callable  # of a generator of random numbers
    expected: Callable  # {place of an output: what it must hold}, of the arguments
    guards: dict[str, tuple[Callable[[str], str], set[str]]] = field(default_factory=dict)


def without(line: str):
    """The text without the lines that match."""
    return lambda text: re.sub(rf"(?m)^ *{line}\n", "", text)


def small(rng, *shape):
    """Numbers whose products add up exactly."""
    return rng.integers(-2, 3, shape).astype(np.float16)


def blank(*shape, dtype="float32"):
    return np.full(shape, np.nan, dtype)


def squared(x):
    x = x.astype(np.float64)
    return x @ x


# ── 12: what threads wrote, and the asynchronous proxy ────────────────────────────────────────────────
def written_by_another_team():
    @T.prim_func
    def main(X: T.Tensor((3, 64, 64), "float16"), Y: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=256):
            S = T.alloc_shared((2, 64, 64), "float16")
            full, empty = T.alloc_barrier([128, 128]), T.alloc_barrier([128, 128])
            with T.ws(1):
                for k in T.serial(3):
                    T.barrier_wait(empty[k % 2], (k // 2 + 1) % 2)
                    for i, j in T.Parallel(64, 64):
                        S[k % 2, i, j] = X[k, i, j] + X[k, i, j]
                    T.fence_proxy_async()
                    T.barrier_arrive(full[k % 2])
            with T.ws(0):
                C = T.alloc_fragment((64, 64), "float32")
                for k in T.serial(3):
                    T.barrier_wait(full[k % 2], k // 2 % 2)
                    T.wgmma_gemm(S[k % 2, :, :], S[k % 2, :, :], C, clear_accum=(k == 0))
                    T.wait_wgmma(0)
                    T.barrier_arrive(empty[k % 2])
                T.copy(C, Y)

    return main


def stored_by_its_own_team():
    @T.prim_func
    def main(X: T.Tensor((4, 32, 64), "float16"), Y: T.Tensor((4, 32, 64), "float16")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((2, 32, 64), "float16")
            for k in T.serial(4):
                T.tma_store_wait(1)
                for i, j in T.Parallel(32, 64):
                    S[k % 2, i, j] = X[k, i, j] + X[k, i, j]
                T.tma_copy(S[k % 2, :, :], Y[k, :, :])
            T.tma_store_wait(0)

    return main


def multiplied_behind_copies():
    @T.prim_func
    def main(X: T.Tensor((5, 64, 64), "float16"), Y: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((64, 64), "float16")
            C = T.alloc_fragment((64, 64), "float32")
            T.clear(C)
            for k in T.Pipelined(5, num_stages=2):
                T.copy(X[k, :, :], S, disable_tma=True)
                T.gemm(S, S, C)
            T.copy(C, Y)

    return main


# ── 13: registers of a product in flight ──────────────────────────────────────────────────────────────
def sums_that_are_scaled(by_hand):
    def make():
        @T.prim_func
        def main(X: T.Tensor((3, 64, 64), "float16"), Y: T.Tensor((64, 64), "float32")):
            with T.Kernel(1, threads=128):
                S = T.alloc_shared((3, 64, 64), "float16")
                C = T.alloc_fragment((64, 64), "float32")
                T.copy(X, S)
                T.clear(C)
                for k in T.serial(3):
                    for i, j in T.Parallel(64, 64):
                        C[i, j] = C[i, j] * 2
                    if by_hand:
                        T.wgmma_gemm(S[k, :, :], S[k, :, :], C)
                        T.wait_wgmma(0)
                    else:
                        T.gemm(S[k, :, :], S[k, :, :], C)
                T.copy(C, Y)

        return main

    return make


def weights_in_registers():
    @T.prim_func
    def main(X: T.Tensor((4, 64, 64), "float16"), Y: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((64, 64), "float16")
            P = T.alloc_fragment((64, 64), "float16")
            C = T.alloc_fragment((64, 64), "float32")
            T.copy(X[0, :, :], S)
            T.clear(C)
            for k in T.serial(4):
                for i, j in T.Parallel(64, 64):
                    P[i, j] = X[k, i, j] + X[k, i, j]
                T.wgmma_gemm(P, S, C)
                T.wait_wgmma(0)
            T.copy(C, Y)

    return main


# ── 16: phases of a barrier from its second use on ────────────────────────────────────────────────────
def persistent_ring():
    """Blocks of two tiles, and of one, of three steps each through two slots."""

    @T.prim_func
    def main(X: T.Tensor((3, 3, 64, 32), "float16"), Y: T.Tensor((3, 64, 64), "float32")):
        with T.Kernel(2, threads=256) as block:
            S = T.alloc_shared((2, 64, 32), "float16")
            full, empty = T.alloc_barrier([4, 4]), T.alloc_barrier([4, 4])
            tx = T.get_thread_binding()
            with T.ws(1):
                for t in T.serial(T.ceildiv(3 - block, 2)):
                    for k in T.serial(3):
                        i = t * 3 + k
                        T.barrier_wait(empty[i % 2], (i // 2 + 1) % 2)
                        T.tma_copy(X[block + t * 2, k, :, :], S[i % 2, :, :], barrier=full[i % 2])
                        if tx % 32 == 0:
                            T.barrier_arrive(full[i % 2])
            with T.ws(0):
                C = T.alloc_fragment((64, 64), "float32")
                for t in T.serial(T.ceildiv(3 - block, 2)):
                    for k in T.serial(3):
                        i = t * 3 + k
                        T.barrier_wait(full[i % 2], i // 2 % 2)
                        T.wgmma_gemm(
                            S[i % 2, :, :], S[i % 2, :, :], C, transpose_B=True, clear_accum=(k == 0)
                        )
                        T.wait_wgmma(0)
                        if tx % 32 == 0:
                            T.barrier_arrive(empty[i % 2])
                    T.copy(C, Y[block + t * 2, :, :])

    return main


def a_phase_in_a_variable():
    @T.prim_func
    def main(X: T.Tensor((5, 32, 64), "float16"), Y: T.Tensor((5, 32, 64), "float16")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((32, 64), "float16")
            full = T.alloc_barrier(128)
            phase = T.alloc_var("int32", 0)
            for k in T.serial(5):
                T.tma_copy(X[k, :, :], S, barrier=full)
                T.barrier_arrive(full)
                T.barrier_wait(full, phase)
                phase = phase ^ 1
                T.copy(S, Y[k, :, :])

    return main


def begun_anew(wait):
    """The parity of waits at `wait` is that of the step within its tile."""

    def take(text):
        line = rf"(?m)^( *while not mbarrier_try_wait\(address_of\({wait}\[.*\]\), .*)\bi//2"
        return re.sub(line, r"\1cast<i32>(k)//2", text)

    return take


SCALED = "wgmma_wait_group\\(0:i32\\)"
FENCE = {"the fence": (without(r"fence_proxy_async\w*\(\)"), {"fence"})}
PRODUCTS = {
    "the wait": (without(SCALED), {"race"}),
    "the fence of registers": (without(r"wgmma_fence\(\)"), {"fence"}),
    "the group": (without(r"wgmma_commit_group\(\)"), {"race"}),
}


def one(make, shape, out, exact, guards):
    """Of a tensor of small numbers, and one of f32 (or f16) that they become."""
    dtype = "float16" if len(out) == 3 and out == shape else "float32"
    return Program(make, lambda rng: [small(rng, *shape), blank(*out, dtype=dtype)], exact, guards)


def doubled(x, y):
    return {1: 2.0 * x.astype(np.float64)}


def sum_of_scaled(x, y):
    total = 0
    for a in x:
        total = total * 2 + squared(a)
    return {1: total}


PROGRAMS = {
    "12 written by another team": one(
        written_by_another_team, (3, 64, 64), (64, 64),
        lambda x, y: {1: sum(squared(2 * a) for a in x)}, FENCE),
    "12 stored by its own team": one(stored_by_its_own_team, (4, 32, 64), (4, 32, 64), doubled, FENCE),
    "12 multiplied behind copies": one(
        multiplied_behind_copies, (5, 64, 64), (64, 64), lambda x, y: {1: sum(map(squared, x))}, FENCE),
    "13 sums that are scaled": one(
        sums_that_are_scaled(True), (3, 64, 64), (64, 64), sum_of_scaled, PRODUCTS),
    "13 sums of T.gemm that are scaled": one(
        sums_that_are_scaled(False), (3, 64, 64), (64, 64), sum_of_scaled, PRODUCTS),
    "13 weights in registers": one(
        weights_in_registers, (4, 64, 64), (64, 64),
        lambda x, y: {1: 2.0 * x.astype(np.float64).sum(0) @ x[0]}, PRODUCTS),
    "16 a ring of a persistent kernel": one(
        persistent_ring, (3, 3, 64, 32), (3, 64, 64),
        lambda x, y: {1: np.einsum("tkim,tkjm->tij", *[x.astype(np.float64)] * 2)},
        {"the consumer's phase": (begun_anew("full"), {"race", "deadlock", "unwritten"}),
         "the producer's phase": (begun_anew("empty"), {"race", "deadlock", "barrier"})}),
    "16 a phase in a variable": one(
        a_phase_in_a_variable, (5, 32, 64), (5, 32, 64), lambda x, y: {1: x},
        {"its turn": (without(r"phase\S* = .*\^ ?1.*"), {"race", "deadlock", "unwritten"})}),
}  # fmt: skip


# ── 17, 18: what the accelerator can move, and maps of tensors ────────────────────────────────────────
TYPES = ("float16", "float32", "int8", "int32")


def any_shape(rng):
    """A type, a tensor's rows and columns: of half of them the rows are no multiple of 16 bytes."""
    dtype = TYPES[rng.integers(len(TYPES))]
    per_piece = 16 // np.dtype(dtype).itemsize
    columns = int(rng.integers(1, 100))
    if rng.integers(2):
        columns = -(-columns // per_piece) * per_piece
    return dtype, int(rng.integers(1, 70)), columns


def can_move(dtype, columns):
    return columns * np.dtype(dtype).itemsize % 16 == 0


def moved(rows, columns, dtype, by_tma):
    """Each tile of 32 by 32 of a tensor, with or without the accelerator."""

    @T.prim_func
    def main(X: T.Tensor((rows, columns), dtype), Y: T.Tensor((rows, columns), dtype)):
        with T.Kernel(T.ceildiv(columns, 32), T.ceildiv(rows, 32), threads=64) as (bx, by):
            S = T.alloc_shared((32, 32), dtype)
            full = T.alloc_barrier(64)
            if by_tma:
                T.tma_copy(X[by * 32, bx * 32], S, barrier=full)
                T.barrier_arrive(full)
                T.barrier_wait(full, 0)
                T.tma_copy(S, Y[by * 32, bx * 32])
                T.tma_store_wait(0)
            else:
                T.copy(X[by * 32, bx * 32], S)
                T.copy(S, Y[by * 32, bx * 32])

    return main


def any_tensor():
    """Through shared memory, of the shapes that a call says."""
    m, n = T.dynamic("m"), T.dynamic("n")

    @T.prim_func
    def main(X: T.Tensor((m, n), "float16"), Y: T.Tensor((m, n), "float16")):
        with T.Kernel(T.ceildiv(n, 32), T.ceildiv(m, 32), threads=64) as (bx, by):
            S = T.alloc_shared((32, 32), "float16")
            full = T.alloc_barrier(64)
            T.tma_copy(X[by * 32, bx * 32], S, barrier=full)
            T.barrier_arrive(full)
            T.barrier_wait(full, 0)
            T.tma_copy(S, Y[by * 32, bx * 32])
            T.tma_store_wait(0)

    return main


def guarded(rng, rows, columns, dtype):
    """A tensor of numbers, and a blank one that lies between two rows of 7."""
    x = rng.integers(-99, 100, (rows, columns)).astype(dtype)
    memory = np.full((rows + 2, columns), 7, dtype)
    return x, memory
