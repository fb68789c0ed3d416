"""Tile operators on a thread's own arrays, and on the CPU's memory of any kind."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import kernel
from tilelang import CompileError

ONE_THREAD = ("reference", "cpu")
GPUS = ("sim:sm_80", "sim:sm_90a")
ALLOC = {"shared": T.alloc_shared, "local": T.alloc_local, "fragment": T.alloc_fragment}


def run(program, target, *arrays):
    tilelang.compile(program, target=target)(*arrays)


def error_of(got, want):
    want = np.asarray(want, np.float64)
    return np.linalg.norm((got - want).ravel()) / np.linalg.norm(want.ravel())


# ── reductions ────────────────────────────────────────────────────────────────────────────────────────
KINDS = {
    "sum": lambda x, axis: x.sum(axis),
    "abssum": lambda x, axis: np.abs(x).sum(axis),
    "max": lambda x, axis: x.max(axis),
    "min": lambda x, axis: x.min(axis),
    "absmax": lambda x, axis: np.abs(x).max(axis),
    "prod": lambda x, axis: x.prod(axis),
}  # fmt: skip
WHOLE_KINDS = {
    "bitand": lambda x, axis: np.bitwise_and.reduce(x, axis),
    "bitor": lambda x, axis: np.bitwise_or.reduce(x, axis),
    "bitxor": lambda x, axis: np.bitwise_xor.reduce(x, axis),
    "any": lambda x, axis: x.any(axis).astype("i4"),
    "all": lambda x, axis: x.all(axis).astype("i4"),
}


def of_each_thread(kind, dtype, dim, keeps, condition, clear=True, batch=1):
    """Every thread reduces its own 3 x 5 x 4 numbers, some of the threads only if there is a condition."""
    shape = [3, 5, 4]
    shape[dim : dim + 1] = [1] if keeps else []
    options = {} if clear else {"clear": False}
    if batch > 1:
        options["batch"] = batch

    @T.prim_func
    def main(A: T.Tensor((64, 3, 5, 4), dtype), B: T.Tensor((64, *shape), dtype)):
        with T.Kernel(2, threads=32) as bx:
            tx = T.get_thread_binding()
            x, out = T.alloc_local((3, 5, 4), dtype), T.alloc_local(shape, dtype)
            T.copy(A[bx * 32 + tx, :, :, :], x)
            T.fill(out, 2)
            if condition:
                if tx % 3 == 1:
                    getattr(T, f"reduce_{kind}")(x, out, dim=dim, **options)
            else:
                getattr(T, f"reduce_{kind}")(x, out, dim=dim, **options)
            T.copy(out, B[bx * 32 + tx, ...])

    return main, (64, *shape)


def expected_of_each_thread(kinds, kind, a, shape, dim, condition, clear):
    want = np.full(shape, 2, a.dtype).astype(np.float64 if a.dtype == np.float32 else a.dtype)
    found = kinds[kind](a.astype(want.dtype), dim + 1).reshape(shape)
    if not clear:
        found = {
            "sum": found + 2,
            "max": np.maximum(found, 2),
            "bitxor": found ^ 2 if "i" in a.dtype.str else 0,
        }[kind]
    chosen = np.arange(64) % 32 % 3 == 1 if condition else np.ones(64, bool)
    want[chosen] = found[chosen]
    return want


@pytest.mark.parametrize("kind", [*KINDS, *WHOLE_KINDS])
@pytest.mark.parametrize("gpu", GPUS)
def test_each_thread_reduces_its_own_array(gpu, kind):
    turn = [*KINDS, *WHOLE_KINDS].index(kind) + GPUS.index(gpu)
    dim, keeps, condition = turn % 3, turn % 2 == 1, turn % 4 < 2
    rng = np.random.default_rng(turn)
    kinds, dtype = (KINDS, "float32") if kind in KINDS else (WHOLE_KINDS, "int32")
    a = (
        rng.standard_normal((64, 3, 5, 4)).astype("f4")
        if kind in KINDS
        else rng.integers(0, 4, (64, 3, 5, 4), "i4")
    )
    main, shape = of_each_thread(kind, dtype, dim, keeps, condition)
    b = np.full(shape, np.nan if kind in KINDS else -7, a.dtype)
    run(main, gpu, a, b)
    assert error_of(b, expected_of_each_thread(kinds, kind, a, shape, dim, condition, True)) < 1e-6


@pytest.mark.parametrize("kind", ["sum", "max", "bitxor"])
def test_own_arrays_take_part_without_clear_and_in_batches(kind):
    kinds, dtype = (WHOLE_KINDS, "int32") if kind == "bitxor" else (KINDS, "float32")
    a = np.random.default_rng(3).integers(-9, 9, (64, 3, 5, 4)).astype(dtype)
    for batch in (1, 4):
        main, shape = of_each_thread(kind, dtype, 1, False, True, clear=False, batch=batch)
        b = np.full(shape, -77, a.dtype)
        run(main, GPUS[batch == 4], a, b)
        assert error_of(b, expected_of_each_thread(kinds, kind, a, shape, 1, True, False)) < 1e-6


@pytest.mark.parametrize("source", ALLOC)
@pytest.mark.parametrize("to", ALLOC)
@pytest.mark.parametrize("kind", ["sum", "max"])
def test_from_any_memory_to_any(source, to, kind):
    """Along both dimensions; of a part where a fragment needs not be whole."""
    part = source != "fragment" and to != "fragment"

    @T.prim_func
    def main(A: T.Tensor((16, 24), "float32"), B: T.Tensor((16,), "float32"), C: T.Tensor((24,), "float32")):
        with T.Kernel(1, threads=64):
            x = ALLOC[source]((2, 16, 24) if part else (16, 24), "float32")
            rows = ALLOC[to]((3, 16) if part else (16,), "float32")
            columns = ALLOC[to]((24,), "float32")
            T.copy(A, x[1, :, :] if part else x)
            getattr(T, f"reduce_{kind}")(x[1, :, :] if part else x, rows[2, :] if part else rows, dim=1)
            getattr(T, f"reduce_{kind}")(x[1, :, :] if part else x, columns, dim=0)
            T.copy(rows[2, :] if part else rows, B)
            T.copy(columns, C)

    a = np.random.default_rng(4).standard_normal((16, 24)).astype(np.float32)
    for target in (*ONE_THREAD, *GPUS):
        b, c = np.full(16, np.nan, np.float32), np.full(24, np.nan, np.float32)
        run(main, target, a, b, c)
        assert error_of(b, KINDS[kind](a.astype(np.float64), 1)) < 1e-6, target
        assert error_of(c, KINDS[kind](a.astype(np.float64), 0)) < 1e-6, target


def test_a_fragment_is_reduced_by_all_threads():
    """Its parts are on several threads, so no condition may keep some of them out."""

    @T.prim_func
    def main(A: T.Tensor((16, 24), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=64):
            x, rows = T.alloc_fragment((16, 24), "float32"), T.alloc_local((16,), "float32")
            T.copy(A, x)
            if T.get_thread_binding() % 2 == 0:
                T.reduce_sum(x, rows, dim=1)
            B[T.get_thread_binding() % 16] = rows[T.get_thread_binding() % 16]

    with pytest.raises(CompileError, match="the tile operators under it need the threads"):
        tilelang.compile(main, target="sim:sm_80")


# ── fill, clear and copy ──────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("gpu", GPUS)
def test_each_thread_fills_and_copies(gpu):
    @T.prim_func
    def main(A: T.Tensor((64, 4, 8), "float32"), B: T.Tensor((64, 2, 4, 8), "float32")):
        with T.Kernel(2, threads=32) as bx:
            tx = T.get_thread_binding()
            x, y = T.alloc_local((4, 8), "float32"), T.alloc_local((2, 4, 8), "float32")
            T.copy(A[bx * 32 + tx, :, :], x)
            T.fill(y, 3.0)
            T.copy(x[2:4, 0:8], y[1, 0:2, :])
            T.copy(x, y[0, :, :])
            T.clear(y[1, 3, :])
            if tx % 2 == 0:
                T.fill(y[0, 1:3, 2:4], 5.0)
                T.copy(x[0, :], y[1, 2, :])
            T.copy(y, B[bx * 32 + tx, ...])

    a = np.random.default_rng(5).standard_normal((64, 4, 8)).astype(np.float32)
    b = np.full((64, 2, 4, 8), np.nan, np.float32)
    run(main, gpu, a, b)
    want = np.full((64, 2, 4, 8), 3.0, np.float32)
    want[:, 1, :2], want[:, 0], want[:, 1, 3] = a[:, 2:], a, 0
    want[::2, 0, 1:3, 2:4], want[::2, 1, 2] = 5, a[::2, 0]
    np.testing.assert_array_equal(b, want)


# ── products and updates on one thread ────────────────────────────────────────────────────────────────
def product(a, b, c, dtype="float16", sums="float32", second="shared"):
    """D = (A · B) · B, with the sums of the first product, and the factors, in such memory."""

    @T.prim_func
    def main(A: T.Tensor((32, 48), dtype), B: T.Tensor((48, 48), dtype), D: T.Tensor((32, 48), sums)):
        with T.Kernel(1):
            x, y, z = ALLOC[a]((32, 16), dtype), ALLOC[b]((16, 48), dtype), ALLOC[c]((32, 48), sums)
            whole, d = ALLOC[second]((48, 48), dtype), ALLOC[second]((2, 32, 48), sums)
            narrow = ALLOC[a]((32, 48), dtype)
            T.clear(z)
            for k in T.serial(3):
                T.copy(A[0, k * 16], x)
                T.copy(B[k * 16, 0], y)
                T.gemm(x, y, z)
            T.copy(z, narrow)
            T.copy(B, whole)
            T.fill(d, 1)
            T.gemm(narrow, whole, d[1, :, :], clear_accum=True)
            T.copy(d[1, :, :], D)

    return main


@pytest.mark.parametrize("a, b, c, second", [
    ("shared", "shared", "shared", "shared"), ("shared", "shared", "local", "local"),
    ("local", "local", "local", "shared"), ("local", "shared", "fragment", "local"),
    ("fragment", "local", "shared", "shared"), ("local", "fragment", "shared", "local"),
])  # fmt: skip
@pytest.mark.parametrize("target", ONE_THREAD)
def test_products_of_any_memory_on_one_thread(target, a, b, c, second):
    rng = np.random.default_rng(6)
    x, y = rng.standard_normal((32, 48)).astype(np.float16), rng.standard_normal((48, 48)).astype(np.float16)
    d = np.full((32, 48), np.nan, np.float32)
    run(product(a, b, c, second=second), target, x, y, d)
    first = (x.astype(np.float64) @ y).astype(np.float16).astype(np.float64)
    assert error_of(d, first @ y) < 2e-3


@pytest.mark.parametrize("target", ONE_THREAD)
def test_sums_that_are_a_factor_of_the_next_product(target):
    """The layouts that the two products want of one shared tile differ."""

    @T.prim_func
    def main(
        A: T.Tensor((16, 32), "float32"), B: T.Tensor((32, 48), "float32"), D: T.Tensor((16, 48), "float32")
    ):
        with T.Kernel(1):
            a, b = T.alloc_shared((16, 32), "float32"), T.alloc_shared((32, 48), "float32")
            s, t, d = (
                T.alloc_shared((32, 48), "float32"),
                T.alloc_shared((32, 32), "float32"),
                T.alloc_shared((16, 48), "float32"),
            )
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, a, t, transpose_A=True, clear_accum=True)
            T.gemm(t, b, s, clear_accum=True)
            T.gemm(a, s, d, clear_accum=True)
            T.copy(d, D)

    rng = np.random.default_rng(7)
    a, b = rng.standard_normal((16, 32)).astype(np.float32), rng.standard_normal((32, 48)).astype(np.float32)
    d = np.full((16, 48), np.nan, np.float32)
    run(main, target, a, b, d)
    wide = a.astype(np.float64)
    assert error_of(d, wide @ (wide.T @ wide) @ b) < 1e-6


@pytest.mark.parametrize("memory", ALLOC)
@pytest.mark.parametrize("target", ONE_THREAD)
def test_updates_of_any_memory_on_one_thread(target, memory):
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), X: T.Tensor((64,), "float32"), C: T.Tensor((8,), "int32"),
             M: T.Tensor((8,), "float32"), S: T.Tensor((64,), "float32")):  # fmt: skip
        with T.Kernel(1):
            c, m = ALLOC[memory]((8,), "int32"), ALLOC[memory]((8,), "float32")
            x, s = T.alloc_shared((64,), "float32"), ALLOC[memory]((64,), "float32")
            T.clear(c)
            T.fill(m, -100.0)
            T.copy(X, x)
            T.fill(s, 1.0)
            for i in T.Parallel(64):
                T.atomic_add(c[A[i]], 2)
                T.atomic_max(m[A[i]], x[i])
            T.atomic_add(s, x)
            T.copy(c, C)
            T.copy(m, M)
            T.copy(s, S)

    rng = np.random.default_rng(8)
    a, x = rng.integers(0, 8, 64).astype("i4"), rng.standard_normal(64).astype("f4")
    c, m, s = np.full(8, -1, "i4"), np.full(8, np.nan, "f4"), np.full(64, np.nan, "f4")
    run(main, target, a, x, c, m, s)
    np.testing.assert_array_equal(c, 2 * np.bincount(a, minlength=8))
    np.testing.assert_array_equal(m, [x[a == n].max() for n in range(8)])
    assert error_of(s, 1 + x.astype(np.float64)) < 1e-6


@pytest.mark.parametrize("body, words", [
    ("T.gemm(x, y, z)", r"gemm: C is z: float32\[16, 16\], in shared memory; on sm_80 it must be a fragment"),
    ("T.gemm(own, y, sums)", r"gemm: A is own: float32\[16, 16\], an array of each thread; on sm_80 it must"),
    ("T.atomic_add(own[0, 0], 1.0)", "atomic_add: own is private to one thread"),
    ("T.atomic_add(sums, z)", r"atomic_add: sums: float32\[16, 16\] is in registers"),
])  # fmt: skip
def test_what_many_threads_do_not_reach(tmp_path, body, words):
    tiles = "".join(
        f"{name} = T.alloc_{scope}((16, 16), 'float32')\nT.clear({name})\n"
        for name, scope in (
            ("x", "shared"),
            ("y", "shared"),
            ("z", "shared"),
            ("own", "local"),
            ("sums", "fragment"),
        )
    )
    main = kernel(tmp_path, tiles + body)
    with pytest.raises(CompileError, match=words) as caught:
        tilelang.compile(main, target="sim:sm_80")
    assert body in str(caught.value)
    tilelang.compile(main, target="cpu")
