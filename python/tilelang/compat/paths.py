"""Published module paths that are no files of this package: each is a module made when it is imported, whose
names come from the files where they live.  paths.txt is the table."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

_ROOT = __name__.partition(".")[0]


def _read() -> dict[str, list[tuple[str, dict[str, str]]]]:
    """path below tilelang -> its sources: a module, and for each thing that is taken from it the published
    name and its own; an empty dict takes all."""
    table: dict[str, list[tuple[str, dict[str, str]]]] = {}
    for line in Path(__file__).with_name("paths.txt").read_text(encoding="utf-8").splitlines():
        path, _, rest = line.partition("#")[0].partition("=")
        source, _, names = rest.partition(":")
        taken = {name: own or name for name, _, own in (word.partition("/") for word in names.split())}
        if path.strip():
            table.setdefault(path.strip(), []).extend([(source.strip(), taken)] if rest.strip() else [])
    for path in list(table):
        while "." in path:  # folders of what is there
            path = path.rpartition(".")[0]
            table.setdefault(path, [])
    return table


PATHS = _read()


def _special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _path(name: str) -> str:
    """What the table calls a module."""
    return name.removeprefix(f"{_ROOT}.")


def _public(module: ModuleType) -> list[str]:
    """What a module offers: __all__, or the functions and classes that it defines."""
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    ]
    return getattr(module, "__all__", own)


class Published(ModuleType):
    """A module of the published package."""

    __path__: list[str] = []  # modules below it are found by name

    def __getattr__(self, name: str) -> object:
        path = _path(self.__name__)
        missing = AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
        for source, names in PATHS[path] if not _special(name) else ():
            if name in names or not names:
                try:
                    found = getattr(import_module(f"{_ROOT}.{source}"), names.get(name, name))
                except AttributeError as error:
                    missing = error
                    continue
                if not isinstance(found, ModuleType) or f"{path}.{name}" not in PATHS:
                    return found
        if f"{path}.{name}" in PATHS:
            return import_module(f"{self.__name__}.{name}")
        if not _special(name):
            from ..language import surface  # what does not work says so when it is called

            above = self.__name__
            while above:  # what a folder has stands for the same in its files
                found = surface.stand_in(f"{above}.{name}")
                if found is not None:
                    return found
                above = above.rpartition(".")[0]
        raise missing

    def __setattr__(self, name: str, value: object) -> None:
        """Importing a module below does not hide a function of its name, tilelang.engine.lower."""
        if isinstance(value, ModuleType) and name not in self.__dict__:
            with suppress(AttributeError):
                value = self.__getattr__(name)
        super().__setattr__(name, value)

    @property
    def __all__(self) -> list[str]:
        path = _path(self.__name__)
        found = [
            name
            for source, names in PATHS[path]
            for name in names or _public(import_module(f"{_ROOT}.{source}"))
        ]
        return list(dict.fromkeys(found))

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.__all__})


class _Loader:
    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType:
        _, dialect, *rest = spec.name.split(".")
        if rest == ["language"] and dialect != "utils":
            from .dialects import Dialect

            return Dialect(spec.name, dialect)
        return Published(spec.name)

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        pass


class _Tvm:
    """`import tvm`: the modules of compat/tvm under that name."""

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType:
        try:
            module = import_module(f"{_ROOT}.compat.{spec.name.removeprefix(_ROOT + '.')}")
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                f"No module named '{spec.name}' (there is no TVM here; tilelang stands "
                "in for a few of its names)",
                name=spec.name,
            ) from None
        spec.loader_state = module.__spec__, module.__package__
        return module

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        module.__spec__, module.__package__ = module.__spec__.loader_state  # what importing has overwritten


def spec_of(name: str) -> ModuleSpec | None:
    """The spec of a published module, or of one of TVM's where there is no TVM; None for any other."""
    top, _, path = name.partition(".")
    if top == "tvm":
        ours = sys.modules.get("tvm") is sys.modules.get(f"{_ROOT}.compat.tvm")
        if PathFinder.find_spec(name) if name == "tvm" else not ours:
            return None
        path = name
    if path in PATHS and path != "tvm":
        return ModuleSpec(name, _Loader, is_package=True)
    return ModuleSpec(name, _Tvm, is_package=True) if path.partition(".")[0] == "tvm" else None
