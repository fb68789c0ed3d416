"""Calls of eager functions: which kernel a call wants, found by what the trace of that kernel read.

A key has two parts.  The first is known before the trace: the values of the parameters that are not tensors,
what the function captures, which tensors are given, and where they live.  The second is what the trace read
of the tensors: extents and strides that bind T.const names, shape and dtype of a bare T.Tensor.  A trace is a
function of both, so a call that agrees in the first part, and in the second with all that one trace read,
wants the kernel of that trace.  Keys are made and compared by _core.CallCache."""

from __future__ import annotations

import functools
import threading
from itertools import chain
from types import FunctionType
from typing import Any

from .. import _core
from ..front import interop
from ..front.errors import caller_place, compile_error
from ..front.parse import site_of
from ..front.rewritten import rewrite_kernel
from . import binding, config, eager
from .captures import Captures, key_of, key_of_argument
from .factory import JITImpl
from .function import PrimFunc, defaults_of
from .kernel import JITKernel, compile

_MOST_TRACES = 32  # of one call


def _rule(fn: FunctionType, names: tuple[str, ...], value: Any, place: int) -> Any:
    """What counts of an object in a key: of an argument, or (place -1) of what is captured or part of one."""
    return key_of(value, fn) if place < 0 else key_of_argument(value, fn, names[place])


class EagerImpl(_core.CallCache, JITImpl):
    """A kernel in the eager dialect: calling it with tensors compiles it for them, once, and runs it.

    CallCache stands in front: it runs calls that it has seen, and hands over the others to `_call`."""

    is_eager = True

    def __init__(
        self,
        func: FunctionType,
        settings: dict[str, Any],
        scope: dict[str, Any],
        runtime: list[str],
        in_body: frozenset,
    ) -> None:
        if settings["out_idx"] is not None:
            raise compile_error(
                f"out_idx: '{func.__name__}' is an eager kernel (there is no @T.prim_func in "
                "it), which returns its outputs: C = T.empty(shape, dtype) and return C",
                caller_place(),
            )
        functools.update_wrapper(self, func)
        self.func, self.settings, self._scope, self._in_body = func, settings, scope, in_body
        code = func.__code__
        self._names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        self._positional_count = code.co_argcount
        self._runtime = [i for i, name in enumerate(self._names) if name in runtime]
        self._optional = [i for i in self._runtime if defaults_of(func).get(self._names[i], func) is None]
        self._static = [i for i in range(len(self._names)) if i not in self._runtime]
        self._positions = {name: i for i, name in enumerate(self._names)}
        self._defaults = defaults_of(func)
        rule = functools.partial(_rule, func, self._names)
        _core.CallCache.__init__(self, self._names, self._defaults, self._runtime, (), rule)
        self._captures: Captures | None = None
        self._follows: bool | None = None  # whether the target is that of the tensors
        self._making: dict[Any, threading.Lock] = {}  # two threads never compile the same kernel

    def _again(self, settings: dict[str, Any]) -> EagerImpl:
        runtime = [self._names[i] for i in self._runtime]
        return EagerImpl(self.func, settings, self._scope, runtime, self._in_body)

    def __repr__(self) -> str:
        return f"<eager kernel {self.func.__name__}({', '.join(self._names)})>"

    def _call(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A call whose form CallCache does not know, or which it leaves to Python."""
        values, constants = self._bind(args, kwargs)
        return self._kernel(values, constants)(*[values[i] for i in self._passed(values)])

    def _kernel(self, args: tuple, constants: dict[str, int]) -> JITKernel:
        """The kernel for these arguments, which is made if there is none."""
        return self.find((*args, *chain(*constants.items()))) or self._make(args, constants)

    def _passed(self, args: tuple) -> list[int]:
        """The parameters that the launch passes; a tensor whose default is None may be None, a value."""
        return [i for i in self._runtime if args[i] is not None or i not in self._optional]

    def _passed_by_name(self, arguments: dict[str, Any]) -> dict[str, Any]:
        values = tuple([arguments[name] for name in self._names])
        return {self._names[i]: values[i] for i in self._passed(values)}

    def compile(self, *args: Any, **kwargs: Any) -> JITKernel:
        """The kernel for these arguments, not run.

        Tensors as in a call; or, where shapes alone matter, the T.const names by keyword: f.compile(M=…,
        N=…)."""
        values, constants = self._bind_some(args, kwargs)
        return self._kernel(values, constants)

    def get_tir(self, *args: Any, **kwargs: Any) -> PrimFunc:
        """The traced program for these arguments (as in compile), not compiled."""
        values, constants = self._bind_some(args, kwargs)
        return self._trace(values, constants)[0]

    def _make(self, args: tuple, constants: dict[str, int]) -> JITKernel:
        self._check_tensors(args)
        changed = self._captures is None or self._captures.refresh()
        if self._captures is None:
            self._captures = Captures(self.func, rewrite_kernel(self.func).code, self._scope)
            self._follows = config.target_text(self.settings["target"]) == "auto"
        if changed:
            self.forget([(w.holder, w.name, w.attributes) for w in self._captures.watches])
        given = (*args, *chain(*constants.items()))
        try:
            key = self.key(given)
        except TypeError:  # values that nothing tells apart: a kernel for each call
            return self._compile(args, constants)[0]
        tensors = [args[i] for i in self._runtime]
        exact = (key, *[str(getattr(a, "shape", None)) + str(getattr(a, "dtype", None)) for a in tensors])
        with self._making.setdefault(exact, threading.Lock()):
            found = self.find(given)
            if found is not None:
                return found
            kernel, reads = self._compile(args, constants)
            if self.key(given) == key:  # else the trace ran the user's code, which changed what counts
                places = [(self._positions[name], kind, d) for name, kind, d in reads]
                self.remember(given, places, kernel, self._passed(args))
            return kernel

    def _compile(self, args: tuple, constants: dict[str, int]) -> tuple[JITKernel, tuple]:
        made, reads = self._trace(args, constants)
        settings = dict(self.settings)
        if self._follows:
            settings["target"] = interop.device_kind([args[i] for i in self._runtime]) or "auto"
        return compile(made, **settings), reads

    def _trace(self, args: tuple, constants: dict[str, int]) -> tuple[PrimFunc, tuple]:
        passed = self._passed(args)
        arguments = {self._names[i]: args[i] for i in passed}
        values = {name: args[i] for i, name in enumerate(self._names) if i not in passed}
        reads: dict[tuple, None] = {}
        todo: list[dict[str, int]] = [{}]  # what T.const names are guessed to be, above their annotations
        tried, refusal = [], None
        while todo and len(tried) < _MOST_TRACES:
            guesses = todo.pop(0)
            if guesses in tried:
                continue
            tried.append(dict(guesses))
            session = eager.Session(self.func, arguments, values, constants, self._in_body, guesses, reads)
            try:
                made = PrimFunc(self.func, self._scope, session.start)
            except Exception as error:
                if session.is_settled():
                    raise
                refusal = refusal or session.refusal or error
                todo[:0] = session.others
                continue
            if list(session.places) != list(arguments):
                made.call_order = list(arguments)
            return made, tuple(reads)
        raise refusal

    def _bind(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, int]]:
        """A value for each parameter, by position, name or default; and T.const names, the other keywords."""
        values, constants = self._bind_some(args, kwargs)
        missing = [self._names[i] for i, value in enumerate(values) if value is eager.ABSENT]
        if missing:
            raise binding.missing(self.func.__name__, self._names, missing)
        return values, constants

    def _bind_some(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, int]]:
        """The same, with ABSENT for tensors that are not given."""
        if len(args) > self._positional_count:
            raise binding.too_many(self.func.__name__, self._names, self._positional_count, len(args))
        given = dict(zip(self._names, args, strict=False))
        constants = {}
        for name, value in kwargs.items():
            if name in given:
                raise binding.twice(self.func.__name__, self._names, name)
            if name in self._positions:
                given[name] = value
            elif hasattr(value, "__index__"):
                constants[name] = value.__index__()
            else:
                raise binding.unexpected(self.func.__name__, self._names, name)
        values = []
        for i, name in enumerate(self._names):
            value = given.get(name, self._defaults.get(name, eager.ABSENT))
            if value is eager.ABSENT and i in self._static:
                what = ", a value that the kernel is built with"
                raise binding.missing(self.func.__name__, self._names, [name], what)
            values.append(value)
        return tuple(values), constants

    def _check_tensors(self, args: tuple) -> None:
        for i in self._static:
            given = args[i]
            if interop.is_tensor(given) and not isinstance(given, type) and getattr(given, "ndim", 0):
                name, definition = self._names[i], rewrite_kernel(self.func)
                where = next(site_of(arg) for arg in definition.parameters if arg.arg == name)
                raise compile_error(
                    f"a tensor is passed for {name}, but no annotation says so: write "
                    f"{name}: T.Tensor(shape, dtype), here or in the body",
                    (definition.file, *where),
                )
        for i in self._passed(args):
            given = args[i]
            strange = interop.library_of(given) == "torch" and interop.what_else(given)
            if strange:
                raise _core.ArgumentError(
                    f"{self.func.__name__}: argument {i} '{self._names[i]}' is {strange}"
                )
            if not (given is eager.ABSENT or hasattr(given, "shape") or isinstance(given, (int, float))):
                raise _core.ArgumentError(
                    f"{self.func.__name__}: argument {i} '{self._names[i]}' is a "
                    f"{type(args[i]).__name__}; a tensor was expected"
                )
