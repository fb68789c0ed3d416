"""The tile language: `import tilelang.language as T`.

Shapes and extents are in elements.  An operand of a tile operator is a buffer, a slice `A[i0:i1, j0:j1]` (a
plain index drops its dimension, missing trailing dimensions are whole) or an element `A[i, j]`, the place
where a tile begins whose extents the other operand gives.  Whatever is wrong raises CompileError at the
user's line.  This file only collects the names: each module below lists its own in `__all__` and says what
they mean.
"""

from __future__ import annotations

from . import allreduce as _allreduce
from . import annotate as _annotate
from . import atomic as _atomic
from . import control as _control
from . import debug as _debug
from . import dtypes as dtypes
from . import eager as _eager
from . import foreign as _foreign
from . import function as _function
from . import layout as _layout
from . import macros as _macros
from . import mathematics as _mathematics
from . import operators as _operators
from . import packed as _packed
from . import random as _random
from . import scalar as _scalar
from . import scheduler as _scheduler
from . import thread as _thread
from . import tile as _tile
from . import tile_op as _tile_op
from . import values as _values
from .allreduce import *  # noqa: F403
from .annotate import *  # noqa: F403
from .atomic import *  # noqa: F403
from .control import *  # noqa: F403
from .debug import *  # noqa: F403
from .dtypes import *  # noqa: F403
from .eager import *  # noqa: F403
from .foreign import *  # noqa: F403
from .function import *  # noqa: F403
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
from .macros import *  # noqa: F403
from .mathematics import *  # noqa: F403
from .operators import *  # noqa: F403
from .packed import *  # noqa: F403
from .random import *  # noqa: F403
from .scalar import *  # noqa: F403
from .scheduler import *  # noqa: F403
from .thread import *  # noqa: F403
from .tile import *  # noqa: F403
from .tile_op import *  # noqa: F403
from .values import *  # noqa: F403

float, double, half, bool = dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bool_

__all__ = [
    "bool", "double", "dtypes", "float", "half", "Fragment", "Layout", "annotate_layout",
    "make_full_bank_swizzled_layout", "make_half_bank_swizzled_layout", "make_linear_layout",
    "make_quarter_bank_swizzled_layout", "make_swizzled_layout", "make_wgmma_swizzled_layout",
]  # fmt: skip
__all__ += _allreduce.__all__
__all__ += _annotate.__all__
__all__ += _atomic.__all__
__all__ += _control.__all__
__all__ += _debug.__all__
__all__ += dtypes.__all__
__all__ += _eager.__all__
__all__ += _foreign.__all__
__all__ += _function.__all__
__all__ += _macros.__all__
__all__ += _mathematics.__all__
__all__ += _operators.__all__
__all__ += _packed.__all__
__all__ += _random.__all__
__all__ += _scalar.__all__
__all__ += _scheduler.__all__
__all__ += _thread.__all__
__all__ += _tile.__all__
__all__ += _tile_op.__all__
__all__ += _values.__all__


# For tools/make_docs.py: the modules in the order of the reference.
MODULES = (_tile, _operators, _tile_op, _function, _eager, _macros, _values, _scalar, _mathematics,
           _packed, _thread, _control, _scheduler, _layout, _atomic, _foreign, _random, _debug, _annotate,
           _allreduce, dtypes)  # fmt: skip


def __getattr__(name: str) -> object:
    if name.startswith("__") and name.endswith("__"):
        raise AttributeError(name)
    from .errors import UnknownName, caller_place, compile_error
    from .surface import message

    raise compile_error(message(name, __all__), caller_place(), UnknownName)
