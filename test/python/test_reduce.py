"""Reductions over any axis, extent and type, on the CPU and in the reference, against NumPy in float64."""

import ml_dtypes
import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import failure

SIM = "sim:sm_90"  # of the fixture `target`

FOLDS = ("sum", "max", "min", "abssum", "absmax")
FRAGMENTS = "fragment->fragment"


@tilelang.jit
def program(shape, dim, fold, dtype, out_dtype, scope, keep, clear, threads):
    rank = len(shape)
    out = [e for d, e in enumerate(shape) if keep or d != dim % rank]
    if keep or rank == 1:
        out = [1 if d == dim % rank else e for d, e in enumerate(shape)]
    alloc = {"fragment": T.alloc_fragment, "shared": T.alloc_shared}
    source, target = scope.split("->")

    @T.prim_func
    def main(A: T.Tensor(shape, dtype), B: T.Tensor(tuple(out), out_dtype)):
        with T.Kernel(1, threads=threads) as _:
            S = alloc[source](shape, dtype)
            D = alloc[target](tuple(out), out_dtype)
            T.copy(A, S)
            T.copy(B, D)
            T.reduce(S, D, fold, dim=dim, clear=clear)
            T.copy(D, B)

    return main


def numbers(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(max(info.min, -100), min(info.max, 100), shape, dtype, endpoint=True)
    return rng.standard_normal(shape).astype(dtype)


def expected(a, old, fold, dim, clear):
    """What old becomes, in float64 or int64."""
    wide = np.int64 if np.dtype(a.dtype).kind in "iu" else np.float64
    a, old = a.astype(wide), old.astype(wide)
    a = np.abs(a) if fold.startswith("abs") else a
    keep = old.ndim == a.ndim
    name = fold.removeprefix("abs")
    values = getattr(np, name)(a, axis=dim, keepdims=keep)
    join = {"sum": np.add, "max": np.maximum, "min": np.minimum}[name]
    return values if clear else join(values, old)


def check(
    shape, dim, fold, dtype, target, *, out_dtype=None, scope=FRAGMENTS, keep=False, clear=True, threads=128
):
    dtype = np.dtype(dtype)
    out_dtype = np.dtype(out_dtype or dtype)
    rank = len(shape)
    out = [1 if d == dim % rank else e for d, e in enumerate(shape) if keep or rank == 1 or d != dim % rank]
    kernel = tilelang.compile(
        program.get_tir(tuple(shape), dim, fold, dtype.name, out_dtype.name, scope, keep, clear, threads),
        target=target,
    )
    a, b = numbers(shape, dtype), numbers(tuple(out), out_dtype, 1)
    want = expected(a, b, fold, dim, clear)
    kernel(a, b)
    if np.dtype(dtype).kind in "iu":
        assert np.array_equal(b, want.astype(out_dtype))
        return
    eps = float(ml_dtypes.finfo(out_dtype).eps) if fold.endswith("sum") or dtype != out_dtype else 0
    scale = np.abs(a.astype(np.float64)).sum(axis=dim, keepdims=b.ndim == a.ndim) + 1
    computed = np.finfo(np.float64 if dtype == np.float64 else np.float32).eps * shape[dim]
    error = np.abs(b.astype(np.float64) - want)
    assert np.all(error <= eps * np.abs(want) + (computed * scale if fold.endswith("sum") else 0))


SHAPES = [
    (1,), (7,), (64,), (300,), (1, 1), (1, 17), (17, 1), (64, 128), (33, 100), (100, 33), (3, 300),
    (5, 7, 11), (8, 1, 40), (2, 3, 4, 5), (4, 16, 2, 33),
]  # fmt: skip


def cases():
    turn = 0
    for shape in SHAPES:
        for dim in range(len(shape)):
            for fold in FOLDS:
                turn += 1
                yield shape, dim - len(shape) * (turn % 2), fold, turn


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize("shape, dim, fold, turn", list(cases()), ids=str)
def test_shapes(shape, dim, fold, turn, target):
    keep, clear = turn % 3 == 0, turn % 4 != 0
    check(shape, dim, fold, np.float32, target, keep=keep, clear=clear)


DTYPES = [
    np.float16,
    ml_dtypes.bfloat16,
    np.float64,
    np.int8,
    np.uint8,
    np.int16,
    np.int32,
    np.uint32,
    np.int64,
]


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("fold", FOLDS)
def test_dtypes(fold, dtype, target):
    dtype = np.dtype(dtype)
    wider = {"float16": "float32", "bfloat16": "float32", "int8": "int32"}.get(dtype.name, dtype.name)
    for dim in (0, 1):
        for clear in (True, False):
            check((19, 70), dim, fold, dtype, target, clear=clear)
        check((19, 70), dim, fold, dtype, target, out_dtype=np.dtype(wider))


@pytest.mark.parametrize("target", ["cpu", "reference", "cpu -mcpu=x86-64"])
@pytest.mark.parametrize("scope", ["shared->fragment", "shared->shared", "fragment->shared"])
def test_scopes(scope, target):
    for dim in (0, 1):
        for clear in (True, False):
            check((20, 45), dim, "sum", np.float32, target, scope=scope, clear=clear)


@pytest.mark.parametrize("extent", range(1, 301, 13))
@pytest.mark.parametrize("dim", [0, 1])
def test_extents(extent, dim):
    shape = (extent, 9) if dim == 0 else (9, extent)
    check(shape, dim, "sum", np.float32, "cpu")


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize("fold", FOLDS)
def test_what_is_not_a_number_loses(fold, target):
    kernel = tilelang.compile(
        program.get_tir((4, 40), 1, fold, "float32", "float32", FRAGMENTS, False, True, 32), target=target
    )
    a, b = numbers((4, 40), np.float32), np.zeros(4, np.float32)
    a[1, 3] = np.nan
    a[2, :] = -np.inf
    a[3, 5] = np.inf
    kernel(a, b)
    if fold.endswith("sum"):
        assert np.isnan(b[1])
    else:
        rest = np.delete(a[1], 3)
        want = {"max": rest.max(), "min": rest.min(), "absmax": np.abs(rest).max()}[fold]
        assert b[1] == want
    assert abs(b[2]) == np.inf
    assert b[3] == (a[3].min() if fold == "min" else np.inf)


def test_a_slice_of_a_shared_tile():
    @T.prim_func
    def main(A: T.Tensor((3, 16, 40), "float32"), B: T.Tensor((12,), "float32")):
        with T.Kernel(1, threads=64) as _:
            S = T.alloc_shared((3, 16, 40), "float32")
            D = T.alloc_shared((20,), "float32")
            T.copy(A, S)
            T.reduce_sum(S[1, 2:14, 5:33], D[3:15], dim=1)
            T.copy(D[3:15], B)

    for target in ("cpu", "reference"):
        a, b = numbers((3, 16, 40), np.float32), np.zeros(12, np.float32)
        tilelang.compile(main, target=target)(a, b)
        assert np.allclose(b, a[1, 2:14, 5:33].astype(np.float64).sum(1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dim", [0, 1])
def test_a_tile_in_the_layout_of_a_gemm(dim):
    shape = ((40,), (24,))[dim]

    @T.prim_func
    def main(A: T.Tensor((16, 24)), B: T.Tensor((24, 40)), C: T.Tensor((16, 40)), D: T.Tensor(shape)):
        with T.Kernel(1, threads=64) as _:
            A_shared = T.alloc_shared((16, 24), "float32")
            B_shared = T.alloc_shared((24, 40), "float32")
            C_local = T.alloc_fragment((16, 40), "float32")
            sums = T.alloc_fragment(shape, "float32")
            T.copy(A, A_shared)
            T.copy(B, B_shared)
            T.gemm(A_shared, B_shared, C_local, clear_accum=True)
            T.reduce_sum(B_shared, sums, dim=dim)
            T.copy(C_local, C)
            T.copy(sums, D)

    for target in ("cpu", "cpu -mcpu=haswell", "reference"):
        a, b = numbers((16, 24), np.float32), numbers((24, 40), np.float32, 1)
        c, d = np.zeros((16, 40), np.float32), np.zeros(shape, np.float32)
        tilelang.compile(main, target=target)(a, b, c, d)
        assert np.allclose(d, b.astype(np.float64).sum(dim), rtol=1e-5, atol=1e-5)
        assert np.allclose(c, a.astype(np.float64) @ b, rtol=1e-5, atol=1e-5)


# ── on a GPU ──────────────────────────────────────────────────────────────────────────────────────────

MAPPED = [  # shape, dim, threads
    ((64, 128), 1, 128), ((64, 128), 0, 128), ((33, 100), 1, 96), ((33, 100), 0, 160), ((300,), 0, 32),
    ((300,), 0, 512), ((7, 300), 1, 300), ((200, 190), 1, 512), ((5, 7, 11), 1, 100), ((2, 3, 4, 5), 2, 64),
    ((1, 17), 0, 33), ((256, 73), 1, 292),
]  # fmt: skip


def source_for_a_gpu(shape, dim, threads, fold="sum", dtype="float32", scope=FRAGMENTS, clear=True):
    function = program.get_tir(shape, dim, fold, dtype, dtype, scope, False, clear, threads)
    try:
        return tilelang.compile(function, target="cuda -arch=sm_80").get_kernel_source()
    except RuntimeError as missing:
        if "libnvrtc" in str(missing):
            pytest.skip("NVRTC is not installed")
        raise


@pytest.mark.parametrize("scope", ["fragment->fragment", "shared->fragment", "fragment->shared"])
@pytest.mark.parametrize("shape, dim, threads", MAPPED, ids=str)
def test_compiles_for_a_gpu(shape, dim, threads, scope):
    assert "for sm_80" in source_for_a_gpu(shape, dim, threads, scope=scope)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("fold", ["sum", "absmax"])
def test_types_compile_for_a_gpu(fold, dtype):
    name = np.dtype(dtype).name
    source = source_for_a_gpu((64, 100), 1, 128, fold=fold, dtype=name, clear=False)
    assert "tl_shfl_xor" in source or "__syncthreads" in source


def test_a_warp_needs_no_shared_memory():
    source = source_for_a_gpu((16, 128), 1, 128, fold="max")
    assert "tl_shfl_xor" in source and "__syncthreads" not in source


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_the_greatest_absolute_value_where_all_are_the_least(dtype, target):
    """It wraps to itself, and is no more than what a fold begins with."""

    @T.prim_func
    def main(A: T.Tensor((3, 40), dtype), B: T.Tensor((3,), dtype)):
        with T.Kernel(1, threads=32):
            x, y = T.alloc_fragment((3, 40), dtype), T.alloc_fragment((3,), dtype)
            T.copy(A, x)
            T.reduce_absmax(x, y, dim=1)
            T.copy(y, B)

    a, b = np.full((3, 40), np.iinfo(dtype).min, dtype), np.ones(3, dtype)
    a[1, 7], a[2, :] = 0, 5
    tilelang.compile(main, target=target)(a, b)
    assert np.array_equal(b, np.abs(a).max(1))


# ── what is wrong ─────────────────────────────────────────────────────────────────────────────────────

BEFORE = "S = T.alloc_fragment((64, 8), 'float32')\nD = T.alloc_fragment((64,), 'float32')\n"
WRONG = {
    "T.reduce_sum(S, D, dim=0)": (
        "buffer is S: float32[64, 8] and dim 0, so out must be float32[8] or float32[1, 8], but it is D: "
        "float32[64]"
    ),
    "T.reduce_max(S, D, dim=2)": "dim is 2, but S: float32[64, 8] has 2 dimensions: it must lie in [-2, 2)",
    "T.reduce_max(A, D)": "A: float32[64, 8] is in global memory; copy it to a fragment or a shared",
    "T.reduce_max(S[0:32, :], D)": "an index or a slice of S is given, but it is a fragment",
    "T.reduce_min(D, S)": "so out must be float32[1], but it is S: float32[64, 8]",
    "T.reduce(S, D, 'product')": (
        "reduce_type must be one of sum, max, min, abssum, absmax, prod, bitand, bitor, bitxor, any, all, "
        "not 'product'"
    ),
    "T.reduce_sum(S, T.alloc_fragment((64,), 'float16'))": "out must have buffer's type, or a wider one",
    "T.reduce_sum(T.alloc_fragment((1, 64, 8), 'float32')[0, :, :], D)": "an index or a slice of",
    "T.reduce_sum(S, T.alloc_fragment((64,), 'int32'))": "out must have buffer's type, or a wider one",
    "T.reduce_sum(S, D, dim='x')": "dim must be an integer known while the kernel is built, not 'x', which",
}


@pytest.mark.parametrize("line", WRONG)
def test_errors(tmp_path, line):
    assert WRONG[line] in str(failure(tmp_path, BEFORE + line))


@pytest.mark.parametrize("fold", ["max", "min", "absmax"])
@pytest.mark.parametrize("clear", [True, False])
def test_a_row_of_nothing_but_nan(fold, clear):
    """What the fold begins with is its result, and meets the old value without clear: on every target."""
    shape = (4, 40)

    @T.prim_func
    def main(X: T.Tensor(shape, "float32"), O: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            f, r = T.alloc_fragment(shape, "float32"), T.alloc_fragment((4,), "float32")
            T.copy(X, f)
            T.fill(r, -9)
            getattr(T, f"reduce_{fold}")(f, r, dim=1, clear=clear)
            T.copy(r, O)

    x = np.full(shape, np.nan, "float32")
    x[0] = 1
    first = {"max": -np.inf, "min": np.inf, "absmax": 0}[fold]
    old = {"max": -9, "min": -9, "absmax": 0}[fold]
    for target in ("reference", "cpu", "sim:sm_80"):
        out = np.zeros(4, "float32")
        tilelang.compile(main, target=target)(x, out)
        assert (out[1:] == (first if clear else old)).all(), (target, out)
