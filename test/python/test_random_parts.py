"""Fragments that lie as a part of a larger one does, whose threads have gaps between them: what operators
make of such a part is what NumPy makes of it."""

import random

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import load_text

TARGETS = ["sim:sm_80", "sim:sm_90a", "sim:gfx942"]
PROGRAMS = 200

# What becomes of the part y; d is the dimension that it is folded along.
FOLDS = {
    "T.reduce_sum(y, s, dim=d)": lambda y, d: y.sum(d),
    "T.reduce_max(y, s, dim=d)": lambda y, d: y.max(d),
    "T.reduce_min(y, s, dim=d)": lambda y, d: y.min(d),
    "T.reduce_absmax(y, s, dim=d)": lambda y, d: abs(y).max(d),
    "T.reduce_bitor(y, s, dim=d)": lambda y, d: np.bitwise_or.reduce(y, d),
    "T.reduce_bitxor(y, s, dim=d)": lambda y, d: np.bitwise_xor.reduce(y, d),
    "T.fill(s, 3); T.reduce_sum(y, s, dim=d, clear=False)": lambda y, d: y.sum(d) + 3,
    "T.reduce(y, s, d, combine=lambda a, b: a ^ b, identity=0)": lambda y, d: np.bitwise_xor.reduce(y, d),
    "T.reduce((y, z), (s, t), d, combine=later, identity=(-(1 << 31), 0))": lambda y, d: y.max(d),
    "T.cumsum(y, z, dim=d); T.reduce_sum(z, s, dim=d)": lambda y, d: y.cumsum(d).sum(d),
    "T.clamp(y, -9, 9); T.reduce_sum(y, s, dim=d)": lambda y, d: y.clip(-9, 9).sum(d),
}


def program(rng):
    """Its text, the extents of the whole, the part of it, the dimension and the fold."""
    rank = rng.choice([1, 2, 2, 2, 2, 3])
    whole = [rng.choice([3, 4, 5, 8, 12, 15, 16, 24, 32, 48, 96]) for _ in range(rank)]
    if rank == 3:
        whole = [min(e, 12) for e in whole]
    part = [rng.choice([e, rng.randint(1, e), rng.randint(1, e)]) for e in whole]
    d = rng.randrange(rank)
    fold = rng.choice(list(FOLDS))
    names = ["i", "j", "k"][:rank]
    kept = [e for n, e in enumerate(part) if n != d] or [1]
    scope = rng.choice(["fragment", "fragment", "shared"])
    loop = f"for {', '.join(names)} in T.Parallel({', '.join(map(str, part))}):"
    at = ", ".join(names)
    begin = [rng.randint(0, w - e) if rng.random() < 0.2 else 0 for w, e in zip(whole, part, strict=True)]
    place = ", ".join(f"{n} + {b}" if b else n for n, b in zip(names, begin, strict=True))
    text = f"""
import tilelang.language as T

def later(a, b):
    take = a[0] >= b[0]
    return T.if_then_else(take, a[0], b[0]), T.if_then_else(take, a[1], b[1])

@T.prim_func
def main(X: T.Tensor({tuple(whole)}, "int32"), S: T.Tensor({tuple(kept)}, "int32"),
         Y: T.Tensor({tuple(part)}, "int32"), Z: T.Tensor({tuple(part)}, "int32")):
    with T.Kernel(1, threads={rng.choice([11, 24, 32, 45, 64, 96, 128, 128, 160, 256])}):
        d = {d}
        x = T.alloc_fragment({tuple(whole)}, "int32")
        y, z = T.alloc_fragment({tuple(part)}, "int32"), T.alloc_fragment({tuple(part)}, "int32")
        s, t = T.alloc_{scope}({tuple(kept)}, "int32"), T.alloc_fragment({tuple(kept)}, "int32")
        T.copy(X, x)
        {loop}
            y[{at}] = x[{place}]
            z[{at}] = x[{place}]
        {fold}
        T.copy(s, S)
        T.copy(y, Y)
        T.copy(z, Z)
"""
    return text, whole, [slice(b, b + e) for b, e in zip(begin, part, strict=True)], d, fold


def program_of(seed):
    rng = random.Random(seed)
    return program(rng), rng.choice(TARGETS)


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_a_part_of_a_fragment(tmp_path, seed):
    (text, whole, part, d, fold), target = program_of(seed)
    x = np.random.default_rng(seed).integers(-(1 << 20), 1 << 20, whole).astype(np.int32)
    y = z = x[tuple(part)]
    folded = FOLDS[fold](y, d)
    out = [np.full(shape, 99, np.int32) for shape in (folded.shape or (1,), y.shape, y.shape)]
    tilelang.compile(load_text(tmp_path, text).main, target=target)(x, *out)
    y, z = y.clip(-9, 9) if "clamp" in fold else y, y.cumsum(d) if "cumsum" in fold else z
    for got, wanted in zip(out, (folded, y, z), strict=True):
        assert np.array_equal(got, wanted.reshape(got.shape).astype(np.int32)), (target, text)


@pytest.mark.parametrize("whole, part, threads", [
    ((32, 4), (4, 3), 128), ((5, 15), (5, 12), 32), ((4, 4), (3, 3), 11), ((8, 8), (8, 6), 64),
    ((8, 64), (4, 48), 512),
])  # fmt: skip
@pytest.mark.parametrize("target", TARGETS)
def test_sums_of_a_part(whole, part, threads, target):
    @T.prim_func
    def main(X: T.Tensor(whole, "int32"), S: T.Tensor((part[0],), "int32")):
        with T.Kernel(1, threads=threads):
            x, y = T.alloc_fragment(whole, "int32"), T.alloc_fragment(part, "int32")
            s = T.alloc_fragment((part[0],), "int32")
            T.copy(X, x)
            for i, j in T.Parallel(*part):
                y[i, j] = x[i, j]
            T.reduce_sum(y, s, dim=1)
            T.copy(s, S)

    x = np.arange(whole[0] * whole[1], dtype=np.int32).reshape(whole)
    s = np.full(part[0], 99, np.int32)
    tilelang.compile(main, target=target)(x, s)
    assert s.tolist() == x[: part[0], : part[1]].sum(1).tolist()
