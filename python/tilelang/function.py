"""`@T.prim_func` and `@T.macro`: functions that are kernels, and functions that kernels call; tensor
parameters.
"""

from __future__ import annotations

import ast
import sys
from types import FunctionType
from typing import Any

from . import _core
from . import dtypes as _dtypes
from .activation import Activation
from .errors import CompileError, compile_error
from .foreign import ptr
from .parse import Rewritten, rewrite, site_of
from .trace import Trace, current, fail
from .values import Dynamic, Element, as_value


class _TensorType(type):
    def __getitem__(cls, key: Any) -> Tensor:
        if not isinstance(key, tuple) or len(key) != 2:
            raise fail("T.Tensor[shape, dtype] takes a shape and a dtype")
        return cls(*key)


class Tensor(metaclass=_TensorType):
    """A parameter in global memory: `A: T.Tensor((M, K), "float16")`, or `T.Tensor[[M, K], T.float16]`.

    shape: extents in elements; dtype: of an element; strides: in elements, row-major without gaps if left
    out.
    """

    __slots__ = ("shape", "dtype", "strides")

    def __init__(self, shape: Any, dtype: Any = "float32", data: Any = None, strides: Any = None) -> None:
        if data is not None:
            raise fail("T.Tensor: data is not in this version yet")
        self.shape = _extents(shape, "shape", 0)
        self.dtype = _dtypes.as_dtype(dtype)
        self.strides = None if strides is None else _extents(strides, "strides", 0)
        if self.strides is not None and len(self.strides) != len(self.shape):
            raise fail(f"T.Tensor: {len(self.shape)} extents but {len(self.strides)} strides")


def _extents(value: Any, what: str, least: int) -> tuple:
    items = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    result = []
    for item in items:
        if isinstance(item, (Dynamic, _core.Expr)):
            result.append(item)
        elif isinstance(item, bool) or not hasattr(item, "__index__"):
            raise fail(f"T.Tensor: {what} must be integers, got {item!r}")
        elif item.__index__() < least:
            raise fail(f"T.Tensor: {what} {tuple(items)} has {item}, which is less than {least}")
        else:
            result.append(item.__index__())
    return tuple(result)


def Buffer(shape: Any, dtype: Any = "float32", data: Any = None, strides: Any = None) -> Tensor:
    """The same as Tensor."""
    return Tensor(shape, dtype, data, strides)


def StridedTensor(shape: Any, strides: Any, dtype: Any = "float32") -> Tensor:
    """A parameter in global memory with the given strides, in elements."""
    return Tensor(shape, dtype, strides=strides)


class PrimFunc:
    """A traced kernel: parameters and body at tile level, ready for `tilelang.compile`."""

    def __init__(self, fn: FunctionType, frame: Any) -> None:
        self.__name__ = self.name = fn.__name__
        self.__doc__ = fn.__doc__
        self.__wrapped__ = fn
        self.defaults = defaults_of(fn)
        try:
            self.function: _core.Function = _trace(fn, frame)
        except CompileError as error:
            raise error.with_traceback(None) from None  # the error says where; our frames would only hide it

    @property
    def params(self) -> list[dict[str, Any]]:
        """The parameters: name, is_tensor, dtype, shape."""
        return self.function.params

    @property
    def text(self) -> str:
        """The program as text IR."""
        return self.function.text()

    def script(self) -> str:
        """The program as text IR."""
        return self.text

    def __str__(self) -> str:
        return self.text

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise fail(f"'{self.name}' is a prim_func, not yet compiled: tilelang.compile({self.name})(...)")


def defaults_of(fn: FunctionType) -> dict[str, Any]:
    """The parameters of a function that have default values, with these."""
    code, values = fn.__code__, fn.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    return {**dict(zip(names[len(names) - len(values) :], values, strict=True)), **(fn.__kwdefaults__ or {})}


def _trace(fn: FunctionType, frame: Any) -> _core.Function:
    new = rewrite(fn)
    trace = Trace(fn.__name__)
    with trace:
        trace.at(new.file, new.site)
        args = trace.parameters = [_parameter(trace, new, arg, fn, frame) for arg in new.parameters]
        trace.at(new.file, new.site)
        n = fn.__code__.co_argcount
        named = {arg.arg: value for arg, value in zip(new.parameters[n:], args[n:], strict=True)}
        new.run_with(fn, Activation(trace, new.file, is_macro=False))(*args[:n], **named)
        trace.at(new.file, new.site)
        return trace.builder.finish()


_SCALARS = (int, float, bool)


def _parameter(trace: Trace, new: Rewritten, arg: ast.arg, fn: FunctionType, frame: Any) -> Any:
    trace.at(new.file, site_of(arg))
    if arg.annotation is None:
        raise fail(f"parameter '{arg.arg}' has no annotation: write {arg.arg}: T.Tensor(shape, dtype), or a "
                   "scalar dtype such as T.float32")
    kind = fn.__annotations__.get(arg.arg)
    if isinstance(kind, str):
        kind = _evaluate(arg.annotation, new.file, fn, frame)
    trace.at(new.file, site_of(arg))
    if isinstance(kind, Tensor):
        strides = None if kind.strides is None else [as_value(n) for n in kind.strides]
        return trace.builder.tensor(arg.arg, [as_value(n) for n in kind.shape], kind.dtype, strides)
    if kind is Tensor:
        raise fail(f"{arg.arg}: T.Tensor without shape and dtype (taken from the argument) is not in this "
                   "version yet")
    if kind is ptr or isinstance(kind, ptr):
        return trace.builder.pointer(arg.arg)
    if isinstance(kind, _core.DType) or any(kind is scalar for scalar in _SCALARS):
        return trace.builder.scalar(arg.arg, _dtypes.as_dtype(kind))
    raise fail(f"the annotation of '{arg.arg}' must be T.Tensor(shape, dtype) or a scalar dtype, not "
               f"{kind!r}")


def _evaluate(node: ast.expr, file: str, fn: FunctionType, frame: Any) -> Any:
    """An annotation that Python left as a string, in the scopes where it was written."""
    scope = _scope(fn, frame)
    try:
        value: Any = node
        while isinstance(value, (ast.expr, str)):
            if isinstance(value, str):
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
        raise compile_error(f"this annotation cannot be evaluated: {type(error).__name__}: {error}",
                            (file, *site_of(node))) from None


def _scope(fn: FunctionType, frame: Any) -> dict[str, Any]:
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


def prim_func(func: FunctionType | None = None, *, eager_jit: bool = False) -> Any:
    """Make a function a kernel: its text is traced at once; the result is what `tilelang.compile` takes.

    Every parameter is annotated: T.Tensor(shape, dtype), or a scalar dtype (T.float32, int, float, bool).
    """
    if eager_jit:
        raise fail("T.prim_func(eager_jit=True): the eager dialect is not in this version yet")
    if func is None:
        return lambda f: PrimFunc(_function(f, "T.prim_func"), sys._getframe(1))
    return PrimFunc(_function(func, "T.prim_func"), sys._getframe(1))


def _function(func: Any, what: str) -> FunctionType:
    if isinstance(func, FunctionType):
        return func
    raise fail(f"@{what} decorates a function, not a {type(func).__name__}")


class Macro:
    """A function that kernels call and that is built in place; see `macro`."""

    def __init__(self, fn: FunctionType) -> None:
        self.__name__ = fn.__name__
        self.__doc__ = fn.__doc__
        self.__wrapped__ = fn
        self.rewritten = rewrite(fn)
        for arg in self.rewritten.parameters:
            if arg.annotation is not None and any(_is_ref(node) for node in ast.walk(arg.annotation)):
                raise compile_error("T.Ref: not in this version yet (macro arguments by reference: pass a "
                                    "buffer)",
                                    (self.rewritten.file, *site_of(arg)))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        return lambda *args, **kwargs: self(instance, *args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        trace = current()
        if trace is None:
            raise fail(f"the macro '{self.__name__}' can only be called from a kernel")
        activation = Activation(trace, self.rewritten.file, is_macro=True)
        names = [arg.arg for arg in self.rewritten.parameters]
        values = [_argument(activation, name, value) for name, value in zip(names, args, strict=False)]
        values += args[len(names) :]
        named = {name: _argument(activation, name, value) for name, value in kwargs.items()}
        return self.rewritten.run_with(self.__wrapped__, activation)(*values, **named)


def _argument(activation: Activation, name: str, value: Any) -> Any:
    return value if value.__class__ is Element else activation.settle(name, value)


def _is_ref(node: ast.AST) -> bool:
    return "Ref" in (getattr(node, "attr", None), getattr(node, "id", None))


def macro(func: FunctionType | None = None) -> Any:
    """Make a function one that kernels call: its body becomes part of the kernel at each call.

    Arguments are passed by value (buffers and Python values as they are; `A[i, j]` stays the place of a
    tile).  It may return a value, or a tuple, at its end.
    """
    if func is None:
        return macro
    return Macro(_function(func, "T.macro"))

__all__ = [
    "Buffer", "StridedTensor", "Tensor", "macro", "prim_func",
]  # fmt: skip
