"""Convolutions as products of matrices: `T.im2col`."""

from __future__ import annotations

from typing import Any

from .._core import Buffer
from ..front.trace import fail, in_kernel, note
from ..front.values import as_value
from .scalar import if_then_else


def im2col(
    img: Buffer,
    col: Buffer,
    nhw_step: Any,
    c_step: Any,
    kernel: int,
    stride: int,
    dilation: int,
    pad: int,
    eviction_policy: Any = None,
    annotations: Any = None,
) -> None:
    """Tile (nhw_step, c_step) of the matrix whose product with the weights is a convolution of the image.

    img: (N, H, W, C).  Row n·OH·OW + y·OW + x of the matrix is what the output (n, y, x) sees: kernel ×
    kernel × C elements, channels fastest, zeros outside of the image; OH = (H + 2·pad - dilation·(kernel - 1)
    - 1) // stride + 1, and OW alike.  col: the tile, (rows, columns), whose rows begin at nhw_step·rows and
    columns at c_step·columns.  The elements are gathered by index arithmetic.  eviction_policy and
    annotations are hints that change nothing."""
    what = "T.im2col"
    b = in_kernel(what).builder
    for name, x, rank in (("img", img, 4), ("col", col, 2)):
        if x.__class__ is not Buffer or len(x.shape) != rank:
            said = f"has shape {x.shape}" if x.__class__ is Buffer else f"is {type(x).__name__}"
            raise fail(f"{what}: {name} is a buffer of {rank} dimensions, but it {said}")
    sizes = ((kernel, 1), (stride, 1), (dilation, 1), (pad, 0))
    if any(not isinstance(n, int) or n < least for n, least in sizes):
        raise fail(
            f"{what}: kernel, stride and dilation are positive integers and pad is none below 0, not "
            f"{kernel}, {stride}, {dilation}, {pad}"
        )
    if eviction_policy is not None or annotations is not None:
        note("T.im2col: eviction_policy and annotations change nothing here")
    _, height, width, channels = img.shape
    rows, columns = col.shape
    reach = dilation * (kernel - 1) + 1
    out_h, out_w = ((n + (2 * pad - reach)) // stride + 1 for n in (height, width))
    i, j = b.begin_for("parallel", ["i", "j"], [0, 0], [rows, columns], [1, 1], {})
    m, k = as_value(nhw_step) * rows + i, as_value(c_step) * columns + j
    tap, c = k // channels, k % channels
    y = m % (out_h * out_w) // out_w * stride + tap // kernel * dilation - pad
    x = m % out_w * stride + tap % kernel * dilation - pad
    inside = b.binary("lt", tap, kernel * kernel)
    for at, size in ((y, height), (x, width)):
        inside = b.binary("logical_and", inside, b.binary("ge", at, 0))
        inside = b.binary("logical_and", inside, b.binary("lt", at, size))
    value = if_then_else(inside, b.load(img, (m // (out_h * out_w), y, x, c)), b.const(0, img.dtype))
    b.store(col, (i, j), b.cast(col.dtype, value))
    b.end_for()
    in_kernel(what).wrote(col)


__all__ = ["im2col"]
