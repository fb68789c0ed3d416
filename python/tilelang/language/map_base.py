"""What layouts and fragments share: the compiler's answers, checked numbers, expressions of their indices."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from .. import _core
from .._core import CompileError, Expr
from ..front.trace import fail
from ..front.values import Dynamic, Element, as_value, constant


def ask(question: Callable, *args: Any) -> Any:
    """What the compiler answers; an error without a place gets the user's."""
    try:
        return question(*args)
    except CompileError as e:
        if e.file:
            raise
        raise fail(e.text) from None


def integer(value: Any, what: str) -> int:
    value = constant(value)
    if isinstance(value, (Expr, Dynamic, Element)):
        raise fail(f"{what} must be known while the layout is made, but only the device will know {value}")
    if not hasattr(value, "__index__"):
        raise fail(f"{what} must be an integer, not {value!r}")
    return operator.index(value)


def ints(values: Any, what: str) -> list[int]:
    items = values if isinstance(values, Iterable) and not isinstance(values, (str, Expr)) else (values,)
    return [integer(v, what) for v in items]


def call(fn: Callable, indices: list, what: str) -> Any:
    if not callable(fn):
        raise fail(f"{what} must be a function of the indices, not {fn!r}")
    try:
        return fn(*indices)
    except TypeError as e:
        count = getattr(getattr(fn, "__code__", None), "co_argcount", None)
        if count is None or count == len(indices):
            raise
        raise fail(
            f"{what} takes {count} argument{'s' * (count != 1)}, but there are {len(indices)} "
            f"indices ({', '.join(map(str, indices))})"
        ) from e


def index_variables(rank: int, replicate: int = 1) -> list[Expr]:
    names = ["i", "j", "k", "l", "m", "n"]
    made = [_core.index_var(names[d] if d < 6 else f"x{d}") for d in range(rank)]
    return made + [_core.index_var("rep")] * (replicate > 1)


def index_outputs(value: Any) -> list:
    items = value if isinstance(value, (tuple, list)) else (value,)
    return [as_value(v) for v in items]


class Range(NamedTuple):
    """The numbers from `begin` on, up to `end`."""

    begin: Any
    end: Any

    @property
    def min(self) -> Any:
        """The first."""
        return self.begin

    @property
    def extent(self) -> Any:
        """How many."""
        return self.end - self.begin


class Map:
    """What layouts and fragments tell of themselves as expressions of their indices."""

    __slots__ = ("_read",)  # what was read of it, so that each reading gives the same objects

    @classmethod
    def _of(cls, core: Any) -> Any:
        made = object.__new__(cls)
        made._core = core
        return made

    def _repr_svg_(self) -> str:
        return self.svg()

    def __str__(self) -> str:
        return self.draw()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Map) or type(other) is not type(self):
            return NotImplemented
        return self is other or self.shape == other.shape and self._core.is_equal(other._core)

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.shape, tuple(self.output_shape)))

    def _once(self, name: str, make: Callable) -> Any:
        """What `make` gives, the same object at each reading."""
        try:
            read = self._read
        except AttributeError:
            read = self._read = {}
        if name not in read:
            read[name] = make()
        return read[name]

    def get_forward_vars(self) -> list[Expr]:
        """The variables of the expressions: the indices, and of a fragment with copies the number of the
        copy."""
        return list(self._once("vars", self._make_vars))

    def _make_vars(self) -> list[Expr]:
        return index_variables(len(self.shape), getattr(self, "replicas", 1))

    def get_forward_index(self) -> list[Expr]:
        """Where an element goes (of a fragment: its register), as expressions of get_forward_vars()."""
        return list(self._once("index", lambda: self._places(self.get_forward_vars())))

    forward_index = index = property(get_forward_index)

    def get_linearized_forward_index(self) -> Any:
        """The same as one number, row-major in the memory needed."""
        number, *rest = self.get_forward_index()
        for place, extent in zip(rest, self.get_output_shape()[1:], strict=True):
            number = number * extent + place
        return number

    def get_input_shape(self) -> list[int]:
        """The extents of the indices."""
        return list(self.shape)

    input_size = property(get_input_shape)

    def map_forward_index(self, indices: Any, *more: Any) -> list:
        """Where the element of these indices goes (of a fragment: its register): numbers or expressions."""
        return self._places(list(indices) if isinstance(indices, (tuple, list)) else [indices, *more])

    def map_region_bounds(self, region: Any) -> list[Range]:
        """For each output the numbers between its least and its greatest over a part of the tile.

        region: for each index a T.Range, a slice, (begin, extent), or one number."""
        spans = [_span(r, extent) for r, extent in zip(region, self.shape, strict=True)]
        places = [self._places(list(index)) for index in itertools.product(*[range(*span) for span in spans])]
        return [Range(min(column), max(column) + 1) for column in zip(*places, strict=True)]

    def _rescaled(self, shape: Any, num: int, den: int) -> tuple[list[int], Callable]:
        """A shape of the same storage, each element of which is `num` of `den` parts of one here; and how its
        indices and the number of a part become indices here: (index here, part, parts)."""
        extents = ints(shape, "reshape: the shape")
        if num < 1 or den < 1 or num % den and den % num:
            raise fail(
                f"reshape: rescale_num {num} and rescale_den {den} must be positive, and one divide the other"
            )
        if math.prod(self.shape) * num != math.prod(extents) * den:
            raise fail(
                f"reshape: {list(self.shape)} has {math.prod(self.shape)} elements, and {extents} "
                f"{math.prod(extents)}, which is not {num}/{den} of them"
            )

        def here(index: Any) -> tuple[list, Any]:
            number = 0
            for i, extent in zip(index, extents, strict=True):
                number = number * extent + i
            parts = max(num // den, 1)
            part, number = number % parts, number * den // num if den > num else number // parts
            rest = []
            for extent in reversed(self.shape[1:]):
                rest.insert(0, number % extent)
                number = number // extent
            return [number, *rest], part

        return extents, here


def _span(part: Any, extent: int) -> tuple[int, int]:
    if isinstance(part, Range):
        return part.begin, part.end
    if isinstance(part, slice):
        return part.indices(extent)[:2]
    if isinstance(part, (tuple, list)):
        return part[0], part[0] + part[1]
    return part, part + 1
