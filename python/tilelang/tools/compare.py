"""Whether two arrays are equal enough: the comparison that Profiler and tilelang.testing use."""

from __future__ import annotations

from typing import Any


def as_numpy(value: Any) -> Any:
    """An array of NumPy, PyTorch or anything with `__array__`, in float64 or its own integers."""
    import numpy

    if hasattr(value, "detach"):  # a PyTorch tensor; 8- and 16-bit floats have no NumPy type of their own
        value = value.detach().cpu()
        value = value.double() if value.is_floating_point() else value
        value = value.numpy()
    array = numpy.asarray(value)
    return array.astype(numpy.float64) if array.dtype.kind in "fV" else array


def torch_assert_close(
    tensor_a: Any,
    tensor_b: Any,
    rtol: float = 1e-2,
    atol: float = 1e-3,
    max_mismatched_ratio: float = 0.001,
    verbose: bool = False,
    equal_nan: bool = True,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    base_name: str = "LHS",
    ref_name: str = "RHS",
) -> None:
    """AssertionError unless |a - b| <= atol + rtol * |b| but for a share `max_mismatched_ratio` of elements.

    tensor_a: found; tensor_b: expected; of one shape, of NumPy or PyTorch.  check_dtype compares the dtypes
    of two PyTorch tensors.  The message names the count, the greatest difference and where it is."""
    import numpy

    types = [getattr(x, "dtype", None) for x in (tensor_a, tensor_b)]
    both_torch = all(hasattr(x, "detach") for x in (tensor_a, tensor_b))
    if check_dtype and both_torch and types[0] != types[1]:
        raise AssertionError(f"{base_name} is {types[0]}, {ref_name} is {types[1]}")
    if check_device and both_torch and tensor_a.device != tensor_b.device:
        raise AssertionError(f"{base_name} is on {tensor_a.device}, {ref_name} on {tensor_b.device}")
    a, b = as_numpy(tensor_a), as_numpy(tensor_b)
    if a.shape != b.shape:
        raise AssertionError(f"{base_name} has the shape {a.shape}, {ref_name} {b.shape}")
    close = numpy.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)
    wrong = int(close.size - numpy.count_nonzero(close))
    if verbose:
        print(f"{wrong} of {close.size} elements differ")
    if wrong <= max_mismatched_ratio * close.size:
        return
    with numpy.errstate(invalid="ignore"):
        off = numpy.where(close, -1, numpy.nan_to_num(numpy.abs(a.astype(float) - b), nan=numpy.inf))
    at = tuple(int(i) for i in numpy.unravel_index(int(numpy.argmax(off)), off.shape))
    raise AssertionError(
        f"{wrong} of {close.size} elements differ by more than {atol} + {rtol} * "
        f"|{ref_name}| ({100 * wrong / close.size:.2f} %, {100 * max_mismatched_ratio:g} % "
        f"may); the most at {list(at)}: {base_name} {a[at]}, {ref_name} {b[at]}"
    )


def as_list(value: Any) -> list[Any]:
    """What a function returned: nothing, one array, or several."""
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]
