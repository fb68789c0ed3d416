"""What the rewritten text of a kernel calls: the `__tl` of parse.py.

Each method of `Activation` first says where the user wrote the operation, then does the ordinary Python thing
with Python values, or builds.  One Activation belongs to one run of one function (the prim_func, or a macro
it calls): it knows which names are variables of the kernel and which loops and branches are open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .._core import Buffer, Expr, Region
from . import changes, lanes, values
from .arithmetic import cast
from .asserts import device_assert, failed_assertion
from .dtypes import as_dtype
from .errors import compile_error, kind_of
from .expressions import Expressions
from .frames import CARRIED, CONDITIONAL, ESCAPING, REBOUND, SHADOWED, Frame, Refused, With
from .loops import Loop, serial
from .places import pinned
from .results import take_results
from .trace import Trace, fail, warn
from .values import DEVICE, VECTORS, Deferred, Dynamic, Element, as_condition, as_value, is_value
from .vectors import VectorVariable, as_vector
from .wording import lost_to_the_caller, rebound

_ENDLESS = 100_000  # iterations of a `while` that Python runs
_VALUES = (Element, Buffer, Expr, Dynamic, Deferred)
_KEPT = (Buffer, Element, VectorVariable)  # a name of one stays that of the same place


class Activation(Expressions):
    """One run of one rewritten function: the `__tl` of its text."""

    __slots__ = ("trace", "builder", "file", "frames", "names", "turns", "is_macro")
    slice = slice  # for the text: a kernel may have a variable of that name

    def __init__(self, trace: Trace, file: str, is_macro: bool) -> None:
        self.trace, self.builder, self.file, self.is_macro = trace, trace.builder, file, is_macro
        self.frames: list[Frame] = []
        self.names: dict[str, Buffer | Element] = {}  # name -> its alloc_var, or the place that it refers to
        self.turns: dict[tuple, int] = {}  # how often a call was made whose values go to several names

    def at(self, site: tuple) -> None:
        self.trace.at(self.file, site)

    def error(self, text: str, site: tuple) -> Exception:
        return compile_error(text, (self.file, *site))

    # ── names ─────────────────────────────────────────────────────────────────────────────────────────
    def note(self, name: str, meaning: Buffer | None) -> None:
        """From here to the end of the open loop, branch or kernel of the device, `name` means that."""
        for frame in self.frames:
            if name in frame.kept:
                raise fail(f"'{name}' {frame.kept[name]}")
        for frame in reversed(self.frames):
            if frame.undo is not None:
                frame.undo.append((name, self.names.get(name)))
                break
        self._means(name, meaning)

    def _means(self, name: str, meaning: Buffer | Element | None) -> None:
        if meaning is None:
            self.names.pop(name, None)
        else:
            self.names[name] = meaning

    def open(self, frame: Frame) -> None:
        """Begin a loop or branch, which the device may run."""
        if frame.device:
            frame.number = self.trace.next_block()
        self.frames.append(frame)

    def close(self) -> Frame:
        """End the innermost frame."""
        frame = self.frames.pop()
        for name, meaning in reversed(frame.undo or ()):
            self._means(name, meaning)
        return frame

    def assign(self, site: tuple, name: str, value: Any, bound: bool = False) -> Any:
        """`name = value`.  Returns what Python binds the name to; `bound`: the value is evaluated already."""
        self._check_not_refused(site, name)
        meaning = self.names.get(name)
        kind = value.__class__
        if kind is VectorVariable:
            if value.buffer.id not in self.trace.owned:
                self.at(site)
                self.trace.owned.add(value.buffer.id)
                self.note(name, value)
                return value
            value = value.value()
        elif meaning.__class__ is not VectorVariable and lanes.is_several(value):
            self.at(site)
            value = as_vector(value)  # a name holds what it is now
        if meaning.__class__ in (Element, VectorVariable):  # Element: a macro's T.Ref parameter
            self.at(site)
            meaning.store(value)
            return meaning
        if kind is Buffer and value.scope == "var":
            if value.id not in self.trace.owned:
                self.at(site)
                self.trace.owned.add(value.id)
                self.note(name, value)
                return value
        elif kind is Buffer and meaning.__class__ is Buffer:
            raise self.error(
                f"'{name}' is a variable (T.alloc_var) and cannot become a tile; use another name", site
            )
        if meaning.__class__ is Buffer:
            self.at(site)
            self.builder.store(meaning, (), as_value(value))
            self.trace.wrote(meaning)
            return meaning
        if kind in _VALUES and not (kind is Buffer and value.scope != "var"):
            return self._bind(site, name, value, bound)
        if kind is Region:
            self.at(site)
            return pinned(value)
        return freeze(self, name, value) if kind in (list, tuple, dict) and not bound else value

    def rebind(self, site: tuple, name: str, old: Any, value: Any, unread: bool) -> Any:
        """The value of `name = value`, where name is a parameter.  unread: nothing reads the name afterwards,
        so that it was meant for the tensor."""
        if unread:
            self._warn_of_lost(site, name, old)
        is_tile = old.__class__ is Buffer and old.scope != "var" and name not in self.names
        if not is_tile or value is None or not isinstance(value, (*DEVICE, int, float)):
            return value
        if unread:
            raise self.error(rebound(name, old, value), site)
        if not (self.is_macro or value.__class__ is Buffer and value.scope == "global"):
            self.trace.rebound.append((name, rebound(name, old, value), site[0]))
        return value

    def _bind(self, site: tuple, name: str, value: Any, bound: bool) -> Expr:
        self.at(site)
        value = as_value(value)
        return value if bound or value.__class__ is not Expr else self.builder.let(name, value)

    def declare(self, site: tuple, name: str, annotation: Any, argument: Any = None) -> Any:
        """`name: annotation`, without a value: a parameter of an eager function meets its argument; one of a
        macro, which says so here instead of in its signature, stays what it is."""
        self.at(site)
        if self.is_macro and argument is not None:
            return argument
        if self.trace.eager is None or self.is_macro:
            raise self.error(
                f"an annotation without a value: parameters are annotated in the body of an "
                f"eager function only, @tilelang.jit without a prim_func; a variable is {name} "
                "= T.alloc_var(dtype)",
                site,
            )
        return self.trace.eager.declare(name, annotation)

    def annotated(self, site: tuple, name: str, annotation: Any, value: Any) -> Any:
        """`name: dtype = value`."""
        self.at(site)
        if getattr(annotation, "is_reference", False):
            return self.refer(name, value)
        if value.__class__ is Buffer and value.scope != "var":  # C: T.Tensor(…) = T.empty(…)
            return self.assign(site, name, value)
        return self.assign(site, name, cast(value, as_dtype(annotation)))

    def refer(self, name: str, value: Any) -> Any:
        """What `name` refers to from here on: the index is evaluated now, the element when it is used."""
        if value.__class__ is Buffer and value.scope == "var":
            value = Element(value, ())
        if value.__class__ is Buffer:
            return value
        if value.__class__ is not Element:
            raise fail(
                f"{name} is a T.Ref: it takes an element, A[i, j], or a variable (T.alloc_var), not "
                f"{type(value).__name__}"
            )
        if value.writes is not None:
            value = value.reference(tuple([self.settle("i", i) for i in value.index]))
        self.note(name, value)
        return value

    def _warn_of_lost(self, site: tuple, name: str, old: Any) -> None:
        """A warning where a macro gives a parameter a new value that nothing reads."""
        if self.is_macro and name not in self.names and isinstance(old, DEVICE) and is_value(old):
            self.at(site)
            warn(lost_to_the_caller(name))

    def augment(self, site: tuple, name: str, op: str, old: Any, value: Any, unread: bool = False) -> Any:
        """`name op= value`.  unread: the name is a parameter, and nothing reads it afterwards."""
        if unread:
            self._warn_of_lost(site, name, old)
        if isinstance(old, DEVICE) or isinstance(value, DEVICE):
            return self.assign(site, name, self.binary(site, op, old, value))
        self._check_not_refused(site, name)
        self.at(site)
        values.refuse_indices(op, old, value)
        changes.check(self.trace, old, f"{name} {values.SIGNS[op]}=")
        return values.INPLACE[op](old, value)

    def unpack(self, site: tuple, value: Any, names: tuple) -> Any:
        """The right side of `a, b = …`: every value is computed before the first name changes."""
        value = lanes.value_of(value)
        if value.__class__ in VECTORS or lanes.is_several(value):
            self.at(site)
            value = tuple(as_vector(value))
        if isinstance(value, (*DEVICE, Loop)):
            raise self.error("cannot unpack a single value of the kernel into several names", site)
        self.at(site)
        items = list(value)
        known = names if len(names) == len(items) else (None,) * len(items)
        return [self.settle(name or "t", item) for name, item in zip(known, items, strict=True)]

    def hold(self, site: tuple, name: str, value: Any) -> Any:
        """The right side of `a = b = …`: computed once."""
        self.at(site)
        if value.__class__ is Buffer and value.scope == "var" and value.id not in self.trace.owned:
            raise fail(
                "one T.alloc_var for several names: an assignment to one would change all; make one for each"
            )
        return self.settle(name, value)

    def settle(self, name: str, value: Any) -> Any:
        """What `value` is now: elements and variables are loaded, expressions bound; the rest as it is."""
        if value.__class__ is Buffer and (value.scope != "var" or value.id not in self.trace.owned):
            return value
        if value.__class__ is VectorVariable or lanes.is_several(value):
            return as_vector(value)
        if value.__class__ in _VALUES:
            value = as_value(value)
            return self.builder.let(name, value) if value.__class__ is Expr else value
        return pinned(value) if value.__class__ is Region else value

    # ── control flow ──────────────────────────────────────────────────────────────────────────────────
    def loop(self, site: tuple, iterable: Any, names: Any, carried: tuple, escaping: tuple) -> Iterator:
        """`for names in iterable`: a device loop, or Python's own at trace time."""
        self.at(site)
        if iterable.__class__ is range and self.trace.kernel is not None:
            iterable = serial(iterable.start, iterable.stop, iterable.step)
        if isinstance(iterable, Loop):
            self._refuse_shadows(names, escaping)
            return self._device_loop(site, iterable, names, self._refuse_names(carried, escaping))
        iterable = lanes.value_of(iterable)
        if iterable.__class__ in VECTORS:
            return self._python_loop(list(as_vector(iterable)), names)
        if isinstance(iterable, DEVICE):
            raise self.error(
                "cannot iterate over a value of the kernel; use range, T.serial or T.Parallel", site
            )
        if not hasattr(type(iterable), "__iter__") and not hasattr(type(iterable), "__getitem__"):
            raise self.error(
                f"a `for` runs over range, T.serial, T.Parallel or a sequence, not {kind_of(iterable)}", site
            )
        return self._python_loop(iterable, names)

    def repeat(
        self, site: tuple, condition: Callable[[], Any], forever: bool, carried: tuple, escaping: tuple
    ) -> Iterator:
        """`while condition:`, run by the device if only it can tell when to end."""
        self.at(site)
        in_kernel = self.trace.kernel is not None
        if forever and not in_kernel:
            raise self.error("'while True' outside a T.Kernel would never end", site)
        if in_kernel:
            self.builder.begin_while()  # whatever the condition takes is done before each iteration
        value = forever or as_condition(condition())
        if forever or value.__class__ is Expr:
            return self._device_while(site, value, self._refuse_names(carried, escaping))
        if in_kernel:
            self.builder.drop_while()
        return self._python_while(site, condition, value)

    def _device_while(self, site: tuple, condition: Any, refused: Refused) -> Iterator:
        self.at(site)
        self.builder.while_condition(condition)
        self.open(Frame(True, loop=True, refused=refused))
        yield None
        self.close()
        self.builder.end_while()

    def _python_while(self, site: tuple, condition: Callable[[], Any], value: Any) -> Iterator:
        depth, trips = len(self.frames), 0
        while value:
            self.frames.append(Frame(False, loop=True))
            yield None
            while len(self.frames) > depth:
                self.close()
            self.at(site)
            value, trips = as_condition(condition()), trips + 1
            if value.__class__ is Expr:
                raise self.error(
                    "this condition is known while the kernel is built at first, and to the "
                    "device only later: make what it reads a T.alloc_var before the loop",
                    site,
                )
            if trips == _ENDLESS:
                raise self.error(
                    f"this loop, run while the kernel is built, has not ended after {trips} "
                    "iterations: make what its condition reads a T.alloc_var, and the device "
                    "runs it",
                    site,
                )

    def _refuse_names(self, carried: tuple, escaping: tuple) -> Refused:
        """Refuses what the loop surely assigns; what only a branch of it may, when it does."""
        (assigned, kept), (again, kept_again) = (
            self._refuse(escaping, ESCAPING),
            self._refuse(carried, CARRIED),
        )
        return {**assigned, **again}, {**kept, **kept_again}

    def _refuse_shadows(self, names: Any, escaping: tuple) -> None:
        """An error where a loop gives its index the name of a variable that is read after it."""
        own = (names,) if isinstance(names, str) else names or ()
        for name, _, *where in escaping:
            if name in own and self.names.get(name).__class__ in _KEPT:
                raise self.error(f"'{name}' " + SHADOWED.format(name), tuple(where))

    def _refuse(self, names: tuple, why: str) -> Refused:
        later: dict[str, str] = {}
        kept: dict[str, str] = {}
        for name, in_branch, *where in names:
            if self.names.get(name).__class__ in _KEPT:
                kept[name] = REBOUND.format(name)
                continue
            if not in_branch:
                raise self.error(f"'{name}' " + why.format(name), tuple(where))
            later[name] = why.format(name)
        return later, kept

    def _check_not_refused(self, site: tuple, name: str) -> None:
        for frame in self.frames:
            if name in frame.refused:
                raise self.error(f"'{name}' {frame.refused[name]}", site)

    def _device_loop(self, site: tuple, loop: Loop, names: Any, refused: Refused) -> Iterator:
        one = names.__class__ is str and len(loop.stops) > 1  # a tuple of the indices
        own = (names,) if isinstance(names, str) else names
        if one:
            own = tuple([f"{names}_{d}" for d in range(len(loop.stops))])
        if own is None or None in own or len(own) != len(loop.stops):
            raise self.error(
                f"this loop has {_count(loop)}: give as many plain names between `for` and `in`", site
            )
        builder = self.builder
        indices = loop.begin(builder, own)
        if one:
            indices = tuple(indices)
            self.trace.tuples.append((names, indices, loop))
        self.open(Frame(True, loop=True, bound=loop.bound, refused=refused, kind=loop.kind))
        for name in (names,) if one else own:
            self.note(name, None)
        yield indices if one else indices[0] if isinstance(names, str) else indices
        self.close()
        loop.end(builder)

    def _python_loop(self, iterable: Any, names: Any) -> Iterator:
        depth = len(self.frames)
        for item in iterable:
            self.frames.append(Frame(False, loop=True))
            own = ((names, item),) if isinstance(names, str) else ()
            if isinstance(names, tuple) and isinstance(item, (tuple, list)):
                own = zip(names, item, strict=False)
            for name, value in own:
                if name is not None:
                    self.note(name, value if _is_place(value) else None)
            yield item
            while len(self.frames) > depth:
                self.close()

    def jump(self, site: tuple, word: str) -> bool:
        """`break` or `continue`: a statement where the device runs the loop, else (True) Python's own."""
        branch = False
        for i in range(len(self.frames) - 1, -1, -1):
            frame = self.frames[i]
            if frame.bound:
                raise self.error(
                    f"'{word}' in a T.thread_binding loop, whose iterations run together; use `if`", site
                )
            if frame.loop and frame.device:
                self.at(site)
                self.builder.call(word, ())
                return False
            if frame.loop:
                if branch:
                    raise self.error(
                        f"'{word}' under a condition that only the device knows, in a loop that "
                        "Python runs while the kernel is built: make the loop T.serial or "
                        "T.unroll",
                        site,
                    )
                if word == "break":
                    while len(self.frames) > i:
                        self.close()
                return True
            branch = branch or frame.device
        return True

    def stop(self, site: tuple) -> bool:
        """`return` without a value: ends the thread in a kernel, elsewhere (True) Python's own."""
        if self.is_macro:
            self.leave(site)
            return True
        if self.trace.kernel is None:
            return True
        self.at(site)
        self.builder.call("thread_return", ())
        return False

    def leave(self, site: tuple, value: Any = None) -> Any:
        """`return value`."""
        if value is not None and not self.is_macro and not any(frame.device for frame in self.frames):
            self.at(site)
            return take_results(self.trace, value, site)
        if any(frame.device for frame in self.frames):
            raise self.error(
                "'return' inside a loop or branch that the device runs: what gives a value "
                "returns at its end; assign the result to a T.alloc_var and return that",
                site,
            )
        if not self.is_macro:
            return None
        self.at(site)
        if isinstance(value, tuple):
            return tuple(self.settle("r", item) for item in value)
        return self.settle("r", value)

    def then(self, site: tuple, condition: Any, escaping: tuple) -> bool:
        """`if condition:`; opens the branch."""
        self.at(site)
        condition = as_condition(condition)
        if condition.__class__ is not Expr:
            self.frames.append(Frame(False, taken=bool(condition)))
            return self.frames[-1].taken
        refused = self._refuse(escaping, CONDITIONAL)
        self.builder.begin_if(condition)
        self.open(Frame(True, refused=refused))
        return True

    def otherwise(self, site: tuple) -> bool:
        """`else:`"""
        frame = self.close()
        self.open(Frame(frame.device, refused=(frame.refused, frame.kept)))
        if frame.device:
            self.at(site)
            self.builder.begin_else()
            return True
        return not frame.taken

    def end_if(self) -> None:
        """The end of the `if` statement."""
        if self.close().device:
            self.builder.end_if()

    def enter(self, site: tuple, manager: Any, names: Any) -> With:
        """`with manager as names`."""
        if hasattr(manager, "names") and names is not None:
            manager.names = (names,) if isinstance(names, str) else names
            manager.unpacks = not isinstance(names, str)
        return With(self, site, manager)

    def check(self, site: tuple, condition: Any, message: Callable[[], Any] | None, operands: tuple) -> None:
        """`assert condition, message`."""
        self.at(site)
        condition = as_condition(condition)
        if condition.__class__ is Expr:
            text = str(message()) if message else ""
            if self.trace.kernel is None:  # checked by every call, before it launches anything
                return self.builder.require(condition, text)
            return device_assert(condition, text)
        if not condition:
            raise self.error(failed_assertion(message, operands), site)


def _is_place(x: Any) -> bool:
    """Is it a variable, or a T.Ref, to which an assignment to its name stores?"""
    return x.writes is None if x.__class__ is Element else x.__class__ is Buffer and x.scope == "var"


def freeze(activation: Activation, name: str, value: Any) -> Any:
    """A list, tuple or dict that was just made: the expressions in it are evaluated here and now."""
    if value.__class__ is dict:
        for i, (k, v) in enumerate(value.items()):
            if v.__class__ is Expr:
                value[k] = activation.settle(f"{name}_{i}", v)
        return value
    if not any(v.__class__ is Expr for v in value):
        return value
    settled = [activation.settle(f"{name}_{i}", v) if v.__class__ is Expr else v for i, v in enumerate(value)]
    if value.__class__ is list:
        value[:] = settled
        return value
    return tuple(settled)


def _count(loop: Loop) -> str:
    n = len(loop.stops)
    return "1 index" if n == 1 else f"{n} indices"
