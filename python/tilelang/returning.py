"""A compiled kernel whose body says what it returns: tensors made by T.empty, or its own parameters."""

from __future__ import annotations

import functools
from typing import Any

from . import _core
from .function import PrimFunc
from .kernel import JITKernel


class ReturningKernel(JITKernel):
    """A JITKernel that returns what its body returns: one tensor as it is, several as a tuple.

    Tensors that the body makes and does not return live for the time of a call.
    """

    def __init__(self, func: PrimFunc, compiled: _core.Kernel) -> None:
        names = [row["name"] for row in compiled.params]
        results = func.results
        super().__init__(func, compiled, [names.index(name) for name in results.outputs] if results else None)
        self._results = results
        self._order = func.call_order
        self._named = {names[j]: i for i, j in enumerate(self._inputs)}

    def _bind(self, args: tuple, kwargs: dict[str, Any]) -> tuple:
        """Those by position stand in the order of the definition, which may not be that of the parameters."""
        if self._order is not None and args:
            kwargs = {**dict(zip(self._order, args, strict=False)), **kwargs}
            args = args[len(self._order) :]
        return super()._bind(args, kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs or self._order is not None or len(args) != len(self._inputs):
            args = self._bind(args, kwargs)
        return self._results_of(args, self._run(args))

    def _run(self, args: tuple) -> list[Any]:
        """Run on these inputs; the outputs."""
        outputs = self.allocate_outputs(args) if self._outputs else []
        self.launch(self.merge(args, outputs))
        return outputs

    def _results_of(self, args: tuple, outputs: list[Any]) -> Any:
        if self._results is None:
            return None
        made = [outputs[item] if isinstance(item, int) else args[self._named[item]]
                for item in self._results.items]
        return tuple(made) if self._results.is_tuple else made[0] if made else None


@functools.cache
def simulated_class() -> type:
    """The same for "sim:CHIP"."""
    from .simulation import Simulating

    return type("SimulatedReturningKernel", (Simulating, ReturningKernel), {})
