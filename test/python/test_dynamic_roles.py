"""A GEMM whose M, N and K only the call tells: divided among roles on Hopper as its static twin is."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tilelang
import tilelang.language as T

M, N, K = T.dynamic("M, N, K")


def gemm(tile, threads, slots, along_K=False):
    bM, bN, bK = tile

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((N, K) if along_K else (K, N), "float16"),
        C: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, bN), T.ceildiv(M, bM), threads=threads) as (bx, by):
            a = T.alloc_shared((bM, bK), "float16")
            b = T.alloc_shared((bN, bK) if along_K else (bK, bN), "float16")
            c = T.alloc_fragment((bM, bN), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, bK), num_stages=slots):
                T.copy(A[by * bM, k * bK], a)
                if along_K:
                    T.copy(B[bx * bN, k * bK], b)
                else:
                    T.copy(B[k * bK, bx * bN], b)
                T.gemm(a, b, c, transpose_B=along_K)
            T.copy(c, C[by * bM, bx * bN])

    return main


@pytest.mark.parametrize("along_K", [False, True])
def test_blocks_are_found_in_32_bits_and_nothing_is_spilled(along_K):
    kernel = tilelang.compile(gemm((128, 256, 64), 256, 3, along_K), target="cuda -arch=sm_90a")
    assert any(note.text.startswith("the threads [256, 384) load") for note in kernel.report.notes)
    text = kernel.get_kernel_source()
    assert re.search(r"\bint (tile|first|by) = ", text)
    assert not re.search(r"\bi64 (tile|first|by|bx) = |[/%] u64\(", text)
    if kernel.resource_usage:
        assert kernel.resource_usage[0]["spill_stores"] == 0


# Tiles: more than run at once, so that blocks walk; K: fewer turns than slots, one, none that is whole.
@pytest.mark.parametrize("shape", [(7 * 64 - 5, 20 * 64, 96), (64, 64, 40), (130, 72, 8 * 64)])
@pytest.mark.parametrize("slots", [2, 3])
def test_numbers(shape, slots):
    m, n, k = shape
    rng = np.random.default_rng(m)
    a, b = (rng.standard_normal(s).astype("f2") for s in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, "f2")
    kernel = tilelang.compile(gemm((64, 64, 64), 128, slots), target="sim:sm_90a")
    kernel(a, b, c)
    exact = a.astype("f8") @ b.astype("f8")
    assert np.linalg.norm(c - exact) < 1e-3 * np.linalg.norm(exact)
    assert any("has run" in note.text and "specialized" in note.subject for note in kernel.report.notes)
