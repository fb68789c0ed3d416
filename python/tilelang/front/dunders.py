"""Python's operators on the values of a kernel: `a + b`, `A[i]`, `bool(a)`, `np.float32(2) * a`.

Expr, Buffer and the kinds of values.py get their special methods here, as values.py is imported; each asks
one of its functions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from .._core import Buffer, Expr, Region
from . import idioms, lanes
from .arithmetic import cast
from .builtins_of_python import rounded
from .errors import caller_place, compile_error
from .indexing import Part, store, subscript
from .lookups import refuse_key
from .loose import dtype_said
from .misuse import unknown_attribute
from .trace import builder, current, fail, place
from .values import Element, Lanewise, Late, as_value, binary, is_tile, unary
from .vectors import as_vector
from .wording import no_truth


def _forward(op: str) -> Callable:
    return lambda self, other: binary(op, self, other)


def _reflected(op: str) -> Callable:
    return lambda self, other: binary(op, other, self)


def _unary(op: str) -> Callable:
    return lambda self: unary(op, self)


def _constant(x: Any, what: str) -> Any:
    value = as_value(x)
    if value.__class__ is not Expr:
        return value
    if value.is_const:
        return value.value
    if what == "a truth value":
        there, called = caller_place(), place()
        call = f", which line {called[1]} calls," if called and there and called[1] != there[1] else ""
        raise compile_error(
            "Python's `and`, `or`, `not` and `if` need a truth value here, while the kernel "
            "is built, but only the device will know it: in a lambda or plain function"
            f"{call} write (a > b) & (c < d), |, ~ and T.if_then_else(condition, x, y), "
            "T.max and T.min for max and min, or make the function a @T.macro",
            there,
        )
    mend = "use the language's own functions (T.exp for math.exp), and T.cast to convert"
    raise fail(
        f"Python needs {what} here, while the kernel is built, but only the device will know it; {mend}"
    )


def _bool(self: Any) -> bool:
    if current() is None and not isinstance(self, (Expr, Element, Late)):
        return True
    if is_tile(self):
        raise compile_error(no_truth(self), caller_place())
    return bool(_constant(self, "a truth value"))


def _astype(self: Any, dtype: Any) -> Any:
    """The value converted to `dtype`."""
    if self.__class__ is Buffer and self.scope != "var":
        raise fail(
            f"{self.name}.astype: {self.name} is a {self.scope} buffer, not a value: T.copy into a "
            f"buffer of that dtype converts, and so does T.cast({self.name}[…], dtype) of an element, "
            "in a T.Parallel loop"
        )
    return cast(self, dtype)


def _attribute(self: Any, name: str) -> Any:
    lane = lanes.named(self, name)
    if lane is not None:
        return self[lane]
    raise unknown_attribute(self, name)


def _lanes_of(self: Region) -> Any:
    return iter(as_vector(self)) if lanes.is_element(self) else _refuse_iteration(self)


def _refuse_iteration(self: Any) -> Any:
    raise fail("cannot iterate over or unpack a value of the kernel; use range, T.serial or T.Parallel")


def _length(self: Any) -> int:
    if self.__class__ is not Buffer or self.scope == "var":
        raise fail("a value of the kernel has no length; A.shape has the extents of a buffer")
    return operator.index(_constant(self.shape[0], "the length"))


def _rounded(self: Any, digits: Any = None) -> Any:
    return rounded(round, (self,) if digits is None else (self, digits), {})


def _hasher(identity: Callable) -> Callable:
    def method(self: Any) -> int:
        if isinstance(self, Late) or (self.__class__ is Buffer and self.scope != "var"):
            return identity(self)
        if self.__class__ is Expr and self.is_const:
            return hash(self.value)
        raise refuse_key()

    return method


def _array_function(self: Any, function: Any, types: Any, args: tuple, kwargs: dict) -> Any:
    raise _refuse_numpy(function.__name__)


def _refuse_numpy(name: str) -> Exception:
    return fail(
        f"np.{name} computes while the kernel is built, but only the device will know the value: "
        f"use {idioms.function_like(name)}"
    )


def _abs(self: Any) -> Any:
    return builder().call("abs", (as_value(self),))


def _shown_value(self: Expr) -> str:
    text, trace = _text_of(self), current()
    if trace is None or "buffer" not in text:
        return text
    made = trace.eager.made.values() if trace.eager else ()
    buffer = next((x for x in (*trace.parameters, *made, *trace.outputs) if x.__class__ is Buffer), None)
    return text if buffer is None else buffer.show(self)


def _shown_buffer(self: Buffer) -> str:
    if self.scope == "var":
        return self.name
    return f"{self.name}: {self.scope} {dtype_said(self)}[{', '.join(map(str, self.shape))}]"


def _shown_region(self: Region) -> str:
    parts = [
        str(start) if point else f"{start} : {start} + {extent}" if extent is not None else f"{start} :"
        for start, extent, point in self.ranges
    ]
    return f"{self.buffer.name}[{', '.join(parts)}]"


_text_of = Expr.__str__  # which does not know the names of buffers
_COMPARISONS = {"equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt",
                "greater_equal": "ge"}  # fmt: skip


def _array_ufunc(self: Any, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
    """NumPy's numbers compute with values as Python's do, by our operators; its functions have no meaning."""
    import numpy

    def boxed(x: Any) -> Any:
        if isinstance(x, numpy.ndarray):
            return x
        box = numpy.empty((), object)
        box[()] = x
        return box

    numbers = (numpy.generic, numpy.ndarray)
    inputs = tuple(x.item() if isinstance(x, numbers) and x.ndim == 0 else x for x in inputs)
    if ufunc.__name__ in _COMPARISONS:
        return getattr(operator, _COMPARISONS[ufunc.__name__])(*inputs)
    name = {"maximum": "max", "minimum": "min"}.get(ufunc.__name__, ufunc.__name__)
    if name == ufunc.__name__:
        try:
            return getattr(ufunc, method)(*map(boxed, inputs), **options)
        except TypeError:
            pass
    raise _refuse_numpy(ufunc.__name__)


def _attach() -> None:
    methods: dict[str, Any] = {}
    for name in ("add", "sub", "mul", "floordiv", "pow", "and", "or", "xor", "matmul"):
        methods[f"__{name}__"], methods[f"__r{name}__"] = _forward(name), _reflected(name)
    for dunder, name in (("truediv", "div"), ("mod", "floormod"), ("lshift", "shl"), ("rshift", "shr")):
        methods[f"__{dunder}__"], methods[f"__r{dunder}__"] = _forward(name), _reflected(name)
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        methods[f"__{name}__"] = _forward(name)
    for name in ("neg", "pos", "invert"):
        methods[f"__{name}__"] = _unary(name)
    methods.update(
        __abs__=_abs,
        __bool__=_bool,
        astype=_astype,
        __iter__=_refuse_iteration,
        __array_ufunc__=_array_ufunc,
        __array_function__=_array_function,
        __round__=_rounded,
        __len__=_length,
        __reversed__=_refuse_iteration,
        __divmod__=lambda self, other: (self // other, self % other),
        __rdivmod__=lambda self, other: (other // self, other % self),
        __index__=lambda self: operator.index(_constant(self, "an integer")),
        __int__=lambda self: int(_constant(self, "an integer")),
        __float__=lambda self: float(_constant(self, "a number")),
    )
    for kind in (Expr, Buffer, Element, Late, Part, Region):
        kind.__getattr__ = _attribute
    for kind in (Part, Region):
        identity = kind.__hash__
        kind.__eq__, kind.__ne__, kind.__bool__ = methods["__eq__"], methods["__ne__"], _bool
        kind.__hash__ = identity
    for kind in (Expr, Buffer, Element, Late):
        identity = kind.__hash__ or object.__hash__
        for name, method in methods.items():
            setattr(kind, name, method)
        kind.__hash__ = _hasher(identity)
    Expr.__repr__ = Expr.__str__ = _shown_value
    Buffer.__repr__, Region.__repr__ = _shown_buffer, _shown_region
    Region.__getitem__, Region.__setitem__, Region.__iter__ = lanes.lane_of, lanes.store_lane, _lanes_of
    Lanewise.__getitem__ = lambda self, lane: as_vector(self)[lane]
    Buffer.__getitem__ = subscript
    Buffer.__setitem__ = store


_attach()
