"""`T.reduce(…, combine=)`: a fold by the user's own function, which is called once, on two variables, and
becomes an expression of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._core import Buffer, Expr
from ..front import dtypes, loose
from ..front.dtypes import DType
from ..front.indexing import as_operand
from ..front.trace import Trace, fail, in_kernel
from ..front.values import as_value
from .tile import _tile

WHAT = "T.reduce with combine"


def function_of(trace: Trace, dtype: DType, compute: Callable, identity: Any) -> Any:
    """The function (a, b) -> (compute(a, b), identity) of values of that dtype, an option of `reduce_by`."""
    builder, file, site = trace.builder, trace.file, trace.site
    a, b = builder.begin_function("combine of T.reduce", ("a", "b"), dtype)
    joined = compute(a, b)
    trace.at(file, site)  # a macro leaves its own last line
    return builder.end_function((a, b), (joined, identity), dtype)


def checked(value: Any, dtype: DType) -> Any:
    """What combine gave, if its kind is that of the tile, or an integer where floats are folded."""
    if value is None:
        raise fail(f"{WHAT}: combine gives nothing; end it with `return`")
    value = as_value(value)
    given = value.dtype if value.__class__ is Expr else None
    is_bool = given == "bool" if given is not None else value.__class__ is bool
    if is_bool and dtype != "bool":
        raise fail(
            f"{WHAT}: combine gives a bool where a tile of {dtype} is folded: "
            "T.if_then_else(condition, a, b) gives one of the two values"
        )
    is_float = given.is_float if given is not None else value.__class__ is float
    if is_float and not dtype.is_float:
        raise fail(
            f"{WHAT}: combine gives a float where a tile of {dtype} is folded: T.cast(x, '{dtype}') "
            "says how it is rounded"
        )
    return value


def begin(combine: Any, identity: Any) -> Trace:
    """The trace, if the fold is given as it must be."""
    if identity is None:
        raise fail(
            f"{WHAT}: identity is missing, the value that changes nothing (0 for a sum): threads "
            "without an element begin with it"
        )
    if not callable(combine):
        raise fail(f"{WHAT}: combine must be a function of two values, not {combine!r}")
    return in_kernel(WHAT)


def reduce_by(
    buffer: Any, out: Any, attrs: dict[str, Any], annotations: Any, combine: Any, identity: Any
) -> None:
    """out = buffer folded by combine along a dimension."""
    trace = begin(combine, identity)
    source, target = as_operand(buffer, f"{WHAT}: the buffer"), as_operand(out, f"{WHAT}: out")
    loose.decide("reduce", (source, target))
    dtype = (target if target.__class__ is Buffer else target.buffer).dtype
    if dtype.is_float and dtype.bits < 32:
        dtype = dtypes.as_dtype("float32")

    def compute(a: Expr, b: Expr) -> Any:
        try:
            joined = combine(a, b)
        except TypeError as e:
            raise fail(f"{WHAT}: combine is called with two values: {e}") from None
        if isinstance(joined, (tuple, list)):
            raise fail(
                f"{WHAT}: combine must give one value, as one tile is folded; for several (argmax) "
                "give tuples of tiles, outs and identities"
            )
        return checked(joined, dtype)

    attrs["combine"] = function_of(trace, dtype, compute, as_value(identity))
    _tile("reduce_by", (source, target), attrs, annotations, target)
