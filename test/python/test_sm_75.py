"""Chips before sm_80: what they lack of 16-bit floats is computed by the prelude, and runs here as ordinary
C++, one thread after the other; products that they lack are multiply-adds, and a report says so."""

import ctypes
import re
import subprocess

import ml_dtypes
import numpy as np
import pytest
import tilelang
import tilelang.language as T

CUDA, SIM = "cuda -arch=sm_75", "sim:sm_75"
COUNT = 4096
SHIM = """
#include <cfenv>
#include <cmath>
#include <cstring>
#define __CUDA_ARCH__ 750
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_assume(fact) ((fact) ? void() : __builtin_trap())
#define __fadd_rn(x, y) ((x) + (y))
#define __fsub_rn(x, y) ((x) - (y))
#define __fmul_rn(x, y) ((x) * (y))
#define fmaxf(x, y) ((x) != (x) ? (y) : (y) != (y) ? (x) : std::fmax(x, y))
#define fminf(x, y) ((x) != (x) ? (y) : (y) != (y) ? (x) : std::fmin(x, y))
static struct { unsigned x, y, z; } blockIdx, threadIdx;
struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
template <class To, class From> To same(From from) { To to; std::memcpy(&to, &from, sizeof to); return to; }
static int __float_as_int(float x) { return same<int>(x); }
static unsigned __float_as_uint(float x) { return same<unsigned>(x); }
static float __int_as_float(int x) { return same<float>(x); }
static float __uint_as_float(unsigned x) { return same<float>(x); }
static long long __double_as_longlong(double x) { return same<long long>(x); }
static double __longlong_as_double(long long x) { return same<double>(x); }
#define apart __attribute__((noinline))  // or the compiler moves a sum out of its mode
template <class F> apart static auto rounded(int mode, F f) {
  std::fesetround(mode);
  volatile auto value = f();  // before the mode changes back
  std::fesetround(FE_TONEAREST);
  return value;
}
apart static double sum(volatile double x, volatile double y) { return x + y; }
static double __dadd_rz(double x, double y) { return rounded(FE_TOWARDZERO, [&] { return sum(x, y); }); }
static double __dadd_ru(double x, double y) { return rounded(FE_UPWARD, [&] { return sum(x, y); }); }
static double __dadd_rd(double x, double y) { return rounded(FE_DOWNWARD, [&] { return sum(x, y); }); }
template <class X> static float toward_zero(volatile X x) {
  return rounded(FE_TOWARDZERO, [&] { return float(x); });
}
#define __double2float_rz toward_zero<double>
#define __ll2float_rz toward_zero<long long>
#define __ull2float_rz toward_zero<unsigned long long>
namespace text {
"""
HERE = (  # instructions that sm_75 has, and this processor in its way; others end the test
    (r'asm\("cvt\.rn\.f16\.f32[^;]*;[^;]*;', "bits = same<u16>(_Float16(x));"),
    (r'asm\("cvt\.f32\.f16[^;]*;[^;]*;', "x = float(same<_Float16>(bits));"),
    (r'asm\("bfe\.[su]32[^;]*;[^;]*;', "low = T(a);"),
    (r'asm(?: volatile)?\((?:[^"()]|"[^"]*"|\([^()]*\))*\);', "__builtin_trap();"),
)


def run_here(kernel, folder, threads, *arrays):
    source = tilelang.compile(kernel, target=CUDA).get_kernel_source()
    for asm, ours in HERE:
        source = re.sub(asm, ours, source)
    name, parameters = re.search(
        r"(\w+)\(([^()]*)\) \{\s*$", source.split('extern "C" __global__')[1], re.M
    ).groups()
    kinds = [re.sub(r"__restrict__ \w+$", "", p).strip() for p in parameters.split(",")]
    passed = ", ".join(f"({kind})p[{i}]" for i, kind in enumerate(kinds))
    call = f"""
}}
extern "C" void run(void** p) {{
  using namespace text;
  for (threadIdx.x = 0; threadIdx.x < {threads}; threadIdx.x++) {name}({passed});
}}
"""
    (folder / "text.cpp").write_text(SHIM + source + call)
    command = [
        "c++",
        "-std=c++17",
        "-O1",
        "-w",
        "-frounding-math",
        "-shared",
        "-fPIC",
        "text.cpp",
        "-o",
        "text.so",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert not done.returncode, done.stderr[:2000]
    ctypes.CDLL(str(folder / "text.so")).run(
        (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
    )


def of_bits(kind, count, seed):
    """All kinds of numbers: random bits."""
    kind = np.dtype(kind)
    words = np.random.default_rng(seed).integers(0, 256, count * kind.itemsize, np.uint8)
    return words.view(kind)


def assert_same(a, b):
    """The same bits, but for NaN."""
    nan = np.isnan(a.astype("f8")), np.isnan(b.astype("f8"))
    differ = (nan[0] != nan[1]) | ~nan[1] & (a.view(f"u{a.itemsize}") != b.view(f"u{b.itemsize}"))
    at = np.flatnonzero(differ)[:5]
    assert not at.size, (at, a[at], b[at])


PAIRS = {
    "bfloat16": [T.add2, T.sub2, T.mul2, lambda a, b: T.fma2(a, b, a), T.max2, T.min2],
    "float16": [T.max2, T.min2],  # sm_75 has the others
}


@pytest.mark.parametrize("kind, number", [(kind, i) for kind, all in PAIRS.items() for i in range(len(all))])
def test_pairs(kind, number, tmp_path):
    compute = PAIRS[kind][number]

    @T.prim_func
    def main(A: T.Tensor((COUNT,), kind), B: T.Tensor((COUNT,), kind), C: T.Tensor((COUNT,), kind)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(COUNT // 2):
                C[2 * i : 2 * i + 2] = compute(A[2 * i : 2 * i + 2], B[2 * i : 2 * i + 2])

    dtype = np.dtype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind)
    a, b = of_bits(dtype, COUNT, 1), of_bits(dtype, COUNT, 2)
    for x, seed in ((a, 3), (b, 4)):  # of like size: sums that round
        x[: COUNT // 2] = np.random.default_rng(seed).standard_normal(COUNT // 2).astype(dtype)
    here, simulated = np.zeros(COUNT, dtype), np.zeros(COUNT, dtype)
    run_here(main, tmp_path, 32, a, b, here)
    tilelang.compile(main, target=SIM)(a, b, simulated)
    assert_same(here, simulated)


def cast(source, kind, step):
    @T.prim_func
    def main(A: T.Tensor((COUNT,), source), B: T.Tensor((COUNT * step,), kind)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(COUNT):
                B[i * step] = T.cast(A[i], kind)

    return main


@pytest.mark.parametrize("step", [1, 3], ids=["two at once", "one by one"])
@pytest.mark.parametrize("kind, source", [
    ("bfloat16", "float32"),
    ("bfloat16", "float64"),
    ("bfloat16", "int32"),
    ("bfloat16", "uint64"),
    ("float16", "float32"),  # sm_75 has the others
])  # fmt: skip
def test_casts(kind, source, step, tmp_path):
    to = np.dtype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind)
    a = of_bits(source, COUNT, 5)
    if source.startswith("float"):
        exact = np.arange(COUNT // 2, dtype="u4") * 0x8000 + 0x38000000  # halfway between two, and beside it
        a[: COUNT // 2] = exact.view("f4").astype(source)
    here, simulated = (np.zeros(COUNT * step, to) for _ in range(2))
    run_here(cast(source, kind, step), tmp_path, 32, a, here)
    tilelang.compile(cast(source, kind, step), target=SIM)(a, simulated)
    assert_same(here[::step], simulated[::step])


def product(kind, sums):
    @T.prim_func
    def main(A: T.Tensor((64, 64), kind), B: T.Tensor((64, 64), kind), C: T.Tensor((64, 64), sums)):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), kind), T.alloc_shared((64, 64), kind)
            c = T.alloc_fragment((64, 64), sums)
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c)
            T.copy(c, C)

    return main


@pytest.mark.parametrize("kind, sums, how", [
    ("float16", "float32", "mma.sync: mma_m16n8k8_f16_f32"),
    ("float16", "float16", "mma.sync: mma_m16n8k8_f16_f16"),
    ("float8_e4m3fn", "float32", "mma.sync: mma_m16n8k8_f16_f32"),
    ("int8", "int32", "mma.sync: mma_m8n8k16_s8_s32"),
    ("uint8", "int32", "mma.sync: mma_m8n8k16_u8_s32"),
    ("bfloat16", "float32", "fma (not mma.sync: sm_75 has no instruction for bf16 × bf16 -> f32"),
    ("tfloat32", "float32", "fma (not mma.sync: sm_75 has no instruction for tf32 × tf32 -> f32"),
])  # fmt: skip
def test_products(kind, sums, how):
    """What has no matrix instruction there is a multiply-add, and the report says why."""
    for target in (CUDA, SIM):
        report = tilelang.compile(product(kind, sums), target=target).explain()
        assert how in str(report)
        refused = [note for note in report.notes if note.refusal and "mma.sync" in note.text]
        assert bool(refused) == how.startswith("fma")


def test_what_is_asynchronous_is_not_there():
    rows = {row["name"] for row in tilelang._core.instruction_rows("sm_75")}
    assert not [name for name in rows if name.startswith(("cp_async", "mbarrier", "stmatrix", "fence"))]
    assert "ldmatrix_x4_trans" in rows
