"""Products of tiles: `T.gemm` and how its warps share the work."""

from __future__ import annotations

import enum
import math
from typing import Any

from .._core import Expr
from ..front.indexing import as_operand
from ..front.trace import fail, in_kernel
from ..front.values import DEVICE, as_value
from .launch import integers
from .tile import _tile, flag


class GemmWarpPolicy(enum.IntEnum):
    """How the warps of a block share the C tile of a gemm: as a square, or all along its rows or columns.

    Made by number or name, too: T.GemmWarpPolicy(1), T.GemmWarpPolicy("full_row")."""

    Square = 0
    FullRow = 1
    FullCol = 2

    @classmethod
    def _missing_(cls, value: object) -> GemmWarpPolicy | None:
        word = value.replace("_", "").lower() if isinstance(value, str) else None
        return next((member for member in cls if member.name.lower() == word), None)

    def is_square(self) -> bool:
        """Whether it is Square."""
        return self == 0

    def is_full_row(self) -> bool:
        """Whether it is FullRow."""
        return self == 1

    def is_full_col(self) -> bool:
        """Whether it is FullCol."""
        return self == 2

    @classmethod
    def from_warp_partition(cls, m_warp: int, n_warp: int) -> GemmWarpPolicy:
        """The policy that gives m_warp warps along the rows of C and n_warp along its columns; T.gemm checks
        that they are the warps of the block, and divide C."""
        m, n = integers((m_warp, n_warp), "T.GemmWarpPolicy.from_warp_partition: the numbers of warps")
        member = cls.FullRow if n == 1 and m > 1 else cls.FullCol if m == 1 and n > 1 else cls.Square
        made = int.__new__(cls, member)
        made._name_, made._value_, made.partition = member.name, member.value, (m, n)
        return made

    def compute_warp_partition(self, M: int, N: int, num_warps: int) -> tuple[int, int]:
        """How many warps the rows and the columns of an M x N tile are shared among; ValueError if they
        cannot be: of Square those whose parts are nearest to squares."""
        pairs = [
            (m, num_warps // m)
            for m in range(1, num_warps + 1)
            if num_warps % m == 0
            and M % m == 0
            and N % (num_warps // m) == 0
            and (self == 0 or (m, num_warps // m)[2 - self] == 1)
        ]
        if not pairs:
            raise ValueError(f"{num_warps} warps cannot share a {M} x {N} tile by {self.name}")
        return min(pairs, key=lambda pair: abs(math.log(M / pair[0]) - math.log(N / pair[1])))


def gemm(
    A: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    mbar: Any = None,
    annotations: Any = None,
    *,
    k_pack: int = 1,
) -> None:
    """C += A @ B on tiles: A (M, K), or (K, M) if transpose_A; B (K, N), or (N, K) if transpose_B; C (M, N).

    A, B: shared tiles or fragments of one dtype; C: a fragment.  On the CPU all three may be in any memory of
    the block: shared, fragment or local.  clear_accum: C = A @ B instead; a bool, or a condition that all
    threads of the block have the same of, as in clear_accum=(k == 0).  policy: a T.GemmWarpPolicy, how the
    warps share C: a wish, followed as far as C has rows (columns) enough for the instruction.  k_pack:
    accepted, it tunes other chips."""
    if mbar is not None:
        raise fail(
            "T.gemm: mbar is what the tensor cores of later chips arrive at, which this version does not "
            "use; without it T.gemm waits for its own result"
        )
    gemm_statement("T.gemm", A, B, C, transpose_A, transpose_B, policy, clear_accum, annotations, k_pack)


def gemm_statement(
    what: str,
    A: Any,
    B: Any,
    C: Any,
    transpose_A: Any,
    transpose_B: Any,
    policy: Any,
    clear_accum: Any,
    annotations: Any,
    k_pack: Any = 1,
    in_flight: bool = False,
) -> None:
    """The statement of T.gemm and of what is like it."""
    policy = _policy(policy, C)
    operands = tuple([as_operand(x, f"{what}: {n}") for n, x in (("A", A), ("B", B), ("C", C))])
    attrs = {
        "trans_a": flag(transpose_A, f"{what}: transpose_A"),
        "trans_b": flag(transpose_B, f"{what}: transpose_B"),
        "policy": _POLICIES[policy],
        "clear_accum": _condition(clear_accum),
    }
    if in_flight:
        attrs["in_flight"] = True
    if k_pack != 1:
        attrs["k_pack"] = integers(k_pack, f"{what}: k_pack")[0]
    _tile("gemm", operands, attrs, annotations, operands[2])


_POLICIES = ("square", "full_row", "full_col")


def _policy(policy: Any, C: Any) -> GemmWarpPolicy:
    """The policy, also by its number or name; a partition is checked against the block's warps and C."""
    try:
        policy = policy if isinstance(policy, GemmWarpPolicy) else GemmWarpPolicy(policy)
    except ValueError:
        raise fail(f"T.gemm: policy must be a T.GemmWarpPolicy, not {policy!r}") from None
    partition, threads = getattr(policy, "partition", None), in_kernel("T.gemm").kernel.threads
    if partition is None:
        return policy
    warps = "x".join(map(str, partition))
    if threads is not None and 32 * math.prod(partition) != math.prod(threads):
        raise fail(
            f"T.gemm: policy shares C among {warps} = {math.prod(partition)} warps, but this T.Kernel "
            f"has {math.prod(threads)} threads, {math.prod(threads) / 32:g} warps of 32: make them "
            "agree"
        )
    shape = getattr(C, "shape", None) or getattr(C, "extents", ())
    for count, extent, word in zip(partition, shape[-2:], ("rows", "columns"), strict=False):
        if extent.__class__ is int and extent % count:
            raise fail(
                f"T.gemm: policy shares the {extent} {word} of C among {count} warps, which does not "
                "divide: take another partition, or another tile"
            )
    return policy


def _condition(x: Any) -> Any:
    """A bool, or the value of the kernel that is true or false."""
    value = as_value(x) if isinstance(x, DEVICE) else x
    return value if isinstance(value, Expr) else flag(value, "clear_accum")


__all__ = ["GemmWarpPolicy", "gemm"]
