"""Tile operators of the user's own: `T.tile_op`."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any

from .. import _core
from .._core import Buffer, CompileError, Expr, Region
from ..front import loose
from ..front.dtypes import DType
from ..front.errors import compile_error, kind_of
from ..front.indexing import Part, as_operand
from ..front.macros import Macro
from ..front.trace import fail, in_kernel
from ..front.values import Element, as_value
from .layout import lay_out

if TYPE_CHECKING:
    import inspect


class Access:
    """What a tile operator does with a parameter: T.read, T.write, T.update or T.value; an annotation."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"T.{self.name}"


read, write, update, value = Access("read"), Access("write"), Access("update"), Access("value")


class TileOp:
    """An operator that kernels call as they call T.copy; see `tile_op`."""

    def __init__(
        self, fn: FunctionType, lower: Any, infer_layout: Callable | None, eval: Callable | None
    ) -> None:
        import inspect

        self.__name__, self.__doc__, self.__wrapped__ = fn.__name__, fn.__doc__, fn
        self.signature = inspect.signature(fn)
        self.operands = _operands(fn, self.signature)
        self.lower = lower if isinstance(lower, Macro) else Macro(fn if lower is None else lower)
        self.infer_layout = infer_layout
        try:
            meaning = eval and _on_bytes(self.__name__, self.operands, self.signature, eval)
            self._core = _core.TileOp(self.__name__, list(self.operands.items()), meaning)
        except CompileError as e:
            raise fail(f"T.tile_op: {e.text}") from None

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        name = self.__name__
        trace = in_kernel(name)
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as e:
            raise fail(f"{name}: {e}") from None
        bound.apply_defaults()
        given, options = [], {}
        for parameter, argument in bound.arguments.items():
            access = self.operands.get(parameter)
            if access is None:
                options[parameter] = argument
            else:
                given.append(_operand(f"{name}: {parameter}", access, argument))
        loose.decide(name, given)
        core = [x.region if isinstance(x, Part) else x for x in given]
        trace.builder.begin_tile(self._core, core, _attrs(name, options))
        if self.infer_layout is not None:
            lay_out(_buffers(name, self.infer_layout(*given, **options)), name)
        self.lower(*given, **options)
        trace.builder.end_tile()


def tile_op(
    fn: Callable | None = None,
    *,
    lower: Any = None,
    infer_layout: Callable | None = None,
    eval: Callable | None = None,
) -> Any:
    """Make a function a tile operator, `@T.tile_op` or `@T.tile_op(eval=…)`, to be called from kernels.

    The function's parameters are the operator's: those annotated T.read, T.write or T.update are tiles (a
    buffer, or a slice, which is indexed from 0 inside), T.value a number of the kernel; the others are
    options, known while the kernel is built.  Its body, or `lower` with the same parameters, is what the
    operator becomes: statements of the language on its operands and on tiles that it allocates.

    infer_layout(…) -> {operand: T.Layout or T.Fragment}: where operands must live.  eval(…) -> result, or a
    tuple of one for each operand that is written: what it means, on NumPy arrays of the operands that are
    read, followed by the options; target="reference" runs it, so that it checks the body.  Without it the
    reference runs the body."""
    if fn is None:
        return lambda f: tile_op(f, lower=lower, infer_layout=infer_layout, eval=eval)
    for what, function in (("lower", lower), ("infer_layout", infer_layout), ("eval", eval)):
        if function is not None and not callable(function):
            raise fail(f"T.tile_op: {what} must be a function, not {function!r}")
    if not isinstance(fn, FunctionType):
        raise fail(f"@T.tile_op decorates a function, not {kind_of(fn)}")
    return TileOp(fn, lower, infer_layout, eval)


def _operands(fn: Callable, signature: inspect.Signature) -> dict[str, str]:
    """The annotated parameters: what the operator does with each."""
    import inspect

    try:
        hints = inspect.get_annotations(fn, eval_str=True)
    except NameError as e:
        code = fn.__code__
        raise compile_error(
            f"T.tile_op: an annotation of {fn.__name__} cannot be evaluated: {e}",
            (code.co_filename, code.co_firstlineno, 1, code.co_firstlineno, 1),
        ) from None
    operands = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise fail(f"T.tile_op: {fn.__name__} takes *{name}: each operand needs a name of its own")
        if isinstance(hints.get(name), Access):
            operands[name] = hints[name].name
    if not any(access in ("write", "update") for access in operands.values()):
        raise fail(
            f"T.tile_op: {fn.__name__} writes to nothing: annotate its operands, as in `def "
            f"{fn.__name__}(src: T.read, dst: T.write)`"
        )
    return operands


def _operand(what: str, access: str, x: Any) -> Any:
    if access == "value":
        return as_value(x)
    if isinstance(x, Element):
        raise fail(f"{what} is an element of {x.buffer.name}: give a slice, which says how large the tile is")
    x = as_operand(x, what)
    return Part(x) if isinstance(x, Region) else x


def _attrs(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options as text IR keeps them."""
    attrs = {}
    for key, x in options.items():
        if x is None:
            continue
        if isinstance(x, DType):
            x = str(x)
        if isinstance(x, (Expr, Element, Buffer, Region, Part)):
            raise fail(
                f"{name}: the option {key} is a value of the kernel: annotate it as T.value, or as T.read"
            )
        if not isinstance(x, (int, float, str)) and not (
            isinstance(x, (list, tuple)) and all(isinstance(n, int) for n in x)
        ):
            raise fail(
                f"{name}: the option {key} must be a number, a word, a dtype or a list of integers, not {x!r}"
            )
        attrs[key] = x
    return attrs


def _buffers(name: str, layouts: Any) -> dict:
    if not isinstance(layouts, dict):
        raise fail(f"{name}: infer_layout must give a dict of operands and layouts, not {layouts!r}")
    return {x.buffer if isinstance(x, Part) else x: wanted for x, wanted in layouts.items()}


def _on_bytes(name: str, operands: dict[str, str], signature: inspect.Signature, eval: Callable) -> Callable:
    """`eval` as the compiler calls it: an array is (dtype, shape, the bytes of 64-bit numbers)."""
    options = [p for p in signature.parameters if p not in operands]
    targets = [p for p, access in operands.items() if access in ("write", "update")]

    def array(given: Any) -> Any:
        import numpy

        if isinstance(given, (int, float)):
            return given
        dtype, shape, data = given
        wide = numpy.frombuffer(data, numpy.float64 if dtype.is_float else numpy.int64)
        return wide.reshape(shape).astype(dtype.as_numpy())

    def run(given: list, written: list, attrs: dict) -> list:
        import numpy

        results = eval(*map(array, given), **{p: attrs[p] for p in options if p in attrs})
        results = results if isinstance(results, tuple) else (results,)
        out = []
        for result, target in zip(results, targets, strict=False):
            result = numpy.asarray(result)
            if result.dtype.kind not in "biufV":
                raise fail(f"{name}: eval gave {result.dtype} for {target}, not numbers")
            floats = result.dtype.kind in "fV"
            kind = numpy.float64 if floats else numpy.int64
            out.append((floats, result.shape, numpy.ascontiguousarray(result.astype(kind)).tobytes()))
        return out + [(True, (0,), b"")] * (len(results) - len(out))

    return run


__all__ = ["read", "tile_op", "update", "value", "write"]  # fmt: skip
