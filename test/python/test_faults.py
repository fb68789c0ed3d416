"""Faults that tile compilers are known for: the classes of test/faults.md that no other test looks at."""

import os
import re
import subprocess
import sys
from pathlib import Path

import gemm_cases as cases
import numpy as np
import pytest
import tilelang
import tilelang.language as T
from tilelang.tools.passes import lower_trace

ROOT = Path(__file__).resolve().parents[2]
SIM = "sim:sm_80"


# ── 1: the last part of the loop over k ───────────────────────────────────────────────────────────────
@pytest.mark.parametrize("K", [24, 40, 56, 70])
@pytest.mark.parametrize("block_K", [24, 40, 56])
def test_block_K_of_any_multiple_of_8(block_K, K):
    """Either the sum is whole, or the tile is refused."""
    shape = (32, 32, K)
    a, b, c, expected = cases.random_operands(shape, "f16", False, False)
    for target in (SIM, "cpu"):
        c[:] = np.nan
        try:
            kernel = cases.compile_gemm(shape, "f16", tile=(32, 32, block_K), threads=64, target=target)
        except tilelang.CompileError as error:
            assert target == SIM and f"{block_K}" in str(error)
            continue
        kernel(a, b, c)
        assert cases.relative_error(c, expected) <= cases.bound(shape, "f16")


# ── 3: persistent loops ───────────────────────────────────────────────────────────────────────────────
def visits(tiles, wave):
    @T.prim_func
    def main(Count: T.Tensor((tiles, 3), "int32")):
        with T.Kernel(wave, threads=32) as block:
            for bx, by in T.Persistent([tiles, 3], wave, block):
                if T.get_thread_binding() == 0:
                    T.atomic_add(Count[bx, by], 1)

    return main


@pytest.mark.parametrize("tiles", [1, 5, 8, 13, 27, 40])
def test_a_persistent_loop_visits_every_tile_once(tiles):
    for wave in (1, 7, 8, 16, 132):
        count = np.zeros((tiles, 3), np.int32)
        tilelang.compile(visits(tiles, wave), target=SIM)(count)
        assert (count == 1).all()


# ── 7: vectors at addresses that they cannot have ─────────────────────────────────────────────────────
def four_of_a_row(columns, first, by_hand):
    @T.prim_func
    def main(A: T.Tensor((32, columns), "float32"), B: T.Tensor((32, 4), "float32")):
        with T.Kernel(1, threads=32):
            if by_hand:
                for v in T.vectorized(4):
                    B[T.get_thread_binding(), v] = A[T.get_thread_binding(), first + v]
            else:
                for i, j in T.Parallel(32, 4):
                    B[i, j] = A[i, first + j]

    return main


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("columns, first", [(64, 0), (64, 1), (64, 2), (67, 0), (66, 4)])
def test_rows_that_begin_anywhere(columns, first, by_hand):
    """The simulator finds a vector whose address is not divisible by its width."""
    a, b = np.random.default_rng(0).random((32, columns)).astype(np.float32), np.zeros((32, 4), np.float32)
    kernel = tilelang.compile(four_of_a_row(columns, first, by_hand), target=SIM)
    kernel(a, b)
    assert np.array_equal(b, a[:, first : first + 4])
    loads = [c for c in kernel.simulate(a, b).counters if c.what == "global load"]
    assert (sum(c.executed for c in loads) == 1) == ((columns, first) == (64, 0))


# ── 8: ragged edges ───────────────────────────────────────────────────────────────────────────────────
def ragged_maximum(M, N):
    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((M,), "float32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, 32), threads=64) as bx:
            X = T.alloc_fragment((32, 64), "float32")
            m = T.alloc_fragment((32,), "float32")
            T.fill(X, -T.infinity("float32"))
            for i, j in T.Parallel(32, 64):
                if j < N:
                    X[i, j] = A[bx * 32 + i, j]
            T.reduce_max(X, m, dim=1)
            T.copy(m, B[bx * 32])
            T.copy(X, C[bx * 32, 0])

    return main


@pytest.mark.parametrize("shape", [(45, 50), (1, 1), (33, 63)])
def test_ragged_tiles_leave_their_neighbours_alone(shape, target):
    M, N = shape
    a = -1 - np.random.default_rng(0).random((M, N)).astype(np.float32)
    around_b, around_c = np.full(M + 200, 7, np.float32), np.full(M * N + 200, 7, np.float32)
    b, c = around_b[100:-100], around_c[100:-100].reshape(M, N)
    tilelang.compile(ragged_maximum(M, N), target=target)(a, b, c)
    assert np.array_equal(b, a.max(1)) and np.array_equal(c, a)
    for around in (around_b, around_c):
        assert (around[:100] == 7).all() and (around[-100:] == 7).all()


# ── 9: tensors that overlap ───────────────────────────────────────────────────────────────────────────
def add_to(N):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, 64), threads=64) as bx:
            for i in T.Parallel(64):
                B[bx * 64 + i] = A[bx * 64 + i] + 1.0
            for i in T.Parallel(64):
                B[bx * 64 + i] = A[bx * 64 + i] + B[bx * 64 + i]

    return main


def test_tensors_that_overlap_are_refused_where_one_is_written(target):
    store = np.arange(192, dtype=np.float32)
    kernel = tilelang.compile(add_to(128), target=target)
    for a, b in [(store[:128], store[:128]), (store[64:], store[:128]), (store[:128], store[64:])]:
        message = "'B' is written, but shares memory with argument 0 'A'"
        with pytest.raises(tilelang._core.ArgumentError, match=message):
            kernel(a, b)
    assert np.array_equal(store, np.arange(192))


# ── 10: shared memory that is used again ──────────────────────────────────────────────────────────────
def one_after_another():
    """The second tile lies where the first one was, and nothing else makes its writers wait."""

    @T.prim_func
    def main(A: T.Tensor((2, 128), "float32"), B: T.Tensor((2, 128), "float32")):
        with T.Kernel(1, threads=128):
            X = T.alloc_shared((128,), "float32")
            Y = T.alloc_shared((128,), "float32")
            T.copy(A[0, 0], X)
            for i in T.Parallel(128):
                B[0, i] = X[127 - i]
            T.copy(A[1, 0], Y)
            for i in T.Parallel(128):
                B[1, i] = Y[127 - i]

    return main


def test_shared_memory_is_not_used_again_too_early():
    kernel = tilelang.compile(one_after_another(), target=SIM)
    a, b = np.random.default_rng(0).random((2, 128)).astype(np.float32), np.zeros((2, 128), np.float32)
    report = kernel.simulate(a, b, schedules=8)
    assert not report.findings and np.array_equal(b, a[:, ::-1])
    assert int(re.search(r"shared\((\d+) bytes\)", kernel._kernel.host_source)[1]) == 512


def through_one_tile(trips):
    @T.prim_func
    def main(A: T.Tensor((trips, 128), "float32"), B: T.Tensor((trips, 128), "float32")):
        with T.Kernel(1, threads=128):
            X = T.alloc_shared((128,), "float32")
            for k in T.serial(trips):
                T.copy(A[k, 0], X)
                for i in T.Parallel(128):
                    B[k, i] = X[(i + 32) % 128]

    return main


def test_the_next_trip_waits_for_this_one():
    a, b = np.random.default_rng(0).random((3, 128)).astype(np.float32), np.zeros((3, 128), np.float32)
    assert not tilelang.compile(through_one_tile(3), target=SIM).simulate(a, b, schedules=4).findings
    assert np.array_equal(b, np.roll(a, -32, 1))


# ── 19, 21: layouts for any extent, and for two operators that want different ones ────────────────────
def doubled(width, threads, scope):
    alloc = T.alloc_shared if scope == "shared" else T.alloc_fragment

    @T.prim_func
    def main(A: T.Tensor((3, width), "float16"), B: T.Tensor((3, width), "float16")):
        with T.Kernel(1, threads=threads):
            X = alloc((3, width), "float16")
            T.copy(A, X)
            for i, j in T.Parallel(3, width):
                X[i, j] = X[i, j] + X[i, j]
            T.copy(X, B)

    return main


@pytest.mark.parametrize("threads", [32, 96, 128])
@pytest.mark.parametrize("scope", ["shared", "fragment"])
def test_tiles_of_any_width_have_a_layout(scope, threads):
    for width in (1, 3, 24, 40, 48, 96, 192, 229, 300):
        a = np.arange(3 * width).reshape(3, width).astype(np.float16)
        b = np.zeros_like(a)
        tilelang.compile(doubled(width, threads, scope), target=SIM)(a, b)
        assert np.array_equal(b, 2 * a)


def product_and_transpose(dtype):
    """One tile as an operand, as a transposed operand, and read column by column."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), dtype), B: T.Tensor((64, 64), "float32"), C: T.Tensor((64, 64), dtype)):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((64, 64), dtype)
            P = T.alloc_fragment((64, 64), "float32")
            T.clear(P)
            T.copy(A, S)
            T.gemm(S, S, P, transpose_B=True)
            T.gemm(S, S, P)
            T.copy(P, B)
            for i, j in T.Parallel(64, 64):
                C[i, j] = S[j, i]

    return main


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_operators_that_want_different_layouts_of_one_tile(dtype):
    a = np.random.default_rng(0).standard_normal((64, 64)).astype(dtype)
    b, c = np.full((64, 64), np.nan, np.float32), np.zeros((64, 64), dtype)
    tilelang.compile(product_and_transpose(dtype), target=SIM)(a, b, c)
    wide = a.astype(np.float64)
    expected = wide @ wide.T + wide @ wide
    assert np.linalg.norm(b - expected) <= 1e-5 * np.linalg.norm(expected)
    assert np.array_equal(c, a.T)


def two_products(dtype, products, layout=None):
    """`products`: (rows, operand "A" or "B") of gemms that S takes part in, one after the other."""
    Tile, Sums = T.Tensor((64, 64), dtype), T.Tensor((len(products), 64, 64), "float32")

    @T.prim_func
    def main(A: Tile, X: Tile, C: Sums):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((64, 64), dtype)
            Q = T.alloc_shared((64, 64), dtype)
            if layout:
                T.annotate_layout({S: layout})
            T.copy(A, S)
            T.copy(X, Q)
            for n, (rows, operand) in enumerate(products):
                P = T.alloc_fragment((rows, 64), "float32")
                T.clear(P)
                if operand == "A":
                    T.gemm(S[0:rows, 0:64], Q, P)
                else:
                    T.gemm(Q[0:rows, 0:64], S, P)
                T.copy(P, C[n, 0:rows, 0:64])

    return main


def run_products(dtype, products, target=SIM, layout=None):
    """How far the result is off, the bank cycles for reading and writing S, and what explain() says."""
    rng = np.random.default_rng(0)
    a, x = rng.integers(-4, 5, (2, 64, 64)).astype(dtype)
    c = np.zeros((len(products), 64, 64), np.float32)
    kernel = tilelang.compile(two_products(dtype, products, layout), target=target)
    kernel(a, x, c)
    error = 0
    for n, (rows, operand) in enumerate(products):
        expected = a[:rows] @ x if operand == "A" else x[:rows] @ a
        error = max(error, np.abs(c[n, :rows] - expected).max())
    report = kernel.explain()
    if target != SIM:
        return error, 0, report
    return error, sum(r.requests for r in kernel.simulate(a, x, c).counters if r.buffer == "S"), report


# By multiply-adds S is read along k as A, and across it as B; mma.sync reads 16 rows at least, by 16 bytes.
DEMANDS = {
    "two multiply-adds": ("float32", (64, "A"), (64, "B")),
    "mma.sync and multiply-adds": ("float16", (64, "A"), (8, "A")),
}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("case", DEMANDS)
def test_two_gemms_that_want_different_layouts_of_a_shared_tile(case, turned):
    """The tile lies as is cheapest for both, whoever comes first, and explain() says who gave way."""
    dtype, *products = DEMANDS[case]
    if turned:
        products.reverse()
    wanted = [run_products(dtype, [p])[2].buffer("S") for p in products]
    assert not wanted[0].layout.is_equal(wanted[1].layout)
    error, cost, report = run_products(dtype, products)
    assert error == 0
    assert cost <= min(run_products(dtype, products, layout=w.layout)[1] for w in wanted)
    tile = report.buffer("S")
    for w in wanted:
        gave_way = any(f"wants {w.formula}: all its readers" in why for why in tile.why)
        assert tile.layout.is_equal(w.layout) != gave_way
    assert run_products(dtype, products, "cpu")[0] == 0


def sum_of_products(depths):
    Tile = T.Tensor((64, 64), "float16")

    @T.prim_func
    def main(A: Tile, B: Tile, C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((64, 64), "float16")
            Q = T.alloc_shared((64, 64), "float16")
            P = T.alloc_fragment((64, 64), "float32")
            T.copy(A, S)
            T.copy(B, Q)
            T.clear(P)
            for k in depths:
                T.gemm(S[0:64, 0:k], Q[0:k, 0:64], P)
            T.copy(P, C)

    return main


@pytest.mark.parametrize("depths", [(64, 4), (4, 64)])  # 4 are too few for mma.sync
def test_two_gemms_that_want_different_layouts_of_a_fragment(depths):
    """One of the products goes through shared memory, and explain() says so."""
    wanted = [tilelang.compile(sum_of_products([k]), target=SIM).explain().buffer("P").layout for k in depths]
    assert not wanted[0].is_equal(wanted[1])
    a, b = np.random.default_rng(0).integers(-4, 5, (2, 64, 64)).astype(np.float32)
    for target in (SIM, "cpu", "reference"):
        kernel, c = tilelang.compile(sum_of_products(depths), target=target), np.zeros((64, 64), np.float32)
        kernel(a.astype(np.float16), b.astype(np.float16), c)
        assert np.array_equal(c, sum(a[:, :k] @ b[:k] for k in depths))
        if target == SIM:
            layout = kernel.explain().buffer("P").layout
            assert any(layout.is_equal(w) for w in wanted)
            refusals = [n.text for n in kernel.explain().refusals]
            assert "P goes through 18400 bytes of shared memory: another operator laid it out" in refusals


# ── 20, 26, 27: the same text every time, soon, in any number of processes ────────────────────────────
COMPILE = """
import hashlib, sys
sys.path.insert(0, {test!r})
import gemm_cases, tilelang
k = gemm_cases.compile_gemm((256, 256, 256), "f16", target="sim:sm_80")
print(hashlib.sha256((k.get_kernel_source()).encode()).hexdigest())
"""


def processes(seeds, folder):
    code = COMPILE.format(test=str(ROOT / "test"))
    started = []
    for seed in seeds:
        env = {**os.environ, "PYTHONHASHSEED": str(seed), "TILELANG_CACHE_DIR": str(folder)}
        command = [sys.executable, "-c", code]
        started.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
    return [p.communicate(timeout=120)[0].strip() for p in started]


def test_processes_at_once_compile_the_same_text(tmp_path):
    texts = processes([1, 2, 3], tmp_path)
    assert len(set(texts)) == 1 and len(texts[0]) == 64


def test_compiling_a_gemm_takes_as_much_for_any_size():
    """Each pass once, and a program of as many lines."""
    lines = set()
    for size in (512, 8192):
        prim = cases.gemm.func(size, size, size, False, False, cases.DTYPES["f16"], 64, 64, 32, 128, SIM)
        names = [record.name for record in lower_trace(prim, target=SIM, mode="none")]
        assert "infer_layouts" in names and len(names) == len(set(names))
        lines.add(len(tilelang.compile(prim, target=SIM).get_kernel_source().splitlines()))
    assert len(lines) == 1


# ── the table ─────────────────────────────────────────────────────────────────────────────────────────
def test_every_test_that_the_table_names_exists():
    table = (ROOT / "test/faults.md").read_text()
    classes = [int(number) for number in re.findall(r"(?m)^\| (\d+) \| .*`test/", table)]
    assert classes == list(range(1, 29))
    named = re.findall(r"`(test[\w/.]+)(?:::(\w+))?`", table)
    assert len(named) > 30
    for path, name in named:
        file = ROOT / path
        assert file.exists(), path
        assert not name or f"def {name}(" in file.read_text(), (path, name)
