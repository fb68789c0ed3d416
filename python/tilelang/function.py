"""Functions that are kernels: `@T.prim_func`, and the trace that it shares with the eager dialect; tensor
parameters.
"""

from __future__ import annotations

import ast
import sys
from types import FunctionType
from typing import Any

from . import _core, loose
from . import dtypes as _dtypes
from .activation import Activation
from .errors import ArrayForNumber, CompileError, caller_place, compile_error, kind_of, names_bound
from .foreign import ptr
from .interop import is_array
from .parse import Rewritten, rewrite, site_of
from .symbols import Const
from .trace import Trace, fail
from .values import Dynamic, as_value


class _TensorType(type):
    def __getitem__(cls, key: Any) -> Tensor:
        if not isinstance(key, tuple) or len(key) < 2:
            raise fail(f"T.{cls.__name__}[...] takes a shape and a dtype: T.{cls.__name__}[[M, N], dtype]")
        if isinstance(key[0], (tuple, list)) or len(key) == 2:
            return cls(*key)
        return cls(key[:-1], key[-1])  # T.Tensor[M, N, dtype]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        data = args[2] if len(args) > 2 and cls is not StridedTensor else kwargs.get("data")
        if data is None:
            return super().__call__(*args, **kwargs)
        return _tensor_of(data, *args[:2], **{k: v for k, v in kwargs.items() if k != "data"})


class Data:
    """The elements of a buffer, `A.data`: what T.Tensor(shape, dtype, A.data) shows in another shape."""

    __slots__ = ("buffer",)

    def __init__(self, buffer: _core.Buffer) -> None:
        self.buffer = buffer

    def _refuse(self, *_: Any) -> Any:
        name = self.buffer.name
        raise compile_error(f"{name}.data is no address to reckon with: {name}[i] is an element, "
                            f"{name}[4:8] a part; "
                            f"foreign code takes T.access_ptr({name}, offset=4), the address of the element "
                            "4",
                            caller_place())

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __getitem__ = __setitem__ = __index__ = _refuse


_core.Buffer.data = property(Data, doc="The elements, for T.Tensor(shape, dtype, A.data).")


def _tensor_of(data: Any, shape: Any, dtype: Any = "float32", strides: Any = None) -> _core.Buffer:
    if not isinstance(data, Data):
        raise fail(f"T.Tensor: data is A.data of a tensor or tile A, not {type(data).__name__}")
    if strides is not None:
        raise fail("T.Tensor: what shows another buffer's data is row-major without gaps: leave strides out")
    from .operators import view

    return view(data.buffer, shape, dtype)


class Tensor(metaclass=_TensorType):
    """A parameter in global memory: `A: T.Tensor((M, K), "float16")`, or `T.Tensor[[M, K], T.float16]`.

    shape: extents in elements; dtype: of an element; strides: in elements, row-major without gaps if left
    out.  In a kernel T.Tensor(shape, dtype, A.data) is T.view(A, shape, dtype).  In an eager function extents
    and strides may be T.const names, and `A: T.Tensor` alone takes shape and dtype from the argument.
    """

    __slots__ = ("shape", "dtype", "strides")

    def __init__(self, shape: Any, dtype: Any = "float32", data: Any = None, strides: Any = None) -> None:
        self.shape = _extents(shape, "shape", 0)
        self.dtype = _dtypes.as_dtype(dtype)
        self.strides = None if strides is None else _extents(strides, "strides", 0)
        if self.strides is not None and len(self.strides) != len(self.shape):
            raise fail(f"T.Tensor: {len(self.shape)} extents but {len(self.strides)} strides")


def _extents(value: Any, what: str, least: int) -> tuple:
    items = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    result = []
    for item in items:
        if isinstance(item, (Dynamic, _core.Expr)) or isinstance(item, Const) and item.value is None:
            result.append(item)
        elif is_array(item):
            raise fail(f"T.Tensor: {what} must be integers, got an array ({type(item).__name__})",
                       ArrayForNumber)
        elif isinstance(item, bool) or not hasattr(item, "__index__"):
            raise fail(f"T.Tensor: {what} must be integers, got {item!r}")
        elif item.__index__() < least:
            raise fail(f"T.Tensor: {what} {tuple(items)} has {item}, which is less than {least}")
        else:
            result.append(item if isinstance(item, Const) else item.__index__())
    return tuple(result)


class Buffer(Tensor):
    """The same as Tensor."""

    __slots__ = ()


class StridedTensor(Tensor):
    """A parameter in global memory with strides of its own: T.StridedTensor(shape, strides, dtype)."""

    __slots__ = ()

    def __init__(self, shape: Any, strides: Any, dtype: Any = "float32") -> None:
        super().__init__(shape, dtype, strides=strides)


class KernelParam:
    """A parameter of a kernel: its name, whether it is a tensor, its dtype and shape (names where not
    constant).
    """

    __slots__ = ("name", "is_tensor", "dtype", "shape")

    def __init__(self, row: dict[str, Any]) -> None:
        self.name, self.is_tensor = row["name"], row["is_tensor"]
        self.dtype, self.shape = row["dtype"], tuple(row["shape"])

    def __repr__(self) -> str:
        shape = f"[{', '.join(map(str, self.shape))}]" if self.is_tensor else ""
        return f"{self.name}: {self.dtype}{shape}"


class PrimFunc:
    """A traced kernel: parameters and body at tile level, ready for `tilelang.compile`."""

    said = "a @T.prim_func"

    def __init__(self, fn: FunctionType, scope: dict[str, Any], eager: Any = None) -> None:
        """Traces `fn`.  scope: names that its annotations may use beyond those that it sees itself; eager:
        gives the Session for a trace, if `fn` is written in the eager dialect.
        """
        self.__name__ = self.name = fn.__name__
        self.__doc__ = fn.__doc__
        self.__wrapped__ = fn
        self.defaults = defaults_of(fn)
        self.call_order: list[str] | None = None  # of the arguments, where it is not that of the parameters
        self.results: Any = None  # what it returns, where the body makes tensors or returns any
        try:
            self.function: _core.Function = self._trace(fn, scope, eager)
        except CompileError as error:
            raise error.with_traceback(None) from None  # the error says where; our frames would only hide it

    def _trace(self, fn: FunctionType, scope: dict[str, Any], eager: Any) -> _core.Function:
        new = rewrite(fn)
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
                from .misuse import add_cure

                add_cure(error)
                raise
            trace.at(new.file, new.site)
            loose.check_all_known(trace)
            if eager is not None:
                trace.eager.check_complete(new)
            if trace.outputs or trace.returns is not None:
                from .eager import Results  # it imports this module

                self.results = Results(trace)
            self.pass_configs, self.compile_flags = trace.pass_configs, trace.compile_flags
            return trace.builder.finish()

    @property
    def params(self) -> list[KernelParam]:
        """The parameters, in order."""
        return [KernelParam(row) for row in self.function.params]

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


_SCALARS = (int, float, bool)


def _parameter(trace: Trace, new: Rewritten, arg: ast.arg, fn: FunctionType, scope: dict[str, Any]) -> Any:
    trace.at(new.file, site_of(arg))
    if trace.eager is not None:
        made = trace.eager.parameter(arg.arg, lambda: _annotation(trace, new, arg, fn, scope))
        if made is not NotImplemented:  # nothing that only the eager dialect has
            return made
    if arg.annotation is None and arg.arg in ("self", "cls") and arg is new.parameters[0]:
        raise fail(f"a prim_func is no method: define it in a method, whose '{arg.arg}' it sees, and return "
                   "it from there; or make the method itself a kernel by @tilelang.jit")
    if arg.annotation is None:
        raise fail(f"parameter '{arg.arg}' has no annotation: write {arg.arg}: T.Tensor(shape, dtype), or a "
                   "scalar dtype such as T.float32")
    made = _declared(trace, arg, _annotation(trace, new, arg, fn, scope))
    if trace.eager is not None:
        trace.eager.made[arg.arg] = made
    return made


def _declared(trace: Trace, arg: ast.arg, kind: Any) -> Any:
    if isinstance(kind, Tensor):
        strides = None if kind.strides is None else [as_value(n) for n in kind.strides]
        return trace.builder.tensor(arg.arg, [as_value(n) for n in kind.shape], kind.dtype, strides)
    if isinstance(kind, type) and issubclass(kind, Tensor):
        raise fail(f"{arg.arg}: a prim_func is traced before it is called, so that T.{kind.__name__} needs "
                   "its shape and dtype; they are taken from the argument in an eager function, "
                   "@tilelang.jit on the kernel itself")
    if kind is ptr or isinstance(kind, ptr):
        return trace.builder.pointer(arg.arg)
    if isinstance(kind, _core.DType) or any(kind is scalar for scalar in _SCALARS):
        return trace.builder.scalar(arg.arg, _dtypes.as_dtype(kind))
    raise fail(f"the annotation of '{arg.arg}' must be T.Tensor(shape, dtype) or a scalar dtype, not "
               f"{kind!r}")


def _annotation(trace: Trace, new: Rewritten, arg: ast.arg, fn: FunctionType, scope: dict[str, Any]) -> Any:
    kind = fn.__annotations__.get(arg.arg)
    if isinstance(kind, str):
        kind = evaluate_annotation(arg.annotation, new.file, fn, scope)
    trace.at(new.file, site_of(arg))
    return kind


def evaluate_annotation(node: ast.expr, file: str, fn: FunctionType, scope: dict[str, Any]) -> Any:
    """An annotation that Python left as a string, in the scopes where it was written."""
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


def prim_func(func: FunctionType | None = None, *, eager_jit: bool = False) -> Any:
    """Make a function a kernel: its text is traced at once; the result is what `tilelang.compile` takes.

    Every parameter is annotated: T.Tensor(shape, dtype), or a scalar dtype (T.float32, int, float, bool).
    It returns nothing, and out_idx says which parameters a call allocates and returns; or it ends with
    `return C` (or `return C, D`), of tensors made by T.empty, which a call allocates, or of parameters, which
    a call gives back as they were passed.
    """
    if eager_jit:
        raise fail("T.prim_func(eager_jit=True): write @tilelang.jit on the kernel itself instead; it is "
                   "eager where there is no prim_func in it")
    if func is None:
        return lambda f: _prim_func(f, sys._getframe(1))
    return _prim_func(func, sys._getframe(1))


def _prim_func(func: Any, frame: Any) -> PrimFunc:
    if not isinstance(func, FunctionType):
        raise fail(f"@T.prim_func decorates a function, not {kind_of(func)}")
    return PrimFunc(func, scope_of(func, frame))


def dimensions(n: int) -> str:
    """How many extents, in words."""
    return "1 extent" if n == 1 else f"{n} extents"


__all__ = [
    "Buffer", "StridedTensor", "Tensor", "prim_func",
]  # fmt: skip
