"""`@tilelang.jit`: a factory of prim_funcs becomes a factory of compiled kernels, each made once."""

from __future__ import annotations

import functools
import threading
from types import CodeType, FunctionType
from typing import Any

from ._core import DType
from .errors import caller_place, compile_error
from .function import PrimFunc, defaults_of
from .kernel import JITKernel, compile, run_all

_BY_VALUE = (int, str, bool, type(None), DType)
_CONTAINERS = (tuple, list, dict)


def _key(value: Any) -> Any:
    """A value as part of a key: equal exactly if the kernels made from the values would be."""
    kind = value.__class__
    if kind in _BY_VALUE:
        return (kind, value)
    if kind is float:
        return (kind, value.hex())
    if kind is tuple or kind is list:
        return (kind, tuple([_key(item) for item in value]))
    if kind is dict:
        return (kind, tuple([(_key(k), _key(v)) for k, v in value.items()]))
    hash(value)
    return (kind, value)


def _captured(value: Any) -> Any:
    """Captured numbers, strings, dtypes and containers of them count by value, the rest by identity."""
    if value.__class__ in _BY_VALUE or value.__class__ is float or isinstance(value, _CONTAINERS):
        try:
            return _key(value)
        except TypeError:
            return id(value)
    return id(value)


def _names_used(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            names |= _names_used(const)
    return names


class JITImpl:
    """A kernel factory: calling it gives the JITKernel for those arguments, compiled the first time only."""

    def __init__(self, func: FunctionType, settings: dict[str, Any]) -> None:
        functools.update_wrapper(self, func)
        self.func = func
        self.settings = settings
        self._kernels: dict[Any, JITKernel] = {}
        self._kept: list[Any] = []  # what was captured, so that an identity in a key stays its own
        self._making: dict[Any, threading.Lock] = {}  # per key: two threads never compile the same kernel
        code = func.__code__
        self._globals = sorted(name for name in _names_used(code) if name in func.__globals__)
        self._parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        self._defaults = defaults_of(func)

    def __call__(self, *args: Any, **kwargs: Any) -> JITKernel:
        """The kernel for these arguments of the factory."""
        key = self._memo_key(args, kwargs)
        if key is None:
            return compile(self.get_tir(*args, **kwargs), **self.settings)
        found = self._kernels.get(key)
        if found is not None:
            return found
        with self._making.setdefault(key, threading.Lock()):
            if key not in self._kernels:
                self._kept.append(self._captures())
                self._kernels[key] = compile(self.get_tir(*args, **kwargs), **self.settings)
            return self._kernels[key]

    compile = __call__

    def get_tir(self, *args: Any, **kwargs: Any) -> PrimFunc:
        """The prim_func for these arguments, not compiled."""
        made = self.func(*args, **kwargs)
        if isinstance(made, PrimFunc):
            return made
        code = self.func.__code__
        place = (code.co_filename, code.co_firstlineno, 1, code.co_firstlineno, 1)
        raise compile_error(f"'{self.func.__name__}' returned {type(made).__name__}, not a @T.prim_func; the "
                            "eager dialect (annotations in the body of the function) is not in this version "
                            "yet", place)

    def get_kernel_source(self, *args: Any, **kwargs: Any) -> str:
        """The generated text of the kernel for these arguments."""
        return self(*args, **kwargs).get_kernel_source()

    def par_compile(self, configs: Any, num_workers: int | None = None,
                    ignore_error: bool = False) -> list[JITKernel | None]:
        """The kernels for several sets of arguments (dicts by name, or tuples), compiled on a pool of
        threads.
        """

        def one(config: Any) -> JITKernel:
            return self(**config) if isinstance(config, dict) else self(*config)

        return run_all(one, list(configs), num_workers, ignore_error)

    def _memo_key(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """By the values of the arguments and of what the factory captures; None for values without a hash."""
        given = {**dict(zip(self._parameters, args, strict=False)), **kwargs}
        if len(given) != len(args) + len(kwargs):
            return None  # too many, or one twice: Python will say so
        named = {**self._defaults, **given}
        try:
            arguments = tuple([(name, _key(named[name])) for name in sorted(named)])
            return (arguments, *[_captured(value) for value in self._captures()])
        except TypeError:
            return None

    def _captures(self) -> list[Any]:
        scope = self.func.__globals__
        captures = [scope.get(name) for name in self._globals]
        for cell in self.func.__closure__ or ():
            try:
                captures.append(cell.cell_contents)
            except ValueError:  # not bound yet
                captures.append(None)
        return captures


def jit(
    func: Any = None,
    *,
    out_idx: Any = None,
    target: Any = None,
    target_host: Any = None,
    execution_backend: Any = None,
    verbose: bool | None = None,
    pass_configs: dict[Any, Any] | None = None,
    debug_root_path: Any = None,
    compile_flags: Any = None,
) -> Any:
    """Decorate a function that returns a @T.prim_func: calling it gives the compiled kernel for its
    arguments.

    The parameters mean what they mean to `tilelang.compile`; `@tilelang.jit` and `@tilelang.jit(...)` both
    work.
    """
    settings = {"out_idx": out_idx, "target": target, "target_host": target_host, "verbose": verbose,
                "execution_backend": execution_backend, "pass_configs": pass_configs,
                "debug_root_path": debug_root_path, "compile_flags": compile_flags}
    if func is None:
        return lambda f: _wrap(f, settings)
    return _wrap(func, settings)


def _wrap(func: Any, settings: dict[str, Any]) -> JITImpl:
    if isinstance(func, PrimFunc):
        raise compile_error("@tilelang.jit decorates a function that returns a @T.prim_func; a prim_func "
                            "itself is compiled by tilelang.compile", caller_place())
    if not isinstance(func, FunctionType):
        raise compile_error("@tilelang.jit decorates a function, not a "
                            f"{type(func).__name__}", caller_place())
    return JITImpl(func, settings)


