"""The user's last word on the generated text: functions that edit it before a device compiler sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..front.trace import fail
from . import config

__all__ = [
    "register_c_postproc", "register_c_postproc_callback", "register_cuda_postproc",
    "register_cuda_postproc_callback", "register_hip_postproc", "register_hip_postproc_callback",
    "register_metal_postproc", "register_metal_postproc_callback",
]  # fmt: skip


def _register(language: str, what: str, func: Any, override: bool) -> Any:
    if func is not None and not callable(func):
        raise fail(f"{what} takes a function (code, target) -> code, not {type(func).__name__}")
    if not override and config.editors.get(language) is not None:
        raise fail(f"{what}: there is a function already; override=True replaces it")
    config.editors.pop(language, None)
    if func is not None:
        config.editors[language] = func
    return func


def _callback(language: str, what: str, func: Any, override: bool) -> Any:
    if func is None or isinstance(func, bool):  # with parentheses
        chosen = override if func is None else func
        return lambda f: _register(language, what, f, chosen)
    return _register(language, what, func, override)


def register_cuda_postproc(func: Callable[[str, Any], str] | None, override: bool = True) -> Any:
    """From now on func(code, target) gives the CUDA C++ that is compiled for a GPU, from the text that was
    generated; None ends that.

    target: as text.  Kernels that are compiled already stay as they are; the simulator runs the program, not
    its text, and does not ask.  override: whether it may replace an earlier function.
    """
    return _register("cuda", "register_cuda_postproc", func, override)


def register_cuda_postproc_callback(func: Any = None, override: bool = True) -> Any:
    """The decorator of register_cuda_postproc, with or without parentheses."""
    return _callback("cuda", "register_cuda_postproc_callback", func, override)


def register_c_postproc(func: Callable[[str, Any], str] | None, override: bool = True) -> Any:
    """The same for CPUs, whose generated text is LLVM IR."""
    return _register("llvm", "register_c_postproc", func, override)


def register_c_postproc_callback(func: Any = None, override: bool = True) -> Any:
    """The decorator of register_c_postproc."""
    return _callback("llvm", "register_c_postproc_callback", func, override)


def register_hip_postproc(func: Callable[[str, Any], str] | None, override: bool = True) -> Any:
    """The same for AMD GPUs, which are not among the targets yet: nothing calls the function."""
    return _register("hip", "register_hip_postproc", func, override)


def register_hip_postproc_callback(func: Any = None, override: bool = True) -> Any:
    """The decorator of register_hip_postproc."""
    return _callback("hip", "register_hip_postproc_callback", func, override)


def register_metal_postproc(func: Callable[[str, Any], str] | None, override: bool = True) -> Any:
    """The same for Apple GPUs, which are no target here: nothing calls the function."""
    return _register("metal", "register_metal_postproc", func, override)


def register_metal_postproc_callback(func: Any = None, override: bool = True) -> Any:
    """The decorator of register_metal_postproc."""
    return _callback("metal", "register_metal_postproc_callback", func, override)
