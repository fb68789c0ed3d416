"""Attributes of objects that exist while a kernel is built, T.meta_class above all: `obj.name = value`."""

from __future__ import annotations

from typing import Any

from . import changes
from ._core import Buffer
from .activation import Activation
from .trace import Loop
from .values import DEVICE, as_value


def _is_var(value: Any) -> bool:
    return value.__class__ is Buffer and value.scope == "var"


def set_attribute(activation: Activation, site: tuple, value: Any, obj: Any, name: str) -> None:
    """Store to the attribute if it is a variable of the kernel; else set it, as Python does, to what the
    value is now.
    """
    trace = activation.trace
    if isinstance(obj, (*DEVICE, Loop)):
        raise activation.error("attributes of the kernel's values cannot be assigned; use a name, or an "
                               "element of a buffer", site)
    old = getattr(obj, name, None)
    fresh = _is_var(value) and value.id not in trace.owned
    if _is_var(old) and not fresh:
        activation.builder.store(old, (), as_value(value))
        trace.wrote(old)
        return
    if changes.is_older(trace, obj):
        raise activation.error(f"the attribute {name} changes in a loop or branch that the device runs, but "
                               "it is a Python value, set once while the kernel is built: make it a variable "
                               f"before, {name} = T.alloc_var(dtype, init)", site)
    if fresh:
        trace.owned.add(value.id)
    setattr(obj, name, value if fresh else activation.settle(name, value))
