"""tilelang: a tile language and its compiler.

Write a kernel on tiles with `import tilelang.language as T`, compile it with `@tilelang.jit` or
`tilelang.compile`, call it with NumPy arrays or PyTorch tensors.  Nothing is loaded before it is asked for:
`import tilelang` takes a few milliseconds and imports neither NumPy nor PyTorch.
"""

from importlib import import_module

_WHERE = {
    "jit": "factory", "JITImpl": "factory",
    "compile": "kernel", "par_compile": "kernel", "JITKernel": "kernel",
    "resolve_target": "kernel",
    "Profiler": "profiler", "TensorSupplyType": "profiler", "do_bench": "profiler",
    "PassConfigKey": "config", "CompileError": "errors", "TilelangWarning": "errors",
    "enable_cache": "env", "disable_cache": "env", "is_cache_enabled": "env", "clear_cache": "cache",
    "Layout": "layout", "Fragment": "layout",
    "register_matrix": "instruction", "unregister_matrix": "instruction",
    "cdiv": "math", "next_power_of_2": "math",
}  # fmt: skip
_MODULES = ("language", "dtypes", "env", "math", "profiler", "cache", "config", "errors", "interop", "kernel",
            "layout", "quantize", "tools")
_LATER = (
    "autotune", "AutoTuner", "autotuner", "set_autotune_inputs", "get_autotune_inputs", "lower", "engine",
    "testing", "carver", "utils", "contrib", "transform",
    "intrinsics", "tvm", "SimulationError", "cuda", "cpu", "rocm",
)  # fmt: skip

__all__ = [*_WHERE, "language", "dtypes", "__version__"]


def set_log_level(level: object) -> None:
    """The level of the logger "tilelang": a name ("DEBUG") or a number of the module logging."""
    import logging

    logging.getLogger("tilelang").setLevel(level.upper() if isinstance(level, str) else level)


def __getattr__(name: str) -> object:
    if name in _WHERE:
        value = getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    elif name in _MODULES:
        value = import_module(f"{__name__}.{name}")
    elif name == "__version__":
        value = _version()
    elif name in _LATER:
        raise AttributeError(f"tilelang.{name}: not in this version yet")
    else:
        raise AttributeError(f"module 'tilelang' has no attribute '{name}'")
    globals()[name] = value
    return value


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("tilelang")
    except PackageNotFoundError:
        return "0.1.0"  # run from the source tree


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE, *_MODULES])
