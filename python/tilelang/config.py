"""What a user may ask of a compilation: targets, pass configs, flags; turned into the options of the
compiler.
"""

from __future__ import annotations

import enum
from typing import Any

from . import env


class PassConfigKey(str, enum.Enum):
    """The published switches; the ones with a meaning here are marked, the others are accepted and do
    nothing.
    """

    TL_ENABLE_FAST_MATH = "tl.enable_fast_math"  # fast_math
    TL_DISABLE_FAST_MATH = "tl.disable_fast_math"  # fast_math, inverted
    TL_DISABLE_WARP_SPECIALIZED = "tl.disable_warp_specialized"
    TL_DISABLE_TMA_LOWER = "tl.disable_tma_lower"
    TL_DISABLE_THREAD_STORAGE_SYNC = "tl.disable_thread_storage_sync"
    TL_PTXAS_REGISTER_USAGE_LEVEL = "tl.ptxas_register_usage_level"
    TL_ENABLE_AGGRESSIVE_SHARED_MEMORY_MERGE = "tl.enable_aggressive_shared_memory_merge"
    TL_LAYOUT_VISUALIZATION_ENABLE = "tl.layout_visualization_enable"
    TL_LAYOUT_VISUALIZATION_FORMATS = "tl.layout_visualization_formats"
    TL_ENABLE_PTXAS_VERBOSE_OUTPUT = "tl.enable_ptxas_verbose_output"


def options_of(
    pass_configs: dict[Any, Any] | None, compile_flags: Any, debug_root_path: Any
) -> dict[str, Any]:
    """The `options` of _core.compile."""
    options: dict[str, Any] = {"cache": env.is_cache_enabled(), "cache_dir": env.cache_dir()}
    dump = str(debug_root_path) if debug_root_path else env.dump_dir()
    if dump:
        options["dump_dir"] = dump
    if compile_flags:
        flags = compile_flags.split() if isinstance(compile_flags, str) else compile_flags
        options["flags"] = [str(flag) for flag in flags]
    for key, value in (pass_configs or {}).items():
        name = key.value if isinstance(key, PassConfigKey) else str(key)
        if name == PassConfigKey.TL_ENABLE_FAST_MATH.value:
            options["fast_math"] = bool(value)
        elif name == PassConfigKey.TL_DISABLE_FAST_MATH.value:
            options["fast_math"] = not value
        else:
            import logging

            logging.getLogger("tilelang").debug("pass config %s has no meaning in this version; "
                                                "ignored", name)
    return options


def target_text(target: Any) -> str:
    """A target as the compiler takes it: "cuda -arch=sm_80"; from a string, a dict, or None (default)."""
    if target is None:
        return env.default_target()
    if isinstance(target, dict):
        rest = dict(target)
        kind = str(rest.pop("kind", "auto"))
        return " ".join([kind, *(f"-{key}={value}" for key, value in rest.items() if value is not None)])
    return str(target)


_BACKENDS = ("auto", "tvm_ffi", "cython", "ctypes", "dlpack", "nvrtc", "torch", "cutedsl", None)


def check_backend(execution_backend: Any) -> None:
    """Every published execution backend means the one runtime; anything else is a mistake."""
    if execution_backend not in _BACKENDS:
        from .trace import fail

        raise fail(f"unknown execution_backend {execution_backend!r}: there is one runtime; leave it out, or "
                   "'auto'")
