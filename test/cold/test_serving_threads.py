"""Code of single threads: tickets and turns of blocks, scans and compaction by warps, lists in registers."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from everywhere import blank, by_threads, check, run
from ml_dtypes import bfloat16 as BF16

RNG = np.random.default_rng


def tried(program, target, *arguments):
    """Several schedules on the arguments as they are, then a run that changes them."""
    kernel = tilelang.compile(program, target=target)
    kernel.simulate(*(a.copy() for a in arguments), schedules=3, count=False)
    kernel(*arguments)


# Blocks share a sum; the one that draws the last ticket adds the parts and resets the counter.
def splitk(M, N, K, S, bM=16, bN=16, bK=16):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((K, N), "float16"),
        W: T.Tensor((S, M, N), "float32"),
        lock: T.Tensor((T.ceildiv(M, bM), T.ceildiv(N, bN)), "int32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, bN), T.ceildiv(M, bM), S, threads=32) as (bx, by, z):
            a = T.alloc_shared((bM, bK), "float16")
            b = T.alloc_shared((bK, bN), "float16")
            acc = T.alloc_fragment((bM, bN), "float32")
            last = T.alloc_shared((1,), "int32")
            T.clear(acc)
            steps = T.ceildiv(K, bK)
            for k in T.serial(z * steps // S, (z + 1) * steps // S):
                T.copy(A[by * bM, k * bK], a)
                T.copy(B[k * bK, bx * bN], b)
                T.gemm(a, b, acc)
            T.copy(acc, W[z, by * bM, bx * bN])
            T.sync_threads()
            if T.get_thread_binding() == 0:
                last[0] = T.atomic_add(lock[by, bx], 1, memory_order="acq_rel", return_prev=True)
            T.sync_threads()
            if last[0] == S - 1:
                T.clear(acc)
                for s in T.serial(S):
                    for i, j in T.Parallel(bM, bN):
                        acc[i, j] += W[s, by * bM + i, bx * bN + j]
                T.copy(acc, C[by * bM, bx * bN])
                if T.get_thread_binding() == 0:
                    lock[by, bx] = 0

    return main


@by_threads
def test_split_k_by_tickets(target):
    rng = RNG(0)
    for M, N, K, S in ((20, 16, 100, 3), (16, 33, 64, 4), (5, 5, 16, 2)):
        a, b = rng.standard_normal((M, K)).astype("f2"), rng.standard_normal((K, N)).astype("f2")
        counter, found = np.zeros((-(-M // 16), -(-N // 16)), "i4"), blank((M, N))
        tried(splitk(M, N, K, S), target, a, b, blank((S, M, N)), counter, found)
        check(counter, np.zeros_like(counter))
        check(found, a.astype("f8") @ b.astype("f8"), 1e-5)


# Blocks add to one tile in turn, each waiting for the one before it.
def turns(M, N, K, S):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((K, N), "float16"),
        lock: T.Tensor((1,), "int32"),
        C: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(S, threads=32) as z:
            a = T.alloc_shared((M, K // S), "float16")
            b = T.alloc_shared((K // S, N), "float16")
            acc = T.alloc_fragment((M, N), "float32")
            T.copy(A[0, z * (K // S)], a)
            T.copy(B[z * (K // S), 0], b)
            T.gemm(a, b, acc, clear_accum=True)
            if T.get_thread_binding() == 0:
                while T.atomic_load(lock[0], "acquire") != z:
                    pass
            T.sync_threads()
            if z > 0:
                for i, j in T.Parallel(M, N):
                    acc[i, j] += T.cast(C[i, j], "float32")
            T.copy(acc, C)
            T.sync_threads()
            if T.get_thread_binding() == 0:
                T.atomic_store(lock[0], T.if_then_else(z == S - 1, 0, z + 1), "release")

    return main


@by_threads
def test_split_k_in_turn(target):
    for M, N, K, S in ((16, 16, 64, 4), (32, 8, 32, 2), (16, 24, 48, 1)):
        rng = RNG(K)
        a, b = rng.standard_normal((M, K)).astype("f2"), rng.standard_normal((K, N)).astype("f2")
        lock, found = np.zeros(1, "i4"), blank((M, N), "f2")
        tried(turns(M, N, K, S), target, a, b, lock, found)
        check(lock, np.zeros(1))
        check(found, a.astype("f8") @ b.astype("f8"), 2e-3)


# The places of marked bytes, packed by votes of the warps.
def compact(bs=128):
    R, n = T.dynamic("R, n")

    @T.prim_func
    def main(X: T.Tensor((R, n), "uint8"), P: T.Tensor((R, n), "int64"), cnt: T.Tensor((R,), "int32")):
        with T.Kernel(R, threads=bs) as r:
            tx = T.get_thread_binding()
            lane, warp = T.get_lane_idx(), T.get_warp_idx()
            sums = T.alloc_shared((bs // 32,), "int32")
            base = T.alloc_var("int32", 0)
            for k in T.serial(T.ceildiv(n, bs)):
                i = k * bs + tx
                keep = (i < n) and (X[r, i] & 0x80) != 0
                m = T.ballot(keep)
                if lane == 0:
                    sums[warp] = T.cast(T.popcount(m), "int32")
                T.sync_threads()
                before = T.alloc_var("int32", 0)
                total = T.alloc_var("int32", 0)
                before = 0
                total = 0
                for w in T.unroll(bs // 32):
                    if w < warp:
                        before += sums[w]
                    total += sums[w]
                if keep:
                    P[
                        r,
                        base
                        + before
                        + T.cast(T.popcount(m & ((T.uint32(1) << T.cast(lane, "uint32")) - 1)), "int32"),
                    ] = i
                base += total
                T.sync_threads()
            if tx == 0:
                cnt[r] = base

    return main


@by_threads
def test_compaction_by_votes(target):
    for R, n in ((3, 300), (1, 128), (2, 5)):
        x, count = RNG(n).integers(0, 256, (R, n)).astype("u1"), blank(R, "i4")
        places = [np.flatnonzero(row & 128) for row in x]
        found = np.full((R, n), -7)
        tried(compact(), target, x, found, count)
        check(count, [len(p) for p in places])
        for row, p in zip(found, places, strict=True):
            check(row, np.concatenate([p, np.full(n - len(p), -7)]))


# Running sums in 64 bits: four neighbours in a thread, lanes by shuffles, warps through shared memory.
def scan(bs=64, own=4):
    n = T.dynamic("n")

    @T.prim_func
    def main(X: T.Tensor((n,), "int32"), Y: T.Tensor((n + 1,), "int64")):
        with T.Kernel(1, threads=bs):
            tx = T.get_thread_binding()
            lane, warp = T.get_lane_idx(), T.get_warp_idx()
            x = T.alloc_local((own,), "int64")
            tot = T.alloc_shared((bs // 32,), "int64")
            carry = T.alloc_var("int64", 0)
            for k in T.serial(T.ceildiv(n, bs * own)):
                at = (k * bs + tx) * own
                for i in T.unroll(own):
                    x[i] = T.cast(X[at + i], "int64")
                for i in T.unroll(1, own):
                    x[i] += x[i - 1]
                s = T.alloc_var("int64")
                s = x[own - 1]
                for d in T.unroll(5):
                    o = T.shfl_up(s, 1 << d)
                    if lane >= (1 << d):
                        s += o
                if lane == 31:
                    tot[warp] = s
                T.sync_threads()
                pre = T.alloc_var("int64")
                pre = carry + s - x[own - 1]
                for w in T.unroll(bs // 32):
                    if w < warp:
                        pre += tot[w]
                    carry += tot[w]
                for i in T.unroll(own):
                    if at + i < n:
                        Y[at + i + 1] = pre + x[i]
                T.sync_threads()
            if tx == 0:
                Y[0] = 0

    return main


@by_threads
def test_scan_by_shuffles(target):
    for n in (1, 256, 700):
        x, found = RNG(n).integers(-(2**31), 2**31, n).astype("i4"), blank(n + 1, "i8")
        tried(scan(), target, x, found)
        check(found, np.concatenate([[0], np.cumsum(x.astype("i8"))]))


# Shuffles within parts of a warp, matches and counted barriers, on a block of two dimensions.
def shuffles(dt):
    @T.prim_func
    def main(
        X: T.Tensor((4, 32), dt),
        Y: T.Tensor((4, 4, 32), dt),
        M: T.Tensor((4, 32), "uint32"),
        C: T.Tensor((4, 32), "int32"),
    ):
        with T.Kernel(1, threads=(32, 4)):
            tx, ty, _ = T.get_thread_bindings()
            v = X[ty, tx]
            Y[0, ty, tx] = T.shfl_sync(v, 3, 16)
            Y[1, ty, tx] = T.shfl_up(v, 2, 8)
            Y[2, ty, tx] = T.shfl_down(v, 5, 16)
            Y[3, ty, tx] = T.shfl_xor(v, 9, 16)
            M[ty, tx] = T.match_any_sync(T.cast(v, "int32"))
            C[ty, tx] = T.syncthreads_count(tx % (ty + 2) == 0)

    return main


@pytest.mark.parametrize("dtype", ["int8", "uint64", "float16", "bfloat16", "bool"])
@by_threads
def test_shuffles_of_every_width(target, dtype):
    kind, lane = BF16 if dtype == "bfloat16" else np.dtype(dtype), np.arange(32)
    x = RNG(1).integers(0, 2 if dtype == "bool" else 5, (4, 32)).astype(kind)
    run_of = lane // 16 * 16
    sources = (
        run_of + 3,
        np.where(lane % 8 >= 2, lane - 2, lane),
        np.where(lane % 16 < 11, lane + 5, lane),
        run_of + (lane % 16 ^ 9),
    )
    same = x.astype("i4")[:, None, :] == x.astype("i4")[:, :, None]
    moved, matched, counted = np.zeros((4, 4, 32), kind), blank((4, 32), "u4"), blank((4, 32), "i4")
    run(shuffles(dtype), target, x, moved, matched, counted)
    check(moved, np.stack([x[:, s] for s in sources]))
    check(matched, (same.astype("u8") << lane.astype("u8")).sum(-1))
    check(counted, np.full((4, 32), sum((lane % (y + 2) == 0).sum() for y in range(4))))


# Each thread keeps the four greatest of its row in registers, by insertion.
rows = T.dynamic("rows")


@T.prim_func
def four_best(
    X: T.Tensor((rows, 20), "float32"), K: T.Tensor((rows, 4), "float32"), I: T.Tensor((rows, 4), "int64")
):
    with T.Kernel(T.ceildiv(rows, 32), threads=32) as b:
        r = b * 32 + T.get_thread_binding()
        best, at = T.alloc_local((4,), "float32"), T.alloc_local((4,), "int64")
        p = T.alloc_var("int32", 0)
        for i in T.unroll(4):
            best[i] = -T.infinity("float32")
            at[i] = -1
        if r < rows:
            for j in T.serial(20):
                x = X[r, j]
                if x <= best[3]:
                    continue
                p = 3
                while p > 0:
                    if best[p - 1] >= x:
                        break
                    best[p] = best[p - 1]
                    at[p] = at[p - 1]
                    p -= 1
                best[p] = x
                at[p] = j
            for i in T.vectorized(4):
                K[r, i] = best[i]
                I[r, i] = at[i]


@by_threads
def test_insertion_in_registers(target):
    for n in (1, 40, 64):
        x, best, at = RNG(n).standard_normal((n, 20)).astype("f4"), blank((n, 4)), blank((n, 4), "i8")
        order = np.argsort(-x, 1, kind="stable")[:, :4]
        tried(four_best, target, x, best, at)
        check(at, order)
        check(best, np.take_along_axis(x, order, 1))


# A barrier of the whole grid by hand, of as many blocks as the chip has multiprocessors.
@by_threads
def test_barrier_of_the_grid_by_hand(target, n=132):
    @T.prim_func
    def main(arrived: T.Tensor((1,), "int32"), P: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(n, threads=32) as b:
            if T.get_thread_binding() == 0:
                P[b] = T.cast(b, "float32")
                T.atomic_add(arrived[0], 1, memory_order="release")
                while T.atomic_load(arrived[0], "acquire") < n:
                    pass
                Y[b] = P[n - 1 - b]

    y = blank(n)
    run(main, target, np.zeros(1, "i4"), blank(n), y)
    check(y, np.arange(n)[::-1])


# Foreign code fills four elements of a shared tile, as the extent of its pointer says.
@by_threads
def test_foreign_code_fills_a_vector(target):
    def copy4(to, source):
        to[:4] = source[:4]

    @T.prim_func
    def main(X: T.Tensor((128,), "float32"), Y: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            s = T.alloc_shared((128,), "float32")
            to, source = T.access_ptr(s[tx * 4], "w", 4), T.access_ptr(X[tx * 4], "r", 4)
            T.call_extern("void", "copy4", to, source, eval=copy4)
            for i in T.serial(4):
                Y[tx * 4 + i] = s[tx * 4 + i]

    x, y = np.arange(128, dtype="f4"), blank(128)
    run(main, target, x, y)
    check(y, x)
