"""The tile language: `import tilelang.language as T`.

Shapes and extents are in elements.  An operand of a tile operator is a buffer, a slice `A[i0:i1, j0:j1]` (a
plain index drops its dimension, missing trailing dimensions are whole) or an element `A[i, j]`, the place
where a tile begins whose extents the other operand gives.  Whatever is wrong raises CompileError at the
user's line.  This file only collects the names: tile.py and scalar.py say what they mean.
"""

from __future__ import annotations

from . import dtypes as dtypes
from . import scalar as _scalar
from .dtypes import (
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .function import Buffer, StridedTensor, Tensor, macro, prim_func
from .layout import (
    Fragment,
    Layout,
    annotate_layout,
    make_full_bank_swizzled_layout,
    make_half_bank_swizzled_layout,
    make_linear_layout,
    make_quarter_bank_swizzled_layout,
    make_swizzled_layout,
    make_wgmma_swizzled_layout,
)
from .scalar import (
    Cast,
    Select,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    cast,
    ceildiv,
    floordiv,
    floormod,
    fma,
    if_then_else,
    infinity,
    max,
    max_value,
    min,
    min_value,
    pow,
    shift_left,
    shift_right,
    truncdiv,
    truncmod,
)
from .tile import (
    GemmWarpPolicy,
    Kernel,
    Parallel,
    Pipelined,
    alloc_fragment,
    alloc_local,
    alloc_shared,
    alloc_var,
    clear,
    copy,
    fill,
    gemm,
    get_thread_binding,
    get_thread_extent,
    grid,
    parallel,
    reduce,
    reduce_absmax,
    reduce_abssum,
    reduce_max,
    reduce_min,
    reduce_sum,
    serial,
    sync_threads,
    unroll,
    use_swizzle,
    vectorized,
)
from .tile_op import read, tile_op, update, value, write
from .values import dynamic

symbolic = dynamic
float = float32
double = float64
half = float16
bool = bool_
globals().update(_scalar.FUNCTIONS)  # exp, exp2, log, …

__all__ = [
    "Buffer", "Cast", "Fragment", "GemmWarpPolicy", "Kernel", "Layout", "Parallel", "Pipelined", "Select",
    "StridedTensor", "Tensor", "alloc_fragment", "alloc_local", "alloc_shared", "alloc_var",
    "annotate_layout", "bfloat16", "bitwise_and",
    "bitwise_or", "bitwise_xor", "bool", "bool_", "cast", "ceildiv", "clear", "copy", "double", "dtypes",
    "dynamic", "fill", "float", "float16", "float32", "float64", "floordiv", "floormod", "fma", "gemm",
    "get_thread_binding", "get_thread_extent", "grid", "half", "if_then_else", "infinity", "int16", "int32",
    "int64", "int8", "macro", "make_full_bank_swizzled_layout", "make_half_bank_swizzled_layout",
    "make_linear_layout", "make_quarter_bank_swizzled_layout", "make_swizzled_layout",
    "make_wgmma_swizzled_layout", "max", "max_value", "min", "min_value", "parallel", "pow", "prim_func",
    "read",
    "reduce", "reduce_absmax", "reduce_abssum", "reduce_max", "reduce_min", "reduce_sum", "serial",
    "shift_left", "shift_right", "symbolic", "sync_threads", "tile_op", "truncdiv", "truncmod",
    "uint16", "uint32",
    "uint64", "uint8", "unroll", "update", "use_swizzle", "value", "vectorized", "write",
]  # fmt: skip
__all__ += _scalar.FUNCTIONS


def __getattr__(name: str) -> object:
    if name.startswith("__") and name.endswith("__"):
        raise AttributeError(name)
    from .errors import UnknownName, caller_place, compile_error
    from .surface import message

    raise compile_error(message(name, __all__), caller_place(), UnknownName)
