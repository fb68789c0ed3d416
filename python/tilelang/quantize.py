"""Small packed integers: the helpers that kernels of quantised models import under these names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .dtypes import as_dtype
from .scalar import cast
from .trace import fail


def _check(storage_type: str, storage_nbit: int, num_bits: int) -> None:
    if storage_type not in ("int", "uint"):
        raise fail(f"packed integers are stored as 'int' or 'uint', not {storage_type!r}")
    if not 0 < num_bits <= storage_nbit:
        raise fail(f"an integer of {num_bits} bits is not part of one of {storage_nbit} bits")


def _tir_packed_to_unsigned_convert(storage_type: str = "uint", storage_nbit: int = 8) -> Callable:
    """convert(num_bits, value, pos, dtype): the integer number `pos` of those of num_bits bits that are
    packed in value, the lowest bits first, without sign, as dtype.

    storage_type, storage_nbit: of value, "int" or "uint" and its bits.
    """

    def convert(num_bits: int, value: Any, pos: Any, dtype: Any) -> Any:
        _check(storage_type, storage_nbit, num_bits)
        return cast((value >> (pos * num_bits)) & ((1 << num_bits) - 1), as_dtype(dtype))

    return convert


def _tir_packed_to_signed_convert(storage_type: str = "uint", storage_nbit: int = 8) -> Callable:
    """The same for integers that are stored with an offset of 2^(num_bits - 1): 0 is the least of them."""

    def convert(num_bits: int, value: Any, pos: Any, dtype: Any) -> Any:
        _check(storage_type, storage_nbit, num_bits)
        bits = (value >> (pos * num_bits)) & ((1 << num_bits) - 1)
        return cast(cast(bits, "int32") - (1 << (num_bits - 1)), as_dtype(dtype))

    return convert
