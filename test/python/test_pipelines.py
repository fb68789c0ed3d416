"""T.Pipelined as a user meets it: right for any number of trips, and it says what does not run ahead."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T

TARGETS = ["sim:sm_80", "sim:sm_75"]  # copies by cp.async, and through registers


def gemm(tile=32, stages=3):
    @T.prim_func
    def main(
        A: T.Tensor((64, 256), "float16"),
        B: T.Tensor((256, 64), "float16"),
        n: T.int32,
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            A_shared, B_shared = T.alloc_shared((64, tile), "float16"), T.alloc_shared((tile, 64), "float16")
            C_local = T.alloc_fragment((64, 64), "float32")
            T.clear(C_local)
            for k in T.Pipelined(n, num_stages=stages):
                T.copy(A[0, k * tile], A_shared)
                T.copy(B[k * tile, 0], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C)

    return main


def weighted(body):
    """Sums rows of A by a loop whose body is one of those below."""

    @T.prim_func
    def main(A: T.Tensor((64, 256), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            S, F = T.alloc_shared((64, 32), "float32"), T.alloc_fragment((64,), "float32")
            if body == "annotated":
                T.annotate_layout({S: T.Layout((64, 32), lambda i, j: i * 33 + j)})
            T.clear(F)
            T.clear(S)
            for k in T.Pipelined(8, num_stages=3):
                if body == "part":
                    T.copy(A[0:32, k * 32 : k * 32 + 32], S[0:32, 0:32])
                else:
                    T.copy(A[0, k * 32], S)
                for i in T.Parallel(64):
                    for j in T.serial(32):
                        F[i] += S[i, j] * (k + 1)
            if body == "after":
                for i in T.Parallel(64):
                    F[i] += S[i, 0]
            T.copy(F, B)

    return main


def packed_gemm(read_after=False):
    """B is unpacked, two 4-bit numbers to a byte, and scaled; its fragment may be of use behind the loop."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 256), "float16"),
        W: T.Tensor((64, 128), "uint8"),
        S: T.Tensor((4, 64), "float16"),
        n: T.int32,
        C: T.Tensor((64, 64), "float32"),
        L: T.Tensor((64, 32), "float16"),
    ):
        with T.Kernel(1, threads=128):
            A_shared, W_shared = T.alloc_shared((64, 32), "float16"), T.alloc_shared((64, 16), "uint8")
            S_shared = T.alloc_shared((1, 64), "float16")
            packed, W_local = T.alloc_fragment((64, 16), "uint8"), T.alloc_fragment((64, 32), "float16")
            C_local = T.alloc_fragment((64, 64), "float32")
            T.clear(C_local)
            if read_after:
                T.clear(W_local)
            for k in T.Pipelined(n, num_stages=3):
                T.copy(A[0, k * 32], A_shared)
                T.copy(W[0, k * 16], W_shared)
                T.copy(S[k // 2, 0], S_shared)
                T.copy(W_shared, packed)
                for i, j in T.Parallel(64, 32):
                    W_local[i, j] = T.float16(packed[i, j // 2] >> (j % 2 * 4) & 15) * S_shared[0, i]
                T.gemm(A_shared, W_local, C_local, transpose_B=True)
            T.copy(C_local, C)
            if read_after:
                T.copy(W_local, L)

    return main


def refusals(kernel):
    return [n.text for n in kernel.report.refusals]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_any_number_of_trips(target, stages):
    kernel = tilelang.compile(gemm(stages=stages), target=target)
    random = np.random.default_rng(stages)
    a, b = (random.standard_normal(s).astype(np.float16) for s in ((64, 256), (256, 64)))
    for trips in (0, 1, 2, 3, 5, 8):
        c = np.full((64, 64), np.nan, np.float32)
        kernel(a, b, trips, c)
        exact = a[:, : trips * 32].astype(np.float64) @ b[: trips * 32].astype(np.float64)
        assert np.linalg.norm(c - exact) <= 1e-6 * np.linalg.norm(exact)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("read_after", [False, True])
def test_a_computed_operand(target, read_after):
    kernel = tilelang.compile(packed_gemm(read_after), target=target)
    in_steps = target == "sim:sm_80" and not read_after
    said = [n.text for n in kernel.report.notes]
    assert any("W_local computed one of 2 steps ahead" in text for text in said) == in_steps, said
    assert ("W_local" in [b.name for b in kernel.report.buffers]) != in_steps
    random = np.random.default_rng(3)
    a, s = (random.uniform(-1, 1, shape).astype(np.float16) for shape in ((64, 256), (4, 64)))
    w = random.integers(0, 256, (64, 128), dtype=np.uint8)
    unpacked = np.stack([w & 15, w >> 4], axis=2).reshape(64, 256).astype(np.float16)
    b = unpacked * np.repeat(s, 64, axis=0).T
    for trips in (0, 1, 2, 5, 8):
        c, last = np.full((64, 64), np.nan, np.float32), np.full((64, 32), np.nan, np.float16)
        kernel(a, w, s, trips, c, last)
        exact = a[:, : trips * 32].astype(np.float64) @ b[:, : trips * 32].astype(np.float64).T
        assert np.linalg.norm(c - exact) <= 1e-6 * np.linalg.norm(exact)
        if read_after:
            assert (last == (b[:, trips * 32 - 32 : trips * 32] if trips else 0)).all()


def test_the_largest_number_of_slots_that_fits_is_taken():
    kernel = tilelang.compile(gemm(tile=256, stages=8), target="sim:sm_90")
    assert kernel.report.buffer("A_shared").shape[0] == "3"
    assert "num_stages=8 was asked for, 3 fit into the 227 KB of shared memory of a block" in refusals(kernel)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("part", "S is read before all of it is written in an iteration"),
        ("after", "S is read after the loop"),
        ("annotated", "is not asynchronous here"),
    ],
)
def test_what_does_not_run_ahead_says_why(body, why):
    kernel = tilelang.compile(weighted(body), target="sim:sm_80")
    assert any(why in text for text in refusals(kernel)), refusals(kernel)
    a, b = (
        np.random.default_rng(0).standard_normal((64, 256)).astype(np.float32),
        np.full(64, np.nan, np.float32),
    )
    kernel(a, b)
    used = a.reshape(64, 8, 32) * (np.arange(64)[:, None, None] < (32 if body == "part" else 64))
    exact = (used.sum(2, dtype=np.float64) * np.arange(1, 9)).sum(1) + (
        used[:, 7, 0] if body == "after" else 0
    )
    assert np.linalg.norm(b - exact) <= 1e-5 * np.linalg.norm(exact)


@pytest.mark.parametrize("form", ["table", "variable"])
@pytest.mark.parametrize("target", ["sim:sm_80", "sim:sm_90a"])
def test_an_index_that_memory_holds(form, target):
    """What an index reads, of a tensor or a variable, is no obstacle: the copy runs ahead as any other."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 256), "float16"), B: T.Tensor((3, 256, 64), "float16"), I: T.Tensor((2,), "int32"),
        C: T.Tensor((2, 64, 64), "float32"),
    ):  # fmt: skip
        with T.Kernel(2, threads=128) as block:
            a, b = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            group = T.alloc_var("int32")
            group = I[block]
            T.clear(c)
            for k in T.Pipelined(8, num_stages=3):
                T.copy(A[0, k * 32], a)
                if form == "table":
                    T.copy(B[I[block], k * 32, 0], b)
                else:
                    T.copy(B[group, k * 32, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C[block, :, :])

    kernel = tilelang.compile(main, target=target)
    lines = [line for line in kernel.report.text.splitlines() if "copy(B, b)" in line]
    assert "does not run ahead" not in kernel.report.text
    assert target == "sim:sm_90a" or any("8 at once" in line for line in lines)
    assert any("begun by cp.async" in line or "begun by TMA" in line for line in lines), lines
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((64, 256), (3, 256, 64)))
    i, c = np.array([2, 0], np.int32), np.full((2, 64, 64), np.nan, np.float32)
    report = kernel.simulate(a, b, i, c)
    assert not report.findings, report
    assert np.array_equal(c, a.astype(float) @ b[i].astype(float))
