"""What kernels can be written out as, and what they use."""

import ctypes

import numpy as np
import pytest
import tilelang
import tilelang.language as T


def scale():
    M = T.dynamic("M")

    @T.prim_func
    def main(A: T.Tensor((M, 8), "float32"), B: T.Tensor((M, 8), "float32"), s: T.float32):
        with T.Kernel(T.ceildiv(M, 4), threads=32) as bx:
            for i, j in T.Parallel(4, 8):
                B[bx * 4 + i, j] = A[bx * 4 + i, j] * s

    return main


def cuda():
    try:
        return tilelang.compile(scale(), target="cuda -arch=sm_80")
    except RuntimeError as e:
        assert "nvrtc" in str(e)
        pytest.skip("NVRTC is not installed")


def test_sources(tmp_path, capsys):
    kernel = tilelang.compile(scale(), target="cpu")
    kernel.export_sources(tmp_path / "k.ll", tmp_path / "host.txt")
    assert (tmp_path / "k.ll").read_text() == kernel.get_kernel_source()
    host = (tmp_path / "host.txt").read_text()
    assert host == kernel.get_host_source() == kernel.host_source
    assert f"call main on {kernel.target}\n" in host
    assert "  tensor A: f32[M, 8] strides(8, 1)\n  tensor B: f32[M, 8] strides(8, 1) written\n" in host
    assert "  number s: f32\n" in host and "(A, B, s, M) grid((M + 3) // 4) threads(1, 1, 1)" in host
    assert kernel.get_kernel_source(kernel_only=False) == f"{host}\n{kernel.kernel_source}"
    kernel.show_source("both")
    assert capsys.readouterr().out == kernel.get_kernel_source(kernel_only=False) + "\n"
    with pytest.raises(ValueError, match="give kernel_path"):
        kernel.export_sources()


def test_the_text_of_the_host_has_tensor_maps():
    import gemm_warpgroups

    program = gemm_warpgroups.gemm.get_tir(256, 256, 128, True, blocks=2)
    text = tilelang.compile(program, target="sim:sm_90a").host_source
    assert "  map A_128x64: of A, box (128, 64) swizzle 128 fetch 256\n" in text
    assert "  map C_64x64: of C, box (64, 64) swizzle 128\n" in text
    assert "  launch main_kernel(A, B, C, A_128x64, B_256x64, C_64x64) grid(2) threads(384, 1, 1)" in text


def test_a_shared_library_of_the_cpu_runs(tmp_path):
    kernel = tilelang.compile(scale(), target="cpu")
    path = tmp_path / "k.so"
    try:
        kernel.export_library(path)
    except RuntimeError as e:
        pytest.skip(str(e))
    name = next(line for line in kernel.host_source.splitlines() if "launch" in line).split()[1].split("(")[0]
    entry = ctypes.CDLL(str(path))[name]
    a, b = np.arange(56, dtype=np.float32).reshape(7, 8), np.full((7, 8), np.nan, np.float32)
    scalar = int(np.float32(3).view(np.uint32))
    slots = (ctypes.c_uint64 * 4)(a.ctypes.data, b.ctypes.data, scalar, 7)
    arena = ctypes.create_string_buffer(1 << 16)
    place = (ctypes.addressof(arena) + 4095) // 4096 * 4096
    for block in range(2):
        entry(slots, ctypes.c_int64(block), ctypes.c_int64(0), ctypes.c_int64(0), ctypes.c_void_p(place))
    assert (b == a * 3).all()
    kernel.export_library(tmp_path / "k.o")
    assert (tmp_path / "k.o").read_bytes()[:4] == b"\x7fELF"


def test_machine_code_of_cuda(tmp_path, monkeypatch):
    kernel = cuda()
    kernel.export_ptx(tmp_path / "k.ptx")
    text = (tmp_path / "k.ptx").read_text()
    assert ".target sm_80" in text and ".entry" in text and text.rstrip().endswith("}")
    kernel.export_library(tmp_path / "k.cubin")
    assert (tmp_path / "k.cubin").read_bytes()[:4] == b"\x7fELF"
    with pytest.raises(RuntimeError, match="name the file .cubin"):
        kernel.export_library(tmp_path / "k.so")
    assert 0 < kernel.n_regs < 256 and kernel.n_spills == 0
    (row,) = kernel.resource_usage
    assert row["registers"] == kernel.n_regs and row["threads"] == 32
    monkeypatch.setattr("shutil.which", lambda *a, **k: None)
    with pytest.raises(RuntimeError, match="install the CUDA toolkit"):
        kernel.show_sass()


def test_what_other_targets_do_not_have(target, tmp_path):
    kernel = tilelang.compile(scale(), target=target)
    if not target.startswith("sim"):  # which runs CUDA's program
        with pytest.raises(RuntimeError, match="only CUDA kernels have PTX"):
            kernel.show_ptx()
    with pytest.raises(RuntimeError, match="has no SASS"):
        kernel.export_sass(tmp_path / "k.sass")
    if target != "cpu":
        with pytest.raises(RuntimeError, match="not compiled to a binary"):
            kernel.export_library(tmp_path / "k.o")
    assert kernel.n_regs is None and kernel.n_spills is None


def test_small_things():
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i] = A[i] + 1

    kernel = tilelang.compile(main, out_idx=1, target="cpu")
    a = np.ones(8, np.float32)
    assert (kernel.torch_function(a) == 2).all() and kernel.adapter is kernel
    assert kernel.artifact.kernel_source == kernel.kernel_source
    assert kernel.artifact.rt_mod[:4] == b"\x7fELF" and kernel.artifact.params == kernel.params
    assert kernel.run_once().shape == (8,)
