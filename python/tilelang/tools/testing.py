"""For test files: seeds, markers that skip what a machine cannot run, `main()`."""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

from ..jit.kernel import resolve_target
from .compare import torch_assert_close
from .profiler import do_bench

__all__ = ["main", "process_func", "requires_cuda", "requires_cuda_compute_version",
           "requires_cuda_compute_version_eq", "requires_cuda_compute_version_ge",
           "requires_cuda_compute_version_gt", "requires_cuda_compute_version_le",
           "requires_cuda_compute_version_lt", "requires_gfx", "requires_llvm", "requires_metal",
           "requires_package", "requires_rocm", "set_random_seed", "torch_assert_close"]  # fmt: skip


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


def _skip(condition: bool, reason: str) -> Callable:
    import pytest

    return pytest.mark.skipif(condition, reason=reason)


def requires_cuda(func: Callable | None = None) -> Any:
    """Skip where no CUDA device answers; with or without parentheses."""
    mark = _skip(_chip() is None, "needs a CUDA device")
    return mark if func is None else mark(func)


def requires_rocm(func: Callable | None = None) -> Any:
    """Skip: this version has no target for AMD GPUs."""
    mark = _skip(True, "needs an AMD GPU, a target that is not in this version yet")
    return mark if func is None else mark(func)


def requires_metal(func: Callable | None = None) -> Any:
    """Skip: there is no target for Apple GPUs."""
    mark = _skip(True, "needs an Apple GPU, which is no target here")
    return mark if func is None else mark(func)


def requires_gfx(*names: str) -> Callable:
    """Skip: this version has no target for AMD GPUs."""
    return _skip(True, f"needs {', '.join(names)}, a target that is not in this version yet")


def requires_llvm(func: Callable | None = None) -> Any:
    """Skip where the CPU target finds no libLLVM."""
    try:
        missing = not resolve_target("cpu")
    except Exception:
        missing = True
    mark = _skip(missing, "needs libLLVM")
    return mark if func is None else mark(func)


def requires_package(name: str) -> Callable:
    """Skip where a Python package is not installed."""
    return _skip(importlib.util.find_spec(name) is None, f"needs the package {name}")


def _version(major: int, minor: int, holds: Callable[[Any, Any], bool], word: str) -> Callable:
    chip = _chip()
    return _skip(chip is None or not holds(chip, (major, minor)),
                 f"needs a CUDA device of compute capability {word} {major}.{minor}")  # fmt: skip


def requires_cuda_compute_version(major: int, minor: int = 0, mode: str = "ge") -> Callable:
    """Skip unless the GPU's compute capability is so; mode: "ge", "gt", "eq", "le", "lt"."""
    rules: dict[str, tuple[Callable, str]] = {
        "ge": (lambda a, b: a >= b, ">="), "gt": (lambda a, b: a > b, ">"), "eq": (lambda a, b: a == b, "=="),
        "le": (lambda a, b: a <= b, "<="), "lt": (lambda a, b: a < b, "<"),
    }  # fmt: skip
    return _version(major, minor, *rules[mode])


def requires_cuda_compute_version_ge(major: int, minor: int = 0) -> Callable:
    """Skip below that compute capability."""
    return requires_cuda_compute_version(major, minor, "ge")


def requires_cuda_compute_version_gt(major: int, minor: int = 0) -> Callable:
    """Skip at and below that compute capability."""
    return requires_cuda_compute_version(major, minor, "gt")


def requires_cuda_compute_version_eq(major: int, minor: int = 0) -> Callable:
    """Skip unless the compute capability is exactly that."""
    return requires_cuda_compute_version(major, minor, "eq")


def requires_cuda_compute_version_le(major: int, minor: int = 0) -> Callable:
    """Skip above that compute capability."""
    return requires_cuda_compute_version(major, minor, "le")


def requires_cuda_compute_version_lt(major: int, minor: int = 0) -> Callable:
    """Skip at and above that compute capability."""
    return requires_cuda_compute_version(major, minor, "lt")


def process_func(func: Callable, *args: Any, **kwargs: Any) -> float:
    """The time of one call of func(*args, **kwargs) in milliseconds, printed and returned."""
    spent = do_bench(lambda: func(*args, **kwargs))
    print(f"{getattr(func, '__name__', func)}: {spent:.4f} ms")
    return spent
