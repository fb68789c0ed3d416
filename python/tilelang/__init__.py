"""tilelang: a tile language and its compiler.

Write a kernel on tiles with `import tilelang.language as T`, compile it with `@tilelang.jit` or
`tilelang.compile`, call it with NumPy arrays or PyTorch tensors.  Nothing is loaded before it is asked for:
`import tilelang` takes a few milliseconds and imports neither NumPy nor PyTorch.
"""

import sys
from importlib import import_module

_WHERE = {
    "jit": "jit.decorator", "JITImpl": "jit.factory",
    "compile": "jit.kernel", "par_compile": "jit.parallel", "JITKernel": "jit.kernel",
    "resolve_target": "jit.kernel",
    "Profiler": "tools.profiler", "TensorSupplyType": "tools.supply", "do_bench": "tools.profiler",
    "autotune": "tools.autotuner", "AutoTuner": "tools.autotuner", "set_autotune_inputs": "tools.autotuner",
    "get_autotune_inputs": "tools.autotuner", "custom_op": "tools.custom_op", "lower": "jit.lower",
    "PassConfigKey": "jit.config", "CompileError": "front.errors", "SimulationError": "tools.simulation",
    "ArgumentError": "front.errors",
    "TilelangWarning": "front.errors",
    "enable_cache": "jit.env", "disable_cache": "jit.env", "is_cache_enabled": "jit.env",
    "clear_cache": "jit.cache", "env": "jit.env",
    "Layout": "language.layout", "Fragment": "language.layout", "dtypes": "front.dtypes:",
    "register_c_postproc": "jit.postproc", "register_cuda_postproc": "jit.postproc",
    "register_hip_postproc": "jit.postproc", "get_runtime_library_dirs": "jit.env",
    "prepend_dll_search_path": "jit.env", "build_date": "compat.host_tools",
    "deprecated": "compat.host_tools", "DataType": "front.dtypes",
    "register_matrix": "language.instruction", "unregister_matrix": "language.instruction",
    "cdiv": "compat.math", "next_power_of_2": "compat.math",
}  # fmt: skip

__all__ = [*_WHERE, "language", "dtypes", "__version__"]


def set_log_level(level: object) -> None:
    """The level of the logger "tilelang": a name ("DEBUG") or a number of the module logging."""
    import logging

    logging.getLogger("tilelang").setLevel(level.upper() if isinstance(level, str) else level)


def __getattr__(name: str) -> object:
    if name in _WHERE:
        file, is_module, _ = _WHERE[name].partition(":")
        value = import_module(f"{__name__}.{file}")
        value = value if is_module else getattr(value, name)
    elif name == "__version__":
        value = _version()
    else:
        try:
            value = import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
            raise AttributeError(f"module 'tilelang' has no attribute '{name}'") from None
    globals()[name] = value
    return value


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("tilelang")
    except PackageNotFoundError:
        return "0.1.0"  # run from the source tree


def __dir__() -> list[str]:
    from .compat.paths import PATHS

    return sorted({*globals(), *_WHERE, "language", "tools", *(path for path in PATHS if "." not in path)})


class _Finder:
    """Finds the published modules that are no files of this package, and `import tvm` where there is no TVM:
    compat/paths.py says what is in them.
    """

    def __init__(self, top: str) -> None:
        self.top = top

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        if name.partition(".")[0] != self.top:
            return None
        from .compat import paths

        return paths.spec_of(name)


sys.meta_path.insert(0, _Finder("tvm"))    # before its files are found below another name
sys.meta_path.append(_Finder(__name__))


class _Package(type(sys)):
    """This package: importing a module does not hide what it offers by the same name, `tilelang.jit`."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _WHERE and isinstance(value, type(sys)) and not _WHERE[name].endswith(":")):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
