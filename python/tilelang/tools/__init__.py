"""What stands around kernels: measuring, tuning, simulating, reporting, drawing, testing; the command line.

`tilelang.tools.plot_layout` and the modules here are loaded when they are asked for.
"""

from importlib import import_module

_WHERE = {"plot_layout": "plot"}
__all__ = list(_WHERE)


def __getattr__(name: str) -> object:
    if name in _WHERE:
        return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'") from None
