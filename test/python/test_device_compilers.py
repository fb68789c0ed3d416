"""What a device compiler refuses: flags, text of the user's; an installation of which a part is missing;
entries of the disk cache that are not what their names say.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tilelang
import tilelang.language as T

CUDA = "cuda -arch=sm_80"


def add(number):
    @T.prim_func
    def main(A: T.Tensor((32,), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                B[i] = A[i] + number

    return main


def refused(program, target, **options):
    """The CompileError of this compilation."""
    with pytest.raises(tilelang.CompileError) as caught:
        tilelang.compile(program, target=target, **options)
    return caught.value


@pytest.mark.parametrize("flags, named", [
    (["--no-such-flag"], "--no-such-flag"),
    (["-DUNUSED=1", "--ptxas-options=--nosuch", "-lineinfo"], "--ptxas-options=--nosuch"),
    ("-maxrregcount 32 --bad", "--bad"),
    (["-maxrregcount=many"], "-maxrregcount=many"),
])  # fmt: skip
def test_a_flag_that_nvrtc_refuses(flags, named):
    error = refused(add(1.0), CUDA, compile_flags=flags)
    assert "NVRTC" in error.text and f"refuses the flag '{named}'" in error.text
    assert "compile_flags" in error.text and "test_device_compilers.py:" in str(error)


TAKEN = ["-Xptxas=-v", "--ptxas-options", "-v,-O2", "-Xptxas", "--warn-on-spills", "-lineinfo",
         "-maxrregcount", "32", "--std", "c++17", "-D", "X=1", "-DY", "--use_fast_math", "-w"]  # fmt: skip


@pytest.mark.parametrize("flags, idle", [
    (["-O3"], ["-O3"]),
    ("-O3 -Xcompiler -fPIC", ["-O3", "-Xcompiler -fPIC"]),
    ("-arch=sm_80 -gencode arch=compute_80", ["-arch=sm_80", "-gencode arch=compute_80"]),
    (TAKEN, []),
])  # fmt: skip
@pytest.mark.parametrize("target", [CUDA, "cpu"])
def test_flags_as_nvcc_takes_them(target, flags, idle, caplog):
    with caplog.at_level("DEBUG", logger="tilelang"):
        kernel = tilelang.compile(add(1.0), target=target, compile_flags=flags)
    for flag in idle:
        assert f"{flag} changes nothing" in caplog.text and f"{flag} changes nothing" in str(kernel.explain())
    assert target != CUDA or caplog.text.count("changes nothing") == len(idle)


@pytest.mark.parametrize("flag, says", [
    ("-arch=sm_90", "the kernel is compiled for sm_80"),
    ("-dlto", "nothing is linked to it"),
    ("-rdc=true", "nothing is linked to it"),
])  # fmt: skip
def test_flags_with_which_nothing_could_be_loaded(flag, says):
    error = refused(add(1.0), CUDA, compile_flags=["-lineinfo", flag])
    assert f"refuses the flag '{flag}'" in error.text and says in error.text


def test_foreign_text_needs_no_flags_for_lambdas_and_constexpr():
    source = """
        constexpr int two() { return 2; }
        __device__ int four() { auto twice = [=](int x) { return two() * x; }; return twice(2); }
    """

    @T.prim_func
    def main(A: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32, prelude=source):
            A[T.get_thread_binding()] = T.call_extern("int32", "four")

    kernel = tilelang.compile(
        main, target=CUDA, compile_flags="--expt-relaxed-constexpr --expt-extended-lambda"
    )
    assert kernel.n_regs > 0  # as the device compiler says of the kernel that it has made


def annotated(flags):
    @T.prim_func
    def main(A: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            T.annotate_compile_flags(flags)
            A[T.get_thread_binding()] = 1.0

    return main


def test_flags_of_the_kernel_itself():
    tilelang.compile(annotated("-O3"), target=CUDA)
    error = refused(annotated("-O3 --bad"), CUDA)
    assert "refuses the flag '--bad'" in error.text and "T.annotate_compile_flags" in error.text


def test_a_flag_that_spoils_our_text():
    error = refused(add(1.0), CUDA, compile_flags=["-lineinfo", "-Dfloat=nothing"])
    assert "refuses the flag '-Dfloat=nothing'" in error.text


@pytest.mark.parametrize("flag", ["--no-such-flag", "-passes=nosuch", "-mattr=avx2", "-mattr=+avx2,"])
def test_a_flag_that_llvm_refuses(flag):
    error = refused(add(1.0), "cpu", compile_flags=[flag])
    assert "LLVM" in error.text and f"refuses the flag '{flag}'" in error.text


def test_flags_that_llvm_takes():
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    configs = {"tl.ptxas_register_usage_level": 5, "tl.enable_fast_math": True}
    flags = ["-passes=default<O2>"]
    tilelang.compile(add(3.0), target="cpu", compile_flags=flags, pass_configs=configs)(x, y)
    assert np.array_equal(y, x + 3)


def foreign(kind):
    @T.prim_func
    def main(A: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32, prelude="int broken(;" if kind == "prelude" else None):
            if kind == "source":
                T.import_source("__device__ float twice(float x) { return nothing * x; }")
            for i in T.Parallel(32):
                A[i] = A[i] + 1
            if kind == "call":
                T.call_extern("void", "no_such_function", A[0])
            if kind == "ptx":
                T.ptx("no.such.instruction {0};", A[0])

    return main


@pytest.mark.parametrize("kind, says, line", [
    ("prelude", "the text of T.import_source or prelude=", "T.Kernel"),
    ("source", "nothing", "T.Kernel"),
    ("call", "the external function `no_such_function`", "T.call_extern"),
    ("ptx", "the PTX `no.such.instruction {0};`", "T.ptx"),
])  # fmt: skip
def test_foreign_text_that_does_not_compile(kind, says, line):
    error = refused(foreign(kind), CUDA)
    assert "NVRTC" in error.text and "text of yours" in error.text and says in error.text
    assert "error" in error.text  # the compiler's own words
    assert line in str(error)


def test_nvrtc_without_its_builtins(tmp_path):
    found = [p for folder in sys.path for p in Path(folder).glob("nvidia/*/lib/libnvrtc.so.*")]
    if not found:
        pytest.skip("NVRTC is not installed by pip")
    folder = tmp_path / "nvidia" / "cuda_nvrtc" / "lib"
    folder.mkdir(parents=True)
    (folder / found[0].name).symlink_to(found[0])
    script = tmp_path / "kernel.py"
    shutil.copy(__file__, tmp_path / "cases.py")
    script.write_text(f"import cases, tilelang\ntilelang.compile(cases.add(1.0), target={CUDA!r})\n")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    env = {**os.environ, "PYTHONPATH": path, "TILELANG_DISABLE_CACHE": "1", "LD_LIBRARY_PATH": ""}
    run = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True)
    assert "libnvrtc-builtins" in run.stderr and "pip install nvidia-cuda-nvrtc" in run.stderr
    assert "internal error" not in run.stderr


def test_an_entry_under_the_name_of_another_kernel(monkeypatch, tmp_path):
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tilelang.env, "_cache_enabled", True)
    tilelang.compile(add(1.0), target="cpu")
    (first,) = tmp_path.glob("*.tlc")
    tilelang.compile(add(2.0), target="cpu")
    (second,) = set(tmp_path.glob("*.tlc")) - {first}
    shutil.copy(first, second)
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    for from_cache in (False, True):  # made again, and written again
        kernel = tilelang.compile(add(2.0), target="cpu")
        kernel(x, y)
        assert kernel.from_cache == from_cache and np.array_equal(y, x + 2)
