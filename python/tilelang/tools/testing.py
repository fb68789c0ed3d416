"""For test files: seeds, markers that skip what a machine cannot run, `main()`; and for files that watch how
fast kernels are: `regression()`."""

from __future__ import annotations

import functools
import importlib.util
import operator
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .. import _core
from ..jit.kernel import resolve_target
from .compare import torch_assert_close

__all__ = ["PerfResult", "ascend_backend_compiled", "main", "process_func", "regression", "requires_ascend",
           "requires_cdna", "requires_cuda", "requires_cuda_compute_version",
           "requires_cuda_compute_version_eq", "requires_cuda_compute_version_ge",
           "requires_cuda_compute_version_gt", "requires_cuda_compute_version_le",
           "requires_cuda_compute_version_lt", "requires_cuda_or_cdna", "requires_gfx", "requires_gfx950",
           "requires_llvm", "requires_metal", "requires_package", "requires_rocm", "set_random_seed",
           "torch_assert_close"]  # fmt: skip


def main() -> None:
    """Run the tests of the file that calls this, by pytest; exits with its status."""
    import pytest

    file = sys._getframe(1).f_globals["__file__"]
    raise SystemExit(pytest.main([file, *sys.argv[1:]]))


def set_random_seed(seed: int = 42) -> None:
    """Seed Python, NumPy and, where it is imported, PyTorch."""
    import random

    import numpy

    random.seed(seed)
    numpy.random.seed(seed)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)


@dataclass
class PerfResult:
    """A latency in milliseconds under its name; case: the regression function that took it."""

    name: str
    latency: float
    case: str | None = None


_results: list[PerfResult] = []
_case: str | None = None  # the regression function that runs


def process_func(func: Callable, name: str | None = None, /, **kwargs: Any) -> None:
    """Call func(**kwargs), which returns a latency in milliseconds, and keep that for regression() under
    `name`: by default the name of the module where func is defined, in a script that of func."""
    _keep(name or _name_of(func), func(**kwargs), func)


def _name_of(func: Callable) -> str:
    module = getattr(func, "__module__", None) or "__main__"
    return getattr(func, "__name__", str(func)) if module == "__main__" else module.rpartition(".")[2]


def _keep(name: str, latency: Any, func: Callable) -> None:
    try:
        milliseconds = float(latency)
    except (TypeError, ValueError):
        milliseconds = 0.0
    if not 0 < milliseconds < float("inf"):
        raise TypeError(
            f"regression: {getattr(func, '__name__', func)} gave {latency!r}; it returns a "
            "latency in milliseconds, as profiler.do_bench() does"
        )
    _results.append(PerfResult(name, milliseconds, _case))


def regression(prefixes: Sequence[str] = ("regression_",), verbose: bool = True) -> list[PerfResult]:
    """Run the functions of the calling module whose names begin with one of `prefixes`, each of which returns
    a latency or gives some to process_func; print them as a table (verbose), and return them.

    RuntimeError, after all have run, if some failed; it says why."""
    global _case
    prefixes = (prefixes,) if isinstance(prefixes, str) else tuple(prefixes)
    found = {
        name: value
        for name, value in sys._getframe(1).f_globals.items()
        if name.startswith(prefixes) and callable(value)
    }
    failures = []
    _results.clear()
    for _case, func in found.items():
        try:
            before = len(_results)
            latency = func()
            if latency is not None or len(_results) == before:
                prefix = next(prefix for prefix in prefixes if _case.startswith(prefix))
                _keep(_case.removeprefix(prefix), latency, func)
        except Exception as error:
            failures.append(f"{_case}: {type(error).__name__}: {error}")
    _case = None
    if verbose:
        wide = max([4, *(len(result.name) for result in _results)])
        print(
            "\n".join(
                [
                    f"{'name':<{wide}}  latency (ms)",
                    *(f"{result.name:<{wide}}  {result.latency:12.4f}" for result in _results),
                ]
            )
        )
    if failures or not found:
        why = "\n  ".join(failures) or f"no function here has a name that begins with {' or '.join(prefixes)}"
        raise RuntimeError(f"regression: {len(failures)} of {len(found)} failed:\n  {why}")
    return list(_results)


@functools.cache
def _machine() -> str:
    try:
        return resolve_target("auto")
    except Exception:
        return "none"


def _chip() -> tuple[int, int] | None:
    """The compute capability of the GPU here, (9, 0); None without one."""
    number = "".join(c for c in _machine().rpartition("sm_")[2] if c.isdigit())
    return (int(number[:-1]), int(number[-1])) if _machine().startswith("cuda") and number else None


@functools.cache
def _compiles(target: str) -> bool:
    """Whether a kernel for that target can be compiled here."""
    text = "func probe(A: f32[32]):\n  kernel main grid(b: 1) threads(32):\n    A[0] = 1.0\n"
    try:
        _core.compile(_core.parse(text), target, {"cache": False})
    except Exception:
        return False
    return True


def _skip(condition: bool, reason: str, func: Callable | None = None) -> Any:
    import pytest

    mark = pytest.mark.skipif(condition, reason=reason)
    return mark if func is None else mark(func)


def _missing(name: str, what: str) -> Callable:
    def requires(func: Callable | None = None, *, support_required: str = "compile-and-run") -> Any:
        return _skip(True, f"needs {what}", func)

    requires.__name__ = requires.__qualname__ = name
    requires.__doc__ = f"Skip: it needs {what}."
    return requires


_AMD = "an AMD GPU, a target that is not in this version yet"
requires_rocm = _missing("requires_rocm", _AMD)
requires_cdna = _missing("requires_cdna", _AMD)
requires_gfx950 = _missing("requires_gfx950", _AMD)
requires_metal = _missing("requires_metal", "an Apple GPU, which is no target here")
requires_ascend = _missing("requires_ascend", "an Ascend NPU, which is no target here")


def ascend_backend_compiled() -> bool:
    """Whether there is a target for Ascend NPUs: False."""
    return False


def requires_gfx(*names: str) -> Callable:
    """Skip: this version has no target for AMD GPUs."""
    return _skip(True, f"needs {', '.join(names)}, a target that is not in this version yet")


def requires_cuda(func: Callable | None = None, *, support_required: str = "compile-and-run") -> Any:
    """Skip where no CUDA device answers; with or without parentheses.

    support_required="compile-only": skip only where CUDA kernels cannot be compiled."""
    if support_required not in ("compile-and-run", "compile-only", "optional"):
        raise ValueError(
            "requires_cuda: support_required is compile-and-run, compile-only or optional, not "
            f"{support_required!r}"
        )
    if support_required == "compile-and-run":
        return _skip(_chip() is None, "needs a CUDA device", func)
    return _skip(
        support_required == "compile-only" and not _compiles("cuda -arch=sm_80"),
        "needs NVRTC, which compiles CUDA kernels",
        func,
    )


def requires_cuda_or_cdna(func: Callable | None = None) -> Any:
    """Skip where no CUDA device answers; there is no target for AMD GPUs."""
    return requires_cuda(func)


def requires_llvm(func: Callable | None = None, *, support_required: str = "compile-and-run") -> Any:
    """Skip where the CPU target finds no libLLVM."""
    return _skip(not _compiles("cpu"), "needs libLLVM", func)


def requires_package(*packages: str) -> Callable:
    """Skip where one of these Python packages is not installed."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return _skip(bool(missing), f"needs the package {', '.join(missing or packages)}")


_WORDS = {"ge": ">=", "gt": ">", "eq": "==", "le": "<=", "lt": "<"}


def requires_cuda_compute_version(major_version: int, minor_version: int = 0, mode: str = "ge") -> Callable:
    """Skip unless the GPU's compute capability is so; mode: "ge", "gt", "eq", "le", "lt"."""
    chip, wanted = _chip(), (major_version, minor_version)
    return _skip(
        chip is None or not getattr(operator, mode)(chip, wanted),
        f"needs a CUDA device of compute capability {_WORDS[mode]} {major_version}.{minor_version}",
    )


def _version(mode: str) -> Callable:
    def requires(major_version: int, minor_version: int = 0) -> Callable:
        return requires_cuda_compute_version(major_version, minor_version, mode)

    requires.__name__ = requires.__qualname__ = f"requires_cuda_compute_version_{mode}"
    requires.__doc__ = f"Skip unless the GPU's compute capability is {_WORDS[mode]} the given one."
    return requires


requires_cuda_compute_version_ge = _version("ge")
requires_cuda_compute_version_gt = _version("gt")
requires_cuda_compute_version_eq = _version("eq")
requires_cuda_compute_version_le = _version("le")
requires_cuda_compute_version_lt = _version("lt")
