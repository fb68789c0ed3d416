"""What a kernel returns."""

from __future__ import annotations

import warnings
from typing import Any

from .._core import Buffer
from .errors import TilelangWarning, compile_error
from .trace import Trace


class Results:
    """What a kernel returns: for each value the number of an output, or the name of a parameter."""

    __slots__ = ("items", "is_tuple", "outputs")

    def __init__(self, trace: Trace) -> None:
        given = trace.returns
        self.is_tuple = isinstance(given, (tuple, list))
        if given is None:
            warnings.warn_explicit(
                f"{trace.outputs[0].name} is made by T.empty, but nothing is returned: "
                f"write `return {trace.outputs[0].name}` at the end",
                TilelangWarning,
                trace.file,
                trace.site[0],
            )
        values = [] if given is None else list(given) if self.is_tuple else [given]
        made = {buffer.id: i for i, buffer in enumerate(trace.outputs)}
        self.items = [made.get(value.id, value.name) for value in values]
        returned = dict.fromkeys(item for item in self.items if isinstance(item, int))
        order = [*returned, *(i for i in made.values() if i not in returned)]
        # By name: the returned ones in the order of their return, then those that are not returned.
        self.outputs = [trace.outputs[i].name for i in order]
        self.items = [order.index(item) if isinstance(item, int) else item for item in self.items]

    @property
    def plain(self) -> bool:
        """Whether the kernel returns exactly its only output, as it is."""
        return not self.is_tuple and self.items == list(range(len(self.outputs))) and len(self.items) <= 1


def take_results(trace: Trace, value: Any, site: tuple) -> Any:
    """`return value` of a kernel."""
    for item in value if isinstance(value, (tuple, list)) else (value,):
        if item.__class__ is not Buffer or item.scope != "global":
            what = f"the {item.scope} tile {item.name}" if item.__class__ is Buffer else repr(item)
            raise compile_error(
                f"a kernel returns tensors made by T.empty, or its parameters, not {what}",
                (trace.file, *site),
            )
    trace.returns = value
    return value
