"""Kernels on tiles: memory, tile operators, loops and the order of blocks of `tilelang.language`."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable
from typing import Any

from .._core import Buffer, CompileError, Expr, Region
from ..front import dtypes, loose, registers
from ..front.indexing import as_operand
from ..front.loops import Loop, whole
from ..front.loops import serial as _serial
from ..front.trace import current, fail, in_kernel
from ..front.values import DEVICE, Element, as_value, constant
from ..front.vectors import VectorVariable
from ..front.wording import given
from .launch import integers
from .maps import Fragment


# ── memory ────────────────────────────────────────────────────────────────────────────────────────────
def flag(value: Any, what: str) -> bool:
    """A switch of an operator: True or False, also of NumPy, and 1, 0 and None for them."""
    known = value is None or value.__class__.__name__ in ("bool", "bool_") or value.__class__ is int
    if not known or value not in (True, False, None):
        raise fail(f"{what} is True or False, not {value!r}")
    return bool(value)


def _shape(shape: Any, what: str, hint: str) -> list:
    items = shape if isinstance(shape, (tuple, list)) else (shape,)
    if what == "T.alloc_shared":  # it may have the most that a call may bring
        items = [as_value(n) if isinstance(n, DEVICE) and n.__class__ is not Element else n for n in items]
        if any(n.__class__ is Expr and not n.is_const for n in items):
            return [n if n.__class__ is Expr else integers(n, f"{what}: the shape")[0] for n in items]
    for d, item in enumerate(items):
        if isinstance(item, DEVICE) and not (item.__class__ is Expr and item.is_const):
            raise fail(
                f"{what}: extent {d} of {hint} is {item}, which is known only when the kernel is called, "
                "but the shape of a tile is fixed while the kernel is built; "
                "take a constant and loop over the rest"
            )
    return integers(shape, f"{what}: the shape")


_SCOPES = {"shared": "shared", "shared.dyn": "shared", "local.fragment": "fragment", "local": "local"}


def no_such_scope(what: str, known: Iterable[str], scope: Any) -> str:
    """What is said of a scope that a function of allocation does not know."""
    if hasattr(scope, "__index__"):
        return f"{what}: several extents stand in a tuple, {what}((m, n, {scope}), dtype)"
    text = f"{what}: scope is one of {', '.join(map(repr, known))}, not {scope!r}"
    if isinstance(scope, str) and "tmem" in scope:
        text += ": tensor memory needs sm_100's own instructions (tcgen05), which this version does not have"
    return text


def _scope(what: str, scope: str) -> str:
    """Where the elements live: a scope that is given counts, whatever the function is called."""
    if scope not in _SCOPES:
        raise fail(no_such_scope(what, _SCOPES, scope))
    return _SCOPES[scope]


def _is_dtype(x: Any) -> bool:
    try:
        return not hasattr(x, "__index__") and bool(dtypes.element_of(x, ()))
    except CompileError:
        return False


def _alloc(name: str, shape: Any, dtype: Any, scope: Any, usual: str) -> Buffer:
    what = f"T.alloc_{name}"
    trace = in_kernel(what)
    if hasattr(dtype, "__index__"):  # two integers are a shape
        shape, dtype = (shape, dtype), None
        if _is_dtype(scope):  # and a dtype may follow them
            scope, dtype = usual, scope
    scope = _scope(what, scope)
    hint = trace.take_hint(name)
    shape = _shape(shape, what, hint)
    known, extents = (loose.PLACEHOLDER, shape) if dtype is None else dtypes.element_of(dtype, tuple(shape))
    buffer = trace.builder.alloc(hint, scope, extents, known, {})
    if len(extents) > len(shape):
        trace.of_lanes(buffer, extents[-1])
    if dtype is None:
        loose.leave_open(trace, buffer)
    elif scope in ("fragment", "local"):
        registers.note(trace, buffer)
    return buffer


def alloc_shared(shape: Any, dtype: Any = None, scope: str = "shared.dyn") -> Buffer:
    """A tile that the threads of a block share.

    shape: extents; T.alloc_shared(m, n) is T.alloc_shared((m, n)).  An extent that only the call knows, of
    parameters and T.dynamic names, has room for what T.assume(n <= most) above it says, without one for what
    48 KB hold beside the tiles before it; a call with more is refused.  dtype: of an element; without one,
    the first tile operator decides (copy: that of the other side; gemm: of the other operand).  scope:
    "shared" or "shared.dyn", which are the same here."""
    return _alloc("shared", shape, dtype, scope, "shared.dyn")


def alloc_fragment(shape: Any, dtype: Any = None, scope: str = "local.fragment") -> Buffer:
    """A tile of a block held in registers, spread over its threads as layout inference decides.

    shape, dtype: as in T.alloc_shared; without a dtype the accumulator of a gemm is float32, of integers
    int32.  Outside of tile operators and T.Parallel, f[i] is the block's one element i, whatever thread
    writes or reads it: where that thread does not hold it, the tile goes through shared memory."""
    return _alloc("fragment", shape, dtype, scope, "local.fragment")


def alloc_local(shape: Any, dtype: Any = None, scope: str = "local") -> Buffer:
    """An array that every thread has for itself.

    A T.Parallel loop that stores only to such arrays is run by every thread as a whole; in one that stores to
    tiles or tensors as well, an iteration may read only what it stored itself, and the arrays may not be read
    afterwards. A thread of a GPU has room for 512 KB of them at one time; arrays that do not fit into its
    registers are slow."""
    return _alloc("local", shape, dtype, scope, "local")


class _LeftOut:
    """The default of a parameter for which None means a mistake."""

    def __repr__(self) -> str:
        return "left out"


UNSET = _LeftOut()


def alloc_var(dtype: Any, *args: Any, scope: str = "local.var", init: Any = UNSET) -> Buffer:
    """A value that may change: assign to its name with `=` and `+=`; reading the name reads the value.
    A list, tuple or dict has the variable itself, not its value: reading it from there gives what it holds
    then, and a loop of Python over it, `for v in (a, b):`, stores where it assigns to v.

    dtype: of one value, or of several, "float32x2": such a variable is a vector, and its lanes are assigned
    as v[0] = x.
    args: init, or scope, or both in that order.  init: its first value, of that dtype; without it the
    variable must be assigned before it is read.  scope: "local.var", where every variable lives.
    In a T.Parallel loop that also stores to a tile or tensor, each iteration assigns it before reading it,
    and nothing reads it afterwards."""
    trace = in_kernel("T.alloc_var")
    rest = list(args)
    if rest and not isinstance(rest[0], str) and init is UNSET:
        init = rest.pop(0)
    if rest and isinstance(rest[0], str):
        scope = rest.pop(0)
    if rest:
        raise fail("T.alloc_var takes a dtype, then its first value and the scope: T.alloc_var('int32', 0)")
    if scope not in ("local.var", "local"):
        raise fail(f"T.alloc_var: scope is 'local.var', not {scope!r}: a variable belongs to one thread")
    if init is None:
        raise fail(
            "T.alloc_var: init is None, which is what a call gives that has no value; leave init out "
            "for a variable that is assigned later"
        )
    one, lanes = dtypes.element_of(dtype, ())
    if lanes:
        array = trace.builder.alloc(trace.take_hint("var"), "local", lanes, one, {})
        variable = VectorVariable(array, one.with_lanes(lanes[0]))
        if init is not UNSET:
            variable.store(init)
        return variable
    variable = trace.builder.alloc(trace.take_hint("var"), "var", (), one, {})
    if init is not UNSET:
        trace.builder.store(variable, (), constant(as_value(init)))
    return variable


# ── tile operators ────────────────────────────────────────────────────────────────────────────────────
def _tile(op: str, operands: tuple, attrs: dict[str, Any], annotations: Any, *written: Any) -> None:
    trace = in_kernel(f"T.{op}")
    name = operation_of(f"T.{op}", annotations)
    loose.decide(op, operands)
    if name is not None:
        trace.builder.begin_op(name)
    trace.builder.tile(op, operands, attrs)
    if name is not None:
        trace.builder.end_group()
    for operand in written:
        trace.wrote(operand if operand.__class__ is Buffer else operand.buffer)


WSID = "tl.ws_op_id"  # in annotations: the name of an operation, as `with T.ws_op(name):` gives it


def schedule_name(what: str, name: Any) -> str:
    """A name in a schedule of warps: an error unless it is one word."""
    if not isinstance(name, str) or not re.fullmatch(r"[\w.+-]+", name) or name == ".":
        raise fail(f"{what}: a name is a text of letters, digits and _ . + -, not {name!r}")
    return name


def operation_of(what: str, annotations: Any) -> str | None:
    """The name that annotations give to a statement or loop for a schedule of warps; others are hints."""
    given = annotations.get(WSID) if isinstance(annotations, dict) else None
    if given is None:
        unused(what, annotations=annotations or None)
        return None
    unused(what, annotations={key: x for key, x in annotations.items() if key != WSID} or None)
    return schedule_name(what, given)


def _named(loop: Loop, what: str, annotations: Any) -> Loop:
    loop.op = operation_of(what, annotations)
    return loop


def unused(what: str, **options: Any) -> None:
    """Hints that this version has no use for: the report says so, and the result is the same."""
    for name, value in options.items():
        if value is not None:
            text = f"{name}={value!r} is a hint that this version does not use"
            in_kernel(what).builder.note(what, name, text)


def copy(
    src: Any,
    dst: Any,
    *,
    coalesced_width: int | None = None,
    disable_tma: bool = False,
    eviction_policy: str | None = None,
    prefer_instruction: str | None = None,
    annotations: Any = None,
    loop_layout: Any = None,
) -> None:
    """Copy a tile between any two of: tensor, shared tile, fragment; the dtype is converted on the way.

    src, dst: buffer, slice, or element where the tile begins (then the other side gives the extents).  The
    shapes, without dimensions that a plain index drops, must be equal.  Reads outside a tensor give 0, writes
    outside it are dropped.  Two parts of one buffer, in whatever shapes it is looked at, must have no element
    in common, or be the same; where only the run can tell, all is read before anything is written.
    A slice may have an extent that only the run knows, A[i, 0:n]: what of it lies outside of a tile is not
    moved, and threads copy it, without TMA or cp.async.
    disable_tma: accepted; only T.tma_copy uses TMA.  coalesced_width: elements that a thread moves at once,
    at most; loop_layout: a T.Fragment over the extents (without those that are 1), as for T.Parallel.
    eviction_policy ("evict_normal", "evict_first", "evict_last"), prefer_instruction and annotations: hints
    that this version does not use; explain() lists them."""
    if eviction_policy not in (None, "evict_normal", "evict_first", "evict_last", 0, 1, 2):
        raise fail(
            "T.copy: eviction_policy must be 'evict_normal', 'evict_first' or 'evict_last', not "
            f"{eviction_policy!r}"
        )
    unused("T.copy", eviction_policy=eviction_policy, prefer_instruction=prefer_instruction)
    attrs: dict[str, Any] = {"disable_tma": True} if disable_tma else {}
    if coalesced_width is not None:
        attrs["coalesced_width"] = integers(coalesced_width, "T.copy: coalesced_width")[0]
    if loop_layout is not None:
        attrs["loop_layout"] = _loop_layout(loop_layout, "T.copy")
    source, target = as_operand(src, "T.copy: src"), as_operand(dst, "T.copy: dst")
    _tile("copy", (source, target), attrs, annotations, target)


def _filled(buffer: Any, what: str) -> Any:
    """What T.clear or T.fill writes: `A[i, j]` is one element, as there is no other operand to say more."""
    if buffer.__class__ is Element:
        n = len(buffer.index)
        return Region(buffer.buffer, buffer.index, (1,) * n, (False,) * n)
    return as_operand(buffer, what)


def clear(buffer: Any, annotations: Any = None) -> None:
    """Set every element of a tile (or a slice of one, of any extent, or one element) to zero."""
    if buffer.__class__ is Buffer and buffer.scope == "var":
        return fill(buffer, 0, annotations)
    target = _filled(buffer, "T.clear: the buffer")
    _tile("clear", (target,), {}, annotations, target)


def fill(buffer: Any, value: Any, annotations: Any = None) -> None:
    """Set every element of a tile, of a slice of one, or one element, to a value, converted to its dtype."""
    if buffer.__class__ is Buffer and buffer.scope == "var":
        trace = in_kernel("T.fill")
        trace.builder.store(buffer, (), constant(as_value(value)))
        return trace.wrote(buffer)
    target, value = _filled(buffer, "T.fill: the buffer"), as_value(value)
    tile = target if target.__class__ is Buffer else target.buffer
    if tile.id not in in_kernel("T.fill").undecided:  # else the value's dtype becomes the tile's
        value = constant(value)
    _tile("fill", (target, value), {}, annotations, target)


# ── loops ─────────────────────────────────────────────────────────────────────────────────────────────
def Parallel(
    *extents: Any,
    coalesced_width: int | None = None,
    loop_layout: Any = None,
    prefer_async: bool | None = None,
    annotations: Any = None,
) -> Loop:
    """`for i, j in T.Parallel(m, n):`, independent iterations, spread over threads and vector lanes.

    They run together, in any order: none may read what another writes, or write another value to the same
    element; several may write the same value there.  A loop that does nothing but change variables is run
    by every thread as a whole, and may carry one from iteration to iteration.  The body is
    elementwise code of one thread: no barriers and tiles of its own; a T.Parallel directly in it is one nest
    with it, other loops in it are serial (T.Pipelined too), unrolled or vectorized.  A loop of nothing but
    tile operators runs them one after another, each by all threads, as T.serial does.  In it `x = A[i, j]`
    names the value that the element has there, and x += 1 gives the name another value; a place, which is
    written to, is only an element on the left itself, A[i, j] += 1, and a name bound to T.alloc_var.
    extents: one per index, each counting from 0.  coalesced_width: neighbouring iterations that a thread runs
    at once, at most.  loop_layout: a T.Fragment over the same extents; iteration
    (i, j) then runs on its thread, and each thread runs its iterations in the order of their registers.
    prefer_async, annotations: hints, which this version does not follow, but for T.WSID."""
    loop = _nest("parallel", extents, "T.Parallel")
    if current() is not None:
        unused("T.Parallel", prefer_async=prefer_async or None)
        _named(loop, "T.Parallel", annotations)
    if coalesced_width is not None:
        loop.attrs["coalesced_width"] = integers(coalesced_width, "T.Parallel: coalesced_width")[0]
    if loop_layout is not None:
        loop.attrs["loop_layout"] = _loop_layout(loop_layout, "T.Parallel")
    return loop


def _loop_layout(loop_layout: Any, what: str) -> Any:
    if not isinstance(loop_layout, Fragment):
        raise fail(f"{what}: loop_layout must be a T.Fragment, not {type(loop_layout).__name__}")
    if not loop_layout._core.layout.has_expressions:
        raise fail(
            f"{what}: this loop_layout is known as a table only: give its registers as an "
            "expression too (forward_index_fn)"
        )
    return loop_layout._core


def grid(*extents: Any) -> Loop:
    """`for i, j in T.grid(m, n):`, nested serial loops."""
    return _nest("serial", extents, "T.grid")


def _nest(kind: str, extents: tuple, what: str) -> Loop:
    if not extents:
        raise fail(f"{what} needs at least one extent")
    n = len(extents)
    stops = [whole(as_value(e), f"extent {d} of {what}") for d, e in enumerate(extents)]
    return Loop(kind, [0] * n, stops, [1] * n, {})


def _bounds(start: Any, stop: Any, step: Any = None) -> tuple:
    if stop is None:
        start, stop = 0, start
    return (start, stop) if step is None else (start, stop, step)


def serial(start: Any, stop: Any = None, step: Any = None, *, annotations: Any = None) -> Loop:
    """`for i in T.serial(n)` or `(start, stop, step)`, in order; the same as range(...)."""
    return _named(_serial(*_bounds(start, stop, step)), "T.serial", annotations)


def unroll(
    start: Any,
    stop: Any = None,
    step: Any = None,
    *,
    explicit: bool = False,
    unroll_factor: int | None = None,
    annotations: Any = None,
) -> Loop:
    """A serial loop whose body is written out once per iteration, or unroll_factor times in each turn.

    explicit changes nothing here."""
    attrs = {}
    if unroll_factor is not None:
        attrs["unroll_factor"] = integers(unroll_factor, "T.unroll: unroll_factor")[0]
    loop = _serial(*_bounds(start, stop, step), kind="unrolled", attrs=attrs)
    return _named(loop, "T.unroll", annotations)


Serial, Unroll = serial, unroll


def vectorized(start: Any, stop: Any = None, *, annotations: Any = None) -> Loop:
    """A loop whose iterations are the lanes of vector instructions; its body is code of one thread, as that
    of T.Parallel, without another T.vectorized."""
    return _named(_serial(*_bounds(start, stop), kind="vectorized"), "T.vectorized", annotations)


Vectorized = vectorized


def parallel(start: Any, stop: Any = None, *, annotations: Any = None) -> Loop:
    """A loop of independent iterations over [start, stop)."""
    return _named(_serial(*_bounds(start, stop), kind="parallel"), "T.parallel", annotations)


def Pipelined(
    start: Any,
    stop: Any = None,
    num_stages: int = 0,
    order: Any = None,
    stage: Any = None,
    annotations: Any = None,
    *,
    sync: Any = None,
    group: Any = None,
) -> Loop:
    """A serial loop whose copies run ahead of its computation; the result is that of the text's order.

    num_stages: how many slots each tile gets that the loop fills from a tensor, so that num_stages - 1 copies
    of it are in flight; 0 and 1 mean none.  Where so many do not fit into shared memory, the largest number
    that fits is taken.  explain() says which copies run ahead, and of each other one why it does not.

    A schedule by hand: order and stage hold an integer for each statement of the body (without names and
    allocations) or each list of statements in group.  In turn t of the loop a statement of stage s works on
    iteration t - s, and those of a turn run as order numbers them; -1 in both leaves a copy to the compiler.
    sync: pairs (i, j), j needs what i does.  A schedule that changes what the loop computes is an error."""
    known = constant(num_stages)
    if isinstance(known, DEVICE):
        raise fail(
            "T.Pipelined: num_stages is a value of the kernel, but it says how many slots each tile gets, "
            "which is decided while the kernel is built: make it a parameter of the function around"
        )
    if not hasattr(known, "__index__") or operator.index(known) < 0:
        raise fail(f"T.Pipelined: num_stages must be an integer >= 0, not {given(num_stages)}")
    attrs: dict[str, Any] = {"num_stages": operator.index(num_stages)}
    for name, value in {"order": order, "stage": stage, "group": group, "sync": sync}.items():
        attrs |= {} if value is None else {name: _schedule_list(name, value)}
    if (group is not None or sync is not None) and order is None and stage is None:
        raise fail("T.Pipelined: group and sync belong to an order or a stage, and neither is given")
    loop = _serial(*_bounds(start, stop), kind="pipelined", attrs=attrs)
    return _named(loop, "T.Pipelined", annotations)


def _schedule_list(name: str, given: Any) -> list[int]:
    """order and stage as they are; of group, the group of each statement; of sync, the pairs."""
    nested = name in ("group", "sync")
    items = "lists of the numbers of statements" if nested else "integers, one for each statement"
    lists = given if nested and isinstance(given, (list, tuple)) else [given]
    if not all(isinstance(one, (list, tuple)) and all(isinstance(i, int) for i in one) for one in lists):
        raise fail(f"T.Pipelined: {name} is a list of {items}, not {given!r}")
    if name == "sync" and any(len(pair) != 2 for pair in lists):
        raise fail(f"T.Pipelined: sync is a list of pairs, and a pair has two numbers: {given!r}")
    if name != "group":
        return [i for one in lists for i in one]
    number_of = {i: number for number, one in enumerate(lists) for i in one}
    if sorted(sum(map(list, lists), [])) != list(range(len(number_of))) or not all(lists):
        raise fail(f"T.Pipelined: group must name each statement once, counted from 0, not {given!r}")
    return [number_of[i] for i in range(len(number_of))]


# ── blocks ────────────────────────────────────────────────────────────────────────────────────────────
def use_swizzle(panel_size: Any, order: str = "row", enable: bool = True) -> None:
    """The order in which blocks run, for the L2 cache: those that run together share rows of A, columns of B.

    panel_size: constant, the width of a panel.  order "row": the grid is cut into panels of that many columns
    (x), and blocks run through one row of a panel after another; "column" or "col": into panels of rows (y),
    one column after another.  Every other panel runs backwards, beginning where the last one ended.  The
    kernel sees the remapped block indices; results do not change.  A grid of one dimension stays as it is."""
    trace = in_kernel("T.use_swizzle")
    if enable:
        trace.builder.use_swizzle(as_value(panel_size), "col" if order == "column" else order)


__all__ = ["Parallel", "Pipelined", "Serial", "Unroll", "Vectorized", "alloc_fragment",
           "alloc_local", "alloc_shared", "alloc_var", "clear", "copy", "fill", "grid", "parallel",
           "serial", "unroll", "use_swizzle", "vectorized"]  # fmt: skip
