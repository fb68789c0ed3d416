"""`@tilelang.autotune`: the fastest of several configurations of a kernel.

The configurations are compiled and measured one after another, with a line that says how far it is; one that
fails is reported and left out.  What is found is kept for the process: the same call again costs nothing."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import itertools
import logging
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..front.errors import caller_place, compile_error, kind_of
from ..jit.captures import key_of
from ..jit.env import env
from ..jit.factory import BoundJIT
from ..jit.function import PrimFunc
from ..jit.kernel import compile
from ..jit.keys import Same
from .supply import TensorSupplyType

__all__ = ["AutoTuner", "AutotuneResult", "CompileArgs", "ProfileArgs", "autotune", "get_autotune_inputs",
           "set_autotune_inputs"]  # fmt: skip

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
class CompileArgs:
    """How the prim_func of a configuration is compiled; see tilelang.compile."""

    out_idx: Any = None
    execution_backend: Any = None
    target: Any = None
    target_host: Any = None
    verbose: bool | None = None
    pass_configs: dict | None = None


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


def expand(configs: Any, *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
    """Configurations as a list of dicts: from such a list, a dict of lists (every combination), or a function
    that gives either: of the kernel's arguments, of these as `(args, kwargs)`, or of nothing."""
    if callable(configs):
        configs = _asked(configs, args, kwargs)
    if isinstance(configs, Mapping):
        names = list(configs)
        return [dict(zip(names, values, strict=True)) for values in itertools.product(*configs.values())]
    return [dict(config) for config in configs]


def _asked(configs: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    """What the function of configurations answers, called as its parameters say."""
    try:
        signature = inspect.signature(configs)
    except ValueError:  # a builtin that does not tell its parameters
        return configs(*args, **kwargs)

    def takes(*given: Any, **named: Any) -> bool:
        try:
            signature.bind(*given, **named)
        except TypeError:
            return False
        return True

    names = [p.name for p in signature.parameters.values() if p.kind is not p.VAR_POSITIONAL]
    spread = takes(*args, **kwargs)
    if takes(args, kwargs) and (names[:2] == ["args", "kwargs"] or not spread):
        return configs(args, kwargs)
    return configs() if takes() and not spread else configs(*args, **kwargs)


class AutoTuner:
    """Tunes one function of configurations: `AutoTuner.from_kernel(kernel, configs).run()`.

    fn: a factory (@tilelang.jit, or a plain function that returns a prim_func), called with each
    configuration as keywords.  Calling the tuner runs it."""

    def __init__(self, fn: Callable[..., Any], configs: Any) -> None:
        self.fn, self.configs = fn, configs
        self.compile_args = CompileArgs()
        self.profile_args = ProfileArgs(timeout=180, cache_input_tensors=False)
        self.inputs: Sequence[Any] | None = None  # to run on; None: as profile_args say
        self._args: tuple = ()
        self._kwargs: dict[str, Any] = {}

    @classmethod
    def from_kernel(cls, kernel: Callable[..., Any], configs: Any) -> AutoTuner:
        """The tuner of that factory."""
        return cls(kernel, configs)

    def set_compile_args(
        self,
        out_idx: Any = None,
        target: Any = None,
        execution_backend: Any = None,
        target_host: Any = None,
        verbose: bool | None = None,
        pass_configs: dict | None = None,
    ) -> AutoTuner:
        """How a plain function's prim_func is compiled; see tilelang.compile."""
        self.compile_args = CompileArgs(
            out_idx, execution_backend, target, target_host, verbose, pass_configs
        )
        return self

    def set_profile_args(
        self,
        warmup: float = 25,
        rep: float = 100,
        timeout: float = 30,
        supply_type: TensorSupplyType = TensorSupplyType.Auto,
        ref_prog: Callable | None = None,
        supply_prog: Callable | None = None,
        rtol: float = 1e-2,
        atol: float = 1e-2,
        max_mismatched_ratio: float = 0.01,
        skip_check: bool = False,
        manual_check_prog: Callable | None = None,
        cache_input_tensors: bool = False,
        backend: str = "event",
        early_stop: bool = False,
        early_stop_factor: float = 2.0,
    ) -> AutoTuner:
        """How configurations are measured and checked; see autotune."""
        self.profile_args = ProfileArgs(
            warmup,
            rep,
            timeout,
            backend,
            supply_type,
            ref_prog,
            supply_prog,
            rtol,
            atol,
            max_mismatched_ratio,
            skip_check,
            manual_check_prog,
            cache_input_tensors,
            early_stop,
            early_stop_factor,
        )
        return self

    def set_kernel_parameters(self, k_parameters: tuple, f_parameters: Any = None) -> AutoTuner:
        """The arguments of the factory that are not tuned: k_parameters is (those by position, those by name
        as a dict or pairs).  f_parameters, the parameters of the factory, are known here without it."""
        self._args, self._kwargs = tuple(k_parameters[0]), dict(k_parameters[1])
        return self

    cache_dir = property(
        lambda self: Path(env.get_cache_dir(), "autotuner"),
        doc="Where files of the tuner would lie; results are kept for the process alone.",
    )

    def generate_cache_key(self, parameters: dict[str, Any], extra_parameters: Any = None) -> str | None:
        """A text that is the same for the same function, configurations, settings and parameters; None where
        the function has no text."""
        try:
            text = inspect.getsource(getattr(self.fn, "func", self.fn))
        except (OSError, TypeError):
            return None
        parts = (
            text,
            expand(self.configs, *self._args, **self._kwargs),
            self.compile_args,
            self.profile_args,
            parameters,
            extra_parameters,
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def run(
        self,
        warmup: float | None = None,
        rep: float | None = None,
        timeout: float | None = None,
        use_pipeline: bool = False,
        enable_grouped_compile: bool = False,
        group_compile_size: int = 2,
        benchmark_devices: Any = None,
        benchmark_multi_gpu: bool = False,
        early_stop: bool | None = None,
        early_stop_factor: float | None = None,
    ) -> AutotuneResult:
        """Compile, check and measure every configuration; the fastest.

        RuntimeError with every reason if none works.  What is given counts more than set_profile_args.
        Options on pipelines, groups and several devices are accepted and change nothing here."""
        given = {
            "warmup": warmup,
            "rep": rep,
            "timeout": timeout,
            "early_stop": early_stop,
            "early_stop_factor": early_stop_factor,
        }
        settings = replace(self.profile_args, **{k: v for k, v in given.items() if v is not None})
        configs = expand(self.configs, *self._args, **self._kwargs)
        if not configs:
            raise ValueError("autotune: there is no configuration to try")
        tuning = _Tuning(settings, self.inputs)
        with _progress(len(configs)) as show:
            for config in configs:
                tuning.consider(config, lambda config=config: self._kernel(config))
                show(tuning)
        return tuning.result()

    __call__ = run

    def _kernel(self, config: dict[str, Any]) -> Any:
        make = self.fn.compile if getattr(self.fn, "is_eager", False) else self.fn
        made = make(*self._args, **self._kwargs, **config)
        return compile(made, **vars(self.compile_args)) if isinstance(made, PrimFunc) else made


class _Scalars(Exception):
    """Nobody has said what the scalars of a kernel are."""


class _Tuning:
    """What has been found so far."""

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
def _progress(total: int) -> Iterator[Callable[[_Tuning], None]]:
    """A live line on a terminal, by tqdm."""
    from tqdm import tqdm

    with tqdm(total=total, desc="autotune", unit="config", disable=not sys.stderr.isatty()) as bar:

        def show(tuning: _Tuning) -> None:
            best = f"best {tuning.best[0]:.4f} ms" if tuning.best else "none works yet"
            bar.set_postfix_str(best + (f", {len(tuning.failures)} failed" if tuning.failures else ""))
            bar.update()

        yield show


class AutoTuneImpl:
    """A kernel factory that picks its own configuration; made by autotune."""

    said = "a @tilelang.autotune function"

    def __init__(
        self,
        jit_impl: Any,
        warmup: float = 25,
        rep: float = 100,
        timeout: float = 100,
        configs: Any = None,
        supply_type: TensorSupplyType = TensorSupplyType.Auto,
        ref_prog: Callable | None = None,
        supply_prog: Callable | None = None,
        rtol: float = 1e-2,
        atol: float = 1e-2,
        max_mismatched_ratio: float = 0.01,
        skip_check: bool = False,
        manual_check_prog: Callable | None = None,
        cache_input_tensors: bool = False,
        do_not_specialize: Any = None,
        early_stop: bool = False,
        early_stop_factor: float = 2.0,
    ) -> None:
        functools.update_wrapper(self, getattr(jit_impl, "func", jit_impl))
        self.jit_impl, self.configs, self.do_not_specialize = jit_impl, configs, do_not_specialize
        self.settings = ProfileArgs(
            warmup,
            rep,
            timeout,
            "event",
            supply_type,
            ref_prog,
            supply_prog,
            rtol,
            atol,
            max_mismatched_ratio,
            skip_check,
            manual_check_prog,
            cache_input_tensors,
            early_stop,
            early_stop_factor,
        )
        self._found: dict[Any, AutotuneResult] = {}
        self._signature = inspect.signature(getattr(jit_impl, "func", jit_impl))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else BoundJIT(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name in ("jit_impl", "settings"):  # not made yet
            raise AttributeError(name)
        return getattr(self.settings if hasattr(self.settings, name) else self.jit_impl, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As the kernel itself; where the caller gives a tunable, nothing is tuned."""
        if self._chosen(args, kwargs):
            return self.jit_impl(*args, **kwargs)
        config = self.tune(*args, **kwargs).config
        if getattr(self.jit_impl, "is_eager", False):
            return self.jit_impl(*args, **kwargs, **config)
        return self.tune(*args, **kwargs).kernel

    def compile(self, *args: Any, **kwargs: Any) -> Any:
        """The kernel of the best configuration."""
        if self._chosen(args, kwargs):
            return self.jit_impl.compile(*args, **kwargs)
        return self.tune(*args, **kwargs).kernel

    def tune(self, *args: Any, **kwargs: Any) -> AutotuneResult:
        """The result of tuning for these arguments, found the first time only."""
        key = self._key(args, kwargs)
        if key not in self._found:
            tuner = AutoTuner(self.jit_impl.compile, self.configs).set_kernel_parameters((args, kwargs))
            tuner.profile_args, tuner.inputs = self.settings, self._inputs_of(args, kwargs)
            self._found[key] = tuner.run()
        return self._found[key]

    def _inputs_of(self, args: tuple, kwargs: dict[str, Any]) -> list[Any] | None:
        """What an eager kernel is called with; None where no tensors are given."""
        impl = getattr(self.jit_impl, "impl", self.jit_impl)
        if not getattr(impl, "is_eager", False):
            return None
        named = {**impl._defaults, **dict(zip(impl._names, args, strict=False)), **kwargs}
        given = [named.get(impl._names[i]) for i in impl._runtime]
        return [x for x in given if x is not None] if any(hasattr(x, "shape") for x in given) else None

    def _chosen(self, args: tuple, kwargs: dict[str, Any]) -> bool:
        """Whether the caller gives a value to something that would be tuned."""
        given = {*list(self._signature.parameters)[: len(args)], *kwargs}
        return any(given & set(config) for config in expand(self.configs, *args, **kwargs)[:1])

    def _key(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        def part(value: Any) -> Any:
            if hasattr(value, "shape"):
                return (tuple(value.shape), str(value.dtype), str(getattr(value, "device", "cpu")))
            try:
                return key_of(value)
            except TypeError:
                return Same(object())  # tuned anew in each call

        return tuple(map(part, args)), tuple(sorted((name, part(value)) for name, value in kwargs.items()))


def autotune(
    func: Any = None,
    *,
    configs: Any,
    warmup: float = 25,
    rep: float = 100,
    timeout: float = 100,
    supply_type: TensorSupplyType = TensorSupplyType.Auto,
    ref_prog: Callable | None = None,
    supply_prog: Callable | None = None,
    rtol: float = 1e-2,
    atol: float = 1e-2,
    max_mismatched_ratio: float = 0.01,
    skip_check: bool = False,
    manual_check_prog: Callable | None = None,
    cache_input_tensors: bool = False,
    do_not_specialize: Any = None,
    early_stop: bool = False,
    early_stop_factor: float = 2.0,
) -> Any:
    """Decorate a @tilelang.jit function (this above that): it chooses the fastest of `configs` by itself.

    configs: a list of dicts of keyword arguments, a dict of lists (every combination is tried), or a function
    that gives either: of the kernel's arguments, of these as `(args, kwargs)`, or of nothing.  warmup, rep:
    milliseconds a configuration; timeout: seconds.
    Inputs are those of the call (eager), of set_autotune_inputs, of supply_prog(params), or random by
    supply_type.  ref_prog: each configuration is checked against it first (rtol, atol,
    max_mismatched_ratio, or manual_check_prog), unless skip_check.  early_stop: drop a configuration whose
    first runs take more than early_stop_factor times the best.  do_not_specialize is accepted and changes
    nothing.  The kernel carries .config, .latency and .ref_latency (milliseconds)."""

    def wrap(impl: Any) -> AutoTuneImpl:
        if not hasattr(impl, "compile"):
            raise TypeError(
                "@tilelang.autotune goes above @tilelang.jit: it decorates a compiled kernel's "
                f"factory, not {kind_of(impl)}"
            )
        return AutoTuneImpl(
            impl,
            warmup,
            rep,
            timeout,
            configs,
            supply_type,
            ref_prog,
            supply_prog,
            rtol,
            atol,
            max_mismatched_ratio,
            skip_check,
            manual_check_prog,
            cache_input_tensors,
            do_not_specialize,
            early_stop,
            early_stop_factor,
        )

    return wrap if func is None else wrap(func)
