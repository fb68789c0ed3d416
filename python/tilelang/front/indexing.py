"""Indices: `A[i, j]`, `A[i0:i1, :]`, `part[i] = x`; and what a tile operator takes as an operand."""

from __future__ import annotations

from typing import Any

from .._core import Buffer, Expr, Region
from . import loose
from .dtypes import DType
from .symbols import Undeclared
from .trace import builder, fail, in_kernel
from .values import VECTORS, Element, Lanewise, as_value, constant, lanewise, misuse_of_indices
from .vectors import Splat, Vector, as_vector, vector_of
from .wording import shape_of


def subscript(buffer: Buffer, index: Any) -> Element | Region:
    """`buffer[index]`: an element, or a region if there are slices or fewer indices than dimensions."""
    index = _full_index(buffer, index)
    rank = len(buffer.shape)
    if len(index) == rank and not any(i.__class__ is slice for i in index):
        return Element(buffer, _points(buffer, index))
    starts, extents, points = [], [], []
    for d in range(rank):
        i = index[d] if d < len(index) else slice(None)
        if i.__class__ is slice:
            start, extent = _range(buffer, d, i)
        else:
            start, extent = _point(buffer, i, buffer.shape[d]), 1
        starts.append(start)
        extents.append(extent)
        points.append(i.__class__ is not slice)
    region = Region(buffer, starts, extents, points)
    if any(extent.__class__ is Expr for extent in extents):  # two ends may cancel out
        for d, (_, extent, _) in enumerate(region.ranges):
            if extents[d].__class__ is Expr and extent.__class__ is int and extent < 1:
                raise _empty(buffer, d, index[d])
    return region


def store(buffer: Buffer, index: Any, value: Any) -> None:
    """`buffer[index] = value`."""
    trace = in_kernel(f"a store to {buffer.name}")
    if trace.undecided:
        loose.refuse_scalar(trace, buffer, "a store to an element of")
    index = _full_index(buffer, index)
    if value.__class__ in VECTORS:
        return _store_vector(trace, buffer, subscript(buffer, index), value)
    if any(i.__class__ is slice for i in index) or len(index) != len(buffer.shape):
        return _store_lanes(trace, buffer, subscript(buffer, index), value)
    place = _points(buffer, index)
    trace.builder.store(buffer, place, as_value(value))
    trace.wrote(buffer)


def _store_vector(trace: Any, buffer: Buffer, place: Any, vector: Any) -> None:
    """Several values to as many neighbours; all are computed before one is written."""
    vector = as_vector(vector)
    count = len(vector)
    to = lanewise(place) if place.__class__ is Region else None
    if to is None or to.count != count:
        there = "one element" if to is None else f"a slice of {to.count}"
        raise fail(
            f"{count} values are stored to {there} of {buffer.name}: they go to a slice of {count} elements, "
            f"{buffer.name}[…, i : i + {count}]"
        )
    if vector.__class__ is Splat:
        return _store_lanes(trace, buffer, place, vector.lanes[0])
    make = trace.builder
    lanes = [make.let("lane", make.cast(buffer.dtype, lane)) for lane in vector.lanes]
    if buffer.scope in ("global", "shared"):  # one access takes them from an array of the thread
        array = make.alloc("lanes", "local", (count,), buffer.dtype, {})
        for n, lane in enumerate(lanes):
            make.store(array, (n,), lane)
        (v,) = make.begin_for("vectorized", ["v"], [0], [count], [1], {})
        make.store(buffer, to.element(v).index, make.load(array, (v,)))
        make.end_for()
    else:
        for n, lane in enumerate(lanes):
            make.store(buffer, to.element(n).index, lane)
    trace.wrote(buffer)


_MOST_LANES = 64


def _store_lanes(trace: Any, buffer: Buffer, place: Region, value: Any) -> None:
    """`L[0:4] = A[tx, 0:4]`: a vector access of this thread."""
    sizes = [e for _, e, point in place.ranges if not point and (e.__class__ is not int or e != 1)]
    if len(sizes) > 1 or any(size.__class__ is not int or size > _MOST_LANES for size in sizes):
        raise fail(
            f"a store goes to one element of {buffer.name} (shape {shape_of(buffer)}), or to a slice "
            f"of one dimension, of up to {_MOST_LANES} elements, which this thread writes: use T.copy "
            "or T.fill for a tile, or a T.Parallel loop over its elements"
        )
    if value.__class__ is Element and sizes:
        value = value.load()  # before the loop, which may write to it
    to, given = lanewise(place), lanewise(value)
    vector = given.__class__ is Lanewise
    if vector and given.count not in (1, to.count):
        raise fail(
            f"a slice of {given.count} elements is stored to one of {to.count} of {buffer.name}: "
            "they must be of one length"
        )

    def lane(n: Any) -> Any:
        return as_value(given.element(n if given.count > 1 else 0) if vector else given)

    make = trace.builder
    if to.count == 1 or vector and buffer.storage in given.reads:  # all are read before one is written
        values = [make.let("lane", lane(n)) for n in range(to.count)]
        for n, x in enumerate(values):
            make.store(buffer, to.element(n).index, x)
    else:
        (n,) = make.begin_for("vectorized", ["v"], [0], [to.count], [1], {})
        make.store(buffer, to.element(n).index, lane(n))
        make.end_for()
    trace.wrote(buffer)


class Ramp(Vector):
    """The values base, base + stride and so on; as an index, A[T.Ramp(i, 1, 4)], with stride 1 the same as
    A[i : i + 4]."""

    __slots__ = ("base", "stride")

    def __init__(self, base: Any, stride: Any, lanes: int, span: Any = None) -> None:
        base, self.stride, lanes = as_value(base), constant(as_value(stride)), constant(as_value(lanes))
        if lanes.__class__ is not int or lanes < 1:
            raise fail(f"T.Ramp({base}, {stride}, {lanes}): the number of lanes is a constant from 1 on")
        self.base = base
        super().__init__(None, (base.dtype if base.__class__ is Expr else DType("int32")).with_lanes(lanes))

    @property
    def lanes(self) -> tuple:
        """The values."""
        one = self.dtype.with_lanes(1)
        values = lambda: vector_of([_sum(self.base, self.stride * n) for n in range(len(self))], one).lanes
        return self._once("lanes", values)

    def index(self) -> slice:
        """The slice that it is as an index."""
        if self.stride.__class__ is not int or self.stride != 1:
            raise fail(
                f"T.Ramp({self.base}, {self.stride}, {len(self)}): an index has stride 1; elements that are "
                "not neighbours are indexed one by one, in a T.unroll loop"
            )
        return slice(self.base, _sum(self.base, len(self)))


VECTORS.add(Ramp)


def _full_index(buffer: Buffer, index: Any) -> tuple:
    index = index if index.__class__ is tuple else (index,)
    if any(i.__class__ is Ramp for i in index):
        index = tuple([i.index() if i.__class__ is Ramp else i for i in index])
    rank = len(buffer.shape)
    if Ellipsis in [i for i in index if i.__class__ is type(Ellipsis)]:
        at = next(n for n, i in enumerate(index) if i is Ellipsis)
        index = index[:at] + (slice(None),) * (rank - len(index) + 1) + index[at + 1 :]
    if len(index) > rank:
        raise fail(
            f"{buffer.name} has {rank} dimension{'s' * (rank != 1)} (shape {shape_of(buffer)}) but is "
            f"given {len(index)} indices{misuse_of_indices(index)}"
        )
    return index


def _points(buffer: Buffer, index: tuple) -> tuple:
    return tuple([_point(buffer, i, n) for i, n in zip(index, buffer.shape, strict=True)])


def _point(buffer: Buffer, i: Any, n: Any) -> Any:
    """The index i of a dimension of n elements; one that is certainly below 0 counts from its end."""
    given, i = i, as_value(i)
    if i.__class__ is float or i.__class__ is bool:
        raise fail(f"an index of {buffer.name} must be an integer, not {i}")
    if i.__class__ is Expr and i.dtype.is_float:
        what = str(i) if i.is_const else "this value"
        if given.__class__ is Element:
            what = f"{given.buffer.name}[…]"
        elif given.__class__ is Buffer:
            what = given.name
        raise fail(
            f"an index of {buffer.name} must be an integer, but {what} is a {i.dtype}: "
            f"T.cast({'x' if what == 'this value' else what}, 'int32') drops the fraction"
        )
    if i.__class__ is int and i >= 0:
        return i
    counted = builder().from_end(buffer.name, i, n)
    return i if counted is None else constant(counted)


def _range(buffer: Buffer, d: int, s: slice) -> tuple[Any, Any]:
    if s.step is not None and not (s.step.__class__ is int and s.step == 1):
        raise fail(
            f"a slice of {buffer.name} has a step; tiles are contiguous: copy without a step, or "
            "index the elements in a T.Parallel loop"
        )
    start = 0 if s.start is None else _point(buffer, s.start, buffer.shape[d])
    stop = buffer.shape[d] if s.stop is None else _point(buffer, s.stop, buffer.shape[d])
    if start.__class__ is int and start == 0:
        extent = stop
    elif start.__class__ is int and stop.__class__ is int:
        extent = stop - start
    else:
        extent = builder().binary("sub", stop, start)
    extent = constant(extent)
    nothing = extent.__class__ is int and extent == 0 and constant(buffer.shape[d]) == 0
    if extent.__class__ is int and extent <= 0 and not nothing:
        raise _empty(buffer, d, s)
    return start, extent


def _empty(buffer: Buffer, d: int, s: slice) -> Exception:
    """The error of a slice without elements, which says what of it counts from the end."""
    words, n = [], buffer.shape[d]
    for verb, given, missing in (("ends", s.stop, n), ("begins", s.start, 0)):
        at = missing if given is None else _point(buffer, given, n)
        given = at if given is None else as_value(given)
        counts = f" (as {given} is below 0 wherever it is reached, it counts from the end of {n} elements)"
        words.append(f"{verb} at {at}{counts if str(at) != str(given) else ''}")
    return fail(f"the slice of dimension {d} of {buffer.name} is empty: it {words[0]} and {words[1]}")


def places_of_pair(region: Region, what: str) -> tuple[list, list]:
    """The indices of the two elements of a slice whose last dimension has two and whose others are points."""
    ranges = region.ranges
    extents = [1 if point else extent for _, extent, point in ranges]
    sizes = [constant(e) for e in extents]
    if sizes[-1] != 2 or any(size != 1 for size in sizes[:-1]):
        raise fail(
            f"{what} takes slices of two elements of the last dimension, such as "
            f"{region.buffer.name}[…, i : i + 2]; this one has extents "
            f"({', '.join(str(e) for e in extents)})"
        )
    first = [start for start, _, _ in ranges]
    return first, [*first[:-1], builder().binary("add", first[-1], 1)]


class Part:
    """A slice that was given to an operator of the user's: a tile of its own, indexed from 0."""

    __slots__ = ("region", "buffer", "ranges", "shape")

    def __init__(self, region: Region) -> None:
        self.region, self.buffer, self.ranges = region, region.buffer, region.ranges
        self.shape = tuple([extent for _, extent, point in self.ranges if not point])

    @property
    def dtype(self) -> DType:
        """The type of an element."""
        return self.buffer.dtype

    @property
    def scope(self) -> str:
        """Where the buffer lives."""
        return self.buffer.scope

    @property
    def name(self) -> str:
        """The name of the buffer."""
        return self.buffer.name

    def _index(self, index: Any) -> tuple:
        """An index of the part as one of the buffer."""
        rest = list(index if index.__class__ is tuple else (index,))
        if len(rest) > len(self.shape):
            raise fail(
                f"this part of {self.name} has {len(self.shape)} dimensions but is given {len(rest)} indices"
            )
        whole = []
        for start, extent, point in self.ranges:
            i = slice(None) if point or not rest else rest.pop(0)
            if point:
                whole.append(start)
            elif i.__class__ is slice:
                low, high = (
                    given if x is None else _point(self.buffer, x, extent)
                    for x, given in ((i.start, 0), (i.stop, extent))
                )
                whole.append(slice(_sum(start, low), _sum(start, high), i.step))
            else:
                whole.append(_sum(start, _point(self.buffer, i, extent)))
        return tuple(whole)

    def __getitem__(self, index: Any) -> Element | Region:
        return subscript(self.buffer, self._index(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        store(self.buffer, self._index(index), value)


def _sum(a: Any, b: Any) -> Any:
    a, b = as_value(a), as_value(b)
    return a + b if a.__class__ is int and b.__class__ is int else builder().binary("add", a, b)


def as_operand(x: Any, what: str) -> Any:
    """An operand of a tile operator: a buffer, or a region of one."""
    kind = x.__class__
    if kind is Part:
        return x.region
    if kind is Element:
        return x.region()
    if kind is Region or (kind is Buffer and x.scope != "var"):
        return x
    if kind is Undeclared:
        raise x.refuse()
    if kind in VECTORS:
        raise fail(
            f"{what} must be a buffer or a slice of one, not a vector of {len(x)} values: what is folded of "
            "its lanes is written out, v[0] + v[1] + …"
        )
    got = "a variable" if kind is Buffer else type(x).__name__
    if kind is Expr:  # also what `corner = A[i, j]` names
        got = "a number: where an element was named, write its indices in the call, A[i, j], or a slice of A"
    raise fail(f"{what} must be a buffer, a slice of one, or an element where the tile begins; got {got}")
