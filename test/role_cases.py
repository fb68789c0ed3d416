"""Plain tile programs that the compiler divides among roles on Hopper, in which a fault that tile compilers
are known for would show (test/faults.md, classes 10 to 16), what guards each against it (hopper_cases.py).
"""

from __future__ import annotations

import re

import numpy as np
import tilelang.language as T
from hopper_cases import Program, blank, small, without


def sums_of_tiles():
    """Blocks of two tiles, and of one, of nine steps each."""

    @T.prim_func
    def main(X: T.Tensor((3, 9, 64, 64), "float16"), Y: T.Tensor((3, 64, 64), "float32")):
        with T.Kernel(2, threads=128) as block:
            T.annotate_min_blocks_per_sm(2)  # so that tiles have four slots, which are used again
            S = T.alloc_shared((64, 64), "float16")
            C = T.alloc_fragment((64, 64), "float32")
            for t in T.serial(T.ceildiv(3 - block, 2)):
                T.clear(C)
                for k in T.Pipelined(9, num_stages=2):
                    T.copy(X[block + t * 2, k, :, :], S)
                    T.gemm(S, S, C, transpose_B=True)
                T.copy(C, Y[block + t * 2, :, :])

    return main


def weights_of_another_product():
    """O = sum over k of (2 * Q · K[k]^T) · V[k], for three tiles of Q, over as many k as the call says."""

    @T.prim_func
    def main(
        Q: T.Tensor((3, 64, 64), "float16"), K: T.Tensor((5, 64, 64), "float16"),
        V: T.Tensor((5, 64, 64), "float16"), n: T.int32, O: T.Tensor((3, 64, 64), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            T.annotate_min_blocks_per_sm(2)
            q = T.alloc_shared((64, 64), "float16")
            k_tile, v_tile = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            s, p = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((64, 64), "float16")
            o = T.alloc_fragment((64, 64), "float32")
            for t in T.serial(3):
                T.copy(Q[t, :, :], q)
                T.clear(o)
                if n > 0:
                    for k in T.Pipelined(n, num_stages=2):
                        T.copy(K[k, :, :], k_tile)
                        T.clear(s)
                        T.gemm(q, k_tile, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                        for i, j in T.Parallel(64, 64):
                            s[i, j] = s[i, j] * 2
                        T.copy(s, p)
                        T.copy(V[k, :, :], v_tile)
                        T.gemm(p, v_tile, o, policy=T.GemmWarpPolicy.FullRow)
                T.copy(o, O[t, :, :])

    return main


def without_wait(words):
    """The text without the waits for these barriers."""
    wait = rf"(?m)^ *while not mbarrier_try_wait\(address_of\({words}\[.*\n *pass\n"
    return lambda text: re.sub(wait, "", text)


def with_more_arrivals(words):
    """Each phase of these barriers waits for one warp more than there is."""
    init = rf"(mbarrier_init\(address_of\({words}\[.*\), )(\d+):i32"
    return lambda text: re.sub(init, lambda m: f"{m[1]}{int(m[2]) + 1}:i32", text)


def changed(old, new):
    return lambda text: re.sub(old, new, text)


WRONG = {"race", "barrier", "deadlock", "unwritten", "fence"}
SUMS = {
    "10 the wait for a slot that is given back": (without_wait("S_empty"), {"race", "barrier"}),
    "10 the wait for a part of C that is stored": (
        without(r"cp_async_bulk_wait_group\(0:i32\)"), {"race"}),
    "11 as many arrivals": (with_more_arrivals("S_full"), {"deadlock"}),
    "12 the fence": (without(r"fence_proxy_async\w*\(\)"), {"fence"}),
    "13 the wait": (without(r"wgmma_wait_group\(0:i32\)"), {"race"}),
    "13 the fence of registers": (without(r"wgmma_fence\(\)"), {"fence"}),
    "13 the slot of the product before": (
        changed(r"(mbarrier_arrive\(address_of\(S_empty\[.*) \+ 7\)", r"\1 + 8)"), WRONG),
    "16 the phase that loads wait for": (
        changed(r"(S_empty\[.*), \(\(cast<i32>\(t\)\*9 \+ cast<i32>\(k\)\)", r"\1, ((cast<i32>(k))"), WRONG),
    "16 the phase that products wait for": (
        changed(r"(S_full\[.*), \(cast<i32>\(t\)\*9 \+ cast<i32>\(k\)\)", r"\1, (cast<i32>(k))"), WRONG),
}  # fmt: skip
WEIGHTS = {
    "10 the wait for a slot of the late product": (without_wait("v_tile_empty"), {"race", "barrier"}),
    "11 as many arrivals": (with_more_arrivals("v_tile_empty"), {"deadlock"}),
    "12 the fence": (without(r"fence_proxy_async\w*\(\)"), {"fence"}),
    "13 the wait beside the late product": (without(r"wgmma_wait_group\(1:i32\)"), {"race"}),
    "13 the wait for the late product": (without(r"wgmma_wait_group\(0:i32\)"), {"race"}),
    "16 the phase of the late product": (
        changed(r"(v_tile_full\[.*)\+ 3\)//4 \+ 1\)", r"\1+ 3)//4)"), WRONG),
}  # fmt: skip
# Three tiles of one turn each: nothing but this wait holds the third back from the slot of the first.
TILES = {"10 the wait for a tile beside the loop": (without_wait("q_empty"), {"race", "barrier"})}


def exact_sums(x, y):
    x = x.astype(np.float64)
    return {1: np.einsum("tkim,tkjm->tij", x, x)}


def exact_weights(q, k, v, n, o):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    return {4: np.einsum("tim,njm,njd->tid", 2 * q, k[:n], v[:n])}


def signs(rng, *shape):
    """Few enough that sums over 64 of their products fit float16."""
    return rng.integers(-1, 2, shape).astype(np.float16)


def weights(turns):
    def arguments(rng):
        tiles = [signs(rng, count, 64, 64) for count in (3, 5, 5)]
        return [*tiles, int(turns(rng)), blank(3, 64, 64)]

    return arguments


PROGRAMS = {
    "roles: sums of tiles": Program(
        sums_of_tiles, lambda rng: [small(rng, 3, 9, 64, 64), blank(3, 64, 64)], exact_sums, SUMS),
    "roles: weights of another product": Program(
        weights_of_another_product, weights(lambda rng: 5), exact_weights, WEIGHTS),
    "roles: weights of another product, a turn for each tile": Program(
        weights_of_another_product, weights(lambda rng: 1), exact_weights, TILES),
    "roles: 14, 15 any number of turns, and a condition around them": Program(
        weights_of_another_product, weights(lambda rng: rng.integers(0, 6)), exact_weights),
}  # fmt: skip
