"""How long a kernel takes: by CUDA events through PyTorch on a GPU, by the clock on a CPU."""

from __future__ import annotations

import enum
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from ._core import DType


class TensorSupplyType(enum.Enum):
    """What a Profiler puts into its inputs."""

    Integer = 1
    Uniform = 2
    Normal = 3
    Randn = 4
    Zero = 5
    One = 6
    Auto = 7


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
    quantiles: return these (one as a number, several as a list) instead of `return_mode`, which is "mean",
    "median", "min" or "max".  flush_cache: overwrite `cache_size` MiB before every call, so that it finds
    cold caches; by default on a GPU only.  With PyTorch and a GPU, events on the current stream measure; else
    the clock does.
    """
    if backend != "event":
        raise NotImplementedError(f"do_bench: backend='{backend}' is not in this version yet; use 'event'")
    if early_stop_baseline is not None:
        raise NotImplementedError("do_bench: early_stop_baseline is not in this version yet")
    if quantiles is None and return_mode not in _MODES:
        raise ValueError(f"do_bench: return_mode must be one of {', '.join(_MODES)}, not '{return_mode}'")
    torch = sys.modules.get("torch")
    on_gpu = device not in ("cpu",) and torch is not None and torch.cuda.is_available()
    flush = _flusher(torch, on_gpu, cache_size) if (on_gpu if flush_cache is None else flush_cache) else None
    measure = _events(torch) if on_gpu else _clock
    fn()
    estimate = max(measure(fn, None, 5)) or 1e-4
    measure(fn, None, _n_warmup or max(1, int(warmup / estimate)))
    times = measure(fn, flush, _n_repeat or max(1, int(rep / estimate)))
    if quantiles is not None:
        found = [_quantile(times, q) for q in quantiles]
        return found[0] if len(found) == 1 else found
    return _MODES[return_mode](times)


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


def _events(torch: Any) -> Callable:
    def measure(fn: Callable[[], Any], flush: Callable[[], Any] | None, n: int) -> list[float]:
        pairs = [
            (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(n)
        ]
        for begin, end in pairs:
            if flush:
                flush()
            begin.record()
            fn()
            end.record()
        torch.cuda.synchronize()
        return [begin.elapsed_time(end) for begin, end in pairs]

    return measure


class Profiler:
    """Measures one kernel on inputs of its own; `kernel.get_profiler()` makes it."""

    def __init__(self, kernel: Any, tensor_supply_type: TensorSupplyType | None = None) -> None:
        self.func = self.kernel = kernel
        self.params = kernel.params
        self.supply = tensor_supply_type or TensorSupplyType.Auto

    def inputs(self) -> list[Any]:
        """New inputs: random tensors where the kernel's tensors live, and 1 for every scalar."""
        made = []
        for index, param in enumerate(self.params):
            if index in self.kernel.out_idx:
                continue
            if not param.is_tensor:
                made.append(1.0 if param.dtype.is_float else 1)
            elif not all(isinstance(n, int) for n in param.shape):
                raise ValueError(f"the shape of {param!r} is not constant: pass input_tensors")
            else:
                made.append(_supply(self.supply, param.shape, param.dtype, self.kernel.device_type))
        return made

    def do_bench(self, func: Callable | None = None, warmup: float = 25, rep: float = 100, n_warmup: int = 0,
                 n_repeat: int = 0, input_tensors: Sequence[Any] | None = None, backend: str = "event",
                 quantiles: Sequence[float] | None = None, return_mode: str = "mean",
                 dynamic_symbolic_constraints: Any = None, device: Any = None,
                 early_stop_baseline: float | None = None) -> Any:
        """The time of one run in milliseconds, as the function do_bench says; of `func(*inputs)` instead if
        given.

        The kernel's outputs are allocated once, before the measurement.
        """
        if dynamic_symbolic_constraints is not None:
            raise NotImplementedError("do_bench: dynamic_symbolic_constraints is not in this version yet")
        args = list(input_tensors) if input_tensors is not None else self.inputs()
        if func is None:
            full = self.kernel.merge(args, self.kernel.allocate_outputs(args))
            run = lambda: self.kernel.launch(full)
        else:
            run = lambda: func(*args)
        on_cpu = self.kernel.device_type == "cpu" and not any(getattr(a, "is_cuda", False) for a in args)
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

    def __getattr__(self, name: str) -> Any:
        if name in ("assert_allclose", "manual_assert_close", "assert_consistent", "run_once"):
            raise NotImplementedError(f"Profiler.{name}: not in this version yet; here "
                                      "there is do_bench")
        raise AttributeError(f"Profiler has no attribute '{name}'")


def _supply(kind: TensorSupplyType, shape: tuple[int, ...], dtype: DType, device_type: str) -> Any:
    import numpy

    rng = numpy.random.default_rng()
    if kind is TensorSupplyType.Zero or kind is TensorSupplyType.One:
        array = numpy.full(shape, kind is TensorSupplyType.One)
    elif kind is TensorSupplyType.Integer or (kind is TensorSupplyType.Auto and not dtype.is_float):
        low, high = (0, 2) if dtype.name == "bool" else (0, 5) if dtype.name.startswith("u") else (-2, 3)
        array = rng.integers(low, high, shape)
    elif kind is TensorSupplyType.Uniform:
        array = rng.random(shape, numpy.float32) * 2 - 1
    else:
        array = rng.standard_normal(shape, numpy.float32)
    array = array.astype(dtype.as_numpy())
    if device_type == "cpu":
        return array
    torch = sys.modules.get("torch")
    if torch is None:
        raise RuntimeError("inputs of a CUDA kernel are PyTorch tensors: import torch first, or pass "
                           "input_tensors")
    if dtype.name == "bf16":
        return torch.from_numpy(array.view(numpy.int16)).cuda().view(torch.bfloat16)
    return torch.from_numpy(array).cuda()
