"""The environment variables that tilelang reads, each when it is needed: `tilelang.env` is the object here.

env.txt is the table: `env.TILELANG_CACHE_DIR` is what the variable says (or its default),
`env.get_cache_dir()` the same as what it is; setting the attribute counts more than the environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from .. import _core

_FOLDER = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


class EnvVar:
    """An environment variable with a default; as an attribute of an object it is its value."""

    def __init__(self, key: str, default: Any, _forced_value: Any = None) -> None:
        self.key, self.default, self._forced_value = key, default, _forced_value

    def get(self) -> Any:
        """What was set here, else what the environment says, else the default."""
        if self._forced_value is not None:
            return self._forced_value
        return os.environ.get(self.key) or (self.default() if callable(self.default) else self.default)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else self.get()

    def __set__(self, instance: Any, value: Any) -> None:
        self._forced_value = None
        if value != self.get():  # what it is anyway is not held
            self._forced_value = value
        held = self._forced_value
        _core.set_environment(self.key, None if held is None else str(held))  # for what C++ asks itself

    def __repr__(self) -> str:
        return f"EnvVar({self.key!r}, {self.default!r})"


def cuda_home() -> str:
    """The folder of the CUDA toolkit, as CUDA_HOME, CUDA_PATH or the usual place say; empty without one."""
    for folder in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda", "/opt/cuda"):
        if folder and os.path.isdir(folder):
            return folder
    return ""


class Environment:
    """What the environment asks of tilelang: the attributes and methods of env.txt, and these."""

    TILELANG_PACKAGE_PATH = _FOLDER
    CUDA_HOME = property(lambda self: cuda_home(), doc=cuda_home.__doc__)
    ROCM_HOME = property(
        lambda self: os.environ.get("ROCM_HOME") or os.environ.get("ROCM_PATH") or "",
        doc="The folder of ROCm, as ROCM_HOME or ROCM_PATH say.",
    )

    _cache_enabled: bool | None = None  # what enable_cache or disable_cache said last

    def enable_cache(self) -> None:
        """Use the disk cache from here on, whatever TILELANG_DISABLE_CACHE says."""
        self._cache_enabled = True

    def disable_cache(self) -> None:
        """Neither read nor write the disk cache from here on."""
        self._cache_enabled = False

    def is_cache_enabled(self) -> bool:
        """Whether compiled kernels are kept on disk."""
        said = self._cache_enabled
        return not self.is_cache_globally_disabled() if said is None else said

    def get_cache_dir(self) -> str:
        """The folder of the disk cache, as an absolute path."""
        return os.path.abspath(os.path.expanduser(self.TILELANG_CACHE_DIR))

    def is_running_autodd(self) -> bool:
        """Whether a program is being reduced by tilelang.autodd, which is not here: False."""
        return False


def _flag(value: Any) -> bool:
    return str(value).strip().lower() in ("1", "true", "yes", "on")


def _count(value: Any) -> int | None:
    """A number above 0; None for anything else."""
    text = str(value or "").strip()
    return int(text) if text.isdigit() and int(text) > 0 else None


def _mode(value: Any) -> str | None:
    """A word; None for what means no."""
    return None if str(value).strip().lower() in ("", "0", "off", "none", "false") else str(value)


def parse_pass_profile_threshold_ms(value: Any, name: str = "pass profile threshold") -> float:
    """A number of milliseconds, not below 0; ValueError for anything else."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ValueError(f"{name} is a number of milliseconds, at least 0, not {value!r}")
    return number


def resolve_pass_profile_threshold_ms(
    pass_configs: dict[str, Any] | None, key: str, env_threshold_ms: float
) -> float:
    """What pass_configs says under that key; what the environment says where that is nothing."""
    given = (pass_configs or {}).get(key)
    return env_threshold_ms if given is None else parse_pass_profile_threshold_ms(given, key)


_READ: dict[str, Callable[[Any], Any]] = {  # method -> how it reads its variable; others give it as it is
    "get_compile_threads": _count, "get_compile_timeout_seconds": _count, "get_default_verbose": _flag,
    "get_lower_trace_mode": _mode, "get_pass_diff_mode": _mode,
    "get_pass_profile_threshold_ms": parse_pass_profile_threshold_ms,
}  # fmt: skip


def _add(row: str) -> None:
    attribute, key, default, method, *words = row.split(maxsplit=4)
    given = None if default == "-" else default
    setattr(Environment, attribute, EnvVar(attribute if key == "-" else key, given))
    if method != "-" and not hasattr(Environment, method):
        read = _READ.get(method, _flag if method.startswith(("is_", "should_")) else lambda value: value)
        ask = lambda self: read(getattr(self, attribute))
        ask.__name__, ask.__doc__ = method, f"{attribute}: {words[0] if words else 'nothing here asks it'}."
        setattr(Environment, method, ask)


with open(os.path.splitext(__file__)[0] + ".txt", encoding="utf-8") as _table:  # pathlib takes 5 ms to load
    for _row in _table.read().splitlines():
        if _row and not _row.startswith("#"):
            _add(_row)
Environment.TILELANG_CACHE_DIR.default = lambda: os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tilelang"
)

env = Environment()
enable_cache, disable_cache, is_cache_enabled = env.enable_cache, env.disable_cache, env.is_cache_enabled


class CacheState:
    """The switch of the disk cache, as a class."""

    enable = staticmethod(env.enable_cache)
    disable = staticmethod(env.disable_cache)
    is_enabled = staticmethod(env.is_cache_enabled)


def prepend_pythonpath(path: str) -> None:
    """Put a folder first where Python looks for modules, in this process and in those it starts."""
    if path not in sys.path:
        sys.path.insert(0, path)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [path, os.environ.get("PYTHONPATH")]))


def prepend_dll_search_path(paths: Sequence[str]) -> None:
    """Put folders first where programs that this process starts look for shared libraries."""
    variable = "PATH" if os.name == "nt" else "LD_LIBRARY_PATH"
    os.environ[variable] = os.pathsep.join(filter(None, [*map(str, paths), os.environ.get(variable)]))


def get_runtime_library_dirs() -> list[str]:
    """Where the compiler's own library is, and the CUDA toolkit's, if there is one."""
    return [_FOLDER, *get_cuda_dll_search_dirs()]


def get_cuda_dll_search_dirs() -> list[str]:
    """The folders of the CUDA toolkit's libraries that exist."""
    home = cuda_home()
    return [path for name in ("lib64", "bin") if home and os.path.isdir(path := os.path.join(home, name))]


_CONSTANTS: dict[str, Any] = {  # of the published module; the compiler here needs neither CUTLASS nor TVM
    "DEV": False, "TL_ROOT": _FOLDER, "TL_LIBS": [_FOLDER], "THIRD_PARTY_ROOT": "",
    "CUTLASS_NOT_FOUND_MESSAGE": "CUTLASS is not needed",
    "TVM_LIBRARY_NOT_FOUND_MESSAGE": "TVM is not needed",
    "TL_TEMPLATE_NOT_FOUND_MESSAGE": "the templates are part of the compiler",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _CONSTANTS:
        return _CONSTANTS[name]
    if not name.startswith("_") and hasattr(Environment, name):
        value = getattr(env, name)
        return "" if value is None else value
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
