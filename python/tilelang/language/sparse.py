"""Products with a matrix of which half the elements are zero: `T.gemm_sp`.

Of every four neighbours along k two are kept (of two of float32 one), and 4 bits of metadata say which: the
places of the two kept, 2 bits each, the lower place first; of float32, whose elements count as two halves,
0b0100 keeps the first and 0b1110 the second.  An element of the metadata holds those of neighbouring groups,
the first in its lowest bits."""

from __future__ import annotations

from typing import Any

from .._core import Buffer
from ..front.dtypes import as_dtype
from ..front.trace import fail, in_kernel
from .gemm import GemmWarpPolicy, gemm
from .layout import make_linear_layout
from .maps import Layout
from .scalar import if_then_else
from .tile import alloc_shared

# dtype -> (kept, of so many neighbours)
GROUP_CONFIG: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("float16", "bfloat16", "int8", "uint8", "float8_e4m3fn", "float8_e5m2"), (2, 4)),
    **dict.fromkeys(("float32", "tfloat32"), (1, 2)),
}


def _group(dtype: Any) -> tuple[int, int]:
    found = GROUP_CONFIG.get(str(as_dtype(dtype)))
    if found is None:
        raise fail(f"a sparse operand is of {', '.join(GROUP_CONFIG)}, not of {as_dtype(dtype)}")
    return found


def get_e_factor(a_dtype: Any, meta_dtype: Any) -> int:
    """How many elements of the whole matrix, along k, an element of its metadata describes."""
    return as_dtype(meta_dtype).bits // 4 * _group(a_dtype)[1]


def get_e_replicate_factor(a_dtype: Any) -> int:
    """How many threads of four give mma.sp the metadata of a row: 2 of 16- and 32-bit operands, 1 of 8-bit
    ones, which need the bits of all four."""
    _group(a_dtype)
    return 1 if as_dtype(a_dtype).bits == 8 else 2


def make_cutlass_metadata_layout(
    buffer: Any, mma_dtype: Any = "float16", arch: Any = None, **extra_args: Any
) -> Layout:
    """The order of metadata in memory as `compress` writes it and T.gemm_sp reads it: row by row.

    Metadata in another order, such as CUTLASS gives it, is brought into rows first."""
    _group(mma_dtype)
    return make_linear_layout(buffer)


def compress(
    A: Any, transposed: bool = False, arch: Any = None, meta_dtype: Any = None, **extra_args: Any
) -> tuple:
    """(A_sparse, E) of a PyTorch or NumPy matrix (m, k) with two zeros among every four neighbours along k.

    transposed: A is (k, m), and so are the results.  meta_dtype: of E, int16 if not given, of 8-bit elements
    int32."""
    import numpy

    torch_like = hasattr(A, "detach")
    values = A.detach().cpu() if torch_like else numpy.asarray(A)
    values = values.T if transposed else values
    name = str(A.dtype).rpartition(".")[2]
    kept, of = _group(name)
    m, k = values.shape
    meta = numpy.dtype(str(as_dtype(meta_dtype or ("int32" if as_dtype(name).bits == 8 else "int16"))))
    per = 2 * meta.itemsize
    if k % (of * per):
        raise fail(
            f"compress: k is {k}, but an element of {meta} describes {of * per} elements: pad the matrix"
        )
    whole = values.float().numpy() if torch_like else values.astype(numpy.float64)
    groups = whole.reshape(m, k // of, of) != 0
    if groups.sum(-1).max() > kept:
        row, column = numpy.argwhere(groups.sum(-1) > kept)[0]
        raise fail(
            f"compress: row {row} has more than {kept} elements that are not zero among the {of} from "
            f"{column * of} on"
        )
    order = numpy.argsort(~groups, axis=-1, kind="stable")[..., :kept]  # what is not zero comes first
    order.sort(axis=-1)
    places = numpy.array([0b0100, 0b1110])[order[..., 0]] if kept == 1 else order[..., 0] | order[..., 1] << 2
    shifts = 4 * numpy.arange(per, dtype=numpy.uint64)
    packed = (places.reshape(m, -1, per).astype(numpy.uint64) << shifts).sum(-1, dtype=numpy.uint64)
    E = packed.astype(f"u{meta.itemsize}").view(meta)
    index = (order + of * numpy.arange(k // of)[:, None]).reshape(m, -1)
    if not torch_like:
        found = numpy.take_along_axis(values, index, 1), E
        return tuple(numpy.ascontiguousarray(x.T) for x in found) if transposed else found
    import torch

    found = (
        torch.gather(A.T if transposed else A, 1, torch.from_numpy(index).to(A.device)),
        torch.from_numpy(E),
    )
    found = found[0], found[1].to(A.device)
    return tuple(x.T.contiguous() for x in found) if transposed else found


def gemm_sp(
    A_sparse: Any,
    E: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_E: bool = False,
    transpose_B: bool = False,
    policy: Any = GemmWarpPolicy.Square,
    clear_accum: bool = False,
    wg_wait: int = 0,
    annotations: Any = None,
) -> None:
    """C += A @ B for an A of which half the elements along k are left out, as tilelang.utils.sparse.compress
    does.

    A_sparse: a shared tile (M, K/2), or (K/2, M) with transpose_A.  E: its metadata, (M, K/e), or (K/e, M)
    with transpose_E, where e is get_e_factor of the two dtypes.  B, C, policy, clear_accum, annotations: as
    of T.gemm. A is written out whole into a shared tile of its own, and multiplied by T.gemm: right on every
    target, and no faster than that (mma.sp is not used).  wg_wait: accepted, what it orders is in order here.
    """
    what = "T.gemm_sp"
    trace = in_kernel(what)
    for name, x in (("A_sparse", A_sparse), ("E", E)):
        if x.__class__ is not Buffer or len(x.shape) != 2:
            said = f"has shape {x.shape}" if x.__class__ is Buffer else f"is {type(x).__name__}"
            raise fail(f"{what}: {name} is a tile of two dimensions, but it {said}")
    kept, of = _group(A_sparse.dtype)
    per = get_e_factor(A_sparse.dtype, E.dtype)
    m, halves = A_sparse.shape[::-1] if transpose_A else A_sparse.shape
    k = halves * of // kept
    if (E.shape[::-1] if transpose_E else E.shape) != (m, k // per):
        raise fail(
            f"{what}: A has {k} elements along k, so E must be {(m, k // per)}, one {E.dtype} for "
            f"{per} of them{', transposed' if transpose_E else ''}, but its shape is {E.shape}"
        )
    trace.take_hint("A_whole")
    whole = alloc_shared((m, k), A_sparse.dtype)
    b = trace.builder
    i, j = b.begin_for("parallel", ["i", "k"], [0, 0], [m, k], [1, 1], {})

    def at(tile: Buffer, column: Any, transposed: bool) -> Any:
        return b.load(tile, (column, i) if transposed else (i, column))

    whole_number = as_dtype("int32")
    bits = b.cast(whole_number, at(E, j // per, transpose_E)) >> b.cast(whole_number, j % per // of * 4)
    value, zero = None, b.const(0, A_sparse.dtype)
    for n in reversed(range(kept)):
        place = (bits >> 2 * n & 3) if kept == 2 else (bits >> 1 & 1)
        here = b.binary("eq", place, b.cast(whole_number, j % of))
        element = at(A_sparse, j // of * kept + n, transpose_A)
        value = if_then_else(here, element, zero if value is None else value)
    b.store(whole, (i, j), value)
    b.end_for()
    trace.wrote(whole)
    gemm(
        whole, B, C, transpose_B=transpose_B, policy=policy, clear_accum=clear_accum, annotations=annotations
    )


__all__ = ["gemm_sp"]
