"""Vectors as values: several numbers of one dtype side by side, "float16x2", "uint32x4".

A vector is its lanes, each a value of its own, so that every executor knows what it means.  What makes it one
access or one packed instruction: slices are read and written through an array of the thread in a vectorised
loop, halves are added and multiplied by words of two, and what T.ldg128 read is kept as it came."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .._core import Buffer, Expr, Region
from .arithmetic import cast
from .dtypes import DType, as_dtype
from .trace import builder, fail, in_kernel
from .values import OPERATORS, VECTORS, Lanewise, Late, as_value, binary, constant, lanewise

_HALVES = ("float16", "bfloat16")
_PACKED = ("add", "sub", "mul", "max", "min")
_MOST = 64


def lane_number(lane: Any, count: int, computed: bool = False) -> Any:
    """The index of a lane of `count`; computed: it need not be a constant."""
    lane = constant(as_value(lane))
    if lane.__class__ is int and -count <= lane < count:
        return lane % count
    if computed and lane.__class__ is Expr:
        return lane
    raise fail(
        f"a vector of {count} has the lanes 0 to {count - 1}, not {lane}"
        if computed or lane.__class__ is int
        else f"{count} values have the lanes 0 to {count - 1}, each a constant, not {lane}: let Python run "
        f"the loop, `for i in [*range({count})]:`, or store them to an array of T.alloc_local(({count},), …)"
    )


class Vector(Late):
    """Several values: what a cast to "float32x2", T.ldg128, T.add2, T.reinterpret or T.Shuffle gives.

    v[0], v[1] and so on are its lanes; operators, casts and functions compute lane by lane; a store goes to a
    slice of as many elements, C[i : i + 2] = v."""

    __slots__ = ("_lanes", "_words", "_made", "dtype", "wide")

    def __init__(self, lanes: Sequence | None, dtype: DType, words: Sequence = (), wide: Any = None) -> None:
        """dtype: with its lanes; words: the bits of all lanes in uint32, the first lowest, if they came so;
        wide: what one access read.  Lanes that are None are made of the words, those of what was read."""
        self._lanes, self._words = lanes if lanes is None else tuple(lanes), tuple(words)
        self._made: dict[str, tuple] = {}
        self.dtype, self.wide = dtype, wide

    def _once(self, what: str, make: Callable[[], Sequence]) -> tuple:
        """What is made of the vector where it is asked for, and again where that is out of scope."""
        trace = in_kernel("a vector")
        block, made = self._made.get(what, (-1, ()))
        if block not in trace.open_blocks():
            made = tuple(make())
            self._made[what] = (trace.innermost(), made)
        return made

    @property
    def lanes(self) -> tuple:
        """The values, the first in the lowest bits."""
        if self._lanes is not None:
            return self._lanes
        return self._once("lanes", lambda: _regrouped(self.words, self.dtype.with_lanes(1)))

    @property
    def words(self) -> tuple:
        """The bits of all lanes in uint32; () where they do not fill any."""
        bits = self.dtype.bits * self.dtype.lanes
        if self._words or bits % 32 or self.dtype.bits % 8:
            return self._words
        if self.wide is not None:
            return self._once("words", lambda: _words_of_wide(self.wide, bits // 32))
        return self._once("words", lambda: _regrouped(self.lanes, as_dtype("uint32")))

    def load(self) -> Any:
        raise fail(
            f"the {len(self)} values of a {self.dtype} are not one: take a lane, v[0], or store them to a "
            f"slice, C[i : i + {len(self)}] = v"
        )

    def astype(self, dtype: Any) -> Any:
        """Each lane cast."""
        return cast(self, dtype)

    def __len__(self) -> int:
        return self.dtype.lanes

    def __iter__(self) -> Iterator:
        return iter(self.lanes)

    def __getitem__(self, lane: Any) -> Any:
        return self.lanes[lane_number(lane, len(self))]

    def __setitem__(self, lane: Any, value: Any) -> None:
        raise fail(
            "the lanes of a value cannot be assigned: make it a variable, whose lanes can, "
            f"v = T.alloc_var('{self.dtype}')"
        )

    def __repr__(self) -> str:
        return f"{self.dtype}({', '.join(map(str, self.lanes))})"


class Splat(Vector):
    """One value in all lanes; beside slices the same as that value."""

    __slots__ = ()

    def load(self) -> Any:
        return self.lanes[0]

    @property
    def words(self) -> tuple:
        """One word, again and again."""
        each = 32 // self.dtype.bits
        if each < 2 or len(self) % each or self.dtype.bits < 8:
            return super().words
        one = self._once("words", lambda: _regrouped(self.lanes[:each], as_dtype("uint32")))
        return one * (len(self) // each)


class VectorVariable(Late):
    """T.alloc_var("float32x2"): a variable of several lanes; its name is assigned, and so is v[0]."""

    __slots__ = ("buffer", "dtype")

    def __init__(self, buffer: Buffer, dtype: DType) -> None:
        self.buffer, self.dtype = buffer, dtype

    def load(self) -> Any:
        return self.value().load()

    def value(self) -> Vector:
        """What it holds here."""
        b = builder()
        lanes = [b.let("lane", b.load(self.buffer, (n,))) for n in range(self.dtype.lanes)]
        return Vector(lanes, self.dtype)

    def store(self, value: Any) -> None:
        """`v = value`."""
        self.buffer[:] = value if not is_vector(value) else as_vector(value)

    def astype(self, dtype: Any) -> Any:
        """Each lane cast."""
        return cast(self, dtype)

    def __len__(self) -> int:
        return self.dtype.lanes

    def __getitem__(self, lane: Any) -> Any:
        return self.buffer[lane_number(lane, len(self), computed=True)]

    def __setitem__(self, lane: Any, value: Any) -> None:
        self.buffer[lane_number(lane, len(self), computed=True)] = value

    def __repr__(self) -> str:
        return self.buffer.name


VECTORS.update((Vector, Splat, VectorVariable))


def is_vector(x: Any) -> bool:
    """Is it a vector that is a value, and not a slice or what is computed with slices?"""
    return x.__class__ in VECTORS


def vector_of(lanes: Sequence, dtype: Any = None) -> Vector:
    """These values, of one dtype, side by side."""
    values = [as_value(x) for x in lanes]
    kinds = {x.dtype for x in values if x.__class__ is Expr}
    if dtype is None:
        if len(kinds) != 1:
            raise fail(
                f"the lanes of a vector have one dtype, and these have {', '.join(sorted(kinds)) or 'none'}"
            )
        (dtype,) = kinds
    b, dtype = builder(), as_dtype(dtype)
    made = [b.let("lane", x) if x.__class__ is Expr and x.dtype == dtype else cast(x, dtype) for x in values]
    return Vector(made, dtype.with_lanes(len(made)))


def as_vector(x: Any) -> Any:
    """A vector, a slice, what is computed with slices, or several values, as a Vector; else a value as is."""
    kind = x.__class__
    if kind is VectorVariable:
        return x.value()
    if kind in VECTORS:
        return x
    if kind is Region:
        return _read(lanewise(x), x.buffer.scope in ("global", "shared"), x.buffer.dtype)
    if kind is Lanewise:
        return _read(x, True, None)
    return vector_of(x) if kind in (tuple, list) else as_value(x)


def _read(slice_: Lanewise, by_one_access: bool, dtype: Any) -> Vector:
    """The elements of a slice, all read here."""
    b, count = in_kernel("a slice as a value").builder, slice_.count
    if count > _MOST:
        raise fail(f"a slice of {count} elements is no value: one has at most {_MOST} lanes; use T.copy")
    if not by_one_access or count == 1:
        return vector_of([slice_.element(n) for n in range(count)], dtype)
    if dtype is None:
        dtype = as_value(slice_.element(0)).dtype
    array = b.alloc("lanes", "local", (count,), dtype, {})
    (v,) = b.begin_for("vectorized", ["v"], [0], [count], [1], {})
    b.store(array, (v,), as_value(slice_.element(v)))
    b.end_for()
    return vector_of([b.load(array, (n,)) for n in range(count)], dtype)


def lane_by_lane(compute: Callable, *operands: Any) -> Vector:
    """`compute` for each lane of the operands, of which one at least is a vector; the others serve all."""
    parts = [as_vector(x) for x in operands]
    vectors = [x for x in parts if isinstance(x, Vector)]
    counts = sorted({len(x) for x in vectors})
    if len(counts) > 1:
        raise fail(
            f"vectors of {counts[0]} and of {counts[1]} lanes are computed with each other: they must have "
            "the same"
        )
    if all(x.__class__ is Splat for x in vectors):
        made = compute(*[x.lanes[0] if x.__class__ is Splat else x for x in parts])
        return splat(made, counts[0])
    lanes = [compute(*[x.lanes[n] if isinstance(x, Vector) else x for x in parts]) for n in range(counts[0])]
    return vector_of(lanes)


def splat(value: Any, count: int, dtype: Any = None) -> Vector:
    """One value in so many lanes."""
    value = as_value(value)
    if value.__class__ is not Expr:
        value = cast(value, dtype or ("float32" if value.__class__ is float else "int32"))
    value = value if value.is_const else builder().let("lane", value)
    return Splat((value,) * count, value.dtype.with_lanes(count))


def compute(op: str, a: Any, b: Any) -> Any:
    """`a op b` where one is a vector."""
    for x, y in ((a, b), (b, a)):
        if x.__class__ is Splat and y.__class__ in (Region, Lanewise):
            if lanewise(y).count != len(x):
                raise fail(f"a slice of {lanewise(y).count} elements is computed with {len(x)} lanes")
            return binary(op, *(u.lanes[0] if u is x else u for u in (a, b)))
    made = packed(op, a, b) if op in _PACKED else None
    return lane_by_lane(lambda x, y: binary(op, x, y), a, b) if made is None else made


def packed(op: str, *operands: Any) -> Vector | None:
    """A row of pairs of halves for each word, where all operands are halves of one dtype."""
    parts = [as_vector(x) for x in operands]
    kinds = {x.dtype.with_lanes(1) for x in parts if isinstance(x, Vector)}
    kinds |= {x.dtype for x in parts if x.__class__ is Expr}
    counts = {len(x) for x in parts if isinstance(x, Vector)}
    if len(kinds) != 1 or len(counts) != 1:
        return None
    (kind,), (count,) = kinds, counts
    if kind not in _HALVES or count % 2:
        return None
    b = builder()
    words = [_words(x, kind, count) for x in parts]
    made = [b.let("pair", b.call(f"{op}2_{kind.name}", row)) for row in zip(*words, strict=True)]
    return Vector(None, kind.with_lanes(count), made)


def _words(x: Any, kind: DType, count: int) -> tuple:
    if isinstance(x, Vector):
        return x.words
    lanes = [x if x.__class__ is Expr else builder().const(x, kind)] * 2
    return (Vector(lanes, kind.with_lanes(2)).words[0],) * (count // 2)


OPERATORS.update(vectors=compute, lanes=lane_by_lane, splat=splat, packed=vector_of)


# ── bits ──────────────────────────────────────────────────────────────────────────────────────────────
def _bits(value: Expr, dtype: DType) -> Expr:
    """The bits of a value as another dtype of the same width."""
    return value if value.dtype == dtype else builder().call("reinterpret", (value,), dtype)


def _regrouped(lanes: Sequence, to: DType) -> list:
    """The bits of several values as values of another width, the first from the lowest."""
    b, bits = builder(), lanes[0].dtype.bits
    plain = as_dtype(f"uint{bits}")
    if bits == to.bits:
        return [_bits(x, to) for x in lanes]
    if bits > to.bits:
        narrow, made = as_dtype(f"uint{to.bits}"), []
        for x in lanes:
            word = b.let("word", _bits(x, plain))
            for n in range(bits // to.bits):
                part = b.cast(narrow, b.binary("shr", word, to.bits * n) if n else word)
                made.append(_bits(part, to))
        return made
    wide, made = as_dtype(f"uint{to.bits}"), []
    for first in range(0, len(lanes), to.bits // bits):
        word = None
        for n, x in enumerate(lanes[first : first + to.bits // bits]):
            part = b.cast(wide, _bits(x, plain))
            word = part if word is None else b.binary("or", word, b.binary("shl", part, bits * n))
        made.append(_bits(b.let("word", word), to))
    return made


def _words_of_wide(wide: Expr, count: int) -> list:
    """The words that one access read: halves of halves, down to single ones."""
    if count == 1:
        return [builder().let("word", wide)]
    half = as_dtype("uint32").with_lanes(count // 2)
    even, odd = (
        _words_of_wide(builder().call(f"{way}_lanes", (wide,), half), count // 2) for way in ("even", "odd")
    )
    return [x for pair in zip(even, odd, strict=True) for x in pair]


def same_bits(value: Any, to: DType) -> Any:
    """T.reinterpret where several values stand side by side, in `value` or in the dtype `to`."""
    vector = as_vector(value)
    if vector.__class__ is Expr:
        vector = Vector((vector,), vector.dtype)
    if not isinstance(vector, Vector):
        raise fail(
            "T.reinterpret takes values of the kernel, of one dtype; give a number a dtype first: "
            "T.float32(1.0)"
        )
    kind, one, count = vector.dtype.with_lanes(1), to.with_lanes(1), len(vector)
    bits = kind.bits * count
    from_, into = (f"{count} of {t}" for t, count in ((kind, count), (one, to.lanes)))
    if bits != to.bits * to.lanes:
        raise fail(f"T.reinterpret: {from_} are {bits} bits, and {into} are {to.bits * to.lanes}")
    if kind.bits % 8 or one.bits % 8:
        raise fail(f"T.reinterpret: {from_} and {into} are not of whole bytes each")
    if to.lanes == 1:
        return _regrouped(vector.words if bits == 32 and count > 1 else vector.lanes, one)[0]
    if bits % 32 == 0:  # the words stay what they are, whatever they are called
        return Vector(None, to, () if vector.wide is not None else vector.words, vector.wide)
    return Vector(_regrouped(vector.lanes, one), to)
