"""tilelang: a tile language and its compiler.

Write a kernel on tiles with `import tilelang.language as T`, compile it with `@tilelang.jit` or
`tilelang.compile`, call it with NumPy arrays or PyTorch tensors.  Nothing is loaded before it is asked for:
`import tilelang` takes a few milliseconds and imports neither NumPy nor PyTorch.
"""

import sys
from importlib import import_module

_WHERE = {
    "jit": "factory", "JITImpl": "factory",
    "compile": "kernel", "par_compile": "kernel", "JITKernel": "kernel",
    "resolve_target": "kernel",
    "Profiler": "profiler", "TensorSupplyType": "supply", "do_bench": "profiler",
    "autotune": "autotuner", "AutoTuner": "autotuner", "set_autotune_inputs": "autotuner",
    "get_autotune_inputs": "autotuner", "lower": "engine",
    "PassConfigKey": "config", "CompileError": "errors", "SimulationError": "simulation",
    "ArgumentError": "errors",
    "TilelangWarning": "errors",
    "enable_cache": "env", "disable_cache": "env", "is_cache_enabled": "env", "clear_cache": "cache",
    "Layout": "layout", "Fragment": "layout",
    "register_matrix": "instruction", "unregister_matrix": "instruction",
    "cdiv": "math", "next_power_of_2": "math",
}  # fmt: skip
_MODULES = ("language", "dtypes", "env", "math", "profiler", "cache", "config", "errors", "interop", "kernel",
            "layout", "tools", "autotuner", "testing", "utils", "engine", "carver", "contrib", "quantize",
            "tvm", "simulation", "breakpoints", "transform", "intrinsics", "cuda", "cpu", "rocm", "metal",
            "webgpu")

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


class _TvmFinder:
    """`import tvm` where there is no TVM: tilelang.tvm, the few names that published kernels take from it."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> object:
        if name.partition(".")[0] != "tvm":
            return None
        from importlib.machinery import ModuleSpec, PathFinder

        ours = sys.modules.get("tvm") is sys.modules.get(f"{__name__}.tvm")
        if PathFinder.find_spec(name) if name == "tvm" else not ours:
            return None  # TVM itself

        return ModuleSpec(name, _TvmFinder, is_package=True)

    @staticmethod
    def create_module(spec: object) -> object:
        try:
            module = import_module(f"{__name__}.{spec.name}")
        except ModuleNotFoundError:
            raise ModuleNotFoundError(f"No module named '{spec.name}' (there is no TVM here; tilelang stands "
                                      "in for a few of its names)", name=spec.name) from None
        spec.loader_state = module.__spec__, module.__package__
        return module

    @staticmethod
    def exec_module(module: object) -> None:
        module.__spec__, module.__package__ = module.__spec__.loader_state  # what importing has overwritten


sys.meta_path.insert(0, _TvmFinder)
