"""Algorithms as users of the published language write them: experts, stream-K, sorting, solving; they run as
they are.
"""

import numpy as np
import tilelang
import tilelang.language as T
from helpers import close, random


def test_experts(target):
    """Rows of tokens are gathered by index; whole blocks are left out by a number of the call."""

    @tilelang.jit(out_idx=[-1], target=target)
    def moe(tokens, hidden, inter, experts, topk, bm, bn, bk):
        padded = tokens * topk + experts * bm
        weights = (experts, inter, hidden)

        @T.prim_func
        def main(
            X: T.Tensor((tokens, hidden), "float16"),
            Wg: T.Tensor(weights, "float16"),
            Wu: T.Tensor(weights, "float16"),
            sorted_ids: T.Tensor((padded,), "int32"),
            expert_of: T.Tensor((T.ceildiv(padded, bm),), "int32"),
            num_blocks: T.int32,
            Y: T.Tensor((tokens * topk, inter), "float16"),
        ):
            with T.Kernel(T.ceildiv(inter, bn), T.ceildiv(padded, bm), threads=128) as (bx, by):
                A = T.alloc_shared((bm, bk), "float16")
                G = T.alloc_shared((bn, bk), "float16")
                U = T.alloc_shared((bn, bk), "float16")
                g = T.alloc_fragment((bm, bn), "float32")
                u = T.alloc_fragment((bm, bn), "float32")
                ids = T.alloc_shared((bm,), "int32")
                if by < num_blocks:
                    e = expert_of[by]
                    for i in T.Parallel(bm):
                        ids[i] = sorted_ids[by * bm + i]
                    T.clear(g)
                    T.clear(u)
                    for k in T.Pipelined(T.ceildiv(hidden, bk), num_stages=2):
                        for i, j in T.Parallel(bm, bk):
                            A[i, j] = T.if_then_else(ids[i] < tokens * topk, X[ids[i] // topk, k * bk + j], 0)
                        T.copy(Wg[e, bx * bn : (bx + 1) * bn, k * bk : (k + 1) * bk], G)
                        T.copy(Wu[e, bx * bn : (bx + 1) * bn, k * bk : (k + 1) * bk], U)
                        T.gemm(A, G, g, transpose_B=True)
                        T.gemm(A, U, u, transpose_B=True)
                    for i, j in T.Parallel(bm, bn):
                        u[i, j] = u[i, j] * g[i, j] * (1.0 / (1.0 + T.exp(-g[i, j])))
                    for i, j in T.Parallel(bm, bn):
                        if ids[i] < tokens * topk:
                            Y[ids[i], bx * bn + j] = u[i, j]

        return main

    tokens, hidden, inter, experts, topk, bm = 20, 64, 48, 4, 2, 16
    rng = np.random.default_rng(1)
    choice = np.stack([rng.permutation(experts)[:topk] for _ in range(tokens)]).reshape(-1)
    pairs, ids, blocks = tokens * topk, [], []
    for e in range(experts):
        mine = [i for i in range(pairs) if choice[i] == e]
        mine += [pairs] * (-len(mine) % bm)
        ids += mine
        blocks += [e] * (len(mine) // bm)
    used, padded = len(blocks), pairs + experts * bm
    ids += [pairs] * (padded - len(ids))
    blocks += [0] * (-(-padded // bm) - used)
    x = random(tokens, hidden, dtype="float16")
    wg, wu = (random(experts, inter, hidden, dtype="float16", seed=s) / np.float16(8) for s in (2, 3))
    kernel = moe(tokens, hidden, inter, experts, topk, bm, 32, 32)
    y = kernel(x, wg, wu, np.array(ids, "int32"), np.array(blocks, "int32"), used)
    rows = np.repeat(x.astype(float), topk, 0)
    g, u = (np.einsum("th,tih->ti", rows, w[choice].astype(float)) for w in (wg, wu))
    close(y, u * g / (1 + np.exp(-g)), 3e-3)


def test_stream_k(target):
    """Blocks share out the steps of all tiles: a while loop, and a branch by which of them are here."""

    @tilelang.jit(target=target)
    def streamk(A, B, C, bm: int = 32, bn: int = 32, bk: int = 32, num_sms: int = 5):
        M, N, K = T.const("M, N, K")
        A: T.Tensor((M, K), T.float16)
        B: T.Tensor((K, N), T.float16)
        C: T.Tensor((M, N), T.float32)
        mt, nt, kt = T.ceildiv(M, bm), T.ceildiv(N, bn), T.ceildiv(K, bk)
        total = mt * nt * kt
        per = T.ceildiv(total, num_sms)
        with T.Kernel(num_sms, threads=128) as pid:
            A_shared = T.alloc_shared((bm, bk), T.float16)
            B_shared = T.alloc_shared((bk, bn), T.float16)
            acc = T.alloc_fragment((bm, bn), T.float32)
            it = T.alloc_var(T.int32)
            it = pid * per
            last = T.min(total, (pid + 1) * per)
            while it < last:
                tile = it // kt
                begin = it % kt
                end = T.min(kt, begin + last - it)
                pm = tile // nt
                pn = tile % nt
                T.clear(acc)
                for k in T.serial(begin, end):
                    T.copy(A[pm * bm, k * bk], A_shared)
                    T.copy(B[k * bk, pn * bn], B_shared)
                    T.gemm(A_shared, B_shared, acc)
                if begin == 0 and end == kt:
                    T.copy(acc, C[pm * bm, pn * bn])
                else:
                    for i, j in T.Parallel(bm, bn):
                        if pm * bm + i < M and pn * bn + j < N:
                            T.atomic_add(C[pm * bm + i, pn * bn + j], acc[i, j])
                it += end - begin

    a, b = random(70, 128, dtype="float16"), random(128, 90, dtype="float16", seed=1)
    c = np.zeros((70, 90), "float32")
    streamk(a, b, c)
    close(c, a.astype(float) @ b.astype(float), 1e-3)


def test_radix_sort(target):
    """Two eager kernels, a digit at a time: counts by atomics, then each element to its place."""

    @tilelang.jit(target=target)
    def histogram(X, shift: int, bits: int = 4, block: int = 128):
        N = T.const("N")
        X: T.Tensor((N,), T.uint32)
        H = T.empty((T.ceildiv(N, block), 1 << bits), T.int32)
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            h = T.alloc_shared((1 << bits,), T.int32)
            T.clear(h)
            for i in T.Parallel(block):
                if bx * block + i < N:
                    T.atomic_add(h[(X[bx * block + i] >> shift) & ((1 << bits) - 1)], 1)
            T.copy(h, H[bx, :])
        return H

    @tilelang.jit(target=target)
    def scatter(X, offsets, shift: int, bits: int = 4, block: int = 128):
        N = T.const("N")
        NB = T.const("NB")
        X: T.Tensor((N,), T.uint32)
        offsets: T.Tensor((NB, 1 << bits), T.int32)
        Y = T.empty((N,), T.uint32)
        with T.Kernel(NB, threads=128) as bx:
            base = T.alloc_shared((1 << bits,), T.int32)
            digit = T.alloc_shared((block,), T.int32)
            flags = T.alloc_shared((1 << bits, block), T.int32)
            T.copy(offsets[bx, :], base)
            for i in T.Parallel(block):
                x = T.cast((X[bx * block + i] >> shift) & ((1 << bits) - 1), T.int32)
                digit[i] = T.if_then_else(bx * block + i < N, x, -1)
            for r, i in T.Parallel(1 << bits, block):
                flags[r, i] = T.cast(digit[i] == r, T.int32)
            T.cumsum(flags, dim=1)
            for i in T.Parallel(block):
                if digit[i] >= 0:
                    Y[base[digit[i]] + flags[digit[i], i] - 1] = X[bx * block + i]
        return Y

    x = np.random.default_rng(0).integers(0, 1 << 12, 300).astype("uint32")
    y = x
    for shift in range(0, 12, 4):
        counts = histogram(y, shift)
        ends = np.cumsum(counts.T.reshape(-1))
        starts = np.concatenate([[0], ends[:-1]]).reshape(16, -1).T.astype("int32")
        y = scatter(y, np.ascontiguousarray(starts), shift)
    assert (y == np.sort(x)).all()


def test_triangular_solve(target):
    """Row after row of a shared tile, each from those before: (I + L)^-1, for chunked linear attention."""

    @tilelang.jit(out_idx=[-1], target=target)
    def solve(S, H, C):
        @T.prim_func
        def main(A: T.Tensor([S, H, C], "float32"), O: T.Tensor([S, H, C], "float32")):
            with T.Kernel(T.ceildiv(S, C), H, threads=64) as (bs, bh):
                a = T.alloc_shared((C, C), "float32")
                o = T.alloc_shared((C, C), "float32")
                row = T.alloc_fragment((C,), "float32")
                prod = T.alloc_fragment((C, C), "float32")
                T.copy(A[bs * C : (bs + 1) * C, bh, 0:C], a)
                for i, j in T.Parallel(C, C):
                    a[i, j] = T.if_then_else(i > j, -a[i, j], 0)
                T.copy(a, o)
                for r in T.serial(1, C):
                    for i, j in T.Parallel(C, C):
                        prod[i, j] = T.if_then_else(i < r, a[r, i] * o[i, j], 0)
                    T.reduce_sum(prod, row, dim=0)
                    for j in T.Parallel(C):
                        o[r, j] = a[r, j] + row[j]
                for i in T.Parallel(C):
                    o[i, i] += 1.0
                T.copy(o, O[bs * C : (bs + 1) * C, bh, 0:C])

        return main

    a = (random(32, 2, 16) * 0.3).astype("float32")
    o = solve(32, 2, 16)(a)
    for s in range(0, 32, 16):
        for h in range(2):
            lower = np.tril(a[s : s + 16, h].astype(float), -1)
            close(o[s : s + 16, h], np.linalg.inv(np.eye(16) + lower), 1e-4)
