"""Sorting, scans, selection, segments, dynamic programming and statistics, on ragged sizes."""

import numpy as np
import pytest
import tilelang.language as T
from everywhere import blank, by_threads, check, everywhere, extremes, run


# A bitonic network over one row for each block, places along with numbers; threads compare and swap.
def bitonic(B, n):
    N = 1 << max(1, (n - 1).bit_length())

    @T.prim_func
    def main(X: T.Tensor((B, n), "int32"), Y: T.Tensor((B, n), "int32"), P: T.Tensor((B, n), "int32")):
        with T.Kernel(B, threads=N) as b:
            tx = T.get_thread_binding()
            S, I = T.alloc_shared((N,), "int32"), T.alloc_shared((N,), "int32")
            S[tx] = T.if_then_else(tx < n, X[b, tx], T.max_value("int32"))
            I[tx] = tx
            for log_k in [*range(1, N.bit_length())]:
                for log_j in [*reversed(range(log_k))]:
                    T.sync_threads()
                    other = tx ^ (1 << log_j)
                    if other > tx:
                        here, there = T.alloc_var("int32", S[tx]), T.alloc_var("int32", S[other])
                        i, j = T.alloc_var("int32", I[tx]), T.alloc_var("int32", I[other])
                        greater = (here > there) | ((here == there) & (i > j))
                        if greater == ((tx & (1 << log_k)) == 0):
                            S[tx], S[other] = there, here
                            I[tx], I[other] = j, i
            T.sync_threads()
            if tx < n:
                Y[b, tx], P[b, tx] = S[tx], I[tx]

    return main


@by_threads
@pytest.mark.parametrize("B, n", [(2, 50), (1, 1), (1, 33)])
def test_bitonic_sort(target, B, n):
    x = np.random.default_rng(1).integers(-5, 5, (B, n)).astype("i4")
    x[0, 0] = 2**31 - 1
    order, y, p = np.argsort(x, 1, kind="stable"), blank((B, n), "i4"), blank((B, n), "i4")
    run(bitonic(B, n), target, x, y, p)
    check(y, np.sort(x, 1))
    check(p, order)


# Odd-even transposition of rows in shared memory; the pairs of a turn have no element in common.
def odd_even(R, n):
    @T.prim_func
    def main(X: T.Tensor((R, n), "uint8"), Y: T.Tensor((R, n), "uint8")):
        with T.Kernel(T.ceildiv(R, 4), threads=64) as b:
            S = T.alloc_shared((4, n), "uint8")
            T.copy(X[b * 4, 0], S)
            for turn in T.serial(n):
                for i, j in T.Parallel(4, n // 2):
                    left = j * 2 + turn % 2
                    if left + 1 < n:
                        u, v = T.alloc_var("uint8", S[i, left]), T.alloc_var("uint8", S[i, left + 1])
                        S[i, left], S[i, left + 1] = T.min(u, v), T.max(u, v)
            T.copy(S, Y[b * 4, 0])

    return main


@everywhere
def test_odd_even_sort(target):
    rng = np.random.default_rng(2)
    for R, n in [(5, 13), (1, 2), (9, 20)]:
        x, y = extremes(rng, (R, n), "u1"), blank((R, n), "u1")
        run(odd_even(R, n), target, x, y)
        check(y, np.sort(x, 1))


# Sums of ragged segments, by offsets whose number the call tells; they wrap at 64 bits.
def segments():
    n, s = T.dynamic("n, s")

    @T.prim_func
    def main(X: T.Tensor((n,), "int64"), offsets: T.Tensor((s + 1,), "int32"), Y: T.Tensor((s,), "int64")):
        with T.Kernel(s, threads=32) as b:
            total = T.alloc_reducer((1,), "int64", op="sum")
            T.clear(total)
            first, last = offsets[b], offsets[b + 1]
            for k in T.serial(T.ceildiv(last - first, 32)):
                for i in T.Parallel(32):
                    if first + k * 32 + i < last:
                        total[0] += X[first + k * 32 + i]
            T.finalize_reducer(total)
            for z in T.Parallel(1):
                Y[b] = total[z]

    return main


@everywhere
def test_sums_of_segments(target):
    rng = np.random.default_rng(3)
    for lengths in ([3, 0, 70, 32], [0], [1, 33, 64, 0, 0]):
        offsets = np.cumsum([0, *lengths]).astype("i4")
        x, y = extremes(rng, max(offsets[-1], 1), "i8"), blank(len(lengths), "i8")
        run(segments(), target, x, offsets, y)
        check(y, [x[i:j].sum() for i, j in zip(offsets, offsets[1:], strict=False)])


# An inclusive scan of uint64 by shuffles within warps, and by shared memory between them.
def scan(N, threads=64):
    @T.prim_func
    def main(X: T.Tensor((N,), "uint64"), Y: T.Tensor((N,), "uint64")):
        with T.Kernel(1, threads=threads):
            tx, lane, warp = T.get_thread_binding(), T.get_lane_idx(), T.get_warp_idx()
            parts, carry = T.alloc_shared((threads // 32,), "uint64"), T.alloc_var("uint64", 0)
            for k in T.serial(T.ceildiv(N, threads)):
                v = T.alloc_var("uint64", X[k * threads + tx])
                for d in T.unroll(5):
                    lower = T.shfl_up(v, 1 << d)
                    if lane >= (1 << d):
                        v += lower
                if lane == 31:
                    parts[warp] = v
                T.sync_threads()
                before = T.alloc_var("uint64", carry)
                for w in T.serial(threads // 32):
                    if w < warp:
                        before += parts[w]
                    carry += parts[w]
                Y[k * threads + tx] = v + before
                T.sync_threads()

    return main


# The positive numbers in their order: votes number the lanes that keep one.
def compact(N, threads=128):
    @T.prim_func
    def main(X: T.Tensor((N,), "int32"), Y: T.Tensor((N,), "int32"), count: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=threads):
            tx, lane, warp = T.get_thread_binding(), T.get_lane_idx(), T.get_warp_idx()
            kept, base = T.alloc_shared((threads // 32,), "int32"), T.alloc_var("int32", 0)
            for k in T.serial(T.ceildiv(N, threads)):
                at = k * threads + tx
                keep = (at < N) and (X[at] > 0)
                votes = T.ballot(keep)
                before = T.popcount(votes & ((T.uint32(1) << T.uint32(lane)) - T.uint32(1)))
                if lane == 0:
                    kept[warp] = T.int32(T.popcount(votes))
                T.sync_threads()
                slot = T.alloc_var("int32", base)
                for w in T.serial(threads // 32):
                    if w < warp:
                        slot += kept[w]
                    base += kept[w]
                if keep:
                    Y[slot + T.int32(before)] = X[at]
                T.sync_threads()
            if tx == 0:
                count[0] = base

    return main


@by_threads
@pytest.mark.parametrize("N", [200, 1, 65])
def test_scan_by_shuffles(target, N):
    x, y = extremes(np.random.default_rng(4), N, "u8"), blank(N, "u8")
    run(scan(N), target, x, y)
    check(y, np.cumsum(x))


@by_threads
@pytest.mark.parametrize("N", [300, 1, 129])
def test_compaction_by_votes(target, N):
    x = np.random.default_rng(5).integers(-3, 4, N).astype("i4")
    y, count = blank(N, "i4"), blank(1, "i4")
    run(compact(N), target, x, y, count)
    assert count[0] == (x > 0).sum()
    check(y[: count[0]], x[x > 0])


def best_of(p, q):
    """The greater value, and the lesser place of equal ones."""
    first = (p[0] > q[0]) | ((p[0] == q[0]) & (p[1] < q[1]))
    return T.max(p[0], q[0]), T.if_then_else(first, p[1], q[1])


# Viterbi's best path of each ragged sequence, -1 beyond its end.
def viterbi(B, L, S):
    least = (-T.infinity("float32"), S)

    @T.prim_func
    def main(
        E: T.Tensor((B, L, S), "float32"),
        A: T.Tensor((S, S), "float32"),
        lengths: T.Tensor((B,), "int32"),
        path: T.Tensor((B, L), "int32"),
        score: T.Tensor((B,), "float32"),
    ):
        back = T.alloc_global((B, L, S), "int8")
        with T.Kernel(B, threads=64) as b:
            moves, now = T.alloc_shared((S, S), "float32"), T.alloc_shared((S,), "float32")
            sums, origin = T.alloc_fragment((S, S), "float32"), T.alloc_fragment((S, S), "int32")
            best, who = T.alloc_fragment((S,), "float32"), T.alloc_fragment((S,), "int32")
            top, last = T.alloc_fragment((1,), "float32"), T.alloc_fragment((1,), "int32")
            T.copy(A, moves)
            T.copy(E[b, 0, 0:S], now)
            for t in range(1, lengths[b]):
                for j, i in T.Parallel(S, S):
                    sums[j, i] = now[i] + moves[i, j]
                    origin[j, i] = i
                T.reduce((sums, origin), (best, who), 1, combine=best_of, identity=least)
                for j in T.Parallel(S):
                    now[j] = best[j] + E[b, t, j]
                    back[b, t, j] = T.cast(who[j], "int8")
            T.copy(now, best)
            for j in T.Parallel(S):
                who[j] = j
            T.reduce((best, who), (top, last), 0, combine=best_of, identity=least)
            for z in T.Parallel(1):
                score[b] = top[z]
                s = T.alloc_var("int32", last[z])
                for t in range(L - 1, -1, -1):
                    path[b, t] = T.if_then_else(t < lengths[b], s, -1)
                    if t > 0 and t < lengths[b]:
                        s = back[b, t, s]

    return main


def best_path(E, A, length):
    now, back = E[0], []
    for t in range(1, length):
        sums = now[:, None] + A
        back.append(sums.argmax(0))
        now = sums.max(0) + E[t]
    path = [int(now.argmax())]
    for row in reversed(back):
        path.append(int(row[path[-1]]))
    return path[::-1] + [-1] * (len(E) - length), now.max()


@everywhere
def test_viterbi(target):
    rng = np.random.default_rng(6)
    for B, L, S in [(3, 9, 7), (1, 1, 2), (2, 6, 33)]:
        E, A = rng.integers(-9, 9, (B, L, S)).astype("f4"), rng.integers(-9, 9, (S, S)).astype("f4")
        lengths = rng.integers(1, L + 1, B).astype("i4")
        path, score = blank((B, L), "i4"), blank(B)
        run(viterbi(B, L, S), target, E, A, lengths, path, score)
        expected = [best_path(e, A, n) for e, n in zip(E, lengths, strict=True)]
        check(path, [p for p, _ in expected])
        check(score, [s for _, s in expected])


# The loss of connectionist temporal classification in float64: states are labels and the blanks between them.
def ctc(B, L, V, U):
    S, never = 2 * U + 1, -T.infinity("float64")

    @T.prim_func
    def main(
        P: T.Tensor((B, L, V), "float64"),
        labels: T.Tensor((B, U), "int32"),
        count: T.Tensor((B,), "int32"),
        loss: T.Tensor((B,), "float64"),
    ):
        with T.Kernel(B, threads=32) as b:
            now, after = T.alloc_shared((S,), "float64"), T.alloc_fragment((S,), "float64")
            for s in T.Parallel(S):
                label = T.if_then_else(s % 2 == 1, labels[b, s // 2], 0)
                now[s] = T.if_then_else((s < 2) & (s < 2 * count[b] + 1), P[b, 0, label], never)
            for t in T.serial(1, L):
                for s in T.Parallel(S):
                    label = T.if_then_else(s % 2 == 1, labels[b, s // 2], 0)
                    skip = s % 2 == 1 and s >= 3 and labels[b, s // 2] != labels[b, s // 2 - 1]
                    x = now[s]
                    y = T.if_then_else(s >= 1, now[T.max(s - 1, 0)], never)
                    z = T.if_then_else(skip, now[T.max(s - 2, 0)], never)
                    m = T.max(T.max(x, y), z)
                    total = m + T.log(T.exp(x - m) + T.exp(y - m) + T.exp(z - m))
                    after[s] = T.if_then_else(m == never, never, total) + P[b, t, label]
                T.copy(after, now)
            for _ in T.Parallel(1):
                end = 2 * count[b]
                x, y = now[end], T.if_then_else(end > 0, now[T.max(end - 1, 0)], never)
                m = T.max(x, y)
                loss[b] = T.if_then_else(m == never, -never, -(m + T.log(T.exp(x - m) + T.exp(y - m))))

    return main


def ctc_loss(P, labels):
    states = [0]
    for label in labels:
        states += [label, 0]
    now = np.full(len(states), -np.inf)
    now[:2] = P[0, states[:2]]
    for row in P[1:]:
        ways = [[s] + [s - 1] * (s >= 1) for s in range(len(states))]
        for s in range(3, len(states), 2):
            ways[s] += [s - 2] * int(states[s] != states[s - 2])
        now = np.array([np.logaddexp.reduce(now[w]) for w in ways]) + row[states]
    return -np.logaddexp.reduce(now[-2:])


@everywhere
def test_ctc_loss(target):
    rng = np.random.default_rng(7)
    for B, L, V, U in [(3, 8, 5, 3), (1, 1, 2, 1), (2, 12, 6, 5)]:
        x = rng.standard_normal((B, L, V))
        P = x - np.log(np.exp(x).sum(-1, keepdims=True))
        labels, count = rng.integers(1, V, (B, U)).astype("i4"), rng.integers(0, U + 1, B).astype("i4")
        count[0], loss = U, blank(B, "f8")
        run(ctc(B, L, V, U), target, P, labels, count, loss)
        check(loss, [ctc_loss(P[b], labels[b, : count[b]]) for b in range(B)], 1e-12)


# Welford's running statistics of columns, without the numbers that are missing (NaN).
def welford():
    M, N = T.dynamic("M, N")

    @T.prim_func
    def main(
        X: T.Tensor((M, N), "float32"),
        mean: T.Tensor((N,), "float32"),
        var: T.Tensor((N,), "float32"),
        count: T.Tensor((N,), "int32"),
    ):
        with T.Kernel(T.ceildiv(N, 32), threads=32) as b:
            for j in T.Parallel(32):
                n, m, s = T.alloc_var("int32", 0), T.alloc_var("float32", 0.0), T.alloc_var("float32", 0.0)
                for i in T.serial(M):
                    x = X[i, b * 32 + j]
                    if T.isnan(x):
                        continue
                    n += 1
                    step = x - m
                    m += step / n
                    s += step * (x - m)
                mean[b * 32 + j], count[b * 32 + j] = m, n
                var[b * 32 + j] = T.if_then_else(n > 1, s / (n - 1), -1.0)

    return main


@everywhere
def test_welford(target):
    rng = np.random.default_rng(8)
    for M, N in [(7, 40), (1, 1), (30, 33)]:
        x = (rng.standard_normal((M, N)) + 1000).astype("f4")
        x[rng.random((M, N)) < 0.2] = np.nan
        mean, var, count = blank(N), blank(N), blank(N, "i4")
        run(welford(), target, x, mean, var, count)
        columns = [c[~np.isnan(c)].astype("f8") for c in x.T]
        check(count, [len(c) for c in columns])
        check(mean, [c.mean() if len(c) else 0 for c in columns], 1e-6)
        check(var, [c.var(ddof=1) if len(c) > 1 else -1 for c in columns], 1e-4)


# The k-th of each row by the bits of its floats, eight at a time; k comes from a tensor.
def select(R, N):
    @T.prim_func
    def main(X: T.Tensor((R, N), "float32"), rank: T.Tensor((R,), "int32"), Y: T.Tensor((R,), "float32")):
        with T.Kernel(R, threads=64) as b:
            counts, keys = T.alloc_shared((256,), "int32"), T.alloc_shared((N,), "uint32")
            upto, place, less = [T.alloc_fragment((256,), "int32") for _ in range(3)]
            digit, fewer = [T.alloc_fragment((1,), "int32") for _ in range(2)]
            for i in T.Parallel(N):
                bits = T.reinterpret(X[b, i], "uint32")
                keys[i] = T.if_then_else((bits >> 31) != 0, ~bits, bits | 0x80000000)
            prefix, k = T.alloc_var("uint32", 0), T.alloc_var("int32", rank[b])
            for shift in [24, 16, 8, 0]:
                T.clear(counts)
                for i in T.Parallel(N):
                    if T.cast(keys[i], "uint64") >> (shift + 8) == prefix:
                        T.atomic_add(counts[(keys[i] >> shift) & 0xFF], 1)
                T.copy(counts, upto)
                T.cumsum(upto)
                for i in T.Parallel(256):
                    place[i] = T.if_then_else(upto[i] > k, i, 256)
                T.reduce_min(place, digit)
                for i in T.Parallel(256):
                    less[i] = T.if_then_else(i == digit[0] - 1, upto[i], 0)
                T.reduce_sum(less, fewer)
                k -= fewer[0]
                prefix = (prefix << 8) | T.uint32(digit[0])
            bits = T.if_then_else((prefix >> 31) != 0, prefix & 0x7FFFFFFF, ~prefix)
            for _ in T.Parallel(1):
                Y[b] = T.reinterpret(bits, "float32")

    return main


@everywhere
def test_quantiles_by_bits(target):
    rng = np.random.default_rng(9)
    for R, N in [(3, 100), (1, 1), (2, 67)]:
        x = (rng.standard_normal((R, N)) * 10.0 ** rng.integers(-30, 30, (R, N))).astype("f4")
        x[0, 0], x[-1, -1] = -np.inf, np.inf
        rank, y = rng.integers(0, N, R).astype("i4"), blank(R)
        run(select(R, N), target, x, rank, y)
        check(y, np.sort(x, 1)[np.arange(R), rank])


# The nearest of some centres by one GEMM, the first of equal ones; sums and counts for the next turn.
def assign(N, D, K, bn=32):
    Kp, Dp, far = -(-K // 16) * 16, -(-D // 16) * 16, (-T.infinity("float32"), 2**31 - 1)

    @T.prim_func
    def main(
        X: T.Tensor((N, D), "float16"),
        C: T.Tensor((K, D), "float16"),
        label: T.Tensor((N,), "int32"),
        sums: T.Tensor((K, D), "float32"),
        count: T.Tensor((K,), "int32"),
    ):
        with T.Kernel(T.ceildiv(N, bn), threads=64) as b:
            x, c = T.alloc_shared((bn, Dp), "float16"), T.alloc_shared((Kp, Dp), "float16")
            near, which = T.alloc_fragment((bn, Kp), "float32"), T.alloc_fragment((bn, Kp), "int32")
            squares, norms = T.alloc_fragment((Kp, Dp), "float32"), T.alloc_fragment((Kp,), "float32")
            best, who = T.alloc_fragment((bn,), "float32"), T.alloc_fragment((bn,), "int32")
            mine = T.alloc_shared((bn,), "int32")
            T.copy(X[b * bn, 0], x)
            T.copy(C[0, 0], c)
            for k, d in T.Parallel(Kp, Dp):
                squares[k, d] = T.float32(c[k, d]) * T.float32(c[k, d])
            T.reduce_sum(squares, norms, dim=1)
            T.gemm(x, c, near, transpose_B=True, clear_accum=True)
            for i, k in T.Parallel(bn, Kp):
                near[i, k] = T.if_then_else(k < K, 2 * near[i, k] - norms[k], -T.infinity("float32"))
                which[i, k] = k
            T.reduce((near, which), (best, who), 1, combine=best_of, identity=far)
            T.copy(who, label[b * bn])
            T.copy(who, mine)
            for i, d in T.Parallel(bn, D):
                if b * bn + i < N:
                    T.atomic_add(sums[mine[i], d], x[i, d])
            for i in T.Parallel(bn):
                if b * bn + i < N:
                    T.atomic_add(count[mine[i]], 1)

    return main


@everywhere
def test_k_means_assignment(target):
    rng = np.random.default_rng(10)
    for N, D, K in [(70, 10, 5), (1, 1, 1), (33, 17, 20)]:
        x, c = (rng.integers(-8, 8, (rows, D)).astype("f2") for rows in (N, K))
        label, sums, count = blank(N, "i4"), np.zeros((K, D), "f4"), np.zeros(K, "i4")
        run(assign(N, D, K), target, x, c, label, sums, count)
        nearest = ((x[:, None].astype("f8") - c) ** 2).sum(-1).argmin(1)
        expected = np.zeros((K, D))
        np.add.at(expected, nearest, x.astype("f8"))
        check(label, nearest)
        check(sums, expected)
        check(count, np.bincount(nearest, minlength=K))
