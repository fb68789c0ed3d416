"""Values as parts of keys: equal exactly if the kernels made from the values would be.

Numbers, strings, dtypes and containers of them count by value.  An object of the user's counts by its class
and its attributes, at any depth, since these are what a kernel can be made from and may change while the
object stays the same; its own `==` is not asked.  What has no parts that could be seen counts by identity.
What changes by being looked at, or is too large, has no key (TypeError): its kernels are made each time."""

from __future__ import annotations

import copyreg
import enum
import sys
from collections.abc import Callable
from types import (
    BuiltinFunctionType,
    FunctionType,
    MappingProxyType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any

from ..front.dtypes import DType

_BY_VALUE = (int, str, bool, type(None), bytes)
PLAIN = (*_BY_VALUE, float, DType)
CONTAINERS = (tuple, list, dict)
_MOST_OBJECTS = 10_000
_MOST_BYTES = 1 << 20  # of an array
_FEW_ELEMENTS = 4096  # of a tensor
_BASES = (str, int, float, complex, bytes, bytearray, tuple, list, set, frozenset, dict)


class Same:
    """An object by its identity, kept alive so that this stays its own."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return other.__class__ is Same and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


class Walk:
    """One look at a value and all that it is made of."""

    def __init__(
        self, is_users: Callable[[FunctionType], bool], method: Callable[[Walk, MethodType], Any]
    ) -> None:
        """is_users: whether a function is the user's own, or a library's, which does not change; method: the
        key of a bound method, which need not be that of its whole object."""
        self.is_users, self.method = is_users, method
        self.functions: list[Any] = []  # those that were met, and macros: what they read counts as well
        self.seen: dict[int, int] = {}
        self.alive: list[Any] = []  # what was met, so that no other object gets its identity

    def key(self, value: Any) -> Any:
        """The key of a value."""
        kind = value.__class__
        if kind in _BY_VALUE:
            return (kind, value)
        if kind is float:
            return (kind, value.hex())
        if kind is DType:
            return (kind, str(value))
        if kind is tuple:
            return (kind, tuple([self.key(item) for item in value]))
        number = self.seen.get(id(value))
        if number is not None:
            return ("again", number)
        self.seen[id(value)] = len(self.seen)
        self.alive.append(value)
        if len(self.seen) > _MOST_OBJECTS:
            raise TypeError("a value of too many parts cannot be part of a key")
        return self._object(value, kind)

    def _object(self, value: Any, kind: type) -> Any:
        rule = _RULES.get(kind)
        if rule is not None:
            return rule(self, value)
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, ModuleType):
            return self._module(value)
        if isinstance(value, enum.Enum):
            return (Same(kind), value._name_, self.key(value._value_))
        top = (kind.__module__ or "").partition(".")[0]
        if top == "tilelang":
            return self._ours(value, kind)
        if top in _ARRAYS or hasattr(kind, "__dlpack__"):
            made = self._array(value, kind, top)
            if made is not None:
                return made
        return self._instance(value, kind)

    def _items(self, value: Any) -> Any:
        return (value.__class__, tuple([self.key(item) for item in value]))

    def _pairs(self, value: Any) -> Any:
        return (value.__class__, tuple([(self.key(k), self.key(v)) for k, v in value.items()]))

    def _set(self, value: Any) -> Any:
        return (value.__class__, frozenset([self.key(item) for item in value]))

    def _function(self, fn: FunctionType) -> Any:
        if not self.is_users(fn):
            return Same(fn)
        self.functions.append(fn)
        return (Same(fn.__code__), self.key(fn.__defaults__), self.key(fn.__kwdefaults__), self.key(vars(fn)))

    def _method(self, value: Any) -> Any:
        return self.method(self, value)

    def _builtin(self, value: Any) -> Any:
        of = value.__self__
        return Same(value) if of is None or isinstance(of, ModuleType) else (value.__name__, self.key(of))

    def _module(self, module: ModuleType) -> Any:
        if _is_library(module.__name__):
            return Same(module)
        return (
            Same(module),
            tuple(
                [(name, self.key(value)) for name, value in vars(module).items() if value.__class__ in PLAIN]
            ),
        )

    def _class(self, cls: type) -> Any:
        if _is_library(cls.__module__) or issubclass(cls, enum.Enum):
            return Same(cls)
        members = []
        for name, member in list(vars(cls).items()):
            member = getattr(member, "__func__", member)  # of a classmethod or staticmethod
            if isinstance(member, property):
                member = (member.fget, member.fset)
            is_own = name.startswith("__") and name.endswith("__") and not isinstance(member, FunctionType)
            if not is_own and type(member).__name__ not in _DESCRIPTORS:
                members.append((name, self.key(member)))
        return (Same(cls), tuple([self.key(base) for base in cls.__bases__]), tuple(members))

    def _ours(self, value: Any, kind: type) -> Any:
        """An object of this package: most never change."""
        traced = getattr(value, "lower", value)  # of a T.tile_op
        if isinstance(getattr(traced, "__wrapped__", None), FunctionType):
            self.functions.append(traced)  # a macro, a factory
            return Same(value)
        hash(value)
        return (kind, value)

    def _array(self, value: Any, kind: type, top: str) -> Any:
        """Of an array, by its elements where there are few; None: an object like others."""
        if top == "numpy" and kind.__name__ == "ndarray":
            if value.nbytes > _MOST_BYTES:
                raise TypeError("a large array cannot be part of a key")
            values = self.key(value.tolist()) if value.dtype.hasobject else value.tobytes()
            return (kind, str(value.dtype), value.shape, values)
        if top == "torch" and hasattr(kind, "_version"):
            head = (kind, str(value.dtype), tuple(value.shape), str(value.device))
            if value.device.type == "cpu" and value.numel() <= _FEW_ELEMENTS:
                return (*head, self.key(value.tolist()))
            return (*head, Same(value), value._version, value.data_ptr())
        if top in ("jax", "jaxlib"):
            return Same(value)  # they never change
        if hasattr(kind, "__dlpack__") and top != "numpy":
            raise TypeError("an array cannot be part of a key")
        return None

    def _instance(self, value: Any, kind: type) -> Any:
        parts: list[Any] = []
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            parts += [(name, self.key(attributes[name])) for name in sorted(attributes, key=str)]
        for name in copyreg._slotnames(kind):
            if hasattr(value, name):
                parts.append((name, self.key(getattr(value, name))))
        base = next((base for base in _BASES if isinstance(value, base)), None)
        if base is not None:
            return (self.key(kind), base, self._contents(value, base), *parts)
        reduced = self._reduced(value, kind)
        if reduced is not None:
            return (self.key(kind), reduced, *parts)
        if parts or _is_plain_python(value):
            return (self.key(kind), *parts)
        if hasattr(kind, "__next__") or hasattr(kind, "__buffer__") or kind is memoryview:
            raise TypeError(f"a {kind.__name__} cannot be part of a key")
        return Same(value)

    def _contents(self, value: Any, base: type) -> Any:
        if base is dict:
            return tuple([(self.key(k), self.key(v)) for k, v in dict.items(value)])
        if base in (set, frozenset):
            return frozenset([self.key(item) for item in base.__iter__(value)])
        if base in (tuple, list):
            return tuple([self.key(item) for item in base.__iter__(value)])
        if base is bytearray:
            return bytes(value)
        return base.__repr__(value)

    def _reduced(self, value: Any, kind: type) -> Any:
        """The state of an object of a library's type written in C, as it tells pickle."""
        reduce = kind.__reduce__ if kind.__reduce_ex__ is object.__reduce_ex__ else kind.__reduce_ex__
        if reduce is object.__reduce__ or isinstance(reduce, FunctionType):
            return None
        try:
            state = value.__reduce_ex__(2)
        except Exception:
            return None
        if isinstance(state, str):
            return Same(value)
        return tuple(
            [self.key(list(part) if i > 2 and part is not None else part) for i, part in enumerate(state)]
        )


_DESCRIPTORS = ("member_descriptor", "getset_descriptor", "_abc_data")
_ARRAYS = ("numpy", "torch", "jax", "jaxlib", "cupy")
_RULES = {
    list: Walk._items,
    dict: Walk._pairs,
    set: Walk._set,
    frozenset: Walk._set,
    MappingProxyType: Walk._pairs,
    FunctionType: Walk._function,
    MethodType: Walk._method,
    BuiltinFunctionType: Walk._builtin,
    MethodWrapperType: Walk._builtin,
    ModuleType: Walk._module,
}


def is_settled(kind: type) -> bool:
    """Whether objects of a type are known by their identity alone; asked by bindings/call_key.cpp."""
    name = (kind.__module__ or "", kind.__name__)
    return (
        name[0].partition(".")[0] == "tilelang"
        or name in (("numpy", "ufunc"), ("torch", "dtype"))
        or name[0] == "numpy.dtypes"
    )


def _is_plain_python(value: Any) -> bool:
    """Whether an object without attributes has nothing else either."""
    try:
        object.__reduce_ex__(value, 2)
    except Exception:
        return False
    return True


def _is_library(module: str | None) -> bool:
    """Whether a module is Python's own or was installed."""
    if module == "__main__":
        return False
    file = getattr(sys.modules.get(module or ""), "__file__", None)
    return is_library_file(file) if file else module in sys.builtin_module_names


def is_library_file(file: str) -> bool:
    """Whether a file is of Python's own modules, or of installed ones."""
    return "-packages" in file or "lib/python" in file or file.startswith("<frozen")
