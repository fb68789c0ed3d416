"""What a user may ask of a compilation: targets, pass configs, flags; turned into the options of the
compiler.
"""

from __future__ import annotations

import enum
from typing import Any

from ..front.trace import fail
from .env import env


class _Keys(enum.EnumMeta):
    def __getattr__(cls, name: str) -> str:
        prefix, _, rest = name.partition("_")
        if name.isupper() and prefix in ("TL", "TIR", "CUDA") and rest:
            return f"{prefix.lower()}.{rest.lower()}"  # published, and without a meaning here
        raise AttributeError(f"PassConfigKey has no '{name}'")


class PassConfigKey(str, enum.Enum, metaclass=_Keys):
    """The published switches; the ones with a meaning here say it, the others are accepted and do nothing."""

    TL_ENABLE_FAST_MATH = "tl.enable_fast_math"  # quicker, less exact functions of floats
    TL_DISABLE_FAST_MATH = "tl.disable_fast_math"  # the same, inverted
    # No barriers for what the program does with its own buffers: it places them itself.
    TL_DISABLE_THREAD_STORAGE_SYNC = "tl.disable_thread_storage_sync"
    TL_PTXAS_REGISTER_USAGE_LEVEL = "tl.ptxas_register_usage_level"  # 0 to 10, for ptxas
    TL_ENABLE_PTXAS_VERBOSE_OUTPUT = "tl.enable_ptxas_verbose_output"  # ptxas -v, in the log of the build
    TL_DISABLE_WARP_SPECIALIZED = "tl.disable_warp_specialized"
    TL_DISABLE_TMA_LOWER = "tl.disable_tma_lower"
    TL_ENABLE_AGGRESSIVE_SHARED_MEMORY_MERGE = "tl.enable_aggressive_shared_memory_merge"
    TL_LAYOUT_VISUALIZATION_ENABLE = "tl.layout_visualization_enable"
    TL_LAYOUT_VISUALIZATION_FORMATS = "tl.layout_visualization_formats"


def _register_usage(value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 10:
        raise _mistake(f"tl.ptxas_register_usage_level is a whole number from 0 to 10, not {value!r}")
    return [f"--ptxas-options=--register-usage-level={value}"]


_OPTIONS = {  # key -> the options of _core.compile that a value means
    PassConfigKey.TL_ENABLE_FAST_MATH: lambda value: {"fast_math": bool(value)},
    PassConfigKey.TL_DISABLE_FAST_MATH: lambda value: {"fast_math": not value},
    PassConfigKey.TL_DISABLE_THREAD_STORAGE_SYNC: lambda value: {"own_barriers": bool(value)},
    PassConfigKey.TL_PTXAS_REGISTER_USAGE_LEVEL: lambda value: {"flags": _register_usage(value)},
    PassConfigKey.TL_ENABLE_PTXAS_VERBOSE_OUTPUT:
        lambda value: {"flags": ["--ptxas-options=-v"] if value else []},
}  # fmt: skip


def _mistake(text: str) -> Exception:
    return fail(text)


def check_pass_configs(configs: Any) -> None:
    """CompileError unless it is a dict of keys that are words."""
    if not isinstance(configs, dict):
        raise _mistake(f"pass_configs is a dict, {{PassConfigKey: value}}, not {type(configs).__name__}")
    for key in configs:
        if not isinstance(key, str):
            raise _mistake(f"a key of pass_configs is a PassConfigKey or its text, not {key!r}")


def flags_of(compile_flags: Any) -> list[str]:
    """compile_flags as a list: a string is split at blanks."""
    if not compile_flags:
        return []
    return compile_flags.split() if isinstance(compile_flags, str) else [str(flag) for flag in compile_flags]


# language ("cuda", "llvm") -> the user's function (code, target) -> code; see engine/postproc.py
editors: dict[str, Any] = {}


def _editor(target: str) -> Any:
    """What _core.compile calls with the generated text."""
    chosen = dict(editors)

    def edit(language: str, code: str) -> str:
        editor = chosen.get(language)
        if editor is None:
            return code
        edited = editor(code, target)
        if not isinstance(edited, str):
            raise _mistake(f"{getattr(editor, '__name__', editor)}, which edits the generated text, gave "
                           f"{type(edited).__name__}; it must give the text")
        return edited

    return edit


def options_of(
    pass_configs: dict[Any, Any] | None, compile_flags: Any, debug_root_path: Any, target: Any = None,
    deterministic: bool = False
) -> dict[str, Any]:
    """The `options` of _core.compile."""
    options: dict[str, Any] = {"cache": env.is_cache_enabled(), "cache_dir": env.get_cache_dir()}
    if deterministic:
        options["deterministic"] = True
    if editors:
        options["edit_text"] = _editor(target_text(target))
    dump = debug_root_path or (env.is_dump_ir_enabled() and env.get_dump_ir_dir())
    if dump:
        options["dump_dir"] = str(dump)
    flags = flags_of(compile_flags)
    check_pass_configs(pass_configs or {})
    for key, value in (pass_configs or {}).items():
        name = key.value if isinstance(key, PassConfigKey) else key
        means = _OPTIONS.get(name)
        if means is None:
            import logging

            logging.getLogger("tilelang").debug("pass config %s has no meaning in this version; "
                                                "ignored", name)
            continue
        wanted = means(value)
        flags += wanted.pop("flags", [])
        options.update(wanted)
    if flags:
        options["flags"] = flags
    return options


# The script.Script that runs, all of whose kernels are simulated; see there.
script: Any = None


def target_text(target: Any) -> str:
    """A target as the compiler takes it: "cuda -arch=sm_80"; from a string, a dict, or None (default)."""
    text = own_target(target)
    return script.redirect(text) if script else text


def own_target(target: Any) -> str:
    """The same, whatever a script that is simulated runs on instead."""
    if target is None:
        return env.get_default_target()
    if isinstance(target, dict):
        rest = dict(target)
        kind = str(rest.pop("kind", "auto"))
        return " ".join([kind, *(f"-{key}={value}" for key, value in rest.items() if value is not None)])
    return str(target)


_BACKENDS = ("auto", "tvm_ffi", "cython", "ctypes", "dlpack", "nvrtc", "torch", "cutedsl", None)


def check_backend(execution_backend: Any) -> None:
    """Every published execution backend means the one runtime; anything else is a mistake."""
    if execution_backend not in _BACKENDS:
        raise fail(f"unknown execution_backend {execution_backend!r}: there is one runtime; leave it out, or "
                   "'auto'")
