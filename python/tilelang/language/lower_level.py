"""Forms below the tiles, and of older programs: parameters that are addresses and get a shape in the body,
raw allocations, indices of several lanes, hints."""

from __future__ import annotations

from typing import Any

from .._core import Buffer, Expr
from ..front.addresses import Handle, handle
from ..front.annotations import Tensor
from ..front.dtypes import as_dtype
from ..front.indexing import Ramp
from ..front.offered import OFFERED
from ..front.trace import active, builder, fail, in_kernel
from ..front.values import as_value
from .control import alloc_global, thread_return
from .foreign import make_tensor
from .scalar import cast
from .thread import sync_threads, sync_warp
from .tile import alloc_fragment, alloc_local, alloc_shared, alloc_var, no_such_scope


def match_buffer(
    param: Any,
    shape: Any = None,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "default",
    axis_separators: Any = None,
) -> Buffer:
    """The tensor that a parameter `a: T.handle` is: `A = T.match_buffer(a, (m, n), "float16")`, as if it were
    annotated T.Tensor((m, n), "float16").

    strides: in elements, row-major if left out.  align, offset_factor, buffer_type and axis_separators are
    accepted; data, elem_offset and scopes other than "global" are not."""
    what = "T.match_buffer"
    if not isinstance(param, Handle):
        raise fail(
            f"{what} takes a parameter that is annotated T.handle, not {type(param).__name__}; the "
            "memory at an address is T.make_tensor(address, shape, dtype)"
        )
    if data is not None or scope != "global" or elem_offset not in (None, 0):
        raise fail(
            f"{what}: {param.name} is a tensor in global memory that begins at its first element: "
            "leave data, elem_offset and scope out"
        )
    if shape is None:
        raise fail(f"{what}: the shape is missing: T.match_buffer({param.name}, (m, n), 'float32')")
    return param.tensor(Tensor(shape, dtype, strides=strides))


Tensor.from_ptr = staticmethod(make_tensor)


_ALLOCATIONS = {"global": alloc_global, "shared": alloc_shared, "shared.dyn": alloc_shared,
                "local": alloc_local, "local.fragment": alloc_fragment}  # fmt: skip
SCOPES = (*_ALLOCATIONS, "local.var")


def alloc_buffer(
    shape: Any, dtype: Any = "float32", scope: str = "global", annotations: Any = None
) -> Buffer:
    """A buffer of that scope: "global" (T.alloc_global), "shared" or "shared.dyn" (T.alloc_shared), "local"
    (T.alloc_local), "local.fragment" (T.alloc_fragment), "local.var" (T.alloc_var, of shape (1,)).

    annotations: a hint that this version does not use."""
    if scope == "local.var":
        if tuple(shape if isinstance(shape, (tuple, list)) else (shape,)) not in ((), (1,)):
            raise fail(
                f"T.alloc_buffer: a variable has one element, not shape {shape}; scope='local' is an array"
            )
        return alloc_var(dtype)
    if scope not in _ALLOCATIONS:
        raise fail(no_such_scope("T.alloc_buffer", SCOPES, scope))
    return _ALLOCATIONS[scope](shape, dtype)


allocate = alloc_buffer


def func_attr(attrs: dict) -> None:
    """Attributes of the prim_func, {"global_symbol": "main"}: kept in its `attrs`, without effect."""
    if not isinstance(attrs, dict):
        raise fail(f"T.func_attr takes a dict, not {type(attrs).__name__}")
    active("T.func_attr").attrs.update(attrs)


class sblock:
    """`with T.sblock("name"):`, a named group of statements: the same as the statements."""

    def __init__(self, name: str = "", no_realize: bool = False) -> None:
        active("T.sblock")

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        pass


def bind(value: Any, type_annotation: Any = None, *, var: Any = None) -> Any:
    """A name for a value, computed here: `x = T.bind(A[i] * 2)` is `x = A[i] * 2`.

    type_annotation: its dtype, to which it is converted."""
    if var is not None:
        raise fail(
            "T.bind: var belongs to programs that make their own variables; "
            "here the name on the left is the variable"
        )
    trace = in_kernel("T.bind")
    value = as_value(value if type_annotation is None else cast(value, type_annotation))
    return trace.builder.let(trace.take_hint("bound"), value) if value.__class__ is Expr else value


def tvm_storage_sync(storage_scope: str) -> None:
    """T.sync_threads() for "shared" and "shared.dyn", T.sync_warp() for "warp"."""
    if storage_scope not in ("shared", "shared.dyn", "warp"):
        raise fail(
            f"T.tvm_storage_sync: the scope is 'shared' or 'warp', not {storage_scope!r}; all blocks "
            "meet at T.sync_grid()"
        )
    return sync_warp() if storage_scope == "warp" else sync_threads()


def ret(val: Any = None, span: Any = None) -> None:
    """End this thread, T.ret(0) or T.ret(): a kernel gives no value, its results are tensors."""
    if val is not None and as_value(val) != 0:
        raise fail(f"T.ret({val}): a kernel gives no value: store it to a tensor; T.ret(0) ends the thread")
    thread_return()


def likely(cond: Any, span: Any = None) -> Any:
    """The condition; that it mostly holds is a hint that this version does not use."""
    return cond


def undef() -> Expr:
    """A value of which nothing is said: 0 here."""
    return builder().const(0, as_dtype("int32"))


def call_intrin(dtype: Any, func_name: Any, *args: Any, annotations: Any = None, span: Any = None) -> Any:
    """A function of the language by its name in lower-level programs, "tirx.exp" or "tl.sync_warp": T.exp or
    T.sync_warp of these arguments, its value as dtype."""
    name = str(func_name).rpartition(".")[2]
    function = OFFERED.get(name)
    if function is None or isinstance(function, type):
        raise fail(
            f"T.call_intrin: the language has no function {name}; foreign functions are called by "
            "T.call_extern, instructions written by T.ptx"
        )
    made = function(*args)
    return made if made is None or dtype in (None, "", "void", "handle", handle) else cast(made, dtype)


__all__ = ["Ramp", "alloc_buffer", "allocate", "bind", "call_intrin", "func_attr", "handle", "likely",
           "match_buffer", "ret", "sblock", "tvm_storage_sync", "undef"]  # fmt: skip
