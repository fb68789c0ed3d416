"""Arrays of other libraries, where the launch path (bindings/launcher.cpp) asks Python: new arrays of
libraries without an allocator in C, and current streams.  Nothing is imported that the user has not imported.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from .dtypes import DType


def library_of(value: Any) -> str:
    """The top package of an object's type: "torch", "numpy", "cupy", "jax"; of jaxlib's types "jax"."""
    for base in type(value).__mro__:
        top = base.__module__.partition(".")[0]
        if top in ("torch", "numpy", "cupy", "jax", "jaxlib"):
            return top.removesuffix("lib")
    return ""


def is_tensor(value: Any) -> bool:
    """Whether an argument is an array, not a number."""
    return hasattr(value, "__dlpack__") or hasattr(value, "__array_interface__")


def is_array(value: Any) -> bool:
    """Whether a value is an array that has dimensions, so no number."""
    return not isinstance(value, type) and is_tensor(value) and getattr(value, "ndim", 0) > 0


def shape_of(tensor: Any) -> Sequence[int]:
    """The extents of an array of any library."""
    return tensor.shape


def strides_of(tensor: Any) -> Sequence[int]:
    """The strides of an array of any library, in elements."""
    if library_of(tensor) == "torch":
        return tensor.stride()
    strides = getattr(tensor, "strides", None)
    if strides is not None:
        return [step // tensor.itemsize for step in strides]
    steps = [1]
    for extent in reversed(tensor.shape[1:]):
        steps.insert(0, steps[0] * extent)
    return steps[len(steps) - len(tensor.shape) :]


def what_else(tensor: Any) -> str:
    """What a tensor is that is no rectangle of numbers in memory, and what to pass instead; "" for others."""
    layout, device = str(getattr(tensor, "layout", "")), getattr(tensor, "device", "")
    for what, asked in (
        (
            "a nested tensor, whose parts have shapes of their own: pass these, or x.to_padded_tensor(value)",
            getattr(tensor, "is_nested", False),
        ),
        (
            "a quantized tensor: pass x.int_repr(), its integers, or x.dequantize()",
            getattr(tensor, "is_quantized", False),
        ),
        (f"a tensor of layout {layout}: pass x.to_dense()", layout not in ("", "torch.strided")),
        (f"a tensor on the device '{device}', which has no elements", getattr(device, "type", "") == "meta"),
    ):
        if asked:
            return what
    return ""


def why_not_lent(tensor: Any, said: str) -> str:
    """What a tensor is that PyTorch does not lend the memory of; `said`: its words."""
    first = said.partition("\n")[0]
    return what_else(tensor) or f"a {type(tensor).__name__}, whose memory PyTorch does not export ({first})"


def device_kind(args: Sequence[Any]) -> str | None:
    """Where the first array among the arguments lives, "cuda" or "cpu"; None if there is no array."""
    for arg in args:
        on_cuda = getattr(arg, "is_cuda", None)
        if on_cuda is not None:
            return "cuda" if on_cuda else "cpu"
        if hasattr(arg, "__array_interface__"):
            return "cpu"
        if hasattr(arg, "__dlpack_device__"):
            return "cuda" if arg.__dlpack_device__()[0] in (2, 13) else "cpu"
    return None


def empty_like(model: Any, device_type: str, shape: tuple[int, ...], dtype: DType) -> Any:
    """A new array of the library and device of `model`; without one, of NumPy for the CPU, of PyTorch for
    CUDA."""
    library = library_of(model)
    if library == "torch":
        return sys.modules["torch"].empty(shape, dtype=dtype.as_torch(), device=model.device)
    if library == "cupy":
        with model.device:
            return sys.modules["cupy"].empty(shape, dtype.as_numpy())
    if library == "jax":
        return _jax_empty(model, shape, dtype)
    if device_type == "cpu":
        if model is None or library == "numpy" or hasattr(model, "__array_interface__") or _is_buffer(model):
            import numpy

            return numpy.empty(shape, dtype.as_numpy())
        raise TypeError(
            "outputs cannot be allocated like a "
            f"{type(model).__module__}.{type(model).__name__}: compile without out_idx and pass "
            "them, or use NumPy, PyTorch or JAX"
        )
    torch = sys.modules.get("torch")
    if model is None and torch is not None:
        return torch.empty(shape, dtype=dtype.as_torch(), device="cuda")
    raise TypeError(
        "outputs of a CUDA kernel are PyTorch tensors: pass the inputs as tensors on the GPU (or "
        'compile with target="cpu" for NumPy arrays)'
    )


def _is_buffer(value: Any) -> bool:
    try:
        memoryview(value)
    except TypeError:
        return False
    return True


def _jax_empty(model: Any, shape: tuple[int, ...], dtype: DType) -> Any:
    """A new array of JAX.  Its arrays never change once others may see them; this one nobody sees yet."""
    jax = sys.modules["jax"]
    device = next(iter(model.devices()))
    with jax.default_device(device):
        return jax.numpy.empty(shape, dtype.as_numpy()).block_until_ready()


def current_stream(args: Sequence[Any]) -> int:
    """The current stream of the library of the first GPU array (PyTorch or CuPy); else 0, the default one."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    for arg in args:
        library = library_of(arg)
        if library == "torch" and arg.is_cuda:
            return torch._C._cuda_getCurrentRawStream(arg.device.index)
        if library == "cupy" and hasattr(arg, "device"):
            with arg.device:
                return cupy.cuda.get_current_stream().ptr
    if torch is not None and torch.cuda.is_initialized():
        return torch.cuda.current_stream().cuda_stream
    return 0
