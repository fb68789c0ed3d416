"""T.gemm(…, clear_accum=condition): the accumulator is cleared where the condition holds."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import TARGETS, assert_round_trip, compiles_for_gpus

M, N, K, STEP = 64, 64, 128, 32


def product(loop, condition, dtype="float16", accumulator="float32", part=False, threads=128):
    """C = A @ B, begun in a fragment that is full of NaN (or 7): `condition` says where it is cleared."""
    rows = 2 * M if part else M

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), n: T.int32,
             C: T.Tensor((M, N), accumulator)):  # fmt: skip
        with T.Kernel(1, threads=threads) as bx:
            a, b = T.alloc_shared((M, STEP), dtype), T.alloc_shared((STEP, N), dtype)
            c = T.alloc_fragment((rows, N), accumulator)
            T.fill(c, T.infinity(accumulator) - T.infinity(accumulator) if accumulator[0] == "f" else 7)
            for k in loop(K // STEP):
                T.copy(A[0, k * STEP], a)
                T.copy(B[k * STEP, 0], b)
                T.gemm(a, b, c[M:, :] if part else c, clear_accum=condition(k, n, bx))
            T.copy(c[M:, :] if part else c, C)

    return main


def run(program, target, first=0, n=0, dtype="float16", accumulator="float32"):
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, s).astype(dtype) for s in ((M, K), (K, N)))
    c = np.zeros((M, N), accumulator)
    tilelang.compile(program, target=target)(a, b, n, c)
    wanted = a[:, first * STEP :].astype(accumulator) @ b[first * STEP :].astype(accumulator)
    assert np.array_equal(c, wanted)


LOOPS = {
    "serial": T.serial, "unrolled": T.unroll, "pipelined": lambda n: T.Pipelined(n, num_stages=2),
}  # fmt: skip


@pytest.mark.parametrize("loop", LOOPS)
def test_in_the_first_step(loop, target):
    program = product(LOOPS[loop], lambda k, n, bx: k == 0)
    assert_round_trip(str(program))
    assert "clear_accum=(k == 0)" in str(program)
    run(program, target)


def test_any_condition(target):
    run(product(T.serial, lambda k, n, bx: k == n), target, first=2, n=2)
    run(product(T.serial, lambda k, n, bx: (k == 0) | ((k == n) & (bx == 0))), target, first=1, n=1)
    run(product(T.serial, lambda k, n, bx: k <= 3), target, first=3)  # known: always
    run(product(T.serial, lambda k, n, bx: 3 - k), target, first=2)  # a number: where it is not 0


@pytest.mark.parametrize(
    "dtype, accumulator", [("float32", "float32"), ("int8", "int32"), ("float16", "float16")]
)
def test_types(target, dtype, accumulator):
    program = product(T.serial, lambda k, n, bx: k == 0, dtype, accumulator)
    run(program, target, dtype=dtype, accumulator=accumulator)


def test_a_part_of_a_fragment(target):
    run(product(T.serial, lambda k, n, bx: k == 0, part=True), target)
    run(product(T.serial, lambda k, n, bx: k == 0, threads=96), target)


def test_a_condition_that_reads_memory(target):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), F: T.Tensor((4,), "int32"),
             C: T.Tensor((M, N), "float32")):  # fmt: skip
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((M, STEP), "float16"), T.alloc_shared((STEP, N), "float16")
            c = T.alloc_fragment((M, N), "float32")
            fresh = T.alloc_var("bool", init=True)
            for k in T.serial(K // STEP):
                T.copy(A[0, k * STEP], a)
                T.copy(B[k * STEP, 0], b)
                T.gemm(a, b, c, clear_accum=fresh)
                T.gemm(a, b, c, clear_accum=F[k] > 0)
                fresh = False
            T.copy(c, C)

    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, s).astype(np.float16) for s in ((M, K), (K, N)))
    c = np.zeros((M, N), np.float32)
    tilelang.compile(main, target=target)(a, b, np.array([0, 1, 0, 0], np.int32), c)
    x, y = a.astype(np.float32), b.astype(np.float32)
    assert np.array_equal(c, x[:, 32:64] @ y[32:64] + 2 * (x[:, 64:] @ y[64:]))


def test_for_gpus():
    compiles_for_gpus(product(T.Pipelined, lambda k, n, bx: k == 0))


def test_threads_agree(tmp_path):
    program = product(T.serial, lambda k, n, bx: T.get_thread_binding() == 0)
    for target in TARGETS:
        if target == "cpu":
            continue
        with pytest.raises(tilelang.CompileError, match="clear_accum depends on .* must be the same"):
            tilelang.compile(program, target="sim:sm_80")


def test_in_text():
    text = str(product(T.serial, lambda k, n, bx: k == 0))
    parse = tilelang._core.parse
    with pytest.raises(tilelang.CompileError, match="clear_accum reads memory"):
        parse(text.replace("(k == 0)", "(A[0, 0] > 0.0:f16)"))
    with pytest.raises(tilelang.CompileError, match="clear_accum must be 0, 1 or"):
        parse(text.replace("(k == 0)", "(k + 1)"))
    with pytest.raises(tilelang.CompileError, match="clear_accum must be 0, 1 or"):
        parse(text.replace("(k == 0)", "2"))
