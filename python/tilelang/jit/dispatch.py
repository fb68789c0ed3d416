"""Calls of eager functions: which kernel a call wants, found by what the trace of that kernel read.

A key has two parts.  The first is known before the trace: the values of the parameters that are not tensors,
what the function captures, the kind of device.  The second is what the trace read of the tensors, in order:
extents and strides that bind T.const names, shape and dtype of a bare T.Tensor.  A trace is a function of
both, so a call that agrees in the first part, and in the second with all that one trace read, wants the
kernel of that trace.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable
from itertools import chain
from types import FunctionType
from typing import Any

from .. import _core
from ..front import interop
from ..front.errors import caller_place, compile_error
from ..front.parse import rewrite, site_of
from . import config, eager
from .captures import Captures, key_of_argument
from .factory import JITImpl
from .function import PrimFunc, defaults_of
from .kernel import JITKernel, compile


class _Plan:
    """What traces read of the arguments, and the kernels by the values that they read there."""

    __slots__ = ("reads", "read", "kernels")

    def __init__(self, reads: tuple, positions: dict[str, int]) -> None:
        self.reads = reads
        self.read: Callable[[tuple], tuple] = _reader(reads, positions)
        self.kernels: dict[tuple, JITKernel] = {}


_MOST_TRACES = 32  # of one call
_FORMS = {"shape": "a[{0}].shape[{1}],", "stride": "strides(a[{0}])[{1}],", "whole": "*whole(a[{0}]),"}


def _reader(reads: tuple, positions: dict[str, int]) -> Callable[[tuple], tuple]:
    """arguments -> what `reads` says, as a tuple; one expression, as it stands in the path of every call."""
    parts = "".join(_FORMS[kind].format(positions[name], d) for name, kind, d in reads)
    names = {"strides": interop.strides_of, "whole": lambda a: (tuple(a.shape), str(a.dtype))}
    return eval(f"lambda a: ({parts})", names)


class EagerImpl(_core.CallCache, JITImpl):
    """A kernel in the eager dialect: calling it with tensors compiles it for them, once, and runs it.

    CallCache stands in front: it runs calls that it has seen, and hands over the others to `_call`.
    """

    is_eager = True

    def __init__(self, func: FunctionType, settings: dict[str, Any], scope: dict[str, Any],
                 runtime: list[str], in_body: frozenset) -> None:
        if settings["out_idx"] is not None:
            raise compile_error(f"out_idx: '{func.__name__}' is an eager kernel (there is no @T.prim_func in "
                                "it), which returns its outputs: C = T.empty(shape, dtype) and return C",
                                caller_place())
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
        _core.CallCache.__init__(self, self._names, self._defaults, self._runtime)
        self._captures: Captures | None = None
        self._follows: bool | None = None              # whether the target is that of the tensors
        self._plans: dict[Any, list[_Plan]] = {}
        self._guard = threading.Lock()
        self._making: dict[Any, threading.Lock] = {}   # two threads never compile the same kernel

    def _again(self, settings: dict[str, Any]) -> EagerImpl:
        runtime = [self._names[i] for i in self._runtime]
        return EagerImpl(self.func, settings, self._scope, runtime, self._in_body)

    def __repr__(self) -> str:
        return f"<eager kernel {self.func.__name__}({', '.join(self._names)})>"

    # ── the call ──────────────────────────────────────────────────────────────────────────────────────

    def _call(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A call whose form CallCache does not know, or which it leaves to Python."""
        values, constants = self._bind(args, kwargs)
        kernel = self._find(values, self._key(values, self._partial(values, constants))) \
            or self._make(values, constants)
        return kernel(*[values[i] for i in self._passed(values)])

    def _find(self, args: tuple, key: Any) -> JITKernel | None:
        """The kernel for these arguments, if there is one."""
        for plan in self._plans.get(key, ()):
            try:
                found = plan.kernels.get(plan.read(args))
            except Exception:
                continue  # not the tensors that this plan is about; the trace will say what is wrong
            if found is not None:
                return found
        return None

    def _key(self, args: tuple, partial: tuple) -> Any:
        """The part of the key that is known before the trace; None for values without a hash.

        partial: which tensors are missing, and what compile knows instead of them.
        """
        if self._captures is None:
            self._captures = Captures(self.func, rewrite(self.func).code, self._scope)
            self.forget(self._watches())
            self._follows = config.target_text(self.settings["target"]) == "auto"
        device = interop.device_kind([args[i] for i in self._runtime]) if self._follows else None
        try:
            static = tuple([key_of_argument(args[i], self.func, self._names[i]) for i in self._static])
            return (device, partial, static, self._captures.key())
        except TypeError:
            return None

    def _passed(self, args: tuple) -> list[int]:
        """The parameters that the launch passes; a tensor whose default is None may be None, a value."""
        return [i for i in self._runtime if args[i] is not None or i not in self._optional]

    def _partial(self, args: tuple, constants: dict[str, int]) -> tuple:
        without = [(i, args[i] is None) for i in self._runtime if args[i] is eager.ABSENT
                   or (args[i] is None and i in self._optional)]
        return (*without, *sorted(constants.items()))

    def _watches(self) -> list[tuple]:
        return [(watch.holder, watch.name, watch.attributes) for watch in self._captures.watches]

    # ── compilation ───────────────────────────────────────────────────────────────────────────────────

    def compile(self, *args: Any, **kwargs: Any) -> JITKernel:
        """The kernel for these arguments, not run.

        Tensors as in a call; or, where shapes alone matter, the T.const names by keyword: f.compile(M=…,
        N=…).
        """
        values, constants = self._bind_some(args, kwargs)
        return self._find(values, self._key(values, self._partial(values, constants))) \
            or self._make(values, constants)

    def get_tir(self, *args: Any, **kwargs: Any) -> PrimFunc:
        """The traced program for these arguments (as in compile), not compiled."""
        values, constants = self._bind_some(args, kwargs)
        return self._trace(values, constants)[0]

    def get_kernel_source(self, *args: Any, **kwargs: Any) -> str:
        """The generated text of the kernel for these arguments (as in compile)."""
        return self.compile(*args, **kwargs).get_kernel_source()

    def _make(self, args: tuple, constants: dict[str, int]) -> JITKernel:
        self._check_tensors(args)
        if self._captures.refresh():
            self._plans.clear()
            self.forget(self._watches())
        key = self._key(args, self._partial(args, constants))
        if key is None:
            return self._compile(args, constants)[0]
        tensors = [args[i] for i in self._runtime]
        exact = (key, *[str(getattr(a, "shape", None)) + str(getattr(a, "dtype", None)) for a in tensors])
        with self._making.setdefault(exact, threading.Lock()):
            found = self._find(args, key)
            if found is not None:
                return found
            kernel, reads = self._compile(args, constants)
            with self._guard:
                plans = self._plans.setdefault(key, [])
                plan = next((p for p in plans if p.reads == reads), None)
                if plan is None:
                    plan = _Plan(reads, self._positions)
                    plans.append(plan)
                plan.kernels[plan.read(args)] = kernel
                same = self._key(args, self._partial(args, constants)) == key  # the trace ran the user's code
                if same and kernel.__class__ is JITKernel and not self._partial(args, {}):
                    where = [(self._positions[name], kind, d) for name, kind, d in reads]
                    with contextlib.suppress(TypeError):  # values that Python has to look at in each call
                        self.remember((*args, *chain(*constants.items())), where, kernel, self._runtime)
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

    # ── arguments ─────────────────────────────────────────────────────────────────────────────────────

    def _bind(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, int]]:
        """One value for each parameter, by position, name or default; and T.const names, the other keywords.
        """
        values, constants = self._bind_some(args, kwargs)
        missing = [self._names[i] for i, value in enumerate(values) if value is eager.ABSENT]
        if missing:
            raise TypeError(f"{self.func.__name__} takes {len(self._names)} arguments "
                            f"({', '.join(self._names)}): {', '.join(missing)} missing")
        return values, constants

    def _bind_some(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, int]]:
        """The same, with ABSENT for tensors that are not given."""
        if len(args) > self._positional_count:
            raise TypeError(f"{self.func.__name__} takes {len(self._names)} arguments "
                            f"({', '.join(self._names)}): got {len(args) + len(kwargs)}")
        given = dict(zip(self._names, args, strict=False))
        constants = {}
        for name, value in kwargs.items():
            if name in given:
                raise TypeError(f"{self.func.__name__}: '{name}' is given twice")
            if name in self._positions:
                given[name] = value
            elif hasattr(value, "__index__"):
                constants[name] = value.__index__()
            else:
                raise TypeError(f"{self.func.__name__}: '{name}' is unexpected (it takes "
                                f"{', '.join(self._names)})")
        values = []
        for i, name in enumerate(self._names):
            value = given.get(name, self._defaults.get(name, eager.ABSENT))
            if value is eager.ABSENT and i in self._static:
                raise TypeError(f"{self.func.__name__}: {name} is missing, a value that the kernel is built "
                                "with")
            values.append(value)
        return tuple(values), constants

    def _check_tensors(self, args: tuple) -> None:
        for i in self._static:
            given = args[i]
            if interop.is_tensor(given) and not isinstance(given, type) and getattr(given, "ndim", 0):
                name, definition = self._names[i], rewrite(self.func)
                where = next(site_of(arg) for arg in definition.parameters if arg.arg == name)
                raise compile_error(f"a tensor is passed for {name}, but no annotation says so: write "
                                    f"{name}: T.Tensor(shape, dtype), here or in the body",
                                    (definition.file, *where))
        for i in self._passed(args):
            given = args[i]
            strange = interop.library_of(given) == "torch" and interop.what_else(given)
            if strange:
                raise TypeError(f"{self.func.__name__}: argument {i} '{self._names[i]}' is {strange}")
            if not (given is eager.ABSENT or hasattr(given, "shape") or isinstance(given, (int, float))):
                raise TypeError(f"{self.func.__name__}: argument {i} '{self._names[i]}' is a "
                                f"{type(args[i]).__name__}; a tensor was expected")
