"""Scans, transposes and reducers: in every executor, over ragged shapes and threads."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import alloc, compiles_for_gpus, failure, run

# ── scans ─────────────────────────────────────────────────────────────────────────────────────────────


def scan_program(shape, dim, reverse, threads, dtype, out_dtype, name, scope, in_place):
    @T.prim_func
    def main(A: T.Tensor(shape, dtype), B: T.Tensor(shape, out_dtype)):
        with T.Kernel(1, threads=threads) as _:
            S = alloc(scope, shape, dtype)
            T.copy(A, S)
            scan = T.cumsum if name == "cumsum" else T.cummax
            if in_place:
                scan(S, dim=dim, reverse=reverse)
                T.copy(S, B)
            else:
                D = alloc(scope, shape, out_dtype)
                scan(S, D, dim=dim, reverse=reverse)
                T.copy(D, B)

    return main


SCANNED = [(1,), (7,), (33,), (100,), (1000,), (33, 100), (5, 7, 11), (128, 64)]


def scanned(a, dim, reverse, name):
    a = np.flip(a, dim) if reverse else a
    a = np.cumsum(a, dim) if name == "cumsum" else np.maximum.accumulate(a, dim)
    return np.flip(a, dim) if reverse else a


@pytest.mark.parametrize("shape", SCANNED, ids=str)
def test_scans(shape, target):
    rng = np.random.default_rng(0)
    turn = 0
    for dim in range(len(shape)):
        for threads in (32, 96, 100, 512):
            turn += 1
            name, reverse = ("cumsum", "cummax")[turn % 3 == 0], turn % 2 == 1
            scope, in_place = ("shared", "fragment")[turn % 5 > 2], turn % 4 < 2
            a, b = rng.standard_normal(shape).astype("float32"), np.full(shape, np.nan, "float32")
            at = dim - len(shape) * (turn % 2)
            run(
                scan_program(shape, at, reverse, threads, "float32", "float32", name, scope, in_place),
                target,
                a,
                b,
            )
            want = scanned(a.astype(np.float64), dim, reverse, name)
            assert np.linalg.norm(b - want) <= 1e-5 * np.linalg.norm(want), (dim, threads, name, scope)


@pytest.mark.parametrize(
    "dtypes", [("float16", "float16"), ("int8", "int32"), ("uint8", "uint8"), ("float64", "float64")]
)
def test_scans_of_other_types(dtypes, target):
    src, dst = dtypes
    rng = np.random.default_rng(0)
    a = (rng.integers(-5, 50, (20, 70)) if src != "uint8" else rng.integers(0, 50, (20, 70))).astype(src)
    for dim, name in ((0, "cumsum"), (1, "cumsum"), (1, "cummax")):
        b = np.zeros((20, 70), dst)
        run(scan_program((20, 70), dim, False, 64, src, dst, name, "shared", False), target, a, b)
        want = scanned(a.astype(np.float64 if src.startswith("f") else np.int64), dim, False, name)
        with np.errstate(over="ignore"):
            assert np.array_equal(b, want.astype(dst)) or np.abs(b - want).max() <= 1e-3 * np.abs(want).max()


def test_a_scan_of_a_slice(target):
    @T.prim_func
    def main(A: T.Tensor((3, 16, 40), "float32"), B: T.Tensor((12, 28), "float32")):
        with T.Kernel(1, threads=64) as _:
            S = T.alloc_shared((3, 16, 40), "float32")
            T.copy(A, S)
            T.cumsum(S[1, 2:14, 5:33], dim=1)
            T.copy(S[1, 2:14, 5:33], B)
            T.copy(S[0, 2:14, 5:33], A[2, 2:14, 5:33])

    a, b = (
        np.random.default_rng(0).standard_normal((3, 16, 40)).astype("float32"),
        np.zeros((12, 28), "float32"),
    )
    want, rest = a[1, 2:14, 5:33].astype(np.float64).cumsum(1), a[0, 2:14, 5:33].copy()
    run(main, target, a, b)
    assert np.abs(b - want).max() < 1e-4 and np.array_equal(a[2, 2:14, 5:33], rest)


def test_scans_compile_for_gpus():
    for dtype in ("float32", "float16", "int32"):
        for scope in ("shared", "fragment"):
            compiles_for_gpus(scan_program((33, 100), 1, True, 128, dtype, dtype, "cumsum", scope, False))


# ── transpose, clamp ──────────────────────────────────────────────────────────────────────────────────


def transpose_program(m, n, dtype, threads, source, target):
    @T.prim_func
    def main(A: T.Tensor((m, n), dtype), B: T.Tensor((n, m), dtype)):
        with T.Kernel(1, threads=threads) as _:
            S, D = alloc(source, (m, n), dtype), alloc(target, (n, m), dtype)
            T.copy(A, S)
            T.transpose(S, D)
            T.copy(D, B)

    return main


@pytest.mark.parametrize("shape", [(1, 7), (32, 32), (33, 100), (100, 33), (64, 128)], ids=str)
def test_transpose(shape, target):
    m, n = shape
    scopes = [("shared", "shared"), ("fragment", "fragment"), ("shared", "fragment"), ("fragment", "shared")]
    for turn, threads in enumerate((32, 100, 256, 512)):
        for dtype in ("float32", "float16", "int8"):
            a, b = (
                (np.random.default_rng(0).standard_normal(shape) * 9).astype(dtype),
                np.zeros((n, m), dtype),
            )
            run(transpose_program(m, n, dtype, threads, *scopes[turn]), target, a, b)
            assert np.array_equal(b, a.T), (threads, dtype, scopes[turn])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_transpose_meets_no_bank_twice(dtype):
    program = transpose_program(64, 64, dtype, 128, "shared", "shared")
    report = tilelang.compile(program, target="sim:sm_80").explain()
    line = next(o.place for o in report.operators if o.name == "transpose")
    accesses = [a for a in report.accesses if a.place == line and a.scope == "shared"]
    assert {a.buffer for a in accesses} == {"S", "D"}
    assert all(a.count is not None and a.excess == 0 for a in accesses)
    compiles_for_gpus(program)


def test_clamp(target):
    @T.prim_func
    def main(
        A: T.Tensor((33, 100), "float16"),
        B: T.Tensor((33, 100), "float16"),
        C: T.Tensor((33, 100), "float16"),
    ):
        with T.Kernel(1, threads=64) as _:
            S = T.alloc_fragment((33, 100), "float16")
            T.copy(A, S)
            T.clamp(S, -0.5, 0.25)
            T.copy(S, B)
            for i, j in T.Parallel(33, 100):
                C[i, j] = T.clamp(A[i, j], -0.5, 0.25)

    a = np.random.default_rng(0).standard_normal((33, 100)).astype("float16")
    b, c = np.zeros_like(a), np.zeros_like(a)
    run(main, target, a, b, c)
    assert np.array_equal(b, np.clip(a, -0.5, 0.25)) and np.array_equal(c, b)


# ── any_of, all_of ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("scope", ["shared", "fragment", "global"])
@pytest.mark.parametrize("name", ["any_of", "all_of"])
def test_any_and_all_of(name, scope, target):
    @T.prim_func
    def main(A: T.Tensor((8, 33), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=64) as _:
            S = A if scope == "global" else alloc(scope, (8, 33), "int32")
            if scope != "global":
                T.copy(A, S)
            truth = T.any_of if name == "any_of" else T.all_of
            F = T.alloc_shared((4,), "int32")
            T.clear(F)
            if truth(S):
                T.fill(F[0:1], 1)
            if scope != "fragment":
                row = truth(S[2, :])
                if row:
                    T.fill(F[1:2], 1)
            T.copy(F, B)

    judge = np.any if name == "any_of" else np.all
    for changed in (None, (7, 32), (2, 3)):
        a, b = np.full((8, 33), int(name == "all_of"), np.int32), np.full(4, -1, np.int32)
        if changed:
            a[changed] ^= 1
        run(main, target, a, b)
        assert b[0] == judge(a)
        assert scope == "fragment" or b[1] == judge(a[2])


# ── reducers ──────────────────────────────────────────────────────────────────────────────────────────


def reducer_program(op, init, threads, replication):
    @T.prim_func
    def main(A: T.Tensor((33, 100), "float32"), B: T.Tensor((33,), "float32"), C: T.Tensor((33,), "float32")):
        with T.Kernel(1, threads=threads) as _:
            S = T.alloc_fragment((33, 100), "float32")
            T.copy(A, S)
            o = T.alloc_reducer((33,), "float32", op=op, replication=replication)
            if init == 0:
                T.clear(o)
            elif init is not None:
                T.fill(o, init)
            else:
                T.reducer_init(o)
            for i, j in T.Parallel(33, 100):
                if op == "sum":
                    o[i] += S[i, j]
                else:
                    T.reducer_update(o[i], S[i, j])
            for i, j in T.Parallel(33, 100):
                T.reducer_update(o[i], A[i, j])
            T.finalize_reducer(o, B)
            for i in T.Parallel(33):
                C[i] = o[i]

    return main


@pytest.mark.parametrize("op, init", [("sum", 0), ("sum", 5.0), ("max", None), ("min", None), ("prod", None)])
def test_reducers(op, init, target):
    a = (np.random.default_rng(0).random((33, 100)) * 0.2 + 0.9).astype("float32")
    x = a.astype(np.float64)
    want = {"sum": 2 * x.sum(1) + (init or 0), "max": x.max(1), "min": x.min(1), "prod": x.prod(1) ** 2}[op]
    for threads, replication in ((32, "all"), (100, None), (128, "none"), (512, "all")):
        b, c = np.full(33, np.nan, "float32"), np.full(33, np.nan, "float32")
        run(reducer_program(op, init, threads, replication), target, a, b, c)
        assert np.linalg.norm(b - want) <= 1e-5 * np.linalg.norm(want), threads
        assert np.array_equal(b, c)


def test_reducers_compile_for_gpus():
    compiles_for_gpus(reducer_program("sum", 5.0, 128, "all"))


# ── what a read outside gives, how a copy is mapped ───────────────────────────────────────────────────


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_safe_value(dtype, target):
    @T.prim_func
    def main(A: T.Tensor((50, 72), dtype), B: T.Tensor((64, 128), dtype), C: T.Tensor((64, 128), dtype)):
        with T.Kernel(1, threads=128) as _:
            T.annotate_safe_value({A: -3})
            S = T.alloc_shared((64, 128), dtype)
            T.copy(A[0:64, 0:128], S)
            T.copy(S, B)
            for i, j in T.Parallel(64, 128):
                C[i, j] = A[i, j]

    a = (np.random.default_rng(0).standard_normal((50, 72)) * 9).astype(dtype)
    b, c, want = np.zeros((64, 128), dtype), np.zeros((64, 128), dtype), np.full((64, 128), -3, dtype)
    want[:50, :72] = a
    run(main, target, a, b, c)
    assert np.array_equal(b, want) and np.array_equal(c, want)
    compiles_for_gpus(main)


def test_loop_layout_of_a_copy(target):
    fragment = T.Fragment(
        (16, 64),
        forward_thread_fn=lambda i, j: (i % 4) * 16 + j // 4,
        forward_index_fn=lambda i, j: (i // 4) * 4 + j % 4,
    )

    @T.prim_func
    def main(A: T.Tensor((16, 64), "float32"), B: T.Tensor((16, 64), "float32")):
        with T.Kernel(1, threads=64) as _:
            S = T.alloc_shared((16, 64), "float32")
            T.copy(A, S, loop_layout=fragment)
            T.copy(S, B, coalesced_width=2)

    a, b = np.random.default_rng(0).standard_normal((16, 64)).astype("float32"), np.zeros((16, 64), "float32")
    run(main, target, a, b)
    assert np.array_equal(a, b)
    if target != "sim:sm_80":
        return
    accesses = tilelang.compile(main, target=target).explain().accesses
    widths = {(a.buffer, a.writes): a.bytes for a in accesses}
    assert widths["A", False] == 16 and widths["B", True] == 8


def test_coalesced_width_is_refused_with_the_reason():
    @T.prim_func
    def main(A: T.Tensor((16, 33), "float32"), B: T.Tensor((16, 33), "float32")):
        with T.Kernel(1, threads=64) as _:
            for i, j in T.Parallel(16, 33, coalesced_width=4):
                B[i, j] = A[i, j]

    report = str(tilelang.compile(main, target="sim:sm_80").explain())
    assert "4 was asked for, but a thread moves 1 at once" in report


# ── gemm on parts of buffers and fragments, arrays of a thread ────────────────────────────────────────


def test_gemm_of_parts_and_fragments(target):
    @T.prim_func
    def main(
        A: T.Tensor((2, 64, 96), "float16"),
        B: T.Tensor((3, 96, 64), "float16"),
        C: T.Tensor((64, 64), "float32"),
        D: T.Tensor((64, 64), "float32"),
        E: T.Tensor((32, 64), "float32"),
    ):
        with T.Kernel(1, threads=128) as _:
            As = T.alloc_shared((2, 64, 96), "float16")
            Bs = T.alloc_shared((3, 96, 64), "float16")
            Af = T.alloc_fragment((64, 96), "float16")
            Bf = T.alloc_fragment((96, 64), "float16")
            Cl, Dl = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((64, 64), "float32")
            El = T.alloc_fragment((32, 64), "float32")
            T.copy(A, As)
            T.copy(B, Bs)
            T.copy(B[1, :, :], Bf)
            T.copy(A[0, :, :], Af)
            policy = T.GemmWarpPolicy.from_warp_partition(4, 1)
            T.gemm(As[1, :, :], Bs[2, :, :], Cl, clear_accum=True, k_pack=1, policy=policy)
            T.copy(Cl, C)
            T.gemm(Af, Bf, Dl, clear_accum=True)
            T.copy(Dl, D)
            T.clear(El)
            T.gemm(As[0, 16:48, 32:64], Bs[1, 32:64, :], El)
            T.gemm(As[0, 16:48, 64:96], Bf[64:96, :], El)
            T.copy(El, E)

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype("float16") for shape in ((2, 64, 96), (3, 96, 64)))
    c, d, e = (np.full((n, 64), np.nan, "float32") for n in (64, 64, 32))
    run(main, target, a, b, c, d, e)
    x, y = a.astype(np.float64), b.astype(np.float64)
    wanted = ((c, x[1] @ y[2]), (d, x[0] @ y[1]), (e, x[0, 16:48, 32:] @ y[1, 32:]))
    for got, want in wanted:
        assert np.linalg.norm(got - want) < 1e-5 * np.linalg.norm(want)
    for shape, policy in {(4, 1): "FullRow", (1, 4): "FullCol", (2, 2): "Square"}.items():
        assert T.GemmWarpPolicy.from_warp_partition(*shape).name == policy


def test_every_thread_fills_its_own_array():
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((64, 8), "float32")):
        with T.Kernel(1, threads=64) as _:
            tx = T.get_thread_binding()
            L = T.alloc_local((8,), "float32")
            M = T.alloc_local((8,), "float32")
            T.clear(L)
            T.copy(A, M)
            for i in T.serial(8):
                B[tx, i] = L[i] + M[i]

    a, b = np.arange(8, dtype="float32"), np.full((64, 8), np.nan, "float32")
    run(main, "sim:sm_80", a, b)
    assert np.array_equal(b, np.tile(a, (64, 1)))


# ── what is wrong ─────────────────────────────────────────────────────────────────────────────────────

BEFORE = """\
S = T.alloc_shared((64, 8), 'float32')
D = T.alloc_shared((64,), 'float32')
F = T.alloc_fragment((64, 8), 'float32')
G = T.alloc_local((8,), 'float32')
"""
WRONG = {
    "T.reduce_bitand(S, D)": "buffer is S: float32[64, 8]; it must hold integers or bool",
    "T.reduce(S, D, 'sum', nan_propagate=True)": "nan_propagate is for max, min, absmax",
    "T.reduce_any(S, D)": "out is D: float32[64]; it must hold bool or integers",
    "T.reduce(S, D, 1, combine=lambda a, b: a + b)": "identity is missing",
    "T.reduce(S, D, 'sum', 1, combine=lambda a, b: a + b, identity=0)": "one of them says how to fold",
    "T.reduce(S, D, 1, combine=lambda a: a, identity=0)": "combine is called with two values",
    "T.reduce(S, D, 1, combine=lambda a, b: (a, b), identity=0)": "combine must give one value",
    "T.reduce((S, S), (D, D), 1, combine=lambda a, b: a, identity=0)": "T.reduce with combine: 2 til",
    "T.reduce(S, D, 1, combine=lambda a, b: a + D[0], identity=0)": "combine reads a buffer",
    "T.reduce_sum(S, D, batch=0)": "batch is 0; it counts results",
    "T.cumsum(S, D)": "src is S: float32[64, 8] but dst is D: float32[64]; their shapes must be equal",
    "T.cumsum(A, S)": "A: float32[64, 8] is in global memory; copy it to a shared buffer or a fragment first",
    "T.cummax(S, dim=2)": "dim is 2, but S: float32[64, 8] has 2 dimensions: it must lie in [-2, 2)",
    "T.cumsum(S[0:8, :], S[4:12, :])": "src is S[0:8, 0:8] and dst is S[4:12, 0:8], which have elements in",
    "T.transpose(S[0:8, :], S[0:8, :])": "which have elements in common",
    "T.transpose(S, F)": "dst must have src's shape with the last two dimensions exchanged",
    "T.transpose(D, D)": "it needs two dimensions",
    "T.reducer_init(S)": "S: float32[64, 8] is not a reducer: make it by T.alloc_reducer",
    "T.finalize_reducer(G)": "is not a reducer",
    "T.alloc_reducer((8,), 'float32', op='mean')": "op must be one of sum, max, min, prod",
    "o = T.alloc_reducer((8,), 'float32')\nT.clear(o)": "the reducer o is never finalised",
    "o = T.alloc_reducer((8,), 'float32')\nT.clear(o)\no[0] += 1.0": "contribute to it inside of T.Parallel",
    "o = T.alloc_reducer((8,), 'float32')\nT.clear(o)\nT.copy(o, D[0:8])": "has not been finalised",
    "o = T.alloc_reducer((8,), 'float32')\nT.clear(o)\nT.finalize_reducer(o)\nT.finalize_reducer(o)": (
        "a second time would count every part again"
    ),
    "T.any_of(S[0, 0])": "a slice A[i0:i1] says how many there are",
    "T.annotate_safe_value({S: 1.0})": "S is a tile; only a tensor may be read outside of its bounds",
    "T.annotate_safe_value({A: n})": "must be a constant",
    "T.copy(A, S, loop_layout=T.Fragment((8, 8), lambda i, j: (i, j)))": "loop_layout is for extents [8, 8]",
}


@pytest.mark.parametrize("line", WRONG)
def test_errors(tmp_path, line):
    assert WRONG[line] in str(failure(tmp_path, BEFORE + line))
