"""Where the elements of a matrix instruction's operands lie: (thread, register) of an element, and back.

A warp's thread t = 4 g + q holds, of a 16-row operand, rows g and g + 8 and in each of them the 32 bits that
begin at byte 4 q of every 16.  The functions compute with integers and with values of a kernel alike.  Names
say the tile's shape and what a thread holds of it: 16×16 elements of 16 bits are 8 for each of 32 threads.
`sr` is a tile whose columns are the gemm's k, `rs` one whose rows are; `a` and `b` differ in the order of
their 8×8 blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..front.offered import named
from ..front.trace import fail
from .maps import Layout

Place = tuple[Any, Any]


def operand_place(bits: int, i: Any, k: Any, is_b: bool = False) -> Place:
    """(thread, register) of the element of a 16-row operand, i along m or n; of 4 to 32 bits."""
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

    def element(thread_id: Any, local_id: Any) -> Place:
        found = operand_element(bits, thread_id, local_id, is_b)
        return found[::-1] if k_first else found

    return element if back else place


def _name(function: Callable, name: str, doc: str) -> None:
    globals()[name] = named(function, name, doc)


# Bits of an element -> for A and B: the shape of the tile, the same with k first, the registers of a thread.
_SHAPES = {16: (("16x16", "16x16", 8),) * 2, 8: (("16x32", "32x16", 16),) * 2, 32: (("16x8", "16x8", 4),) * 2,
           4: (("16x64", "64x16", 32), ("8x64", "64x8", 16))}  # fmt: skip
_NAMES = (  # of one function; whether it says what a thread holds; whether its rows run along k
    (
        "shared_{shape}_to_mma_32x{held}_layout_sr_{x} shared_{shape}_to_mma_{x}_32x{held}_layout",
        False,
        False,
    ),
    (
        "shared_{shape}_to_mma_32x{held}_layout_rs_{x} shared_{turned}_to_mma_{x}_32x{held}_layout_trans",
        False,
        True,
    ),
    ("mma_load_{x}_32x{held}_to_shared_{shape}_layout", True, False),
)
for _bits, _operands in _SHAPES.items():
    for _x, (_shape, _turned, _held) in zip("ab", _operands, strict=True):
        for _names, _back, _turn in _NAMES:
            for _one in _names.format(shape=_shape, turned=_turned, held=_held, x=_x).split():
                _name(
                    _of(_bits, _x == "b", _turn, _back),
                    _one,
                    f"{'What a thread holds' if _back else 'Which lane holds an element'} of {_x.upper()}, "
                    f"{_bits} bits each{', its rows along k' if _turn else ''}.",
                )
shared_16x16_to_mma_32x8_layout = _of(16, False, False, False)
shared_16x32_to_mma_32x16_layout = _of(8, False, False, False)
shared_32x16_to_mma_32x16_layout = _of(8, True, True, False)


def mma_store_32x8_to_shared_16x16_layout(thread_id: Any, local_id: Any) -> Place:
    """(row, column) of what a thread holds in a register of the accumulator."""
    return sum_element(thread_id, local_id)


mma_32x8_to_shared_16x16_layout = mma_store_32x8_to_shared_16x16_layout


def mma_store_32x2_to_shared_8x8_layout_fp64(thread_id: Any, local_id: Any) -> Place:
    """The same for the accumulator of 8×8 doubles."""
    return thread_id // 4, 2 * (thread_id % 4) + local_id


def _smooth(columns: int, held: int) -> Callable[[Any, Any], Place]:
    def place(i: Any, j: Any) -> Place:
        return (i * columns + j) // held, j % held

    return place


for _one, _columns, _held in (
    ("16x16_to_mma_32x8", 16, 8),
    ("16x32_to_mma_32x16", 32, 16),
    ("32x16_to_mma_32x16", 16, 16),
):
    _name(
        _smooth(_columns, _held),
        f"shared_{_one}_smoothlayout",
        "Elements in row-major order, thread by thread.",
    )


def _rows(across: int, is_b: bool, trans: bool = False, alone: bool = False) -> Callable:
    """The element at which a thread's row of 16 bytes begins, for ldmatrix.x4; `across`: elements a row."""

    def begins(thread_id: Any, local_id: Any = 0) -> Place:
        row, low, high = thread_id % 8, thread_id // 8 % 2, thread_id // 16
        outer, inner = (high, low) if is_b else (low, high)  # B's blocks go along k first, A's along m
        if trans:
            return across * inner + row, 8 * outer + local_id % across
        return 8 * outer + row, across * inner + local_id % across

    return (lambda thread_id: begins(thread_id)) if alone else begins


_ROWS = {
    "32x8_to_shared_16x16_layout": (8, False), "trans_32x8_to_shared_16x16_layout": (8, False, True),
    "16x32_to_shared_16x32_layout_a": (16, False), "16x32_to_shared_16x32_layout_b": (16, True),
    "32x16_to_shared_16x32_layout_a": (16, False), "32x16_to_shared_16x32_layout_b": (16, True),
    "32x4_to_shared_16x8_layout_a": (4, False), "32x4_to_shared_16x8_layout_b": (4, True),
    "32x32_to_shared_16x64_layout_a": (32, False, False, True),
    "32x32_to_shared_16x64_layout_b": (32, True, False, True),
}  # fmt: skip
for _one, _how in _ROWS.items():
    _name(
        _rows(*_how),
        f"ldmatrix_{_one}",
        "The element from which a thread's row begins, for ldmatrix.x4"
        f"{'.trans' if len(_how) == 3 and _how[2] else ''}; local_id counts on from there.",
    )


def ldmatrix_32x16_to_shared_8x64_layout_b(thread_id: Any) -> Place:
    """The same for ldmatrix.x2, B of 4-bit elements."""
    return thread_id % 8, 32 * (thread_id // 8 % 2)


class IndexMap:
    """A map of indices: `IndexMap.from_func(lambda i, j: …)`, applied by map_indices."""

    def __init__(
        self, initial_indices: Any, final_indices: Any = None, inverse_index_map: Any = None
    ) -> None:
        if not callable(initial_indices):
            raise fail(
                "IndexMap: give the map as a function of the indices, IndexMap.from_func(lambda i, j: …)"
            )
        self.func = initial_indices

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
