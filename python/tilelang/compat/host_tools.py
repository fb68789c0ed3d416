"""Compilers of the host and of AMD's GPUs under their published names: those that the machine has are run."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..front.errors import TilelangWarning
from .nvcc import parse_compute_version

DEFAULT_ROCM_PATH = "/opt/rocm"


def _find(names: Sequence[str], what: str, *folders: str) -> str:
    path = os.pathsep.join([*folders, os.environ.get("PATH", "")])
    for name in names:
        found = name and shutil.which(name, path=path)
        if found:
            return found
    raise RuntimeError(f"no {what} here: looked for {', '.join(filter(None, names))}")


def _run(command: list[str], cwd: str | None = None, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, **env} if env else None,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def get_cc() -> str:
    """The path of the C compiler: $CC, cc, gcc or clang."""
    return _find([os.environ.get("CC", ""), "cc", "gcc", "clang"], "C compiler")


def get_cplus_compiler() -> str:
    """The path of the C++ compiler: $CXX, c++, g++ or clang++."""
    return _find([os.environ.get("CXX", ""), "c++", "g++", "clang++"], "C++ compiler")


def is_darwin() -> bool:
    """Whether this is macOS."""
    return sys.platform == "darwin"


def get_target_by_dump_machine(compiler: str) -> str:
    """What machine a compiler compiles for: "x86_64-linux-gnu"."""
    return _run([compiler, "-dumpmachine"]).strip()


def create_shared(
    output: str,
    objects: Any,
    options: Sequence[str] | None = None,
    cc: str | None = None,
    cwd: str | None = None,
    ccache_env: dict[str, str] | None = None,
) -> None:
    """Link a shared library of objects or sources."""
    create_executable(output, objects, ["-shared", "-fPIC", *(options or ())], cc, cwd, ccache_env)


def create_executable(
    output: str,
    objects: Any,
    options: Sequence[str] | None = None,
    cc: str | None = None,
    cwd: str | None = None,
    ccache_env: dict[str, str] | None = None,
) -> None:
    """Link a program of objects or sources; ccache_env: variables for ccache, in front of the compiler."""
    files = [objects] if isinstance(objects, (str, os.PathLike)) else list(objects)
    ccache = [_find(["ccache"], "ccache")] if ccache_env is not None else []
    command = [*ccache, cc or get_cplus_compiler(), "-o", str(output), *map(str, files), *(options or ())]
    _run(command, cwd, ccache_env)


def create_staticlib(output: str, inputs: Any, ar: str | None = None) -> None:
    """Make a static library of objects."""
    files = [inputs] if isinstance(inputs, (str, os.PathLike)) else list(inputs)
    _run([ar or _find([os.environ.get("AR", ""), "ar"], "archiver"), "qcs", str(output), *map(str, files)])


def find_rocm_path() -> str:
    """The folder of ROCm, by ROCM_PATH, ROCM_HOME or hipcc; RuntimeError without one."""
    hipcc = shutil.which("hipcc")
    beside = str(Path(hipcc).resolve().parent.parent) if hipcc else None
    for folder in (os.environ.get("ROCM_PATH"), os.environ.get("ROCM_HOME"), beside, DEFAULT_ROCM_PATH):
        if folder and os.path.isdir(folder):
            return folder
    raise RuntimeError("no ROCm here: set ROCM_PATH")


def find_hipcc() -> str:
    """The path of hipcc; RuntimeError without one."""
    return _find(["hipcc"], "hipcc", os.path.join(os.environ.get("ROCM_PATH", DEFAULT_ROCM_PATH), "bin"))


def find_lld(required: bool = True) -> list[str]:
    """The paths of LLVM's linkers; RuntimeError without one that is required."""
    folder = os.path.join(os.environ.get("ROCM_PATH", DEFAULT_ROCM_PATH), "llvm", "bin")
    try:
        return [_find(["ld.lld", "lld"], "linker of LLVM", folder)]
    except RuntimeError:
        if required:
            raise
        return []


def rocm_link(in_file: str, out_file: str, lld: str | None = None) -> None:
    """Link an object for an AMD GPU."""
    _run([lld or find_lld()[0], "-shared", str(in_file), "-o", str(out_file)])


def have_matrixcore(compute_version: str | None = None) -> bool:
    """Whether an AMD chip of that version has matrix cores, from 9.0 on; without one, whether one is here:
    False, as there is no target for them."""
    return compute_version is not None and parse_compute_version(compute_version) >= (9, 0)


def compile_hip(
    code: str,
    target_format: str = "hsaco",
    arch: str | None = None,
    options: Any = None,
    path_target: str | None = None,
    verbose: bool = False,
) -> bytearray:
    """Compile HIP by hipcc for an AMD chip (arch, "gfx942"); the result is also written to path_target."""
    if target_format != "hsaco":
        raise ValueError(f"compile_hip: target_format is hsaco, not {target_format!r}")
    more = [options] if isinstance(options, str) else list(options or ())
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder, "kernel.cpp"), Path(path_target or Path(folder, "kernel.hsaco"))
        source.write_text(code, encoding="utf-8")
        chip = [f"--offload-arch={arch}"] if arch else []
        said = _run([find_hipcc(), "--genco", "-O3", *chip, *more, "-o", str(result), str(source)])
        if verbose:
            print(said)
        return bytearray(result.read_bytes())


def find_lib_path(name: str, py_ext: bool = False) -> str:
    """The path of the compiler's library, the module tilelang._core; RuntimeError for another name."""
    from .. import _core

    if name.removeprefix("lib").partition(".")[0] not in ("tilelang", "tilelang_module", "_core"):
        raise RuntimeError(f"there is no library {name}: the compiler is {_core.__file__}")
    return str(_core.__file__)


def deprecated_warning(method_name: str, new_method_name: str, phaseout_version: str | None = None) -> None:
    """Warn that a name is an old one."""
    until = f" and goes with version {phaseout_version}" if phaseout_version else ""
    warnings.warn(f"{method_name} is an old name of {new_method_name}{until}", TilelangWarning, stacklevel=3)


def deprecated(method_name: str, new_method_name: str, phaseout_version: str | None = None) -> Any:
    """A decorator: calls of the function warn that its name is an old one."""

    def decorate(func: Any) -> Any:
        @functools.wraps(func)
        def call(*args: Any, **kwargs: Any) -> Any:
            deprecated_warning(method_name, new_method_name, phaseout_version)
            return func(*args, **kwargs)

        return call

    return decorate


def build_date(version_str: str | None = None) -> str | None:
    """The date in a version, "20250131" of "0.1.0+d20250131"; None where it has none."""
    found = re.search(r"20\d{6}", version_str or "")
    return found[0] if found else None
