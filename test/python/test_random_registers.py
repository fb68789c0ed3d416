"""Random kernels whose threads hold about as many values as they have registers, by NVRTC for each chip.

Each is compiled, and says so where it spills, or is refused in words of the user's; none ends in an internal
error."""

import os
import random
import warnings

import pytest
import tilelang
import tilelang.language as T

CHIPS = ["sm_75", "sm_80", "sm_89", "sm_90a", "sm_120"]
SEEDS = range(40) if os.environ.get("TL_FULL") else (0, 1, 2, 4)


def tiles(draw):
    """A tile in registers that a loop needs all of, beside one in shared memory."""
    threads, dtype = draw.choice([64, 128, 256]), draw.choice(["float32", "int32", "float16"])
    per_thread = draw.randint(200, 280) * (2 if dtype == "float16" else 1)
    rows = draw.choice([16, 32, 64])
    columns = max(8, per_thread * threads // rows // 8 * 8)

    @T.prim_func
    def main(A: T.Tensor((rows, columns), dtype), B: T.Tensor((rows, columns), dtype)):
        with T.Kernel(1, threads=threads):
            x, y = T.alloc_fragment((rows, columns), dtype), T.alloc_fragment((rows,), dtype)
            T.copy(A, x)
            for step in T.serial(9):
                T.reduce_max(x, y, dim=1)
                for i, j in T.Parallel(rows, columns):
                    x[i, j] = x[i, j] * y[i] + step
            T.copy(x, B)

    return main


def arrays(draw):
    """Arrays of a thread's own."""
    threads, one = draw.choice([32, 64, 128]), draw.randint(60, 150)
    two = draw.randint(200, 270) - one

    @T.prim_func
    def main(A: T.Tensor((threads, one + two), "float32"), B: T.Tensor((threads, one), "float32")):
        with T.Kernel(1, threads=threads):
            tx = T.get_thread_binding()
            x, y = T.alloc_local((one,), "float32"), T.alloc_local((two,), "float32")
            for i in T.unroll(one):
                x[i] = A[tx, i]
            for i in T.unroll(two):
                y[i] = A[tx, one + i]
            for step in T.serial(9):
                for i in T.unroll(one):
                    x[i] = x[i] * y[(3 * i) % two] + step
                for i in T.unroll(two):
                    y[i] = y[i] - x[(5 * i) % one]
            for i in T.unroll(one):
                B[tx, i] = x[i]

    return main


def products(draw):
    """Sums of one product or two, which fill the registers."""
    threads, dtype = draw.choice([128, 256]), draw.choice(["float16", "bfloat16", "int8"])
    accum, two = ("int32" if dtype == "int8" else "float32"), draw.random() < 0.5
    m = draw.choice([64, 128, 192])
    n = max(16, draw.randint(150, 260) * threads // m // (32 if two else 16) * 16)
    k = 32

    @T.prim_func
    def main(A: T.Tensor((m, 4 * k), dtype), B: T.Tensor((4 * k, n), dtype), C: T.Tensor((m, n), accum)):
        with T.Kernel(1, threads=threads):
            a, b = T.alloc_shared((m, k), dtype), T.alloc_shared((k, n), dtype)
            c, d = T.alloc_fragment((m, n), accum), T.alloc_fragment((m, n), accum)
            T.clear(c)
            if two:
                T.clear(d)
            for step in T.Pipelined(4, num_stages=2):
                T.copy(A[0, step * k], a)
                T.copy(B[step * k, 0], b)
                T.gemm(a, b, c)
                if two:
                    T.gemm(a, b, d)
            if two:
                for i, j in T.Parallel(m, n):
                    c[i, j] += d[i, j]
            T.copy(c, C)

    return main


@pytest.mark.parametrize("seed", SEEDS)
def test_threads_that_hold_as_much_as_they_can(seed):
    draw = random.Random(seed)
    program = draw.choice([tiles, arrays, products])(draw)
    for chip in CHIPS if os.environ.get("TL_FULL") else draw.sample(CHIPS, 1):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                kernel = tilelang.compile(program, target=f"cuda -arch={chip}")
                rows = kernel.resource_usage
            except tilelang.CompileError as refused:
                assert "internal" not in str(refused) and ".py:" in str(refused), (chip, str(refused))
                continue
            except RuntimeError as missing:
                if "libnvrtc" in str(missing):
                    pytest.skip("NVRTC is not installed")
                raise
        for row in rows:
            assert row["registers"] <= 255
            if max(row["spill_stores"], row["spill_loads"]) > 32:  # fewer bytes are not worth a word
                assert any("spills" in str(w.message) for w in caught), (chip, row)
