"""`@tilelang.jit`: a factory of prim_funcs becomes a factory of compiled kernels, each made once; a function
whose own body is a kernel becomes an eager kernel (dispatch.py)."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

from ..front.errors import ArrayForNumber, caller_place, compile_error, kind_of
from ..front.interop import is_array
from ..front.misuse import launched_in_brackets
from . import style
from .captures import Captures, key_of_argument
from .function import PrimFunc, defaults_of
from .kernel import JITKernel, compile
from .parallel import run_all


class BoundJIT:
    """A factory or eager kernel that is a method, of one object: it comes first among the arguments."""

    said = "a @tilelang.jit method"

    def __init__(self, impl: Any, instance: Any) -> None:
        functools.update_wrapper(self, impl)
        self.impl, self.instance = impl, instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As the method."""
        return self.impl(self.instance, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name in ("compile", "get_tir", "get_kernel_source", "tune"):
            return functools.partial(getattr(self.impl, name), self.instance)
        if name in ("impl", "instance"):  # not made yet
            raise AttributeError(name)
        return getattr(self.impl, name)

    def par_compile(
        self, configs: Any, num_workers: int | None = None, ignore_error: bool = False
    ) -> list[JITKernel | None]:
        """As JITImpl.par_compile."""
        return _compile_all(self.compile, configs, num_workers, ignore_error)


def _compile_all(make: Callable, configs: Any, num_workers: int | None, ignore_error: bool) -> list[Any]:
    one = lambda config: make(**config) if isinstance(config, dict) else make(*config)
    return run_all(one, list(configs), num_workers, ignore_error)


class JITImpl:
    """A kernel factory: calling it gives the JITKernel for those arguments, compiled the first time only."""

    is_eager = False
    said = "a @tilelang.jit function"

    def __init__(
        self,
        out_idx: Any = None,
        execution_backend: Any = None,
        target: Any = None,
        target_host: Any = None,
        verbose: bool | None = None,
        pass_configs: Any = None,
        debug_root_path: Any = None,
        compile_flags: Any = None,
        func_source: str | None = None,
        signature: Any = None,
        mode: str | None = None,
        func: FunctionType | None = None,
        deterministic: bool = False,
        strict: bool = False,
    ) -> None:
        """What tilelang.jit makes of `func` with these settings; source, signature, mode are its own."""
        functools.update_wrapper(self, func)
        self.func = func
        self.settings = {
            "out_idx": out_idx,
            "execution_backend": execution_backend,
            "target": target,
            "target_host": target_host,
            "verbose": verbose,
            "pass_configs": pass_configs,
            "debug_root_path": debug_root_path,
            "compile_flags": compile_flags,
            "deterministic": deterministic,
            "strict": strict,
        }
        self._kernels: dict[Any, JITKernel] = {}
        self._making: dict[Any, threading.Lock] = {}  # per key: two threads never compile the same kernel
        code = func.__code__
        self._captures: Captures | None = None
        self._parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        self._defaults = defaults_of(func)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else BoundJIT(self, instance)

    def __getattr__(self, name: str) -> Any:
        settings = self.__dict__.get("settings", {})  # as given to tilelang.jit: target, out_idx, …
        if name not in settings:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return settings[name]

    signature = property(lambda self: inspect.signature(self.func), doc="Of the function.")
    func_source = property(lambda self: inspect.getsource(self.func), doc="The text of the function.")

    @property
    def mode(self) -> str:
        """ "eager" for a kernel, "lazy" for a factory of kernels."""
        return "eager" if self.is_eager else "lazy"

    def is_lazy_mode(self) -> bool:
        """Whether it is a factory of kernels."""
        return not self.is_eager

    def initialize_jit_mode(self, *args: Any, **kwargs: Any) -> str:
        """Its mode, which is known without arguments."""
        return self.mode

    def parse_cache_key(self, *args: Any, **kwargs: Any) -> tuple:
        """What these arguments are, by value, as a key."""
        bound = self.signature.bind_partial(*args, **kwargs).arguments
        return tuple([(name, key_of_argument(value, self.func, name)) for name, value in bound.items()])

    def parse_args(self, *args: Any, **kwargs: Any) -> tuple[tuple, dict[str, Any]]:
        """What these arguments are, as a key (parse_cache_key), and what a launch would pass, by name.

        That are the tensors of an eager kernel, nothing for a factory.  TypeError, in Python's words, if the
        arguments do not fit."""
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        passed = self._passed_by_name(bound.arguments)
        built = {name: x for name, x in bound.arguments.items() if name not in passed}
        key = tuple([(name, key_of_argument(value, self.func, name)) for name, value in built.items()])
        return key, passed

    def _passed_by_name(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {}

    def __getitem__(self, grid: Any) -> Any:
        raise launched_in_brackets(self.__name__)

    def with_settings(self, new: dict[str, Any]) -> Any:
        """The same function with these settings beside its own, as for another target."""
        settings = {**self.settings, **new}
        return self._again(settings) if settings != self.settings else self

    def _again(self, settings: dict[str, Any]) -> JITImpl:
        return JITImpl(func=self.func, **settings)

    def __call__(self, *args: Any, **kwargs: Any) -> JITKernel:
        """The kernel for these arguments of the factory."""
        key = self._memo_key(args, kwargs)
        if key is None:
            return compile(self.get_tir(*args, **kwargs), **self.settings)
        found = self._kernels.get(key)
        if found is not None:
            return found
        if self._captures.refresh():
            self._kernels.clear()
            key = self._memo_key(args, kwargs)
        with self._making.setdefault(key, threading.Lock()):
            if key not in self._kernels:
                self._kernels[key] = compile(self.get_tir(*args, **kwargs), **self.settings)
            return self._kernels[key]

    compile = __call__

    def get_tir(self, *args: Any, **kwargs: Any) -> PrimFunc:
        """The prim_func for these arguments, not compiled."""
        try:
            made = self.func(*args, **kwargs)
        except (ArrayForNumber, TypeError, ValueError, RuntimeError) as error:
            refused = self._given_arrays(args, kwargs)
            if refused is None:
                raise
            raise refused from error
        if isinstance(made, PrimFunc):
            return made
        name, code = self.func.__name__, self.func.__code__
        place = (code.co_filename, code.co_firstlineno, 1, code.co_firstlineno, 1)
        kernel = style.kernel_in(self.func) if made is None else None
        if kernel is not None:
            raise compile_error(
                f"'{name}' defines the kernel '{kernel}' but returns nothing: end it with `return {kernel}`",
                place,
            )
        raise compile_error(
            f"'{name}' returned {kind_of(made)}, not a @T.prim_func; if "
            "its own body is the kernel, it annotates its tensors there (A: T.Tensor(shape, "
            "dtype)) and opens a T.Kernel",
            place,
        )

    def _given_arrays(self, args: tuple, kwargs: dict[str, Any]) -> Exception | None:
        """The error of a call that gives the factory the arrays which its kernel takes; None for others."""
        named = [*zip(self._parameters, args, strict=False), *kwargs.items()]
        arrays = [f"{name} is an array ({type(x).__name__})" for name, x in named if is_array(x)]
        if not arrays:
            return None
        name = self.func.__name__
        takes = ", ".join(self._parameters)
        return compile_error(
            f"'{name}' is a factory: it takes what the kernel is built with, but "
            f"{', '.join(arrays)}; call it with numbers, kernel = {name}({takes}), and what "
            "it returns with the arrays, kernel(x, …)",
            caller_place(),
            ArrayForNumber,
        )

    def get_kernel_source(self, *args: Any, **kwargs: Any) -> str:
        """The generated text of the kernel for these arguments (as in compile)."""
        return self.compile(*args, **kwargs).get_kernel_source()

    def par_compile(
        self, configs: Any, num_workers: int | None = None, ignore_error: bool = False
    ) -> list[JITKernel | None]:
        """The kernels for several sets of arguments (dicts by name, or tuples), compiled on a pool of
        threads."""
        return _compile_all(self.compile, configs, num_workers, ignore_error)

    def _memo_key(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """By the values of the arguments and of what the factory captures; None for values without a hash."""
        given = {**dict(zip(self._parameters, args, strict=False)), **kwargs}
        if len(given) != len(args) + len(kwargs):
            return None  # too many, or one twice: Python will say so
        named = {**self._defaults, **given}
        try:
            arguments = tuple(
                [(name, key_of_argument(named[name], self.func, name)) for name in sorted(named)]
            )
            if self._captures is None:
                self._captures = Captures(self.func)
            return (arguments, self._captures.key())
        except TypeError:
            return None
