"""Tile operators that fold, scan and turn tiles, and other shapes of a buffer's storage."""

from __future__ import annotations

import operator
from typing import Any

from .._core import Buffer, Expr, Region
from ..front import dtypes
from ..front.dtypes import DType
from ..front.indexing import as_operand
from ..front.offered import named
from ..front.trace import fail, in_kernel
from ..front.values import Element, as_value, constant
from ..front.wording import given
from . import scalar as _scalar
from .fold_by import reduce_by
from .fold_several import reduce_several
from .tile import _tile, flag

_FOLDS = ("sum", "max", "min", "abssum", "absmax", "prod", "bitand", "bitor", "bitxor", "any", "all")
_NAN = ("max", "min", "absmax")
_AS = "shapes and dtypes as in T.reduce."
_REDUCERS = ("sum", "max", "min", "prod", "bitand", "bitor", "bitxor")


def _int(value: Any, what: str) -> int:
    if not hasattr(value, "__index__"):
        raise fail(f"{what} must be an integer known while the kernel is built, not {given(value)}")
    return operator.index(value)


def _extents(shape: Any, what: str) -> list:
    items = shape if isinstance(shape, (tuple, list)) else (shape,)
    if not items:
        raise fail(f"{what}: the new shape has no dimension")
    return [as_value(e) for e in items]


# ── reductions ────────────────────────────────────────────────────────────────────────────────────────
def reduce(
    buffer: Any,
    out: Any,
    reduce_type: Any = None,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,
    annotations: Any = None,
    nan_propagate: bool = False,
    *,
    combine: Any = None,
    identity: Any = None,
) -> None:
    """Fold one dimension of a tile away: out = the sums (maxima, …) of buffer along dim.

    buffer: a fragment, or a shared tile or slice.  out: a fragment or shared tile of its shape without dim,
    or with dim of extent 1 (for a single dimension: of shape (1,)), and of its dtype or a wider one of the
    same kind.  Each may be an array of T.alloc_local, or a slice of one: then each thread reduces for itself,
    also under a condition of its own, unless the other is a fragment.  reduce_type: "sum", "prod", "max",
    "min", "abssum", "absmax" (of absolute values) on numbers, "bitand", "bitor", "bitxor" on integers
    and bools, "any", "all" (is an element not 0?) into bools or integers.  clear: False takes the old
    elements of out in.  Sums of float16 and bfloat16 are rounded once; max and min of a NaN and a
    number give the number, or the NaN if nan_propagate.  batch: how many results are combined at once;
    accepted, the compiler decides.

    `T.reduce(x, out, dim, combine=lambda a, b: …, identity=…)`: the user's own fold.  combine takes two
    values of out's dtype (float32 if out is a narrower float) and gives their combination; it must be
    associative and commutative, as elements are joined in any order.  identity: combine(x, identity) is x.
    A function that is seen to break one of these, on a few small numbers, is a warning.
    combine is a plain function, a lambda or a @T.macro, called once while the kernel is built, and gives an
    expression of its arguments, of numbers and of scalars of the kernel: it has no statements of its own and
    reads no buffer.  T.if_then_else(condition, x, y) chooses.  Conditions of a plain function are joined by
    &, | and ~, as Python's `and`, `or`, `not` and `if` would decide now; a macro may use `and`, `or`, `not`
    and `x if condition else y`.

    Several tiles of one shape are folded together if buffer, out and identity are tuples: combine then takes
    two tuples of values and gives one.  `T.reduce((x, i), (best, where), 1, combine=larger, identity=(-inf,
    0))` is argmax, with the index i of each element in a tile of its own.  The dtypes of out take 64 bits
    together, at most."""
    if combine is not None:
        if reduce_type is not None and dim == -1 and not isinstance(reduce_type, str):
            reduce_type, dim = None, reduce_type
        if reduce_type is not None:
            raise fail(
                f"T.reduce: both reduce_type ({reduce_type!r}) and combine are given; one of them "
                "says how to fold"
            )
        if nan_propagate:
            raise fail(
                "T.reduce with combine: nan_propagate belongs to max and min; your combine decides "
                "what a NaN does"
            )
        attrs = _reduce_attrs("reduce", dim, clear, batch)
        several = isinstance(buffer, (tuple, list)) or isinstance(out, (tuple, list))
        fold = reduce_several if several else reduce_by
        return fold(buffer, out, attrs, annotations, combine, identity)
    if identity is not None:
        raise fail("T.reduce: identity belongs to combine, which is not given")
    if not isinstance(reduce_type, str) or reduce_type not in _FOLDS:
        raise fail(
            f"T.reduce: reduce_type must be one of {', '.join(_FOLDS)}, not {reduce_type!r}; a fold "
            "of your own is combine=lambda a, b: …"
        )
    name = f"reduce_{reduce_type}"
    source, target = as_operand(buffer, f"T.{name}: the buffer"), as_operand(out, f"T.{name}: out")
    attrs = _reduce_attrs(name, dim, clear, batch)
    if nan_propagate:
        if reduce_type not in _NAN:
            raise fail(f"T.{name}: nan_propagate is for {', '.join(_NAN)}")
        attrs["nan_propagate"] = True
    _tile(name, (source, target), attrs, annotations, target)


def _reduce_attrs(name: str, dim: Any, clear: bool, batch: Any) -> dict[str, Any]:
    attrs: dict[str, Any] = {"dim": _int(dim, f"T.{name}: dim"), "clear": flag(clear, f"T.{name}: clear")}
    if batch != 1:
        attrs["batch"] = _int(batch, f"T.{name}: batch")
    return attrs


def _reduction(kind: str, doc: str) -> Any:
    """The function T.reduce_… of a kind; those that may meet a NaN take nan_propagate as well."""

    def reduction(
        buffer: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, annotations: Any = None
    ) -> None:
        reduce(buffer, out, kind, dim, clear, batch, annotations)

    def of_nan(
        buffer: Any,
        out: Any,
        dim: int = -1,
        clear: bool = True,
        batch: int = 1,
        nan_propagate: bool = False,
        annotations: Any = None,
    ) -> None:
        reduce(buffer, out, kind, dim, clear, batch, annotations, nan_propagate)

    return named(of_nan if kind in _NAN else reduction, f"reduce_{kind}", doc)


reduce_sum = _reduction("sum", "out = the sums of buffer along dim, added to out if not clear; " + _AS)
reduce_prod = _reduction("prod", "out = the products of buffer along dim, times out if not clear; " + _AS)
reduce_max = _reduction("max", "out = the maxima of buffer along dim, and of out if not clear; " + _AS)
reduce_min = _reduction("min", "out = the minima of buffer along dim, and of out if not clear; " + _AS)
reduce_absmax = _reduction(
    "absmax",
    "out = the maxima of |buffer| along dim, and of out if not clear; "
    + _AS
    + """

    The absolute value of the least integer of out's dtype wraps to itself, a negative number: it is the
    result only where all numbers are that one.""",
)
reduce_bitand = _reduction(
    "bitand", "out = the bitwise and of buffer along dim, and of out if not clear; integers or bools."
)
reduce_bitor = _reduction(
    "bitor", "out = the bitwise or of buffer along dim, and of out if not clear; integers or bools."
)
reduce_bitxor = _reduction(
    "bitxor", "out = the exclusive or of buffer along dim, and of out if not clear; integers or bools."
)
reduce_any = _reduction(
    "any", "out = whether an element of buffer along dim is not 0 (or of out, if not clear): bools, integers."
)
reduce_all = _reduction(
    "all", "out = whether no element of buffer along dim is 0 (nor of out, if not clear): bools, integers."
)


def reduce_abssum(
    buffer: Any, out: Any, dim: int = -1, batch: int = 1, annotations: Any = None, clear: bool = True
) -> None:
    """out = the sums of |buffer| along dim, added to out if not clear; shapes and dtypes as in T.reduce."""
    reduce(buffer, out, "abssum", dim, clear, batch, annotations)


def any_of(buffer: Any) -> Expr:
    """Whether an element of a buffer or a slice of one is not 0; a value, the same for all threads of a block
    if the elements are."""
    return _truth("any_of", buffer)


def all_of(buffer: Any) -> Expr:
    """Whether no element of a buffer or a slice of one is 0; a value as that of T.any_of."""
    return _truth("all_of", buffer)


def _truth(name: str, buffer: Any) -> Expr:
    trace = in_kernel(f"T.{name}")
    builder = trace.builder
    region = as_operand(buffer, f"T.{name}: the buffer")
    base = region if region.__class__ is Buffer else region.buffer
    word, hint = name.partition("_")[0], trace.take_hint(name)
    int32 = dtypes.as_dtype("int32")
    if base.scope == "fragment":
        shape = list(region.shape if region.__class__ is Buffer else region.extents)
        while shape:
            shape.pop()
            scope = "fragment" if shape else "shared"  # at last where all threads read the same
            out = builder.alloc(hint, scope, tuple(shape) or (1,), int32, {})
            builder.tile(f"reduce_{word}", (region, out), {"dim": -1, "clear": True})
            region = out
        return builder.let(hint, builder.binary("ne", builder.load(region, (0,)), 0))
    ranges = region.ranges if region.__class__ is Region else [(0, e, False) for e in region.shape]
    if any(extent is None for _, extent, _ in ranges):
        raise fail(f"T.{name}: an element of {base.name} is given; a slice A[i0:i1] says how many there are")
    found = builder.alloc(hint, "var", (), int32, {})
    builder.store(found, (), int(word == "all"))
    loops = [extent for _, extent, point in ranges if not point]
    n = len(loops)
    if n:
        indices = list(builder.begin_for("serial", ["e"] * n, [0] * n, loops, [1] * n, {}))
    index = [start if point else builder.binary("add", start, indices.pop(0)) for start, _, point in ranges]
    here = builder.binary("ne", builder.load(base, index), builder.const(0, base.dtype))
    old = builder.load(found, ())
    builder.store(found, (), builder.select(here, 1 if word == "any" else old, old if word == "any" else 0))
    if n:
        builder.end_for()
    return builder.let(hint, builder.binary("ne", builder.load(found, ()), 0))


# ── reducers ──────────────────────────────────────────────────────────────────────────────────────────
def alloc_reducer(shape: Any, dtype: Any, op: str = "sum", replication: str | None = None) -> Buffer:
    """An array to which the iterations of T.Parallel contribute, `o[i] += x` (or T.reducer_update), whatever
    thread runs them; T.finalize_reducer combines what the threads have.

    Opened by T.clear, T.fill or T.reducer_init, whose value counts once; then contributed to, finalised, and
    only then read, all in the block of statements where it was opened (contributions may stand in loops and
    branches); then it may be opened again.  Nothing else writes to it, before or after.  Floats of 16 and 8
    bits are added in float32 and rounded once.  shape: constant extents; every thread has all of it.
    op: "sum", "prod", "max", "min", "bitand", "bitor" or "bitxor".  replication: "all",
    "none" or None; accepted, each thread has its own copy."""
    trace = in_kernel("T.alloc_reducer")
    if op not in _REDUCERS:
        raise fail(f"T.alloc_reducer: op must be one of {', '.join(_REDUCERS)}, not {op!r}")
    if replication not in (None, "all", "none"):
        raise fail(f"T.alloc_reducer: replication must be 'all', 'none' or None, not {replication!r}")
    shape = [_int(e, "T.alloc_reducer: the shape") for e in _extents(shape, "T.alloc_reducer")]
    made = trace.builder.alloc(
        trace.take_hint("reducer"), "local", shape, dtypes.as_dtype(dtype), {"reducer": op}
    )
    trace.reducers[made.id] = op
    return made


def reducer_init(reducer: Buffer, init: Any = None) -> None:
    """Open a reducer with the value init (else the neutral one of its op), to which is then contributed."""
    target = as_operand(reducer, "T.reducer_init: the reducer")
    op = in_kernel("T.reducer_init").reducers.get(target.id if target.__class__ is Buffer else -1, "sum")
    dtype = (target if target.__class__ is Buffer else target.buffer).dtype
    if init is None:
        init = _neutral(op, dtype)
    _tile("reducer_init", (target, constant(as_value(init))), {}, None, target)


def _neutral(op: str, dtype: DType) -> Any:
    """What changes nothing: of `and` all bits are 1, also where the dtype has no -1."""
    if op == "bitand":
        return -1 if dtypes.limits(dtype)[0] else dtypes.limits(dtype)[1]
    if op not in ("max", "min"):
        return 1 if op == "prod" else 0
    if dtype.is_float:
        return _scalar.infinity(dtype) * (-1 if op == "max" else 1)
    return dtypes.limits(dtype)[0 if op == "max" else 1]


def reducer_update(target: Any, value: Any) -> None:
    """Contribute value to an element of a reducer, inside of T.Parallel."""
    trace = in_kernel("T.reducer_update")
    if not isinstance(target, Element) or target.buffer.id not in trace.reducers:
        raise fail(
            "T.reducer_update: the target must be an element of a reducer, as in T.reducer_update(o[i], x)"
        )
    op, builder = trace.reducers[target.buffer.id], trace.builder
    old, value = builder.load(target.buffer, target.index), as_value(value)
    names = {"sum": "add", "prod": "mul", "bitand": "and", "bitor": "or", "bitxor": "xor"}
    joined = builder.binary(names.get(op, op), old, value)
    builder.store(target.buffer, target.index, builder.cast(target.buffer.dtype, joined))
    trace.wrote(target.buffer)


def finalize_reducer(reducer: Buffer, dst: Any = None, batch: int = 1, annotations: Any = None) -> None:
    """Combine what all threads contributed to a reducer, so that each has its value; copied to dst if given.

    batch: how many elements are combined at once; accepted, the compiler decides."""
    target = as_operand(reducer, "T.finalize_reducer: the reducer")
    attrs = {"batch": _int(batch, "T.finalize_reducer: batch")} if batch != 1 else {}
    _tile("finalize_reducer", (target,), attrs, annotations, target)
    if dst is not None:
        out = as_operand(dst, "T.finalize_reducer: dst")
        _tile("copy", (target, out), {}, None, out)


# ── scans, transpose, clamp ───────────────────────────────────────────────────────────────────────────
def cumsum(src: Any, dst: Any = None, dim: int = 0, reverse: bool = False, annotations: Any = None) -> None:
    """dst[…, n, …] = the sum of src[…, 0…n, …] along dim; with reverse of src[…, n…, …].

    src, dst: shared tiles, slices of them or fragments, of one shape; dst of src's dtype or a wider one of
    its kind; without dst in place.  Two parts of one tile have all elements in common, or none.  float16 and
    bfloat16 are summed in float32, each element rounded once."""
    _scan("cumsum", src, dst, dim, reverse, annotations)


def cummax(src: Any, dst: Any = None, dim: int = 0, reverse: bool = False, annotations: Any = None) -> None:
    """dst[…, n, …] = the maximum of src[…, 0…n, …] along dim; operands as in T.cumsum.  A NaN loses."""
    _scan("cummax", src, dst, dim, reverse, annotations)


def _scan(name: str, src: Any, dst: Any, dim: Any, reverse: bool, annotations: Any) -> None:
    source = as_operand(src, f"T.{name}: src")
    target = source if dst is None else as_operand(dst, f"T.{name}: dst")
    attrs = {"dim": _int(dim, f"T.{name}: dim"), "reverse": flag(reverse, f"T.{name}: reverse")}
    _tile(name, (source, target), attrs, annotations, target)


def transpose(src: Any, dst: Any, annotations: Any = None) -> None:
    """dst = src with its last two dimensions exchanged; any two tiles or slices of the fitting shapes,
    which have no element in common."""
    source, target = as_operand(src, "T.transpose: src"), as_operand(dst, "T.transpose: dst")
    _tile("transpose", (source, target), {}, annotations, target)


def clamp(dst: Any, min_val: Any, max_val: Any) -> Any:
    """min(max(dst, min_val), max_val): of a value, or in place of every element of a tile (or a slice)."""
    tile = dst.__class__ is Region or (dst.__class__ is Buffer and dst.scope != "var")
    if not tile:
        return _scalar.min(_scalar.max(dst, min_val), max_val)
    _tile("clamp", (dst, as_value(min_val), as_value(max_val)), {}, None, dst)
    return None


# ── other shapes ──────────────────────────────────────────────────────────────────────────────────────
def reshape(src: Buffer, shape: Any) -> Buffer:
    """Another shape of a buffer's storage: element n in row-major order is element n.  Not a copy.

    src: a shared tile, a fragment (if what a thread holds can be said in the new shape), a local array, or a
    contiguous tensor.  shape: extents whose product is that of src."""
    return _alias("T.reshape", src, shape, None)


def view(src: Buffer, shape: Any = None, dtype: Any = None, strides: Any = None) -> Buffer:
    """Another shape and dtype of a buffer's storage, not a copy.

    As T.reshape, and of any memory; elements of a fragment that make up one of a wider dtype must be
    neighbours in one thread's registers, and a tensor is not written by parts of its elements.  A shared
    tile and its views lie in one layout, byte by byte: whichever of them is annotated, the others follow, and
    bytes that make up one element of a wider dtype must be neighbours there.  Without shape the last extent
    follows the dtype.  strides: row-major ones without gaps, which a view has; no others."""
    made = _alias("T.view", src, shape, dtype)
    if strides is not None:
        given, own = (", ".join(str(as_value(n)) for n in steps) for steps in (strides, made.strides))
        if given != own:
            raise fail(
                f"T.view: strides ({given}), but a view of shape ({', '.join(map(str, made.shape))}) "
                f"is row-major without gaps, ({own}); a T.StridedTensor parameter has strides of its "
                "own"
            )
    return made


def _alias(what: str, src: Any, shape: Any, dtype: Any) -> Buffer:
    trace = in_kernel(what)
    if src.__class__ is not Buffer or src.scope == "var":
        given = "a slice of one" if src.__class__ is Region else src
        raise fail(f"{what}: a whole buffer has another shape, not {given}")
    kind, lanes = (src.dtype, ()) if dtype is None else dtypes.element_of(dtype, ())
    if shape is None:
        wide = kind.bits * lanes[0] if lanes else kind.bits
        shape, bits = list(src.shape), src.dtype.bits
        last = shape[-1]
        if last.__class__ is not int or last * bits % wide:
            raise fail(
                f"{what}: the rows of {src.name} hold {last} elements of {bits} bits, which is not a "
                f"whole number of {dtype}: give the new shape"
            )
        shape[-1] = last * bits // wide
    hint = trace.take_hint(f"{src.name}_view")
    made = trace.builder.alias(hint, src, (*_extents(shape, what), *lanes), kind, what)
    return trace.of_lanes(made, lanes[0]) if lanes else made


__all__ = ["all_of", "alloc_reducer", "any_of", "clamp", "cummax", "cumsum", "finalize_reducer", "reduce",
           "reduce_absmax", "reduce_abssum", "reduce_all", "reduce_any", "reduce_bitand", "reduce_bitor",
           "reduce_bitxor", "reduce_max", "reduce_min", "reduce_prod", "reduce_sum", "reducer_init",
           "reducer_update", "reshape", "transpose", "view"]  # fmt: skip
