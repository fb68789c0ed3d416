"""HIP text for AMD's GPUs: compiled by clang where it is installed, and, where a kernel's threads need no one
else, run here as the ordinary C++ that it is."""

import ctypes
import math
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from tilelang import _core

HIP = "hip -mcpu=gfx942"


def links(name):
    """Whether there is such a clang, and its linker where it looks for it."""
    path = shutil.which(name)
    return path and (Path(path).resolve().with_name("lld").exists() or shutil.which("lld"))


CLANG = next(filter(links, ("clang-22", "clang-21", "clang-20", "clang-19")), None)
needs_clang = pytest.mark.skipif(CLANG is None, reason="needs clang, from 19 on, and lld")


@T.prim_func
def copy(A: T.Tensor((100, 128), "float16"), B: T.Tensor((100, 128), "float16")):
    with T.Kernel(4, 13, threads=128) as (bx, by):
        tile = T.alloc_shared((8, 32), "float16")
        T.copy(A[by * 8, bx * 32], tile)
        T.copy(tile, B[by * 8, bx * 32])


@T.prim_func
def multiply(
    A: T.Tensor((100, 70), "float32"), B: T.Tensor((70, 130), "float32"), C: T.Tensor((100, 130), "float32")
):
    with T.Kernel(3, 2, threads=128) as (bx, by):
        a, b = T.alloc_shared((64, 16), "float32"), T.alloc_shared((16, 48), "float32")
        c = T.alloc_fragment((64, 48), "float32")
        T.clear(c)
        for k in T.Pipelined(5, num_stages=2):
            T.copy(A[by * 64, k * 16], a)
            T.copy(B[k * 16, bx * 48], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * 64, bx * 48])


@T.prim_func
def softmax(X: T.Tensor((32, 500), "float16"), Y: T.Tensor((32, 500), "float16")):
    with T.Kernel(8, threads=256) as bx:
        x = T.alloc_fragment((4, 500), "float32")
        top, total = T.alloc_fragment((4,), "float32"), T.alloc_fragment((4,), "float32")
        T.copy(X[bx * 4, 0], x)
        T.reduce_max(x, top, dim=1)
        for i, j in T.Parallel(4, 500):
            x[i, j] = T.exp(x[i, j] - top[i])
        T.reduce_sum(x, total, dim=1)
        for i, j in T.Parallel(4, 500):
            x[i, j] = x[i, j] / total[i]
        T.copy(x, Y[bx * 4, 0])


@T.prim_func
def exchange(X: T.Tensor((128,), "int32"), Y: T.Tensor((128,), "int32")):
    with T.Kernel(1, threads=128):
        tx = T.get_thread_binding()
        Y[tx] = T.shfl_xor(X[tx], 1) + 3 * T.shfl_down(X[tx], 2)


@T.prim_func
def histogram(X: T.Tensor((1000,), "int32"), Y: T.Tensor((16,), "int32"), Z: T.Tensor((1,), "float16")):
    with T.Kernel(4, threads=128) as bx:
        for i in T.Parallel(250):
            T.atomic_add(Y[X[bx * 250 + i]], 1)
            T.atomic_max(Z[0], T.cast(X[bx * 250 + i], "float16"))


@T.prim_func
def vote(X: T.Tensor((128,), "float32"), Y: T.Tensor((2, 128), "int32"), Z: T.Tensor((4, 128), "uint64")):
    with T.Kernel(1, threads=128):
        tx = T.get_thread_binding()
        Y[0, tx] = T.any_sync(X[tx] > 1)
        Y[1, tx] = T.all_sync(X[tx] > 1)
        Z[0, tx] = T.ballot_sync(X[tx] > 1, dtype="uint64")
        Z[1, tx] = T.match_any_sync(X[tx], dtype="uint64")
        Z[2, tx] = T.match_all_sync(T.cast(X[tx], "int64"), dtype="uint64")
        Z[3, tx] = T.activemask("uint64")


KERNELS = [copy, multiply, softmax, exchange, histogram, vote]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
@needs_clang
def test_clang_takes_the_text(kernel):
    compiled = tilelang.compile(kernel, target=HIP)
    assert compiled._kernel.binary[:4] == b"\x7fELF"
    (row,) = compiled._kernel.resources
    assert row["registers"] > 0 and row["spill_stores"] == 0


# ── atomic updates ────────────────────────────────────────────────────────────────────────────────────────
def instructions(kernel, folder):
    """The words of the machine's text that begin instructions."""
    (folder / "text.hip").write_text(tilelang.compile(kernel, target=HIP).get_kernel_source())
    options = ["--cuda-device-only", "--offload-arch=gfx942", "-nogpulib", "-nogpuinc", "-std=c++20", "-O3"]
    done = subprocess.run([CLANG, "-x", "hip", *options, "-S", "text.hip", "-o", "-"],
                          cwd=folder, capture_output=True, text=True)  # fmt: skip
    assert not done.returncode, done.stderr[:2000]
    return [line.split()[0] for line in done.stdout.splitlines() if line[:1] == "\t" and line.strip()]


def updates(function, dtype, count, scope):
    """Of `count` elements by 64 threads, where they lie."""

    @T.prim_func
    def main(A: T.Tensor((count,), dtype), B: T.Tensor((count,), dtype)):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((count,), dtype)
            T.copy(A, S)
            for i in T.Parallel(count):
                if scope == "global":
                    function(A[i], B[i])
                else:
                    function(S[i], B[i])
            T.copy(S, B)

    return main


TYPES = ["float16", "bfloat16", "float32", "float64", "int32", "uint32", "int64", "uint64"]
ROWS = [row for row in _core.instruction_rows("gfx942") if row["group"] == "atomic"]


@pytest.mark.parametrize("scope", ["global", "shared"])
@pytest.mark.parametrize("name", ["atomic_add", "atomic_max", "atomic_min", "atomic_or"])
@needs_clang
def test_what_the_chip_updates_itself_is_in_the_table(name, scope, tmp_path):
    for dtype in TYPES[4:] if name == "atomic_or" else TYPES:
        if CLANG == "clang-19" and (dtype, scope) == ("float64", "global") and name != "atomic_add":
            continue  # clang 20 and newer use the chip's instruction
        of_type = [r for r in ROWS if (r["function"], r["dtype"].name) == (name, T.dtype(dtype).name)]
        lanes = max((r["lanes"] for r in of_type if r["only"] in ("", scope)), default=0)
        words = instructions(updates(getattr(T, name), dtype, 64 * max(lanes, 1), scope), tmp_path)
        own = [w for w in words if w.startswith(("global_atomic", "flat_atomic", "ds_"))]
        own = [w for w in own if not w.startswith(("ds_read", "ds_write"))]
        swaps = [w for w in own if "cmp" in w]
        assert bool(swaps) == (lanes == 0), (dtype, own)
        assert len(own) == 1 or swaps, (dtype, own)
        assert ("pk_add" in own[0]) == (lanes == 2), (dtype, own)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int64"])
@needs_clang
def test_loads_stores_and_old_values(dtype, tmp_path):
    @T.prim_func
    def main(A: T.Tensor((64,), dtype), B: T.Tensor((64,), dtype)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                x = T.atomic_load(A[i], memory_order="acquire")
                T.atomic_store(B[i], x, memory_order="release")
            for i in T.Parallel(64):
                A[i] = T.atomic_max(B[i], A[i], return_prev=True, memory_order="acq_rel")

    words = instructions(main, tmp_path)
    assert not any(w.startswith("s_swappc") for w in words)  # nothing is a call of a library


@pytest.mark.parametrize("order", ["relaxed", "acquire", "release", "acq_rel", "seq_cst"])
@needs_clang
def test_pairs_obey_their_order(order, tmp_path):
    @T.prim_func
    def main(A: T.Tensor((128,), "bfloat16"), B: T.Tensor((128,), "bfloat16")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(128):
                A[i] = T.cast(1.0, "bfloat16")
            for i in T.Parallel(128):
                T.atomic_add(B[i], A[i], memory_order=order)

    words = instructions(main, tmp_path)
    assert ("global_atomic_pk_add_bf16" in words) == (order in ("relaxed", "release"))
    if order in ("relaxed", "release"):  # else single elements, by compare and swap with that order
        at = words.index("global_atomic_pk_add_bf16")
        assert ("buffer_wbl2" in words[:at]) == (order == "release")
    else:
        assert "buffer_inv" in words


def test_the_text_needs_no_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    source = tilelang.compile(multiply, target=HIP).get_kernel_source()
    assert "tl_shared[" in source and "asm" not in source


def test_a_call_says_what_runs_it():
    compiled = tilelang.compile(exchange, target=HIP)
    x, y = np.arange(128, dtype=np.int32), np.zeros(128, np.int32)
    with pytest.raises(RuntimeError, match="no driver for AMD's GPUs: run it with target='sim:gfx942'"):
        compiled(x, y)


@pytest.mark.parametrize("target", ["hip", "rocm"])
def test_a_bare_target_asks_for_a_chip(target):
    with pytest.raises(tilelang.CompileError, match="target='hip -mcpu=CHIP' with CHIP one of gfx942"):
        tilelang.compile(copy, target=target)


def test_a_clang_without_its_linker_is_none(tmp_path, monkeypatch):
    path = tmp_path / "clang-22"
    path.write_text("#!/bin/sh\nexit 1\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    compiled = tilelang.compile(copy, target=HIP)
    assert compiled.get_kernel_source() and not compiled._kernel.binary and not compiled.report.toolchain


@needs_clang
def test_what_clang_refuses_is_the_users_text():
    @T.prim_func
    def foreign(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            T.import_source("__device__ float f(float x) { return y; }")
            A[T.get_thread_binding()] = T.call_pure_extern("float32", "f", A[0])

    with pytest.raises(tilelang.CompileError, match="undeclared identifier 'y'"):
        tilelang.compile(foreign, target=HIP)


@needs_clang
def test_printing_needs_the_device_library():
    @T.prim_func
    def speak(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            T.print(A[0])

    with pytest.raises(RuntimeError, match="T.print.*ROCm's device library.*sim:gfx942"):
        tilelang.compile(speak, target=HIP)


@needs_clang
def test_flags_are_clangs():
    compiled = tilelang.compile(copy, target=HIP, compile_flags=["-O1", "--maxrregcount=64"])
    assert "--maxrregcount=64 changes nothing: it is for nvcc" in str(compiled.explain())
    with pytest.raises(tilelang.CompileError, match="-fno-such-thing"):
        tilelang.compile(copy, target=HIP, compile_flags=["-fno-such-thing"])


# ── what AMD's GPUs have no text for ──────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("statement, why", [
    ("T.ptx('bar.warp.sync -1;')", "PTX is for NVIDIA"),
    ("A[0] = T.cast(T.ballot_sync(A[0] > 0), 'float32')", "has 64; ask for 64: dtype='uint64'"),
    ("T.sync_threads(1, 64)", "one barrier for each block"),
    ("A[0] = T.syncthreads_count(A[0] > 0)", "no barrier that counts"),
    ("A[0] = T.ieee_add(A[0], A[1], 'rz')", "directed rounding"),
    ("A[0] = T.cast(T.sin(T.cast(A[0], 'float64')), 'float32')", "take float32"),
])  # fmt: skip
def test_refused_at_its_line(statement, why, tmp_path):
    text = f"""
import tilelang.language as T
@T.prim_func
def main(A: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        {statement}
"""
    file = tmp_path / "kernel.py"
    file.write_text(text)
    space = {"__name__": "kernel", "__file__": str(file)}
    exec(compile(text, str(file), "exec"), space)
    with pytest.raises(tilelang.CompileError, match=why) as caught:
        tilelang.compile(space["main"], target=HIP)
    assert "kernel.py:6" in str(caught.value)


def test_the_chip():
    info = _core.target_info(HIP)
    assert (info["name"], info["language"], info["warp"], info["shared_bytes"]) == (
        "gfx942",
        "hip",
        64,
        65536,
    )
    assert _core.chips("hip") == ["gfx942"]
    assert _core.target_info("rocm -mcpu=gfx942") == info


# ── scalar functions, in C++ of the host ──────────────────────────────────────────────────────────────────
SHIM = """
#include <cmath>
#define __builtin_bit_cast(T, x) (tl_same_bits<T>(x))
#undef isnan
#undef isinf
#undef isfinite
template <class T, class F> static inline T tl_same_bits(F f) {
  T t; static_assert(sizeof t == sizeof f); __builtin_memcpy(&t, &f, sizeof t); return t; }
static unsigned at[6];
#define __builtin_amdgcn_workitem_id_x() at[0]
#define __builtin_amdgcn_workitem_id_y() at[1]
#define __builtin_amdgcn_workitem_id_z() at[2]
#define __builtin_amdgcn_workgroup_id_x() at[3]
#define __builtin_amdgcn_workgroup_id_y() at[4]
#define __builtin_amdgcn_workgroup_id_z() at[5]
#define __builtin_amdgcn_fence(order, scope)
#define __builtin_amdgcn_s_barrier()
#define __builtin_amdgcn_mbcnt_hi(mask, sum) 0
#define __builtin_amdgcn_mbcnt_lo(mask, sum) 0
#define __builtin_amdgcn_rcpf(x) (1.0f / (x))
#define __builtin_amdgcn_exp2f std::exp2
#define __builtin_amdgcn_logf std::log2
#define __builtin_amdgcn_fractf(x) ((x) - std::floor(x))
#define __builtin_amdgcn_sinf(turns) std::sin(float((turns) * 6.283185307179586))
#define __builtin_amdgcn_cosf(turns) std::cos(float((turns) * 6.283185307179586))
namespace text {
"""
COUNT = 4096


def run_here(kernel, folder, *arrays):
    """The kernel's text, its threads one after the other: none may wait for another."""
    source = tilelang.compile(kernel, target=HIP).get_kernel_source()
    name = source.split("__attribute__((amdgpu_flat_work_group_size")[1].split("\n")[1].split("(")[0]
    pointers = ", ".join(f"({'double' if a.itemsize == 8 else 'float'}*)p[{i}]" for i, a in enumerate(arrays))
    call = f"""
}}
extern "C" void run(void** p) {{
  for (at[3] = 0; at[3] < {COUNT // 128}; at[3]++)
    for (at[0] = 0; at[0] < 128; at[0]++) text::{name}({pointers});
}}
"""
    (folder / "text.cpp").write_text(SHIM + source + call)
    command = ["c++", "-std=c++20", "-O1", "-w", "-mfma", "-shared", "-fPIC", "text.cpp", "-o", "text.so"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert not done.returncode, done.stderr[:2000]
    ctypes.CDLL(str(folder / "text.so")).run(
        (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
    )


def apply(function, dtype, arity):
    @T.prim_func
    def main(X: T.Tensor((COUNT,), dtype), Y: T.Tensor((COUNT,), dtype), Z: T.Tensor((COUNT,), dtype)):
        with T.Kernel(COUNT // 128, threads=128) as bx:
            for i in T.Parallel(128):
                if arity == 1:
                    Z[bx * 128 + i] = function(X[bx * 128 + i])
                else:
                    Z[bx * 128 + i] = function(X[bx * 128 + i], Y[bx * 128 + i])

    return main


def numbers(dtype, seed):
    """Small ones, those of all magnitudes, and the special ones."""
    rng = np.random.default_rng(seed)
    small = rng.uniform(-4, 4, COUNT // 2)
    wide = rng.uniform(-1, 1, COUNT // 2) * 2.0 ** rng.integers(-120, 120, COUNT // 2)
    x = np.concatenate([small, wide]).astype(dtype)
    x[:8] = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40 if dtype == "float32" else 1e-310]
    return x


ONE = ["sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
       "expm1", "log1p", "erf", "rsqrt"]  # fmt: skip


def exact(name, *values):
    """By Python's functions of float64, with IEEE's values where those raise."""
    special = {"rsqrt": lambda x: 1 / math.sqrt(x) if x else math.copysign(math.inf, x),
               "pow": lambda x, y: float(np.power(np.float64(x), np.float64(y)))}  # fmt: skip
    function = special.get(name) or getattr(math, name)
    if name in ("atanh", "log1p"):
        function = lambda x: float(getattr(np, {"atanh": "arctanh"}.get(name, name))(np.float64(x)))
    out = []
    for point in zip(*(v.tolist() for v in values), strict=True):
        try:
            out.append(function(*point))
        except OverflowError:
            out.append(math.inf if name == "cosh" or point[0] > 0 else -math.inf)
        except ValueError:
            out.append(math.nan)
    return np.array(out)


@pytest.mark.parametrize("name", [*ONE, "atan2", "hypot", "pow"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_functions_of_float32_are_right_to_a_unit_of_the_last_place(name, tmp_path):
    x, y = numbers("float32", 1), numbers("float32", 2)
    arity = 1 if name in ONE else 2
    if name == "pow":
        y[COUNT // 4 : COUNT // 2] = np.rint(y[COUNT // 4 : COUNT // 2])
    got = np.zeros(COUNT, np.float32)
    run_here(apply(getattr(T, name), "float32", arity), tmp_path, *(x, y)[:arity], got)
    wanted = exact(name, *(x, y)[:arity])
    with np.errstate(over="ignore"):
        rounded = wanted.astype(np.float32)
    usual = np.isfinite(rounded) & np.isfinite(got)
    assert np.array_equal(got[~usual], rounded[~usual], equal_nan=True)
    units = np.abs(got[usual].astype(np.float64) - wanted[usual]) / np.spacing(np.abs(rounded[usual]))
    assert units.max() < 0.6


@pytest.mark.parametrize("name", ["exp", "exp2", "exp10", "log", "log2", "log10"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_powers_and_logarithms_of_float64(name, tmp_path):
    x = numbers("float64", 3)
    got = np.zeros(COUNT)
    run_here(apply(getattr(T, name), "float64", 1), tmp_path, x, got)
    function = (lambda v: np.power(10.0, v)) if name == "exp10" else getattr(np, name)
    wanted = function(x)
    usual = np.isfinite(wanted) & np.isfinite(got)
    assert np.array_equal(got[~usual], wanted[~usual], equal_nan=True)
    assert (np.abs(got[usual] - wanted[usual]) / np.spacing(np.abs(wanted[usual]))).max() < 4
