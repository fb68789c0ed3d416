"""The mutated kernels whose warpgroups have parts of their own: by hand the two examples, with few and small
tiles, and a plain program that the compiler divides.  They have one size each: a block with several tiles, of
more steps than a ring has slots.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import tilelang
import tilelang.language as T
from tile_kernels import nan

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
import attention_warpgroups  # noqa: E402
import flash_attention  # noqa: E402
import gemm_warpgroups  # noqa: E402


def machine_text(function, pass_configs=None):
    return tilelang.compile(function, target="sim:sm_90a", pass_configs=pass_configs)._kernel.machine_text


def gemm(transpose_B):
    """One block, two tiles of C of three steps each, in a ring of two slots."""
    M, N, K = 136, 64, 40

    def make(threads):
        small = {"block_N": 64, "block_K": 16, "part": 32, "slots": 2, "blocks": 1}
        return machine_text(gemm_warpgroups.gemm.get_tir(M, N, K, transpose_B, **small))

    def inputs(rng, size):
        a = rng.standard_normal((M, K)).astype(np.float16)
        b = rng.standard_normal((N, K) if transpose_B else (K, N)).astype(np.float16)
        return [a, b, nan(M, N, dtype=np.float16)]

    def exact(a, b, c):
        b = b.astype(np.float64)
        return {2: a.astype(np.float64) @ (b.T if transpose_B else b)}

    return make, (0,), inputs, exact


def product_along_K(M, N, K):
    """What C = A @ B^T is given, and what it gives."""

    def inputs(rng, size):
        a, b = (rng.standard_normal((n, K)).astype(np.float16) for n in (M, N))
        return [a, b, nan(M, N, dtype=np.float16)]

    def exact(a, b, c):
        return {2: a.astype(np.float64) @ b.astype(np.float64).T}

    return inputs, exact


def divided(by_roles):
    """A plain program: one block, two tiles of C of five steps each, in a ring of four slots.  Or its loads
    and products wait at once."""
    M, N, K, part = 128, 64, 264, 64

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((N, K), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(1, threads=128):
            T.annotate_min_blocks_per_sm(2)  # else there are as many slots as steps
            a, b = T.alloc_shared((64, part), "float16"), T.alloc_shared((N, part), "float16")
            c = T.alloc_fragment((64, N), "float32")
            for t in T.serial(2):
                T.clear(c)
                for k in T.Pipelined(T.ceildiv(K, part), num_stages=2 if by_roles else 1):
                    T.copy(A[t * 64, k * part], a)
                    T.copy(B[0, k * part], b)
                    T.gemm(a, b, c, transpose_B=True)
                T.copy(c, C[t * 64, 0])

    def make(threads):
        text = machine_text(main)
        assert ("wgmma_wait_group(1" in text) == by_roles and "bulk_tensor_2d_load" in text
        return text

    return make, (0,), *product_along_K(M, N, K)


def first_loads():
    """A plain program: one block, one tile of C of 18 steps, the first eight of which are loaded before the
    block's barrier."""
    M, N, K, part = 64, 64, 1096, 64

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((N, K), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((M, part), "float16"), T.alloc_shared((N, part), "float16")
            c = T.alloc_fragment((M, N), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, part), num_stages=2):
                T.copy(A[0, k * part], a)
                T.copy(B[0, k * part], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C)

    def make(threads):
        text = machine_text(main)
        assert "first loads" in text
        return text

    return make, (0,), *product_along_K(M, N, K)


def in_groups():
    """A plain program: one block, two tiles of C of two warpgroups, each of which stores its own rows."""
    M, N, K, part = 256, 64, 200, 64

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(1, threads=256):
            T.annotate_min_blocks_per_sm(2)
            a, b = T.alloc_shared((128, part), "float16"), T.alloc_shared((part, N), "float16")
            c = T.alloc_fragment((128, N), "float32")
            for t in T.serial(2):
                T.clear(c)
                for k in T.Pipelined(T.ceildiv(K, part), num_stages=2):
                    T.copy(A[t * 128, k * part], a)
                    T.copy(B[k * part, 0], b)
                    T.gemm(a, b, c)
                T.copy(c, C[t * 128, 0])

    def make(threads):
        text = machine_text(main)
        assert "bar_sync_groups(3" in text
        return text

    def inputs(rng, size):
        a, b = rng.standard_normal((M, K)).astype(np.float16), rng.standard_normal((K, N)).astype(np.float16)
        return [a, b, nan(M, N, dtype=np.float16)]

    def exact(a, b, c):
        return {2: a.astype(np.float64) @ b.astype(np.float64)}

    return make, (0,), inputs, exact


def late(tiles, is_long):
    """A plain program: one block, so many tiles of queries in two slots, each with one step, or with thirteen
    where it `is_long`, in rings of eight.  The weighted sum of V is begun a turn late."""
    queries, step, dim, steps = tiles * 64, 16, 64, 13

    @T.prim_func
    def main(
        Q: T.Tensor((queries, dim), "float16"),
        K: T.Tensor((steps * step, dim), "float16"),
        V: T.Tensor((steps * step, dim), "float16"),
        O: T.Tensor((queries, dim), "float32"),
    ):
        with T.Kernel(1, threads=128):
            q, k_tile = T.alloc_shared((64, dim), "float16"), T.alloc_shared((step, dim), "float16")
            v_tile = T.alloc_shared((step, dim), "float16")
            s, o = T.alloc_fragment((64, step), "float32"), T.alloc_fragment((64, dim), "float32")
            p, most = T.alloc_fragment((64, step), "float16"), T.alloc_fragment((64,), "float32")
            for t in T.serial(tiles):
                T.copy(Q[t * 64, 0], q)
                T.clear(o)
                for k in T.Pipelined(T.if_then_else(is_long(t), steps, 1), num_stages=2):
                    T.copy(K[k * step, 0], k_tile)
                    T.gemm(q, k_tile, s, transpose_B=True, clear_accum=True)
                    T.reduce_max(s, most, dim=1)
                    for i, j in T.Parallel(64, dim):
                        o[i, j] = o[i, j] * T.float32(0.875) + most[i]
                    T.copy(s, p)
                    T.copy(V[k * step, 0], v_tile)
                    T.gemm(p, v_tile, o)
                T.copy(o, O[t * 64, 0])

    def make(threads):
        text = machine_text(main)
        assert "q_empty" in text and "most_kept" in text
        return text

    def inputs(rng, size):
        q = rng.standard_normal((queries, dim)).astype(np.float16)
        k, v = (rng.standard_normal((steps * step, dim)).astype(np.float16) for _ in range(2))
        return [q, k, v, nan(queries, dim, dtype=np.float32)]

    def exact(q, k, v, o):
        q, k, v = (x.astype(np.float64) for x in (q, k, v))
        out = np.zeros((queries, dim))
        for t, i in np.ndindex(tiles, steps):
            if i > 0 and not is_long(t):
                continue
            rows, mine = slice(i * step, (i + 1) * step), slice(t * 64, (t + 1) * 64)
            s = q[mine] @ k[rows].T
            out[mine] = out[mine] * 0.875 + s.max(1, keepdims=True) + s @ v[rows]
        return {3: out}

    return make, (0,), inputs, exact


def attention(causal):
    """One block of one head: five tiles of keys, in rings of two slots."""
    queries, keys, dim = 72, 76, 32  # so that both consumers see some of the last tile, where causal

    def make(threads):
        function = attention_warpgroups.attention.get_tir(1, 1, queries, keys, dim, causal, block_N=16)
        return machine_text(function, flash_attention.FAST)

    def inputs(rng, size):
        q, k, v = (rng.standard_normal((1, 1, n, dim)).astype(np.float16) for n in (queries, keys, keys))
        return [q, k, v, nan(1, 1, queries, dim, dtype=np.float16)]

    def exact(q, k, v, o):
        return {3: flash_attention.exact(q, k, v, causal)}

    return make, (0,), inputs, exact
