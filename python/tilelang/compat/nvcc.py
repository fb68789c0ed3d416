"""CUDA's compiler under its published names; what compiles here is NVRTC, as it does for kernels."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import Any

from .. import _core
from ..jit.artifact import disassemble
from ..jit.config import flags_of
from ..jit.env import cuda_home
from ..jit.kernel import resolve_target
from .targets import capability, target_has_async_copy, target_has_bulk_copy, target_is_hopper

_PROBE = "func probe(A: f32[32]):\n  kernel probe grid(b: 1) threads(32):\n    A[0] = 1.0\n"


def get_target_compute_version(target: Any = None) -> str:
    """The compute capability of a CUDA target as text: "9.0" of "cuda -arch=sm_90"; by default this GPU's."""
    return "{}.{}".format(*capability(target))


def parse_compute_version(compute_version: str) -> tuple[int, int]:
    """(9, 0) of "9.0"."""
    major, _, minor = compute_version.partition(".")
    return int(major), int(minor or 0)


def get_target_arch(compute_version: Any) -> str:
    """What -arch=sm_ says for a compute capability, "90a" of "9.0" or (9, 0)."""
    version = compute_version
    major, minor = parse_compute_version(version) if isinstance(version, str) else version
    return f"{major}{minor}" + "a" * (major >= 9)


def compile_cuda(
    code: str,
    target_format: str = "ptx",
    arch: Any = None,
    options: Any = None,
    path_target: str | os.PathLike | None = None,
    verbose: bool = False,
) -> bytearray:
    """Compile CUDA C++ by NVRTC to "ptx" or "cubin", for this GPU or arch ("sm_90"); the result is also
    written to path_target.  options: flags of the compiler."""
    if target_format not in ("ptx", "cubin"):
        raise ValueError(f"compile_cuda: target_format is ptx or cubin, not {target_format!r}")
    chip = str(arch).removeprefix("-arch=") if arch else resolve_target("cuda").rpartition("=")[2]
    made = _core.compile(
        _core.parse(_PROBE),
        f"cuda -arch={chip}",
        {"cache": False, "flags": flags_of(options), "edit_text": lambda language, text: code},
    )
    result = made.ptx().encode() if target_format == "ptx" else made.binary
    if path_target is not None:
        with open(path_target, "wb") as file:
            file.write(result)
    return bytearray(result)


def get_ptx_from_source(code: str, compile_flags: Any = None, verbose: bool = False) -> str:
    """CUDA C++ as PTX, for this GPU."""
    return compile_cuda(code, "ptx", None, compile_flags, verbose=verbose).decode()


def get_sass_from_source(code: str, compile_flags: Any = None, verbose: bool = False) -> str:
    """CUDA C++ as machine code, for this GPU, by the CUDA toolkit's disassembler."""
    return disassemble(bytes(compile_cuda(code, "cubin", None, compile_flags, verbose=verbose)))


def default_compile_options(compile_flags: Any = None) -> list[str]:
    """The flags given, as a list: kernels need no others."""
    return flags_of(compile_flags)


def find_cuda_path() -> str:
    """The folder of the CUDA toolkit; RuntimeError without one."""
    if not cuda_home():
        raise RuntimeError("no CUDA toolkit: set CUDA_HOME (kernels need none, NVRTC compiles them)")
    return cuda_home()


def get_nvcc_compiler() -> str:
    """The path of nvcc; RuntimeError without one."""
    folders = [os.path.join(cuda_home(), "bin"), os.environ.get("PATH", "")]
    found = shutil.which("nvcc", path=os.pathsep.join(folders))
    if found is None:
        raise RuntimeError("no nvcc in CUDA_HOME or PATH (kernels need none, NVRTC compiles them)")
    return found


def get_cuda_version(cuda_path: str | None = None) -> tuple[int, ...]:
    """The version of nvcc, (12, 9); RuntimeError without one."""
    nvcc = os.path.join(cuda_path, "bin", "nvcc") if cuda_path else get_nvcc_compiler()
    said = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(map(int, re.findall(r"release (\d+)\.(\d+)", said)[0]))


def get_cuda_library_dirs(cuda_path: str | None = None) -> list[str]:
    """The folders of the CUDA toolkit's libraries that exist."""
    home = cuda_path or find_cuda_path()
    return [path for name in ("lib64", "lib") if os.path.isdir(path := os.path.join(home, name))]


def have_fp16(compute_version: str) -> bool:
    """Whether a chip of that compute capability computes in float16."""
    return parse_compute_version(compute_version) >= (5, 3)


def have_int8(compute_version: str) -> bool:
    """Whether a chip of that compute capability has dot products of int8."""
    return parse_compute_version(compute_version) >= (6, 1)


def have_tensorcore(compute_version: str | None = None, target: Any = None) -> bool:
    """Whether a chip has tensor cores."""
    return parse_compute_version(compute_version or get_target_compute_version(target)) >= (7, 0)


def have_cudagraph() -> bool:
    """Whether the driver can replay graphs: where there is a GPU."""
    return resolve_target("auto").startswith("cuda")


have_tma = have_pdl = target_has_bulk_copy
have_mbarrier = target_has_async_copy
is_hopper = target_is_hopper
