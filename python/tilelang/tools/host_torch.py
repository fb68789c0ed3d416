"""PyTorch without its GPU, for scripts that are written for one: what they make with device="cuda" is made on
the host and called CUDA's, torch.cuda's own functions do nothing.  `python -m tilelang sim` turns it on where
PyTorch finds no GPU.

A tensor is known by its storage, which carries a mark: views of it, and what is computed from it, are on the
"GPU" as well; `.cpu()` gives a copy without the mark."""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
import threading
import time
import types
from collections.abc import Callable
from typing import Any

from .. import _core
from ..jit.kernel import resolve_target


def when_imported(do: Callable[[Any], None]) -> None:
    """Call do(torch) once PyTorch has been imported: now, or when the script does it."""
    if "torch" in sys.modules:
        do(sys.modules["torch"])
    else:
        sys.meta_path.insert(0, _Finder(do))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, do: Callable[[Any], None]) -> None:
        self.do = do

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                run(module)
                self.do(module)

            spec.loader.exec_module = exec_module
        return spec


def is_marked(value: Any) -> bool:
    """Whether a tensor counts as one on the GPU."""
    return getattr(value.untyped_storage(), "_called_cuda", False)


def mark(value: Any) -> Any:
    """Count a tensor, or every tensor in a list, tuple or dict, as on the GPU from here on; the value."""
    torch = sys.modules["torch"]
    if isinstance(value, torch.Tensor):
        if value.layout == torch.strided:
            value.untyped_storage()._called_cuda = True
    elif isinstance(value, (list, tuple)):
        for item in value:
            mark(item)
    elif isinstance(value, dict):
        mark(list(value.values()))
    return value


def install(torch: Any) -> None:
    """Turn it on for this process and all of its threads, unless PyTorch has a GPU."""
    if torch.cuda.is_available():
        return
    os.environ["TORCH_COMPILE_DISABLE"] = "1"  # torch._dynamo would trace into the mode
    mode = _mode_class(torch)
    _replace_functions(torch)
    mode().__enter__()
    start = threading.Thread.start

    def start_in_mode(thread: threading.Thread) -> None:
        run = thread.run

        def run_in_mode() -> None:
            with mode():
                run()

        thread.run = run_in_mode
        start(thread)

    threading.Thread.start = start_in_mode


def _mode_class(torch: Any) -> type:
    from torch.overrides import TorchFunctionMode
    from torch.utils import _device

    tensor = torch.Tensor
    makers = _device._device_constructors()
    answers = {
        tensor.device.__get__: lambda: torch.device("cuda", 0),
        tensor.is_cuda.__get__: lambda: True,
        tensor.is_cpu.__get__: lambda: False,
        tensor.get_device: lambda: 0,
    }

    def means_gpu(value: Any) -> bool:
        return (isinstance(value, torch.device) and value.type == "cuda") or (
            isinstance(value, str) and value.split(":")[0] == "cuda"
        )

    def devices(func: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, str]:
        """The arguments with "cpu" for "cuda"; and where the result is asked for: "cuda", "cpu" or ""."""
        wanted, changed = "", list(args)
        for i, value in enumerate(args):
            if isinstance(value, torch.device) or (func is tensor.to and i and isinstance(value, str)):
                wanted = "cuda" if means_gpu(value) else "cpu"
                changed[i] = "cpu" if isinstance(value, str) else torch.device("cpu")
        given = kwargs.get("device")
        if given is None and func in makers and means_gpu(_device.CURRENT_DEVICE):
            given = "cuda"
        if given is not None:
            gpu = means_gpu(given) or (isinstance(given, int) and not isinstance(given, bool))
            wanted, kwargs["device"] = ("cuda", "cpu") if gpu else ("cpu", given)
        return tuple(changed), wanted

    class HostMode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
            kwargs = dict(kwargs or {})
            first = args[0] if args and isinstance(args[0], tensor) else None
            if func in answers:
                return answers[func]() if first is not None and is_marked(first) else func(*args, **kwargs)
            if func is torch.device:  # a name, no tensor
                return func(*args, **kwargs)
            if func is tensor.cuda:
                return first if is_marked(first) else mark(first.clone())
            if func is tensor.cpu:
                return first.clone() if is_marked(first) else first
            if func is tensor.pin_memory:
                return first
            kwargs.pop("pin_memory", None)
            args, wanted = devices(func, args, kwargs)
            result = func(*args, **kwargs)
            if func is tensor.to:
                there = wanted == "cuda" or (not wanted and is_marked(first))
                if is_marked(first) != there and result.untyped_storage() is first.untyped_storage():
                    result = result.clone()
                return mark(result) if there else result
            if (
                wanted == "cuda"
                or (not wanted and _has_marked(args, tensor))
                or (not wanted and _has_marked(tuple(kwargs.values()), tensor))
            ):
                mark(result)
            return result

    return HostMode


def _has_marked(values: Any, tensor: type) -> bool:
    for value in values:
        if isinstance(value, tensor):
            if value.layout is sys.modules["torch"].strided and is_marked(value):
                return True
        elif isinstance(value, (list, tuple)) and _has_marked(value, tensor):
            return True
    return False


class _Stream:
    """A stream: everything has been done when a call returns."""

    cuda_stream = 0
    device_index = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def query(self) -> bool:
        return True

    wait_stream = wait_event = lambda self, other: None

    def record_event(self, event: Any = None) -> Any:
        event = event or _Event()
        event.record()
        return event


class _Event(_Stream):
    """A moment of the host's clock."""

    def record(self, stream: Any = None) -> None:
        self.at = time.perf_counter()

    def wait(self, stream: Any = None) -> None:
        pass

    def elapsed_time(self, end: _Event) -> float:
        return (end.at - self.at) * 1e3


class _Context:
    """A choice of device or stream, for as long as a `with` lasts: there is nothing to choose."""

    def __init__(self, *args: Any) -> None:
        pass

    def __enter__(self) -> None:
        return None

    def __exit__(self, *args: object) -> None:
        pass


def _replace_functions(torch: Any) -> None:
    cuda, stream = torch.cuda, _Stream()

    def answer(names: str, value: Callable[..., Any]) -> None:
        """Each by a function of its own: PyTorch's own tables (torch._dynamo's) tell functions apart."""
        for name in names.split():

            def instead(*args: Any, **kwargs: Any) -> Any:
                return value(*args, **kwargs)

            instead.__name__ = instead.__qualname__ = name
            instead.__module__ = cuda.__name__
            setattr(cuda, name, instead)

    answer(
        """synchronize empty_cache set_device init manual_seed manual_seed_all set_stream
        reset_peak_memory_stats ipc_collect set_sync_debug_mode""",
        lambda *args, **kwargs: None,
    )
    answer(
        "memory_allocated max_memory_allocated memory_reserved max_memory_reserved current_device",
        lambda *args, **kwargs: 0,
    )
    answer("is_available is_initialized is_bf16_supported", lambda *args, **kwargs: True)
    random = torch.default_generator  # of all that is made on the host
    answer("get_rng_state", lambda *args, **kwargs: random.get_state())
    answer("get_rng_state_all", lambda: [random.get_state()])
    answer("set_rng_state", lambda state, *args, **kwargs: random.set_state(state))
    answer("set_rng_state_all", lambda states: random.set_state(states[0]))
    answer("device_count", lambda: 1)
    answer("get_device_name", lambda *args: "simulated GPU")
    answer("get_device_capability", lambda *args: divmod(_chip()["capability"], 10))
    answer("get_device_properties", lambda *args: _properties())
    answer("mem_get_info", lambda *args: (_MEMORY, _MEMORY))
    answer("current_stream default_stream", lambda *args: stream)
    for name in ("device", "device_of", "StreamContext"):
        setattr(cuda, name, type(name, (_Context,), {}))
    answer("stream", lambda *args: cuda.StreamContext(*args))
    cuda.Event, cuda.Stream = _Event, _Stream
    torch._C._cuda_getCurrentRawStream = lambda *args: 0
    made = torch.Generator

    class Generator(made):
        def __new__(cls, device: Any = "cpu") -> Any:
            return made("cpu")

    torch.Generator = Generator


_MEMORY = 80 << 30


def _properties() -> types.SimpleNamespace:
    chip = _chip()
    return types.SimpleNamespace(
        name="simulated GPU",
        major=chip["capability"] // 10,
        minor=chip["capability"] % 10,
        multi_processor_count=chip["multiprocessors"]["count"],
        warp_size=chip["warp"],
        total_memory=_MEMORY,
    )


def _chip() -> dict[str, Any]:
    """What there is to say of the chip that kernels are simulated for."""
    return _core.target_info(resolve_target("auto"))
