"""Where the elements of AMD's matrix instructions lie: (lane, register) of an element, and back.

A wave has 64 lanes.  Lane l holds of A (m×k) row l % m, of B (k×n) column l % n, and of each the `held`
elements of k from held·(l / m) on.  Of the sums lane l holds column l % n; register r of it is row 4·(l / 16)
+ r of 16×16, and row 8·(r / 4) + 4·(l / 32) + r % 4 of 32×32.  The kernels for these chips come with their
back end; the formulas serve layouts and tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..front.dtypes import as_dtype
from ..language.layout import make_swizzled_layout

Place = tuple[Any, Any]


def operand_place(rows: int, held: int, i: Any, k: Any) -> Place:
    """(lane, register) of an element of an operand; i along m or n."""
    return i + rows * (k // held), k % held


def operand_element(rows: int, held: int, lane: Any, register: Any) -> Place:
    """(along m or n, along k) of what a lane holds."""
    return lane % rows, held * (lane // rows) + register


def sum_place(size: int, i: Any, j: Any) -> Place:
    """(lane, register) of an element of the sums, 16×16 or 32×32."""
    if size == 16:
        return j + 16 * (i // 4), i % 4
    return j + 32 * (i // 4 % 2), 4 * (i // 8) + i % 4


def sum_element(size: int, lane: Any, register: Any) -> Place:
    """(row, column) of what a lane holds of the sums."""
    if size == 16:
        return 4 * (lane // 16) + register, lane % 16
    return 8 * (register // 4) + 4 * (lane // 32) + register % 4, lane % 32


def _add(name: str, function: Callable[[Any, Any], Place], back: bool, turned: bool, doc: str) -> None:
    if back:

        def made(thread_id: Any, local_id: Any) -> Place:
            found = function(thread_id, local_id)
            return found[::-1] if turned else found
    else:

        def made(i: Any, j: Any) -> Place:
            return function(*((j, i) if turned else (i, j)))

    made.__name__ = made.__qualname__ = name
    made.__doc__ = doc
    globals()[name] = made
    __all__.append(name)


__all__ = [
    "get_mma_micro_size",
    "make_mfma_swizzle_layout",
    "mfma_store_index_map",
    "mfma_store_index_map_32x32",
    "shared_16x16_to_ldmatrix_64x4_layout",
]

for _m, _k in ((16, 4), (16, 16), (16, 32), (16, 64), (32, 32)):
    _held = _m * _k // 64
    _shapes = (f"{_m}x{_k}", f"{_k}x{_m}" if _k == 4 else f"{_m}x{_k}")
    for _x, _shape in zip("AB", _shapes, strict=True):
        _rows_of_k = _x == "B"  # a tile of B is (k, n)
        _add(
            f"shared_{_shape}_to_local_64x{_held}_layout_{_x}",
            lambda i, k, m=_m, held=_held: operand_place(m, held, i, k),
            False,
            _rows_of_k,
            f"Which lane holds an element of {_x}.",
        )
        _add(
            f"thread_id_shared_access_64x{_held}_to_{_shape}_layout_{_x}",
            lambda t, r, m=_m, held=_held: operand_element(m, held, t, r),
            True,
            _rows_of_k,
            f"What a lane holds of {_x}.",
        )
for _size, _held in ((16, 4), (32, 16)):
    _add(
        f"shared_{_size}x{_size}_to_local_64x{_held}_layout_C",
        lambda i, j, size=_size: sum_place(size, i, j),
        False,
        False,
        "Which lane holds an element of the sums.",
    )
    for _suffix, _turned in (("m_n", False), ("n_m", True)):
        _add(
            f"thread_id_shared_access_64x{_held}_to_{_size}x{_size}_layout_C_{_suffix}",
            lambda t, r, size=_size: sum_element(size, t, r),
            True,
            _turned,
            f"What a lane holds of the sums{', as (column, row)' if _turned else ''}.",
        )
for _suffix, _turned, _sums in (
    ("m_n", False, True),
    ("n_m", True, True),
    ("n_k", False, False),
    ("k_n", True, False),
):
    _add(
        f"shared_16x16_to_local_64x4_layout_{_suffix}",
        (lambda i, j: sum_place(16, i, j)) if _sums else (lambda i, j: operand_place(16, 4, i, j)),
        False,
        _turned,
        f"Which lane holds an element of {'the sums' if _sums else 'B'}, whose indices are "
        f"{_suffix.replace('_', ', ')}.",
    )


def mfma_store_index_map(thread_id: Any, local_id: Any) -> Place:
    """(row, column) of what a lane holds of 16×16 sums."""
    return sum_element(16, thread_id, local_id)


def mfma_store_index_map_32x32(thread_id: Any, local_id: Any) -> Place:
    """(row, column) of what a lane holds of 32×32 sums."""
    return sum_element(32, thread_id, local_id)


def shared_16x16_to_ldmatrix_64x4_layout(ind: Any) -> Place:
    """The element of A from which lane ind[0] loads its four, ind[1] elements on."""
    return operand_element(16, 4, *ind)


def get_mma_micro_size(dtype: Any) -> tuple[int, int, int]:
    """(m, n, k) of the instruction for elements of that dtype: k is 16 for 16 bits, 32 for 8, 4 for 32."""
    return 16, 16, {32: 4, 16: 16, 8: 32}[as_dtype(dtype).bits]


def make_mfma_swizzle_layout(shared_buf: Any, vecSize: int = 8) -> Any:
    """A layout of a shared tile that reads of its rows, vecSize elements at a time, find free of bank
    conflicts, as make_swizzled_layout gives it."""
    return make_swizzled_layout(shared_buf)
