"""T.copy between a tensor and a tile by the tensor memory accelerator: where it is, where not and why, and
that what it moves is right in loops, under conditions and at the edges of tensors."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T

SIM = "sim:sm_90a"


def numbers(*shape, dtype=np.float16, seed=0):
    return np.random.default_rng(seed).integers(-8, 8, shape).astype(dtype)


def poisoned(*shape, dtype=np.float16):
    return np.full(shape, np.nan, dtype)


def run(function, *arguments, seeds=range(6), **options):
    """Simulated in several orders of warps, without a finding."""
    kernel = tilelang.compile(function, target=SIM, **options)
    for seed in seeds:
        report = kernel.simulate(*arguments, seed=seed)
        assert not report.findings, report
    return kernel


def text_of(kernel):
    return kernel._kernel.machine_text


def refusals(kernel):
    return [note for note in kernel.report.text.splitlines() if "not by TMA" in note]


def test_copies_that_follow_each_other_share_a_wait():
    @T.prim_func
    def main(
        A: T.Tensor((100, 192), "float16"),
        B: T.Tensor((192, 72), "float16"),
        C: T.Tensor((100, 72), "float32"),
    ):
        with T.Kernel(1, T.ceildiv(100, 64), threads=128) as (bx, by):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 128), "float16")
            c = T.alloc_fragment((64, 128), "float32")
            T.clear(c)
            for k in T.serial(3):
                T.copy(A[by * 64, k * 64], a)
                T.copy(B[k * 64, bx * 128], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 64, bx * 128])

    a, b, c = numbers(100, 192), numbers(192, 72, seed=1), poisoned(100, 72, dtype=np.float32)
    kernel = run(main, a, b, c)
    assert np.array_equal(c, a.astype(float) @ b.astype(float))
    assert text_of(kernel).count("mbarrier_try_wait") == 1 and not refusals(kernel)
    assert "shared u64[1]" in text_of(kernel)


@pytest.mark.parametrize("steps", [0, 1, 5])
@pytest.mark.parametrize("form", ["nested", "condition", "while", "jump"])
def test_the_phase_of_a_place(form, steps):
    """In loops of any form every wait is for the copy in front of it."""

    @T.prim_func
    def main(A: T.Tensor((6, 64, 64), "float16"), C: T.Tensor((6, 64, 64), "float16"), n: T.int32):
        with T.Kernel(1, threads=64):
            a, sums = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float16")
            if form == "nested":
                for _ in T.serial(2):
                    for j in T.serial(n):
                        T.copy(A[j, :, :], a)
                        T.copy(a, sums)
                        T.copy(sums, C[j, :, :])
            elif form == "condition":
                for j in T.serial(6):
                    if j < n:
                        T.copy(A[j, :, :], a)
                        T.copy(a, sums)
                        T.copy(sums, C[j, :, :])
            elif form == "while":
                j = T.alloc_var("int32", 0)
                while j < n:
                    T.copy(A[j, :, :], a)
                    T.copy(a, sums)
                    T.copy(sums, C[j, :, :])
                    j += 1
            else:
                for j in T.serial(6):
                    if j >= n:
                        break
                    T.copy(A[j, :, :], a)
                    T.copy(a, sums)
                    T.copy(sums, C[j, :, :])

    a, c = numbers(6, 64, 64), np.zeros((6, 64, 64), np.float16)
    kernel = run(main, a, c, steps)
    assert "cp_async_bulk_tensor_3d_load" in text_of(kernel)
    assert np.array_equal(c[:steps], a[:steps]) and not c[steps:].any()


def test_a_tile_is_stored():
    @T.prim_func
    def main(A: T.Tensor((150, 72), "float32"), C: T.Tensor((150, 72), "float16")):
        with T.Kernel(1, threads=128):
            part, c = T.alloc_fragment((64, 72), "float32"), T.alloc_shared((64, 72), "float16")
            for i in T.serial(3):
                T.copy(A[i * 64, 0], part)
                T.copy(part, c)
                T.copy(c, C[i * 64, 0])

    a, c = numbers(150, 72, dtype=np.float32), poisoned(150, 72)
    kernel = run(main, a, c)
    assert np.array_equal(c, a)
    assert "bulk_tensor_2d_store" in text_of(kernel) and "bulk_wait_group(0" in text_of(kernel)


@pytest.mark.parametrize("form", ["scalar", "table", "variable", "column", "block"])
def test_a_store_that_may_begin_below_0(form):
    """It is done by the accelerator where it begins inside, else by threads."""

    @T.prim_func
    def main(
        X: T.Tensor((32, 64), "float16"), tab: T.Tensor((2,), "int32"), p: T.int32,
        C: T.Tensor((2, 64, 96), "float16"),
    ):  # fmt: skip
        with T.Kernel(2, threads=64) as b:
            s = T.alloc_shared((32, 64), "float16")
            T.copy(X, s)
            if form == "scalar":
                T.copy(s, C[b, p, 0])
            elif form == "table":
                T.copy(s, C[b, tab[b], 0])
            elif form == "variable":
                place = T.alloc_var("int32", init=p)
                place += b
                T.copy(s, C[b, place, 0])
            elif form == "column":
                T.copy(s, C[b, 8, p * 8])
            else:
                T.copy(s, C[b, b * 64 - 16, 0])

    kernel = tilelang.compile(main, target=SIM)
    assert "bulk_tensor_3d_store" in text_of(kernel) and "by TMA where" in kernel.report.text
    x = numbers(32, 64)
    for p in (-5, 0, 5, -40, 100, 2**31 - 4):
        tab, c, wanted = np.array([p, -p], "i4"), np.zeros((2, 64, 96), "f2"), np.zeros((2, 64, 96), "f2")
        assert not kernel.simulate(x, tab, p if form != "column" else p % 2**20, c).findings
        tilelang.compile(main, target="reference")(x, tab, p if form != "column" else p % 2**20, wanted)
        assert np.array_equal(c, wanted), p


@pytest.mark.parametrize("form", ["blocks", "unsigned", "assumed", "condition"])
def test_a_store_that_begins_inside(form):
    @T.prim_func
    def main(X: T.Tensor((32, 64), "float16"), p: T.int32, q: T.uint16, C: T.Tensor((64, 64), "float16")):
        with T.Kernel(2, threads=64) as b:
            s = T.alloc_shared((32, 64), "float16")
            T.copy(X, s)
            if form == "blocks":
                T.copy(s, C[b * 32, 0])
            elif form == "unsigned":
                T.copy(s, C[b * 32 + q, 0])
            elif form == "assumed":
                T.assume(p >= 0)
                T.assume(p < 1000)
                T.copy(s, C[b * 32 + p, 0])
            elif p >= 2 and p < 100:
                T.copy(s, C[(p - 2) * 32 + b * 32, 0])

    kernel = tilelang.compile(main, target=SIM)
    assert "bulk_tensor_2d_store" in text_of(kernel) and "by TMA where" not in kernel.report.text
    x, c = numbers(32, 64), np.zeros((64, 64), np.float16)
    assert not kernel.simulate(x, 2 if form == "condition" else 0, 0, c).findings
    assert np.array_equal(c, np.concatenate([x, x]))


@pytest.mark.parametrize("form", ["scalar", "table", "loop"])
def test_sums_that_may_be_stored_below_0(form):
    """Parts of a fragment, in a kernel that the compiler divides among roles."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 128), "float16"), B: T.Tensor((128, 128), "float16"), tab: T.Tensor((2,), "int32"),
        p: T.int32, C: T.Tensor((2, 96, 128), "float16"),
    ):  # fmt: skip
        with T.Kernel(2 if form != "loop" else 1, threads=128) as b:
            a, w = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 128), "float16")
            c = T.alloc_fragment((64, 128), "float32")
            for t in T.serial(2 if form == "loop" else 1):
                T.clear(c)
                for k in T.Pipelined(4, num_stages=2):
                    T.copy(A[0, k * 32], a)
                    T.copy(B[k * 32, 0], w)
                    T.gemm(a, w, c)
                if form == "scalar":
                    T.copy(c, C[b, p, 0])
                elif form == "table":
                    T.copy(c, C[b, tab[b], 0])
                else:
                    T.copy(c, C[t, tab[t], 0])

    kernel = tilelang.compile(main, target=SIM)
    assert "bulk_tensor_3d_store" in text_of(kernel) and "parts are stored by TMA where" in kernel.report.text
    a, w = numbers(64, 128), numbers(128, 128, seed=1)
    product = (a.astype(float) @ w.astype(float)).astype(np.float16)
    for p in (-5, 0, 32):
        places = [p, 3 - p] if form != "scalar" else [p, p]
        c, wanted = np.zeros((2, 96, 128), np.float16), np.zeros((2, 96, 128), np.float16)
        for out, place in zip(wanted, places, strict=True):
            first, last = max(place, 0), min(place + 64, 96)
            out[first:last] = product[first - place : last - place]
        assert not kernel.simulate(a, w, np.array(places, "i4"), p, c).findings
        assert np.array_equal(c, wanted), p


def test_a_length_that_only_the_call_knows():
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n, 96), "float16"), C: T.Tensor((n, 96), "float16")):
        with T.Kernel(T.ceildiv(n, 32), threads=64) as i:
            a, part = T.alloc_shared((32, 96), "float16"), T.alloc_fragment((32, 96), "float16")
            T.copy(A[i * 32, 0], a)
            T.copy(a, part)
            T.copy(part, C[i * 32, 0])

    for length in (0, 1, 31, 32, 100):
        a, c = numbers(length, 96), poisoned(length, 96)
        kernel = run(main, a, c, seeds=(0,))
        assert np.array_equal(c, a)
    assert "bulk_tensor" in text_of(kernel)


def copied(tensor, tile, **settings):
    """A copy to a tile, which another one reads."""
    shape, dtype = tensor
    rows, columns = tile

    @T.prim_func
    def main(A: T.Tensor(shape, dtype), C: T.Tensor((rows, columns), dtype)):
        with T.Kernel(1, threads=64):
            a, part = T.alloc_shared((rows, columns), dtype), T.alloc_fragment((rows, columns), dtype)
            T.copy(A[0, 0], a, **settings)
            T.copy(a, part)
            T.copy(part, C)

    return main


@pytest.mark.parametrize(
    "program, why",
    [
        (copied(((64, 60), "float16"), (64, 64)), "stride is 120 bytes"),
        (copied(((64, 64), "float16"), (64, 64), coalesced_width=2), "coalesced_width says which threads"),
        (copied(((64, 64), "float16"), (64, 64), disable_tma=True), None),
        (copied(((64, 64), "float16"), (8, 64)), None),
    ],
)
def test_by_threads(program, why):
    kernel = tilelang.compile(program, target=SIM)
    assert "bulk_tensor" not in text_of(kernel)
    assert (why in " ".join(refusals(kernel))) if why else not refusals(kernel)


def test_a_tile_that_a_loop_works_on():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((64, 64), "float16")
            T.copy(A, a)
            for i, j in T.Parallel(64, 64):
                C[i, j] = a[j, i]

    a, c = numbers(64, 64), poisoned(64, 64)
    kernel = run(main, a, c)
    assert np.array_equal(c, a.T) and "a loop on line" in refusals(kernel)[0]


def test_a_tensor_that_the_kernel_writes():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=64):
            a, part = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float16")
            for _ in T.serial(2):
                T.copy(A, a)
                T.copy(a, part)
                for x, y in T.Parallel(64, 64):
                    part[x, y] = part[x, y] + T.float16(1)
                T.copy(part, A)

    a = numbers(64, 64)
    wanted = a + 2
    kernel = tilelang.compile(main, target=SIM)
    assert not kernel.simulate(a).findings
    assert np.array_equal(a, wanted) and "the kernel writes to A" in refusals(kernel)[0]


def test_a_team_does_what_is_written():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=256):
            a, part = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float16")
            with T.ws(0):
                T.copy(A, a)
                T.copy(a, part)
                T.copy(part, C)

    a, c = numbers(64, 64), poisoned(64, 64)
    assert "bulk_tensor" not in text_of(run(main, a, c)) and np.array_equal(c, a)


def test_addresses_that_are_no_multiples_of_16_bytes():
    """The general variant moves by threads; the specialized one is taken where the call's tensors fit."""
    kernel = tilelang.compile(copied(((64, 64), "float16"), (64, 64)), target=SIM)
    whole = np.zeros(64 * 64 + 1, np.float16)
    for view in (whole[:-1], whole[1:]):
        view[:] = numbers(64 * 64)
        c = poisoned(64, 64)
        kernel(view.reshape(64, 64), c)
        assert np.array_equal(c, view.reshape(64, 64))


@pytest.mark.parametrize(
    "source, by", [("float32", "wgmma_m64k8_tf32_f32_ss"), ("tfloat32", "mma_m16n8k8_tf32_f32")]
)
def test_products_of_tf32(source, by):
    """wgmma cuts off what a gemm rounds: it takes tiles whose elements were rounded as they were stored."""

    @T.prim_func
    def main(A: T.Tensor((64, 32), source), B: T.Tensor((64, 32), source), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 32), "tfloat32"), T.alloc_shared((64, 32), "tfloat32")
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            T.copy(c, C)

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((64, 32)).astype(np.float32) for _ in range(2))
    c, wanted = poisoned(64, 64, dtype=np.float32), poisoned(64, 64, dtype=np.float32)
    kernel = run(main, a, b, c)
    assert by in kernel.report.text
    tilelang.compile(main, target="reference")(a, b, wanted)
    assert np.linalg.norm(c - wanted) <= 1e-6 * np.linalg.norm(wanted)
    if source == "tfloat32":
        assert "cut off instead of rounding" in kernel.report.text
