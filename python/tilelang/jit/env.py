"""The environment variables that tilelang reads, each when it is needed.

    TILELANG_CACHE_DIR              the folder of compiled kernels (default: tilelang in the XDG cache folder)
    TILELANG_DISABLE_CACHE          1: neither read nor write that folder
    TILELANG_DEFAULT_TARGET         the target where none is given (default: auto)
    TILELANG_PRINT_ON_COMPILATION   1: one line per compiled kernel, on stderr
    TILELANG_VERBOSE                1: the report of each compiled kernel too
    TILELANG_DUMP_IR                1: write every level's text to TILELANG_DUMP_IR_DIR (or tilelang_dump)
    TILELANG_AUTO_TUNING_CPU_COUNTS how many threads compile at once, where that is not said (par_compile)
    TILELANG_AUTO_TUNING_DISABLE_CACHE  1: the tuner neither reads nor writes results on disk
    TILELANG_COMPILE_TIMEOUT_SECONDS    how long one of several compilations may take before it fails
"""

from __future__ import annotations

import os

_cache_enabled: bool | None = None  # what enable_cache/disable_cache said last


def flag(name: str) -> bool:
    """Whether TILELANG_<name> is set to something that means yes."""
    return os.environ.get(f"TILELANG_{name}", "").strip().lower() in ("1", "true", "yes", "on")


def cache_dir() -> str:
    """The folder of the disk cache."""
    given = os.environ.get("TILELANG_CACHE_DIR")
    if given:
        return os.path.abspath(os.path.expanduser(given))
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "tilelang")


def default_target() -> str:
    """The target where the user gives none."""
    return os.environ.get("TILELANG_DEFAULT_TARGET") or "auto"


def dump_dir() -> str | None:
    """Where the texts of all levels go, or None."""
    if not flag("DUMP_IR"):
        return None
    return os.environ.get("TILELANG_DUMP_IR_DIR") or "tilelang_dump"


def compile_threads() -> int | None:
    """How many threads compile at once; None: as many as Python thinks best."""
    return _number("AUTO_TUNING_CPU_COUNTS")


def compile_timeout() -> int | None:
    """Seconds that one of several compilations may take; None: no limit."""
    return _number("COMPILE_TIMEOUT_SECONDS")


def is_tuning_cache_enabled() -> bool:
    """Whether the tuner keeps its results on disk."""
    return not flag("AUTO_TUNING_DISABLE_CACHE") and is_cache_enabled()


def _number(name: str) -> int | None:
    text = os.environ.get(f"TILELANG_{name}", "").strip()
    return int(text) if text.isdigit() and int(text) > 0 else None


def enable_cache() -> None:
    """Use the disk cache from here on, whatever TILELANG_DISABLE_CACHE says."""
    global _cache_enabled
    _cache_enabled = True


def disable_cache() -> None:
    """Neither read nor write the disk cache from here on."""
    global _cache_enabled
    _cache_enabled = False


def is_cache_enabled() -> bool:
    """Whether compiled kernels are kept on disk."""
    return not flag("DISABLE_CACHE") if _cache_enabled is None else _cache_enabled
