"""How long a kernel takes, and whether it is right: measured by events or a graph on a GPU, by the clock on a
CPU; compared with a program of the user's."""

from __future__ import annotations

import functools
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .._core import Launcher
from ..front.errors import TilelangWarning
from ..front.misuse import suggesting
from ..jit import config
from .compare import as_list, torch_assert_close
from .supply import TensorSupplyType, default_device, make_input

_MODES: dict[str, Callable] = {
    "mean": lambda times: sum(times) / len(times),
    "median": lambda times: _quantile(times, 0.5),
    "min": min,
    "max": max,
}


def _quantile(times: list[float], q: float) -> float:
    ordered = sorted(times)
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


@suggesting
def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    _n_warmup: int = 0,
    _n_repeat: int = 0,
    quantiles: Sequence[float] | None = None,
    fast_flush: bool = True,
    backend: str = "event",
    return_mode: str = "mean",
    device: Any = None,
    cache_size: int = 256,
    early_stop_baseline: float | None = None,
    flush_cache: bool | None = None,
) -> Any:
    """The time of one call of `fn`, in milliseconds.

    warmup, rep: milliseconds spent before and while measuring; _n_warmup, _n_repeat: calls instead of time.
    backend: "event" (CUDA events around each call), "cudagraph" (the call is captured and replayed, so that
    launching costs nothing), "cupti" (the kernels' own time, through torch.profiler), "wall" (the clock of
    the host, until the GPU is done); without a GPU the clock measures, whatever is asked.  quantiles: return
    these (one as a number, several as a list) instead of `return_mode`, which is "mean", "median", "min" or
    "max".  flush_cache: overwrite `cache_size` MiB before every call, so that it finds cold caches; where
    that is not said, on a GPU only.  early_stop_baseline: a first estimate above it is the answer."""
    if backend not in _BACKENDS:
        raise ValueError(f"do_bench: backend must be one of {', '.join(_BACKENDS)}, not '{backend}'")
    if quantiles is None and return_mode not in _MODES:
        raise ValueError(f"do_bench: return_mode must be one of {', '.join(_MODES)}, not '{return_mode}'")
    if config.script:
        return _answer([config.script.measure_once(fn)], quantiles, return_mode)
    torch = sys.modules.get("torch")
    on_gpu = device not in ("cpu",) and torch is not None and torch.cuda.is_available()
    flush = _flusher(torch, on_gpu, cache_size) if (on_gpu if flush_cache is None else flush_cache) else None
    measure: Callable = _clock
    if on_gpu:
        measure = functools.partial(_BACKENDS[backend], torch)
    fn()
    estimate = max((functools.partial(_events, torch) if on_gpu else _clock)(fn, None, 5)) or 1e-4
    if early_stop_baseline is not None and estimate > early_stop_baseline:
        return _answer([estimate], quantiles, return_mode)
    for _ in range(_n_warmup or max(1, int(warmup / estimate))):
        fn()
    return _answer(measure(fn, flush, _n_repeat or max(1, int(rep / estimate))), quantiles, return_mode)


def _answer(times: list[float], quantiles: Sequence[float] | None, return_mode: str) -> Any:
    if quantiles is None:
        return _MODES[return_mode](times)
    found = [_quantile(times, q) for q in quantiles]
    return found[0] if len(found) == 1 else found


def _flusher(torch: Any, on_gpu: bool, cache_size: int) -> Callable[[], Any]:
    if on_gpu:
        return torch.empty(cache_size << 18, dtype=torch.int32, device="cuda").zero_
    import numpy

    block = numpy.ones(cache_size << 17, numpy.float64)
    return lambda: block.fill(1.0)


def _clock(fn: Callable[[], Any], flush: Callable[[], Any] | None, n: int) -> list[float]:
    times = []
    for _ in range(n):
        if flush:
            flush()
        begin = time.perf_counter()
        fn()
        times.append((time.perf_counter() - begin) * 1e3)
    return times


def _wall(torch: Any, fn: Callable[[], Any], flush: Callable[[], Any] | None, n: int) -> list[float]:
    done = torch.cuda.synchronize
    return _clock(lambda: (fn(), done()), lambda: (flush and flush(), done()), n)


def _events(torch: Any, fn: Callable[[], Any], flush: Callable[[], Any] | None, n: int) -> list[float]:
    event = functools.partial(torch.cuda.Event, enable_timing=True)
    pairs = [(event(), event()) for _ in range(n)]
    for begin, end in pairs:
        if flush:
            flush()
        begin.record()
        fn()
        end.record()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) for begin, end in pairs]


def _graph(torch: Any, fn: Callable[[], Any], flush: Callable[[], Any] | None, n: int) -> list[float]:
    """Captures the call once and replays it."""
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        fn()
    return _events(torch, graph.replay, flush, n)


Span = tuple[float, float]  # from when to when the GPU did something, in microseconds


def _busy(spans: Iterable[Span]) -> float:
    """Milliseconds in which one of them or several were."""
    busy, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        busy += max(0.0, end - max(begin, until))
        until = max(until, end)
    return busy / 1e3


def _without(flush: Sequence[tuple[str, Span]], all_of: Sequence[tuple[str, Span]], n: int) -> float:
    """The milliseconds of one of n calls, each behind a flush: what was traced of one flush, and of all."""
    names = {name for name, _ in flush}
    rest = [span for name, span in all_of if name not in names]
    if len(all_of) - len(rest) == n * len(flush):
        return _busy(rest) / n
    return _busy(span for _, span in all_of) / n - _busy(span for _, span in flush)  # calls do the same, too


def _activity(torch: Any, fn: Callable[[], Any], flush: Callable[[], Any] | None, n: int) -> list[float]:
    """The time the GPU spends in what `fn` launches, without the flushes in front; the mean of n calls."""

    def traced(calls: int, *what: Callable[[], Any] | None) -> list[tuple[str, Span]]:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as trace:
            for _ in range(calls):
                for call in filter(None, what):
                    call()
            torch.cuda.synchronize()
        return [
            (event.name, (event.time_range.start, event.time_range.end))
            for event in trace.events()
            if event.device_type == torch.autograd.DeviceType.CUDA
        ]

    return [_without(traced(1, flush) if flush else [], traced(n, flush, fn), n)]


_BACKENDS = {"event": _events, "cudagraph": _graph, "cupti": _activity, "wall": _wall}


class Profiler:
    """Measures and checks one kernel on inputs of its own; `kernel.get_profiler()` makes it.

    params: of the kernel; result_idx: those of them that it returns; supply_type: what its inputs are;
    adapter: the kernel, a function of the inputs (with_default_adapter gives it later)."""

    def __init__(
        self,
        params: Sequence[Any],
        result_idx: Any = None,
        supply_type: TensorSupplyType | None = None,
        adapter: Any = None,
    ) -> None:
        if not isinstance(supply_type, TensorSupplyType | None):
            names = ", ".join(t.name for t in TensorSupplyType)
            raise TypeError(f"the inputs are one of TensorSupplyType ({names}), not {supply_type!r}")
        self.params, self.adapter = params, adapter
        self.result_idx = [] if result_idx is None else [i % len(params) for i in as_list(result_idx)]
        self.supply_type = supply_type or TensorSupplyType.Auto
        self.device_type = getattr(adapter, "device_type", None) or default_device()

    def inputs(self, extents: Mapping[str, int] | None = None) -> list[Any]:
        """New inputs: random tensors where the kernel's tensors live, and 1 for every scalar.

        extents: values of the extents that are known only when the kernel is called, by name."""
        return [
            make_input(self.supply_type, param, self.device_type, extents)
            for index, param in enumerate(self.params)
            if index not in self.result_idx
        ]

    def _get_inputs(self, with_output: bool = False) -> list[Any]:
        """`inputs`, as published scripts call it; with_output: tensors for the results as well."""
        if not with_output:
            return self.inputs()
        return [make_input(self.supply_type, param, self.device_type, None) for param in self.params]

    def with_default_adapter(self, adapter: Any) -> Profiler:
        """This profiler, of that kernel from here on."""
        self.adapter, self.device_type = adapter, getattr(adapter, "device_type", self.device_type)
        return self

    @property
    def func(self) -> Callable:
        """The kernel."""
        if self.adapter is None:
            raise ValueError(
                "this profiler has no kernel yet: Profiler(params, result_idx, supply_type, "
                "kernel), or .with_default_adapter(kernel)"
            )
        return self.adapter

    mod = func

    def run_once(self, func: Callable | None = None) -> Any:
        """Run the kernel, or `func`, once on new inputs; what it returns."""
        return (func or self.func)(*self.inputs())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel on these arguments."""
        return self.func(*args, **kwargs)

    def do_bench(
        self,
        func: Callable | None = None,
        warmup: float = 25,
        rep: float = 100,
        n_warmup: int = 0,
        n_repeat: int = 0,
        input_tensors: Sequence[Any] | None = None,
        backend: str = "event",
        quantiles: Sequence[float] | None = None,
        return_mode: str = "mean",
        dynamic_symbolic_constraints: Mapping[str, int] | None = None,
        device: Any = None,
        early_stop_baseline: float | None = None,
    ) -> Any:
        """The time of one run in milliseconds, as the function do_bench says; of `func(*inputs)` instead if
        given.

        The kernel's outputs are allocated once, before the measurement.  dynamic_symbolic_constraints: the
        values of extents that are known only when the kernel is called, by name."""
        inputs = self.inputs(dynamic_symbolic_constraints) if input_tensors is None else list(input_tensors)
        kernel = self.func if func is None else func
        run = lambda: kernel(*inputs)
        if isinstance(kernel, Launcher):
            if input_tensors is not None:
                inputs = kernel._bind(tuple(inputs), {})
            if kernel.target.startswith("sim:") and not config.script:
                return self._simulate_once(inputs, quantiles, return_mode)
            full = kernel.merge(inputs, kernel.allocate_outputs(inputs))
            run = lambda: kernel.launch(full)
        on_cpu = self.device_type == "cpu" and not any(getattr(a, "is_cuda", False) for a in inputs)
        return do_bench(
            run,
            warmup,
            rep,
            n_warmup,
            n_repeat,
            quantiles,
            backend=backend,
            return_mode=return_mode,
            device="cpu" if on_cpu else device,
            early_stop_baseline=early_stop_baseline,
        )

    def _simulate_once(self, inputs: list[Any], quantiles: Sequence[float] | None, return_mode: str) -> Any:
        """A simulated kernel has no time of its own: one run, and what it took here."""
        warnings.warn(
            f"{self.func.prim_func.name} is simulated ({self.func.target}): one run, whose time "
            "says nothing of a GPU's",
            TilelangWarning,
            stacklevel=3,
        )
        return _answer(_clock(lambda: self.func(*inputs), None, 1), quantiles, return_mode)

    # ── checks ────────────────────────────────────────────────────────────────────────────────────────
    def assert_allclose(
        self,
        reference_program: Callable,
        input_tensors: Sequence[Any] | None = None,
        atol: float = 1e-2,
        rtol: float = 1e-2,
        max_mismatched_ratio: float = 0.01,
    ) -> None:
        """AssertionError unless the kernel and `reference_program` agree on the same inputs.

        What is compared: what both return; of a kernel that returns nothing, all tensors that it was given,
        after it and the reference ran on copies of them (a reference that returns values is compared with
        the tensors that the kernel changed, in their order)."""
        compare = functools.partial(
            torch_assert_close,
            rtol=rtol,
            atol=atol,
            max_mismatched_ratio=max_mismatched_ratio,
            check_dtype=False,
            check_device=False,
            base_name="found",
            ref_name="expected",
        )
        self._check(reference_program, input_tensors, compare)

    def manual_assert_close(
        self,
        reference_program: Callable,
        input_tensors: Sequence[Any] | None = None,
        manual_check_prog: Callable | None = None,
    ) -> None:
        """As assert_allclose, but `manual_check_prog(found, expected)` says whether they agree, by raising;
        it gets lists of tensors."""
        if manual_check_prog is None:
            raise TypeError(
                "manual_assert_close: pass manual_check_prog=, a function of the tensors of the "
                "kernel and of the reference"
            )
        self._check(reference_program, input_tensors, None, manual_check_prog)

    def _check(
        self,
        reference: Callable,
        given: Sequence[Any] | None,
        compare: Callable | None,
        check_all: Callable | None = None,
    ) -> None:
        inputs = self.inputs() if given is None else list(given)
        mine, theirs = _copies(inputs), _copies(inputs)
        found, expected = as_list(self.func(*mine)), as_list(reference(*theirs))
        if not found:
            tensors = [i for i, x in enumerate(mine) if hasattr(x, "shape")]
            changed = [i for i in tensors if not _identical(mine[i], inputs[i])]
            found = [mine[i] for i in (changed if expected else tensors)]
            expected = expected or [theirs[i] for i in tensors]
        if len(found) != len(expected):
            raise AssertionError(f"the kernel gives {len(found)} tensors, the reference {len(expected)}")
        if check_all:
            check_all(found, expected)
            return
        for one, other in zip(found, expected, strict=True):
            compare(one, other)

    def assert_consistent(self, repeat: int = 10) -> None:
        """AssertionError unless `repeat` runs on the same inputs give the same bits."""
        inputs = self.inputs()
        results = []
        for _ in range(repeat):
            mine = _copies(inputs)
            results.append(as_list(self.func(*mine)) or [x for x in mine if hasattr(x, "shape")])
        for run, tensors in enumerate(results):
            for index, (one, first) in enumerate(zip(tensors, results[0], strict=True)):
                if not _identical(one, first):
                    raise AssertionError(
                        f"run {run} gives another tensor {index} than run 0, on the same inputs"
                    )


def _copies(inputs: Sequence[Any]) -> list[Any]:
    return [x.clone() if hasattr(x, "clone") else x.copy() if hasattr(x, "copy") else x for x in inputs]


def _identical(one: Any, other: Any) -> bool:
    import numpy

    if hasattr(one, "detach"):
        torch = sys.modules["torch"]
        return torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))
    one, other = (numpy.ascontiguousarray(x).view("u1") for x in (one, other))
    return numpy.array_equal(one, other)
