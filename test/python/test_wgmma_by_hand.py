"""Products of warpgroups that a program begins and waits for itself: right where it waits as it must, and
found by the simulator where it does not."""

import textwrap

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import failure, load_text

SIM = "sim:sm_90a"


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float16)


def simulated(function, *arguments, schedules=3):
    kernel = tilelang.compile(function, target=SIM)
    report = kernel.simulate(*arguments, schedules=schedules)
    assert not report.findings, report.findings
    return kernel


def found(function, *arguments, pass_configs=None):
    kernel = tilelang.compile(function, target=SIM, pass_configs=pass_configs)
    with pytest.raises(tilelang.SimulationError) as error:
        kernel.simulate(*arguments, schedules=2)
    return str(error.value)


def summed(steps, in_flight=1, threads=128, scaled=False):
    """C = Σ A[k] @ B[k], of which `in_flight` products are begun before the one before is waited for; scaled:
    and doubled behind each."""

    @T.prim_func
    def main(
        A: T.Tensor((steps, 64, 64), "float16"),
        B: T.Tensor((steps, 64, 128), "float16"),
        C: T.Tensor((64, 128), "float32"),
    ):
        with T.Kernel(1, threads=threads):
            a, b = T.alloc_shared((steps, 64, 64), "float16"), T.alloc_shared((steps, 64, 128), "float16")
            c = T.alloc_fragment((64, 128), "float32")
            T.copy(A, a)
            T.copy(B, b)
            for k in T.serial(steps):
                T.wgmma_gemm(a[k, :, :], b[k, :, :], c, clear_accum=(k == 0))
                T.wait_wgmma(in_flight)
                if scaled:
                    for i, j in T.Parallel(64, 128):
                        c[i, j] = c[i, j] * 2
            T.wait_wgmma(0)
            T.copy(c, C)

    return main


def arguments(steps):
    return numbers(steps, 64, 64), numbers(steps, 64, 128, seed=1), np.full((64, 128), np.nan, np.float32)


@pytest.mark.parametrize("in_flight", [0, 1, 3])
@pytest.mark.parametrize("threads", [128, 256])
def test_products_in_flight(in_flight, threads):
    a, b, c = arguments(3)
    kernel = simulated(summed(3, in_flight, threads), a, b, c)
    assert np.array_equal(c, np.einsum("kij,kjl->il", a.astype(float), b.astype(float)))
    # Behind the wait that completes them; in front of a fence where none are in flight.
    assert kernel._kernel.machine_text.count("wgmma_results(") == (1 if in_flight else 2)


def test_the_other_names():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=384):
            a = T.alloc_shared((64, 64), "float16")
            T.copy(A, a)
            with T.ws(0):
                T.inc_max_nreg(240)
                c = T.alloc_fragment((64, 64), "float32")
                T.warpgroup_arrive()
                T.wgmma_gemm(a, a, c, clear_accum=True)
                T.warpgroup_commit_batch()
                T.warpgroup_wait(0)
                T.warpgroup_fence_operand(c)
                T.copy(c, C)
            with T.ws(1):
                T.dec_max_nreg(80)
            with T.ws(2):
                T.dec_max_nreg(24)

    a, c = numbers(64, 64), np.full((64, 64), np.nan, np.float32)
    simulated(main, a, c)
    assert np.array_equal(c, a.astype(float) @ a.astype(float))


def test_sums_that_are_touched_in_flight():
    assert "while a product begun" in found(summed(2, 1, scaled=True), *arguments(2))
    simulated(summed(2, 0, scaled=True), *arguments(2))


def test_sums_that_are_read_in_flight():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, c = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.wgmma_gemm(a, a, c, clear_accum=True)
            T.copy(c, C)

    said = found(main, numbers(64, 64), np.zeros((64, 64), np.float32))
    assert "reads c while a product begun" in said and "wait for it first (T.wait_wgmma)" in said


def test_a_product_that_nobody_waits_for():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            a, c = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.wgmma_gemm(a, a, c, clear_accum=True)

    assert "still in flight when it ends" in found(main, numbers(64, 64))


def overwritten(waits):
    @T.prim_func
    def main(A: T.Tensor((2, 64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, c = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.serial(2):
                T.copy(A[k, :, :], a)
                T.wgmma_gemm(a, a, c)
                if waits:
                    T.wait_wgmma(0)
            T.wait_wgmma(0)
            T.copy(c, C)

    return main


def test_a_tile_that_is_overwritten_in_flight():
    a, c = numbers(2, 64, 64), np.full((64, 64), np.nan, np.float32)
    simulated(overwritten(True), a, c)
    assert np.array_equal(c, sum(x.astype(float) @ x.astype(float) for x in a))
    assert "data race on a[" in found(overwritten(False), a, c)


def test_a_forgotten_fence_and_barrier():
    """Where the program places its barriers itself, none of the compiler's stands before the product."""
    own = {"tl.disable_thread_storage_sync": True}

    def main_of(fences):
        @T.prim_func
        def main(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
            with T.Kernel(1, threads=128):
                a, c = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float32")
                T.copy(A, a)
                if fences:
                    T.fence_proxy_async()
                T.sync_threads()
                T.gemm(a, a, c, clear_accum=True)
                T.copy(c, C)

        return main

    a, c = numbers(64, 64), np.full((64, 64), np.nan, np.float32)
    assert "missing proxy fence" in found(main_of(False), a, c, pass_configs=own)
    kernel = tilelang.compile(main_of(True), target=SIM, pass_configs=own)
    assert not kernel.simulate(a, c).findings and np.array_equal(c, a.astype(float) @ a.astype(float))


def with_registers(teams, threads=384, blocks=1, under=None):
    """Per team its first warpgroup, how many, and what its threads have; `under`: only where n is above 0."""
    text = textwrap.indent("".join(
        f"""
with T.ws({", ".join(map(str, range(first, first + count)))}):
    {"if n > 0: " if under == first else ""}T.set_max_nreg({registers}, {int(more)})
    C[T.get_thread_binding()] = {first}
""" for first, count, registers, more in teams), " " * 8)  # fmt: skip
    return f"""
import tilelang.language as T
@T.prim_func
def main(C: T.Tensor(({threads},), "int32"), n: T.int32):
    with T.Kernel(1, threads={threads}):
        T.annotate_min_blocks_per_sm({blocks})
{text}"""


@pytest.mark.parametrize("teams, threads, blocks, sum, pool", [
    ([(0, 2, 240, 1), (2, 1, 40, 0)], 384, 1, 66560, "sm_90a has 64512 for 384 threads"),
    ([(0, 2, 240, 1)], 384, 1, 82944, "sm_90a has 64512 for 384 threads"),
    ([(0, 1, 24, 0), (1, 3, 240, 1)], 512, 1, 95232, "sm_90a has 65536 for 512 threads"),
    ([(0, 2, 112, 1), (2, 1, 24, 0)], 384, 2, 31744, "sm_90a has 30720 for 384 threads, of which 2 blocks "
     "share a multiprocessor (T.annotate_min_blocks_per_sm)"),
])  # fmt: skip
@pytest.mark.parametrize("target", ["cuda -arch=sm_90a", SIM])
def test_more_registers_than_a_block_has(tmp_path, teams, threads, blocks, sum, pool, target):
    main = load_text(tmp_path, with_registers(teams, threads, blocks)).main
    with pytest.raises(tilelang.CompileError) as caught:
        tilelang.compile(main, target=target)
    taker = max(i for i, team in enumerate(teams) if team[3])
    assert (
        f":{9 + 4 * taker}:" in str(caught.value)
        and f"the warps of the block take {sum} registers in all (T.set_max_nreg), but {pool}: the last "
        "warps would wait for ever; give more back in other warps (T.set_max_nreg(24, 0)), or take fewer here"
        in str(caught.value)
    )


@pytest.mark.parametrize("teams, blocks, under", [
    ([(0, 2, 240, 1), (2, 1, 24, 0)], 1, None),
    ([(0, 2, 104, 1), (2, 1, 24, 0)], 2, None),
])  # fmt: skip
def test_as_many_registers_as_a_block_has(tmp_path, teams, blocks, under):
    c = np.zeros(384, np.int32)
    simulated(load_text(tmp_path, with_registers(teams, 384, blocks)).main, c, 1)
    assert np.array_equal(np.unique(c), [0, 2])


def test_registers_that_are_taken_under_a_condition(tmp_path):
    """Whether the block has enough is known to a call alone."""
    teams = [(0, 2, 240, 1), (2, 1, 40, 0)]
    kernel = tilelang.compile(load_text(tmp_path, with_registers(teams, under=0)).main, target=SIM)
    c = np.zeros(384, np.int32)
    assert not kernel.simulate(c, 0).findings
    with pytest.raises(tilelang.SimulationError, match=r"take 66560 registers in all .* there are 64512"):
        kernel.simulate(c, 1)


def test_registers_given_back_that_nobody_has(tmp_path):
    main = load_text(tmp_path, with_registers([(0, 3, 240, 0)])).main
    with pytest.raises(tilelang.CompileError, match="at most 168 registers here, and is to give all but 240"):
        tilelang.compile(main, target="cuda -arch=sm_90a")


def test_registers_that_a_launch_may_not_give():
    """What a thread has at its launch is the device compiler's to say; 255 is only the most."""

    @T.prim_func
    def main(C: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=256):
            with T.ws(1):
                T.dec_max_nreg(24)
            with T.ws(0):
                T.inc_max_nreg(240)
                for i in T.Parallel(128):
                    C[i] = 1

    c = np.zeros(128, np.float32)
    tilelang.compile(main, target=SIM).simulate(c)
    assert (c == 1).all()


def test_registers_in_the_wrong_direction():
    @T.prim_func
    def main(C: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            T.set_max_nreg(24, 1)
            for i in T.Parallel(128):
                C[i] = 1

    assert "24 are fewer" in found(main, np.zeros(128, np.float32))


@pytest.mark.parametrize("body, text", {
    "T.wait_wgmma(-1)": "a constant from 0 to 7, not -1",
    "T.wait_wgmma(n)": "a constant from 0 to 7",
    "T.set_max_nreg(28, 1)": "a constant from 24 to 256 that 8 divides, not 28",
    "T.set_max_nreg(n, 1)": "a constant from 24 to 256 that 8 divides",
}.items())  # fmt: skip
def test_what_is_part_of_the_instruction(tmp_path, body, text):
    assert text in str(failure(tmp_path, body))


@pytest.mark.parametrize("threads, why", [
    (96, "wgmma_gemm: the threads [0, 96) are not whole warpgroups of 128: T.gemm computes this by an"),
    (128, "a is not in shared memory (T.alloc_shared): T.gemm computes"),
])  # fmt: skip
def test_what_wgmma_cannot_do(threads, why):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=threads):
            a, c = T.alloc_fragment((64, 64), "float16"), T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.wgmma_gemm(a, a, c)
            T.wait_wgmma(0)
            T.copy(c, C)

    with pytest.raises(tilelang.CompileError) as error:
        tilelang.compile(main, target=SIM)
    assert why in str(error.value)
    with pytest.raises(tilelang.CompileError) as error:
        tilelang.compile(main, target="sim:sm_90")
    assert "T.wait_wgmma is not an instruction of sm_90, only of sm_90a: T.gemm uses" in str(error.value)


@pytest.mark.parametrize("dtype, shape, columns, options, why", [
    ("float8_e4m3fn", (64, 64), 0, {}, "b has k along its columns, but elements of 8 bits are multiplied "
     "along rows of k (store it as (N, K), with transpose_B=True)"),
    ("float8_e4m3fn", (64, 64), 0, {"transpose_A": True, "transpose_B": True}, "(store it as (M, K), without "
     "transpose_A)"),
    ("float16", (64, 68), 0, {}, "b has rows of 136 bytes, which is no multiple of 16"),
    ("float16", (64, 128), 4, {}, "b begins where no pattern of 32 bytes does (its first row must be a "
     "multiple of 8, its first column one of 16)"),
    ("float16", (64, 128), 8, {"transpose_B": True}, "its first column one of 16)"),
])  # fmt: skip
def test_tiles_that_wgmma_cannot_read(dtype, shape, columns, options, why):
    """What is in the way, and what would mend it; there it compiles."""

    def multiply(dtype, shape, columns, options):
        @T.prim_func
        def main(C: T.Tensor((64, 64), "float32")):
            with T.Kernel(1, threads=128):
                a, b = T.alloc_shared((64, 64), dtype), T.alloc_shared(shape, dtype)
                c = T.alloc_fragment((64, 64), "float32")
                T.clear(a)
                T.clear(b)
                T.wgmma_gemm(a, b[:, columns : columns + 64], c, clear_accum=True, **options)
                T.wait_wgmma(0)
                T.copy(c, C)

        return tilelang.compile(main, target=SIM)

    with pytest.raises(tilelang.CompileError, match="wgmma_gemm: ") as error:
        multiply(dtype, shape, columns, options)
    assert why in str(error.value)
    if dtype == "float16":
        multiply(dtype, (64, 128), 16, options)
    else:
        multiply(dtype, shape, columns, {"transpose_B": True})


@pytest.mark.parametrize(
    "target, chip", [("sim:sm_80", "sm_80"), ("cuda -arch=sm_100", "sm_100"), ("cpu", "the CPU")]
)
def test_chips_without_wgmma(target, chip):
    @T.prim_func
    def main(C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, c = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float32")
            T.clear(a)
            T.wgmma_gemm(a, a, c)

    says = (
        f"wgmma_gemm: {chip} has no wgmma, only sm_90a has: T.gemm computes this by an instruction that fits"
    )
    with pytest.raises(tilelang.CompileError, match=says):
        tilelang.compile(main, target=target)
