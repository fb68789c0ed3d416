"""Rotary position embedding: in each head, the pair (x[i], x[i + D/2]) is turned by position / base^(2i/D).

    python examples/rope.py [--target auto|cpu|cuda|sim:CHIP|reference] [--batch B] [--length L] [--heads H]
                            [--dim D]

The tables of cosines and sines are made by a first kernel, once; the second turns the pairs in place.
"""

import math

import harness
import numpy as np
import tilelang
import tilelang.language as T

SMALL = {"batch": 1, "length": 37, "heads": 2, "dim": 64}
BASE = 10000.0


@tilelang.jit
def rope(batch, length, heads, dim, block=16, threads=128, dtype="float16"):
    half = dim // 2

    @T.prim_func
    def main(X: T.Tensor((batch, length, heads, dim), dtype)):
        cosines = T.alloc_global((length, half), "float32")
        sines = T.alloc_global((length, half), "float32")
        with T.Kernel(T.ceildiv(length, block), threads=threads) as bx:
            for t, i in T.Parallel(block, half):
                position = bx * block + t
                angle = position * T.exp2(i * (-math.log2(BASE) / half))
                cosines[position, i] = T.cos(angle)
                sines[position, i] = T.sin(angle)
        with T.Kernel(T.ceildiv(length, block), batch, threads=threads) as (bx, b):
            for t, head, i in T.Parallel(block, heads, half):
                position = bx * block + t
                c, s = cosines[position, i], sines[position, i]
                x, y = X[b, position, head, i], X[b, position, head, i + half]
                X[b, position, head, i] = x * c - y * s
                X[b, position, head, i + half] = x * s + y * c

    return main


def cases(kind, batch=2, length=1000, heads=8, dim=128):
    x = np.random.default_rng(0).standard_normal((batch, length, heads, dim)).astype(np.float16)
    turns = np.exp(1j * np.outer(np.arange(length), BASE ** (-np.arange(dim // 2) / (dim // 2))))
    pairs = (x[..., : dim // 2].astype(np.float64) + 1j * x[..., dim // 2 :]) * turns[:, None]
    yield harness.Case(
        name=f"{batch} x {length} long, {heads} heads, {dim} wide",
        kernel=rope.get_tir(batch, length, heads, dim),
        arguments=[x],
        expected={0: np.concatenate([pairs.real, pairs.imag], -1)},
        bound=5e-4,
    )


if __name__ == "__main__":
    harness.main(__doc__, cases)
