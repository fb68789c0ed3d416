"""Convolutions as products of matrices: `T.im2col`."""

from __future__ import annotations

import math
from typing import Any

from .._core import Buffer
from ..front.trace import fail, in_kernel, note
from ..front.values import as_value, constant
from .scalar import if_then_else


def im2col(
    img: Buffer,
    col: Buffer,
    nhw_step: Any,
    c_step: Any,
    kernel: Any,
    stride: Any,
    dilation: Any,
    pad: Any,
    eviction_policy: Any = None,
    annotations: Any = None,
) -> None:
    """Tile (nhw_step, c_step) of the matrix whose product with the weights is a convolution of the image.

    img: (N, H, W, C).  Row n·OH·OW + y·OW + x of the matrix is what the output (n, y, x) sees: kernel ×
    kernel × C elements, channels fastest, zeros outside of the image; OH = (H + 2·pad - dilation·(kernel - 1)
    - 1) // stride + 1, and OW alike.  (N, L, C) and (N, D, H, W, C) are convolved along one and along three
    dimensions.  kernel, stride, dilation and pad: constants for all dimensions, or one for each.  col: the
    tile, (rows, columns), whose rows begin at nhw_step·rows and columns at c_step·columns.  The elements are
    gathered by index arithmetic.  eviction_policy and annotations are hints that change nothing."""
    what = "T.im2col"
    b = in_kernel(what).builder
    for name, x, ranks in (("img", img, (4, 3, 5)), ("col", col, (2,))):
        if x.__class__ is not Buffer or len(x.shape) not in ranks:
            said = f"has shape {x.shape}" if x.__class__ is Buffer else f"is {type(x).__name__}"
            raise fail(f"{what}: {name} is a buffer of {ranks[0]} dimensions, but it {said}")
    _, *sizes, channels = img.shape
    kernels, strides, dilations, pads = (
        _each(name, x, len(sizes), least)
        for name, x, least in (
            ("kernel", kernel, 1),
            ("stride", stride, 1),
            ("dilation", dilation, 1),
            ("pad", pad, 0),
        )
    )
    if eviction_policy is not None or annotations is not None:
        note("T.im2col: eviction_policy and annotations change nothing here")
    rows, columns = col.shape
    reaches = [step * (k - 1) + 1 for step, k in zip(dilations, kernels, strict=True)]
    outs = [(n + (2 * p - r)) // s + 1 for n, p, r, s in zip(sizes, pads, reaches, strides, strict=True)]
    i, j = b.begin_for("parallel", ["i", "j"], [0, 0], [rows, columns], [1, 1], {})
    m, k = as_value(nhw_step) * rows + i, as_value(c_step) * columns + j
    tap, c = k // channels, k % channels
    inside = b.binary("lt", tap, math.prod(kernels))
    places = []
    for d, size in enumerate(sizes):
        at = _digit(m, outs, d) * strides[d] + _digit(tap, kernels, d, d > 0) * dilations[d] - pads[d]
        inside = b.binary("logical_and", inside, b.binary("ge", at, 0))
        inside = b.binary("logical_and", inside, b.binary("lt", at, size))
        places.append(at)
    value = if_then_else(inside, b.load(img, (m // _product(outs), *places, c)), b.const(0, img.dtype))
    b.store(col, (i, j), b.cast(col.dtype, value))
    b.end_for()
    in_kernel(what).wrote(col)


def _each(name: str, given: Any, count: int, least: int) -> list[int]:
    """One number for each dimension of the image."""
    numbers = list(given) if isinstance(given, (tuple, list)) else [given] * count
    known = [constant(as_value(n)) for n in numbers]
    if len(known) != count or any(n.__class__ is not int or n < least for n in known):
        raise fail(
            f"T.im2col: {name} is a constant of at least {least}, or one for each of the {count} dimensions "
            f"that the image is convolved along, not {given}"
        )
    return known


def _product(extents: list) -> Any:
    product = extents[0]
    for extent in extents[1:]:
        product = product * extent
    return product


def _digit(number: Any, extents: list, d: int, reduced: bool = True) -> Any:
    """The index along dimension d of an element's number in row-major order."""
    rest = number % _product(extents[d:]) if reduced else number
    return rest // _product(extents[d + 1 :]) if d + 1 < len(extents) else rest


__all__ = ["im2col"]
