"""`@tilelang.autotune`: the fastest of several configurations of a kernel.

The configurations are compiled and measured one after another, with a line that says how far it is; one that
fails is reported and left out.  What is found is kept for the process: the same call again costs nothing."""

from __future__ import annotations

import functools
import hashlib
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from ..front.errors import kind_of
from ..front.misuse import suggesting
from ..jit.captures import key_of
from ..jit.env import env
from ..jit.factory import BoundJIT
from ..jit.function import PrimFunc
from ..jit.kernel import compile
from ..jit.keys import Same
from .supply import TensorSupplyType
from .tuning import AutotuneResult, ProfileArgs, Tuning, get_autotune_inputs, progress, set_autotune_inputs

__all__ = ["AutoTuner", "AutotuneResult", "CompileArgs", "ProfileArgs", "autotune", "get_autotune_inputs",
           "set_autotune_inputs"]  # fmt: skip


@dataclass
class CompileArgs:
    """How the prim_func of a configuration is compiled; see tilelang.compile."""

    out_idx: Any = None
    execution_backend: Any = None
    target: Any = None
    target_host: Any = None
    verbose: bool | None = None
    pass_configs: dict | None = None


_CONFIGS = (
    'a list of dicts, [{"block_M": 64}, …], a dict of lists, {"block_M": [64, 128]}, or a function of one'
)


def expand(configs: Any, *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
    """Configurations as a list of dicts: from such a list, a dict of lists (every combination), or a function
    that gives either: of the kernel's arguments, of these as `(args, kwargs)`, or of nothing."""
    if callable(configs):
        configs = _asked(configs, args, kwargs)
    if isinstance(configs, Mapping):
        names = list(configs)
        for name, values in configs.items():
            if isinstance(values, str) or not isinstance(values, Iterable):
                raise TypeError(
                    f"autotune: configs[{name!r}] lists the values to try, [{values!r}]; not {values!r}"
                )
        return [dict(zip(names, values, strict=True)) for values in itertools.product(*configs.values())]
    if isinstance(configs, str) or not isinstance(configs, Iterable):
        raise TypeError(f"autotune: configs= is {_CONFIGS}; not {configs!r}")
    listed = list(configs)
    for config in listed:
        if not isinstance(config, Mapping):
            raise TypeError(f"autotune: configs= is {_CONFIGS}; among them is {config!r}")
    return [dict(config) for config in listed]


def _kept(configs: Any) -> Any:
    """Configurations that can be looked at more than once."""
    return list(configs) if isinstance(configs, Iterator) else configs


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


def _profile_args(given: Mapping[str, Any]) -> ProfileArgs:
    """The settings among the arguments of a function."""
    return ProfileArgs(
        **{field.name: given[field.name] for field in fields(ProfileArgs) if field.name in given}
    )


class AutoTuner:
    """Tunes one function of configurations: `AutoTuner.from_kernel(kernel, configs).run()`.

    fn: a factory (@tilelang.jit, or a plain function that returns a prim_func), called with each
    configuration as keywords.  Calling the tuner runs it."""

    def __init__(self, fn: Callable[..., Any], configs: Any) -> None:
        self.fn, self.configs = fn, _kept(configs)
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
        self.profile_args = _profile_args(locals())
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
        tuning = Tuning(settings, self.inputs)
        with progress(len(configs)) as show:
            for config in configs:
                tuning.consider(config, lambda config=config: self._kernel(config))
                show(tuning)
        return tuning.result()

    __call__ = run

    def _kernel(self, config: dict[str, Any]) -> Any:
        make = self.fn.compile if getattr(self.fn, "is_eager", False) else self.fn
        made = make(*self._args, **self._kwargs, **config)
        return compile(made, **vars(self.compile_args)) if isinstance(made, PrimFunc) else made


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
        given = locals()
        functools.update_wrapper(self, getattr(jit_impl, "func", jit_impl))
        self.jit_impl, self.do_not_specialize = jit_impl, do_not_specialize
        self.configs = _kept(configs)
        self.settings = _profile_args(given)
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


@suggesting
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

    settings = {name: value for name, value in locals().items() if name != "func"}

    def wrap(impl: Any) -> AutoTuneImpl:
        if not hasattr(impl, "compile"):
            raise TypeError(
                "@tilelang.autotune goes above @tilelang.jit: it decorates a compiled kernel's "
                f"factory, not {kind_of(impl)}"
            )
        return AutoTuneImpl(impl, **settings)

    return wrap if func is None else wrap(func)
