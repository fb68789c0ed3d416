"""The mutated kernels that are written thread by thread: of each what a Family has beside its name."""

from __future__ import annotations

import numpy as np
import tilelang.language as T
from tile_kernels import nan


def histogram():
    def make(threads):
        N = T.dynamic("N")

        @T.prim_func
        def main(X: T.Tensor((N,), "int32"), H: T.Tensor((16,), "int32")):
            with T.Kernel(T.ceildiv(N, 256), threads=threads) as b:
                S = T.alloc_shared((16,), "int32")
                T.clear(S)
                for i in T.Parallel(256):
                    if b * 256 + i < N:
                        T.atomic_add(S[X[b * 256 + i]], 1)
                for i in T.Parallel(16):
                    T.atomic_add(H[i], S[i])

        return main

    def inputs(rng, size):
        return [rng.integers(0, 16, size).astype(np.int32), np.zeros(16, np.int32)]

    return make, (0, 1, 100, 256, 300, 700), inputs, lambda x, h: {1: np.bincount(x, minlength=16)}


def stencil():
    def make(threads):
        N = T.dynamic("N")
        size = threads

        @T.prim_func
        def main(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32")):
            with T.Kernel(T.ceildiv(N, size), threads=threads) as b:
                tx = T.get_thread_binding()
                S = T.alloc_shared((size + 2,), "float32")
                at = b * size + tx
                S[tx + 1] = T.if_then_else(at < N, X[at], 0)
                if tx == 0:
                    S[0] = T.if_then_else(b > 0, X[at - 1], 0)
                if tx == size - 1:
                    S[size + 1] = T.if_then_else(at + 1 < N, X[at + 1], 0)
                if at < N:
                    Y[at] = S[tx] + S[tx + 1] * 2 + S[tx + 2]

        return main

    def inputs(rng, size):
        return [rng.standard_normal(size).astype(np.float32), nan(size)]

    def exact(x, y):
        wide = np.pad(x.astype(np.float64), 1)
        return {1: wide[:-2] + 2 * wide[1:-1] + wide[2:]}

    return make, (0, 1, 32, 128, 200, 300), inputs, exact


def tree():
    def make(threads):
        N = T.dynamic("N")

        @T.prim_func
        def main(X: T.Tensor((N,), "float32"), Y: T.Tensor((1,), "float32")):
            with T.Kernel(1, threads=threads):
                tx = T.get_thread_binding()
                S = T.alloc_shared((threads,), "float32")
                mine = T.alloc_var("float32", init=0.0)
                for k in T.serial(T.ceildiv(N, threads)):
                    if k * threads + tx < N:
                        mine += X[k * threads + tx]
                S[tx] = mine
                step = T.alloc_var("int32", init=threads // 2)
                while step > 0:
                    if tx < step:
                        S[tx] = S[tx] + S[tx + step]
                    step //= 2
                if tx == 0:
                    Y[0] = S[0]

        return main

    def inputs(rng, size):
        return [rng.standard_normal(size).astype(np.float32), nan(1)]

    return (
        make,
        (0, 1, 2, 64, 128, 200, 640),
        inputs,
        lambda x, y: {1: x.astype(np.float64).sum(keepdims=True)},
    )


def _by_block(fold):
    """What comes out where each block folds as many elements as it has threads."""

    def exact_of(threads):
        def exact(x, y):
            parts = [fold(x[i : i + threads]) for i in range(0, len(x), threads)]
            return {1: np.concatenate([x[:0], *parts])}

        return exact

    return exact_of


def hillis():
    """A running sum, in steps of doubling distance."""

    def make(threads):
        N = T.dynamic("N")

        @T.prim_func
        def main(X: T.Tensor((N,), "int32"), Y: T.Tensor((N,), "int32")):
            with T.Kernel(T.ceildiv(N, threads), threads=threads) as b:
                tx = T.get_thread_binding()
                S = T.alloc_shared((threads,), "int32")
                at = b * threads + tx
                S[tx] = T.if_then_else(at < N, X[at], 0)
                step = T.alloc_var("int32", init=1)
                while step < threads:
                    before = T.alloc_var("int32", init=0)
                    if tx >= step:
                        before = S[tx - step]
                    T.sync_threads()
                    S[tx] = S[tx] + before
                    step *= 2
                if at < N:
                    Y[at] = S[tx]

        return main

    def inputs(rng, size):
        return [rng.integers(-9, 9, size).astype(np.int32), nan(size, dtype=np.int32)]

    return make, (0, 1, 32, 100, 200, 300), inputs, _by_block(np.cumsum)


def sort():
    """Each block sorts its part, by comparing and swapping at distances of powers of two."""

    def make(threads):
        N = T.dynamic("N")

        @T.prim_func
        def main(X: T.Tensor((N,), "int32"), Y: T.Tensor((N,), "int32")):
            with T.Kernel(T.ceildiv(N, threads), threads=threads) as b:
                tx = T.get_thread_binding()
                S = T.alloc_shared((threads,), "int32")
                at = b * threads + tx
                S[tx] = T.if_then_else(at < N, X[at], 1 << 30)
                size = T.alloc_var("int32", init=2)
                while size <= threads:
                    step = T.alloc_var("int32", init=0)
                    step = size // 2
                    while step > 0:
                        other = tx ^ step
                        if other > tx:
                            low = T.alloc_var("int32", init=0)
                            low = S[tx]
                            up = (tx & size) == 0
                            if (low > S[other]) == up:
                                S[tx] = S[other]
                                S[other] = low
                        step //= 2
                    size *= 2
                if at < N:
                    Y[at] = S[tx]

        return main

    def inputs(rng, size):
        return [rng.integers(0, 1000, size).astype(np.int32), nan(size, dtype=np.int32)]

    return make, (0, 1, 32, 100, 200, 300), inputs, _by_block(np.sort)
