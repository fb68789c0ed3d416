"""What a user may ask of a compilation: targets, pass configs, flags; turned into the options of the
compiler."""

from __future__ import annotations

import difflib
import enum
import os
from typing import Any

from ..front.trace import fail, note
from .env import env


class _Keys(enum.EnumMeta):
    def __getattr__(cls, name: str) -> str:
        near = [] if name.startswith("_") else difflib.get_close_matches(name, cls.__members__, 1)
        raise AttributeError(
            f"PassConfigKey has no '{name}'" + (f"; did you mean {near[0]}?" if near else "")
        )


class _Key(str, enum.Enum, metaclass=_Keys):
    """The switches of pass_configs.txt; those with a meaning here say it there, the others do nothing."""


with open(os.path.join(os.path.dirname(__file__), "pass_configs.txt"), encoding="utf-8") as _table:
    PassConfigKey = _Key(
        "PassConfigKey", [tuple(line.split()[:3:2]) for line in _table if " = " in line], module=__name__
    )
PassConfigKey.__doc__ = _Key.__doc__


def _register_usage(value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 10:
        raise fail(f"tl.ptxas_register_usage_level is a whole number from 0 to 10, not {value!r}")
    return [f"--ptxas-options=--register-usage-level={value}"]


_OPTIONS = {  # key -> the options of _core.compile that a value means; pass_profile: asked by kernel.compile
    "tl.enable_fast_math": lambda value: {"fast_math": bool(value)},
    "tl.disable_fast_math": lambda value: {"fast_math": not value},
    "tl.disable_thread_storage_sync": lambda value: {"own_barriers": bool(value)},
    "tl.disable_warp_specialized": lambda value: {"skip": ["assign_roles"] if value else []},
    "tl.disable_tma_lower": lambda value: {"skip": ["assign_roles", "move_boxes"] if value else []},
    "tl.emit_line_directives": lambda value: {"line_directives": bool(value)},
    "tl.disable_early_launch": lambda value: {"skip": ["launch_early"] if value else []},
    "tl.ptxas_register_usage_level": lambda value: {"flags": _register_usage(value)},
    "tl.enable_ptxas_verbose_output": lambda value: {"flags": ["--ptxas-options=-v"] if value else []},
    "tl.device_compile_flags": lambda value: {"flags": flags_of(value)},
    "tl.enable_dump_ir": lambda value: {"dump_dir": env.get_dump_ir_dir()} if value else {},
    "tl.dump_ir_path": lambda value: {},
    "tl.pass_profile": lambda value: {},
    "tl.pass_profile_threshold_ms": lambda value: {},
}


def unknown_key(key: str) -> str | None:
    """What is said of a key that no version has published, with the nearest that is known; None of others.

    The prefixes tir. and tirx. are two published spellings of one."""
    known = [str.__str__(k) for k in PassConfigKey]
    if key in known or key.replace("tir.", "tirx.", 1) in known or key.replace("tirx.", "tir.", 1) in known:
        return None
    near = difflib.get_close_matches(key, known, 1)
    return (
        f"there is no pass config '{key}'; "
        + (f"did you mean '{near[0]}'? " if near else "")
        + "PassConfigKey has them all"
    )


def normalize_pass_configs(pass_configs: dict[Any, Any] | None) -> dict[str, Any]:
    """pass_configs with their keys as text; CompileError unless it is a dict of keys that are known."""
    if not isinstance(pass_configs or {}, dict):
        raise fail(f"pass_configs is a dict, {{PassConfigKey: value}}, not {type(pass_configs).__name__}")
    for key in pass_configs or {}:
        if not isinstance(key, str):
            raise fail(f"a key of pass_configs is a PassConfigKey or its text, not {key!r}")
        said = unknown_key(str.__str__(key))
        if said:
            raise fail(said)
    return {str.__str__(key): value for key, value in (pass_configs or {}).items()}


def flags_of(compile_flags: Any) -> list[str]:
    """compile_flags as a list: a string is split at blanks."""
    if not compile_flags:
        return []
    if not isinstance(compile_flags, (str, list, tuple)):
        raise fail(f"flags for the device compiler are a text or a list of texts, not {compile_flags!r}")
    return compile_flags.split() if isinstance(compile_flags, str) else [str(flag) for flag in compile_flags]


# language ("cuda", "llvm") -> the user's function (code, target) -> code; see jit/postproc.py
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
            raise fail(
                f"{getattr(editor, '__name__', editor)}, which edits the generated text, gave "
                f"{type(edited).__name__}; it must give the text"
            )
        return edited

    return edit


def options_of(
    pass_configs: dict[Any, Any] | None,
    compile_flags: Any,
    debug_root_path: Any,
    target: Any = None,
    deterministic: bool = False,
    strict: bool = False,
) -> dict[str, Any]:
    """The `options` of _core.compile."""
    options: dict[str, Any] = {"cache": env.is_cache_enabled(), "cache_dir": env.get_cache_dir()}
    if deterministic:
        options["deterministic"] = True
    if strict:
        options["strict"] = True
    if editors:
        options["edit_text"] = _editor(target_text(target))
    if env.is_dump_ir_enabled():
        options["dump_dir"] = env.get_dump_ir_dir()
    flags, skip = flags_of(compile_flags), []
    configs = normalize_pass_configs(
        {k: v for scope in (*pass_config_scopes, pass_configs or {}) for k, v in scope.items()}
    )
    for name, value in configs.items():
        means = _OPTIONS.get(name)
        if means is None:
            note("pass config %s has no meaning in this version; ignored", name)
            continue
        if isinstance(value, str) and name.startswith(("tl.enable_", "tl.disable_", "tl.emit_")):
            raise fail(f"{name} is True or False, not {value!r}")
        wanted = means(value)
        flags += wanted.pop("flags", [])
        skip += wanted.pop("skip", [])
        options.update(wanted)
    if flags:
        options["flags"] = flags
    if skip:
        options["skip"] = skip
    folder = debug_root_path or ("dump_dir" in options and configs.get("tl.dump_ir_path"))
    if folder:
        options["dump_dir"] = str(folder)
    return options


# What `with tvm.target.Target(…):` and `with tvm.transform.PassContext(config=…):` say for the compilations
# inside, the innermost last.
target_scopes: list[str] = []
pass_config_scopes: list[dict[str, Any]] = []

# What looks at every compilation pass by pass; see tools/passes.py.
watchers: list[Any] = []

# The script.Script that runs, all of whose kernels are simulated; see there.
script: Any = None


def target_text(target: Any) -> str:
    """A target as the compiler takes it: "cuda -arch=sm_80"; from a string, a dict, or None (default)."""
    text = own_target(target)
    return script.redirect(text) if script else text


# What TVM says of a target beside its kind and its chip: known here from the chip.
_HINTS = """
    keys tag host libs model mtriple max_num_threads max_threads_per_block max_shared_memory_per_block
    thread_warp_size registers_per_block l2_cache_size_bytes
""".split()


def own_target(target: Any) -> str:
    """The same, whatever a script that is simulated runs on instead."""
    if target is None and target_scopes:
        return target_scopes[-1]
    if target is None:
        return env.get_default_target()
    text = target if isinstance(target, dict) else str(target).strip()
    if not isinstance(text, dict) and text.startswith("{"):
        import json

        text = json.loads(text)
    if isinstance(text, dict):
        kind = str(text.get("kind", "auto"))
        words = [kind, *(f"-{key}={text[key]}" for key in ("arch", "mcpu") if text.get(key) is not None)]
        if kind in _OF_CPUS:
            return _cpu_text(words)
        rest = [
            key for key, value in text.items() if value is not None and key not in ("kind", "arch", "mcpu")
        ]
        words += [f"-{key}={text[key]}" for key in rest]
    else:
        words = text.split()
        if words and words[0] in _OF_CPUS:
            return _cpu_text(words)
    return " ".join(word for word in words if word.lstrip("-").partition("=")[0] not in _HINTS)


# TVM's kinds of CPUs, which have many attributes: here the processor alone is one.
_OF_CPUS = ("c", "llvm")


def _cpu_text(words: list[str]) -> str:
    """ "c -keys=cpu -mcpu=haswell" as it is said here."""
    named = [word for word in words[1:] if word.startswith("-mcpu=")]
    strange = [word for word in words[1:] if not word.startswith("-")]
    before = [words[i] for i in range(len(words) - 1) if words[i + 1] in strange]
    if any(not word.startswith("-") or "=" in word for word in before):
        return " ".join(words)  # which is refused
    return " ".join(["llvm" if words[0] == "llvm" else "cpu", *named])


_BACKENDS = ("auto", "tvm_ffi", "cython", "ctypes", "dlpack", "nvrtc", "torch", "cutedsl", None)


def check_backend(execution_backend: Any) -> None:
    """Every published execution backend means the one runtime; anything else is a mistake."""
    if execution_backend not in _BACKENDS:
        raise fail(
            f"unknown execution_backend {execution_backend!r}: there is one runtime; leave it out, or 'auto'"
        )
