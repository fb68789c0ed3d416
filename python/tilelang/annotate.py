"""Facts and wishes of a kernel: assumptions, launch bounds, compile flags."""

from __future__ import annotations

from ._core import Buffer
from .trace import fail, in_kernel
from .values import as_value


def annotate_safe_value(safe_value_map: dict) -> None:
    """What a read outside a tensor gives instead of 0: `T.annotate_safe_value({A: -1.0})`.

    Numbers of the tensor's dtype, for all reads in the program: a padding that is not 0 (for max) comes
    with the copy.
    """
    trace = in_kernel("T.annotate_safe_value")
    if not isinstance(safe_value_map, dict):
        raise fail(f"T.annotate_safe_value takes a dict of tensors and values, not {safe_value_map!r}")
    for buffer, value in safe_value_map.items():
        if buffer.__class__ is not Buffer:
            raise fail(f"T.annotate_safe_value: {buffer!r} is not a tensor of this kernel")
        trace.builder.annotate_safe_value(buffer, as_value(value))


__all__: list[str] = ["annotate_safe_value"]
