"""The eager dialect, as the trace of one call sees it: annotations in the body meet the tensors that were
passed.

A `Session` belongs to one trace.  It knows the arguments, gives T.const names their values when an annotation
is executed, and writes down what it read of the arguments: two calls for which that is equal have one kernel
(dispatch.py)."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from .._core import ArgumentError, Buffer, Expr
from ..front import dtypes as _dtypes
from ..front import interop
from ..front.annotations import Tensor, dimensions
from ..front.dtypes import DType
from ..front.errors import caller_place, compile_error, kind_of
from ..front.parse import site_of
from ..front.rewritten import Rewritten
from ..front.symbols import Const, Undeclared
from ..front.trace import Trace, active, current, fail
from ..front.values import as_value
from . import binding
from .lookahead import places_of

ABSENT = object()  # a tensor that compile(M=…) was not given


class Session:
    """The arguments of the eager function being traced."""

    trace: Trace

    def __init__(
        self,
        fn: FunctionType,
        arguments: dict[str, Any],
        values: dict[str, Any],
        constants: dict[str, int],
        in_body: frozenset,
        guesses: dict[str, int],
        reads: dict[tuple, None],
    ) -> None:
        self.fn, self.name = fn, fn.__name__
        self.arguments = arguments  # the parameters that the launch passes: tensors and scalars
        self.values = values  # those that Python knows: tile sizes, dtypes, flags
        self.given = constants  # by keyword, f(a, b, M=…)
        self.in_body = in_body  # the parameters that the body annotates
        self.consts: dict[str, Const] = {}
        self.places: dict[str, tuple] = {}  # parameter -> where it was declared
        self.made: dict[str, Any] = {}  # parameter -> what the kernel has of it
        self.reads = reads  # (parameter, "shape" or "stride", dimension) or (parameter, "whole", 0)
        self.guesses = guesses  # T.const name -> value, where an earlier trace went wrong
        self.others: list[dict[str, int]] = []  # guesses to try if this trace goes wrong
        self.refusal: Exception | None = None  # what is said where all of them do

    def start(self, trace: Trace) -> Session:
        """The session itself, from here on that of `trace`."""
        self.trace = trace
        return self

    # ── T.const ───────────────────────────────────────────────────────────────────────────────────────
    def constant(self, name: str) -> Const:
        """The T.const of that name."""
        found = self.consts.get(name)
        if found is None:
            found = self.consts[name] = Const(name, (self.trace.file, *self.trace.site), self.guess)
            if name in self.given:
                found.value, found.source = self.given[name], f"the keyword {name}"
        return found

    def guess(self, const: Const) -> int:
        """The value that an annotation further below will bind: by the text of the function; where that does
        not show it, the extents of all tensors are tried."""
        name = const.name
        places = places_of(self.fn, self.arguments).get(name, [])
        options = [self._extent(*place) for place in places]
        if not places:
            self.refusal = self.refusal or self._unbound(const, places)
            options = [
                self._extent(tensor, "shape", d)
                for tensor, argument in self.arguments.items()
                for d in range(len(getattr(argument, "shape", ())))
            ]
        options = [n for n in dict.fromkeys(options) if n is not None]
        if not options:
            raise self._unbound(const, places)
        value = self.guesses.setdefault(name, options[0])
        self.others += [{**self.guesses, name: n} for n in options if n != value]
        return value

    def _extent(self, name: str, kind: str, d: int) -> int | None:
        """An extent or stride of an argument, which counts for the key; None where it has none."""
        argument = self.arguments[name]
        if d >= len(getattr(argument, "shape", ())):
            return None
        self.reads[name, kind, d] = None
        return int((interop.shape_of if kind == "shape" else interop.strides_of)(argument)[d])

    def _unbound(self, const: Const, places: list) -> Exception:
        why = (
            f"no annotation of a tensor binds it, in which it must stand alone as an extent or a stride, "
            f"A: T.Tensor(({const.name}, ...), dtype)"
        )
        if places:
            name, kind, d = places[0]
            why = f"it is {'extent' if kind == 'shape' else kind} {d} of {name}, which is not given"
        return compile_error(
            f"{const.name}, which T.const declares at line {const.place[1]}, has no value: "
            f"{why}; or give it by keyword, {self.name}(..., {const.name}=64)",
            caller_place(),
        )

    def is_settled(self) -> bool:
        """Whether the trace made no guess that could have led it astray."""
        return not any(const.is_guessed for const in self.consts.values())

    def bind(self, const: Const, value: int, source: str) -> None:
        """`const` is `value`, because `source` says so."""
        if const.is_guessed and const.value != value:
            self.others.insert(0, {**self.guesses, const.name: value})
        elif const.value in (None, value):
            const.value, const.source, const.is_guessed = value, source, False
        if const.value != value:
            raise fail(
                f"{const.name} cannot be both: it is {const.value} by {const.source}, but {value} by {source}"
            )

    # ── parameters ────────────────────────────────────────────────────────────────────────────────────
    def passed(self) -> dict[str, Any]:
        """What a launch passes; None for a parameter that has not been declared."""
        return {name: self.made.get(name) for name in self.arguments}

    def parameter(self, name: str, annotation: Callable[[], Any]) -> Any:
        """What a parameter is when the body begins; NotImplemented for one that a prim_func may have too.

        annotation: gives that of the signature."""
        if name not in self.arguments:
            return self.values[name]
        if name in self.in_body:
            return Undeclared(name, self)
        kind = annotation()
        if annotates_tensor(kind):
            return self.declare(name, kind)
        self.places[name] = (self.trace.file, *self.trace.site)
        return NotImplemented

    def declare(self, name: str, annotation: Any) -> Any:
        """`name: annotation`: what the parameter is from here on."""
        made = self.made[name] = self._declared(name, annotation)
        return made

    def _declared(self, name: str, annotation: Any) -> Any:
        if name in self.values:
            raise fail(f"{name} is annotated as a tensor, but is {self.values[name]!r} in this call")
        if name not in self.arguments:
            raise fail(
                f"{name} is annotated as a tensor, but is not a parameter of {self.name}; a tensor that "
                f"{self.name} makes is written {name} = T.empty(shape, dtype)"
            )
        if name in self.places:
            raise fail(f"{name} has been annotated at line {self.places[name][1]} already")
        self.places[name] = (self.trace.file, *self.trace.site)
        builder = self.trace.builder
        if annotates_tensor(annotation):
            self._require_tensor(name)
        if isinstance(annotation, type) and issubclass(annotation, Tensor):
            shape, dtype = self.read_whole(name)
            return builder.tensor(name, list(shape), dtype)
        if isinstance(annotation, Tensor):
            shape, strides = self._meet(name, annotation)
            made = builder.tensor(name, shape, annotation.dtype, strides)
            return self.trace.of_lanes(made, annotation.lanes)
        if isinstance(annotation, str):
            return builder.scalar(name, _dtypes.as_dtype(annotation))
        raise fail(
            f"the annotation of {name} must be T.Tensor(shape, dtype) or a scalar dtype, not {annotation!r}"
        )

    def _require_tensor(self, name: str) -> None:
        argument = self.arguments[name]
        if argument is not ABSENT and not hasattr(argument, "shape"):
            place = list(inspect.signature(self.fn).parameters).index(name)
            raise ArgumentError(
                f"{self.name}: argument {place} '{name}' is {kind_of(argument)}; a tensor was expected"
            )

    def _meet(self, name: str, annotation: Tensor) -> tuple[list, list | None]:
        argument = self.arguments[name]
        shape, strides = annotation.shape, annotation.strides
        if argument is not ABSENT:
            real = interop.shape_of(argument)
            if len(real) != len(shape):
                raise fail(
                    f"{name} is annotated with {dimensions(len(shape))}, but the tensor passed has "
                    f"{dimensions(len(real))}: its shape is {tuple(real)}"
                )
            per_byte = 2 if annotation.dtype.bits == 4 else 1  # what is passed are bytes
            bytes_of = ", two elements to a byte" if per_byte > 1 else ""
            for d, n in enumerate(shape):
                if isinstance(n, Const):
                    extent = self._extent(name, "shape", d) * (per_byte if d == len(shape) - 1 else 1)
                    self.bind(n, extent, f"extent {d} of {name} (shape {tuple(real)}{bytes_of})")
            for d, n in enumerate(strides or ()):
                if isinstance(n, Const):
                    stride = self._extent(name, "stride", d) * (per_byte if d < len(strides) - 1 else 1)
                    real = tuple(interop.strides_of(argument))
                    self.bind(n, stride, f"stride {d} of {name} (strides {real}{bytes_of})")
        for n in (*shape, *(strides or ())):
            if isinstance(n, Const) and n.value is None:
                near = difflib.get_close_matches(n.name, [x for x in self.given if x not in self.consts], 1)
                raise fail(
                    f"{n.name} has no value: no tensor was given for {name}, and no {n.name}=... to compile"
                    + (f"; {near[0]}= was given: did you mean {n.name}?" if near else "")
                )
        return [as_value(n) for n in shape], None if strides is None else [as_value(n) for n in strides]

    def read_whole(self, name: str) -> tuple[tuple, DType]:
        """Shape and dtype of the argument itself."""
        argument = self.arguments[name]
        if argument is ABSENT:
            raise fail(
                f"{name} takes its shape and dtype from the argument, but none was given: pass a "
                f"tensor, or annotate {name}: T.Tensor(shape, dtype)"
            )
        self.reads[name, "whole", 0] = None
        shape, dtype = [int(n) for n in interop.shape_of(argument)], _dtypes.as_dtype(argument.dtype)
        if dtype.bits == 4:  # two to a byte
            shape[-1] *= 2
        return tuple(shape), dtype

    # ── the end ───────────────────────────────────────────────────────────────────────────────────────
    def check_complete(self, definition: Rewritten) -> None:
        """Every T.const has a value, every tensor its annotation."""
        for const in self.consts.values():
            if const.value is None or const.is_guessed:
                raise compile_error(
                    f"nothing gives {const.name} a value: it must stand alone as an extent "
                    "or a stride in the annotation of a tensor, which is executed, "
                    f"A: T.Tensor(({const.name}, ...), dtype), or be given by keyword, "
                    f"{self.name}(..., {const.name}=64)",
                    const.place,
                )
        for arg in definition.parameters:
            if arg.arg in self.arguments and arg.arg not in self.places:
                raise compile_error(
                    f"the annotation of {arg.arg} is never executed: {arg.arg}: T.Tensor(shape, dtype)",
                    (definition.file, *site_of(arg)),
                )
        unknown = [name for name in self.given if name not in self.consts]
        if unknown:
            known = [*self.arguments, *self.values, *self.consts]
            what = ", which is neither a parameter nor a T.const name"
            raise binding.unexpected(self.name, known, unknown[0], what=what)


def annotates_tensor(annotation: Any) -> bool:
    """Whether an annotation says that a parameter is a tensor."""
    return isinstance(annotation, Tensor) or (isinstance(annotation, type) and issubclass(annotation, Tensor))


def const(name: str, dtype: Any = "int32") -> Any:
    """One or several extents that are constants of each call, "M" or "M, N" or "M N": one name gives one
    value, several a tuple.

    Each gets its value from the tensor whose annotation it stands in, `A: T.Tensor((M, N), dtype)`, alone as
    an extent or a stride, or from a keyword of the call, f(a, b, M=64); it is as good as a Python integer,
    also above that annotation.  It counts elements: where two lie in a byte, twice the bytes that are passed.
    A call with other values compiles another kernel.  dtype is accepted; these are exact integers.  Only in
    eager functions."""
    trace = current()
    names = name.replace(",", " ").split() if isinstance(name, str) else []
    if trace is None or trace.eager is None:
        where = trace and (trace.file, *trace.site)
        raise compile_error(
            "T.const belongs to the eager dialect, the body of a @tilelang.jit function "
            "without a prim_func; in a prim_func extents are parameters of the factory, or "
            "T.dynamic",
            where or caller_place(),
        )
    if not names or not all(word.isidentifier() for word in names):
        raise fail(f"T.const: {name!r} is not a name, or several with commas between")
    made = tuple([trace.eager.constant(word) for word in names])
    return made[0] if len(made) == 1 else made


def empty(*shape: Any, dtype: Any = None) -> Buffer:
    """A new tensor that the kernel fills and returns: T.empty((M, N), dtype) or T.empty(M, N, dtype=dtype).

    shape: extents, in elements; T.dynamic names may stand in it.  dtype: float32 if left out.  Each call
    allocates it like its first tensor: PyTorch on that tensor's device, or NumPy.  Its elements are not
    initialised.  What is not returned is memory for the time of the call."""
    trace = active("T.empty")
    items = list(shape)
    if len(items) > 1 and not hasattr(items[-1], "__index__") and not isinstance(items[-1], (Expr, Const)):
        if dtype is not None:
            raise fail("T.empty: the dtype is given twice")
        dtype = items.pop()
    if len(items) == 1 and isinstance(items[0], (tuple, list)):
        items = list(items[0])
    spec = Tensor(tuple(items), "float32" if dtype is None else dtype)
    if trace.kernel is not None:
        raise fail(
            "T.empty inside a T.Kernel: a tensor is made outside of it; inside, tiles are made by "
            "T.alloc_shared and T.alloc_fragment"
        )
    name = trace.take_hint(f"out{len(trace.outputs)}")
    while name in (*(trace.eager.arguments if trace.eager else ()), *[made.name for made in trace.outputs]):
        name += "_"
    made = trace.builder.tensor(name, [as_value(n) for n in spec.shape], spec.dtype)
    trace.outputs.append(made)
    return trace.of_lanes(made, spec.lanes)


__all__ = ["const", "empty"]
