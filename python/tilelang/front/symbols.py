"""Names of an eager kernel whose meaning the trace finds out: T.const names, and tensors before their
annotation."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from .errors import caller_place, compile_error


class Const:
    """A T.const name: as good as the integer, also before an annotation has bound it."""

    __slots__ = ("name", "value", "source", "place", "guess", "is_guessed")

    def __init__(self, name: str, place: tuple | None, guess: Callable[[Const], int]) -> None:
        """guess: the value that an annotation further below will bind it to, or the user's error."""
        self.name, self.place, self.guess = name, place, guess
        self.value: int | None = None
        self.is_guessed = False  # no annotation has bound it so far
        self.source = ""  # the extent or stride that gave the value

    def __index__(self) -> int:
        if self.value is None:
            self.value, self.is_guessed, self.source = self.guess(self), True, "its use before that"
        return self.value

    def __repr__(self) -> str:
        return self.name if self.value is None else str(self.value)

    def __format__(self, spec: str) -> str:
        return format(self.__index__(), spec)

    def __hash__(self) -> int:
        return hash(self.__index__())

    def bit_length(self) -> int:
        """As of an int."""
        return self.__index__().bit_length()


def _forward(function: Callable) -> Callable:
    return lambda self, *others: function(self.__index__(), *others)


def _reflected(function: Callable) -> Callable:
    return lambda self, other: function(other, self.__index__())


for _name in "add sub mul truediv floordiv mod lshift rshift and or xor pow".split():
    _function = getattr(operator, f"__{_name}__")
    setattr(Const, f"__{_name}__", _forward(_function))
    setattr(Const, f"__r{_name}__", _reflected(_function))
for _name in ("eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs", "invert"):
    setattr(Const, f"__{_name}__", _forward(getattr(operator, f"__{_name}__")))
for _name, _function in (
    ("int", int),
    ("float", float),
    ("bool", bool),
    ("divmod", divmod),
    ("round", round),
):
    setattr(Const, f"__{_name}__", _forward(_function))


class Undeclared:
    """A tensor parameter before its annotation is executed: only its shape and dtype can be asked for."""

    __slots__ = ("_name", "_session")

    def __init__(self, name: str, session: Any) -> None:
        self._name, self._session = name, session

    @property
    def shape(self) -> tuple:
        """The extents of the tensor that is passed."""
        return self._session.read_whole(self._name)[0]

    @property
    def dtype(self) -> Any:
        """The dtype of the tensor that is passed."""
        return self._session.read_whole(self._name)[1]

    def refuse(self) -> Exception:
        """The error of every other use."""
        return compile_error(
            f"{self._name} is used before its annotation: `{self._name}: T.Tensor(shape, dtype)` comes first",
            caller_place(),
        )

    def __getattr__(self, name: str) -> Any:
        raise self.refuse()

    def __getitem__(self, index: Any) -> Any:
        raise self.refuse()

    def __setitem__(self, index: Any, value: Any) -> None:
        raise self.refuse()
