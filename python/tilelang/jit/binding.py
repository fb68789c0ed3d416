"""Errors of a call whose arguments do not fit the parameters, in Python's own words."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


def _error(name: str, text: str, known: Iterable[str]) -> TypeError:
    return TypeError(f"{name}() {text}t takes ({', '.join(known)})")


def missing(name: str, known: Sequence[str], absent: Sequence[str], what: str = "") -> TypeError:
    """Of parameters that get no value.  what: said of the first of them."""
    several = f" (and {', '.join(map(repr, absent[1:]))})" if len(absent) > 1 else ""
    return _error(name, f"missing a required argument: {absent[0]!r}{several}{what}; i", known)


def twice(name: str, known: Sequence[str], which: str) -> TypeError:
    """Of a parameter that is given by position and by name."""
    return _error(name, f"got multiple values for argument {which!r}; i", known)


def too_many(name: str, known: Sequence[str], most: int, given: int) -> TypeError:
    """Of more arguments by position than there are such parameters."""
    takes = f"{most} positional argument{'s' * (most != 1)}"
    return _error(name, f"takes {takes} but {given} {'was' if given == 1 else 'were'} given; i", known)


def unexpected(
    name: str, known: Sequence[str], which: str, names: Sequence[str] = (), what: str = ""
) -> TypeError:
    """Of a keyword that is no parameter.  names: the parameters where `known` says more; what: said of it."""
    near = difflib.get_close_matches(which, names or known, 1)
    mean = f"; did you mean {near[0]}? I" if near else "; i"
    return _error(name, f"got an unexpected keyword argument {which!r}{what}{mean}", known)
