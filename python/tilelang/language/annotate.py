"""Facts and wishes of a kernel: assumptions, launch bounds, compile flags."""

from __future__ import annotations

import re
from typing import Any

from .._core import Buffer, Expr
from ..front.trace import Trace, active, current, fail, in_kernel, note
from ..front.values import as_condition, as_value
from ..jit.config import normalize_pass_configs


def remark(name: str, *said: Any) -> None:
    """`name(said)` changes nothing: it is a comment in the generated text, and a line of the log."""
    text = re.sub(r" at 0x[0-9a-f]+", "", f"{name}({', '.join(map(repr, said))})")
    note("%s changes nothing here", text)
    trace = current()
    if trace is None or trace.kernel is None:
        return
    trace.kernel.comments.append(" ".join(text.split()))
    trace.builder.annotate("comments", "\n".join(trace.kernel.comments))


def assume(cond: Any = None) -> None:
    """Tell the compiler that `cond` holds from here on; it relies on it, also to leave out bounds checks.

    A condition over parameters alone, outside of loops and branches, becomes a fact of the whole function.
    The reference and the simulator check assumptions; elsewhere a false one makes the program meaningless."""
    trace = active("T.assume")
    if cond is None:
        raise fail("T.assume needs a condition, T.assume(n % 8 == 0)")
    if isinstance(cond, str):
        raise fail(f"T.assume takes a condition, T.assume({cond}), not a text")
    cond = as_condition(cond)
    if cond.__class__ is Expr:
        trace.builder.assume(cond)
    elif not cond:
        raise fail("T.assume of something that is false")


def annotate_safe_value(safe_value_map: dict) -> None:
    """What a read outside a tensor gives instead of 0: `T.annotate_safe_value({A: -1.0})`.

    Numbers of the tensor's dtype, for all reads in the program: a padding that is not 0 (for max) comes
    with the copy.  It stands inside of T.Kernel."""
    trace = in_kernel("T.annotate_safe_value")
    if not isinstance(safe_value_map, dict):
        raise fail(f"T.annotate_safe_value takes a dict of tensors and values, not {safe_value_map!r}")
    for buffer, value in safe_value_map.items():
        if buffer.__class__ is not Buffer:
            raise fail(f"T.annotate_safe_value: {buffer!r} is not a tensor of this kernel")
        trace.builder.annotate_safe_value(buffer, as_value(value))


def annotate_l2_hit_ratio(l2_hit_ratio_map: dict) -> None:
    """{tensor: share of its accesses to keep in the L2 cache}; noted in the report and as a comment in the
    generated text, not applied."""
    trace = in_kernel("T.annotate_l2_hit_ratio")
    for buffer, ratio in l2_hit_ratio_map.items():
        if not isinstance(buffer, Buffer) or buffer.scope != "global":
            raise fail("T.annotate_l2_hit_ratio takes tensors: {A: 0.9}")
        if not 0 <= float(ratio) <= 1:
            raise fail(f"T.annotate_l2_hit_ratio: the ratio of {buffer.name} is {ratio}; it lies in [0, 1]")
        trace.builder.note(
            "annotate_l2_hit_ratio",
            buffer.name,
            f"an L2 hit ratio of {float(ratio):g} is asked for; no access policy window is set",
        )
    remark("T.annotate_l2_hit_ratio", {x.name: float(ratio) for x, ratio in l2_hit_ratio_map.items()})


def annotate_min_blocks_per_sm(n: int) -> None:
    """At least `n` blocks are to fit on a multiprocessor: the second number of __launch_bounds__."""
    trace = in_kernel("T.annotate_min_blocks_per_sm")
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= 32:
        raise fail(f"T.annotate_min_blocks_per_sm takes a number of blocks from 1 to 32, not {n!r}")
    trace.builder.annotate("min_blocks_per_sm", n)


def annotate_restrict_buffers(*buffers: Any) -> None:
    """These tensors may overlap other tensors of the call, if each kernel that names them says so.

    No tensor of the kernel is declared __restrict__ then, and no load is moved over a store. Between loops
    and tile operators of which one writes what the other may touch stands a barrier of the block, as if all
    elements were one; code of single threads orders itself, as with T.make_tensor."""
    trace = in_kernel("T.annotate_restrict_buffers")
    for buffer in buffers:
        if not isinstance(buffer, Buffer) or buffer.scope != "global":
            raise fail("T.annotate_restrict_buffers takes tensors")
        trace.aliased.append(buffer.id)
    trace.builder.annotate("may_alias", sorted(set(trace.aliased)))


def annotate_pass_configs(configs: dict[Any, Any]) -> None:
    """The pass_configs of this kernel; those given where it is compiled count before them."""
    trace = active("T.annotate_pass_configs")
    trace.pass_configs.update(normalize_pass_configs(configs))


def annotate_compile_flags(flags: Any) -> None:
    """Flags for the device compiler, a string or a list, besides those given where it is compiled."""
    trace = active("T.annotate_compile_flags")
    trace.compile_flags += flags.split() if isinstance(flags, str) else [str(flag) for flag in flags]


class attr:
    """`with T.attr(node, attr_key, value):`, an attribute of the statements in it, or the call alone for
    those that follow.

    Keys that mean something here are read by what they are about ("reduce_scope": the reduction of
    T.tvm_thread_allreduce); others are kept as comments in the generated text."""

    __slots__ = ("node", "key", "value", "trace")

    def __init__(self, node: Any, attr_key: str, value: Any) -> None:
        self.node, self.key, self.value = node, str(attr_key), value
        self.trace: Trace = in_kernel("T.attr")
        self.trace.attributes.append(self)
        if self.key != "reduce_scope":
            remark("T.attr", node, attr_key, value)

    def __enter__(self) -> attr:
        return self

    def __exit__(self, *_: object) -> None:
        self.trace.attributes.remove(self)


__all__ = ["annotate_compile_flags", "annotate_l2_hit_ratio", "annotate_min_blocks_per_sm",
           "annotate_pass_configs", "annotate_restrict_buffers", "annotate_safe_value", "assume",
           "attr"]  # fmt: skip
