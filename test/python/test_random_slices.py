"""Slices of tiles that begin where a call says: random operators on random slices.  Where the slice lies
inside, all targets agree; where it leaves its tile, all of them say so: no memory behind it is touched."""

import random

import numpy as np
import pytest
import tilelang
from helpers import load_text

TARGETS = ["reference", "cpu", "sim:sm_80", "sim:sm_90a"]
PROGRAMS = 24

# What is done with the slice {s} of the tile S, of {e} elements, or {r} rows of {c}; R holds what comes out.
LINES = {
    "fill": "T.fill({s}, 7)",
    "clear": "T.clear({s})",
    "copy from a tensor": "T.copy(A[{whole}], {s})",
    "copy to a tile": "T.copy(Q[{whole}], {s})",
    "copy from it": "T.copy({s}, Q[{whole}])",
    "copy to a tensor": "T.copy({s}, B[{whole}])",
    "copy to a fragment": "T.copy({s}, F)\n        T.copy(F, Q)",
    "clamp": "T.clamp({s}, -2, 2)",
    "reduce": "T.reduce_sum({s}, V, dim={last})\n        T.copy(V, W)",
    "maximum": "T.reduce_max({s}, V, dim=0)\n        T.copy(V, W)",
    "cumsum": "T.cumsum({s}, Q, dim={last})",
    "atomic": "T.atomic_add(B[{whole}], {s})",
}


def program(rng):
    """Its text, the least and the greatest n inside, and the axis that n moves along."""
    kind = rng.choice(list(LINES))
    rank = rng.choice([1, 2])
    tile = [rng.choice([5, 8, 16, 24]) for _ in range(rank)]
    part = [rng.randint(2, e) for e in tile]
    axis = rng.randrange(rank)
    part[axis] = rng.randint(1, tile[axis] - 1)
    factor = rng.choice([1, 1, 2])
    index = [f"{factor} * n : {factor} * n + {e}" if d == axis else f"0:{e}" for d, e in enumerate(part)]
    if rng.random() < 0.3:
        index[axis] = index[axis].replace(f"{factor} * n", f"{factor} * (n + j - 1)")
    whole = ", ".join(f"0:{e}" for e in part)
    dim = 0 if kind == "maximum" else rank - 1
    kept = [e for d, e in enumerate(part) if d != dim] or [1]
    scope = rng.choice(["shared", "shared", "fragment"])
    if kind in ("cumsum", "atomic", "reduce", "maximum") or "fragment" in kind:
        scope = "shared"
    line = LINES[kind].format(s=f"S[{', '.join(index)}]", whole=whole, last=dim)
    text = f"""
import tilelang.language as T

@T.prim_func
def main(n: T.int32, A: T.Tensor({tuple(part)}, "float32"), X: T.Tensor({tuple(tile)}, "float32"),
         B: T.Tensor({tuple(part)}, "float32"), C: T.Tensor({tuple(part)}, "float32"),
         W: T.Tensor({tuple(kept)}, "float32"), Y: T.Tensor({tuple(tile)}, "float32")):
    with T.Kernel(1, threads=32):
        S = T.alloc_{scope}({tuple(tile)}, "float32")
        Q = T.alloc_shared({tuple(part)}, "float32")
        F = T.alloc_fragment({tuple(part)}, "float32")
        V = T.alloc_fragment({tuple(kept)}, "float32")
        T.fill(Q, 3)
        T.copy(X, S)
        {"for j in T.serial(1, 2):" if " j " in line else "if True:"}
            {line.replace(chr(10), chr(10) + "    ")}
        T.copy(Q, C)
        T.copy(S, Y)
"""
    return kind, scope, text, (tile[axis] - part[axis]) // factor, (part, tile, kept)


def arguments(shapes, seed):
    part, tile, kept = shapes
    rng = np.random.default_rng(seed)
    a, x = rng.integers(-5, 6, part), rng.integers(-5, 6, tile)
    poison = [np.full(s, 1e9) for s in (part, part, kept, tile)]
    poison[0][:] = 0  # an atomic update adds to it
    return [v.astype(np.float32) for v in (a, x, *poison)]


def outcome(kernel, n, arrays):
    try:
        kernel(n, *arrays)
    except (tilelang.CompileError, tilelang.SimulationError, RuntimeError) as error:
        return str(error)
    return ""


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_a_slice_that_may_leave_its_tile(tmp_path, seed):
    rng = random.Random(seed)
    kind, scope, text, most, shapes = program(rng)
    main = load_text(tmp_path, text).main
    wanted = None
    for target in TARGETS:
        kernel = tilelang.compile(main, target=target)
        for n in {0, most}:
            arrays = arguments(shapes, seed)
            assert outcome(kernel, n, arrays) == "", (kind, target, n)
            if n == most:
                wanted = arrays if wanted is None else wanted
                assert all(map(np.array_equal, arrays, wanted)), (kind, target)
        for n in (most + 1, -1, most + 1000000):
            said = outcome(kernel, n, arguments(shapes, seed))
            assert "S" in said and ("outside" in said or "lie in" in said), (
                kind,
                scope,
                target,
                n,
                said,
                text,
            )


# ── products ──────────────────────────────────────────────────────────────────────────────────────────
PLACES = {  # of the factor A in S, of B in Q: which dimension n moves along
    "rows of A": ("S[n : n + 64, 0:32]", "Q[0:32, 0:64]"),
    "columns of A": ("S[0:64, n : n + 32]", "Q[0:32, 0:64]"),
    "rows of B": ("S[0:64, 0:32]", "Q[n : n + 32, 0:64]"),
    "columns of B": ("S[0:64, 0:32]", "Q[0:32, n : n + 64]"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("dtype, targets", [
    ("float16", TARGETS), ("float32", ["reference", "cpu", "sim:sm_75"]),
])  # fmt: skip
def test_a_factor_that_may_leave_its_tile(tmp_path, place, dtype, targets):
    """Its rows lie in the tile's memory even where its columns do not."""
    a, b = PLACES[place]
    text = f"""
import tilelang.language as T

@T.prim_func
def main(n: T.int32, A: T.Tensor((128, 64), "{dtype}"), B: T.Tensor((64, 128), "{dtype}"),
         C: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128):
        S, Q = T.alloc_shared((128, 64), "{dtype}"), T.alloc_shared((64, 128), "{dtype}")
        c = T.alloc_fragment((64, 64), "float32")
        T.copy(A, S)
        T.copy(B, Q)
        T.clear(c)
        T.gemm({a}, {b}, c)
        T.copy(c, C)
"""
    main = load_text(tmp_path, text).main
    rng = np.random.default_rng(0)
    x, y = rng.integers(-3, 4, (128, 64)).astype(dtype), rng.integers(-3, 4, (64, 128)).astype(dtype)
    most = 64 if place in ("rows of A", "columns of B") else 32
    for target in targets:
        kernel = tilelang.compile(main, target=target)
        c = np.full((64, 64), np.nan, np.float32)
        assert outcome(kernel, most, [x, y, c]) == "", target
        wanted = eval(f"{a} @ {b}", {"S": x.astype(float), "Q": y.astype(float), "n": most})
        assert np.array_equal(c, wanted), target
        for n in (most + 8, most + 1, -8):
            said = outcome(kernel, n, [x, y, c])
            assert "outside" in said or "lie in" in said, (target, n, said)
