"""Nested tuples of integers, as CuTe's layouts have them, and coordinates that layouts may give."""

from __future__ import annotations

import ast
import itertools
from typing import Any


class _Nested(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return (
            isinstance(x, (int, tuple, IntTuplePrimExpr, ScaledBasis))
            if cls is IntTuple
            else super().__instancecheck__(x)
        )


class IntTuple(metaclass=_Nested):
    """An integer, a value, or a tuple of such; Python's own serve everywhere."""

    def __new__(cls, *args: Any) -> Any:
        return from_python(args[0] if len(args) == 1 else args)

    @staticmethod
    def parse(text: str) -> Any:
        """The tuple that a text shows."""
        return from_python(ast.literal_eval(text))


class IntTupleConst(int, IntTuple):
    """An integer."""

    def __new__(cls, value: int) -> IntTupleConst:
        return int.__new__(cls, value)

    @property
    def value(self) -> int:
        """Itself."""
        return int(self)


class IntTupleTuple(tuple, IntTuple):
    """A tuple."""

    __slots__ = ()

    def __new__(cls, fields: Any) -> IntTupleTuple:
        return tuple.__new__(cls, fields)

    @property
    def fields(self) -> tuple:
        """Its parts."""
        return tuple(self)


class IntTuplePrimExpr:
    """A value of a kernel as an extent or a stride."""

    def __init__(self, value: Any) -> None:
        self.value = value


class _Coordinate(tuple):
    """Coordinates add up part by part; what is missing at the end is 0."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        if isinstance(other, ScaledBasis):
            other = other.coordinate()
        other = other if isinstance(other, tuple) else (other,) if other else ()
        return _Coordinate(a + b for a, b in itertools.zip_longest(self, other, fillvalue=0))

    __radd__ = __add__


class ScaledBasis:
    """`value` steps along one dimension of a coordinate: a stride of a layout whose values are coordinates.

    mode: the dimension, or the path to it in nested tuples."""

    def __init__(self, value: Any, mode: Any) -> None:
        self.value, self.mode = value, tuple(mode) if isinstance(mode, (tuple, list)) else (mode,)

    def __mul__(self, steps: Any) -> ScaledBasis:
        return ScaledBasis(self.value * steps, self.mode)

    __rmul__ = __mul__

    def coordinate(self) -> Any:
        """The coordinate that it is."""
        found = self.value
        for place in reversed(self.mode):
            found = _Coordinate([0] * place + [found])
        return found

    def __add__(self, other: Any) -> Any:
        return self.coordinate() + other

    __radd__ = __add__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScaledBasis) and (self.value, self.mode) == (other.value, other.mode)

    def __hash__(self) -> int:
        return hash((self.value, self.mode))

    def __repr__(self) -> str:
        return f"{self.value}@{'.'.join(map(str, self.mode))}"


class IntTupleScaledBasis(ScaledBasis):
    """The same, of a value and a basis E(mode)."""

    def __init__(self, value: Any, basis: ScaledBasis) -> None:
        super().__init__(value * basis.value, basis.mode)
        self.basis = basis


def E(mode: Any) -> ScaledBasis:
    """One step along a dimension of a coordinate."""
    return ScaledBasis(1, mode)


def from_python(value: Any) -> Any:
    """Integers and tuples as the classes of this module; everything else as it is."""
    if isinstance(value, (tuple, list)):
        return IntTupleTuple(from_python(x) for x in value)
    return IntTupleConst(value) if isinstance(value, int) else value


def to_python(t: Any) -> Any:
    """Plain integers and tuples."""
    if isinstance(t, tuple):
        return tuple(to_python(x) for x in t)
    return int(t) if isinstance(t, int) else getattr(t, "value", t) if isinstance(t, IntTuplePrimExpr) else t


def flatten_to_tuple(value: Any) -> tuple:
    """All integers of a nested tuple, in order."""
    if not isinstance(value, tuple):
        return (value,)
    return tuple(x for item in value for x in flatten_to_tuple(item))


def product(shape: Any) -> int:
    """The product of all integers of a nested tuple."""
    result = 1
    for x in flatten_to_tuple(shape):
        result *= x
    return result


def congruent(a: Any, b: Any) -> bool:
    """Are two nested tuples nested alike?"""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(congruent, a, b))
    return not isinstance(a, tuple) and not isinstance(b, tuple)


def compatible(a: Any, b: Any) -> bool:
    """Is every coordinate of the shape a one of the shape b, too?"""
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(compatible, a, b))
    return a == product(b)
