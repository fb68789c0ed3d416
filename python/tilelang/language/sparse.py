"""Products with a matrix of which half the elements are zero: `T.gemm_sp`.

Of every four neighbours along k two are kept (of two of float32 one), and 4 bits of metadata say which: the
places of the two kept, 2 bits each, the lower place first; of float32, whose elements count as two halves,
0b0100 keeps the first and 0b1110 the second.  An element of the metadata holds those of neighbouring groups,
the first in its lowest bits.  T.gemm_sp takes metadata by row and column; how it lies in memory, row by row
or as CUTLASS has it for a chip, is its layout: tilelang.layout.make_cutlass_metadata_layout."""

from __future__ import annotations

from typing import Any

from .._core import Region
from ..front.dtypes import as_dtype
from ..front.indexing import Part, as_operand
from ..front.trace import fail, in_kernel
from ..front.values import as_value
from .gemm import GemmWarpPolicy, gemm
from .scalar import if_then_else
from .sparse_order import chip_of, place_of
from .tile import alloc_shared, copy

# dtype -> (kept, of so many neighbours)
GROUP_CONFIG: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("float16", "bfloat16", "int8", "uint8"), (2, 4)),
    **dict.fromkeys(("float8_e4m3", "float8_e4m3fn", "float8_e5m2"), (2, 4)),
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


def _meta_of(name: str, meta_dtype: Any, arch: Any) -> Any:
    """The dtype of the metadata: what is asked for, or what the order of the chip has."""
    import numpy

    if meta_dtype is None:
        bytes_alone = arch is not None and chip_of(arch) >= (9, 0)
        meta_dtype = "uint8" if bytes_alone else "int32" if as_dtype(name).bits == 8 else "int16"
    _check_meta("compress: meta_dtype", as_dtype(meta_dtype))
    return numpy.dtype(str(as_dtype(meta_dtype)))


def _check_meta(what: str, dtype: Any) -> None:
    if not dtype.is_int or dtype.bits not in (8, 16, 32):
        raise fail(f"{what} is {dtype}, but metadata is of integers of 8, 16 or 32 bits")


def _places(whole: Any, kept: int, of: int) -> Any:
    """Which elements of each group are kept, in order: those that are not zero, and of the others those of
    the group's second half first, as PyTorch has it."""
    import numpy

    m, k = whole.shape
    groups = whole.reshape(m, k // of, of) != 0
    if groups.sum(-1).max(initial=0) > kept:
        row, column = numpy.argwhere(groups.sum(-1) > kept)[0]
        raise fail(
            f"compress: row {row} has more than {kept} elements that are not zero among the {of} from "
            f"{column * of} on"
        )
    rank = (numpy.arange(of) + of // 2) % of
    order = numpy.argsort(of * ~groups + rank, axis=-1)[..., :kept]
    order.sort(axis=-1)
    return order


def _metadata(order: Any, meta: Any) -> Any:
    """The places of the kept elements, 4 bits a group, as elements of `meta`."""
    import numpy

    m, _, kept = order.shape
    codes = numpy.array([0b0100, 0b1110])[order[..., 0]] if kept == 1 else order[..., 0] | order[..., 1] << 2
    per = 2 * meta.itemsize
    shifts = 4 * numpy.arange(per, dtype=numpy.uint64)
    packed = (codes.reshape(m, -1, per).astype(numpy.uint64) << shifts).sum(-1, dtype=numpy.uint64)
    return packed.astype(f"u{meta.itemsize}").view(meta)


def _gathered(A: Any, index: Any) -> Any:
    """The elements of the rows of a matrix at places of their own; the bits of 8-bit floats as they are."""
    import numpy

    if not hasattr(A, "detach"):
        return numpy.take_along_axis(A, index, 1)
    import torch

    plain = A.view(torch.uint8) if A.element_size() == 1 else A
    return torch.gather(plain, 1, torch.from_numpy(index).to(A.device)).view(A.dtype)


def compress(
    A: Any,
    transposed: bool = False,
    arch: Any = None,
    meta_dtype: Any = None,
    *,
    block_k: Any = None,
) -> tuple:
    """(A_sparse, E) of a PyTorch or NumPy matrix (m, k) with two zeros among every four neighbours along k.

    transposed: A is (k, m), and so are the results.  meta_dtype: of E, int16 if not given, of 8-bit elements
    int32.  arch: E stands in memory as make_cutlass_metadata_layout of that chip (and block_k, from "9.0" on)
    says, is (m, k / e) and from "9.0" on of uint8; else row by row."""
    import numpy

    torch_like = hasattr(A, "detach")
    if len(A.shape) != 2:
        raise fail(f"compress takes a matrix, not an array of shape {tuple(A.shape)}")
    values = A.detach().cpu() if torch_like else numpy.asarray(A)
    values = values.T if transposed else values
    name = str(A.dtype).rpartition(".")[2]
    kept, of = _group(name)
    (m, k), meta = values.shape, _meta_of(name, meta_dtype, arch)
    if k % (of * 2 * meta.itemsize):
        raise fail(
            f"compress: k is {k}, but an element of {meta} describes {of * 2 * meta.itemsize} elements: pad "
            f"the matrix"
        )
    order = _places(values.float().numpy() if torch_like else values.astype(numpy.float64), kept, of)
    E = _metadata(order, meta)
    if arch is not None:
        place = place_of(name, str(meta), E.shape, arch, block_k)
        ordered = numpy.empty_like(E)
        ordered.flat[place(*numpy.indices(E.shape))] = E
        E = ordered
    index = (order + of * numpy.arange(k // of)[:, None]).reshape(m, -1)
    found = _gathered((A.T if transposed else A) if torch_like else values, index)
    if torch_like:
        import torch

        found = found.T.contiguous() if transposed else found
        E = torch.from_numpy(E).to(A.device)
        return found, E.T.contiguous() if transposed and arch is None else E
    found = numpy.ascontiguousarray(found.T) if transposed else found
    return found, numpy.ascontiguousarray(E.T) if transposed and arch is None else E


def _matrix(x: Any, what: str) -> Any:
    """An operand as what is indexed by row and column: a tile or a slice of one; a fragment is copied out."""
    x = as_operand(x, what)
    x = Part(x) if x.__class__ is Region else x
    if len(x.shape) != 2 or None in x.shape:
        raise fail(f"{what} is a tile of two dimensions, but it has shape {x.shape}")
    if x.scope != "fragment":
        return x
    in_kernel(what).take_hint(f"{x.name}_shared")
    shared = alloc_shared(x.shape, x.dtype)
    copy(x.region if x.__class__ is Part else x, shared)
    return shared


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

    A_sparse: a tile (M, K/2), or (K/2, M) with transpose_A.  E: its metadata, (M, K/e), or (K/e, M) with
    transpose_E, where e is get_e_factor of the two dtypes; where its elements lie in memory is a matter of
    T.annotate_layout, as of any tile or tensor.  Both may be shared tiles, fragments, or slices of them.  B,
    C, policy, clear_accum, annotations: as of T.gemm.  A is written out whole into a shared tile of its own,
    and multiplied by T.gemm: right on every target, and no faster than that (mma.sp is not used).  wg_wait:
    accepted, what it orders is in order here."""
    what = "T.gemm_sp"
    trace = in_kernel(what)
    A_sparse, E = _matrix(A_sparse, f"{what}: A_sparse"), _matrix(E, f"{what}: E")
    kept, of = _group(A_sparse.dtype)
    _check_meta(f"{what}: E", as_dtype(E.dtype))
    per = get_e_factor(A_sparse.dtype, E.dtype)
    m, halves = A_sparse.shape[::-1] if transpose_A else A_sparse.shape
    k = halves * of // kept
    if (E.shape[::-1] if transpose_E else E.shape) != (m, k // per) or k % per:
        raise fail(
            f"{what}: A has {k} elements along k, so E must be {(m, k // per)}, one {E.dtype} for "
            f"{per} of them{', transposed' if transpose_E else ''}, but its shape is {E.shape}"
        )
    trace.take_hint("A_whole")
    whole = alloc_shared((m, k), A_sparse.dtype)
    b = trace.builder
    i, j = b.begin_for("parallel", ["i", "k"], [0, 0], [m, k], [1, 1], {})

    def at(tile: Any, column: Any, transposed: bool) -> Any:
        return as_value(tile[(column, i) if transposed else (i, column)])

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
