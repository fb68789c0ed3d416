"""Loops in one role whose product runs beside other work, warpgroups that wait for their own alone, and what
a product in flight must not multiply."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from test_machine_code import by_disassembler
from test_roles import gemm, numbers, poisoned, run, why_not

SIM, CUDA = "sim:sm_90a", "cuda -arch=sm_90a"


def unpacked(steps, stages=3, threads=128, form="copied", rows=64):
    """Ct = W · Aᵀ, where W is A's partner: W = P - 4, computed in registers in each turn."""
    n = T.dynamic("n") if steps is None else steps * 64

    @T.prim_func
    def main(
        P: T.Tensor((rows, n), "uint8"), A: T.Tensor((64, n), "float16"), Ct: T.Tensor((rows, 64), "float32")
    ):
        with T.Kernel(1, threads=threads):
            p, a = T.alloc_shared((rows, 64), "uint8"), T.alloc_shared((64, 64), "float16")
            numbers_of_turn = T.alloc_fragment((rows, 64), "uint8")
            w_next, w = (T.alloc_fragment((rows, 64), "float16") for _ in range(2))
            c = T.alloc_fragment((rows, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(n, 64), num_stages=stages):
                T.copy(P[0, k * 64], p)
                T.copy(A[0, k * 64], a)
                T.copy(p, numbers_of_turn)
                for i, j in T.Parallel(rows, 64):
                    w_next[i, j] = T.cast(numbers_of_turn[i, j], "float16") - 4 - (k % 2)
                if form == "copied":
                    T.copy(w_next, w)
                    T.gemm(w, a, c, transpose_B=True)
                elif form == "looked at":
                    T.copy(w_next, w)
                    T.gemm(w, a, c, transpose_B=True)
                    for i, j in T.Parallel(rows, 64):
                        c[i, j] = c[i, j] / 2
                else:
                    T.gemm(w_next, a, c, transpose_B=True)
            T.copy(c, Ct)

    return main


def given(steps, rows=64):
    rng = np.random.default_rng(steps)
    p = rng.integers(0, 9, (rows, steps * 64)).astype(np.uint8)
    a = rng.integers(-4, 5, (64, steps * 64)).astype(np.float16)
    k = np.arange(steps * 64) // 64
    return p, a, (p.astype(float) - 4 - k % 2) @ a.astype(float).T


@pytest.mark.parametrize("rows, threads", [(64, 128), (128, 128), (128, 256)])
@pytest.mark.parametrize("steps", [1, 2, 3, 4, 7])
def test_factors_are_computed_beside_the_product_before(steps, rows, threads):
    p, a, expected = given(steps, rows)
    c = poisoned(rows, 64)
    run(unpacked(steps, threads=threads, rows=rows), p, a, c, seeds=range(3), roles=False)
    assert np.array_equal(c, expected)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_any_number_of_turns(n):
    p, a, expected = given(max(n, 1))
    c = poisoned(64, 64)
    run(unpacked(None), p[:, : n * 64], a[:, : n * 64], c, roles=False, seeds=range(2))
    assert np.array_equal(c, expected if n else np.zeros((64, 64)))


def test_what_runs_ahead_is_said():
    text = tilelang.compile(unpacked(8), target=SIM).report.text
    assert "the product runs beside the threads' work for the next one" in text
    rows = [line for line in text.splitlines() if "parallel i, j" in line and "k + 1" in line]
    assert rows, text


@pytest.mark.parametrize("form, stages", [("copied", 2), ("looked at", 3), ("not copied", 3)])
def test_where_the_product_ends_in_its_turn(form, stages):
    steps = 4
    p, a, expected = given(steps)
    c = poisoned(64, 64)
    kernel = run(unpacked(steps, stages, form=form), p, a, c, roles=False, seeds=range(2))
    assert "k + 1" not in " ".join(
        line for line in kernel.report.text.splitlines() if "parallel i, j" in line
    )
    if form == "looked at":
        w = p.astype(float) - 4 - np.arange(steps * 64) // 64 % 2
        expected = 0
        for turn in (slice(k * 64, (k + 1) * 64) for k in range(steps)):
            expected = (expected + w[:, turn] @ a[:, turn].astype(float).T) / 2
    assert np.array_equal(c, expected)


@pytest.mark.parametrize("steps", [2, 3, 9])
def test_the_next_product_begins_before_this_one_has_ended(steps):
    a, b, c = numbers(64, steps * 32), numbers(64, steps * 32, seed=1), poisoned(64, 64)
    function = gemm(64, 64, steps * 32, tile=(64, 64, 32))
    kernel = run(function, a, b, c, roles=False, seeds=range(4))
    assert np.array_equal(c, a.astype(float) @ b.astype(float).T)
    assert "wgmma_wait_group(1" in kernel._kernel.machine_text
    assert "the next product begins before this one has ended" in kernel.report.text
    assert "take 64 clocks of the tensor cores" in why_not(kernel)


def test_short_rows_are_loaded_where_products_take_long():
    M, N, K = 128, 256, 192
    a, b, c = (
        numbers(M, K, dtype=np.int8),
        numbers(N, K, dtype=np.int8, seed=1),
        np.full((M, N), 7, np.int32),
    )
    function = gemm(M, N, K, tile=(128, 256, 64), threads=256, dtype="int8", sums="int32")
    run(function, a, b, c, seeds=range(2))
    assert np.array_equal(c, a.astype(int) @ b.astype(int).T)


# ── groups of threads ─────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("along_K", [True, False])
def test_warpgroups_that_wait_for_their_own_alone(along_K):
    M, N, K = 200, 264, 136
    a, b = numbers(M, K), numbers(K, N, seed=1)
    c = poisoned(M, N, dtype=np.float16)
    function = gemm(M, N, K, tile=(128, 128, 64), threads=256, transposed=(False, along_K), sums="float16")
    kernel = run(function, a, np.ascontiguousarray(b.T) if along_K else b, c)
    text = kernel._kernel.machine_text
    assert ("bar_sync_groups(3" in text) == (not along_K) and ("bar_sync(1" in text) == along_K


# ── what a product in flight multiplies ───────────────────────────────────────────────────────────────
def in_flight_over_the_end(loop):
    """The product of an iteration is waited for in the next one, which then computes its factor anew."""

    @T.prim_func
    def main(X: T.Tensor((4, 64, 64), "float16"), Y: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((64, 64), "float16")
            P = T.alloc_fragment((64, 64), "float16")  # here
            C = T.alloc_fragment((64, 64), "float32")
            T.copy(X[0, :, :], S)
            T.clear(C)
            for k in loop():
                T.wait_wgmma(0)
                for i, j in T.Parallel(64, 64):
                    P[i, j] = X[k, i, j] + X[k, i, j]
                T.wgmma_gemm(P, S, C)
            T.wait_wgmma(0)
            T.copy(C, Y)

    return main


@pytest.mark.parametrize("loop", [lambda: T.serial(4), lambda: T.unroll(4, unroll_factor=2)])
@pytest.mark.parametrize("target", [SIM, CUDA])
def test_a_factor_in_registers_beyond_the_end_of_an_iteration_is_refused(loop, target):
    with pytest.raises(tilelang.CompileError, match="P is in registers, and a product") as caught:
        tilelang.compile(in_flight_over_the_end(loop), target=target)
    assert "# here" in str(caught.value)


@by_disassembler
@pytest.mark.parametrize("rows, threads", [(64, 128), (128, 128)])
def test_its_registers_are_kept(rows, threads):
    kernel = tilelang.compile(unpacked(16, threads=threads, rows=rows), target=CUDA)
    assert "the product runs beside the threads' work for the next one" in kernel.report.text
    assert "wgmma_m64k16_f16_f32_rs" in kernel.get_kernel_source()
    assert kernel.machine_code.regions and kernel.machine_code.overwritten == ()


def test_a_loop_that_is_written_out_has_no_end_of_an_iteration():
    main = in_flight_over_the_end(lambda: T.unroll(4))
    x, y = numbers(4, 64, 64), poisoned(64, 64)
    report = tilelang.compile(main, target=SIM).simulate(x, y)
    assert not report.findings, report
    assert np.array_equal(y, (2 * x.astype(float).sum(0)) @ x[0].astype(float))


@by_disassembler
def test_registers_are_kept_in_a_loop_that_is_written_out():
    code = tilelang.compile(in_flight_over_the_end(lambda: T.unroll(4)), target=CUDA).machine_code
    assert code.regions and code.overwritten == ()


def with_sums_of_another_layout(kind, depth):
    spread = T.Fragment((64, 64), forward_fn=lambda i, j: ((i * 64 + j) // 8 % 128, j % 8 + i // 16 * 8))

    @T.prim_func
    def main(
        A: T.Tensor((64, 192), "float16"), B: T.Tensor((64, 192), "float16"), C: T.Tensor((64, 64), "float32")
    ):
        with T.Kernel(1, threads=128):
            a, b = (T.alloc_shared((64, depth), "float16") for _ in range(2))
            a8, b8 = (T.alloc_shared((64, 8), "float16") for _ in range(2))
            c = T.alloc_fragment((64, 64), "float32")
            held = T.alloc_fragment((64, depth), "float16")
            if kind == "annotated":
                T.annotate_layout({c: spread})
            T.clear(c)
            if kind == "a remainder":
                T.copy(A[0, 0], a8)
                T.copy(B[0, 0], b8)
                T.gemm(a8, b8, c, transpose_B=True)
            if kind == "a held factor":
                T.copy(A[0, 0], held)
            for k in T.Pipelined(192 // depth, num_stages=3):
                T.copy(B[0, k * depth], b)
                if kind == "a held factor":
                    T.gemm(held, b, c, transpose_B=True)
                else:
                    T.copy(A[0, k * depth], a)
                    T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C)

    return main


@pytest.mark.parametrize("depth", [32, 64])
@pytest.mark.parametrize("kind", ["annotated", "a remainder", "a held factor"])
def test_operands_that_may_lie_otherwise_end_products_in_their_turn(kind, depth):
    a, b, c = numbers(64, 192), numbers(64, 192, seed=1), poisoned(64, 64)
    kernel = tilelang.compile(with_sums_of_another_layout(kind, depth), target=SIM)
    for seed in range(3):
        report = kernel.simulate(a, b, c, seed=seed)
        assert not report.findings, report
    x, y = a.astype(float), b.astype(float)
    if kind == "a held factor":
        expected = sum(x[:, :depth] @ y[:, k : k + depth].T for k in range(0, 192, depth))
    else:
        expected = x @ y.T + (x[:, :8] @ y[:, :8].T if kind == "a remainder" else 0)
    assert np.array_equal(c, expected)


def test_threads_of_a_warp_behind_an_exchange_in_groups():
    @T.prim_func
    def main(
        A: T.Tensor((128, 256), "float16"),
        B: T.Tensor((256, 64), "float16"),
        W: T.Tensor((256,), "float32"),
        Z: T.Tensor((256,), "float32"),
        C: T.Tensor((128, 64), "float32"),
    ):
        with T.Kernel(1, threads=256):
            a, b = T.alloc_shared((128, 64), "float16"), T.alloc_shared((64, 64), "float16")
            s, c = T.alloc_shared((256,), "float32"), T.alloc_fragment((128, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, c)
            for i in T.Parallel(256):
                s[i] = W[i]
            for i in T.Parallel(256):
                Z[i] = s[i // 128 * 128 + 127 - i % 128]
            for i in T.Parallel(256):
                W[i] = Z[i // 2 * 2 + 1 - i % 2] + s[i // 128 * 128 + 127 - i % 128]
            T.copy(c, C)

    a, b = numbers(128, 256), numbers(256, 64, seed=1)
    w = np.arange(256, dtype=np.float32)
    kernel = run(main, a, b, w, np.zeros(256, np.float32), poisoned(128, 64), seeds=range(3))
    assert "bar_sync_groups" in kernel._kernel.machine_text and "sync_warp" in kernel._kernel.machine_text
