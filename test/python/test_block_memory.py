"""The memory of a block: tiles that live at different times share it, padding yields where only it does not
fit, and who asks for more is told what lies there at once."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T

SEEDS = range(12)


def rows(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).integers(-99, 100, shape).astype(dtype)


def run(program, target, *arguments):
    """In several orders of warps, without a finding."""
    kernel = tilelang.compile(program, target=target)
    for seed in SEEDS if target.startswith("sim") else [None]:
        if seed is None:
            kernel(*arguments)
        else:
            report = kernel.simulate(*arguments, seed=seed)
            assert not report.findings, report
    return kernel


def refused(program, target):
    with pytest.raises(tilelang.CompileError) as caught:
        tilelang.compile(program, target=target)
    return str(caught.value)


# ── tiles that live at different times ────────────────────────────────────────────────────────────────
def in_turn(rows, columns, between="nothing"):
    """P, and then Q in its place; `between` them."""

    @T.prim_func
    def main(
        A: T.Tensor((rows, columns), "float32"),
        B: T.Tensor((rows, columns), "float32"),
        X: T.Tensor((rows, columns), "float32"),
        Y: T.Tensor((rows, columns), "float32"),
    ):
        with T.Kernel(1, threads=128):
            P = T.alloc_shared((rows, columns), "float32")
            Q = T.alloc_shared((rows, columns), "float32")
            T.copy(A, P)
            if between == "threads change P":
                for i, j in T.Parallel(rows, columns):
                    P[i, j] = P[i, j] * 2
            T.copy(P, X)
            if between == "threads fill Q":
                for i, j in T.Parallel(rows, columns):
                    Q[i, j] = X[rows - 1 - i, j]
            else:
                T.copy(B, Q)
            if between == "threads change Q":
                for i, j in T.Parallel(rows, columns):
                    Q[i, j] = Q[i, j] * 2
            T.copy(Q, Y)

    return main


@pytest.mark.parametrize("target", ["sim:sm_80", "sim:sm_90", "sim:sm_90a"])
@pytest.mark.parametrize("between", ["nothing", "threads change P", "threads change Q", "threads fill Q"])
def test_the_second_tile_takes_the_place_of_the_first(target, between):
    a, b = rows(256, 160), rows(256, 160, seed=1)
    x, y = np.full_like(a, np.nan), np.full_like(a, np.nan)
    run(in_turn(256, 160, between), target, a, b, x, y)
    wanted = a * 2 if between == "threads change P" else a
    assert np.array_equal(x, wanted)
    if between == "threads fill Q":
        assert np.array_equal(y, wanted[::-1])
    else:
        assert np.array_equal(y, b * 2 if between == "threads change Q" else b)


def test_a_place_is_free_where_its_own_barrier_was_waited_for():
    """The words of all barriers are one buffer: what is awaited at another of them is another tile's."""
    kernel = tilelang.compile(in_turn(256, 160), target="sim:sm_90a")
    text = kernel._kernel.machine_text
    assert text.count("mbarrier_try_wait") == 2 and "shared u64[2]" in text
    places = [
        line.split("address(")[1].split(")")[0] for line in text.splitlines() if " = shared f32" in line
    ]
    assert len(places) == 2 and places[0] == places[1]


# ── padding ───────────────────────────────────────────────────────────────────────────────────────────
def through_shared(rows, columns, inner=32):
    @T.prim_func
    def main(
        A: T.Tensor((rows, inner), "float16"),
        B: T.Tensor((inner, columns), "float16"),
        C: T.Tensor((rows, columns), "float32"),
    ):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((rows, inner), "float16")
            b = T.alloc_shared((inner, columns), "float16")
            c = T.alloc_fragment((rows, columns), "float32")
            s = T.alloc_shared((rows, columns), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c)
            T.copy(c, s)
            T.copy(s, C)

    return main


@pytest.mark.parametrize("chip, rows_, columns, padded", [
    ("sm_89", 256, 96, "100.0 KB of the 99 KB"),
    ("sm_120", 256, 96, "100.0 KB of the 99 KB"),
    ("sm_80", 256, 160, "164.0 KB of the 163 KB"),
    ("sm_89", 256, 80, None),
])  # fmt: skip
def test_padding_yields_where_only_it_does_not_fit(chip, rows_, columns, padded):
    program = through_shared(rows_, columns)
    a, b = rows(rows_, 32, dtype=np.float16), rows(32, columns, dtype=np.float16, seed=1)
    c = np.full((rows_, columns), np.nan, np.float32)
    kernel = tilelang.compile(program, target=f"sim:{chip}")
    assert not kernel.simulate(a, b, c).findings
    assert np.array_equal(c, a.astype(float) @ b.astype(float))
    said = [n.text for n in kernel.report.refusals if "not padded" in n.text]
    assert said == (
        [
            f"tiles are not padded against bank conflicts: so they would need {padded} of shared memory of a "
            "block"
        ]
        if padded
        else []
    )


def test_padding_of_the_programs_own_stays():
    rows_, columns = 256, 96

    @T.prim_func
    def main(A: T.Tensor((rows_, columns), "float32"), B: T.Tensor((rows_, columns), "float32")):
        with T.Kernel(1, threads=256):
            s = T.alloc_shared((rows_, columns), "float32")
            T.annotate_layout({s: T.Layout((rows_, columns), lambda i, j: i * (columns + 4) + j)})
            T.copy(A, s)
            for i, j in T.Parallel(rows_, columns):
                B[i, j] = s[rows_ - 1 - i, j]

    assert (
        "the tiles need 100.0 KB of shared memory (s 100.0 KB as it is laid out, 96.0 KB without padding), "
        "but sm_89 gives a block 99 KB; s would have to shrink to 98.9 KB"
        in refused(main, "cuda -arch=sm_89")
    )


# ── what is said ──────────────────────────────────────────────────────────────────────────────────────
def test_the_tiles_named_lie_there_at_once():
    said = refused(through_shared(256, 224), "cuda -arch=sm_80")
    assert (
        "the tiles need 224.0 KB of shared memory (s 224.0 KB; 2 others take some of the same memory at "
        "other times), but sm_80 gives a block 163 KB; s would have to shrink to 163.0 KB" in said
    )


def test_tiles_that_are_each_smaller_than_what_is_missing():
    @T.prim_func
    def main(A: T.Tensor((3, 64, 128), "float32"), B: T.Tensor((64, 128), "float32")):
        with T.Kernel(1, threads=128):
            p, q = T.alloc_shared((64, 128), "float32"), T.alloc_shared((64, 128), "float32")
            r, s = T.alloc_shared((64, 128), "float32"), T.alloc_shared((8,), "float32")
            T.clear(s)
            T.copy(A[0, :, :], p)
            T.copy(A[1, :, :], q)
            T.copy(A[2, :, :], r)
            for i, j in T.Parallel(64, 128):
                B[i, j] = p[i, j] + q[i, j] + r[i, j] + s[j % 8]

    assert (
        "the tiles need 96.1 KB of shared memory (p 32.0 KB, q 32.0 KB, r 32.0 KB), but sm_75 gives a block "
        "64 KB; they would have to shrink by 32.1 KB in all" in refused(main, "cuda -arch=sm_75")
    )


def test_what_the_compiler_needs_beside_the_tiles_is_named_as_its_own():
    @T.prim_func
    def main(A: T.Tensor((128, 64), "float16"), B: T.Tensor((64, 128), "float16"),
             D: T.Tensor((128, 128), "float32"), C: T.Tensor((128, 128), "float32")):  # fmt: skip
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((128, 64), "float16"), T.alloc_shared((64, 128), "float16")
            keep = T.alloc_shared((128, 128), "float32")
            c = T.alloc_fragment((128, 128), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.copy(D, keep)
            T.annotate_layout({c: T.Fragment((128, 128), forward_fn=lambda i, j: (i, j))})
            T.clear(c)
            T.gemm(a, b, c)
            for i, j in T.Parallel(128, 128):
                C[i, j] = keep[i, j] + c[i, j]

    said = refused(main, "cuda -arch=sm_89")
    with open(__file__) as file:
        product = next(n for n, line in enumerate(file, 1) if "T.gemm(a, b, c)" in line and n > 180)
    assert (
        "the tiles need 128.0 KB of shared memory (keep 64.0 KB, c_scratch 64.0 KB of the compiler's own for "
        f"line {product}; 2 others take some of the same memory at other times), but sm_89 gives a block "
        "99 KB; keep would have to shrink to 35.0 KB" in said
    )
