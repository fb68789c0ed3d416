"""`@T.macro`: functions that kernels call and that are built in place; their parameters by reference; classes
of helpers for the time of the trace."""

from __future__ import annotations

import ast
from types import FunctionType, MethodType
from typing import Any

from .activation import Activation
from .errors import TilelangWarning, kind_of, names_bound
from .places import pinned
from .rewritten import rewrite
from .trace import current, fail
from .values import Element


class Ref:
    """Annotation of a macro's parameter or of a name: the element or variable itself, not its value.

    `def add(x: T.Ref, v): x += v` called as `add(A[i, j], 1)` changes the element; so does `x: T.Ref = A[i,
    j]` and then x += 1.  Also x.load(), x.store(v).  T.Ref(A[i, j]) is the place as an argument."""

    is_reference = True
    load, store, buffer = Element.load, Element.store, Element.buffer

    def __new__(cls, bufload: Any) -> Any:
        if bufload.__class__ is not Element:
            raise fail(f"T.Ref takes an element, A[i, j], not {type(bufload).__name__}")
        return bufload.reference(bufload.index)

    @property
    def bufload(self) -> Any:
        """The element."""
        return self


class _TileType(type):
    def __getitem__(cls, key: Any) -> Any:
        return cls(*key) if isinstance(key, tuple) else cls(key)


class _TileAnnotation(metaclass=_TileType):
    scope: str | None = ""

    def __init__(self, shape: Any = None, dtype: Any = None, *_: Any, **__: Any) -> None:
        self.shape, self.dtype = shape, dtype


class FragmentBuffer(_TileAnnotation):
    """Annotation of a macro's parameter: a fragment; T.FragmentBuffer(shape, dtype)."""

    scope = "fragment"


class SharedBuffer(_TileAnnotation):
    """Annotation of a macro's parameter: a shared tile; T.SharedBuffer(shape, dtype)."""

    scope = "shared"


class LocalBuffer(_TileAnnotation):
    """Annotation of a macro's parameter: an array of each thread; T.LocalBuffer(shape, dtype)."""

    scope = "local"


class SharedTensor(SharedBuffer):
    """The same as SharedBuffer; an older name."""


class FragmentTensor(FragmentBuffer):
    """The same as FragmentBuffer; an older name."""


class LocalTensor(_TileAnnotation):
    """Annotation of a macro's parameter: a fragment or an array of each thread; an older name."""

    scope = None


_DEEPEST = 100  # macros that call one another; Python itself allows about 200


class Macro:
    """A function that kernels call and that is built in place; see `macro`."""

    said = "a @T.macro"

    def __init__(self, fn: FunctionType) -> None:
        self.__name__ = fn.__name__
        self.__doc__ = fn.__doc__
        self.__wrapped__ = fn
        self.rewritten = rewrite(fn)
        self.names = [arg.arg for arg in self.rewritten.parameters]
        self.rest, self.others = self.rewritten.star_names  # of *args and **kwargs
        self.references = {
            arg.arg
            for arg in self.rewritten.parameters + self.rewritten.stars
            if arg.annotation is not None and any(map(_is_ref, ast.walk(arg.annotation)))
        }
        self.scopes = {
            name: kind.scope
            for name, kind in fn.__annotations__.items()
            if isinstance(kind, _TileAnnotation)
            or (isinstance(kind, type) and issubclass(kind, _TileAnnotation))
        }

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        trace = current()
        if trace is None:
            raise fail(f"the macro '{self.__name__}' can only be called from a kernel")
        if len(trace.activations) > _DEEPEST:
            raise fail(
                f"macros call one another {_DEEPEST} deep here, '{self.__name__}' among them: a macro "
                "is built in place at each call, so a call of itself must end by what Python knows "
                "while the kernel is built; what the device decides is a `while` loop"
            )
        trace.read(self.rewritten.text)
        activation = Activation(trace, self.rewritten.file, is_macro=True)
        values = [self._argument(activation, *self._taken_by(n), x) for n, x in enumerate(args)]
        named = {
            name: self._argument(activation, name, name if name in self.names else self.others, x)
            for name, x in kwargs.items()
        }
        trace.activations.append(activation)
        try:
            with names_bound(self.rewritten.code, self.rewritten.bound):
                return self.rewritten.run_with(self.__wrapped__, activation)(*values, **named)
        finally:
            trace.activations.pop()

    def _taken_by(self, n: int) -> tuple[str, str]:
        """The name of argument n, and that of the parameter that takes it."""
        count = self.__wrapped__.__code__.co_argcount
        return (self.names[n],) * 2 if n < count else (f"{self.rest}_{n - count}", self.rest)

    def _argument(self, activation: Activation, name: str, owner: str, value: Any) -> Any:
        if owner in self.references:
            return activation.refer(name, value)
        wanted = self.scopes.get(owner)
        if wanted is not None and getattr(value, "scope", wanted) != wanted:
            import warnings

            warnings.warn(
                f"{self.__name__}: {name} is annotated as a {wanted} buffer, but {value.name} is a "
                f"{value.scope} one",
                TilelangWarning,
                stacklevel=2,
            )
        return pinned(value) if value.__class__ is Element else activation.settle(name, value)


def _is_ref(node: ast.AST) -> bool:
    return "Ref" in (getattr(node, "attr", None), getattr(node, "id", None))


def macro(func: FunctionType | None = None) -> Any:
    """Make a function one that kernels call: its body becomes part of the kernel at each call.

    Arguments are passed by value (buffers and Python values as they are; `A[i, j]` stays the place of a
    tile), those annotated T.Ref by reference.  *args and **kwargs are a tuple and a dict of Python's: `for x
    in args` is built once for each.  It may return a value, or a tuple, at its end."""
    if func is None:
        return macro
    if not isinstance(func, FunctionType):
        raise fail(f"@T.macro decorates a function, not {kind_of(func)}")
    return Macro(func)


def inline(func: FunctionType) -> Macro:
    """The same as macro; for methods of a T.meta_class."""
    return macro(func)


class _Constructor:
    """The __init__ of a T.meta_class: in a kernel it is traced, like the methods."""

    def __init__(self, fn: FunctionType) -> None:
        self.fn = fn
        self.macro: Macro | None = None

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self.fn if instance is None else lambda *args, **kwargs: self._run(instance, args, kwargs)

    def _run(self, instance: Any, args: tuple, kwargs: dict) -> None:
        trace = current()
        if trace is None:
            self.fn(instance, *args, **kwargs)
            return
        trace.born[id(instance)] = (instance, trace.blocks)
        if self.macro is None:
            self.macro = Macro(self.fn)
        self.macro(instance, *args, **kwargs)


def meta_class(cls: type) -> type:
    """Make a class a helper for the time of the trace: its __init__ and its @T.inline methods are built in
    place where the kernel calls them.

    Attributes hold whatever a kernel's names can: buffers, numbers, values.  An attribute that changes in a
    loop or branch of the device must be a T.alloc_var."""
    if not isinstance(cls, type):
        raise fail(f"@T.meta_class decorates a class, not {kind_of(cls)}")
    made = cls.__dict__.get("__init__")
    if isinstance(made, FunctionType):
        cls.__init__ = _Constructor(made)
    return cls


__all__ = ["FragmentBuffer", "FragmentTensor", "LocalBuffer", "LocalTensor", "Ref", "SharedBuffer",
           "SharedTensor", "inline", "macro", "meta_class"]  # fmt: skip
