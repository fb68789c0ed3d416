"""What the rewritten text of a kernel calls for its expressions, and for stores to items and attributes: the
part of Activation that knows nothing of names, loops and branches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._core import Buffer, Expr, Region
from . import changes, effects, lanes, lookups, values
from .builtins_of_python import BUILTINS, python_index
from .indexing import store, subscript
from .loops import Loop
from .misuse import unfit, wrong_call
from .places import pinned
from .trace import fail
from .values import DEVICE, SLICES, VECTORS, Element, as_condition, as_value, binary

_CONTAINERS = (list, dict, set)


def _is_var(value: Any) -> bool:
    return value.__class__ is Buffer and value.scope == "var"


class Expressions:
    """Expressions of a rewritten function; see Activation."""

    __slots__ = ()

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────────
    def call(self, site: tuple, hint: Any, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        """`fn(*args, **kwargs)`; `hint`: the name that its value is assigned to, or those of its turns, or
        DROPPED."""
        if hint.__class__ is tuple:
            turn = self.turns[site] = self.turns.get(site, -1) + 1
            hint = hint[turn % len(hint)]
        dropped = hint is effects.DROPPED
        self.trace.at(self.file, site)
        self.trace.hint = None if dropped else hint
        special = BUILTINS.get(id(fn))
        if special is not None:
            result = special(fn, args, kwargs)
            changes.given(self.trace, result)
            return result
        owner = getattr(fn, "__self__", None)
        if owner is not None and owner.__class__ not in (Buffer, Expr):
            changes.check_call(self.trace, fn)
            lookups.check_call(fn, args)
            if owner.__class__ in _CONTAINERS:  # list.append keeps what it is given
                args = tuple(self.settle("t", a) if a.__class__ is Expr else pinned(a) for a in args)
        try:
            result = fn(*args, **kwargs)
        except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
            refused = wrong_call(error, fn, args) if isinstance(error, TypeError) else None
            if refused is not None:
                raise refused from None
            refused = unfit(error, fn)
            if refused is None:
                raise
            raise refused from error
        if dropped:
            self.at(site)
            effects.warn_of_dropped(fn, result)
        changes.given(self.trace, result)
        return result

    def here(self, site: tuple) -> None:
        """What follows stands there."""
        self.at(site)

    def made(self, _: None, value: Any) -> Any:
        """`[…]`, `{…}` and their comprehensions."""
        return changes.made(self.trace, pinned(value))

    def pinned(self, site: tuple, value: tuple) -> tuple:
        """`a, b`."""
        self.at(site)
        return pinned(value)

    def formatted(self, site: tuple, value: Any) -> Any:
        """`{value}` in an f-string."""
        self.at(site)
        lookups.refuse_text(value)
        return value

    def printed(self, site: tuple, value: Any) -> Any:
        """The same where print shows it."""
        self.at(site)
        if not lookups.is_unknown(value):
            return lookups.as_known(value)
        lookups.warn_of_print()
        return lookups.Shown(value)

    # ── operators ─────────────────────────────────────────────────────────────────────────────────────
    def binary(self, site: tuple, op: str, a: Any, b: Any) -> Any:
        """`a op b`."""
        special = lookups.OPERATORS.get(op)
        if special is not None:
            self.at(site)
            return special(self, op, a, b)
        if a.__class__ is tuple or b.__class__ is tuple:
            self.trace.at(self.file, site)
            values.refuse_indices(op, a, b)
        if isinstance(a, DEVICE) or isinstance(b, DEVICE):
            self.trace.at(self.file, site)
            return binary(op, a, b)
        result = values.PYTHON[op](a, b)
        changes.given(self.trace, result)
        return result

    def unary(self, site: tuple, op: str, a: Any) -> Any:
        """`-a`, `+a`, `~a` and `not a`."""
        if isinstance(a, DEVICE):
            self.trace.at(self.file, site)
            return values.unary(op, a)
        return values.PYTHON[op](a)

    def logic(self, site: tuple, op: str, left: Any, *rest: Callable[[], Any]) -> Any:
        """`left and …` and `left or …`: Python's own short circuit as long as the left side is Python's."""
        for thunk in rest:
            self.at(site)
            condition = as_condition(left)
            if condition.__class__ is not Expr:
                if bool(condition) == (op == "or"):
                    return left
                left = thunk()
                continue
            right, done = self._arms(site, condition, *((thunk, None) if op == "and" else (None, thunk)))
            if done:
                left = right
                continue
            self.at(site)
            right = as_condition(right)
            if right.__class__ is Expr:
                left = self.builder.binary(f"logical_{op}", condition, right)
            elif bool(right) == (op == "or"):
                left = bool(right)
        return left

    def choice(self, site: tuple, op: str, left: Any, *rest: Callable[[], Any]) -> Any:
        """The same where not the truth of it is asked for, but the value: in Python that is one of the
        operands, and so all of them must be truth values, from the first that only the device will know."""
        by_device, last = False, len(rest)

        def checked(n: int, value: Any) -> Any:
            nonlocal by_device
            combined = by_device or n < last and lookups.is_unknown(value)
            if combined and not lookups.is_truth(value):
                self.at(site)
                raise fail(
                    f"`{op}` gives one of its operands in Python; of values that only the device will "
                    "know it gives a truth value, but an operand here is a number: write "
                    "T.if_then_else(x != 0, x, y) to choose, or compare it, x != 0"
                )
            by_device = by_device or combined
            return value

        others = [lambda n=n, thunk=thunk: checked(n, thunk()) for n, thunk in enumerate(rest, 1)]
        return self.logic(site, op, checked(0, left), *others)

    def compare(self, site: tuple, ops: tuple, left: Any, *rest: Callable[[], Any]) -> Any:
        """`a < b < c`: each operand is evaluated once, and the last only if it matters."""
        result: Any = True
        for op, thunk in zip(ops, rest, strict=True):
            right = thunk()
            holds = self.binary(site, op, left, right)
            result = self.logic(site, "and", result, lambda holds=holds: holds)
            if not isinstance(result, DEVICE) and not result:
                return result
            left = right
        return result

    def ternary(self, site: tuple, condition: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
        """`yes if condition else no`."""
        self.at(site)
        condition = as_condition(condition)
        if condition.__class__ is not Expr:
            return yes() if condition else no()
        given, done = self._arms(site, condition, yes, no)
        self.at(site)
        return given if done else self.builder.select(condition, *map(as_value, given))

    def _arms(self, site: tuple, condition: Expr, yes: Any, no: Any) -> tuple[Any, bool]:
        """The value of the arm that is taken, and True, if an arm does more than give a value; else what the
        arms give (both of two).  None for an arm: of `and` and `or` it is decided."""
        opened = self.builder.begin_choice(condition)
        a = yes() if yes else True
        if opened:
            self.builder.begin_else()
        b = no() if no else False
        if not opened or self.builder.drop_choice():
            return ((a, b) if yes and no else a if yes else b), False
        self.at(site)
        a, b = (as_value(x) if yes and no else as_condition(x) for x in (a, b))
        return self.builder.end_choice(a, b), True

    def truth(self, site: tuple, condition: Any) -> bool:
        """A condition that Python must decide now: of a comprehension."""
        if isinstance(condition, DEVICE):
            self.at(site)
        return bool(condition)

    # ── items and attributes ──────────────────────────────────────────────────────────────────────────
    def item(self, site: tuple, obj: Any, index: Any) -> Any:
        """`obj[index]`."""
        self.trace.at(self.file, site)
        if obj.__class__ is Buffer:
            return subscript(obj, index)
        if obj.__class__ in SLICES:
            return obj[index]
        result = obj[python_index(obj, index)]
        changes.given(self.trace, result)
        return result

    def store(self, site: tuple, value: Any, obj: Any, index: Any) -> None:
        """`obj[index] = value`."""
        self.trace.at(self.file, site)
        if obj.__class__ is Buffer:
            store(obj, index, value)
        elif obj.__class__ in VECTORS or obj.__class__ is Region:
            obj[index] = value
        elif isinstance(obj, DEVICE):
            raise self.error("cannot assign to an element of a value; assign to an element of a buffer", site)
        else:
            changes.check(self.trace, obj, "[…] = …")
            obj[python_index(obj, index)] = self.settle("t", value) if value.__class__ is Expr else value

    def noted(self, site: tuple, value: Any) -> Any:
        """An operand, before what changes it may be called."""
        self.at(site)
        return pinned(value) if value.__class__ is Expr else self.settle("t", value)

    def noted_place(self, site: tuple, value: Any) -> Any:
        """The same of an argument, which may be taken by reference: its use as a value is an error then."""
        self.at(site)
        if _is_var(value) and value.id in self.trace.owned:
            return Element(value, ())
        return pinned(value)

    def noted_index(self, site: tuple, index: Any) -> Any:
        """The same of an index."""
        self.at(site)
        items = index if index.__class__ is tuple else (index,)
        noted = tuple(i if i.__class__ is slice else self.settle("i", i) for i in items)
        return noted if index.__class__ is tuple else noted[0]

    def item_now(self, site: tuple, obj: Any, index: Any) -> Any:
        """The value of `obj[index]`, if it is an element that is not a reducer's."""
        self.at(site)
        if obj.__class__ is not Buffer or obj.id in self.trace.reducers:
            return None
        old = self.item(site, obj, index)
        return self.settle("t", old) if old.__class__ is Element else None

    def augment_item(self, site: tuple, op: str, obj: Any, index: Any, old: Any, value: Any) -> None:
        """`obj[index] op= value`; old: what it was before the value was computed, if that matters."""
        old = self.item(site, obj, index) if old is None else old
        if obj.__class__ is Buffer and obj.id in self.trace.reducers:
            lookups.check_contribution(self.trace, op, obj)
        if isinstance(old, DEVICE) or isinstance(value, DEVICE):
            self.store(site, self.binary(site, op, old, value), obj, index)
        else:
            changes.check(self.trace, obj, f"[…] {values.SIGNS[op]}= …")
            obj[index] = values.INPLACE[op](old, value)

    def set_attribute(self, site: tuple, value: Any, obj: Any, name: str) -> None:
        """`obj.name = value`, of an object that exists while the kernel is built, T.meta_class above all: a
        variable of the kernel there is stored to; else the attribute is what the value is now."""
        self.at(site)
        trace = self.trace
        if (lane := lanes.named(obj, name)) is not None:
            return self.store(site, value, obj, lane)
        if isinstance(obj, (*DEVICE, Loop)):
            raise self.error(
                "attributes of the kernel's values cannot be assigned; use a name, or an element of a buffer",
                site,
            )
        old = getattr(obj, name, None)
        fresh = _is_var(value) and value.id not in trace.owned
        if _is_var(old) and not fresh:
            self.builder.store(old, (), as_value(value))
            trace.wrote(old)
            return
        if changes.is_older(trace, obj):
            raise self.error(
                f"the attribute {name} changes in a loop or branch that the device runs, but it "
                "is a Python value, set once while the kernel is built: make it a variable "
                f"before, {name} = T.alloc_var(dtype, init)",
                site,
            )
        if fresh:
            trace.owned.add(value.id)
        setattr(obj, name, value if fresh else self.settle(name, value))

    def augment_attribute(self, site: tuple, op: str, obj: Any, name: str, value: Any) -> None:
        """`obj.name op= value`"""
        old = getattr(obj, name)
        device = isinstance(old, DEVICE) or isinstance(value, DEVICE)
        new = self.binary(site, op, old, value) if device else values.INPLACE[op](old, value)
        self.set_attribute(site, new, obj, name)
