"""What published programs import from tilelang.contrib, utils, transform, libinfo, cache and the targets."""

import os
import shutil
import subprocess

import pytest
import tilelang
import tilelang.language as T
from tilelang.contrib import cc, nvcc, rocm
from tilelang.cuda import target as cuda
from tilelang.metal.target import check_metal_availability, target_is_metal
from tilelang.rocm import target as amd
from tilelang.utils.target import check_cuda_availability, determine_target, target_is_cuda

H100, A100, RTX = "cuda -arch=sm_90a", {"kind": "cuda", "arch": "sm_80"}, "cuda -arch=sm_120"


def test_questions_about_cuda_chips():
    for target in (H100, A100, RTX, "sim:sm_90", "cuda", tilelang.tvm.target.Target("cuda -arch=sm_89")):
        assert target_is_cuda(target) and cuda.target_is_cuda(target)
    assert not target_is_cuda("cpu") and not target_is_cuda("hip")
    asks = {
        "target_is_volta": "cuda -arch=sm_70", "target_is_turing": "cuda -arch=sm_75",
        "target_is_ampere": A100,        "target_is_hopper": H100, "target_is_sm120": RTX,
    }  # fmt: skip
    for name, target in asks.items():
        assert getattr(cuda, name).__doc__
        assert [other for other in asks if getattr(cuda, other)(target)] == [name]
        assert not getattr(cuda, name)("cpu")
    assert cuda.target_has_async_copy(A100) and not cuda.target_has_bulk_copy(A100)
    assert (
        cuda.target_has_bulk_copy(H100) and cuda.target_has_ldmatrix(A100) and cuda.target_has_stmatrix(H100)
    )
    assert not cuda.target_has_stmatrix(H100, is_m16n8=True) and not cuda.target_has_stmatrix(A100)
    assert (
        cuda.normalize_cuda_target(A100) == "cuda -arch=sm_80" and cuda.normalize_cuda_target("cpu") is None
    )


def test_questions_about_other_chips():
    mi300, mi350, radeon = "hip -mcpu=gfx942:sramecc+", {"kind": "hip", "mcpu": "gfx950"}, "hip -mcpu=gfx1100"
    assert [amd.target_is_gfx950(t) for t in (mi300, mi350, radeon, H100)] == [False, True, False, False]
    assert [amd.target_is_cdna(t) for t in (mi300, mi350, radeon, H100)] == [True, True, False, False]
    assert [amd.target_is_rdna(t) for t in (mi300, mi350, radeon, H100)] == [False, False, True, False]
    assert amd.target_get_rdna_generation(radeon) == 3 and amd.target_get_mcpu(mi350) == "gfx950"
    assert [amd.target_get_warp_size(t) for t in (mi300, radeon, H100)] == [64, 32, 32]
    assert (
        amd.normalize_rocm_arch("gfx942:sramecc+") == "gfx942" and amd.rocm_warp_size_for_arch("gfx90a") == 64
    )
    assert amd.target_is_hip("hip") and not amd.check_hip_availability() and "amdgcn" in amd.ROCM_MTRIPLE
    assert target_is_metal("metal") and not target_is_metal("cuda") and not check_metal_availability()


def test_targets_of_tvm():
    from tilelang.jit.config import own_target

    text = "cuda -keys=cuda,gpu -arch=sm_90 -max_num_threads=1024 -thread_warp_size=32"
    assert own_target(text) == own_target('{"kind": "cuda", "tag": "", "keys": ["gpu"], "arch": "sm_90"}')
    assert (
        own_target({"kind": "cuda", "arch": "sm_90", "host": None}) == "cuda -arch=sm_90" == own_target(text)
    )
    assert determine_target("cuda -arch=sm_80") == "cuda -arch=sm_80" and determine_target(
        text
    ) == own_target(text)
    assert determine_target("auto") == tilelang.resolve_target("auto")
    assert determine_target(H100, return_object=True).arch == "sm_90a"
    written = tilelang.tvm.target.Target(text)
    assert written.arch == "sm_90" and written.attrs["max_num_threads"] == "1024"
    assert tilelang.tvm.target.Target(written).attrs == written.attrs
    assert tilelang.tvm.target.Target({"kind": "c", "mcpu": "haswell"}).attrs == {"mcpu": "haswell"}
    llvm = tilelang.tvm.target.Target("llvm -keys=cpu -num-cores 8")
    assert tilelang.resolve_target(llvm) == tilelang.resolve_target("cpu")
    assert check_cuda_availability() == tilelang.resolve_target("auto").startswith("cuda")


KERNEL = 'extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= FACTOR; }'


def test_compiling_cuda(tmp_path):
    from tilelang.contrib import compile_cuda

    ptx = compile_cuda(KERNEL, "ptx", "sm_80", ["-DFACTOR=2"], tmp_path / "twice.ptx")
    assert b".entry twice" in ptx and b"sm_80" in ptx and b"probe" not in ptx
    assert (tmp_path / "twice.ptx").read_bytes() == ptx
    assert nvcc.compile_cuda(KERNEL, target_format="cubin", arch="sm_90a", options="-DFACTOR=3").startswith(
        b"\x7fELF"
    )
    with pytest.raises(tilelang.CompileError, match="FACTOR"):
        compile_cuda(KERNEL, arch="sm_90")
    with pytest.raises(ValueError, match="ptx or cubin, not 'fatbin'"):
        compile_cuda(KERNEL, "fatbin")


def test_questions_about_cuda(monkeypatch, tmp_path):
    assert nvcc.get_target_compute_version(H100) == "9.0" and nvcc.parse_compute_version("8.9") == (8, 9)
    assert (
        nvcc.get_target_arch("9.0") == nvcc.get_target_arch((9, 0)) == "90a"
        and nvcc.get_target_arch("8.0") == "80"
    )
    assert nvcc.have_tma(H100) and nvcc.have_pdl(H100) and nvcc.is_hopper(H100) and not nvcc.have_tma(A100)
    assert nvcc.have_mbarrier(A100) and nvcc.have_fp16("8.0") and nvcc.have_int8("8.0")
    assert (
        nvcc.have_tensorcore("7.5") and nvcc.have_tensorcore(target=A100) and not nvcc.have_tensorcore("6.1")
    )
    assert nvcc.have_cudagraph() == check_cuda_availability() and nvcc.default_compile_options("-a -b") == [
        "-a",
        "-b",
    ]
    with pytest.raises(ValueError, match="cpu is not a CUDA target"):
        nvcc.get_target_compute_version("cpu")
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib64").mkdir()
    (tmp_path / "bin" / "nvcc").write_text("#!/bin/sh\necho Cuda compilation tools, release 12.9, V12.9.86\n")
    (tmp_path / "bin" / "nvcc").chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert nvcc.find_cuda_path() == str(tmp_path) and nvcc.get_cuda_version() == (12, 9)
    assert nvcc.get_nvcc_compiler() == str(tmp_path / "bin" / "nvcc")
    assert nvcc.get_cuda_library_dirs() == [str(tmp_path / "lib64")] and isinstance(nvcc.CUDA_HOME, str)
    assert str(tmp_path) == tilelang.env.CUDA_HOME


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
def test_the_compilers_of_the_host(tmp_path):
    (tmp_path / "a.c").write_text(
        "int f(void) { return 3; }\n#ifdef MAIN\nint main(void) { return f(); }\n#endif\n"
    )
    compiler = cc.get_cc()
    assert "-" in cc.get_target_by_dump_machine(compiler) and not cc.is_darwin() and cc.get_cplus_compiler()
    cc.create_shared(str(tmp_path / "a.so"), [str(tmp_path / "a.c")], cc=compiler)
    cc.create_executable(str(tmp_path / "a"), str(tmp_path / "a.c"), ["-DMAIN"], cc=compiler)
    assert subprocess.run([tmp_path / "a"]).returncode == 3 and (tmp_path / "a.so").exists()
    subprocess.run([compiler, "-c", "a.c"], cwd=tmp_path, check=True)
    cc.create_staticlib(str(tmp_path / "a.a"), str(tmp_path / "a.o"))
    assert (tmp_path / "a.a").exists()
    with pytest.raises(RuntimeError, match="failed"):
        cc.create_shared(str(tmp_path / "b.so"), [str(tmp_path / "none.c")])


def test_rocm_is_used_where_it_is(monkeypatch, tmp_path):
    from tilelang.contrib.hipcc import compile_hip

    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    assert rocm.find_rocm_path() == str(tmp_path) and rocm.parse_compute_version("9.4") == (9, 4)
    assert rocm.have_matrixcore("9.4") and not rocm.have_matrixcore() and rocm.find_lld(required=False) == []
    for ask in (
        rocm.find_hipcc,
        rocm.find_lld,
        lambda: compile_hip("", arch="gfx942"),
        lambda: rocm.rocm_link("a", "b"),
    ):
        with pytest.raises(RuntimeError, match="no (hipcc|linker of LLVM) here"):
            ask()
    with pytest.raises(ValueError, match="hsaco, not 'ptx'"):
        compile_hip("", "ptx")


def test_buffers_of_a_kernel():
    from tilelang.utils import language as ask

    seen = []

    def look(A, S, F, x):
        seen.append(
            (
                ask.is_global(A),
                ask.is_shared(S),
                ask.is_shared_dynamic(S),
                ask.is_fragment(F),
                ask.is_local(x),
            )
        )
        seen.append(
            (ask.is_global(S), ask.is_shared(A), ask.is_fragment(S), ask.is_local(F), ask.is_local_var(x))
        )
        assert not ask.is_tensor_memory(S) and not ask.is_shared(S, allow_dynamic=False)
        assert ask.retrieve_shape(S) == [8, 16] and ask.retrieve_shape(A[0:4, 2]) == [4, 1]
        assert ask.retrieve_stride(S) == [16, 1] and ask.retrieve_dtype(A[0:4, 2]) == "float32"
        assert ask.get_buffer_elems(S) == 128 and ask.is_full_region(S) and not ask.is_full_region(A[0:4, 2])
        assert ask.is_full_region(S[0:8, 0:16])

    @T.prim_func
    def main(A: T.Tensor((8, 16), "float32")):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((8, 16), "float16")
            F = T.alloc_fragment((8, 16), "float16")
            x = T.alloc_local((4,), "int32")
            look(A, S, F, x)
            T.copy(A, S)
            T.copy(S, F)

    assert seen == [(True,) * 5, (False,) * 5]
    assert ask.array_reduce([2, 3, 4]) == 24 and ask.bits_product((2, 3), "int4") == 24
    assert ask.prim_expr_equal(3, 3) and not ask.prim_expr_equal(3, 4)
    assert ask.get_prim_func_name(main) == "main" and ask.get_prim_func_name(3, "none") == "none"


def test_devices_and_tensors():
    from tilelang.utils import device, tensor

    torch = pytest.importorskip("torch")
    assert device.get_available_cpu_count() >= 1 and device.device_synchronize() is None
    assert torch.cuda.is_available() == device.IS_CUDA and not device.IS_NPU and not device.IS_MPS
    assert device.get_current_device().type == ("cuda" if device.IS_CUDA else "cpu")
    x = torch.tensor([-0.0, 1.0, -2.0]).to(torch.float8_e4m3fn)
    assert tensor.fp8_remove_negative_zeros_(x) is x and x.view(torch.uint8)[0] == 0 and float(x[2]) == -2.0
    assert (
        tensor.is_float8_dtype(x.dtype)
        and tensor.is_float8_dtype("float8_e5m2")
        and not tensor.is_float8_dtype("int8")
    )


def test_old_names_and_versions():
    from tilelang.utils.deprecated import deprecated, deprecated_warning
    from tilelang.utils.version import build_date

    assert deprecated is tilelang.deprecated and build_date is tilelang.build_date
    with pytest.warns(tilelang.TilelangWarning, match="old is an old name of new and goes with version 9"):
        assert deprecated("old", "new", "9")(lambda x: x + 1)(2) == 3
    with pytest.warns(tilelang.TilelangWarning, match="a is an old name of b"):
        deprecated_warning("a", "b")
    assert build_date("0.1.0+d20250131") == "20250131" and build_date() is None


def test_passes():
    from tilelang import transform
    from tilelang.transform import PassConfigKey, get_pass_context
    from tilelang.transform.pass_config import normalize_pass_configs
    from tilelang.transform.simplify import LetInline, Simplify, apply_simplify

    assert PassConfigKey is tilelang.PassConfigKey and get_pass_context().config == {}
    assert PassConfigKey.TL_DISABLE_WARP_SPECIALIZED.value == "tl.disable_warp_specialized"
    assert normalize_pass_configs({PassConfigKey.TL_SIMPLIFY: 1}) == {"tl.Simplify": 1}
    func = object()
    assert apply_simplify(func) is LetInline()(func) is Simplify()(func) is func
    with pytest.raises(AttributeError, match="there is no such pass here"):
        _ = transform.InventedPass


def test_the_library_and_the_cache():
    from tilelang import cache, libinfo

    assert os.path.exists(libinfo.find_lib_path("tilelang")) and libinfo.TL_LIBS
    assert isinstance(libinfo.get_dll_directories(), list)
    with pytest.raises(RuntimeError, match="there is no library libtvm"):
        libinfo.find_lib_path("libtvm.so")
    assert cache.cached is tilelang.compile and cache.is_cache_enabled() in (True, False)
