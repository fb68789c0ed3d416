"""The user's last word on the generated text: functions that edit it before a device compiler sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..front.trace import fail
from . import config


def _pair(language: str, name: str, doc: str) -> tuple[Callable, Callable]:
    def register(func: Callable[[str, Any], str] | None, override: bool = True) -> Any:
        if func is not None and not callable(func):
            raise fail(f"{name} takes a function (code, target) -> code, not {type(func).__name__}")
        if not override and config.editors.get(language) is not None:
            raise fail(f"{name}: there is a function already; override=True replaces it")
        config.editors.pop(language, None)
        if func is not None:
            config.editors[language] = func
        return func

    def callback(func: Any = None, override: bool = True) -> Any:
        if func is None or isinstance(func, bool):  # with parentheses
            chosen = override if func is None else func
            return lambda f: register(f, chosen)
        return register(func, override)

    register.__name__ = register.__qualname__ = name
    register.__doc__ = doc
    callback.__name__ = callback.__qualname__ = f"{name}_callback"
    callback.__doc__ = f"The decorator of {name}, with or without parentheses."
    return register, callback


register_cuda_postproc, register_cuda_postproc_callback = _pair(
    "cuda",
    "register_cuda_postproc",
    """\
    From now on func(code, target) gives the CUDA C++ that is compiled for a GPU, from the text that was
    generated; None ends that.

    target: as text.  Kernels that are compiled already stay as they are; the simulator runs the program, not
    its text, and does not ask.  override: whether it may replace an earlier function.
    """,
)
register_c_postproc, register_c_postproc_callback = _pair(
    "llvm", "register_c_postproc", "The same for CPUs, whose generated text is LLVM IR."
)
register_hip_postproc, register_hip_postproc_callback = _pair(
    "hip",
    "register_hip_postproc",
    "The same for AMD GPUs, whose generated text is HIP C++.",
)
register_metal_postproc, register_metal_postproc_callback = _pair(
    "metal",
    "register_metal_postproc",
    "The same for Apple GPUs, which are no target here: nothing calls the function.",
)
