"""The tile language: `import tilelang.language as T`.

Shapes and extents are in elements.  An operand of a tile operator is a buffer, a slice `A[i0:i1, j0:j1]` (a
plain index drops its dimension, missing trailing dimensions are whole) or an element `A[i, j]`, the place
where a tile begins whose extents the other operand gives.  A store to a slice of one dimension of up to 64
elements, `L[0:4] = A[i, 0:4]` or `A[i] = 0`, is done by the thread that comes there.

An index, or an end of a slice, that is below 0 wherever it is reached counts from the end of its dimension,
of tensors and tiles alike: `A[-1]`, `A[-1 - i]` for i from 0, `A[i - 4]` in a loop of 4.  Of a slice each end
does so for itself: in a grid of two, `A[b * 8 - 16 : b * 8]` is empty, and so an error.  What counts are the
constant ranges of loops and of the grid, the conditions around, and T.assume of parameters.  An index that is
below 0 only for some iterations, or by what memory holds, does not count from the end: in a tensor it is
padding (reads give 0 or the safe value, stores are dropped), in a tile an error.  So is `A[bx * 4 - 1]`, also
where the grid has one block: a variable that has one value, and does not begin below 0, is taken as if it had
more.

A slice of a tile that an operator works on lies inside of its tile.  Where only the call tells, "reference"
and "sim:…" say where it does not, and so does "cpu", which leaves the memory behind the tile alone; a GPU
does not look.  The index of a single element, `S[i + n]`, is looked at by "reference" and "sim:…" alone:
guard it by `if`.

Whatever is wrong raises CompileError at the user's line.  This file only collects the names: each module
below lists its own in `__all__` and says what they mean."""

from __future__ import annotations

import importlib as _importlib

from ..front import annotations as _annotations
from ..front import asserts as _asserts
from ..front import dtypes as _dtypes
from ..front import macros as _macros
from ..front import values as _values
from ..front.annotations import *  # noqa: F403
from ..front.asserts import *  # noqa: F403
from ..front.dtypes import *  # noqa: F403
from ..front.macros import *  # noqa: F403
from ..front.offered import OFFERED as _OFFERED
from ..front.values import *  # noqa: F403
from ..jit import eager as _eager
from ..jit import prim_func as _prim_func
from ..jit.eager import *  # noqa: F403
from ..jit.prim_func import *  # noqa: F403
from . import (
    allreduce,
    annotate,
    async_copies,
    atomic,
    barriers,
    bits,
    cluster,
    control,
    debug,
    foreign,
    launch,
    layout,
    lower_level,
    members,
    operators,
    packed,
    pairs,
    products,
    random,
    scalar,
    scheduler,
    teams,
    thread,
    tile,
    tma,
    wide,
)
from . import gemm as _gemm
from . import tile_op as _tile_op
from .allreduce import *  # noqa: F403
from .annotate import *  # noqa: F403
from .async_copies import *  # noqa: F403
from .atomic import *  # noqa: F403
from .barriers import *  # noqa: F403
from .bits import *  # noqa: F403
from .cluster import *  # noqa: F403
from .control import *  # noqa: F403
from .debug import *  # noqa: F403
from .foreign import *  # noqa: F403
from .gemm import *  # noqa: F403
from .launch import *  # noqa: F403
from .lower_level import *  # noqa: F403
from .operators import *  # noqa: F403
from .packed import *  # noqa: F403
from .pairs import *  # noqa: F403
from .products import *  # noqa: F403
from .random import *  # noqa: F403
from .scalar import *  # noqa: F403
from .scheduler import *  # noqa: F403
from .teams import *  # noqa: F403
from .thread import *  # noqa: F403
from .tile import *  # noqa: F403
from .tile_op import *  # noqa: F403
from .tma import *  # noqa: F403
from .wide import *  # noqa: F403

bool, float, double, half = map(_dtypes.dtype, ("bool", "float", "double", "half"))
int, uint, short, long = map(_dtypes.dtype, ("int", "uint", "short", "long"))

# The modules in the order of the reference (tools/make_docs.py).
MODULES = (launch, tile, _gemm, operators, _tile_op, _annotations, _prim_func, _eager, _macros, _values,
           scalar, bits, pairs, packed, thread, teams, control, scheduler, layout, atomic, async_copies,
           barriers, tma, products, foreign, wide, lower_level, random, debug, _asserts, annotate, allreduce,
           _dtypes)  # fmt: skip
_OF_LAYOUT = """
    Fragment Layout annotate_layout make_full_bank_swizzled_layout make_half_bank_swizzled_layout
    make_linear_layout make_quarter_bank_swizzled_layout make_swizzled_layout make_wgmma_swizzled_layout
""".split()
globals().update({_name: getattr(layout, _name) for _name in _OF_LAYOUT})
_NAMES = ["bool", "double", "float", "half", "int", "long", "short", "uint", *_OF_LAYOUT]
_NAMES += [_name for _module in MODULES if _module is not layout for _name in _module.__all__]
_OFFERED.update({_name: globals()[_name] for _name in _NAMES})


def __getattr__(name: str) -> object:
    if name.startswith("__") and name.endswith("__") and name != "__all__":
        raise AttributeError(name)
    if _dtypes.is_offered(name):
        return _dtypes.dtype(name)
    if name == "dtypes":  # the published module, which has more than the types
        return _importlib.import_module(f"{__name__}.dtypes")
    from .surface import find, names  # names that few kernels use, and those that do not work here

    known = [*_NAMES, "dtypes", *names()]
    globals()[name] = value = known if name == "__all__" else find(name, known)
    return value
