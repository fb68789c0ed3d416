"""What every example needs: its options, arrays where the kernel's tensors live, and a verdict.

    options = harness.options(__doc__, rows=1000)      # --target and --rows
    found = harness.call(kernel, x)                    # NumPy arrays in, NumPy arrays out, on any target
    harness.check("1000 rows", found, expected, 1e-5)  # relative error, printed
    harness.finish()                                   # exit status 1 if anything was wrong
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

wrong: list[str] = []


def options(doc: str, **sizes: int) -> argparse.Namespace:
    """The command line: --target, and an option for each size."""
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument("--target", default="auto")
    for name, size in sizes.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=size)
    return parser.parse_args()


def put(kernel: Any, array: Any) -> Any:
    """A NumPy array where the kernel's tensors live; numbers stay as they are."""
    if kernel.device_type == "cpu" or not isinstance(array, np.ndarray):
        return array
    import torch  # holds the tensors on the GPU

    if array.dtype.kind == "V":  # a type that PyTorch knows and NumPy does not: through its bits
        bits = torch.from_numpy(array.view(f"u{array.itemsize}"))
        return bits.cuda().view(getattr(torch, array.dtype.name))
    return torch.from_numpy(array).cuda()


def get(value: Any) -> Any:
    """A tensor as a NumPy array; float types that NumPy does not know as float32."""
    if isinstance(value, (list, tuple)):
        return [get(item) for item in value]
    if hasattr(value, "cpu"):
        value = value.float() if value.is_floating_point() and value.dtype.itemsize < 4 else value
        return value.cpu().numpy()
    return value


def call(kernel: Any, *arrays: Any) -> Any:
    """What the kernel returns for these arrays; without outputs of its own, the arrays after the call."""
    arguments = [put(kernel, array) for array in arrays]
    returned = kernel(*arguments)
    return get(arguments if returned is None else returned)


def error_of(found: Any, expected: Any) -> float:
    """|found - expected| / |expected|, in float64."""
    expected = np.asarray(expected, np.float64)
    return float(np.linalg.norm(np.asarray(found, np.float64) - expected) / (np.linalg.norm(expected) or 1.0))


def check(what: str, found: Any, expected: Any, bound: float) -> None:
    """Print the relative error; remember it if it is above the bound (0: every element equal)."""
    same_shape = np.shape(found) == np.shape(expected)
    error = error_of(found, expected) if same_shape else float("inf")
    right = same_shape and error <= bound
    print(f"{what}: relative error {error:.1e} (at most {bound:.0e} allowed){'' if right else '  WRONG'}")
    if not right:
        wrong.append(what)


def finish() -> None:
    """End the program: status 1 if a check failed."""
    sys.exit(1 if wrong else 0)
