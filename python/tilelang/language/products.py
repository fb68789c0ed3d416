"""Products of warpgroups by hand (wgmma, sm_90a): begun by T.wgmma_gemm, waited for by T.wait_wgmma.

Between the two the tensor cores work beside the threads: neither the sums nor, where A is a fragment, the
factors may be touched, and the tiles in shared memory must stay as they are. The simulator finds what breaks
this."""

from __future__ import annotations

from typing import Any

from ..front.dtypes import as_dtype
from ..front.indexing import as_operand
from ..front.trace import fail, in_kernel
from ..front.values import constant
from .gemm import GemmWarpPolicy, gemm_statement

_I32 = as_dtype("int32")


def wgmma_gemm(
    A: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    annotations: Any = None,
) -> None:
    """Begin C += A @ B by wgmma, as a group of its own: T.wait_wgmma waits for it.

    A (M, K), or (K, M) if transpose_A: a shared tile or a fragment; B (K, N), or (N, K) if transpose_B: a
    shared tile; C (M, N): a fragment. The arguments are those of T.gemm.  The team's threads are whole
    warpgroups of 128, M is a multiple of 64 for each of them (or M is one of 8, and N one of 64 for each: C
    is then computed transposed), and elements of 8 bits have k along their rows.
    Between this and the wait nothing may touch C, nor A if it is a fragment, nor write to the tiles; products
    into the same C may follow each other.
    It is an error where wgmma cannot do this, and on chips other than sm_90a; T.gemm takes what there is."""
    arguments = (A, B, C, transpose_A, transpose_B, policy, clear_accum, annotations)
    gemm_statement("T.wgmma_gemm", *arguments, in_flight=True)


def wait_wgmma(id: int = 0) -> None:
    """Wait until at most `id` (a constant, 0 to 7) of the groups of products that this warpgroup closed last
    are in flight; each T.wgmma_gemm closes one. The sums of all before them may be used."""
    _wait("T.wait_wgmma", id)


def warpgroup_wait(num_mma: int = 0) -> None:
    """The same as T.wait_wgmma."""
    _wait("T.warpgroup_wait", num_mma)


def _wait(what: str, count: Any) -> None:
    left = constant(count)
    if left.__class__ is not int or not 0 <= left <= 7:
        raise fail(
            f"{what}: how many groups may be in flight is part of the instruction: a constant from 0 to 7, "
            f"not {count}"
        )
    b = in_kernel(what).builder
    b.instruct("wgmma_wait_group", [b.const(left, _I32)])


def warpgroup_arrive() -> None:
    """What this warpgroup's threads have done to their registers so far is seen by the products behind this.
    T.wgmma_gemm does it itself."""
    in_kernel("T.warpgroup_arrive").builder.instruct("wgmma_fence", [])


def warpgroup_commit_batch() -> None:
    """Close the products that this warpgroup has begun since the last time, as one group. T.wgmma_gemm closes
    its own."""
    in_kernel("T.warpgroup_commit_batch").builder.instruct("wgmma_commit_group", [])


def warpgroup_fence_operand(
    buffer_or_ptr: Any, offset: Any = 0, num_regs: Any = None, dtype: Any = None
) -> None:
    """Without effect: the compiler keeps uses of sums behind the wait that completes them by itself.
    buffer_or_ptr: a fragment."""
    as_operand(buffer_or_ptr, "T.warpgroup_fence_operand: buffer_or_ptr")


def set_max_nreg(reg_count: Any, is_inc: Any) -> None:
    """From here on each thread of the team's warpgroups has `reg_count` registers: more than before if
    is_inc, which waits until other warpgroups have given so many back, else fewer.

    reg_count: a constant, 24 to 256, a multiple of 8. A block begins with 65536 registers, divided evenly
    among its threads; at its end its warpgroups have no more than these. sm_90a alone."""
    _set_registers("T.set_max_nreg", reg_count, bool(is_inc))


def inc_max_nreg(reg_count: Any) -> None:
    """T.set_max_nreg(reg_count, 1)."""
    _set_registers("T.inc_max_nreg", reg_count, True)


def dec_max_nreg(reg_count: Any) -> None:
    """T.set_max_nreg(reg_count, 0)."""
    _set_registers("T.dec_max_nreg", reg_count, False)


def _set_registers(what: str, reg_count: Any, more: bool) -> None:
    count = constant(reg_count)
    if count.__class__ is not int or not 24 <= count <= 256 or count % 8:
        raise fail(
            f"{what}: reg_count is part of the instruction: a constant from 24 to 256 that 8 divides, not "
            f"{reg_count}"
        )
    b = in_kernel(what).builder
    b.instruct("setmaxnreg_inc" if more else "setmaxnreg_dec", [b.const(count, _I32)])


__all__ = ["dec_max_nreg", "inc_max_nreg", "set_max_nreg", "wait_wgmma", "warpgroup_arrive",
           "warpgroup_commit_batch", "warpgroup_fence_operand", "warpgroup_wait", "wgmma_gemm"]  # fmt: skip
