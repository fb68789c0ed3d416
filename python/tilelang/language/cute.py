"""Layouts as CuTe has them: shapes and strides in nested tuples, functions from a coordinate to an integer.

    a = Layout((4, (2, 3)), (1, (12, 4)))      a(5) == a((1, 1)) == a((1, (1, 0))) == 13

A number runs through the coordinates with the first mode fastest.  Results of the algebra are found by
what the
functions do at their points, and a question without an answer raises ValueError.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Union

IntTuple = Union[int, tuple]  # noqa: UP007

__all__ = [
    "ComposedLayout", "IntTuple", "Layout", "Swizzle", "coalesce", "complement", "composition", "cosize",
    "depth", "flatten", "left_inverse", "logical_divide", "logical_product", "product", "rank",
    "right_inverse", "size",
]  # fmt: skip


def flatten(t: IntTuple) -> tuple[int, ...]:
    """All integers of a nested tuple, in order."""
    return tuple(x for item in t for x in flatten(item)) if isinstance(t, tuple) else (t,)


def product(t: IntTuple) -> int:
    """The product of all integers of a nested tuple."""
    result = 1
    for x in flatten(t):
        result *= x
    return result


def rank(t: Any) -> int:
    """The number of modes."""
    t = t.shape if isinstance(t, Layout) else t
    return len(t) if isinstance(t, tuple) else 1


def depth(t: Any) -> int:
    """How deep the tuples nest; 0 of an integer."""
    t = t.shape if isinstance(t, Layout) else t
    return 1 + max([depth(x) for x in t], default=0) if isinstance(t, tuple) else 0


def _like(profile: IntTuple, flat: Iterator[Any]) -> Any:
    return tuple(_like(x, flat) for x in profile) if isinstance(profile, tuple) else next(flat)


def _compact(shape: IntTuple) -> IntTuple:
    strides, at = [], 1
    for n in flatten(shape):
        strides.append(at)
        at *= n
    return _like(shape, iter(strides))


class Layout:
    """shape: extents; stride: what a step in each costs, first mode fastest without gaps if left out."""

    __slots__ = ("shape", "stride")

    def __init__(self, shape: IntTuple, stride: IntTuple | None = None) -> None:
        self.shape, self.stride = shape, _compact(shape) if stride is None else stride
        if len(flatten(self.shape)) != len(flatten(self.stride)) or any(n < 1 for n in flatten(shape)):
            raise ValueError(
                f"the shape {shape} and the stride {stride} are not of one form, or an extent is not positive"
            )

    def modes(self) -> list[tuple[int, int]]:
        """(extent, stride) of all modes, flat."""
        return list(zip(flatten(self.shape), flatten(self.stride), strict=True))

    def __call__(self, *coordinate: Any) -> int:
        where = coordinate[0] if len(coordinate) == 1 else tuple(coordinate)
        return _offset(where, self.shape, self.stride)

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


def _offset(where: Any, shape: IntTuple, stride: IntTuple) -> int:
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


def coalesce(layout: Layout) -> Layout:
    """The same function of a number with the fewest modes."""
    modes: list[tuple[int, int]] = []
    for n, d in layout.modes():
        if n == 1:
            continue
        if modes and modes[-1][0] * modes[-1][1] == d:
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
            raise ValueError(f"the values {values[:8]}… are those of no layout")
        modes.append((run, step))
        values = values[::run]
    made = _of_modes(modes)
    return made if total > 1 else Layout(1, 0)


def composition(a: Any, b: Any) -> Layout:
    """i -> a(b(i)), in the modes of b; a tuple of layouts works on the modes of a one by one."""
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
            raise ValueError(f"{a} after {b} is no layout: at {i} it is {a(b(i))}")
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
    """((tile), (rest)): the elements of `layout` that the tiler names, and how often it goes on; a tuple
    of tilers
    works on the modes one by one."""
    if isinstance(tiler, tuple):
        parts = [logical_divide(layout[i], t) for i, t in enumerate(tiler)]
        parts += [layout[i] for i in range(len(tiler), rank(layout))]
        return Layout(tuple(p.shape for p in parts), tuple(p.stride for p in parts))
    tile = Layout(tiler) if isinstance(tiler, int) else tiler
    return composition(layout, _pair(tile, complement(tile, layout.size())))


def logical_product(layout: Layout, tiler: Any) -> Layout:
    """((layout), (copies)): `layout` repeated where the tiler says, each copy apart from the others."""
    tile = Layout(tiler) if isinstance(tiler, int) else tiler
    return _pair(layout, composition(complement(layout, layout.size() * tile.cosize()), tile))


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


class Swizzle:
    """An XOR of bits: the `bits` bits from `base` on with those `shift` above."""

    __slots__ = ("bits", "base", "shift")

    def __init__(self, bits: int, base: int, shift: int) -> None:
        if bits < 0 or base < 0 or abs(shift) < bits:
            raise ValueError(
                f"Swizzle({bits}, {base}, {shift}): the two groups of bits overlap, or a number is negative"
            )
        self.bits, self.base, self.shift = bits, base, shift

    def __call__(self, offset: Any) -> Any:
        ones = (1 << self.bits) - 1
        if self.shift >= 0:
            return offset ^ (((offset >> (self.base + self.shift)) & ones) << self.base)
        return offset ^ (((offset >> self.base) & ones) << (self.base - self.shift))

    def __repr__(self) -> str:
        return f"Sw<{self.bits},{self.base},{self.shift}>"


class ComposedLayout:
    """coordinate -> outer(offset + inner(coordinate)); outer is a Swizzle or a Layout."""

    __slots__ = ("outer", "offset", "inner")

    def __init__(self, outer: Any, offset: int, inner: Layout) -> None:
        self.outer, self.offset, self.inner = outer, offset, inner

    def __call__(self, *coordinate: Any) -> int:
        return self.outer(self.offset + self.inner(*coordinate))

    def size(self) -> int:
        """The number of coordinates."""
        return self.inner.size()

    def __repr__(self) -> str:
        return f"{self.outer} o {self.offset} o {self.inner}"
