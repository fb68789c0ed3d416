"""Sparse and irregular work, sorting, scans, bytes."""

import numpy as np
import tilelang
import tilelang.language as T
from everywhere import blank, check, everywhere, run


@everywhere
def test_csr_times_dense(target):
    rows, inner, cols, tile = 37, 41, 53, 16
    nnz = T.dynamic("nnz")

    @T.prim_func
    def main(
        ptr: T.Tensor((rows + 1,), "int32"),
        col: T.Tensor((nnz,), "int32"),
        val: T.Tensor((nnz,), "float32"),
        X: T.Tensor((inner, cols), "float32"),
        Y: T.Tensor((rows, cols), "float32"),
    ):
        with T.Kernel(T.ceildiv(cols, tile), rows, threads=32) as (bx, row):
            acc = T.alloc_fragment((tile,), "float32")
            T.clear(acc)
            for p in T.serial(ptr[row], ptr[row + 1]):
                for j in T.Parallel(tile):
                    acc[j] += val[p] * X[col[p], bx * tile + j]
            T.copy(acc, Y[row, bx * tile])

    rng = np.random.default_rng(1)
    dense = rng.standard_normal((rows, inner)) * (rng.random((rows, inner)) < 0.15)
    dense[5] = 0  # an empty row
    r, c = np.nonzero(dense)
    ptr = np.searchsorted(r, np.arange(rows + 1)).astype("i4")
    val = dense[r, c].astype("f4")
    x, y = rng.standard_normal((inner, cols)).astype("f4"), blank((rows, cols))
    run(main, target, ptr, c.astype("i4"), val, x, y)
    exact = np.zeros((rows, inner))
    exact[r, c] = val
    check(y, exact @ x.astype("f8"), 1e-6)


@everywhere
def test_block_sparse_times_dense(target):
    bs, block_rows, block_cols, n, tile_n = 16, 5, 4, 40, 32
    rows, inner = block_rows * bs - 5, block_cols * bs - 3
    blocks = T.symbolic("blocks")

    @tilelang.jit
    def bsr(trans):
        @T.prim_func
        def main(
            ptr: T.Tensor((block_rows + 1,), "int32"),
            idx: T.Tensor((blocks,), "int32"),
            W: T.Tensor((blocks, bs, bs), "float16"),
            X: T.Tensor((inner, n), "float16"),
            Y: T.Tensor((rows, n), "float32"),
        ):
            with T.Kernel(T.ceildiv(n, tile_n), block_rows, threads=64) as (bx, by):
                W_s, X_s = T.alloc_shared((bs, bs), "float16"), T.alloc_shared((bs, tile_n), "float16")
                C = T.alloc_fragment((bs, tile_n), "float32")
                T.clear(C)
                for p in T.Pipelined(ptr[by], ptr[by + 1], num_stages=2):
                    T.copy(W[p, :, :], W_s)
                    T.copy(X[idx[p] * bs, bx * tile_n], X_s)
                    T.gemm(W_s, X_s, C, transpose_A=trans)
                T.copy(C, Y[by * bs, bx * tile_n])

        return main

    rng = np.random.default_rng(2)
    present = rng.random((block_rows, block_cols)) < 0.5
    present[2] = False
    r, c = np.nonzero(present)
    w = rng.standard_normal((len(r), bs, bs)).astype("f2")
    x = rng.standard_normal((inner, n)).astype("f2")
    ptr = np.searchsorted(r, np.arange(block_rows + 1)).astype("i4")
    padded = np.pad(x.astype("f8"), [(0, 3), (0, 0)])
    for trans in (False, True):
        y = blank((rows, n))
        run(bsr.get_tir(trans), target, ptr, c.astype("i4"), w, x, y)
        exact = np.zeros((block_rows * bs, n))
        for i, j, block in zip(r, c, w.astype("f8"), strict=True):
            exact[i * bs : i * bs + bs] += (block.T if trans else block) @ padded[j * bs : j * bs + bs]
        check(y, exact[:rows], 1e-5)


@everywhere
def test_means_of_segments(target):
    N, D, S, tile = 77, 10, 9, 32

    @T.prim_func
    def main(
        seg: T.Tensor((N,), "int16"),
        X: T.Tensor((N, D), "float32"),
        mean: T.Tensor((S, D), "float32"),
        count: T.Tensor((S,), "int32"),
    ):
        with T.Kernel(1, threads=32):
            for s, j in T.Parallel(S, D):
                mean[s, j] = 0
            for s in T.Parallel(S):
                count[s] = 0
        with T.Kernel(T.ceildiv(N, tile), threads=64) as bx:
            for i, j in T.Parallel(tile, D):
                at = bx * tile + i
                if at < N:
                    T.atomic_add(mean[seg[at], j], X[at, j])
            for i in T.Parallel(tile):
                if bx * tile + i < N:
                    T.atomic_add(count[seg[bx * tile + i]], 1)
        with T.Kernel(S, threads=32) as s:
            for j in T.Parallel(D):
                if count[s] > 0:
                    mean[s, j] /= T.float32(count[s])

    rng = np.random.default_rng(3)
    seg = np.sort(rng.integers(0, S, N)).astype("i2")
    seg[seg == 4] = 5  # an empty segment
    x, mean, count = rng.standard_normal((N, D)).astype("f4"), blank((S, D)), blank(S, "i4")
    run(main, target, seg, x, mean, count)
    sums = np.zeros((S, D))
    np.add.at(sums, seg, x.astype("f8"))
    check(count, np.bincount(seg, minlength=S))
    check(mean, sums / np.maximum(np.bincount(seg, minlength=S), 1)[:, None], 1e-6)


@everywhere
def test_bitonic_sort_with_places(target):
    rows, n, stages = 5, 50, 6
    full = 1 << stages

    @T.prim_func
    def main(
        K: T.Tensor((rows, n), "int16"),
        order: T.Tensor((rows, n), "int32"),
        ranked: T.Tensor((rows, n), "int16"),
    ):
        with T.Kernel(rows, threads=32) as r:
            key, at = T.alloc_shared((full,), "int32"), T.alloc_shared((full,), "int32")
            for i in T.Parallel(full):
                key[i] = T.if_then_else(i < n, T.int32(K[r, i]), 1 << 20)
                at[i] = i
            for stage in T.serial(stages):
                for step in T.serial(stage + 1):
                    gap = 1 << (stage - step)
                    for p in T.Parallel(full // 2):
                        low = p // gap * gap * 2 + p % gap
                        high = low + gap
                        upward = (low >> (stage + 1)) & 1 == 0
                        a, b = key[low], key[high]
                        i, j = at[low], at[high]
                        if (a > b or (a == b and i > j)) == upward:
                            key[low] = b
                            key[high] = a
                            at[low] = j
                            at[high] = i
            for i in T.Parallel(n):
                order[r, i] = at[i]
                ranked[r, i] = key[i]

    k = np.random.default_rng(4).integers(-9, 9, (rows, n)).astype("i2")
    order, ranked = blank((rows, n), "i4"), blank((rows, n), "i2")
    run(main, target, k, order, ranked)
    check(order, np.argsort(k, 1, kind="stable"))
    check(ranked, np.sort(k, 1))


@everywhere
def test_top_k_by_argmax(target):
    M, N, k, rows = 11, 70, 3, 4

    def larger(a, b):
        (x, i), (y, j) = a, b
        first = (x > y) | ((x == y) & (i < j))
        return T.if_then_else(first, x, y), T.if_then_else(first, i, j)

    @T.prim_func
    def main(
        X: T.Tensor((M, N), "float16"), best: T.Tensor((M, k), "float16"), where: T.Tensor((M, k), "int32")
    ):
        with T.Kernel(T.ceildiv(M, rows), threads=64) as bx:
            x, number = T.alloc_fragment((rows, N), "float32"), T.alloc_fragment((rows, N), "int32")
            top, place = T.alloc_fragment((rows,), "float32"), T.alloc_fragment((rows,), "int32")
            T.copy(X[bx * rows, 0], x)
            for i, j in T.Parallel(rows, N):
                number[i, j] = j
            for rank in T.serial(k):
                T.reduce(
                    (x, number), (top, place), 1, combine=larger, identity=(-T.infinity("float32"), 2**30)
                )
                T.copy(top, best[bx * rows : bx * rows + rows, rank])
                T.copy(place, where[bx * rows : bx * rows + rows, rank])
                for i, j in T.Parallel(rows, N):
                    if j == place[i]:
                        x[i, j] = -T.infinity("float32")

    x = np.random.default_rng(5).integers(-30, 30, (M, N)).astype("f2")
    best, where = blank((M, k), "f2"), blank((M, k), "i4")
    run(main, target, x, best, where)
    places = np.argsort(-x, 1, kind="stable")[:, :k]
    check(where, places)
    check(best, np.take_along_axis(x, places, 1))


@everywhere
def test_prefix_sums_over_blocks(target):
    @tilelang.jit(target=target)
    def prefix(X, block: int = 32):
        N = T.const("N")
        X: T.Tensor((N,), T.int32)
        Y = T.empty((N,), T.int64)
        blocks = T.ceildiv(N, block)
        sums = T.alloc_global((blocks,), T.int64)
        with T.Kernel(blocks, threads=32) as bx:
            x, y = T.alloc_shared((block,), T.int32), T.alloc_shared((block,), T.int64)
            T.copy(X[bx * block], x)
            T.cumsum(x, y)
            T.copy(y, Y[bx * block])
            sums[bx] = y[block - 1]
        with T.Kernel(1, threads=32):
            before = T.alloc_var("int64", 0)
            for b in range(blocks):
                own = sums[b]
                sums[b] = before
                before += own
        with T.Kernel(blocks, threads=32) as bx:
            for i in T.Parallel(block):
                if bx * block + i < N:
                    Y[bx * block + i] += sums[bx]
        return Y

    for n in (300, 31):
        x = np.random.default_rng(6).integers(-(2**31), 2**31, n).astype("i4")
        check(prefix(x), np.cumsum(x.astype("i8")))


@everywhere
def test_histogram_equalisation(target):
    H, W, tile = 29, 43, 8
    n = H * W

    @T.prim_func
    def main(X: T.Tensor((H, W), "uint8"), Y: T.Tensor((H, W), "uint8")):
        hist, lut = T.alloc_global((256,), "int32"), T.alloc_global((256,), "uint8")
        with T.Kernel(1, threads=64):
            for v in T.Parallel(256):
                hist[v] = 0
        with T.Kernel(T.ceildiv(H, tile), threads=64) as by:
            mine = T.alloc_shared((256,), "int32")
            T.clear(mine)
            for i, j in T.Parallel(tile, W):
                if by * tile + i < H:
                    T.atomic_add(mine[X[by * tile + i, j]], 1)
            T.atomic_add(hist, mine)
        with T.Kernel(1, threads=64):
            h, c = T.alloc_shared((256,), "int32"), T.alloc_shared((256,), "int32")
            some, low = T.alloc_fragment((256,), "int32"), T.alloc_fragment((1,), "int32")
            T.copy(hist, h)
            T.cumsum(h, c)
            for v in T.Parallel(256):
                some[v] = T.if_then_else(h[v] > 0, c[v], n)
            T.reduce_min(some, low)
            for v in T.Parallel(256):
                rest = n - low[0]
                lut[v] = T.cast((T.max(c[v] - low[0], 0) * 255 + rest // 2) // rest, "uint8")
        with T.Kernel(T.ceildiv(H, tile), threads=64) as by:
            for i, j in T.Parallel(tile, W):
                if by * tile + i < H:
                    Y[by * tile + i, j] = lut[X[by * tile + i, j]]

    x = np.clip(np.random.default_rng(7).normal(90, 20, (H, W)), 0, 255).astype("u1")
    y = blank((H, W), "u1")
    run(main, target, x, y)
    c = np.cumsum(np.bincount(x.ravel(), minlength=256))
    low = c[x.min()]
    check(y, ((np.maximum(c - low, 0) * 255 + (n - low) // 2) // (n - low)).astype("u1")[x])


@everywhere
def test_run_lengths(target):
    R, n, full = 4, 90, 128

    @T.prim_func
    def main(
        X: T.Tensor((R, n), "uint8"),
        values: T.Tensor((R, n), "uint8"),
        lengths: T.Tensor((R, n), "int32"),
        count: T.Tensor((R,), "int32"),
    ):
        with T.Kernel(R, threads=64) as r:
            v, flag = T.alloc_shared((full,), "uint8"), T.alloc_shared((full,), "int32")
            pos, starts = T.alloc_shared((full,), "int32"), T.alloc_shared((full + 1,), "int32")
            T.copy(X[r, 0:full], v)
            for i in T.Parallel(full):
                begins = (i == 0) | (v[i] != v[T.max(i - 1, 0)])
                flag[i] = begins & (i < n)
            T.cumsum(flag, pos)
            for i in T.Parallel(full):
                if flag[i] == 1:
                    starts[pos[i] - 1] = i
                    values[r, pos[i] - 1] = v[i]
            count[r] = pos[full - 1]
            starts[pos[full - 1]] = n
            for i in T.Parallel(full):
                if i < pos[full - 1]:
                    lengths[r, i] = starts[i + 1] - starts[i]

    x = np.random.default_rng(8).integers(0, 3, (R, n)).astype("u1")
    x[1] = 7
    values, lengths, count = blank((R, n), "u1"), blank((R, n), "i4"), blank(R, "i4")
    run(main, target, x, values, lengths, count)
    for r in range(R):
        starts = np.flatnonzero(np.diff(x[r].astype(int), prepend=-1))
        assert count[r] == len(starts)
        check(values[r], np.concatenate([x[r][starts], blank(n - len(starts), "u1")]))
        check(lengths[r], np.concatenate([np.diff(starts, append=n), blank(n - len(starts), "i4")]))


@everywhere
def test_rows_by_a_permutation(target):
    D = 13
    n, s = T.dynamic("n, s")

    @T.prim_func
    def main(
        perm: T.Tensor((n,), "int64"),
        X: T.StridedTensor((n, D), (s, 1), "int8"),
        scattered: T.Tensor((n, D), "float16"),
        gathered: T.Tensor((D, n), "int32"),
    ):
        with T.Kernel(T.ceildiv(n, 16), threads=32) as bx:
            for i, j in T.Parallel(16, D):
                at = bx * 16 + i
                if at < n:
                    scattered[perm[at], j] = X[at, j]
                    gathered[j, at] = T.int32(X[perm[at], j]) * 3

    kernel = tilelang.compile(main, target=target)
    for rows in (37, 1, 64):
        rng = np.random.default_rng(rows)
        base = rng.integers(-128, 128, (2 * rows, 20)).astype("i1")
        x, perm = base[::2, 3 : 3 + D], rng.permutation(rows)
        there, here = blank((rows, D), "f2"), blank((D, rows), "i4")
        kernel(perm, x, there, here)
        check(there[perm], x)
        check(here, x[perm].astype("i4").T * 3)


@everywhere
def test_string_matching(target):
    n, m = T.dynamic("n, m")

    @T.prim_func
    def main(
        text: T.Tensor((n,), "uint8"),
        pattern: T.Tensor((m,), "uint8"),
        found: T.Tensor((n,), "uint8"),
        count: T.Tensor((1,), "int32"),
    ):
        with T.Kernel(T.ceildiv(n, 64), threads=64) as bx:
            for i in T.Parallel(64):
                at = bx * 64 + i
                same = T.alloc_var("int32", 1)
                for k in T.serial(m):
                    if text[at + k] != pattern[k]:
                        same = 0
                        break
                hit = same == 1 and at + m <= n
                if at < n:
                    found[at] = T.if_then_else(hit, 1, 0)
                if hit:
                    T.atomic_add(count[0], 1)

    kernel = tilelang.compile(main, target=target)
    text = np.random.default_rng(10).integers(97, 99, 301).astype("u1")
    text[-3:] = 97
    for word in (b"aba", b"aaa", b"bbabab"):
        pattern, found, count = np.frombuffer(word, "u1").copy(), blank(301, "u1"), np.zeros(1, "i4")
        kernel(text, pattern, found, count)
        windows = np.lib.stride_tricks.sliding_window_view(text, len(word))
        exact = np.zeros(301, "u1")
        exact[: len(windows)] = (windows == pattern).all(1)
        check(found, exact)
        assert count[0] == exact.sum()


@everywhere
def test_bits_packed_and_unpacked(target):
    n, bits, tile = 100, 5, 8
    words = -(-n * bits // 32)

    @T.prim_func
    def main(V: T.Tensor((n,), "uint8"), packed: T.Tensor((words,), "uint32"), back: T.Tensor((n,), "uint8")):
        with T.Kernel(T.ceildiv(words, tile), threads=32) as bx:
            one, word = T.alloc_fragment((tile, 32), "uint32"), T.alloc_fragment((tile,), "uint32")
            for w, k in T.Parallel(tile, 32):
                g = (bx * tile + w) * 32 + k
                bit = T.uint32(V[g // bits]) >> T.uint32(g % bits) & T.uint32(1)
                one[w, k] = bit << T.uint32(k)
            T.reduce_bitor(one, word, dim=1)
            T.copy(word, packed[bx * tile])
        with T.Kernel(T.ceildiv(n, 64), threads=32) as bx:
            for i in T.Parallel(64):
                at = bx * 64 + i
                if at < n:
                    first = at * bits // 32
                    both = T.uint64(packed[first]) | T.uint64(packed[first + 1]) << 32
                    back[at] = T.uint8(both >> T.uint64(at * bits % 32) & 31)

    v = np.random.default_rng(11).integers(0, 32, n).astype("u1")
    packed, back = blank(words, "u4"), blank(n, "u1")
    run(main, target, v, packed, back)
    stream = (v[:, None] >> np.arange(bits) & 1).ravel()
    check(packed, np.packbits(np.pad(stream, (0, words * 32 - n * bits)), bitorder="little").view("<u4"))
    check(back, v)
