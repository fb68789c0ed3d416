"""What stands around kernels: measuring, tuning, simulating, reporting, drawing, testing; the command line.

`tilelang.tools.plot_layout` and the modules here are loaded when they are asked for."""

import sys
from importlib import import_module

_WHERE = {"plot_layout": "plot", "ARCH_CONFIGS": "analyzer", "AnalysisResult": "analyzer",
          "Analyzer": "analyzer"}  # fmt: skip
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


class _Package(type(sys)):
    """This package: importing the module `tilelang.tools.Analyzer` does not hide the class."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _WHERE and isinstance(value, type(sys))):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
