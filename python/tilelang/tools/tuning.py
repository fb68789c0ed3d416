"""What a tuner measures, and what it has found so far.  Each configuration is compiled, checked and timed
within a limit of time; one that fails is left out, with its reason."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..front.errors import caller_place, compile_error
from .supply import TensorSupplyType

logger = logging.getLogger("tilelang")
_inputs = threading.local()


@contextlib.contextmanager
def set_autotune_inputs(*tensors: Any) -> Iterator[None]:
    """Within this context kernels are tuned on these tensors: `with set_autotune_inputs(a, b): …`."""
    before = get_autotune_inputs()
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    _inputs.tensors = list(given)
    try:
        yield
    finally:
        _inputs.tensors = before


def get_autotune_inputs() -> list[Any] | None:
    """The tensors of the innermost set_autotune_inputs; None outside of one."""
    return getattr(_inputs, "tensors", None)


@dataclass
class AutotuneResult:
    """The best configuration: its time in milliseconds, its kernel, and what became of the others."""

    latency: float | None = None
    config: dict[str, Any] | None = None
    ref_latency: float | None = None
    libcode: str | None = None
    func: Any = None
    kernel: Any = None
    failures: list[tuple[dict[str, Any], str]] = field(default_factory=list)


@dataclass
class ProfileArgs:
    """How a configuration is measured and checked; see autotune."""

    warmup: float = 25
    rep: float = 100
    timeout: float = 30
    backend: str = "event"
    supply_type: TensorSupplyType = TensorSupplyType.Auto
    ref_prog: Callable | None = None
    supply_prog: Callable | None = None
    rtol: float = 1e-2
    atol: float = 1e-2
    max_mismatched_ratio: float = 0.01
    skip_check: bool = False
    manual_check_prog: Callable | None = None
    cache_input_tensors: bool = True
    early_stop: bool = False
    early_stop_factor: float = 2.0


class _Scalars(Exception):
    """Nobody has said what the scalars of a kernel are."""


class Tuning:
    """What has been found so far; configurations are given to it one after another."""

    def __init__(self, settings: ProfileArgs, inputs: Sequence[Any] | None) -> None:
        self.settings = settings
        self.inputs = list(inputs) if inputs is not None else get_autotune_inputs()
        self.best: tuple[float, dict[str, Any], Any] | None = None
        self.failures: list[tuple[dict[str, Any], str]] = []
        self.ref_latency: float | None = None

    def consider(self, config: dict[str, Any], make: Callable[[], Any]) -> None:
        try:
            latency, kernel = _within(self.settings.timeout, lambda: self.measure(make()))
        except _Scalars as error:
            raise compile_error(str(error), caller_place()) from None
        except Exception as error:
            reason = f"{type(error).__name__}: {str(error).strip()}"
            self.failures.append((config, reason))
            logger.info("autotune: %s is left out: %s", config, reason)
            return
        logger.debug("autotune: %s takes %.4f ms", config, latency)
        if self.best is None or latency < self.best[0]:
            self.best = (latency, config, kernel)

    def measure(self, kernel: Any) -> tuple[float, Any]:
        s = self.settings
        profiler = kernel.get_profiler(tensor_supply_type=s.supply_type)
        inputs = self.inputs
        if inputs is None:
            known = kernel.prim_func.defaults
            scalars = [repr(p) for p in kernel.params if not p.is_tensor and p.name not in known]
            if scalars and not s.supply_prog:
                raise _Scalars(
                    f"autotune: {kernel.prim_func.name} takes {', '.join(scalars)}, a number that "
                    "is only known when it is called, and how long it runs may depend on it; give "
                    "supply_prog=, a function (params) -> inputs, or tune within "
                    "tilelang.set_autotune_inputs(…)"
                )
            inputs = s.supply_prog(kernel.params) if s.supply_prog else profiler.inputs()
            self.inputs = inputs if s.cache_input_tensors else None
        if s.ref_prog is not None and not s.skip_check:
            if s.manual_check_prog:
                profiler.manual_assert_close(s.ref_prog, inputs, s.manual_check_prog)
            else:
                profiler.assert_allclose(s.ref_prog, inputs, s.atol, s.rtol, s.max_mismatched_ratio)
        if s.ref_prog is not None and self.ref_latency is None:
            self.ref_latency = profiler.do_bench(s.ref_prog, s.warmup, s.rep, input_tensors=inputs)
        limit = self.best[0] * s.early_stop_factor if s.early_stop and self.best else None
        return profiler.do_bench(
            None, s.warmup, s.rep, input_tensors=inputs, backend=s.backend, early_stop_baseline=limit
        ), kernel

    def result(self) -> AutotuneResult:
        if self.best is None:
            reasons = "\n".join(f"  {config}: {reason}" for config, reason in self.failures)
            raise RuntimeError(f"autotune: none of the {len(self.failures)} configurations works:\n{reasons}")
        if self.failures:
            logger.warning(
                "autotune: %d configurations were left out; the first: %s: %s",
                len(self.failures),
                *self.failures[0],
            )
        latency, config, kernel = self.best
        kernel.update_tuner_result(latency, config, self.ref_latency)
        return AutotuneResult(
            latency, config, self.ref_latency, kernel.kernel_source, kernel.prim_func, kernel, self.failures
        )


def _within(seconds: float, work: Callable[[], Any]) -> Any:
    """The result of `work`, or TimeoutError; a thread that does not end is left behind."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.extend((True, work()))
        except BaseException as error:
            outcome.extend((False, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise TimeoutError(f"not done within {seconds} s")
    if outcome[0]:
        return outcome[1]
    raise outcome[1]


@contextlib.contextmanager
def progress(total: int) -> Iterator[Callable[[Tuning], None]]:
    """A live line on a terminal, by tqdm."""
    from tqdm import tqdm

    with tqdm(total=total, desc="autotune", unit="config", disable=not sys.stderr.isatty()) as bar:

        def show(tuning: Tuning) -> None:
            best = f"best {tuning.best[0]:.4f} ms" if tuning.best else "none works yet"
            bar.set_postfix_str(best + (f", {len(tuning.failures)} failed" if tuning.failures else ""))
            bar.update()

        yield show
