"""How often each of `bins` numbers occurs in a list, counted by atomic additions.

    python examples/histogram.py [--target auto|cpu|cuda|sim:CHIP|reference] [--length N] [--bins B]

`everywhere`: each element adds to the result.  `shared`: a block counts in its shared memory, and adds its
counts to the result once.  `warps`: the lanes of a warp that hold the same number find each other, and the
first of them adds for all, which helps where few numbers are frequent; it is code of single threads.
"""

import harness
import numpy as np
import tilelang
import tilelang.language as T

SMALL = {"length": 700, "bins": 21}


@tilelang.jit
def histogram(N, bins, how, block=512, threads=128):
    @T.prim_func
    def everywhere(X: T.Tensor((N,), "int32"), counts: T.Tensor((bins,), "int32")):
        with T.Kernel(T.ceildiv(N, block), threads=threads) as bx:
            for i in T.Parallel(block):
                if bx * block + i < N:
                    T.atomic_add(counts[X[bx * block + i]], 1)

    @T.prim_func
    def shared(X: T.Tensor((N,), "int32"), counts: T.Tensor((bins,), "int32")):
        with T.Kernel(T.ceildiv(N, block), threads=threads) as bx:
            mine = T.alloc_shared((bins,), "int32")
            T.clear(mine)
            for i in T.Parallel(block):
                if bx * block + i < N:
                    T.atomic_add(mine[X[bx * block + i]], 1)
            T.atomic_add(counts, mine)

    @T.prim_func
    def warps(X: T.Tensor((N,), "int32"), counts: T.Tensor((bins,), "int32")):
        with T.Kernel(T.ceildiv(N, block), threads=threads) as bx:
            lane = T.get_lane_idx()
            for step in T.serial(block // threads):
                at = bx * block + step * threads + T.get_thread_binding()
                x = T.if_then_else(at < N, X[at], -1)
                same = T.match_any_sync(
                    x, dtype="uint64"
                )  # a bit for each lane, of which AMD's warps have 64
                first = (same & ((T.uint64(1) << T.uint64(lane)) - T.uint64(1))) == T.uint64(0)
                if first & (at < N):
                    T.atomic_add(counts[x], T.int32(T.popcount(same)))

    return {"everywhere": everywhere, "shared": shared, "warps": warps}[how]


def cases(kind, length=100_000, bins=200):
    rng = np.random.default_rng(0)
    x = np.minimum(rng.geometric(8 / bins, length) - 1, bins - 1).astype(np.int32)  # small ones are frequent
    for how in ("everywhere", "shared", "warps"):
        yield harness.Case(
            name=f"{how} {length} in {bins} bins",
            kernel=histogram.get_tir(length, bins, how),
            arguments=[x, np.zeros(bins, np.int32)],
            expected={1: np.bincount(x, minlength=bins)},
            bound=0,
            thread_level=how == "warps",
        )


if __name__ == "__main__":
    harness.main(__doc__, cases)
