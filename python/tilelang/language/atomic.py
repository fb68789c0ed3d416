"""Updates of memory that no other thread can come between: of single elements, of tiles, in a memory order.

`dst` is an element `C[i, j]` with a value, or a buffer, slice or element with a tile of values.  It lies in a
tensor or a shared tile, of float16, bfloat16, float32, float64, int32, uint32, int64 or uint64.

memory_order: "relaxed" (nothing but the update itself), "acquire" (what others released before is seen
after), "release" (what was written before is seen by those who acquire), "acq_rel", "seq_cst" (one order for
all); "consume" is "acquire".  Their names in CUDA and C++ ("cuda::memory_order_acquire") and their numbers, 0
to 5 from "relaxed" over "consume" on, are taken too.  An order reaches the threads of the whole device, of
shared memory those of the block.

A float minimum or maximum, and on chips before sm_90 a bfloat16 sum, is a loop that compares and swaps; of a
NaN and a number it takes the number.  Neighbouring updates of a tile are joined to one instruction of 2, 4
or 8 elements where the chip has it; each element is updated for itself all the same.

| operation | what to write |
|---|---|
| sum, difference | `T.atomic_add(place, x)`, `T.atomic_add(place, -x)` |
| maximum, minimum | `T.atomic_max(place, x)`, `T.atomic_min(place, x)` |
| bitwise or | `T.atomic_or(place, x)` |
| what stood there before | `return_prev=True`, of each of these |
| load, store | `T.atomic_load(place)`, `T.atomic_store(place, x)` |
| (compare and) exchange: there is none | `T.atomic_add(counter, 1, return_prev=True)` numbers who comes |
| and, exclusive or: there is none | `T.reduce_bitand`, `T.reduce_bitxor` within a block |"""

from __future__ import annotations

from typing import Any

from .._core import Buffer, Expr, Region
from ..front import loose
from ..front.indexing import Part, as_operand, subscript
from ..front.offered import named
from ..front.trace import fail, in_kernel, note
from ..front.values import Element, Lanewise, Nothing, as_value, constant
from ..front.vectors import Vector, as_vector, is_vector, vector_of
from ..front.wording import element_of, shape_of

_ORDERS = ("relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst")  # by CUDA's numbers


def _order(memory_order: Any, what: str) -> str:
    """An order by its word, by its name in CUDA or C++ (cuda::memory_order_acquire), or by its number."""
    if memory_order is None:
        return "relaxed"
    given = memory_order
    if not isinstance(given, str):
        given = constant(as_value(given))
        if given.__class__ is not int or not 0 <= given < len(_ORDERS):
            raise fail(
                f"{what}: memory_order is a word such as 'relaxed' or 'acq_rel', or its number in CUDA, 0 to "
                f"{len(_ORDERS) - 1}, not {memory_order!r}"
            )
        given = _ORDERS[given]
    for prefix in ("cuda::", "std::", "memory_order_", "memory_order::", "__ATOMIC_"):
        given = given.removeprefix(prefix)
    given = given.lower() if given.isupper() else given
    return "acquire" if given == "consume" else given  # as which everyone compiles it


def _element(place: Any, what: str) -> Element:
    if place.__class__ is Element:
        return place
    if place.__class__ is Buffer and place.scope == "var":
        raise fail(
            f"{what}: {place.name} is a variable, which every thread has for itself; atomics are for "
            "tensors and shared tiles"
        )
    raise fail(f"{what}: expected an element such as A[i, j], got {type(place).__name__}")


def _is_tile(x: Any) -> bool:
    return x.__class__ in (Region, Part) or (x.__class__ is Buffer and x.scope != "var")


def _parts(region: Region, loops: list, extents: list, what: str) -> tuple:
    """The element of a region at these loops, one for each dimension that is not a point.  Where an element
    says that a tile begins, they are its last ones, without extents of 1 where there are too many."""
    free = list(loops)
    dimensions = sum(not point for _, _, point in region.ranges)
    if len(free) > dimensions:
        free = [i for i, extent in zip(loops, extents, strict=True) if extent != 1]
    if len(free) > dimensions:
        raise fail(
            f"{what}: a tile of {extents} does not fit into {region.buffer.name}, of {dimensions} dimensions"
        )
    free = [0] * (dimensions - len(free)) + free
    return tuple([start if point else start + free.pop(0) for start, _, point in region.ranges])


def _extents(x: Any) -> list:
    extents = list(x.extents if x.__class__ is Region else x.shape)
    return [] if None in extents else extents


def _whole(x: Any) -> Any:
    return subscript(x, (slice(None),) * len(x.shape)) if x.__class__ is Buffer else x


def _one_by_one(op: str, dst: Any, value: Any, order: str, returns: bool) -> Any:
    """A loop over the elements of a tile, by one value or those of a tile; what they held, a fragment."""
    what = f"T.{op}"
    trace = in_kernel(what)
    tiled = _is_tile(value) or value.__class__ is Element
    if tiled:
        loose.decide(op, (dst, value))
    region = _whole(as_operand(dst, f"{what}: dst"))
    source = _whole(as_operand(value, f"{what}: value")) if tiled else as_value(value)
    extents = _extents(region) or (_extents(source) if tiled else [])
    if tiled and _extents(source) and _extents(source) != extents:
        raise fail(
            f"{what}: dst is a tile of {extents}, but value one of {_extents(source)}; they must be equal"
        )
    builder, names = trace.builder, ["i", "j", "k", "l", "m", "n"][: len(extents)]
    held = None
    if returns:
        held = builder.alloc(trace.take_hint("held"), "fragment", extents, region.buffer.dtype, {})
    loops = list(builder.begin_for("parallel", names, [0] * len(names), extents, [1] * len(names), {}))
    given = builder.load(source.buffer, _parts(source, loops, extents, what)) if tiled else source
    given = builder.cast(region.buffer.dtype, given) if tiled else given
    old = builder.atomic(op, region.buffer, _parts(region, loops, extents, what), given, order, returns)
    if held is not None:
        builder.store(held, loops, old)
    builder.end_for()
    trace.wrote(region.buffer)
    return held if returns else _nothing(what, trace)


def _update(
    op: str, dst: Any, value: Any, memory_order: Any, return_prev: bool, use_tma: bool = False
) -> Any:
    what = f"T.{op}"
    trace = in_kernel(what)
    order = _order(memory_order, what)
    by_tiles = (_is_tile(dst) or _is_tile(value)) and not return_prev
    if is_vector(value) or value.__class__ is Lanewise:
        return _several(op, dst, value, order, bool(return_prev))
    if use_tma and not by_tiles:
        note(f"{what}: use_tma=True is for tiles; single elements are updated by threads")
    if memory_order.__class__ is int and dst.__class__ is Buffer and dst.scope != "var":
        raise fail(
            f"{what}({dst.name}, value, {memory_order}): the third argument is the memory order, and dst is "
            f"all of {dst.name}: an element is {dst.name}[i]; where all are meant, say memory_order='{order}'"
        )
    if dst.__class__ is Buffer and _is_base_of(dst) and not _is_tile(value) and trace.in_parallel():
        raise fail(
            f"{what}: dst is all of {dst.name}, of shape {shape_of(dst)}, which each iteration of this "
            f"T.Parallel would update by one value: an element is {element_of(dst)}; to update all by one "
            "value, do that outside of the loop"
        )
    if _is_tile(dst) or _is_tile(value):
        if op == "atomic_or" and (_is_tile(value) or value.__class__ is Element):
            raise fail("T.atomic_or updates one element: use A[i, j] in a T.Parallel loop")
        if _is_tile(dst) and value.__class__ is Element and not _is_base_of(dst):
            value = value.load()
        if return_prev or not (_is_tile(value) or value.__class__ is Element):
            return _one_by_one(op, dst, value, order, bool(return_prev))
        loose.decide(op, (dst, value))
        to, source = as_operand(dst, f"{what}: dst"), as_operand(value, f"{what}: value")
        trace.builder.tile(f"{op}_tile", (to, source), {"memory_order": order, "use_tma": use_tma})
        trace.wrote(to if to.__class__ is Buffer else to.buffer)
        return _nothing(what, trace)
    place = _element(dst, what)
    old = trace.builder.atomic(op, place.buffer, place.index, as_value(value), order, bool(return_prev))
    trace.wrote(place.buffer)
    return old if return_prev else _nothing(what, trace)


def _several(op: str, dst: Any, value: Any, order: str, returns: bool) -> Any:
    """As many neighbours as a vector has lanes, each updated by its own."""
    what, vector = f"T.{op}", as_vector(value)
    trace, place = in_kernel(what), _first_of(dst, len(vector), f"T.{op}: dst")
    (*rest, last), buffer, update = place.index, place.buffer, trace.builder.atomic
    if returns:
        held = [update(op, buffer, (*rest, last + n), x, order, True) for n, x in enumerate(vector.lanes)]
        trace.wrote(buffer)
        return vector_of(held)
    given = _kept(trace.builder, vector, buffer.dtype).buffer
    (v,) = trace.builder.begin_for("vectorized", ["v"], [0], [len(vector)], [1], {})
    update(op, buffer, (*rest, last + v), trace.builder.load(given, (v,)), order, False)
    trace.builder.end_for()
    trace.wrote(buffer)
    return _nothing(what, trace)


def _nothing(what: str, trace: Any) -> Nothing:
    line = f" on line {trace.site[0]}" if trace.site[0] else ""
    return Nothing(
        f"{what}{line} gives no value as it is called: return_prev=True gives what the element held before"
    )


def _is_base_of(dst: Any) -> bool:
    """Whether it has several elements: one beside it is then where a tile of values begins."""
    extents = dst.extents if dst.__class__ is Region else dst.shape
    return any(not (n.__class__ is int and n == 1) for n in extents)


def atomic_add(
    dst: Any,
    value: Any,
    memory_order: str | None = None,
    return_prev: bool = False,
    use_tma: bool = False,
    annotations: Any = None,
) -> Expr | Buffer | None:
    """dst += value, indivisibly; element by element if they are tiles of equal shape.

    dst: A[i, j] or a tile in a tensor or in shared memory; value: a number, an element, or a tile (fragment
    or shared), converted to dst's dtype.  return_prev: give what the element held before; of a tile a
    fragment of its extents.
    use_tma, of a tile in a tensor: the tensor memory accelerator (sm_90 and later) adds the whole tile, from
    shared memory, and the threads wait until it has read it; where it cannot, or the tile begins below 0,
    the threads do it element by element, and the report says why."""
    _no_annotations("atomic_add", annotations)
    return _update("atomic_add", dst, value, memory_order, return_prev, bool(use_tma))


def _no_annotations(op: str, annotations: Any) -> None:
    if annotations:
        what = f"T.{op}"
        in_kernel(what).builder.note(
            what, "annotations", f"annotations={annotations!r} is a hint that this version does not use"
        )


def _bound(word: str) -> Any:
    def update(
        dst: Any,
        value: Any,
        memory_order: str | None = None,
        return_prev: bool = False,
        annotations: Any = None,
    ) -> Expr | Buffer | None:
        _no_annotations(f"atomic_{word}", annotations)
        return _update(f"atomic_{word}", dst, value, memory_order, return_prev)

    return named(update, f"atomic_{word}", f"dst = {word}(dst, value), indivisibly; as atomic_add.")


atomic_max, atomic_min = _bound("max"), _bound("min")


def atomic_or(
    dst: Any, value: Any, memory_order: str | None = None, return_prev: bool = False
) -> Expr | Buffer | None:
    """dst |= value, indivisibly, of one integer element."""
    return _update("atomic_or", dst, value, memory_order, return_prev)


def _first_of(place: Any, count: int, what: str) -> Element:
    """The first of so many neighbours: an element, or that of a slice or tile of so many."""
    place = place.region if place.__class__ is Part else place
    if not _is_tile(place):
        return _element(place, what)
    region = _whole(place)
    sizes = [1 if point else constant(extent) for _, extent, point in region.ranges]
    if sizes[-1] != count or any(size != 1 for size in sizes[:-1]):
        raise fail(
            f"{what} takes {count} neighbours along the last dimension, {region.buffer.name}[…, i : i + "
            f"{count}]; these have extents ({', '.join(map(str, sizes))})"
        )
    return Element(region.buffer, tuple([start for start, _, _ in region.ranges]))


def _neighbours(name: str, dst: Any, value: Any, count: int, return_prev: bool) -> Any:
    what = f"T.{name}"
    trace = in_kernel(what)
    place, value = _first_of(dst, count, f"{what}: dst"), _values_of(value, count, what)
    if return_prev:  # no chip has an instruction of several that says what was there
        add = trace.builder.atomic
        rest, last = place.index[:-1], place.index[-1]
        values = [as_value(_beside(value, v)) for v in range(count)]
        held = [
            add("atomic_add", place.buffer, (*rest, last + v), values[v], "relaxed", True)
            for v in range(count)
        ]
        trace.wrote(place.buffer)
        return vector_of(held)
    if isinstance(value, _SEVERAL):
        value = _kept(trace.builder, value, place.buffer.dtype)
    lane = trace.builder.begin_for("vectorized", ["v"], [0], [count], [1], {})[0]
    last = place.index[-1] + lane
    given = as_value(_beside(value, lane))
    trace.builder.atomic("atomic_add", place.buffer, (*place.index[:-1], last), given, "relaxed", False)
    trace.builder.end_for()
    trace.wrote(place.buffer)
    return _nothing(what, trace)


_SEVERAL = (Vector, tuple, list)


def _kept(builder: Any, values: Any, dtype: Any) -> Element:
    """The first of several values in an array of the thread, from where one instruction takes them all."""
    array = builder.alloc("given", "local", (len(values),), dtype, {})
    for n, x in enumerate(values):
        builder.store(array, (n,), as_value(x))
    return Element(array, (0,))


def _values_of(value: Any, count: int, what: str) -> Any:
    """What is added: a number for all, an element and its neighbours, or so many values."""
    if _is_tile(value):
        return _first_of(value, count, f"{what}: value")
    value = as_vector(value) if is_vector(value) else value
    held = (
        value.count if value.__class__ is Lanewise else len(value) if isinstance(value, _SEVERAL) else count
    )
    if held != count:
        raise fail(f"{what}: dst has {count} elements, but value has {held}")
    return value


def _beside(value: Any, lane: Any) -> Any:
    """The element so many after this one; a value is for all lanes, of several lanes each its own."""
    if isinstance(value, _SEVERAL):
        return value[lane] if lane.__class__ is int else value
    if value.__class__ is Lanewise:
        return value.element(lane)
    if value.__class__ is not Element:
        return value
    given = Element(value.buffer, (*value.index[:-1], value.index[-1] + lane))
    given.writes = value.writes
    return given


def atomic_addx2(dst: Any, value: Any, return_prev: bool = False) -> Vector | None:
    """Add two neighbouring elements, each indivisibly.

    dst: the first of them, a slice of two, C[i : i + 2], or a tile of two; value: likewise, or one number for
    both, or a pair.
    One instruction where the chip has it: float16 on every chip, bfloat16 and float32 from sm_90 on; two with
    return_prev, which gives what the elements held: a pair (T.extract_lane, or `C[i : i + 2] = …`)."""
    return _neighbours("atomic_addx2", dst, value, 2, return_prev)


def atomic_addx4(dst: Any, value: Any, return_prev: bool = False) -> Vector | None:
    """Add four neighbouring elements, each indivisibly; dst and value as of atomic_addx2, of four.

    One instruction where the chip has it: from sm_90 on, in tensors; four with return_prev, which gives what
    the elements held (T.extract_lane)."""
    return _neighbours("atomic_addx4", dst, value, 4, return_prev)


def atomic_load(src: Any, memory_order: str = "seq_cst") -> Expr:
    """The value of an element, read indivisibly.  memory_order: relaxed, acquire or seq_cst."""
    place = _element(src, "T.atomic_load")
    trace = in_kernel("T.atomic_load")
    order = _order(memory_order, "T.atomic_load")
    return trace.builder.atomic("atomic_load", place.buffer, place.index, None, order, True)


def atomic_store(dst: Any, src: Any, memory_order: str = "seq_cst") -> None:
    """Set an element, indivisibly.  memory_order: relaxed, release or seq_cst."""
    place = _element(dst, "T.atomic_store")
    trace = in_kernel("T.atomic_store")
    order = _order(memory_order, "T.atomic_store")
    trace.builder.atomic("atomic_store", place.buffer, place.index, as_value(src), order, False)
    trace.wrote(place.buffer)


__all__ = ["atomic_add", "atomic_addx2", "atomic_addx4", "atomic_load", "atomic_max", "atomic_min",
           "atomic_or", "atomic_store"]  # fmt: skip
