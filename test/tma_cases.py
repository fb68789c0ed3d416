"""Kernels that move tiles by T.tma_copy, and what runs them in the simulator."""

import numpy as np
import tilelang
import tilelang.language as T

SIM = "sim:sm_90"


def run(function, *arrays, target=SIM, schedules=4):
    kernel = tilelang.compile(function, target=target)
    kernel(*arrays) if target == "reference" else kernel.simulate(*arrays, schedules=schedules)
    return kernel


def numbers(shape, dtype):
    count = int(np.prod(shape))
    return (np.arange(count) * 37 % 251 - 99).reshape(shape).astype(dtype)


def notes(kernel):
    return [o.how for o in kernel.report.operators if o.name in ("tma_load", "tma_store")]


def gemm(M, N, K, slots=3, bm=64, bn=128, bk=64):
    """The producer runs ahead by as many tiles as there are slots."""

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=256) as (bx, by):
            A_shared = T.alloc_shared((slots, bm, bk), "float16")
            B_shared = T.alloc_shared((slots, bk, bn), "float16")
            C_shared = T.alloc_shared((bm, bn), "float16")
            C_local = T.alloc_fragment((bm, bn), "float32")
            full = T.alloc_barrier([128] * slots)
            empty = T.alloc_barrier([128] * slots)
            with T.ws(1):
                for k in T.serial(T.ceildiv(K, bk)):
                    T.barrier_wait(empty[k % slots], (k // slots + 1) % 2)
                    T.tma_copy(A[by * bm, k * bk], A_shared[k % slots, :, :], barrier=full[k % slots])
                    T.tma_copy(B[k * bk, bx * bn], B_shared[k % slots, :, :], barrier=full[k % slots])
                    T.barrier_arrive(full[k % slots])
            with T.ws(0):
                T.clear(C_local)
                for k in T.serial(T.ceildiv(K, bk)):
                    T.barrier_wait(full[k % slots], k // slots % 2)
                    T.gemm(A_shared[k % slots, :, :], B_shared[k % slots, :, :], C_local)
                    T.barrier_arrive(empty[k % slots])
                T.copy(C_local, C_shared)
                T.tma_copy(C_shared, C[by * bm, bx * bn])
                T.tma_store_wait(0)

    return main


def whole_block(M, N, K, bm=64, bn=64, bk=64):
    """All threads fetch and multiply: the compiler orders the next copy behind the readers."""

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=128) as (bx, by):
            A_shared = T.alloc_shared((bm, bk), "float16")
            B_shared = T.alloc_shared((bk, bn), "float16")
            C_shared = T.alloc_shared((bm, bn), "float16")
            C_local = T.alloc_fragment((bm, bn), "float32")
            full = T.alloc_barrier(128)
            T.clear(C_local)
            for k in T.serial(T.ceildiv(K, bk)):
                T.tma_copy(A[by * bm, k * bk], A_shared, barrier=full)
                T.tma_copy(B[k * bk, bx * bn], B_shared, barrier=full)
                T.barrier_arrive(full)
                T.barrier_wait(full, k % 2)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C_shared)
            T.tma_copy(C_shared, C[by * bm, bx * bn])
            T.tma_store_wait(0)

    return main


def dynamic():
    m, n = T.dynamic("m"), T.dynamic("n")

    @T.prim_func
    def main(X: T.Tensor((m, n), "float16"), Y: T.Tensor((m, n), "float16")):
        with T.Kernel(T.ceildiv(n, 64), T.ceildiv(m, 64), threads=64) as (bx, by):
            S = T.alloc_shared((64, 64), "float16")
            full = T.alloc_barrier(64)
            T.tma_copy(X[by * 64, bx * 64], S, barrier=full)
            T.barrier_arrive(full)
            T.barrier_wait(full, 0)
            T.tma_copy(S, Y[by * 64, bx * 64])
            T.tma_store_wait(0)

    return main


def multiplied(function, M, N, K, target=SIM, schedules=6):
    a, b = (
        np.random.default_rng(n).standard_normal(s).astype("float16") for n, s in enumerate([(M, K), (K, N)])
    )
    c = np.full((M, N), np.nan, "float16")
    kernel = run(function, a, b, c, target=target, schedules=schedules)
    assert np.abs(c - a.astype(float) @ b.astype(float)).max() < 0.05
    return kernel


def through(shape, tile, dtype, slots=0):
    """Every tile of a tensor of two dimensions, through shared memory."""
    bm, bn = tile

    @T.prim_func
    def main(X: T.Tensor(shape, dtype), Y: T.Tensor(shape, dtype)):
        with T.Kernel(T.ceildiv(shape[1], bn), T.ceildiv(shape[0], bm), threads=64) as (bx, by):
            S = T.alloc_shared((slots, bm, bn) if slots else (bm, bn), dtype)
            part = S[by % slots, :, :] if slots else S
            full = T.alloc_barrier(64)
            T.tma_copy(X[by * bm, bx * bn], part, barrier=full)
            T.barrier_arrive(full)
            T.barrier_wait(full, 0)
            T.tma_copy(part, Y[by * bm, bx * bn])
            T.tma_store_wait(0, read=False)

    return main
