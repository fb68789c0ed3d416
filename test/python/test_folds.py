"""Folds: the language's own and the user's, in every executor, over ragged shapes and threads."""

import numpy as np
import pytest
import tilelang.language as T
from helpers import alloc, compiles_for_gpus, run, without

# ── folds ─────────────────────────────────────────────────────────────────────────────────────────────

FOLDS = {  # fold: its ufunc, (src dtype, dst dtype) to try
    "prod": (np.multiply, [("float32", "float32"), ("float16", "float32"), ("int32", "int32")]),
    "bitand": (np.bitwise_and, [("int32", "int32"), ("uint8", "uint8"), ("bool", "bool")]),
    "bitor": (np.bitwise_or, [("int16", "int32"), ("uint32", "uint32"), ("bool", "bool")]),
    "bitxor": (np.bitwise_xor, [("uint32", "uint32"), ("int64", "int64"), ("bool", "bool")]),
    "any": (np.logical_or, [("float32", "bool"), ("int8", "int32"), ("bool", "bool")]),
    "all": (np.logical_and, [("float16", "bool"), ("int32", "int32"), ("bool", "bool")]),
}
SHAPES = [((1,), 0), ((7,), 0), ((33, 100), 1), ((33, 100), 0), ((5, 7, 11), 1), ((64, 128), -1)]


def fold_program(shape, dim, fold, dtypes, scope, clear, threads):
    src, dst = dtypes
    out = without(shape, dim % len(shape))

    @T.prim_func
    def main(A: T.Tensor(shape, src), B: T.Tensor(out, dst)):
        with T.Kernel(1, threads=threads) as _:
            S = alloc(scope, shape, src)
            D = alloc(scope, out, dst)
            T.copy(A, S)
            T.copy(B, D)
            T.reduce(S, D, fold, dim=dim, clear=clear, batch=2)
            T.copy(D, B)

    return main


def fold_input(rng, shape, fold, dtype):
    if fold in ("any", "all") or dtype == "bool":
        rare = rng.random(shape) < 0.02
        return (~rare if fold in ("all", "bitand") else rare).astype(dtype)
    if fold == "prod" and dtype.startswith("float"):
        return (rng.random(shape) * 0.2 + 0.9).astype(dtype)
    return rng.integers(0, 127, shape).astype(dtype)


@pytest.mark.parametrize("fold", FOLDS)
def test_folds(fold, target):
    ufunc, types = FOLDS[fold]
    rng = np.random.default_rng(0)
    turn = 0
    for shape, dim in SHAPES:
        for src, dst in types:
            turn += 1
            threads, scope = (32, 100, 256, 512)[turn % 4], ("shared", "fragment")[turn % 2]
            clear = turn % 3 != 0
            a, b = (
                fold_input(rng, shape, fold, src),
                fold_input(rng, without(shape, dim % len(shape)), fold, dst),
            )
            wide = a.astype(np.float64) if fold == "prod" and src != "int32" else a
            with np.errstate(over="ignore"):
                kwargs = {"dtype": np.int32} if fold == "prod" and src == "int32" else {}
                want = ufunc.reduce(wide, axis=dim, keepdims=len(shape) == 1, **kwargs)
                want = want if clear else ufunc(want, b)
            run(fold_program(shape, dim, fold, (src, dst), scope, clear, threads), target, a, b)
            if want.dtype.kind == "f":
                assert np.linalg.norm(b - want) <= 1e-5 * np.linalg.norm(want), (shape, src, threads)
            else:
                assert np.array_equal(b, want.astype(dst)), (shape, src, threads, clear)


@pytest.mark.parametrize("fold", FOLDS)
def test_folds_compile_for_gpus(fold):
    for types in FOLDS[fold][1]:
        compiles_for_gpus(fold_program((33, 100), 1, fold, types, "fragment", False, 128))


@pytest.mark.parametrize("fold", ["max", "min", "absmax"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_nan_propagates(fold, dtype, target):
    @T.prim_func
    def main(A: T.Tensor((9, 100), dtype), B: T.Tensor((9,), dtype)):
        with T.Kernel(1, threads=64) as _:
            S = T.alloc_fragment((9, 100), dtype)
            D = T.alloc_fragment((9,), dtype)
            T.copy(A, S)
            T.reduce(S, D, fold, dim=1, nan_propagate=True)
            T.copy(D, B)

    a, b = np.random.default_rng(0).standard_normal((9, 100)).astype(dtype), np.zeros(9, dtype)
    a[2, 5] = a[7, 99] = np.nan
    a[4, 3] = np.inf
    run(main, target, a, b)
    want = getattr(np, fold.removeprefix("abs"))(np.abs(a) if fold == "absmax" else a, axis=1)
    assert np.isnan(want[[2, 7]]).all() and np.array_equal(b, want, equal_nan=True)


# ── the user's own fold ───────────────────────────────────────────────────────────────────────────────


def own_program(shape, dim, clear, threads, scope):
    out = without(shape, dim)

    def log_add(a, b):
        return T.max(a, b) + T.log(1 + T.exp(T.min(a, b) - T.max(a, b)))

    @T.prim_func
    def main(
        A: T.Tensor(shape, "float32"),
        B: T.Tensor(out, "float32"),
        I: T.Tensor(shape, "int32"),
        J: T.Tensor(out, "int32"),
        modulus: T.int32,
    ):
        with T.Kernel(1, threads=threads) as _:
            S, D = alloc(scope, shape, "float32"), alloc("fragment", out, "float32")
            T.copy(A, S)
            T.copy(B, D)
            T.reduce(S, D, dim, combine=log_add, identity=-1e30, clear=clear)
            T.copy(D, B)
            whole, D2 = alloc(scope, shape, "int32"), alloc("shared", out, "int32")
            T.copy(I, whole)
            T.copy(J, D2)
            T.reduce(whole, D2, dim=dim, combine=lambda a, b: (a + b) % modulus, identity=0, clear=clear)
            T.copy(D2, J)

    return main


OWN = [
    ((33, 100), 1, 128),
    ((33, 100), 0, 96),
    ((7,), 0, 32),
    ((1,), 0, 32),
    ((5, 7, 11), 1, 100),
    ((64, 256), 1, 256),
]


@pytest.mark.parametrize("shape, dim, threads", OWN, ids=str)
def test_the_users_own_fold(shape, dim, threads, target):
    rng = np.random.default_rng(0)
    keep = len(shape) == 1
    for clear, scope in ((True, "fragment"), (False, "shared")):
        a, b = (
            rng.standard_normal(shape).astype("float32"),
            rng.standard_normal(without(shape, dim)).astype("float32"),
        )
        i, j = (rng.integers(0, 97, s).astype("int32") for s in (shape, without(shape, dim)))
        want = np.log(np.exp(a.astype(np.float64)).sum(axis=dim, keepdims=keep))
        want = want if clear else np.logaddexp(want, b.astype(np.float64))
        total = i.sum(axis=dim, keepdims=keep) + (0 if clear else j)
        run(own_program(shape, dim, clear, threads, scope), target, a, b, i, j, 97)
        assert np.abs(b - want).max() < 1e-4
        assert np.array_equal(j, total % 97)


def test_the_users_own_fold_elsewhere():
    program = own_program((33, 100), 1, False, 128, "fragment")
    compiles_for_gpus(program)
    assert "combine=(a: f32, b: f32) ->" in str(program)
