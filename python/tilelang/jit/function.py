"""Functions that are kernels: `@T.prim_func`, and the trace that it shares with the eager dialect; tensor
parameters."""

from __future__ import annotations

import ast
import functools
import warnings
from types import FunctionType
from typing import Any

from .. import _core
from ..front import dtypes as _dtypes
from ..front import loose
from ..front.activation import Activation
from ..front.addresses import Handle, handle
from ..front.annotations import Tensor, ptr
from ..front.errors import CompileError, TilelangWarning, compile_error, names_bound
from ..front.misuse import add_cure, launched_in_brackets
from ..front.parse import site_of
from ..front.results import Results
from ..front.rewritten import Rewritten, rewrite_kernel
from ..front.trace import Trace, fail
from ..front.values import as_value
from .parameters import KernelParam, of_rows


class PrimFunc:
    """A traced kernel: parameters and body at tile level, ready for `tilelang.compile`."""

    said = "a @T.prim_func"

    def __init__(self, fn: FunctionType, scope: dict[str, Any], eager: Any = None) -> None:
        """Traces `fn`.  scope: names that its annotations may use beyond those that it sees itself; eager:
        gives the Session for a trace, if `fn` is written in the eager dialect."""
        self.__name__ = self.name = fn.__name__
        self.__doc__ = fn.__doc__
        self.__wrapped__ = fn
        self.defaults = defaults_of(fn)
        self.call_order: list[str] | None = None  # of the arguments, where it is not that of the parameters
        self.results: Any = None  # what it returns, where the body makes tensors or returns any
        self.attrs: dict[str, Any] = {"global_symbol": self.name}
        self.span = (fn.__code__.co_filename, fn.__code__.co_firstlineno)
        try:
            self.function: _core.Function = self._trace(fn, scope, eager)
        except CompileError as error:
            raise error.with_traceback(None) from None  # the error says where; our frames would only hide it
        for place, text in dict.fromkeys(self.function.infinite_constants):
            warnings.warn_explicit(text, TilelangWarning, *(place or self.span)[:2])

    def _trace(self, fn: FunctionType, scope: dict[str, Any], eager: Any) -> _core.Function:
        new = rewrite_kernel(fn)
        trace = Trace(fn.__name__)
        self.breakpoints, self.large, self.texts = trace.breakpoints, trace.large, trace.texts
        with trace:
            trace.read(new.text)
            trace.at(new.file, new.site)
            if eager is not None:
                trace.eager = eager(trace)
            args = trace.parameters = [_parameter(trace, new, arg, fn, scope) for arg in new.parameters]
            trace.at(new.file, new.site)
            n = fn.__code__.co_argcount
            named = {arg.arg: value for arg, value in zip(new.parameters[n:], args[n:], strict=True)}
            activation = Activation(trace, new.file, is_macro=False)
            trace.activations.append(activation)
            try:
                with names_bound(new.code, new.bound):
                    new.run_with(fn, activation, scope)(*args[:n], **named)
            except NameError as error:
                add_cure(error)
                raise
            trace.at(new.file, new.site)
            loose.check_all_known(trace)
            if eager is not None:
                trace.eager.check_complete(new)
            handles = [x for x in args if isinstance(x, Handle)]
            for unused in [x for x in handles if x.made is None]:
                unused.load()
            if handles:  # they became parameters when the body said what they are
                trace.builder.order_params([arg.arg for arg in new.parameters])
            if trace.outputs or trace.returns is not None:
                self.results = Results(trace)
            self.attrs.update(trace.attrs)
            self.pass_configs, self.compile_flags = trace.pass_configs, trace.compile_flags
            if trace.launches == 0 and not trace.outputs:
                _add_no_work(trace)
            made = trace.builder.finish()
            _warn_of_rebound(trace, made)
            return made

    @functools.cached_property
    def params(self) -> list[KernelParam]:
        """The parameters, in order."""
        return of_rows(self.function.params)

    @property
    def buffer_map(self) -> dict[KernelParam, KernelParam]:
        """The tensors among the parameters, each by itself: it has name, dtype and shape."""
        return {param: param for param in self.params if param.is_tensor}

    body = property(
        lambda self: self.text.partition("\n")[2], doc="The text IR without the line of the signature."
    )

    ret_type = None  # a kernel gives no value

    orig_func = property(lambda self: self.__wrapped__, doc="The function as it was written.")

    def show(self, *_: Any, **__: Any) -> None:
        """Print the text IR; what is said about its style is not followed."""
        print(self.text)

    def _copied(self) -> PrimFunc:
        import copy

        return copy.copy(self)

    def with_attr(self, attr_key_or_dict: Any, attr_value: Any = None) -> PrimFunc:
        """The same with another attribute, or those of a dict: they are kept in `attrs`, without effect."""
        given = attr_key_or_dict
        made = self._copied()
        made.attrs = {**self.attrs, **(given if isinstance(given, dict) else {given: attr_value})}
        return made

    def with_attrs(self, attr_map: dict[str, Any]) -> PrimFunc:
        """The same with these attributes."""
        return self.with_attr(dict(attr_map))

    def without_attr(self, attr_key: str) -> PrimFunc:
        """The same without an attribute."""
        made = self._copied()
        made.attrs = {key: value for key, value in self.attrs.items() if key != attr_key}
        return made

    def specialize(self, param_map: Any) -> PrimFunc:
        """Refused: what is to be constant is a parameter of the function that makes the kernel."""
        raise fail(
            f"{self.name}.specialize: a prim_func is traced already; make what is to be constant a "
            "parameter of the function around it, def factory(n): …, and call that with the number"
        )

    text = property(lambda self: self.function.text(), doc="The program as text IR.")

    def script(self) -> str:
        """The program as text IR."""
        return self.text

    def __str__(self) -> str:
        return self.text

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise fail(f"'{self.name}' is a prim_func, not yet compiled: tilelang.compile({self.name})(...)")

    def __getitem__(self, grid: Any) -> Any:
        raise launched_in_brackets(self.name, compiled=False)


def _add_no_work(trace: Trace) -> None:
    """A function without a kernel leaves its tensors as they are: so does a kernel of one block."""
    warnings.warn_explicit(
        "this function has no T.Kernel, so that a call changes nothing: write `with T.Kernel(…):` around "
        "what the device is to do",
        TilelangWarning,
        trace.file,
        trace.site[0],
    )
    trace.builder.begin_kernel([1], None, {}, ["bx"])
    trace.builder.end_kernel()


def _warn_of_rebound(trace: Trace, made: _core.Function) -> None:
    """Say so where a tensor has lost its name before anything was done with it."""
    if not trace.rebound:
        return
    used = {row["name"]: used for row, used in zip(made.params, made.used, strict=True)}
    for name, text, line in trace.rebound:
        if not used.get(name, True):
            warnings.warn_explicit(
                f"{text}; nothing in this kernel uses it", TilelangWarning, trace.file, line
            )


def defaults_of(fn: FunctionType) -> dict[str, Any]:
    """The parameters of a function that have default values, with these."""
    code, values = fn.__code__, fn.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    return {**dict(zip(names[len(names) - len(values) :], values, strict=True)), **(fn.__kwdefaults__ or {})}


_SCALARS = (int, float, bool)


def _parameter(trace: Trace, new: Rewritten, arg: ast.arg, fn: FunctionType, scope: dict[str, Any]) -> Any:
    trace.at(new.file, site_of(arg))
    if trace.eager is not None:
        made = trace.eager.parameter(arg.arg, lambda: _annotation(trace, new, arg, fn, scope))
        if made is not NotImplemented:  # nothing that only the eager dialect has
            return made
    if arg.annotation is None and arg.arg in ("self", "cls") and arg is new.parameters[0]:
        raise fail(
            f"a prim_func cannot be a method: define it in a method, whose '{arg.arg}' it sees, and return "
            "it from there; or make the method itself a kernel by @tilelang.jit"
        )
    if arg.annotation is None:
        raise fail(
            f"parameter '{arg.arg}' has no annotation: write {arg.arg}: T.Tensor(shape, dtype), or a "
            "scalar dtype such as T.float32"
        )
    made = _declared(trace, arg, _annotation(trace, new, arg, fn, scope))
    if trace.eager is not None:
        trace.eager.made[arg.arg] = made
    return made


def _declared(trace: Trace, arg: ast.arg, kind: Any) -> Any:
    if isinstance(kind, Tensor):
        strides = None if kind.strides is None else [as_value(n) for n in kind.strides]
        shape = [as_value(n) for n in kind.shape]
        return trace.of_lanes(trace.builder.tensor(arg.arg, shape, kind.dtype, strides), kind.lanes)
    if isinstance(kind, type) and issubclass(kind, Tensor):
        raise fail(
            f"{arg.arg}: a prim_func is traced before it is called, so that T.{kind.__name__} needs "
            "its shape and dtype; they are taken from the argument in an eager function, "
            "@tilelang.jit on the kernel itself"
        )
    if kind is handle or isinstance(kind, handle):
        return Handle(trace, arg.arg)
    if kind is ptr or isinstance(kind, ptr):
        return trace.builder.pointer(arg.arg)
    if isinstance(kind, _dtypes.DType) or any(kind is scalar for scalar in _SCALARS):
        return trace.builder.scalar(arg.arg, _dtypes.as_dtype(kind))
    raise fail(
        f"the annotation of '{arg.arg}' must be T.Tensor(shape, dtype) or a scalar dtype, not {kind!r}"
    )


def _annotation(trace: Trace, new: Rewritten, arg: ast.arg, fn: FunctionType, scope: dict[str, Any]) -> Any:
    kind = fn.__annotations__.get(arg.arg)
    if kind.__class__ is str:
        kind = evaluate_annotation(arg.annotation, new.file, fn, scope)
    trace.at(new.file, site_of(arg))
    return kind


def evaluate_annotation(node: ast.expr, file: str, fn: FunctionType, scope: dict[str, Any]) -> Any:
    """An annotation that Python left as a string, in the scopes where it was written."""
    try:
        value: Any = node
        while isinstance(value, ast.expr) or value.__class__ is str:
            if value.__class__ is str:
                value = ast.parse(value.strip(), mode="eval").body
                for part in ast.walk(value):
                    ast.copy_location(part, node)
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                value = value.value
                continue
            value = eval(compile(ast.Expression(value), file, "eval"), fn.__globals__, scope)
        return value
    except CompileError:
        raise
    except Exception as error:
        raise compile_error(
            f"this annotation cannot be evaluated: {type(error).__name__}: {error}", (file, *site_of(node))
        ) from None


def scope_of(fn: FunctionType, frame: Any) -> dict[str, Any]:
    """The local names that the text of `fn` sees: of the enclosing functions that are still running."""
    layers = []
    code = fn.__code__
    while frame is not None:
        if any(const is code for const in frame.f_code.co_consts):
            layers.append(frame.f_locals)
            code = frame.f_code
        frame = frame.f_back
    scope: dict[str, Any] = {}
    for layer in reversed(layers):
        scope.update(layer)
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            scope[name] = cell.cell_contents
        except ValueError:
            continue  # not bound yet; then the annotation cannot use it either
    return scope
