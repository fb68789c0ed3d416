"""Testing, profiling, tuning, constructing kernels and drawing layouts, by the published forms."""

import ast
import importlib
import os
import re
import runpy

import numpy as np
import pytest
import tilelang
import tilelang.language as T
import tilelang.testing
from tilelang.profiler import Profiler, do_bench

SIM = "sim:sm_90"  # of the fixture `target`


def adder(N=64, block=32, by=1.0):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block), threads=32) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] + by

    return main


@pytest.fixture
def cpu(monkeypatch):
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "cpu")


def random(n=64):
    return np.random.default_rng(0).standard_normal(n).astype(np.float32)


# ── tilelang.testing ──────────────────────────────────────────────────────────────────────────────────


def test_process_func_takes_a_name_and_keywords(capsys):
    seen = []

    def latency_of(M=1, N=2):
        seen.append((M, N))
        return 1.5

    assert tilelang.testing.process_func(latency_of, "a name", M=7) is None
    assert tilelang.testing.process_func(latency_of, N=9) is None
    assert seen == [(7, 2), (1, 9)]
    with pytest.raises(TypeError):
        tilelang.testing.process_func(latency_of, name="no keyword of process_func")


SUITE = """
import tilelang.testing

def regression_one():
    tilelang.testing.process_func(lambda: 1.25, "first")

def regression_two():
    tilelang.testing.process_func(lambda n: n * 2.0, "second", n=2)

def bench_three():
    tilelang.testing.process_func(lambda: 0.5, "third")

def other():
    raise AssertionError("is no regression function")

if __name__ == "__main__":
    tilelang.testing.regression({arguments})
"""


@pytest.mark.parametrize("arguments,names", [
    ("", ["first", "second"]), ('prefixes=("bench_",)', ["third"]),
    ('("regression_", "bench_")', ["first", "second", "third"]), ("verbose=False", ["first", "second"]),
])  # fmt: skip
def test_regression_runs_the_functions_of_its_module(tmp_path, capsys, arguments, names):
    path = tmp_path / "suite.py"
    path.write_text(SUITE.format(arguments=arguments))
    runpy.run_path(str(path), run_name="__main__")
    said = capsys.readouterr().out
    latencies = {"first": "1.25", "second": "4.0", "third": "0.5"}
    if "verbose=False" not in arguments:
        rows = [line for line in said.splitlines() if re.match(r"\W*(first|second|third)\b", line)]
        assert [re.search("first|second|third", row)[0] for row in rows] == names, said
        assert all(latencies[name] in row for name, row in zip(names, rows, strict=True)), said


def test_a_regression_that_fails_is_told(tmp_path, capsys):
    path = tmp_path / "suite.py"
    path.write_text(SUITE.format(arguments='prefixes=("other",)'))
    with pytest.raises((Exception, SystemExit)):
        runpy.run_path(str(path), run_name="__main__")


def test_markers_by_their_published_parameters():
    testing = tilelang.testing

    def test_it():
        return 3

    marks = [
        testing.requires_cuda(support_required="compile-only")(test_it),
        testing.requires_cuda(test_it),
        testing.requires_rocm(support_required="compile-only")(test_it),
        testing.requires_metal(test_it),
        testing.requires_llvm(support_required="compile-and-run")(test_it),
        testing.requires_cuda_compute_version(major_version=9, minor_version=0, mode="ge")(test_it),
        testing.requires_cuda_compute_version_eq(major_version=9, minor_version=0)(test_it),
        testing.requires_cuda_compute_version_ge(9, 0)(test_it),
        testing.requires_cuda_compute_version_gt(major_version=8)(test_it),
        testing.requires_cuda_compute_version_le(major_version=12, minor_version=0)(test_it),
        testing.requires_cuda_compute_version_lt(10)(test_it),
        testing.requires_package("numpy", "no_such_package_anywhere")(test_it),
        tilelang.tvm.testing.requires_package("numpy")(test_it),
    ]
    assert all(marked() == 3 for marked in marks)
    assert skips(testing.requires_package("numpy", "no_such_package_anywhere"))
    assert not skips(testing.requires_package("numpy", "pytest"))
    assert not skips(tilelang.tvm.testing.requires_package("numpy"))
    assert not skips(testing.requires_llvm())


def skips(marker):
    """Whether a test with this marker is skipped."""

    def test_it():
        pass

    marked = marker(test_it)
    return any(
        mark.name == "skip" or (mark.name == "skipif" and mark.args[0])
        for mark in getattr(marked, "pytestmark", [])
    )


# ── flags and chips ───────────────────────────────────────────────────────────────────────────────────

CUDA = "cuda -arch=sm_90"


FLAGS = [["-O3"], "-O3", ["-O3", "--use_fast_math"], ["-lineinfo", "-Xptxas", "-v"],
         ["--expt-relaxed-constexpr"], ["-std=c++17"]]  # fmt: skip


@pytest.mark.parametrize("flags", FLAGS)
def test_flags_of_nvcc(flags):
    kernel = tilelang.compile(adder(), target=CUDA, compile_flags=flags)
    assert "__global__" in kernel.get_kernel_source()

    @T.prim_func
    def main(A: T.Tensor((64,), "float32")):
        T.annotate_compile_flags(flags)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                A[i] = 1

    assert "__global__" in tilelang.compile(main, target=CUDA).get_kernel_source()


def test_a_flag_that_nobody_takes_is_the_users_error():
    flag = "--no-such-flag-of-anything"
    with pytest.raises(Exception, match=flag) as caught:
        tilelang.compile(adder(), target=CUDA, compile_flags=[flag]).get_kernel_source()
    assert "internal error" not in str(caught.value)


def test_the_chip_with_its_own_instructions():
    kernel = tilelang.compile(adder(), target="cuda -arch=sm_90a")
    assert "__global__" in kernel.get_kernel_source() and "sm_90a" in kernel.target
    kernel = tilelang.compile(adder(), target={"kind": "cuda", "arch": "sm_90a"})
    assert "sm_90a" in kernel.target


KINDS = ["cuda -arch=sm_70", "cuda -arch=sm_75", "cuda -arch=sm_100", "cuda -arch=sm_120", "hip",
         "hip -mcpu=gfx942", "metal", "webgpu", "c", "cutedsl"]  # fmt: skip


@pytest.mark.parametrize("target", KINDS)
def test_a_published_target_that_is_not_here(target):
    """It is known, and refused with what it needs."""
    try:
        assert tilelang.compile(adder(), target=target).get_kernel_source()
    except Exception as error:
        assert "internal error" not in str(error) and target.split("=")[-1].split()[0] in str(error)
        assert re.search(r"AMD|Apple|WGSL|say (cpu|cuda)|there is no chip", str(error)), str(error)


# ── kernels ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_kernel_is_constructed(cpu):
    for out_idx in (-1, [1], [-1]):
        kernel = tilelang.JITKernel(adder(), out_idx=out_idx, execution_backend="cython", target="cpu")
        assert kernel.out_idx == [1] and np.array_equal(kernel(random()), random() + 1)
    kernel = tilelang.JITKernel(func=adder(), target="cpu", verbose=False, pass_configs={},
                                compile_flags=None)  # fmt: skip
    b = np.zeros(64, np.float32)
    kernel(random(), b)
    assert np.array_equal(b, random() + 1)
    from tilelang.jit.kernel import JITKernel

    assert JITKernel is tilelang.JITKernel is importlib.import_module("tilelang.jit").JITKernel


def test_sources_are_printed_and_exported(cpu, tmp_path, capsys):
    kernel = tilelang.compile(adder(), out_idx=[1])
    kernel.print_source_code()
    assert kernel.kernel_source in capsys.readouterr().out
    kernel.print_source_code("kernel", file=str(tmp_path / "kernel.txt"))
    assert kernel.kernel_source in (tmp_path / "kernel.txt").read_text()
    kernel.print_source_code(which="both", file=str(tmp_path / "both.txt"))
    assert kernel.kernel_source in (tmp_path / "both.txt").read_text()
    kernel.export_library(kernel_file=str(tmp_path / "kernel.so"))
    assert os.path.getsize(tmp_path / "kernel.so") > 0
    kernel.export_sources(kernel_path=str(tmp_path / "k.txt"), host_path=str(tmp_path / "h.txt"))
    assert kernel.kernel_source in (tmp_path / "k.txt").read_text()


# ── profiler ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_profiler_is_called(cpu):
    kernel = tilelang.compile(adder(), out_idx=[1])
    profiler = kernel.get_profiler(tensor_supply_type=tilelang.TensorSupplyType.Integer)
    assert np.array_equal(profiler(random()), random() + 1)
    assert np.array_equal(profiler.func(random()), random() + 1)
    made = Profiler(kernel.params, kernel.out_idx, tilelang.TensorSupplyType.One)
    made = made.with_default_adapter(kernel.adapter)
    assert made.result_idx == [1] and made.supply_type == tilelang.TensorSupplyType.One
    assert np.array_equal(made(random()), random() + 1)
    made = Profiler(params=kernel.params, result_idx=[1], supply_type=tilelang.TensorSupplyType.One,
                    adapter=kernel.adapter)  # fmt: skip
    made.assert_allclose(lambda a: a + 1)
    assert made.do_bench(n_warmup=1, n_repeat=2) > 0


@pytest.mark.parametrize("backend", ["event", "cudagraph", "cupti", "wall"])
def test_how_time_is_taken(cpu, backend):
    kernel, a = tilelang.compile(adder(), out_idx=[1]), random()
    assert do_bench(lambda: kernel(a), warmup=1, rep=2, backend=backend) > 0
    from tilelang.profiler.bench import do_bench as same

    assert same(lambda: kernel(a), _n_warmup=1, _n_repeat=2, backend=backend, return_mode="median") > 0
    profiler = kernel.get_profiler()
    assert profiler.do_bench(warmup=1, rep=2, backend=backend, input_tensors=[a]) > 0


def test_what_was_traced_is_added_up():
    """Kernels that overlap count once, flushes not at all, and nothing traced is no time."""
    from tilelang.tools.profiler import _busy, _without

    assert _busy([]) == 0 and _without([], [], 3) == 0
    assert _busy([(0, 10), (1, 11), (20, 30)]) == pytest.approx(0.021)
    calls = [
        ("fill", (0, 50)),
        ("gemm", (50, 60)),
        ("fill", (70, 120)),
        ("gemm", (120, 140)),
        ("add", (139, 150)),
    ]
    assert _without([("fill", (0, 45))], calls, 2) == pytest.approx((0.01 + 0.03) / 2)
    # The call fills, too: then a flush takes as long as the one alone.
    calls = [("fill", (0, 50)), ("fill", (50, 60))]
    assert _without([("fill", (0, 45))], calls, 1) == pytest.approx(0.015)


# ── tuner ─────────────────────────────────────────────────────────────────────────────────────────────

CONFIGS = [{"block": 16}, {"block": 32}]


def tunable(block=64):
    return adder(64, block)


def test_a_tuner_is_constructed_and_called(cpu):
    tuner = tilelang.AutoTuner(fn=tunable, configs=CONFIGS)
    tuner.set_compile_args(out_idx=[1], target="cpu").set_profile_args(warmup=1, rep=1)
    result = tuner()
    assert result.config in CONFIGS and result.latency > 0
    assert np.array_equal(result.kernel(random()), random() + 1)


def test_a_tuner_by_position(cpu):
    tuner = tilelang.AutoTuner.from_kernel(tunable, CONFIGS)
    supply, reference = tilelang.TensorSupplyType.Integer, lambda a: a + 1
    tuner.set_compile_args([1], "cpu", "auto", None, False, {})
    tuner.set_profile_args(1, 1, 30, supply, reference, None, 1e-2, 1e-2, 0.01, False, None, False, "wall")
    result = tuner.run(1, 1, 30, False, False, 2, None)
    assert result.config in CONFIGS and result.ref_latency > 0
    result = tuner.run(warmup=1, rep=1, timeout=30, use_pipeline=True, enable_grouped_compile=True,
                       group_compile_size=2, benchmark_devices=None, benchmark_multi_gpu=False,
                       early_stop=True, early_stop_factor=2.0)  # fmt: skip
    assert result.config in CONFIGS


def test_what_is_compared_while_tuning(cpu):
    tuner = tilelang.AutoTuner.from_kernel(tunable, CONFIGS).set_compile_args(out_idx=[1], target="cpu")
    tuner.set_profile_args(ref_prog=lambda a: a + 2)
    with pytest.raises(Exception, match="(?s)none of the .* works|No .*configuration|fail"):
        tuner.run(warmup=1, rep=1)


# ── modules ───────────────────────────────────────────────────────────────────────────────────────────

PATHS = """
from tilelang.jit import jit, JITKernel, compile, par_compile, JITImpl
from tilelang.profiler.bench import do_bench
from tilelang.layout.layout import Layout
from tilelang.layout.fragment import Fragment
from tilelang.layout.swizzle import make_swizzled_layout, make_wgmma_swizzled_layout
from tilelang.transform import PassConfigKey, get_pass_context, simplify_prim_func
from tilelang.transform.pass_config import PassConfigKey as SameKey
from tilelang.language.dtypes import dtype
from tilelang.dtypes import dtype as same_dtype
from tilelang.carver.arch import CUDA, CDNA, RDNA, CPU
from tilelang.env import env, enable_cache, disable_cache, is_cache_enabled
from tilelang.autotuner.tuner import AutoTuner, autotune
from tilelang.autotuner.capture import set_autotune_inputs
from tilelang.engine.lower import lower
from tilelang.testing.perf_regression import regression, process_func
from tilelang.tools.plot_layout import plot_layout
from tilelang.tools import Analyzer
from tilelang.tileop.base import GemmWarpPolicy
from tilelang.cuda.intrinsics.macro.mma_macro_generator import TensorCoreIntrinEmitter
from tilelang.cuda.intrinsics.layout.mma_layout import make_mma_swizzle_layout
from tilelang import DataType, tvm
from tvm.tirx import Min, Cast, Select, PrimExpr
import tilelang.language.fp8, tilelang.tvm.testing
"""


@pytest.mark.parametrize("line", PATHS.strip().splitlines())
def test_an_import_line(line):
    space = {}
    exec(line, space)
    (statement,) = ast.parse(line).body
    bound = [alias.asname or alias.name.split(".")[0] for alias in statement.names]
    assert all(space[name] is not None for name in bound)


def test_one_thing_under_several_paths():
    space = {}
    exec(PATHS, space)
    assert space["jit"] is tilelang.jit and space["JITKernel"] is tilelang.JITKernel
    assert callable(tilelang.jit) and space["compile"] is tilelang.compile
    assert space["Layout"] is T.Layout and space["Fragment"] is tilelang.Fragment
    assert space["PassConfigKey"] is space["SameKey"] is tilelang.PassConfigKey
    assert space["dtype"] is space["same_dtype"] is T.dtype and space["GemmWarpPolicy"] is T.GemmWarpPolicy
    assert space["env"] is tilelang.env and space["AutoTuner"] is tilelang.AutoTuner
    assert tilelang.transform.PassConfigKey.TL_DISABLE_WARP_SPECIALIZED.value == "tl.disable_warp_specialized"
    assert space["DataType"]("float16").bits == 16
    arch = space["CUDA"]("cuda -arch=sm_90")
    assert not isinstance(arch, space["CDNA"]) and not isinstance(arch, (space["RDNA"], space["CPU"]))


def test_tir_functions_in_a_kernel(target):
    from tilelang.tvm import tirx

    @T.prim_func
    def main(A: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                B[i] = tirx.Min(A[i], tirx.const(7, "int32")) + tirx.Cast("int32", i) + tirx.Max(i, 3)

    a, b = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    tilelang.compile(main, target=target)(a, b)
    assert np.array_equal(b, np.minimum(a, 7) + a + np.maximum(a, 3))


# ── the environment ───────────────────────────────────────────────────────────────────────────────────


def test_the_environment_is_an_object(monkeypatch, tmp_path):
    env = tilelang.env
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "cpu")
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "from_environment"))
    assert env.get_default_target() == "cpu" and env.TILELANG_DEFAULT_TARGET == "cpu"
    assert str(env.TILELANG_CACHE_DIR) == str(tmp_path / "from_environment")
    monkeypatch.setattr(env, "TILELANG_CACHE_DIR", str(tmp_path / "assigned"))
    assert str(tilelang.env.TILELANG_CACHE_DIR) == str(tmp_path / "assigned")
    kernel = tilelang.compile(adder(by=float(os.getpid())), target="cpu")
    assert kernel is not None and (tmp_path / "assigned").exists()
    monkeypatch.setenv("TILELANG_PRINT_ON_COMPILATION", "1")
    assert env.is_print_on_compilation_enabled() is True
    monkeypatch.setenv("TILELANG_PRINT_ON_COMPILATION", "0")
    assert env.is_print_on_compilation_enabled() is False
    assert isinstance(env.is_cache_enabled(), bool) and isinstance(env.get_default_verbose(), bool)
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    assert env.is_cache_globally_disabled() if hasattr(env, "is_cache_globally_disabled") else True


# ── pictures ──────────────────────────────────────────────────────────────────────────────────────────

MATRIX = T.Layout([4, 8], lambda i, j: (j, i))


def test_pictures_by_position(tmp_path):
    from tilelang.tools import plot_layout

    folder = str(tmp_path)
    plot_layout(MATRIX, folder, "one", "Spectral", False, "svg", "input", None)
    plot_layout(MATRIX, save_directory=folder, name="two", colormap="viridis", verbose=True, formats="svg",
                view="output", grid_shape=(2, 16))  # fmt: skip
    plot_layout(T.Fragment([8, 4], lambda i, j: (i, j)), folder, "three", formats=["svg", "txt"])
    assert sorted(os.listdir(folder)) == ["one.svg", "three.svg", "three.txt", "two.svg"]
    one, two = ((tmp_path / f"{name}.svg").read_text() for name in ("one", "two"))
    assert one.startswith("<") and one != two


def test_the_usual_picture_is_a_pdf(tmp_path):
    from tilelang.tools import plot_layout

    try:
        plot_layout(MATRIX, str(tmp_path), "usual")
    except ImportError as error:
        assert "matplotlib" in str(error) and "pdf" in str(error)
    else:
        assert os.listdir(tmp_path) == ["usual.pdf"]


# ── carver ────────────────────────────────────────────────────────────────────────────────────────────


def test_hints_for_a_product():
    from tilelang.carver.arch import CUDA
    from tilelang.carver.template import MatmulTemplate

    arch = CUDA("cuda -arch=sm_90")
    assert arch.smem_cap >= 200 * 1024 and arch.warp_size == 32 and arch.compute_max_core == 132
    template = MatmulTemplate(M=1024, N=1024, K=1024, in_dtype="float16", out_dtype="float16",
                              accum_dtype="float32").with_arch(arch)  # fmt: skip
    assert template.has_arch() and template.arch is arch and template.M == 1024
    assert template.equivalent_function() is not None
    hints = template.recommend_hints(topk=5)
    assert 1 <= len(hints) <= 5
    for hint in hints:
        (m, n), (warp_m, warp_n), step = hint.block, hint.warp, hint.rstep[0]
        assert m % warp_m == 0 == n % warp_n and 1 <= (m // warp_m) * (n // warp_n) <= 32
        assert (m + n) * step * 2 * max(1, hint.pipeline_stage) <= arch.smem_cap
        assert hint.to_dict()["block"] == [m, n] and hint.rasterization_plan is not None
        assert type(hint).from_dict(hint.to_dict()).to_dict() == hint.to_dict()
    configs = template.get_hardware_aware_configs(arch, topk=2)
    assert len(configs) <= 2 and configs[0].block == hints[0].block
