"""What makes CPU kernels quick, checked by what is emitted and by numbers, not by the clock."""

import math

import numpy as np
import pytest
import tilelang
import tilelang.language as T

CHIPS = ["cpu", "cpu -mcpu=haswell", "cpu -mcpu=x86-64"]


def plus_one(M, N, dtype="float32"):
    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(M, threads=1) as bx:
            x = T.alloc_fragment((1, N), dtype)
            T.copy(X[bx, 0], x)
            for i, j in T.Parallel(1, N):
                x[i, j] = x[i, j] + 1
            T.copy(x, Y[bx, 0])

    return main


@pytest.mark.parametrize("target", CHIPS)
@pytest.mark.parametrize("N", [4096, 4101])
def test_large_results_go_past_the_caches(target, N):
    """At any address, with rows that are aligned and rows that are not."""
    M = 1600
    kernel = tilelang.compile(plus_one(M, N), target=target)
    source = kernel.get_kernel_source()
    assert "!nontemporal" in source and "sfence" in source
    x = np.random.default_rng(0).random((M, N), np.float32)
    for shift in (0, 1, 4, 16):
        memory = np.full(M * N + 32, np.nan, np.float32)
        start = -memory.ctypes.data // 4 % 16 + shift  # `shift` floats past a line
        y = memory[start : start + M * N].reshape(M, N)
        kernel(x, y)
        assert np.array_equal(y, x + np.float32(1)), shift
        assert np.isnan(memory[:start]).all() and np.isnan(memory[start + M * N :]).all()


def test_small_results_stay_in_the_caches():
    source = tilelang.compile(plus_one(64, 4096), target="cpu").get_kernel_source()
    assert "nontemporal" not in source


def test_a_result_that_is_read_stays_in_the_caches():
    M, N = 1600, 4096

    @T.prim_func
    def main(X: T.Tensor((M, N), "float32")):
        with T.Kernel(M, threads=1) as bx:
            for j in T.Parallel(N):
                X[bx, j] = X[bx, j] + 1.0

    assert "nontemporal" not in tilelang.compile(main, target="cpu").get_kernel_source()


@pytest.mark.parametrize("name", ["exp", "tanh", "erf"])
def test_dense_ulps(name):
    """Every 2039th of all finite floats, and a fine grid: at most 2 ulp, from vectors alone."""
    bits = np.arange(0, 2**32, 2039, dtype=np.uint64).astype(np.uint32)
    x = bits.view(np.float32)
    x = np.concatenate([x[np.isfinite(x)], np.linspace(-104, 89, 150_001, dtype=np.float32)])
    if name == "erf":
        want = np.array([math.erf(v) for v in x.tolist()])
    else:
        with np.errstate(over="ignore", under="ignore"):
            want = getattr(np, name)(x.astype(np.float64))
    for target in CHIPS:
        check_ulps(name, x, want, target)


def check_ulps(name, x, want, target):
    n, function = len(x), getattr(T, name)

    @T.prim_func
    def main(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 4096), threads=1) as bx:
            for i in T.Parallel(4096):
                Y[bx * 4096 + i] = function(X[bx * 4096 + i])

    kernel = tilelang.compile(main, target=target)
    assert f"@{name}f" not in kernel.get_kernel_source()
    y = np.full_like(x, np.nan)
    kernel(x, y)
    with np.errstate(over="ignore"):
        near = want.astype(np.float32)
    finite = np.isfinite(near)
    assert np.array_equal(y[~finite], near[~finite])
    error = np.abs(y[finite] - want[finite]) / np.spacing(np.abs(near[finite]))
    assert error.max() <= 2, (x[finite][error.argmax()], error.max())


def unpacked(M, N, bits):
    per = 8 // bits

    @T.prim_func
    def main(P: T.Tensor((M, N // per), "uint8"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(M, threads=1) as bx:
            packed = T.alloc_shared((N // per,), "uint8")
            T.copy(P[bx, 0], packed)
            for j in T.Parallel(N):
                value = (packed[j // per] >> T.cast(j % per * bits, "uint8")) & (2**bits - 1)
                Y[bx, j] = T.cast(value, "float32")

    return main


@pytest.mark.parametrize("target", CHIPS)
def test_packed_values_are_read_as_vectors(target):
    """Two 4-bit values of a byte, and four 2-bit ones: a load of whole bytes, each repeated."""
    M, N = 8, 256
    for bits in (4, 2):
        per = 8 // bits
        kernel = tilelang.compile(unpacked(M, N, bits), target=target)
        assert "gather" not in kernel.get_kernel_source()
        p = np.random.default_rng(bits).integers(0, 256, (M, N // per), dtype=np.uint8)
        y = np.full((M, N), np.nan, np.float32)
        kernel(p, y)
        want = (p[:, :, None] >> (np.arange(per) * bits).astype(np.uint8)) & (2**bits - 1)
        assert np.array_equal(y, want.reshape(M, N).astype(np.float32))


def transposed(M, N, K, dtype):
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), C: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=1):
            a = T.alloc_shared((M, K), dtype)
            b = T.alloc_shared((N, K), dtype)
            c = T.alloc_fragment((M, N), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            T.copy(c, C)

    return main


@pytest.mark.parametrize("target", CHIPS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_transposed_b_is_turned_in_registers(dtype, target):
    """Whole vectors of k are read; k and n that do not divide, and a part of a tile, too."""
    if dtype == "bfloat16" and target == "cpu":  # a chip without dot products
        target = "cpu -mcpu=skylake-avx512" if "avx512" in _source() else "cpu -mcpu=haswell"
    for M, N, K in ((32, 64, 64), (20, 50, 37), (7, 33, 100), (5, 16, 16)):
        kernel = tilelang.compile(transposed(M, N, K, dtype), target=target)
        rng = np.random.default_rng(K)
        a, b = (rng.integers(-8, 9, shape).astype(np.float32) for shape in ((M, K), (N, K)))
        c = np.full((M, N), np.nan, np.float32)
        kernel(_as(a, dtype), _as(b, dtype), c)
        assert np.array_equal(c, a @ b.T), (M, N, K)


def _source():
    return tilelang.compile(plus_one(4, 64), target="cpu").get_kernel_source()


def _as(array, dtype):
    if dtype != "bfloat16":
        return array.astype(dtype)
    torch = pytest.importorskip("torch")

    return torch.from_numpy(array).bfloat16()
