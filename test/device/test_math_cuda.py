"""Scalar functions, IEEE operations, pairs, prints, assertions and random numbers on a GPU, against NumPy
and the simulator."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

import tilelang  # noqa: E402
import tilelang.language as T  # noqa: E402


def unary(n, dtype, fn, out=None):
    out = out or dtype

    @T.prim_func
    def main(A: T.Tensor((n,), dtype), B: T.Tensor((n,), out)):
        with T.Kernel(T.ceildiv(n, 256), threads=128) as bx:
            for i in T.Parallel(256):
                if bx * 256 + i < n:
                    B[bx * 256 + i] = fn(A[bx * 256 + i])

    return main


def binary(n, dtype, fn):
    @T.prim_func
    def main(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, 256), threads=128) as bx:
            for i in T.Parallel(256):
                if bx * 256 + i < n:
                    C[bx * 256 + i] = fn(A[bx * 256 + i], B[bx * 256 + i])

    return main


def run(prim, *arrays, out, pass_configs=None):
    result = torch.from_numpy(np.zeros_like(out)).cuda()
    tensors = [torch.from_numpy(a).cuda() for a in arrays]
    tilelang.compile(prim, target="cuda", pass_configs=pass_configs)(*tensors, result)
    return result.cpu().numpy()


RANGES = {
    "log1p": (-0.9, 50, np.log1p), "expm1": (-5, 10, np.expm1), "exp10": (-4, 4, lambda x: 10.0**x),
    "tan": (-1.5, 1.5, np.tan), "atan": (-50, 50, np.arctan), "asin": (-1, 1, np.arcsin),
    "acos": (-1, 1, np.arccos), "sinh": (-10, 10, np.sinh), "cosh": (-10, 10, np.cosh),
    "asinh": (-100, 100, np.arcsinh), "acosh": (1, 100, np.arccosh), "atanh": (-0.99, 0.99, np.arctanh),
    "round": (-9, 9, np.rint), "exp": (-50, 50, np.exp), "log": (0.1, 50, np.log), "erf": None,
}  # fmt: skip


@pytest.mark.parametrize("name", [n for n, row in RANGES.items() if row])
@pytest.mark.parametrize("dtype, tolerance", [("float32", 2e-6), ("float64", 1e-13), ("float16", 1e-3)])
def test_functions(name, dtype, tolerance):
    low, high, exact = RANGES[name]
    if dtype == "float16" and name in ("exp",):
        low, high = -8, 8
    a = np.random.default_rng(1).uniform(low, high, 3000).astype(dtype)
    got = run(unary(3000, dtype, getattr(T, name)), a, out=a).astype(np.float64)
    want = exact(a.astype(np.float64))
    assert np.max(np.abs(got - want) / np.maximum(np.abs(want), 1e-3)) <= tolerance


@pytest.mark.parametrize("name, exact", [
    ("__exp", np.exp), ("__log", np.log), ("__log2", np.log2), ("__log10", np.log10), ("__sin", np.sin),
    ("__cos", np.cos), ("fast_rcp", np.reciprocal)])  # fmt: skip
def test_fast_forms(name, exact):
    a = np.random.default_rng(2).uniform(0.2, 3, 3000).astype(np.float32)
    got = run(unary(3000, "float32", getattr(T, name)), a, out=a)
    assert np.allclose(got, exact(a.astype(np.float64)), rtol=1e-4, atol=1e-5)


def same(prim, *arrays, out):
    """The GPU gives what the simulator gives, bit for bit."""
    simulated = np.zeros_like(out)
    tilelang.compile(prim, target="sim:sm_80")(*arrays, simulated)
    got = run(prim, *arrays, out=out)
    width = f"u{out.dtype.itemsize}"
    nan = np.isnan(out.astype(np.float64)) if out.dtype.kind == "f" else False
    assert np.array_equal(np.where(nan, 0, got.view(width)), np.where(nan, 0, simulated.view(width)))


@pytest.mark.parametrize("mode", ["rn", "rz", "ru", "rd"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ieee(dtype, mode):
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((2, 4096)) * np.exp2(rng.integers(-60, 60, (2, 4096)))).astype(dtype)
    b[:64] = -a[:64]
    for fn in (T.ieee_add, T.ieee_sub, T.ieee_mul, T.ieee_fdiv):
        same(binary(4096, dtype, lambda x, y, fn=fn: fn(x, y, mode)), a, b, out=a)
    same(binary(4096, dtype, lambda x, y: T.ieee_fmaf(x, y, x, mode)), a, b, out=a)
    same(unary(4096, dtype, lambda x: T.ieee_frcp(x, mode)), a, out=a)
    same(unary(4096, dtype, lambda x: T.ieee_fsqrt(x, mode)), np.abs(a), out=a)
    if mode == "rn" and dtype == "float32":
        same(unary(4096, dtype, T.ieee_frsqrt), np.abs(a), out=a)


def test_bits():
    a = np.random.default_rng(4).integers(-(2**31), 2**31, 4096).astype(np.int32)
    same(unary(4096, "int32", T.popcount), a, out=a)
    same(unary(4096, "int32", T.clz), a, out=a)
    same(unary(4096, "int32", lambda x: T.clz(T.cast(x, "int8"))), a, out=a)
    f = a[(a & 0x7F800000) != 0x7F800000][:4000]
    same(unary(4000, "int32", lambda x: T.reinterpret(x, "float32"), "float32"), f, out=f.view(np.float32))


@pytest.mark.parametrize("fn", [T.add2, T.sub2, T.mul2, T.max2, T.min2])
def test_pairs(fn):
    n = 1024

    @T.prim_func
    def main(A: T.Tensor((n,), "float16"), B: T.Tensor((n,), "float16"), C: T.Tensor((n,), "float16")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(512):
                C[2 * i : 2 * i + 2] = fn(A[2 * i : 2 * i + 2], B[2 * i : 2 * i + 2])

    a, b = np.random.default_rng(5).standard_normal((2, 1024)).astype(np.float16)
    same(main, a, b, out=a)


@pytest.mark.parametrize("seed, seq, off", [(0, 0, 0), (0x299F31D0A4093822, 2**40, 2**34 + 1)])
def test_random(seed, seq, off):
    @T.prim_func
    def main(B: T.Tensor((64, 9), "uint32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                T.rng_init(seed, seq=i + seq, off=off)
                for j in T.serial(9):
                    B[i, j] = T.rng_rand()

    got = torch.zeros((64, 9), dtype=torch.uint32, device="cuda")
    tilelang.compile(main, target="cuda")(got)
    want = np.zeros((64, 9), np.uint32)
    tilelang.compile(main, target="reference")(want)
    assert np.array_equal(got.cpu().numpy(), want)


def test_fast_math():
    a = np.random.default_rng(6).uniform(-5, 5, 2048).astype(np.float32)
    prim = unary(2048, "float32", lambda x: T.exp(x) / (1 + T.exp(x)))
    got = run(prim, a, out=a, pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
    assert np.allclose(got, 1 / (1 + np.exp(-a.astype(np.float64))), rtol=1e-4)


def script(folder, body, line):
    path = folder / "kernel.py"
    path.write_text(
        textwrap.dedent("""
        import torch, tilelang, tilelang.language as T
        @T.prim_func
        def main(A: T.Tensor((4, 20), "float16"), n: T.int32):
            with T.Kernel(2, threads=64) as bx:
        """)
        + textwrap.indent(textwrap.dedent(body), " " * 8)
        + textwrap.dedent("""
        a = (torch.arange(80, device="cuda").reshape(4, 20) / 8).to(torch.float16)
        """)
        + textwrap.dedent(line)
        + "\n"
    )
    return subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=300)


def test_print(tmp_path):
    done = script(
        tmp_path,
        """
        S = T.alloc_fragment((4, 20), "float16")
        T.copy(A, S)
        T.print(S, "tile 100%")
        T.print(n, "value", warp_id=1)
        """,
        'tilelang.compile(main, target="cuda")(a, 7); torch.cuda.synchronize()',
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2 * 8 + 2
    values = " ".join(f"{(3 * 20 + j) / 8:.5g}" for j in range(16, 20))
    for block in (0, 1):
        assert (
            f"tile 100%: block=({block}) thread=(0, 0, 0) buffer=S index=(3, 16:20) dtype=f16 values={values}"
        ) in lines
        assert f"value: block=({block}) thread=(32, 0, 0) dtype=i32 value=7" in lines


def test_assert(tmp_path):
    done = script(
        tmp_path,
        """
        for i in T.Parallel(20):
            assert A[bx, i] < n, "too large"
        """,
        """kernel = tilelang.compile(main, target="cuda")
kernel(a, 100); torch.cuda.synchronize(); print("good")
try:
    kernel(a, 4); torch.cuda.synchronize()
except Exception as error:
    print("stopped:", type(error).__name__)""",
    )
    assert "good" in done.stdout and "stopped:" in done.stdout, done.stdout + done.stderr
    assert "kernel.py:8: assertion failed: too large, in block (1, 0, 0), thread (" in done.stdout
