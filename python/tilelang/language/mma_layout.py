"""Where the elements of a matrix instruction's operands lie: (thread, register) of an element, and back.

A warp's thread t = 4 g + q holds, of a 16-row operand, rows g and g + 8 and in each of them the 32 bits that
begin at byte 4 q of every 16.  The functions compute with integers and with values of a kernel alike.  Names
say the tile's shape and what a thread holds of it: 16×16 elements of 16 bits are 8 for each of 32 threads.
`sr` is a tile whose columns are the gemm's k, `rs` one whose rows are; `a` and `b` differ in the order of
their 8×8 blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .maps import Layout

Place = tuple[Any, Any]


def operand_place(bits: int, i: Any, k: Any, is_b: bool = False) -> Place:
    """(thread, register) of the element of a 16-row operand, i along m or n; of 8 to 32 bits."""
    per = 32 // bits
    halves = (k // (4 * per), i // 8) if not is_b else (i // 8, k // (4 * per))
    return 4 * (i % 8) + k % (4 * per) // per, per * (2 * halves[0] + halves[1]) + k % per


def operand_element(bits: int, thread: Any, register: Any, is_b: bool = False) -> Place:
    """The inverse: (along m or n, along k) of what a thread holds in a register."""
    per = 32 // bits
    high, low = register // (2 * per), register // per % 2
    half_i, half_k = (high, low) if is_b else (low, high)
    return thread // 4 + 8 * half_i, 4 * per * half_k + per * (thread % 4) + register % per


def sum_place(i: Any, j: Any) -> Place:
    """(thread, register) of an element of the 16×16 accumulator: two instructions' 16×8, side by side."""
    return 4 * (i % 8) + j % 8 // 2, 4 * (j // 8) + i // 8 * 2 + j % 2


def sum_element(thread: Any, register: Any) -> Place:
    """The inverse: (row, column) of what a thread holds in a register of the accumulator."""
    return thread // 4 + 8 * (register // 2 % 2), 8 * (register // 4) + 2 * (thread % 4) + register % 2


def _of(bits: int, is_b: bool, k_first: bool, back: bool) -> Callable[[Any, Any], Place]:
    def place(i: Any, j: Any) -> Place:
        return operand_place(bits, *((j, i) if k_first else (i, j)), is_b)

    def element(thread: Any, register: Any) -> Place:
        found = operand_element(bits, thread, register, is_b)
        return found[::-1] if k_first else found

    return element if back else place


shared_16x16_to_mma_32x8_layout_sr_a = _of(16, False, False, False)
shared_16x16_to_mma_32x8_layout_sr_b = _of(16, True, False, False)
shared_16x16_to_mma_32x8_layout_rs_a = _of(16, False, True, False)
shared_16x16_to_mma_32x8_layout_rs_b = _of(16, True, True, False)
shared_16x32_to_mma_32x16_layout_sr_a = _of(8, False, False, False)
shared_16x32_to_mma_32x16_layout_sr_b = _of(8, True, False, False)
shared_16x32_to_mma_32x16_layout_rs_a = _of(8, False, True, False)
shared_16x32_to_mma_32x16_layout_rs_b = _of(8, True, True, False)
shared_16x8_to_mma_32x4_layout_sr_a = _of(32, False, False, False)
shared_16x8_to_mma_32x4_layout_sr_b = _of(32, True, False, False)
shared_16x16_to_mma_32x8_layout = shared_16x16_to_mma_32x8_layout_sr_a
shared_16x32_to_mma_32x16_layout = shared_16x32_to_mma_32x16_layout_sr_a
shared_32x16_to_mma_32x16_layout = shared_16x32_to_mma_32x16_layout_rs_b

mma_load_a_32x8_to_shared_16x16_layout = _of(16, False, False, True)
mma_load_b_32x8_to_shared_16x16_layout = _of(16, True, False, True)
mma_load_a_32x16_to_shared_16x32_layout = _of(8, False, False, True)
mma_load_b_32x16_to_shared_16x32_layout = _of(8, True, False, True)
mma_load_a_32x4_to_shared_16x8_layout = _of(32, False, False, True)
mma_load_b_32x4_to_shared_16x8_layout = _of(32, True, False, True)
mma_32x8_to_shared_16x16_layout = sum_element
mma_store_32x8_to_shared_16x16_layout = sum_element


def ldmatrix_32x8_to_shared_16x16_layout(thread_id: Any, local_id: Any) -> Place:
    """The element from which a thread's row begins, for A by ldmatrix.x4; local_id counts on from there."""
    return thread_id % 16, 8 * (thread_id // 16) + local_id % 8


def ldmatrix_trans_32x8_to_shared_16x16_layout(thread_id: Any, local_id: Any) -> Place:
    """The same for A whose rows are k, by ldmatrix.x4.trans."""
    return 8 * (thread_id // 16) + thread_id % 8, 8 * (thread_id // 8 % 2) + local_id % 8


def ldmatrix_16x32_to_shared_16x32_layout_a(thread_id: Any, local_id: Any) -> Place:
    """The same for A of 8-bit elements."""
    return thread_id % 16, 16 * (thread_id // 16) + local_id % 16


def ldmatrix_16x32_to_shared_16x32_layout_b(thread_id: Any, local_id: Any) -> Place:
    """The same for B of 8-bit elements, whose rows are n."""
    return 8 * (thread_id // 16) + thread_id % 8, 16 * (thread_id // 8 % 2) + local_id % 16


ldmatrix_32x16_to_shared_16x32_layout_a = ldmatrix_16x32_to_shared_16x32_layout_a
ldmatrix_32x16_to_shared_16x32_layout_b = ldmatrix_16x32_to_shared_16x32_layout_b


class IndexMap:
    """A map of indices: `IndexMap.from_func(lambda i, j: …)`, applied by map_indices."""

    def __init__(self, func: Any) -> None:
        self.func = func

    @staticmethod
    def from_func(func: Any, ndim: int | None = None, **unused: Any) -> IndexMap:
        """The map that `func` computes."""
        return IndexMap(func)

    def map_indices(self, indices: Any) -> list[Any]:
        """The outputs for these indices."""
        found = self.func(*indices)
        return list(found) if isinstance(found, (list, tuple)) else [found]

    def as_layout(self, shape: Any) -> Layout:
        """The same map as a T.Layout over a shape."""
        return Layout(shape, self.func)
