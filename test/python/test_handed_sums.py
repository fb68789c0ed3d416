"""Products that add to one accumulator, which they lay out differently: its sums go to other threads between
them.  Every way to another, with a clear that is known when the kernel runs."""

import itertools
import warnings

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import close, random
from tilelang import _core

M, N, K = 128, 64, 32
WAYS = {
    "wgmma 2x1": 'instruction="wgmma_m64k16_f16_f32_ss", warpgroups_m=2, warpgroups_n=1',
    "wgmma 1x2": 'instruction="wgmma_m64k16_f16_f32_ss", warpgroups_m=1, warpgroups_n=2',
    "mma 4x2": 'instruction="mma_m16n8k16_f16_f32", warps_m=4, warps_n=2',
    "mma 2x4": 'instruction="mma_m16n8k16_f16_f32", warps_m=2, warps_n=4',
    "fma": 'instruction="fma"',
}


def products(first, second, clears):
    """C = 3 + X·Y + P·Q, or what `clears` leaves of it."""
    left, right = f"f16[{M}, {K}]", f"f16[{K}, {N}]"
    return f"""
func main(X: {left}, Y: {right}, P: {left}, Q: {right}, flag: i32, C: f32[{M}, {N}]):
  kernel main grid(bx: 1) threads(256):
    x = shared {left}
    y = shared {right}
    p = shared {left}
    q = shared {right}
    sums = fragment f32[{M}, {N}]
    copy(X, x)
    copy(Y, y)
    copy(P, p)
    copy(Q, q)
    fill(sums, 3.0)
    gemm(x, y, sums) {{{WAYS[first]}}}
    gemm(p, q, sums) {{{WAYS[second]}, clear_accum={clears}}}
    copy(sums, C)
"""


@pytest.mark.parametrize("first, second", list(itertools.permutations(WAYS, 2)))
def test_clears_known_when_the_kernel_runs(first, second):
    kernel = _core.compile(_core.parse(products(first, second, "(flag == 1)"), "hand.ir"), "sim:sm_90a", {})
    assert "sums_scratch" in kernel.machine_text
    x, y, p, q = (random(*s, dtype="float16", seed=i) for i, s in enumerate(((M, K), (K, N)) * 2))
    one, other = x.astype("float64") @ y.astype("float64"), p.astype("float64") @ q.astype("float64")
    for flag, wanted in ((0, one + 3 + other), (1, other), (2, one + 3 + other)):
        c = np.full((M, N), np.nan, np.float32)
        kernel.launch([x, y, p, q, flag, c], 0)
        close(c, wanted)


@pytest.mark.parametrize("clears, kept", [("1", 0), ("0", 1)])
def test_clears_known_to_the_compiler(clears, kept):
    kernel = _core.compile(_core.parse(products("mma 4x2", "wgmma 1x2", clears), "hand.ir"), "sim:sm_90a", {})
    x, y, p, q = (random(*s, dtype="float16", seed=i) for i, s in enumerate(((M, K), (K, N)) * 2))
    c = np.full((M, N), np.nan, np.float32)
    kernel.launch([x, y, p, q, 0, c], 0)
    close(
        c, kept * (x.astype("float64") @ y.astype("float64") + 3) + p.astype("float64") @ q.astype("float64")
    )


# ── one kind of instruction for all products of an accumulator ──
def hows(kernel):
    return [o.how for o in kernel.report.operators if o.name == "gemm"]


def exchanges(kernel):
    return [r for o in kernel.report.operators for r in o.refusals if "goes through" in r]


def three_loops(M=192, N=112):
    """Q1 and Q2 have rows of 224 bytes, which no warpgroup of two can read a half of."""

    @T.prim_func
    def main(
        A0: T.Tensor((2, M, 192), "float16"), B0: T.Tensor((2, N, 192), "float16"),
        A1: T.Tensor((2, M, 128), "float16"), B1: T.Tensor((2, 128, N), "float16"),
        A2: T.Tensor((2, 128, M), "float16"), B2: T.Tensor((2, 128, N), "float16"),
        Y: T.Tensor((M, N), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=256):
            P0, Q0 = T.alloc_shared((M, 64), "float16"), T.alloc_shared((N, 64), "float16")
            P1, Q1 = T.alloc_shared((M, 128), "float16"), T.alloc_shared((128, N), "float16")
            P2, Q2 = T.alloc_shared((64, M), "float16"), T.alloc_shared((64, N), "float16")
            C = T.alloc_fragment((M, N), "float32")
            T.clear(C)
            for o in T.serial(2):
                for k in T.Pipelined(3, num_stages=3):
                    T.copy(B0[o, 0:N, k * 64 : k * 64 + 64], Q0)
                    T.copy(A0[o, 0:M, k * 64 : k * 64 + 64], P0)
                    T.gemm(P0, Q0, C, transpose_B=True)
                for k in T.Pipelined(1, num_stages=3):
                    T.copy(A1[o, 0:M, k * 128 : k * 128 + 128], P1)
                    T.copy(B1[o, k * 128 : k * 128 + 128, 0:N], Q1)
                    T.gemm(P1, Q1, C)
                for k in T.Pipelined(2, num_stages=2):
                    T.copy(A2[o, k * 64 : k * 64 + 64, 0:M], P2)
                    T.copy(B2[o, k * 64 : k * 64 + 64, 0:N], Q2)
                    T.gemm(P2, Q2, C, transpose_A=True)
            T.copy(C, Y)

    return main


@pytest.mark.parametrize("target", ["sim:sm_80", "sim:sm_90a"])
def test_three_loops_of_one_kind(target):
    kernel = tilelang.compile(three_loops(), target=target)
    assert all(how.startswith("mma.sync") for how in hows(kernel))
    assert exchanges(kernel) == []
    if target == "sim:sm_90a":
        said = "adds to C as well, and is not by wgmma (wgmma: Q1 is read in parts of 56"
        assert said in hows(kernel)[0]
    shapes = ((2, 192, 192), (2, 112, 192), (2, 192, 128), (2, 128, 112), (2, 128, 192), (2, 128, 112))
    args = [random(*s, dtype="float16", seed=i) for i, s in enumerate(shapes)]
    a0, b0, a1, b1, a2, b2 = (x.astype("float64") for x in args)
    y = np.full((192, 112), np.nan, np.float32)
    kernel(*args, y)
    close(y, sum(a0[o] @ b0[o].T + a1[o] @ b1[o] + a2[o].T @ b2[o] for o in range(2)))


def two_products(first, second, dtype="float16", turns=1, threads=256):
    M, N, K = 128, 64, 64

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), "float16"), D: T.Tensor((K, N), dtype),
             n: T.int32, C: T.Tensor((M, N), "float32")):  # fmt: skip
        with T.Kernel(1, threads=threads):
            a, b, d = (
                T.alloc_shared((M, K), "float16"),
                T.alloc_shared((K, N), "float16"),
                T.alloc_shared((K, N), dtype),
            )
            e = T.alloc_shared((M, K), dtype)
            c = T.alloc_fragment((M, N), "float32")
            T.copy(A, a)
            T.copy(A, e)
            T.copy(B, b)
            T.copy(D, d)
            T.fill(c, 3)
            for _ in T.serial(turns):
                T.gemm(a, b, c, policy=first)
            T.gemm(e, d, c, policy=second, clear_accum=(n == 1))
            T.copy(c, C)

    return main


def run_two(kernel, dtype="float16", turns=1):
    import ml_dtypes

    a, b, d = (random(*s, seed=i) for i, s in enumerate(((128, 64), (64, 64), (64, 64))))
    held = np.dtype(getattr(ml_dtypes, dtype, dtype))
    a, b, d = a.astype(held), b.astype("float16"), d.astype(held)
    one, other = (a.astype("float64") @ x.astype("float64") for x in (b, d))
    for n, wanted in ((0, turns * one + other + 3), (1, other)):
        c = np.full((128, 64), np.nan, np.float32)
        kernel(a, b, d, n, c)
        close(c, wanted)


def test_policies_that_differ():
    """One grid of warpgroups for both."""
    rows, columns = T.GemmWarpPolicy.FullRow, T.GemmWarpPolicy.FullCol
    for first, second in (
        (columns, T.GemmWarpPolicy.Square),
        (rows, columns),
        (T.GemmWarpPolicy.Square, rows),
    ):
        kernel = tilelang.compile(two_products(first, second), target="sim:sm_90a", strict=True)
        grids = {how.split(" in a ")[1].split(" grid")[0] for how in hows(kernel)}
        assert all(how.startswith("wgmma:") for how in hows(kernel)) and len(grids) == 1
        assert exchanges(kernel) == []
        run_two(kernel)


def test_types_of_which_one_is_not_for_warpgroups():
    """An 8-bit B along its columns."""
    square = T.GemmWarpPolicy.Square
    firsts = lambda kernel: [how.split(" ")[0].strip(":") for how in hows(kernel)]  # noqa: E731
    # 64 rows for each warpgroup are 16 for each warp: both lay the sums out alike.
    kernel = tilelang.compile(two_products(square, square, "float8_e4m3fn"), target="sim:sm_90a", strict=True)
    assert firsts(kernel) == ["wgmma", "mma.sync"] and exchanges(kernel) == []
    run_two(kernel, "float8_e4m3fn")
    # 128 rows for one are not: both by warps.
    program = two_products(square, square, "float8_e4m3fn", threads=128)
    kernel = tilelang.compile(program, target="sim:sm_90a", strict=True)
    assert firsts(kernel) == ["mma.sync", "mma.sync"] and exchanges(kernel) == []
    run_two(kernel, "float8_e4m3fn")
    # One that comes once, beside many of the other kind, goes through shared memory.
    program = two_products(square, square, "float8_e4m3fn", 16, threads=128)
    kernel = tilelang.compile(program, target="sim:sm_90a", strict=True)
    assert firsts(kernel) == ["wgmma", "mma.sync"] and len(exchanges(kernel)) == 1
    run_two(kernel, "float8_e4m3fn", 16)


def test_sums_stay_where_no_tile_for_them_fits():
    """The same, beside a tile that takes half of the memory: 98 KB for sums are not there."""

    def program(beside):
        M, N, K, dtype = 192, 128, 64, "float8_e4m3fn"

        @T.prim_func
        def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), "float16"), D: T.Tensor((K, N), dtype),
                 X: T.Tensor((beside, 256), "float32"), C: T.Tensor((M, N), "float32"),
                 Y: T.Tensor((beside, 256), "float32")):  # fmt: skip
            with T.Kernel(1, threads=256):
                a, b = T.alloc_shared((M, K), "float16"), T.alloc_shared((K, N), "float16")
                e, d = T.alloc_shared((M, K), dtype), T.alloc_shared((K, N), dtype)
                x = T.alloc_shared((beside, 256), "float32")
                c = T.alloc_fragment((M, N), "float32")
                T.copy(X, x)
                T.copy(A, a)
                T.copy(A, e)
                T.copy(B, b)
                T.copy(D, d)
                T.clear(c)
                for _ in T.serial(16):
                    T.gemm(a, b, c)
                T.gemm(e, d, c)
                T.gemm(a, b, c)
                T.copy(c, C)
                T.copy(x, Y)

        return main

    for beside, count in ((16, 1), (112, 0)):
        kernel = tilelang.compile(program(beside), target="sim:sm_90a")
        assert len(exchanges(kernel)) == count


@pytest.mark.parametrize("chip", ["sm_80", "sm_90", "sm_120", "sm_90a"])
def test_a_product_in_steps_has_the_grid_of_the_others(chip):
    """Each loop cuts its product into steps, one with A in shared memory and one with A in registers."""

    @T.prim_func
    def main(A: T.Tensor((64, 256), "float16"), B: T.Tensor((256, 64), "float16"),
             D: T.Tensor((64, 256), "float16"), C: T.Tensor((64, 64), "float32")):  # fmt: skip
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            af = T.alloc_fragment((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(D[0, k * 64], b)
                T.copy(a, af)
                T.gemm(af, b, c, transpose_B=True)
            T.copy(c, C)

    kernel = tilelang.compile(main, target=f"sim:{chip}", strict=True)
    assert exchanges(kernel) == []
    a, b, d = (random(*s, dtype="float16", seed=i) for i, s in enumerate(((64, 256), (256, 64), (64, 256))))
    c = np.full((64, 64), np.nan, np.float32)
    kernel(a, b, d, c)
    close(c, a.astype("float64") @ b.astype("float64") + a.astype("float64") @ d.T.astype("float64"))


def test_at_each_product_it_is_a_warning():
    @T.prim_func
    def main(
        A: T.Tensor((64, 128), "float16"), B: T.Tensor((128, 64), "float16"), C: T.Tensor((64, 64), "float32")
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((128, 64), "float32")
            T.clear(c)
            for k in T.serial(4):
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c[64:, :])
            T.copy(c[64:, :], C)

    says = (
        "c goes through 18400 bytes of shared memory at each product: C is a part of a fragment; let the "
        "products that add to it be of one kind, or give this one a fragment of its own"
    )
    for target in ("sim:sm_80", "sim:sm_90a"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tilelang.compile(main, target=target)
        assert [str(w.message) for w in caught if "goes through" in str(w.message)] == [f"main: {says}"]
        with pytest.raises(tilelang.CompileError) as error:
            tilelang.compile(main, target=target, strict=True)
        assert f"gemm: {says}; strict=True makes an error" in str(error.value)
        assert "T.gemm(a, b, c[64:, :])" in str(error.value)


def test_a_warning_is_the_cache_entrys(monkeypatch, tmp_path):
    from test_clear_accum import product

    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tilelang.env, "_cache_enabled", True)
    program = product(T.serial, lambda k, n, bx: k == 0, part=True)
    for _ in range(2):
        with pytest.warns(tilelang.TilelangWarning, match="c goes through .* at each product"):
            kernel = tilelang.compile(program, target="cuda -arch=sm_90a")
    assert kernel.from_cache


@pytest.mark.parametrize("operand", ["A", "B", "both"])
@pytest.mark.parametrize("loop", ["serial", "pipelined"])
def test_an_operand_whose_layout_no_descriptor_says(operand, loop):
    """Rows with room between them: mma.sync reads them, and explain() says why."""

    @T.prim_func
    def main(A: T.Tensor((128, 128), "float16"), B: T.Tensor((128, 64), "float16"),
             C: T.Tensor((128, 64), "float32")):  # fmt: skip
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((128, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((128, 64), "float32")
            if operand in ("A", "both"):
                T.annotate_layout({a: T.Layout((128, 64), lambda i, j: i * 72 + j)})
            if operand in ("B", "both"):
                T.annotate_layout({b: T.Layout((64, 64), lambda i, j: i * 72 + j)})
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2) if loop == "pipelined" else T.serial(2):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    kernel = tilelang.compile(main, target="sim:sm_90a")
    name = "b" if operand == "B" else "a"
    said = f"mma.sync (not wgmma: {name} has a layout of the program's, which no descriptor describes)"
    assert hows(kernel)[0].startswith(said)
    a, b = random(128, 128, dtype="float16"), random(128, 64, dtype="float16", seed=1)
    c = np.full((128, 64), np.nan, np.float32)
    kernel(a, b, c)
    close(c, a.astype("float64") @ b.astype("float64"))
