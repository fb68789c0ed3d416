"""Layouts as CuTe has them: shapes and strides in nested tuples, functions from a coordinate to an integer.

    a = Layout((4, (2, 3)), (1, (12, 4)))      a(5) == a((1, 1)) == a((1, (1, 0))) == 13

A number runs through the coordinates with the first mode fastest.  Results of the algebra are found by what
the functions do at their points, and a question without an answer raises ValueError."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from . import maps
from .cute_swizzles import Swizzle, swizzles
from .cute_tuples import (
    E,
    IntTuple,
    IntTupleConst,
    IntTuplePrimExpr,
    IntTupleScaledBasis,
    IntTupleTuple,
    ScaledBasis,
    compatible,
    congruent,
    flatten_to_tuple,
    from_python,
    product,
    to_python,
)

__all__ = ["ComposedLayout", "E", "IntTuple", "IntTupleConst", "IntTuplePrimExpr", "IntTupleScaledBasis",
           "IntTupleTuple", "Layout", "ScaledBasis", "Swizzle", "blocked_product", "coalesce",
           "compatible", "complement", "composition", "congruent", "coshape", "cosize", "depth", "filter",
           "flatten", "flatten_to_tuple", "from_python", "left_inverse", "logical_divide", "logical_product",
           "make_column_major_layout", "make_identity_layout", "make_layout", "make_row_major_layout",
           "product", "rank", "restrict", "right_inverse", "size", "tiled_product", "to_python"]  # fmt: skip


def flatten(layout: Any) -> Any:
    """A layout without nested modes; of a nested tuple all its integers, in order."""
    return _of_modes(layout.modes()) if isinstance(layout, Layout) else flatten_to_tuple(layout)


def rank(layout: Any) -> int:
    """The number of modes."""
    t = layout.shape if isinstance(layout, Layout) else layout
    return len(t) if isinstance(t, tuple) else 1


def depth(t: Any) -> int:
    """How deep the tuples nest; 0 of an integer."""
    t = t.shape if isinstance(t, Layout) else t
    return 1 + max([depth(x) for x in t], default=0) if isinstance(t, tuple) else 0


def _like(profile: Any, flat: Iterator[Any]) -> Any:
    return tuple(_like(x, flat) for x in profile) if isinstance(profile, tuple) else next(flat)


def _compact(shape: Any) -> Any:
    strides, at = [], 1
    for n in flatten_to_tuple(shape):
        strides.append(at)
        at *= n
    return _like(shape, iter(strides))


class Layout:
    """shape: extents; stride: what a step in each costs, first mode fastest without gaps if left out."""

    __slots__ = ("shape", "stride")

    def __init__(self, shape: Any, stride: Any | None = None) -> None:
        self.shape, self.stride = shape, _compact(shape) if stride is None else stride
        if len(flatten_to_tuple(self.shape)) != len(flatten_to_tuple(self.stride)) or any(
            n < 1 for n in flatten_to_tuple(shape)
        ):
            raise ValueError(
                f"the shape {shape} and the stride {stride} are not of one form, or an extent is not positive"
            )

    def modes(self) -> list[tuple[int, int]]:
        """(extent, stride) of all modes, flat."""
        return list(zip(flatten_to_tuple(self.shape), flatten_to_tuple(self.stride), strict=True))

    def __call__(self, coord: Any, *more: Any) -> Any:
        found = _offset((coord, *more) if more else coord, self.shape, self.stride)
        return found.coordinate() if isinstance(found, ScaledBasis) else found

    @staticmethod
    def parse(text: str) -> Layout:
        """The layout that a text shows, "(4,2):(1,4)"."""
        return Layout(*map(ast.literal_eval, text.split(":")))

    @staticmethod
    def from_tilelang(layout: maps.Layout) -> Layout:
        """A T.Layout with one output: a mode for each index, itself of modes where one stride does not do."""
        return _of_function(layout.shape, lambda index: layout(*index), repr(layout))

    from_tilelang_hierarchical = from_tilelang

    def to_tilelang(self) -> maps.Layout:
        """The same as a T.Layout over the extents of the modes."""
        modes = [self[i] for i in range(len(self))]

        def place(*index: Any) -> Any:
            total = 0
            for i, mode in zip(index, modes, strict=True):
                for n, d in mode.modes():
                    total, i = total + i % n * d, i // n
            return total

        return maps.Layout([mode.size() for mode in modes], place)

    def with_shape(self, shape: Any) -> Layout:
        """The same function of a number, for coordinates of another shape."""
        return composition(self, Layout(shape))

    def __getitem__(self, mode: int) -> Layout:
        if not isinstance(self.shape, tuple):
            return [self][mode]
        return Layout(self.shape[mode], self.stride[mode])

    def __len__(self) -> int:
        return rank(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and (self.shape, self.stride) == (other.shape, other.stride)

    def __hash__(self) -> int:
        return hash((self.shape, self.stride))

    def __repr__(self) -> str:
        return f"{self.shape}:{self.stride}".replace(" ", "")

    def size(self) -> int:
        """The number of coordinates."""
        return product(self.shape)

    def cosize(self) -> int:
        """One more than the greatest value."""
        return 1 + sum((n - 1) * d for n, d in self.modes())


def _of_function(shape: tuple, at: Callable, said: str) -> Layout:
    """The layout with these values: a mode for each index."""
    zero = [0] * len(shape)
    parts = [
        _from_values([at((*zero[:d], i, *zero[d + 1 :])) for i in range(n)]) for d, n in enumerate(shape)
    ]
    made = Layout(tuple(p.shape for p in parts), tuple(p.stride for p in parts))
    for index in itertools.product(*map(range, shape)):
        if made(index) != at(index):
            raise ValueError(
                f"{said} is not a layout of shapes and strides: it differs from {made} at {index}"
            )
    return made


def _offset(where: Any, shape: Any, stride: Any) -> int:
    if not isinstance(shape, tuple):
        if isinstance(where, tuple):
            raise ValueError(f"the coordinate {where} is nested where the shape is {shape}")
        return where * stride
    if isinstance(where, tuple):
        if len(where) != len(shape):
            raise ValueError(f"the coordinate {where} does not fit the shape {shape}")
        return sum(_offset(w, n, d) for w, n, d in zip(where, shape, stride, strict=True))
    total = 0
    for n, d in zip(shape[:-1], stride[:-1], strict=True):
        total += _offset(where % product(n), n, d)
        where //= product(n)
    return total + _offset(where, shape[-1], stride[-1])


def size(layout: Any) -> int:
    """The number of coordinates of a layout or a shape."""
    return layout.size() if isinstance(layout, (Layout, ComposedLayout)) else product(layout)


def cosize(layout: Layout) -> int:
    """One more than the greatest value."""
    return layout.cosize()


def coshape(layout: Layout) -> Any:
    """Of a layout of coordinates the extents that they reach; of any other its cosize."""
    if not any(isinstance(d, ScaledBasis) for d in flatten_to_tuple(layout.stride)):
        return layout.cosize()

    def one_more(x: Any) -> Any:
        return tuple(map(one_more, x)) if isinstance(x, tuple) else x + 1

    return one_more(layout(layout.size() - 1))


def make_layout(shape: Any, stride: Any = None) -> Layout:
    """Layout(shape, stride)."""
    return Layout(shape, stride)


def make_column_major_layout(shape: Any) -> Layout:
    """Without gaps, the first mode fastest."""
    return Layout(shape)


def make_row_major_layout(shape: Any) -> Layout:
    """Without gaps, the last mode fastest."""
    strides, at = [], 1
    for n in reversed(flatten_to_tuple(shape)):
        strides.insert(0, at)
        at *= n
    return Layout(shape, _like(shape, iter(strides)))


def make_identity_layout(shape: Any) -> Layout:
    """The layout whose values are the coordinates themselves."""

    def basis(part: Any, path: tuple) -> Any:
        if isinstance(part, tuple):
            return tuple(basis(x, (*path, i)) for i, x in enumerate(part))
        return E(path or 0)

    return Layout(shape, basis(shape, ()))


def filter(layout: Layout) -> Layout:
    """Without the modes along which nothing changes."""
    return coalesce(_of_modes([(n, d) for n, d in layout.modes() if d != 0]))


def restrict(layout: Layout, region: Any) -> Layout:
    """The layout of a part, seen from its first element; region: (begin, extent) for each mode."""
    begins, extents = (tuple(r[k] for r in region) for k in (0, 1))
    first = layout(begins)
    made = [
        _from_values(
            [layout(tuple(b + (i if m == d else 0) for m, b in enumerate(begins))) - first for i in range(n)]
        )
        for d, n in enumerate(extents)
    ]
    made = Layout(tuple(p.shape for p in made), tuple(p.stride for p in made))
    for at in itertools.product(*map(range, extents)):
        if made(at) != layout(tuple(b + i for b, i in zip(begins, at, strict=True))) - first:
            raise ValueError(f"the part {region} of {layout} is not a layout")
    return made


def coalesce(layout: Layout, max_extent: int | None = None) -> Layout:
    """The same function of a number with the fewest modes, none that was joined longer than max_extent."""
    modes: list[tuple[int, int]] = []
    for n, d in layout.modes():
        if n == 1:
            continue
        short = max_extent is None or bool(modes) and modes[-1][0] * n <= max_extent
        if modes and modes[-1][0] * modes[-1][1] == d and short:
            modes[-1] = (modes[-1][0] * n, modes[-1][1])
        else:
            modes.append((n, d))
    return _of_modes(modes)


def _of_modes(modes: list[tuple[int, int]]) -> Layout:
    if len(modes) < 2:
        return Layout(*modes[0]) if modes else Layout(1, 0)
    return Layout(tuple(n for n, _ in modes), tuple(d for _, d in modes))


def _from_values(values: list[int]) -> Layout:
    """The layout that has these values at 0, 1, …: the longest even run is a mode, what begins them the
    rest."""
    if values[0] != 0:
        raise ValueError(f"a layout is 0 at 0, not {values[0]}")
    modes, total = [], len(values)
    while len(values) > 1:
        step, run = values[1], 1
        while run < len(values) and values[run] == run * step:
            run += 1
        while len(values) % run:
            run -= 1
        if run == 1:
            raise ValueError(f"no layout has the values {values[:8]}…")
        modes.append((run, step))
        values = values[::run]
    made = _of_modes(modes)
    return made if total > 1 else Layout(1, 0)


def composition(lhs: Any, rhs: Any) -> Layout:
    """i -> lhs(rhs(i)), in the modes of rhs; a tuple of layouts works on the modes of lhs one by one."""
    a, b = lhs, rhs
    if isinstance(b, tuple):
        parts = [composition(a[i], b[i]) if i < len(b) else a[i] for i in range(rank(a))]
        return Layout(tuple(p.shape for p in parts), tuple(p.stride for p in parts))
    if isinstance(b, int):
        b = Layout(b)
    if isinstance(b.shape, tuple):
        parts = [composition(a, b[i]) for i in range(rank(b))]
        made = Layout(tuple(p.shape for p in parts), tuple(p.stride for p in parts))
    else:
        made = _from_values([a(b(i)) for i in range(b.size())])
    for i in range(b.size()):
        if made(i) != a(b(i)):
            raise ValueError(f"{a} after {b} is not a layout: at {i} it is {a(b(i))}")
    return made


def complement(layout: Layout, cotarget: int | None = None) -> Layout:
    """The layout of what `layout` leaves out of the first cotarget integers: together they reach each
    once."""
    limit = layout.cosize() if cotarget is None else size(cotarget)
    modes, at = [], 1
    for n, d in sorted([m for m in layout.modes() if m[0] > 1], key=lambda m: m[1]):
        if d < at or d % at:
            raise ValueError(f"{layout} reaches an integer twice, or in steps that leave no even gap")
        modes.append((d // at, at))
        at = n * d
    modes.append((-(-limit // at), at))
    return coalesce(_of_modes(modes))


def _pair(a: Layout, b: Layout) -> Layout:
    return Layout((a.shape, b.shape), (a.stride, b.stride))


def logical_divide(layout: Layout, tiler: Any) -> Layout:
    """((tile), (rest)): the elements of `layout` that the tiler names, and how often it goes on; a tuple of
    tilers works on the modes one by one."""
    if isinstance(tiler, tuple):
        parts = [logical_divide(layout[i], t) for i, t in enumerate(tiler)]
        parts += [layout[i] for i in range(len(tiler), rank(layout))]
        return Layout(tuple(p.shape for p in parts), tuple(p.stride for p in parts))
    tile = Layout(tiler) if isinstance(tiler, int) else tiler
    return composition(layout, _pair(tile, complement(tile, layout.size())))


def logical_product(block: Layout, tiler: Any) -> Layout:
    """((block), (copies)): `block` repeated where the tiler says, each copy apart from the others."""
    tile = Layout(tiler) if isinstance(tiler, int) else tiler
    return _pair(block, composition(complement(block, block.size() * tile.cosize()), tile))


def tiled_product(block: Layout, tiler: Any) -> Layout:
    """The same with the modes of the copies side by side: ((block), copies0, copies1, …)."""
    made = logical_product(block, tiler)
    copies = made[1]
    parts = [made[0], *(copies[i] for i in range(rank(copies)))]
    return Layout(tuple(p.shape for p in parts), tuple(p.stride for p in parts))


def blocked_product(block: Layout, tiler: Any) -> Layout:
    """The same mode by mode: ((block0, copies0), (block1, copies1), …), coalesced."""
    tile = Layout(tiler) if isinstance(tiler, int) else tiler
    made, count = logical_product(block, tile), max(rank(block), rank(tile))
    halves = [
        [part[i] if i < rank(part) else Layout(1, 0) for i in range(count)] for part in (made[0], made[1])
    ]
    parts = [coalesce(_pair(inner, outer)) for inner, outer in zip(*halves, strict=True)]
    return Layout(tuple(p.shape for p in parts), tuple(p.stride for p in parts))


def right_inverse(layout: Layout) -> Layout:
    """The largest r with layout(r(i)) == i."""
    modes, index = [], 1
    for n, d in layout.modes():
        modes.append((d, n, index))
        index *= n
    found, at = [], 1
    for d, n, index in sorted(m for m in modes if m[1] > 1):
        if d != at:
            break
        found.append((n, index))
        at *= n
    return coalesce(_of_modes(found))


def left_inverse(layout: Layout) -> Layout:
    """An l with l(layout(i)) == i, for a layout that reaches no integer twice."""
    return right_inverse(_pair(layout, complement(layout)))


class ComposedLayout:
    """coordinate -> swizzle(offset + layout(coordinate)); the swizzle may be a Layout as well."""

    __slots__ = ("swizzle", "offset", "layout")

    def __init__(self, swizzle: Any, offset: int, layout: Layout) -> None:
        self.swizzle, self.offset, self.layout = swizzle, offset, layout

    def __call__(self, *coordinate: Any) -> int:
        return self.swizzle(self.offset + self.layout(*coordinate))

    @staticmethod
    def from_tilelang(
        layout: maps.Layout, buffer: Any = None, least_b_bits: int | None = None
    ) -> ComposedLayout:
        """A T.Layout with one output as a swizzle after an offset and a layout, of as few bits as possible,
        least_b_bits at least."""
        places = {
            index: place
            for index, (place,) in zip(
                itertools.product(*map(range, layout.shape)), layout.points(), strict=True
            )
        }
        highest = max(places.values()).bit_length()
        for swizzle in swizzles(least_b_bits or 0, highest):
            offset = swizzle(places[(0,) * len(layout.shape)])  # a swizzle is its own inverse
            try:
                made = _of_function(layout.shape, lambda index, s=swizzle, o=offset: s(places[index]) - o, "")
                return ComposedLayout(swizzle, offset, made)
            except ValueError:
                continue
        raise ValueError(f"{layout!r} is not a swizzle after an offset and a layout")

    def recast(self, old_bits: int, new_bits: int) -> ComposedLayout:
        """The same for elements of another size: narrower ones follow one another along the first mode."""
        num, den = max(old_bits // new_bits, 1), max(new_bits // old_bits, 1)
        (n, *shape), (d, *stride) = (
            x if isinstance(x, tuple) else (x,) for x in (self.layout.shape, self.layout.stride)
        )
        if isinstance(n, tuple) or den > 1 and (d != 1 or n % den):
            raise ValueError(f"{self} cannot be seen with elements of {new_bits} instead of {old_bits} bits")
        first = ((num, n), (1, d * num)) if num > 1 and d != 1 else (n * num // den, 1 if d == 1 else d * num)
        rest = tuple(x * num // den for x in stride)
        layout = Layout((first[0], *shape), (first[1], *rest)) if shape else Layout(*first)
        return ComposedLayout(self.swizzle.recast(old_bits, new_bits), self.offset * num // den, layout)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposedLayout) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def _parts(self) -> tuple:
        return self.swizzle, self.offset, self.layout

    def size(self) -> int:
        """The number of coordinates."""
        return self.layout.size()

    def __repr__(self) -> str:
        return f"{self.swizzle} o {self.offset} o {self.layout}"
