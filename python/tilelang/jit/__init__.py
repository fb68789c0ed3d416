"""Compilation and calls: `tilelang.jit`, `tilelang.compile`, and what they give.

`from tilelang.jit import jit, JITKernel` loads what it names."""

from importlib import import_module

_WHERE = {
    "jit": "decorator",
    "JITImpl": "factory",
    "compile": "kernel",
    "par_compile": "parallel",
    "JITKernel": "kernel",
    "Kernel": "param",
}
__all__ = list(_WHERE)


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
