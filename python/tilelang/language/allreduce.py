"""The older way to reduce over threads, as published GEMV kernels write it:

    with T.attr(T.comm_reducer(lambda x, y: x + y, [T.cast(0, "float32")]), "reduce_scope", …):
        T.evaluate(T.tvm_thread_allreduce(T.uint32(1), value, True, out[0], tk, dtype="handle"))

The reducer says how two values become one; the call gives its result to all threads of `tk`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .._core import Expr
from ..front.trace import fail, in_kernel
from ..front.values import Element, Nothing, as_condition, as_value, binary, constant
from .thread import WARP, butterfly


class Reducer:
    """A commutative, associative combiner of two values, and its identity."""

    __slots__ = ("combine", "identity")

    def __init__(self, combine: Callable, identity: Any) -> None:
        self.combine, self.identity = combine, identity


def comm_reducer(combiner: Callable, identity: Any) -> Reducer:
    """What T.tvm_thread_allreduce combines values by; identity: a value, or a list of one."""
    if isinstance(identity, (list, tuple)):
        if len(identity) != 1:
            raise fail(
                f"T.comm_reducer: one identity is expected, not {len(identity)}: reductions of tuples "
                "are not in this version"
            )
        identity = identity[0]
    return Reducer(combiner, identity)


def evaluate(value: Any) -> None:
    """A value for its effect: a statement of its own."""
    if value is not None and value.__class__ is not Nothing:
        value = as_value(value)
    if value.__class__ is Expr:
        in_kernel("T.evaluate").builder.evaluate(value)


def _open_reducer(trace: Any) -> Reducer | None:
    """That of the innermost `with T.attr(reducer, "reduce_scope", …)`."""
    for attribute in reversed(trace.attributes):
        if attribute.key == "reduce_scope" and isinstance(attribute.node, Reducer):
            return attribute.node
    return None


def _thread_dimension(threadvar: Any) -> int:
    found = re.fullmatch(r"thread_index\((\d)\)", str(as_value(threadvar)))
    if not found:
        raise fail(
            "T.tvm_thread_allreduce: the last argument must be a thread index, T.get_thread_binding(dim) or "
            "T.thread_binding(n, 'threadIdx.x')"
        )
    return int(found[1])


def tvm_thread_allreduce(*freduce_args: Any, dtype: Any = "handle") -> None:
    """T.tvm_thread_allreduce(size, value, cond, out, threadvar): out = the values of all threads along the
    dimension of threadvar combined, in each of these threads.

    size: 1, the number of values; cond: a thread where it does not hold contributes the identity; out: an
    element of a buffer, whose dtype the values are converted to.  All threads of the block must execute it.
    """
    trace = in_kernel("T.tvm_thread_allreduce")
    kernel, builder = trace.kernel, trace.builder
    reducer = _open_reducer(trace)
    if reducer is None:
        raise fail('T.tvm_thread_allreduce outside `with T.attr(T.comm_reducer(...), "reduce_scope", ...)`')
    size, value, cond, out, threadvar = freduce_args if len(freduce_args) == 5 else (None,) * 5
    count = constant(as_value(size)) if isinstance(out, Element) else 1
    if count.__class__ is not int or count != 1:
        raise fail(
            f"T.tvm_thread_allreduce: size is {count}, but one value is reduced at a time: 1; reduce "
            "several one after another"
        )
    if not isinstance(out, Element):
        raise fail(
            "T.tvm_thread_allreduce(size, value, cond, out[0], thread): one element to write to, and "
            "one thread index"
        )
    if kernel.threads is None:
        raise fail(
            "T.tvm_thread_allreduce: this T.Kernel leaves the number of threads to the target; give threads="
        )
    dim, threads = _thread_dimension(threadvar), [*kernel.threads, 1, 1][:3]
    identity = builder.cast(out.dtype, as_value(reducer.identity))
    result = builder.cast(out.dtype, as_value(value))
    cond = as_condition(cond)
    if cond.__class__ is Expr:
        result = builder.select(cond, result, identity)
    elif not cond:
        result = identity
    extent = threads[dim]
    if dim == 0 and extent <= WARP and extent & (extent - 1) == 0:
        result = butterfly(result, extent, reducer.combine, "all")
    else:
        result = _through_shared(builder, result, identity, reducer, threads, dim)
    builder.store(out.buffer, out.index, result)
    trace.wrote(out.buffer)


def _through_shared(
    builder: Any, value: Any, identity: Any, reducer: Reducer, threads: list, dim: int
) -> Any:
    """Each thread writes its value, then combines those along `dim` in their order."""
    stride, total = 1, threads[0] * threads[1] * threads[2]
    for extent in threads[:dim]:
        stride *= extent
    values = builder.alloc("all", "shared", (total,), value.dtype, {})
    result = builder.alloc("all_sum", "var", (), value.dtype, {})
    number = builder.call("thread_number", ())
    builder.store(values, (number,), value)
    builder.call("sync_threads", ())
    builder.store(result, (), identity)
    own = binary("mul", binary("floormod", binary("floordiv", number, stride), threads[dim]), stride)
    first = builder.let("first", binary("sub", number, own))
    (i,) = builder.begin_for("serial", ("i",), (0,), (threads[dim],), (1,), {})
    other = builder.load(values, (binary("add", first, binary("mul", i, stride)),))
    builder.store(result, (), reducer.combine(builder.load(result, ()), other))
    builder.end_for()
    return builder.let("all", builder.load(result, ()))


__all__ = ["comm_reducer", "evaluate", "tvm_thread_allreduce"]
